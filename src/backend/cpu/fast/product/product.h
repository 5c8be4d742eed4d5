/* Matrix products for linear and dense layers, on the tiles of the convolution.
 *
 *     product        c (rows, columns) = a (rows, depth) b (depth, columns)   [+ start, or + c]
 *     outer_product  d (outs, ins)     = a (count, outs)^T b (count, ins)     [+ d]
 *
 * Columns come in segments, which is how a linear layer writes a map (h, w, c) whose weights are ordered (c, h, w): a
 * segment is a pixel, and whoever knows the order hands in a function that packs b, or says where a row of d lies. */
#ifndef RC_BACKEND_CPU_FAST_PRODUCT_PRODUCT_H
#define RC_BACKEND_CPU_FAST_PRODUCT_PRODUCT_H

#include "backend/cpu/fast/isa.h"

/* Fills to (depth, width) with b[first_depth ...][segment, column ...]: `columns` of them, zeros up to the width; and
 * start (width), if it is not NULL, with what the sums start from. */
typedef void pack_columns(const void *context, int first_depth, int depth, int segment, int column, int columns,
                          int width, float *to, float *start);

typedef struct product {
    rc_cpu *cpu;
    const float *a; /* (rows, depth) */
    ptrdiff_t a_row;
    int rows, depth;
    float *c; /* (rows, segments, columns) */
    ptrdiff_t c_row, c_segment;
    int segments, columns;
    bool add; /* to what c holds */
    pack_columns *pack;
    const void *context;
} product;

void RC_FAST(product)(const product *p);

typedef struct outer_product {
    rc_cpu *cpu;
    int count;
    const float *a; /* (count, segments, outs) */
    ptrdiff_t a_row, a_segment;
    int segments, outs;
    const float *b; /* (count, ins) */
    ptrdiff_t b_row;
    int ins;
    float *packed_b; /* outer_packed_floats() */
    float *d;        /* the row of (segment, out) begins at segment * d_segment + out * d_out */
    size_t d_segment, d_out;
    float *sums; /* (outs and segments in the order of d's rows): sums of a's columns; NULL: not wanted */
    size_t sums_segment, sums_out;
    bool add;
} outer_product;

void RC_FAST(outer_product)(const outer_product *p);
size_t RC_FAST(outer_packed_floats)(int count, int ins);

/* Scratch floats of a worker, for either of them. */
size_t RC_FAST(product_scratch)(int count);

/* Packs a matrix whose columns are rows in memory: to[d][j] = from[j * stride + d]. */
void RC_FAST(pack_transposed)(const float *from, size_t stride, int depth, int columns, int width, float *to);

/* Weights (out, in) of a dense layer. */
typedef struct dense_weights {
    const float *weight, *bias; /* bias (out); NULL: none */
    int in, out;
} dense_weights;

/* Columns are outputs, depth counts inputs: forward. Beyond `out` there are zeros. */
pack_columns RC_FAST(pack_outputs);
/* Columns are inputs, depth counts outputs: backward. */
pack_columns RC_FAST(pack_inputs);

#endif
