/* Register tiles: the two inner loops that all convolutions, linear and dense layers run in.
 *
 * tile_row    y[p][:] (+)= sum over tap rows r and floats f of x[p * x_pixel + r * x_row + f] * w[r][f][:]
 *             A tile holds pixels x vectors sums in registers. Channels lie in the lanes of a vector, so nothing is
 *             ever summed across lanes.
 * tile_outer  d[i][:] += sum over images, rows and pixels of a[...][i] * b[...][:]
 *             The same for weight gradients: scalars of a x vectors of b, over all pixels of a band.
 *
 * Neither knows about borders: x points into a band that has them. */
#ifndef RC_BACKEND_CPU_FAST_PRODUCT_TILE_H
#define RC_BACKEND_CPU_FAST_PRODUCT_TILE_H

#include "backend/cpu/fast/isa.h"

/* Vectors that a tile has at most. A fused multiply-add takes 4 cycles; to keep 4 (NEON) or 2 (x86) units busy a tile
 * needs 16 or 8 sums that do not wait for each other, and as few loads as possible beside them. */
#if defined(__aarch64__)
enum { TILE_VECTORS = 4, TILE_FOURS = 1, TILE_CHUNK = 4 }; /* of a, fours may lie apart, too */
#else
enum { TILE_VECTORS = 2, TILE_FOURS = 0, TILE_CHUNK = 16 };
#endif
enum { TILE_WIDTH = TILE_VECTORS * RC_LANES, OUTER_VECTORS = 2, OUTER_WIDTH = OUTER_VECTORS * RC_LANES };

/* One row of output pixels, `width` channels of it: the packed weights are that wide. */
typedef struct tile_row {
    const float *x;           /* what the first tap of the first pixel reads */
    ptrdiff_t x_pixel, x_row; /* floats from output pixel to output pixel, from tap row to tap row */
    int rows, run;            /* tap rows, and the floats of x that each of them covers */
    ptrdiff_t x_chunk;        /* floats from TILE_CHUNK of them to the next; without TILE_FOURS they may lie apart only
                                 where pixels are TILE_CHUNK floats apart: that is a form of its own, and faster */
    const float *w;           /* (rows, run, width) */
    const float *start;       /* (width) the sums start from; NULL: from what y holds */
    float *y;
    ptrdiff_t y_pixel;
    int pixels;
    int width;    /* a multiple of the lanes, at most TILE_WIDTH */
    int channels; /* of these are read and written in y: at most width */
    /* What is done with the sums, if anything is: scale and shift (width), NULL: nothing; then they are cut off below
     * and above (vec_cut_off). Only where channels == width. */
    bool finish;
    const float *scale, *shift;
    float low, high;
    int batch; /* the same so many times, this much further each time: */
    ptrdiff_t x_batch, w_batch, y_batch;
} tile_row;

void RC_FAST(tile_row)(const tile_row *row);

/* A block of weight gradients. */
typedef struct tile_outer {
    const float *a; /* (images, rows, pixels, scalars) by these strides */
    ptrdiff_t a_four, a_pixel, a_row, a_image;
    const float *b; /* (images, rows, pixels, width) by these strides */
    ptrdiff_t b_vector, b_pixel, b_row, b_image;
    int images, rows, pixels;
    float *d;    /* (scalars, width) */
    bool add;    /* to what d holds */
    int scalars; /* what outer_scalars() said */
    int width;   /* a multiple of the lanes, at most OUTER_WIDTH */
} tile_outer;

void RC_FAST(tile_outer)(const tile_outer *outer);

/* How wide the block is that begins `channels` before the end, when blocks are `widest`. */
static inline int tile_width(int channels, int widest)
{
    int width = (channels + RC_LANES - 1) / RC_LANES * RC_LANES;
    return width < widest ? width : widest;
}

/* How many scalars the next tile takes when `left` are left. It may be more: the rest is computed and ignored. */
static inline int outer_scalars(int left, int width)
{
    if (left <= 4)
        return 4;
#if defined(__aarch64__)
    if (width > RC_LANES)
        return left > 8 && left <= 12 ? 12 : 8;
    return left > 8 ? 16 : 8;
#elif defined(__AVX512F__)
    if (width > RC_LANES)
        return left == 12 || left % 12 == 0 ? 12 : 8;
    return left > 8 ? 16 : 8;
#else
    return width > RC_LANES ? 4 : 8;
#endif
}

#endif
