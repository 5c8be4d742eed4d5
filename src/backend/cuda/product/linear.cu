/* Linear layers inside a net: (n, 1, 1, c_in) -> (n, h, w, c), weight (c * h * w, c_in) in PyTorch's order of a reshape
 * to (c, h, w): row = (channel * h + y) * w + x.
 *
 * The generator's first layer is a product of (128, 1000) with (8192, 1000). So values and gradients are first written
 * out as plain matrices in the workspace, where the product finds them side by side, and a kernel over the map then
 * does what the epilogue asks for:
 *     inputs (n, c_in)         value of x, or the gradient of it
 *     outputs (n, c * h * w)   raw of y in PyTorch's order, or dL/draw of it
 * The weight gradient in bf16 goes without (linear_weight.cu). */
#include "backend/cuda/product/linear_weight.h"
#include "backend/cuda/product/matrix.cuh"
#include "backend/cuda/product/product.h"

struct linear_space {
    float *inputs, *outputs;
};

static int rows_of(const rc_linear *linear)
{
    return linear->c * linear->h * linear->w;
}

static size_t linear_bytes(const rc_linear *linear, int n)
{
    return ((size_t)linear->c_in + (size_t)rows_of(linear)) * (size_t)n * sizeof(float);
}

static linear_space space_for(rc_cuda *cuda, const rc_linear *linear, int n, const char *operation)
{
    linear_space space = {(float *)rc_cuda_workspace(cuda, linear_bytes(linear, n), operation), NULL};
    if (space.inputs)
        space.outputs = space.inputs + (size_t)n * linear->c_in;
    return space;
}

static rc_status reserve_linear(rc_backend *be, const rc_linear *linear, int n)
{
    size_t matrices = linear_bytes(linear, n), map = rc_cuda_linear_weight_bytes(linear, n);
    return rc_cuda_reserve(rc_cuda_of(be), matrices > map ? matrices : map);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* The value of x, where it lies in memory as it is; otherwise NULL. */
static const void *plain_value(const rc_tensor *x)
{
    bool pending = x->scale || x->skip.value || x->act != RC_ACT_NONE;
    return x->stored ? x->value : pending || x->value ? NULL : x->raw;
}

/* outputs = value of x times the weights; in bf16 from where the value lies, if it lies somewhere. */
template <typename Act>
static void multiply_values(rc_cuda *cuda, const rc_linear *linear, rc_tensor *x, rc_cuda_matrix weights,
                            linear_space space, const char *operation)
{
    const void *plain = cuda->bf16 ? plain_value(x) : NULL;
    if (plain && rc_cuda_product_rounded(cuda, operation, x->n, rows_of(linear), linear->c_in, plain,
                                         rc_cuda_padded(x->c), weights, space.outputs))
        return;
    rc_cuda_matrix inputs = {space.inputs, linear->c_in, 1};
    write_values<Act>(cuda, x, space.inputs, operation);
    x->stored = x->stored || x->value;
    rc_cuda_product(cuda, operation, x->n, rows_of(linear), linear->c_in, inputs, weights, space.outputs);
}

template <typename Act>
static void linear_forward(rc_backend *be, const rc_linear *linear, rc_tensor *x, const void *weight, const void *bias,
                           rc_tensor *y, const rc_epilogue *epilogue)
{
    static const char operation[] = "linear_forward";
    rc_cuda *cuda = rc_cuda_of(be);
    linear_space space = space_for(cuda, linear, x->n, operation);
    if (!space.inputs)
        return;
    rc_cuda_matrix weights = {(const float *)weight, linear->c_in, 1};
    multiply_values<Act>(cuda, linear, x, weights, space, operation);
    read_result<Act>(cuda, operation, space.outputs, (const float *)bias, y, epilogue);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

template <typename Act>
static void linear_backward_data(rc_backend *be, const rc_linear *linear, const rc_grad *dy, const void *weight,
                                 void *dx, const rc_back_epilogue *epilogue)
{
    static const char operation[] = "linear_backward_data";
    rc_cuda *cuda = rc_cuda_of(be);
    int n = dy->y->n, rows = rows_of(linear);
    linear_space space = space_for(cuda, linear, n, operation);
    if (!space.inputs)
        return;
    write_draws<Act>(cuda, dy, space.outputs, operation);
    rc_cuda_matrix draws = {space.outputs, rows, 1}, weights = {(const float *)weight, 1, linear->c_in};
    rc_cuda_product(cuda, operation, n, linear->c_in, rows, draws, weights, space.inputs);
    read_derivative<Act>(cuda, operation, space.inputs, dx, epilogue);
}

enum { BIAS_ROWS = 32, BIAS_SHARES = 8, BIAS_BATCH = 8 /* loads of a thread that are on their way at once */ };

/* Block: BIAS_ROWS rows, BIAS_SHARES threads over the images of each. */
__global__ static void bias_kernel(int n, int rows, const float *outputs, float *dbias)
{
    begin_after_kernel_before();
    __shared__ float space[BIAS_SHARES][BIAS_ROWS];
    int lane = (int)threadIdx.x % BIAS_ROWS, share = (int)threadIdx.x / BIAS_ROWS;
    int row = (int)blockIdx.x * BIAS_ROWS + lane;
    float sum = 0;
    for (int first = share; first < n; first += BIAS_SHARES * BIAS_BATCH) {
        float batch[BIAS_BATCH];
#pragma unroll
        for (int e = 0; e < BIAS_BATCH; e++) {
            int image = first + e * BIAS_SHARES;
            batch[e] = image < n && row < rows ? outputs[(size_t)image * rows + row] : 0;
        }
#pragma unroll
        for (int e = 0; e < BIAS_BATCH; e++)
            sum += batch[e];
    }
    space[share][lane] = sum;
    __syncthreads();
    if (share != 0 || row >= rows)
        return;
    for (int s = 1; s < BIAS_SHARES; s++)
        sum += space[s][lane];
    dbias[row] = sum;
}

template <typename Act>
static void linear_backward_weight(rc_backend *be, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    static const char operation[] = "linear_backward_weight";
    rc_cuda *cuda = rc_cuda_of(be);
    int rows = rows_of(linear);
    const void *plain = cuda->bf16 ? plain_value(x) : NULL;
    if (plain && rc_cuda_linear_weight(cuda, linear, (const bf16 *)plain, dy, (float *)dweight, (float *)dbias))
        return;
    linear_space space = space_for(cuda, linear, x->n, operation);
    if (!space.inputs)
        return;
    write_draws<Act>(cuda, dy, space.outputs, operation);
    write_values<Act>(cuda, x, space.inputs, operation);
    rc_cuda_matrix draws = {space.outputs, 1, rows}, values = {space.inputs, 1, linear->c_in};
    rc_cuda_product(cuda, operation, rows, linear->c_in, x->n, draws, values, (float *)dweight);
    if (dbias)
        rc_cuda_launch_early(cuda, operation, bias_kernel, dim3((unsigned)(rows + BIAS_ROWS - 1) / BIAS_ROWS),
                             BIAS_ROWS * BIAS_SHARES, 0, x->n, rows, (const float *)space.outputs, (float *)dbias);
}

template <typename Act> static void fill(rc_backend *table)
{
    table->reserve_linear = reserve_linear;
    table->linear_forward = linear_forward<Act>;
    table->linear_backward_data = linear_backward_data<Act>;
    table->linear_backward_weight = linear_backward_weight<Act>;
}

void rc_cuda_fill_linear(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
