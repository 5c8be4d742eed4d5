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
#ifndef RC_BACKEND_CPU_FAST_WINOGRAD_H
#define RC_BACKEND_CPU_FAST_WINOGRAD_H

#include "backend/cpu/fast/band.h"
#include "backend/cpu/fast/conv_plan.h"
#include "backend/cpu/fast/tile.h"

enum { WINOGRAD_ELEMENTS = 16 };

/* Whether it applies and pays: transforming costs as much as multiplying with so many channels. */
bool RC_FAST(winograd_fits)(const tap_geometry *taps, int in_cp, int out_cp);

/* Fills packed (output block, element, in, out of the block) with G g G^T. */
void RC_FAST(pack_winograd)(rc_cpu *cpu, const conv_plan *plan, const float *weight, float *packed);

/* The three steps, on plan->tiles_floats of workspace. Tiles are numbered from `tile` on; the rows [first, last) are
 * output rows, first is even, and the band holds the input rows that they need.
 * start (out channels, padded): what the sums start from; NULL: from what out (out_h, out_w, out_cp) holds. */
void RC_FAST(winograd_inputs)(const conv_plan *plan, const band *band, int first, int last, int tile, float *workspace);
void RC_FAST(winograd_multiply)(const conv_plan *plan, const float *packed, int tiles, float *workspace);
void RC_FAST(winograd_outputs)(const conv_plan *plan, const float *start, float *out, int first, int last, int tile,
                               const float *workspace);
size_t RC_FAST(winograd_floats)(const conv_plan *plan);

/* Where element (i, j) of a tile lies: at i * row + j * column + tile * tile, and its vectors of channels `vector`
 * apart. Where the tiles take fours that lie apart, the elements of a row lie side by side, so that whole cache lines
 * are stored: to 16 lines in turn it would take twice the time. */
typedef struct element_layout {
    ptrdiff_t row, column, tile, vector;
} element_layout;

/* For (blocks, tiles, channels of a block); `all` are the channels of all blocks, rounded up to whole vectors. */
static inline element_layout lay_out_elements(int tiles, int all, int channels)
{
    enum { LINE = 16 }; /* a line more, so that rows do not share places in the cache */
    if (TILE_FOURS)
        return (element_layout){(ptrdiff_t)tiles * all * 4 + LINE, RC_LANES, (ptrdiff_t)channels * 4, 4 * RC_LANES};
    ptrdiff_t plane = (ptrdiff_t)tiles * all + LINE;
    return (element_layout){4 * plane, plane, channels, RC_LANES};
}

/* Where block number b begins, if blocks have `block` channels. */
static inline ptrdiff_t element_block(int tiles, int block, int b)
{
    return (ptrdiff_t)b * block * tiles * (TILE_FOURS ? 4 : 1);
}

static inline size_t element_floats(int tiles, int all)
{
    enum { SLACK = 64 }; /* whole vectors reach beyond the end */
    return (size_t)(4 * lay_out_elements(tiles, all, all).row) + SLACK;
}

/* B^T d B for one row of tiles: 4 rows of pixels from `row`, `pixel` and `width` floats apart, `channels` of them.
 * Whole vectors are read and written. */
void RC_FAST(transform_inputs)(const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels, float *to,
                               const element_layout *layout);
/* A dy A^T in the same way, of 2 rows of pixels; but with 1 in place of the -1 in the last row of A. */
void RC_FAST(transform_gradients)(const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels,
                                  float *to, const element_layout *layout);
/* G^T m G, with -1 in place of the 1 in the last row of G: 16 elements to 9 taps, `plane` floats apart each, for
 * `count` numbers side by side. */
void RC_FAST(winograd_taps)(const float *m, size_t plane, int count, float *taps);

#endif
