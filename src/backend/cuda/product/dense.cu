/* Dense layers on reals: y (n, out) = x (n, in) weight^T (out, in) + bias. */
#include "backend/cuda/product/product.cuh"
#include "backend/cuda/product/product.h"

/* ---- products of plain matrices --------------------------------------------------------------------------------- */

template <typename A>
static void product_with(rc_cuda *cuda, const char *operation, int m, int n, int depth, A a, rc_cuda_matrix b, float *c)
{
    row_source rows = {b.data, b.row};
    column_source columns = {b.data, b.column};
    real_store store = {c, n, NULL, false};
    if (b.column == 1)
        launch_product(cuda, operation, m, n, depth, a, rows, store);
    else
        launch_product(cuda, operation, m, n, depth, a, columns, store);
}

void rc_cuda_product(rc_cuda *cuda, const char *operation, int m, int n, int depth, rc_cuda_matrix a, rc_cuda_matrix b,
                     float *c)
{
    row_source rows = {a.data, a.row};
    column_source columns = {a.data, a.column};
    if (cuda->bf16 && rc_cuda_product_staged(cuda, operation, m, n, depth, a, b, c))
        return;
    if (cuda->bf16)
        rc_cuda_product_mma(cuda, operation, m, n, depth, a, b, c);
    else if (a.column == 1)
        product_with(cuda, operation, m, n, depth, rows, b, c);
    else
        product_with(cuda, operation, m, n, depth, columns, b, c);
}

/* ---- dense layers ----------------------------------------------------------------------------------------------- */

static rc_status reserve_dense(rc_backend *, int, int, int)
{
    return RC_OK;
}

static void dense_forward(rc_backend *be, int n, int in, int out, const void *x, const void *weight, const void *bias,
                          void *y, int y_stride)
{
    row_source rows = {(const float *)x, in}, weights = {(const float *)weight, in};
    real_store store = {(float *)y, y_stride, (const float *)bias, false};
    launch_product(rc_cuda_of(be), "dense_forward", n, out, in, rows, weights, store);
}

/* dx (n, in) = dy (n, out) weight (out, in) */
static void dense_backward_data(rc_backend *be, int n, int in, int out, const void *dy, int dy_stride,
                                const void *weight, void *dx, bool add)
{
    row_source rows = {(const float *)dy, dy_stride};
    column_source weights = {(const float *)weight, in};
    real_store store = {(float *)dx, in, NULL, add};
    launch_product(rc_cuda_of(be), "dense_backward_data", n, in, out, rows, weights, store);
}

enum { BIAS_ROWS = 8 };

/* Block: 32 outputs, BIAS_ROWS threads over the samples of each. */
__global__ static void bias_kernel(int n, int out, const float *dy, int dy_stride, float *dbias, bool add)
{
    begin_after_kernel_before();
    __shared__ float space[BIAS_ROWS][32];
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32, o = (int)blockIdx.x * 32 + lane;
    float sum = 0;
    for (int b = row; b < n && o < out; b += BIAS_ROWS)
        sum += dy[(size_t)b * dy_stride + o];
    space[row][lane] = sum;
    __syncthreads();
    if (row != 0 || o >= out)
        return;
    sum = add ? dbias[o] : 0;
    for (int r = 0; r < BIAS_ROWS; r++)
        sum += space[r][lane];
    dbias[o] = sum;
}

/* dweight (out, in) = dy^T (out, n) x (n, in) */
static void dense_backward_weight(rc_backend *be, int n, int in, int out, const void *x, const void *dy, int dy_stride,
                                  void *dweight, void *dbias, bool add)
{
    rc_cuda *cuda = rc_cuda_of(be);
    column_source outputs = {(const float *)dy, dy_stride}, inputs = {(const float *)x, in};
    real_store store = {(float *)dweight, in, NULL, add};
    launch_product(cuda, "dense_backward_weight", out, in, n, outputs, inputs, store);
    if (dbias)
        rc_cuda_launch_early(cuda, "dense_backward_weight", bias_kernel, dim3((unsigned)(out + 31) / 32),
                             32 * BIAS_ROWS, 0, n, out, (const float *)dy, dy_stride, (float *)dbias, add);
}

void rc_cuda_fill_dense(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->reserve_dense = reserve_dense;
    table->dense_forward = dense_forward;
    table->dense_backward_data = dense_backward_data;
    table->dense_backward_weight = dense_backward_weight;
}
