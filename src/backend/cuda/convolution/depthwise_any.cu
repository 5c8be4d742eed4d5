/* Depthwise convolutions of any window: one thread per pixel and eight channels. What runs where the others do not fit,
 * and the one to read first. */
#include "backend/cuda/convolution/depthwise.h"
#include "backend/cuda/map/map.cuh"

/* Along one axis, what lies where in the other map through a tap, or -1. */
__device__ static int source_of(const rc_conv &conv, int size, int out, int tap)
{
    int in = out * conv.stride - conv.pad + tap;
    return in >= 0 && in < size ? in : -1;
}

__device__ static int target_of(const rc_conv &conv, int size, int in, int tap)
{
    int out = in + conv.pad - tap;
    if (out < 0 || out % conv.stride != 0)
        return -1;
    out /= conv.stride;
    return out < size ? out : -1;
}

/* Eight channels at one tap of the weights, (c, 1, k, k). */
__device__ static float8 load_tap8(const rc_conv &conv, const float *weight, int channel, int tap)
{
    float8 w = zero8();
    for (int i = 0; i < 8; i++)
        if (channel + i < conv.c_out)
            w.v[i] = weight[(size_t)(channel + i) * conv.k * conv.k + tap];
    return w;
}

__device__ static void add_product8(float8 *sum, float8 x, float8 y)
{
    for (int i = 0; i < 8; i++)
        sum->v[i] += x.v[i] * y.v[i];
}

template <typename Act>
__global__ static void forward_kernel(rc_conv conv, tensor_view<Act> x, const float *weight, const float *bias,
                                      forward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.y, pixel);
        float8 result = zero8();
        for (int i = 0; i < 8 && bias; i++)
            result.v[i] = walk.channel + i < conv.c_out ? bias[walk.channel + i] : 0;
        for (int tap = 0; tap < conv.k * conv.k; tap++) {
            int row = source_of(conv, conv.h, to.y, tap / conv.k), column = source_of(conv, conv.w, to.x, tap % conv.k);
            if (row >= 0 && column >= 0)
                add_product8(&result, load_tap8(conv, weight, walk.channel, tap),
                             load_value8(x, place_at(x, to.image, row, column), walk.channel));
        }
        finish_forward8(e, walk, to, result, load_center8(e, walk.channel), &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
__global__ static void data_kernel(rc_conv conv, grad_view<Act> dy, const float *weight, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.x, pixel);
        float8 result = zero8();
        for (int tap = 0; tap < conv.k * conv.k; tap++) {
            int row = target_of(conv, conv.oh, to.y, tap / conv.k);
            int column = target_of(conv, conv.ow, to.x, tap % conv.k);
            if (row >= 0 && column >= 0)
                add_product8(&result, load_tap8(conv, weight, walk.channel, tap),
                             load_draw8(dy, place_at(dy.y, to.image, row, column), walk.channel));
        }
        finish_backward8(e, walk, to, result, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

enum { ANY_THREADS = 256 };

/* Block (vector, tap): every thread takes its pixels, then the threads are added pairwise, always the same pairs. */
template <typename Act>
__global__ static void weight_kernel(rc_conv conv, tensor_view<Act> x, grad_view<Act> dy, float *dweight)
{
    __shared__ float space[ANY_THREADS][8];
    begin_after_kernel_before();
    int channel = (int)blockIdx.x * 8, tap = (int)blockIdx.y;
    float8 sum = zero8();
    for (int pixel = (int)threadIdx.x; pixel < dy.y.n * conv.oh * conv.ow; pixel += ANY_THREADS) {
        place to = place_of(dy.y, pixel);
        int row = source_of(conv, conv.h, to.y, tap / conv.k), column = source_of(conv, conv.w, to.x, tap % conv.k);
        if (row >= 0 && column >= 0)
            add_product8(&sum, load_draw8(dy, to, channel),
                         load_value8(x, place_at(x, to.image, row, column), channel));
    }
    for (int i = 0; i < 8; i++)
        space[threadIdx.x][i] = sum.v[i];
    for (int half = ANY_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int i = 0; i < 8 && (int)threadIdx.x < half; i++)
            space[threadIdx.x][i] += space[threadIdx.x + half][i];
    }
    __syncthreads();
    int i = (int)threadIdx.x;
    if (i < 8 && channel + i < conv.c_out)
        dweight[(size_t)(channel + i) * conv.k * conv.k + tap] = space[0][i];
}

template <typename Act>
static void forward_of(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const float *weight, const float *bias,
                       const rc_tensor *y, const rc_epilogue *epilogue)
{
    map_cut cut = cut_map(y);
    rc_cuda_launch_early(cuda, "depthwise_forward", forward_kernel<Act>, map_grid(cut), MAP_THREADS, 0, *conv,
                         view_tensor<Act>(x), weight, bias, view_epilogue<Act>(y, epilogue, cut));
}

void rc_cuda_any_depthwise_forward(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const float *weight,
                                   const float *bias, rc_tensor *y, const rc_epilogue *epilogue)
{
    if (cuda->bf16)
        forward_of<__nv_bfloat16>(cuda, conv, x, weight, bias, y, epilogue);
    else
        forward_of<float>(cuda, conv, x, weight, bias, y, epilogue);
}

template <typename Act>
static void data_of(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                    const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch_early(cuda, "depthwise_backward_data", data_kernel<Act>, map_grid(cut), MAP_THREADS, 0, *conv,
                         view_grad<Act>(dy), weight, view_back_epilogue<Act>(dx, epilogue, cut));
}

void rc_cuda_any_depthwise_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                                const rc_back_epilogue *epilogue)
{
    if (cuda->bf16)
        data_of<__nv_bfloat16>(cuda, conv, dy, weight, dx, epilogue);
    else
        data_of<float>(cuda, conv, dy, weight, dx, epilogue);
}

template <typename Act>
static void weight_of(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, float *dweight)
{
    dim3 grid((unsigned)rc_cuda_padded(conv->c_out) / 8, (unsigned)(conv->k * conv->k));
    rc_cuda_launch_early(cuda, "depthwise_backward_weight", weight_kernel<Act>, grid, ANY_THREADS, 0, *conv,
                         view_tensor<Act>(x), view_grad<Act>(dy), dweight);
}

void rc_cuda_any_depthwise_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                  float *dweight)
{
    if (cuda->bf16)
        weight_of<__nv_bfloat16>(cuda, conv, x, dy, dweight);
    else
        weight_of<float>(cuda, conv, x, dy, dweight);
}
