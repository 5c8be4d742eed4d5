/* Row loaders: where a lazy tensor becomes numbers.
 *
 * A convolution never reads a tensor, it reads rows that a loader has put into the worker's scratch: finished values
 * act(raw * scale + shift + skip), or finished gradients a * dz + b * raw + c. The loader is also the place where a
 * value is stored for later readers, and the epilogues are built from the same pieces: `apply` is a row loaded in
 * place, the sums of batch normalisation's backward pass are rows of gradients added up instead of written.
 *
 * Channels are worked on in chunks of 16 (one cache line of a pixel) that stay in registers over all pixels of a row,
 * and the rest in fours. */
#ifndef RC_BACKEND_CPU_FAST_LOAD_H
#define RC_BACKEND_CPU_FAST_LOAD_H

#include "backend/cpu/fast/isa.h"

enum { CHUNK = 16 };

/* One image of a lazy tensor. */
typedef struct value_source {
    int h, w, c, cp;
    rc_act act;
    const float *raw;           /* (h, w, cp) */
    const float *value;         /* (h, w, cp) finished; NULL: it has to be computed */
    const float *scale, *shift; /* (cp); NULL: none */
    const float *mean;          /* (cp); NULL: none */
    const float *skip;          /* (h * skip_stride, skip_w, skip_cp); NULL: none */
    int skip_w, skip_c, skip_cp, skip_stride, skip_offset;
    float *skip_row; /* (w, cp): a strided or shifted skip is spread out here, row by row */
    float *store;    /* (h, w, cp): where finished values go; NULL: nowhere */
} value_source;

/* One image of a lazy gradient. */
typedef struct gradient_source {
    value_source y;
    const float *g;         /* (h, w, cp) */
    const float *a, *b, *c; /* (cp); NULL: dL/draw = dz */
} gradient_source;

/* Scratch floats that a source needs for skip_row; 0: none. */
size_t RC_FAST(skip_row_floats)(const rc_tensor *t, int cp);

value_source RC_FAST(value_source)(const rc_tensor *t, int cp, int image, float *skip_row);
gradient_source RC_FAST(gradient_source)(const rc_grad *dy, int cp, int image, float *skip_row);

/* Channels [first, last) of the rows [row, row + rows), to (rows, w, last - first) with these floats from pixel to
 * pixel and from row to row. Pixels are written from left to right, and with 4 channels to load they may overlap:
 * to_pixel is then less than 4. The source's store gets the values, too. */
void RC_FAST(load_value_rows)(const value_source *x, int row, int rows, int first, int last, float *to, int to_pixel,
                              ptrdiff_t to_row);
void RC_FAST(load_gradient_rows)(const gradient_source *dy, int row, int rows, int first, int last, float *to,
                                 int to_pixel, ptrdiff_t to_row);

RC_INLINE void load_value_row(const value_source *x, int row, int first, int last, float *to, int to_pixel)
{
    RC_FAST(load_value_rows)(x, row, 1, first, last, to, to_pixel, 0);
}

RC_INLINE void load_gradient_row(const gradient_source *dy, int row, int first, int last, float *to, int to_pixel)
{
    RC_FAST(load_gradient_rows)(dy, row, 1, first, last, to, to_pixel, 0);
}

/* Adds to sums (2, cp) those of y - center and of its square, over `pixels` pixels and the channels [first, last).
 * center is (cp). */
void RC_FAST(sum_values)(const float *y, int cp, int pixels, int first, int last, const float *center, double *sums);
/* Adds to sums (2, cp) those of dz and of dz * (raw - mean), over the rows [row, row + rows). */
void RC_FAST(sum_gradients)(const gradient_source *dy, int row, int rows, int first, int last, double *sums);

#endif
