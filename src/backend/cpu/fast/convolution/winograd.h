/* Winograd's F(2 x 2, 3 x 3): a 3 x 3 convolution of step 1 with 16 multiplications for 4 outputs instead of 36.
 *
 * A tile is 2 x 2 outputs and the 4 x 4 inputs d that they read. With g the kernel,
 *     outputs = A^T [ (G g G^T) * (B^T d B) ] A          * multiplies element by element
 * where
 *     B^T = 1  0 -1  0     G =  1   0   0     A^T = 1  1  1  0
 *           0  1  1  0         1/2 1/2 1/2          0  1 -1 -1
 *           0 -1  1  0         1/2 -1/2 1/2
 *           0  1  0 -1          0   0   1
 * Channels are summed inside the brackets, so that for each of the 16 elements there is a matrix product
 * (tiles, in) x (in, out), and it runs on the tiles of tile.h. The gradient of the weights is what the chain rule makes
 * of the formula: G^T [ sum over tiles of (A dy A^T) * (B^T d B) ] G.
 *
 * All coefficients are 1 or 1/2: the rounding error stays that of a direct convolution, about twice as large. Larger
 * tiles would save more multiplications and lose digits. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_WINOGRAD_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_WINOGRAD_H

#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/conv_plan.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

enum { WINOGRAD_ELEMENTS = 16 };

/* Does it apply, and does it pay? Transforming costs as much as multiplying with this many channels. */
bool RC_FAST(winograd_fits)(const tap_geometry *taps, int in_cp, int out_cp);

/* What fills packed (output block, element, in, out of the block) with G g G^T. */
rc_phase RC_FAST(pack_winograd)(pack_job *job);

/* The three steps, on winograd_floats() of workspace: for each row i of the elements inputs are transformed and
 * multiplied, so that they stay in the first cache; then all products are transformed. Tiles are numbered from `tile`
 * on; the rows [first, last) are output rows, first is even, and the band holds the input rows that they need.
 * start (out channels, padded): what the sums start from; NULL: from what out (out_h, out_w, out_cp) holds. */
void RC_FAST(winograd_inputs)(const conv_plan *plan, const row_band *band, int first, int last, int tile, int i,
                              float *workspace);
void RC_FAST(winograd_multiply)(const conv_plan *plan, const float *packed, int tiles, int i, float *workspace);
void RC_FAST(winograd_outputs)(const conv_plan *plan, const float *start, float *out, int first, int last, int tile,
                               const float *workspace);
size_t RC_FAST(winograd_floats)(const conv_plan *plan);

/* Where element j of a row of elements lies: at j * column + tile * tile, and its channels in chunks of TILE_CHUNK that
 * are `chunk` apart. Where the tiles take fours that lie apart, the elements of a row lie side by side, so that whole
 * cache lines are stored: to several lines in turn it would take twice the time. Elsewhere tiles lie side by side, at a
 * distance that the compiler knows. */
typedef struct element_layout {
    ptrdiff_t column, tile, chunk;
} element_layout;

/* For (blocks, tiles, channels of a block); `all` are the channels of all blocks. Whole vectors are stored, so both are
 * rounded up to them: a tile must not reach into the next. */
static inline element_layout lay_out_elements(int tiles, int all, int channels)
{
    enum { LINE = 16 }; /* a line more, so that elements do not share places in the cache */
    if (TILE_FOURS)
        return (element_layout){RC_LANES, (ptrdiff_t)4 * round_up(channels, RC_LANES), 4 * RC_LANES};
    return (element_layout){(ptrdiff_t)tiles * round_up(all, TILE_CHUNK) + LINE, TILE_CHUNK,
                            (ptrdiff_t)tiles * TILE_CHUNK};
}

/* Where channel c of a tile lies. */
static inline ptrdiff_t element_channel(const element_layout *layout, int c)
{
    return c / TILE_CHUNK * layout->chunk + c % TILE_CHUNK;
}

/* Where block number b begins, if blocks have `block` channels. */
static inline ptrdiff_t element_block(int tiles, int block, int b)
{
    return (ptrdiff_t)b * block * tiles * (TILE_FOURS ? 4 : 1);
}

/* A row of elements. */
static inline size_t element_floats(int tiles, int all)
{
    enum { SLACK = 128 }; /* lines between elements, and whole vectors reach beyond the end */
    return 4 * (size_t)tiles * (size_t)round_up(all, TILE_CHUNK) + SLACK;
}

/* Row i of B^T d B for one row of tiles: 4 rows of pixels from `row`, `pixel` and `width` floats apart, `channels` of
 * them. Whole vectors are read and written. */
void RC_FAST(transform_inputs)(int i, const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels,
                               float *to, const element_layout *layout);
/* Row i of A dy A^T in the same way, of 2 rows of pixels; but with 1 in place of the -1 in the last row of A. */
void RC_FAST(transform_gradients)(int i, const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels,
                                  float *to, const element_layout *layout);
/* G^T m G, with -1 in place of the 1 in the last row of G: 16 elements to 9 taps, `plane` floats apart each, for
 * `count` numbers side by side. */
void RC_FAST(winograd_taps)(const float *m, size_t plane, int count, float *taps);

#endif
