/* Linear layers inside a net: (n, 1, 1, c_in) -> (n, h, w, c), weight (c * h * w, c_in) in PyTorch's order of a reshape
 * to (c, h, w): row = (channel * h + y) * w + x.
 *
 * The generator's first layer is a product of (128, 1000) with (8192, 1000). So values and gradients are first written
 * out as plain matrices in the workspace, where the product finds them side by side, and a kernel over the map then
 * does what the epilogue asks for:
 *     inputs (n, c_in)         value of x, or the gradient of it
 *     outputs (n, c * h * w)   raw of y in PyTorch's order, or dL/draw of it
 * The weight gradient in bf16 goes without (linear_weight.cu). */
#include "backend/cuda/linear_weight.h"
#include "backend/cuda/map.cuh"
#include "backend/cuda/product.h"

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

/* ---- matrices from tensors -------------------------------------------------------------------------------------- */

/* inputs (n, c) = value of x (n, 1, 1, cp) */
template <typename Act> __global__ static void values_kernel(tensor_view<Act> x, float *inputs)
{
    begin_after_kernel_before();
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x), vectors = x.cp / 8, image = at / vectors;
    int channel = at % vectors * 8;
    if (image >= x.n)
        return;
    float8 value = take_value8(x, place_at(x, image, 0, 0), channel);
    for (int i = 0; i < 8; i++)
        if (channel + i < x.c)
            inputs[(size_t)image * x.c + channel + i] = value.v[i];
}

template <typename Act>
static void write_values(rc_cuda *cuda, const rc_tensor *x, float *inputs, const char *operation)
{
    unsigned threads = (unsigned)(x->n * rc_cuda_padded(x->c) / 8);
    rc_cuda_launch_early(cuda, operation, values_kernel<Act>, dim3((threads + 127) / 128), 128, 0, view_tensor<Act>(x),
                         inputs);
}

enum { TURN_PIXELS = 32, TURN_VECTORS = 4 };

/* outputs (n, c * h * w) = dL/draw. Block (pixels, vectors, image) turns a tile of 32 pixels by 32 channels around in
 * shared memory: it is read channel by channel and written pixel by pixel. */
template <typename Act> __global__ static void draws_kernel(grad_view<Act> dy, float *outputs)
{
    begin_after_kernel_before();
    __shared__ float tile[TURN_VECTORS * 8][TURN_PIXELS + 1];
    const tensor_view<Act> &y = dy.y;
    int pixels = y.h * y.w, image = (int)blockIdx.z, first_channel = (int)blockIdx.y * TURN_VECTORS * 8;
    int first_pixel = (int)blockIdx.x * TURN_PIXELS;
    int vector = (int)threadIdx.x % TURN_VECTORS, from = first_pixel + (int)threadIdx.x / TURN_VECTORS;
    int channel = first_channel + vector * 8;
    if (from < pixels && channel < y.cp) {
        float8 draw = load_draw8(dy, place_of(y, image * pixels + from), channel);
        for (int i = 0; i < 8; i++)
            tile[vector * 8 + i][threadIdx.x / TURN_VECTORS] = draw.v[i];
    }
    __syncthreads();
    int pixel = first_pixel + (int)threadIdx.x % TURN_PIXELS;
    for (int c = (int)threadIdx.x / TURN_PIXELS; c < TURN_VECTORS * 8; c += TURN_VECTORS)
        if (pixel < pixels && first_channel + c < y.c)
            outputs[((size_t)image * y.c + first_channel + c) * pixels + pixel] = tile[c][threadIdx.x % TURN_PIXELS];
}

template <typename Act> static void write_draws(rc_cuda *cuda, const rc_grad *dy, float *outputs, const char *operation)
{
    const rc_tensor *y = dy->y;
    int vectors = rc_cuda_padded(y->c) / 8;
    dim3 grid((unsigned)(y->h * y->w + TURN_PIXELS - 1) / TURN_PIXELS,
              (unsigned)(vectors + TURN_VECTORS - 1) / TURN_VECTORS, (unsigned)y->n);
    rc_cuda_launch_early(cuda, operation, draws_kernel<Act>, grid, TURN_PIXELS * TURN_VECTORS, 0, view_grad<Act>(dy),
                         outputs);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* outputs, in PyTorch's order, -> raw of y and what the epilogue asks for. */
template <typename Act>
__global__ static void finish_forward_kernel(const float *outputs, const float *bias, forward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int pixels = e.cut.image_pixels;
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        float8 result = zero8();
        for (int i = 0; i < 8; i++) {
            int row = (walk.channel + i) * pixels + pixel % pixels;
            if (walk.channel + i < e.y.c)
                result.v[i] = outputs[(size_t)(pixel / pixels) * e.y.c * pixels + row] + (bias ? bias[row] : 0);
        }
        finish_forward8(e, walk, pixel, result, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

/* The same for slots of whole quads of pixels: they lie beside each other in `outputs`, channels do not, so a thread
 * reads four pixels of each of its channels at once. */
template <typename Act>
__global__ static void finish_forward_quads_kernel(const float *outputs, const float *bias, forward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int pixels = e.cut.image_pixels, lane = (int)threadIdx.x / e.cut.width;
    for (int pixel = walk.first + 3 * lane; pixel < walk.end; pixel += 4 * walk.step) {
        const float *from = outputs + (size_t)(pixel / pixels) * e.y.c * pixels;
        float4 quads[8], shifts[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int row = (walk.channel + i) * pixels + pixel % pixels;
            bool inside = walk.channel + i < e.y.c;
            quads[i] = inside ? *(const float4 *)(from + row) : make_float4(0, 0, 0, 0);
            shifts[i] = inside && bias ? *(const float4 *)(bias + row) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float8 result;
#pragma unroll
            for (int i = 0; i < 8; i++)
                result.v[i] = (&quads[i].x)[q] + (&shifts[i].x)[q];
            finish_forward8(e, walk, pixel + q, result, &sums);
        }
    }
    finish_sums(e.partial, e.cut, sums);
}

static bool whole_quads(const map_cut &cut, const float *outputs, const float *bias)
{
    bool whole = cut.image_pixels % 4 == 0 && ((uintptr_t)outputs | (uintptr_t)bias) % 16 == 0;
    for (int g = 0; g < cut.groups.count; g++) {
        int group = (cut.groups.end[g] - group_begin(cut.groups, g)) * cut.image_pixels;
        whole = whole && (group + cut.slots - 1) / cut.slots % 4 == 0;
    }
    return whole;
}

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
    map_cut cut = cut_map(y);
    bool quads = whole_quads(cut, space.outputs, (const float *)bias);
    rc_cuda_launch_early(cuda, operation, quads ? finish_forward_quads_kernel<Act> : finish_forward_kernel<Act>,
                         map_grid(cut), MAP_THREADS, 0, (const float *)space.outputs, (const float *)bias,
                         view_epilogue<Act>(y, epilogue, cut));
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* inputs (n, c) -> dx (n, 1, 1, cp) and what the epilogue asks for. */
template <typename Act> __global__ static void finish_backward_kernel(const float *inputs, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        float8 d = zero8();
        for (int i = 0; i < 8; i++)
            if (walk.channel + i < e.x.c)
                d.v[i] = inputs[(size_t)pixel * e.x.c + walk.channel + i];
        finish_backward8(e, walk, pixel, d, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

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
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch_early(cuda, operation, finish_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         (const float *)space.inputs, view_back_epilogue<Act>(dx, epilogue, cut));
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
