/* Depthwise convolutions of any shape: one thread per pixel and eight channels, sums in float. */
#include "backend/cuda/convolution/conv.h"
#include "backend/cuda/map/map.cuh"

/* Along one axis: the input position that output position `out` reads through tap `tap`, or -1. */
__device__ static int source_of(const rc_conv &conv, int size, int out, int tap)
{
    int in = out * conv.stride - conv.pad + tap;
    return in >= 0 && in < size ? in : -1;
}

/* The inverse: the output position that reads input position `in` through tap `tap`, or -1. */
__device__ static int target_of(const rc_conv &conv, int size, int in, int tap)
{
    int out = in + conv.pad - tap;
    if (out < 0 || out % conv.stride != 0)
        return -1;
    return out / conv.stride < size ? out / conv.stride : -1;
}

/* Adds weight[tap] of eight channels times x. Pad channels have no weights. */
__device__ static void add_tap(const rc_conv &conv, const float *weight, int channel, int tap, float8 x, float8 *sum)
{
    for (int i = 0; i < 8; i++)
        if (channel + i < conv.c_out)
            sum->v[i] += weight[(size_t)(channel + i) * (size_t)(conv.k * conv.k) + tap] * x.v[i];
}

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
            if (row >= 0 && column >= 0)
                add_tap(conv, weight, walk.channel, tap,
                        load_value8(x, place_at(x, to.image, row, column), walk.channel), &result);
        }
        finish_forward8(e, walk, pixel, result, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
__global__ static void backward_data_kernel(rc_conv conv, grad_view<Act> dy, const float *weight,
                                            backward_epilogue<Act> e)
{
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.x, pixel);
        float8 result = zero8();
        for (int tap = 0; tap < conv.k * conv.k; tap++) {
            int row = target_of(conv, conv.oh, to.y, tap / conv.k);
            int column = target_of(conv, conv.ow, to.x, tap % conv.k);
            if (row >= 0 && column >= 0)
                add_tap(conv, weight, walk.channel, tap,
                        load_draw8(dy, place_at(dy.y, to.image, row, column), walk.channel), &result);
        }
        finish_backward8(e, walk, pixel, result, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

enum { WEIGHT_THREADS = 256 };

/* Block (vector of channels, tap): every thread sums its pixels, then the threads are added pairwise, always the same
 * pairs. */
template <typename Act>
__global__ static void backward_weight_kernel(rc_conv conv, tensor_view<Act> x, grad_view<Act> dy, float *dweight)
{
    __shared__ float space[WEIGHT_THREADS][8];
    int channel = (int)blockIdx.x * 8, tap = (int)blockIdx.y;
    float8 sum = zero8();
    for (int pixel = (int)threadIdx.x; pixel < dy.y.n * conv.oh * conv.ow; pixel += WEIGHT_THREADS) {
        place to = place_of(dy.y, pixel);
        int row = source_of(conv, conv.h, to.y, tap / conv.k);
        int column = source_of(conv, conv.w, to.x, tap % conv.k);
        if (row < 0 || column < 0)
            continue;
        float8 draw = load_draw8(dy, to, channel), value = load_value8(x, place_at(x, to.image, row, column), channel);
        for (int i = 0; i < 8; i++)
            sum.v[i] += draw.v[i] * value.v[i];
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
    if (i < 8 && channel + i < conv.c_out)
        dweight[(size_t)(channel + i) * (size_t)(conv.k * conv.k) + tap] = space[0][i];
}

template <typename Act>
static void forward_of(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                       rc_tensor *y, const rc_epilogue *epilogue)
{
    map_cut cut = cut_map(y);
    rc_cuda_launch(cuda, "depthwise_forward", forward_kernel<Act>, map_grid(cut), MAP_THREADS, 0, *conv,
                   view_tensor<Act>(x), (const float *)weight, (const float *)bias,
                   view_epilogue<Act>(y, epilogue, cut));
}

static void depthwise_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                              rc_tensor *y, const rc_epilogue *epilogue)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (x->value && !x->stored)
        be->materialise(be, x);
    if (cuda->bf16)
        forward_of<__nv_bfloat16>(cuda, conv, x, weight, bias, y, epilogue);
    else
        forward_of<float>(cuda, conv, x, weight, bias, y, epilogue);
    x->stored = x->stored || x->value;
}

template <typename Act>
static void backward_data_of(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                             const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch(cuda, "depthwise_backward_data", backward_data_kernel<Act>, map_grid(cut), MAP_THREADS, 0, *conv,
                   view_grad<Act>(dy), (const float *)weight, view_back_epilogue<Act>(dx, epilogue, cut));
}

static void depthwise_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight,
                                    void *dx, const rc_back_epilogue *epilogue)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (cuda->bf16)
        backward_data_of<__nv_bfloat16>(cuda, conv, dy, weight, dx, epilogue);
    else
        backward_data_of<float>(cuda, conv, dy, weight, dx, epilogue);
}

static void depthwise_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                      void *dweight, void *dbias)
{
    static const char operation[] = "depthwise_backward_weight";
    rc_cuda *cuda = rc_cuda_of(be);
    dim3 grid((unsigned)rc_cuda_padded(conv->c_out) / 8, (unsigned)(conv->k * conv->k));
    if (cuda->bf16)
        rc_cuda_launch(cuda, operation, backward_weight_kernel<__nv_bfloat16>, grid, WEIGHT_THREADS, 0, *conv,
                       view_tensor<__nv_bfloat16>(x), view_grad<__nv_bfloat16>(dy), (float *)dweight);
    else
        rc_cuda_launch(cuda, operation, backward_weight_kernel<float>, grid, WEIGHT_THREADS, 0, *conv,
                       view_tensor<float>(x), view_grad<float>(dy), (float *)dweight);
    if (dbias)
        rc_cuda_bias_gradient(cuda, dy, (float *)dbias);
}

static rc_status reserve_depthwise(rc_backend *be, const rc_conv *conv, int n)
{
    rc_cuda *cuda = rc_cuda_of(be);
    return rc_cuda_reserve(cuda, rc_cuda_conv_direct.workspace(cuda, conv, n)); /* of the gradient of the bias */
}

void rc_cuda_fill_depthwise(rc_cuda *cuda)
{
    cuda->table.reserve_depthwise = reserve_depthwise;
    cuda->table.depthwise_forward = depthwise_forward;
    cuda->table.depthwise_backward_data = depthwise_backward_data;
    cuda->table.depthwise_backward_weight = depthwise_backward_weight;
}
