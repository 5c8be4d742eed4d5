/* Convolutions of any shape: one thread per pixel and eight channels, sums in float. What runs where faster kernels do
 * not fit, and the one to read first. */
#include "backend/cuda/convolution/conv.h"
#include "backend/cuda/map/map.cuh"
#include "backend/cuda/reduce.cuh"

/* Along one axis: the input position that output position `out` reads through tap `tap`, or -1.
 *     convolution: in = out * stride - pad + tap     transposed: out = in * stride - pad + tap
 * `size` is the length of the input before it is enlarged. */
__device__ static int source_of(const rc_conv &conv, int size, int out, int tap)
{
    int in = conv.transposed ? out + conv.pad - tap : out * conv.stride - conv.pad + tap;
    if (in < 0 || (conv.transposed && in % conv.stride != 0))
        return -1;
    if (conv.transposed)
        in /= conv.stride;
    return in < size * conv.up ? in / conv.up : -1;
}

/* The inverse: the output position that reads enlarged input position `in` through tap `tap`, or -1; `size` is the
 * length of the output. */
__device__ static int target_of(const rc_conv &conv, int size, int in, int tap)
{
    int out = conv.transposed ? in * conv.stride - conv.pad + tap : in + conv.pad - tap;
    if (out < 0 || (!conv.transposed && out % conv.stride != 0))
        return -1;
    if (!conv.transposed)
        out /= conv.stride;
    return out < size ? out : -1;
}

/* Index into (c_out, c_in, k, k), or (c_in, c_out, k, k) if transposed; tap = tap_y * k + tap_x. */
__device__ static size_t weight_at(const rc_conv &conv, int out, int in, int tap)
{
    size_t pair = conv.transposed ? (size_t)in * conv.c_out + out : (size_t)out * conv.c_in + in;
    return pair * (size_t)(conv.k * conv.k) + tap;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

template <typename Act>
__global__ static void forward_kernel(rc_conv conv, tensor_view<Act> x, const float *weight, const float *bias,
                                      forward_epilogue<Act> e)
{
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.y, pixel);
        float8 result = zero8();
        for (int i = 0; i < 8 && bias; i++)
            result.v[i] = walk.channel + i < conv.c_out ? bias[walk.channel + i] : 0;
        for (int tap = 0; tap < conv.k * conv.k; tap++) {
            int row = source_of(conv, conv.h, to.y, tap / conv.k);
            int column = source_of(conv, conv.w, to.x, tap % conv.k);
            if (row < 0 || column < 0)
                continue;
            place from = place_at(x, to.image, row, column);
            for (int in = 0; in < conv.c_in; in += 8) {
                float8 value = load_value8(x, from, in);
                for (int j = 0; j < 8 && in + j < conv.c_in; j++)
                    for (int i = 0; i < 8; i++)
                        if (walk.channel + i < conv.c_out)
                            result.v[i] += weight[weight_at(conv, walk.channel + i, in + j, tap)] * value.v[j];
            }
        }
        finish_forward8(e, walk, to, result, load_center8(e, walk.channel), &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void forward_of(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                       rc_tensor *y, const rc_epilogue *epilogue)
{
    map_cut cut = cut_map(y);
    rc_cuda_launch(cuda, "conv_forward", forward_kernel<Act>, map_grid(cut), MAP_THREADS, 0, *conv, view_tensor<Act>(x),
                   weight, bias, view_epilogue<Act>(y, epilogue, cut));
}

static bool direct_forward(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                           rc_tensor *y, const rc_epilogue *epilogue)
{
    if (x->value && !x->stored)
        cuda->table.materialise(&cuda->table, x);
    if (cuda->bf16)
        forward_of<__nv_bfloat16>(cuda, conv, x, weight, bias, y, epilogue);
    else
        forward_of<float>(cuda, conv, x, weight, bias, y, epilogue);
    return true;
}

/* ---- gradient of the input -------------------------------------------------------------------------------------- */

template <typename Act>
__global__ static void backward_data_kernel(rc_conv conv, grad_view<Act> dy, const float *weight,
                                            backward_epilogue<Act> e)
{
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int copies = conv.up * conv.up, taps = conv.k * conv.k;
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.x, pixel);
        float8 result = zero8();
        for (int step = 0; step < copies * taps; step++) {
            int copy = step / taps, tap = step % taps;
            int row = target_of(conv, conv.oh, to.y * conv.up + copy / conv.up, tap / conv.k);
            int column = target_of(conv, conv.ow, to.x * conv.up + copy % conv.up, tap % conv.k);
            if (row < 0 || column < 0)
                continue;
            place from = place_at(dy.y, to.image, row, column);
            for (int out = 0; out < conv.c_out; out += 8) {
                float8 draw = load_draw8(dy, from, out);
                for (int j = 0; j < 8 && out + j < conv.c_out; j++)
                    for (int i = 0; i < 8; i++)
                        if (walk.channel + i < conv.c_in)
                            result.v[i] += weight[weight_at(conv, out + j, walk.channel + i, tap)] * draw.v[j];
            }
        }
        finish_backward8(e, walk, to, result, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void backward_data_of(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                             const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch(cuda, "conv_backward_data", backward_data_kernel<Act>, map_grid(cut), MAP_THREADS, 0, *conv,
                   view_grad<Act>(dy), weight, view_back_epilogue<Act>(dx, epilogue, cut));
}

static bool direct_backward_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                                 const rc_back_epilogue *epilogue)
{
    if (cuda->bf16)
        backward_data_of<__nv_bfloat16>(cuda, conv, dy, weight, dx, epilogue);
    else
        backward_data_of<float>(cuda, conv, dy, weight, dx, epilogue);
    return true;
}

/* ---- gradients of weight and bias ------------------------------------------------------------------------------- */

enum {
    WEIGHT_THREADS = 256,
    BIAS_SLOTS = 128, /* blocks that share the pixels of a bias: as many as fill the GPU */
    BIAS_BATCH = 8    /* pixels of a thread that are on their way at once */
};

/* Block (out vector, in vector, tap): every thread takes the products of 8 x 8 channels over its pixels, then the
 * threads are added pairwise, always the same pairs. */
template <typename Act>
__global__ static void backward_weight_kernel(rc_conv conv, tensor_view<Act> x, grad_view<Act> dy, float *dweight)
{
    __shared__ float space[WEIGHT_THREADS][8];
    int out = (int)blockIdx.x * 8, in = (int)blockIdx.y * 8, tap = (int)blockIdx.z;
    float sum[8][8] = {};
    for (int pixel = (int)threadIdx.x; pixel < dy.y.n * conv.oh * conv.ow; pixel += WEIGHT_THREADS) {
        place to = place_of(dy.y, pixel);
        int row = source_of(conv, conv.h, to.y, tap / conv.k);
        int column = source_of(conv, conv.w, to.x, tap % conv.k);
        if (row < 0 || column < 0)
            continue;
        float8 draw = load_draw8(dy, to, out), value = load_value8(x, place_at(x, to.image, row, column), in);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[i][j] += draw.v[i] * value.v[j];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++)
            space[threadIdx.x][j] = sum[i][j];
        for (int half = WEIGHT_THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            for (int j = 0; j < 8 && (int)threadIdx.x < half; j++)
                space[threadIdx.x][j] += space[threadIdx.x + half][j];
        }
        __syncthreads();
        int j = (int)threadIdx.x;
        if (j < 8 && out + i < conv.c_out && in + j < conv.c_in)
            dweight[weight_at(conv, out + i, in + j, tap)] = space[0][j];
    }
}

/* Block (vector, slot): the sum of dL/draw over the slot's pixels. They go to the slots in runs of 8, as long as a line
 * of memory, so that small tensors, too, are spread over many of them. */
template <typename Act> __global__ static void bias_kernel(grad_view<Act> dy, float *sums)
{
    __shared__ float space[WEIGHT_THREADS][8];
    int channel = (int)blockIdx.x * 8, pixels = dy.y.n * dy.y.h * dy.y.w;
    int thread = (int)threadIdx.x, first = (thread / 8 * BIAS_SLOTS + (int)blockIdx.y) * 8 + thread % 8;
    float8 sum = zero8();
    bool finished = !dy.a && dy.y.act == RC_ACT_NONE;
    for (int pixel = first; pixel < pixels && !finished; pixel += BIAS_SLOTS * WEIGHT_THREADS) {
        float8 draw = load_draw8(dy, place_of(dy.y, pixel), channel);
        for (int i = 0; i < 8; i++)
            sum.v[i] += draw.v[i];
    }
    for (int pixel = first; pixel < pixels && finished; pixel += BIAS_BATCH * BIAS_SLOTS * WEIGHT_THREADS) {
        float8 draw[BIAS_BATCH];
#pragma unroll
        for (int e = 0; e < BIAS_BATCH; e++) {
            int at = pixel + e * BIAS_SLOTS * WEIGHT_THREADS;
            draw[e] = at < pixels ? load8(dy.g + (size_t)at * dy.y.cp + channel) : zero8();
        }
#pragma unroll
        for (int e = 0; e < BIAS_BATCH; e++)
            for (int i = 0; i < 8; i++)
                sum.v[i] += draw[e].v[i];
    }
    for (int i = 0; i < 8; i++)
        space[threadIdx.x][i] = sum.v[i];
    for (int half = WEIGHT_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int i = 0; i < 8 && (int)threadIdx.x < half; i++)
            space[threadIdx.x][i] += space[threadIdx.x + half][i];
    }
    __syncthreads();
    int i = (int)threadIdx.x;
    if (i < 8)
        sums[(size_t)(channel + i) * BIAS_SLOTS + blockIdx.y] = space[0][i];
}

/* A warp for each channel adds its slots, always in the same order. */
__global__ static void bias_sum_kernel(const float *sums, float *dbias)
{
    const float *slot = sums + (size_t)blockIdx.x * BIAS_SLOTS;
    float sum = 0;
    for (int i = (int)threadIdx.x; i < BIAS_SLOTS; i += 32)
        sum += slot[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        dbias[blockIdx.x] = sum;
}

size_t rc_cuda_bias_bytes(int channels)
{
    return (size_t)rc_cuda_padded(channels) * BIAS_SLOTS * sizeof(float);
}

void rc_cuda_bias_gradient(rc_cuda *cuda, const rc_grad *dy, float *dbias)
{
    static const char operation[] = "conv_backward_weight";
    dim3 grid((unsigned)rc_cuda_padded(dy->y->c) / 8, BIAS_SLOTS);
    float *sums = (float *)rc_cuda_workspace(cuda, rc_cuda_bias_bytes(dy->y->c), operation);
    if (!sums)
        return;
    if (cuda->bf16)
        rc_cuda_launch(cuda, operation, bias_kernel<__nv_bfloat16>, grid, WEIGHT_THREADS, 0,
                       view_grad<__nv_bfloat16>(dy), sums);
    else
        rc_cuda_launch(cuda, operation, bias_kernel<float>, grid, WEIGHT_THREADS, 0, view_grad<float>(dy), sums);
    rc_cuda_launch(cuda, operation, bias_sum_kernel, dim3((unsigned)dy->y->c), 32, 0, (const float *)sums, dbias);
}

static bool direct_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   float *dweight, float *dbias)
{
    dim3 grid((unsigned)rc_cuda_padded(conv->c_out) / 8, (unsigned)rc_cuda_padded(conv->c_in) / 8,
              (unsigned)(conv->k * conv->k));
    if (cuda->bf16)
        rc_cuda_launch(cuda, "conv_backward_weight", backward_weight_kernel<__nv_bfloat16>, grid, WEIGHT_THREADS, 0,
                       *conv, view_tensor<__nv_bfloat16>(x), view_grad<__nv_bfloat16>(dy), dweight);
    else
        rc_cuda_launch(cuda, "conv_backward_weight", backward_weight_kernel<float>, grid, WEIGHT_THREADS, 0, *conv,
                       view_tensor<float>(x), view_grad<float>(dy), dweight);
    if (dbias)
        rc_cuda_bias_gradient(cuda, dy, dbias);
    return true;
}

static size_t direct_workspace(const rc_cuda *, const rc_conv *conv, int)
{
    return rc_cuda_bias_bytes(conv->c_out);
}

const rc_cuda_conv_kind rc_cuda_conv_direct = {"direct", direct_workspace, direct_forward, direct_backward_data,
                                               direct_backward_weight};
