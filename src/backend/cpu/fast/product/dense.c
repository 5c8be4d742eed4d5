/* Dense layers on reals: heads and projections. y (n, out) = x (n, in) weight^T (out, in) + bias. */
#include "backend/cpu/fast/product/product.h"

static void dense_forward(rc_backend *table, int n, int in, int out, const void *x, const void *weight,
                          const void *bias, void *y, int y_stride)
{
    dense_weights weights = {weight, bias, in, out};
    product p = {.cpu = rc_cpu_of(table),
                 .a = x,
                 .a_row = in,
                 .rows = n,
                 .depth = in,
                 .c = y,
                 .c_row = y_stride,
                 .segments = 1,
                 .columns = out,
                 .pack = RC_FAST(pack_outputs), .context = &weights};
    RC_FAST(product)(&p);
}

static void dense_backward_data(rc_backend *table, int n, int in, int out, const void *dy, int dy_stride,
                                const void *weight, void *dx, bool add)
{
    dense_weights weights = {weight, NULL, in, out};
    product p = {.cpu = rc_cpu_of(table),
                 .a = dy,
                 .a_row = dy_stride,
                 .rows = n,
                 .depth = out,
                 .c = dx,
                 .c_row = in,
                 .segments = 1,
                 .columns = in,
                 .add = add,
                 .pack = RC_FAST(pack_inputs), .context = &weights};
    RC_FAST(product)(&p);
}

static void dense_backward_weight(rc_backend *table, int n, int in, int out, const void *x, const void *dy,
                                  int dy_stride, void *dweight, void *dbias, bool add)
{
    rc_cpu *cpu = rc_cpu_of(table);
    outer_product p = {.cpu = cpu,
                       .count = n,
                       .a = dy,
                       .a_row = dy_stride,
                       .segments = 1,
                       .outs = out,
                       .b = x,
                       .b_row = in,
                       .ins = in,
                       .packed_b = cpu->shared,
                       .d = dweight,
                       .d_out = (size_t)in,
                       .sums = dbias,
                       .sums_out = 1,
                       .add = add};
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
