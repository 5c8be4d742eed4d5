/* Dense layers on reals: heads and projections. y (n, out) = x (n, in) weight^T (out, in) + bias. */
#include <string.h>

#include "backend/cpu/fast/product.h"

typedef struct dense_weights {
    const float *weight, *bias;
    int in;
} dense_weights;

static void pack_forward(const void *context, int first_depth, int depth, int segment, int column, int columns,
                         int width, float *to, float *start)
{
    (void)segment;
    const dense_weights *w = context;
    const float *from = w->weight + (size_t)column * (size_t)w->in + first_depth;
    RC_FAST(pack_transposed)(from, (size_t)w->in, depth, columns, width, to);
    for (int j = 0; start && j < width; j++)
        start[j] = w->bias && j < columns ? w->bias[column + j] : 0;
}

static void pack_backward(const void *context, int first_depth, int depth, int segment, int column, int columns,
                          int width, float *to, float *start)
{
    (void)segment;
    const dense_weights *w = context;
    for (int d = 0; d < depth; d++, to += width) {
        memcpy(to, w->weight + (size_t)(first_depth + d) * (size_t)w->in + column, (size_t)columns * sizeof(float));
        memset(to + columns, 0, (size_t)(width - columns) * sizeof(float));
    }
    if (start)
        memset(start, 0, (size_t)width * sizeof(float));
}

static void dense_forward(rc_backend *table, int n, int in, int out, const void *x, const void *weight,
                          const void *bias, void *y, int y_stride)
{
    dense_weights weights = {weight, bias, in};
    product p = {.cpu = rc_cpu_of(table), .a = x, .a_row = in, .rows = n, .depth = in, .c = y, .c_row = y_stride,
                 .segments = 1, .columns = out, .pack = pack_forward, .context = &weights};
    RC_FAST(product)(&p);
}

static void dense_backward_data(rc_backend *table, int n, int in, int out, const void *dy, int dy_stride,
                                const void *weight, void *dx, bool add)
{
    dense_weights weights = {weight, NULL, in};
    product p = {.cpu = rc_cpu_of(table), .a = dy, .a_row = dy_stride, .rows = n, .depth = out, .c = dx, .c_row = in,
                 .segments = 1, .columns = in, .add = add, .pack = pack_backward, .context = &weights};
    RC_FAST(product)(&p);
}

static void dense_backward_weight(rc_backend *table, int n, int in, int out, const void *x, const void *dy,
                                  int dy_stride, void *dweight, void *dbias, bool add)
{
    rc_cpu *cpu = rc_cpu_of(table);
    outer_product p = {.cpu = cpu, .count = n, .a = dy, .a_row = dy_stride, .segments = 1, .outs = out, .b = x,
                       .b_row = in, .ins = in, .packed_b = cpu->shared, .d = dweight, .d_out = (size_t)in,
                       .sums = dbias, .sums_out = 1, .add = add};
    RC_FAST(outer_product)(&p);
}

static rc_status reserve_dense(rc_backend *table, int n, int in, int out)
{
    (void)out;
    return rc_cpu_reserve(rc_cpu_of(table), RC_FAST(outer_packed_floats)(n, in) * sizeof(float),
                          RC_FAST(product_scratch)(n) * sizeof(float));
}

void RC_FAST(fill_dense)(rc_backend *table)
{
    table->reserve_dense = reserve_dense;
    table->dense_forward = dense_forward;
    table->dense_backward_data = dense_backward_data;
    table->dense_backward_weight = dense_backward_weight;
}
