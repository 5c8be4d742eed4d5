/* Depthwise convolution and its data gradient: one kernel with two sources and two sinks. */
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/depthwise.cuh"

/* ---- sinks ------------------------------------------------------------------------------------------------------ */

template <typename Activation> struct depthwise_result {
    typedef Activation Act;
    typedef typename sum_of<Act>::type Sum;
    static constexpr bool FORWARD = true;
    forward_epilogue<Act> e;

    /* The results of a strip that lie in the map. */
    __device__ void take(const map_walk &walk, int image, int y, int x, const float8 (&result)[STRIP],
                         channel_sums<Sum> *sums) const
    {
        float8 center = load_center8(e, walk.channel);
#pragma unroll
        for (int i = 0; i < STRIP; i++)
            if ((unsigned)(x + i) < (unsigned)e.y.w)
                finish_forward8(e, walk, place_at(e.y, image, y, x + i), result[i], center, sums);
    }
};

template <typename Activation> struct depthwise_derivative {
    typedef Activation Act;
    typedef typename sum_of<Act>::type Sum;
    static constexpr bool FORWARD = false;
    backward_epilogue<Act> e;

    __device__ void take(const map_walk &walk, int image, int y, int x, const float8 (&result)[STRIP],
                         channel_sums<Sum> *sums) const
    {
#pragma unroll
        for (int i = 0; i < STRIP; i++)
            if ((unsigned)(x + i) < (unsigned)e.x.w)
                finish_backward8(e, walk, place_at(e.x, image, y, x + i), result[i], sums);
    }
};

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

template <typename Source, typename Sink> struct depthwise_arguments {
    Source source;
    Sink sink;
    depthwise_cut cut;
    const float *weight, *bias; /* (c, 1, k, k); (c), NULL: none */
    int c;
    int tile_bytes; /* of shared memory; the weights follow, and what is pending */
};

/* The weights of a block's channels, (K * K + 1, width, 8): tap by tap, and the bias. */
template <int K, typename Source, typename Sink>
__device__ inline void load_weights(const depthwise_arguments<Source, Sink> &a, float *to)
{
    int channels = a.cut.map.width * 8, first = (int)blockIdx.z * channels;
    for (int i = (int)threadIdx.x; i < (K * K + 1) * channels; i += MAP_THREADS) {
        int tap = i / channels, channel = first + i % channels;
        float weight = 0;
        if (channel < a.c && tap < K * K)
            weight = a.weight[channel * K * K + tap];
        if (channel < a.c && tap == K * K && a.bias)
            weight = a.bias[channel];
        to[i] = weight;
    }
}

/* Adds one row of taps to a strip. */
template <typename Axis, int K, typename Act>
__device__ inline void add_taps(float8 (&sum)[STRIP], const Act *pixels, const float *weights, int pitch)
{
    float8 weight[K];
#pragma unroll
    for (int tap = 0; tap < K; tap++)
        weight[tap] = load8(weights + tap * pitch);
#pragma unroll
    for (int pixel = 0; pixel < Axis::pixels(STRIP); pixel++) {
        float8 value = load8(pixels + pixel * pitch);
#pragma unroll
        for (int result = 0; result < STRIP; result++) {
            int tap = Axis::tap(result, pixel);
            if (tap < 0 || tap >= K)
                continue;
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[result].v[i] += weight[tap].v[i] * value.v[i];
        }
    }
}

/* Grid: (blocks of a group, groups, tiles of channels), as map_cut has it. */
template <int K, int S, typename Source, typename Sink>
__global__ static void __launch_bounds__(MAP_THREADS, sizeof(typename Sink::Act) == 2 ? 2 : 1)
    depthwise_kernel(const __grid_constant__ depthwise_arguments<Source, Sink> a)
{
    typedef typename Sink::Act Act;
    typedef depthwise_axis<K, S, Sink::FORWARD> Axis;
    const depthwise_cut &cut = a.cut;
    Act *pixels = (Act *)dynamic_shared();
    float *weights = (float *)(dynamic_shared() + a.tile_bytes);
    depthwise_thread mine = thread_of(cut);
    int group = blockIdx.y, pitch = cut.map.width * 8, tiles = tiles_of_group(cut, group);
    typename Source::pending *pending = (typename Source::pending *)(weights + (K * K + 1) * pitch);
    map_walk walk = {mine.channel, group, 0, 0, 0};
    channel_sums<typename Sink::Sum> sums = {};
    begin_after_kernel_before();
    load_weights<K>(a, weights);
    read_pending(a.source, group, mine, pending);
    for (int t = blockIdx.x; t < tiles; t += cut.map.slots) {
        depthwise_place at = place_of_tile(cut, group, t);
        __syncthreads(); /* what is pending is there, and nobody reads the tile before */
        if (!mine.idle) {
            depthwise_window window = {at.image,
                                       at.images,
                                       Axis::first_pixel(at.y, cut.pad),
                                       Axis::first_pixel(at.x, cut.pad),
                                       cut.rows,
                                       cut.columns,
                                       cut.source_h,
                                       cut.source_w,
                                       cut.by_rows,
                                       cut.by_columns};
            load_window(a.source, pending, window, mine, cut.map.width, pixels);
        }
        __syncthreads();
        int strips = mine.idle ? 0 : at.images * cut.tile_h * (cut.tile_w / STRIP);
#pragma unroll 1
        for (int number = mine.lane; number < strips; number += mine.lanes) {
            depthwise_strip strip = strip_of(cut, number);
            int y = at.y + strip.row, x = at.x + strip.column;
            if ((unsigned)y >= (unsigned)cut.h || x >= cut.w)
                continue;
            float8 sum[STRIP];
#pragma unroll
            for (int i = 0; i < STRIP; i++)
                sum[i] = load8(weights + K * K * pitch + mine.vector * 8);
#pragma unroll
            for (int tap = Axis::first_tap(strip.row); tap < K; tap += Axis::TAP_STEP) {
                int row = strip.image * cut.rows + Axis::row_of_tap(strip.row, tap);
                int pixel = row * cut.columns + Axis::strip_pixel(strip.column);
                add_taps<Axis, K>(sum, pixels + pixel * pitch + mine.vector * 8,
                                  weights + tap * K * pitch + mine.vector * 8, pitch);
            }
            a.sink.take(walk, at.image + strip.image, y, x, sum, &sums);
        }
    }
    finish_sums(a.sink.e.partial, a.sink.e.cut, sums);
}

/* ---- launch ----------------------------------------------------------------------------------------------------- */

/* Shared memory for the pixels of a tile: three blocks on a multiprocessor, beside their sums. */
static int tile_space(const rc_cuda *cuda)
{
    enum { BLOCK_BYTES = 75 * 1024 };
    int sums = MAP_THREADS * 16 * (cuda->bf16 ? (int)sizeof(float) : (int)sizeof(double));
    int weights = (5 * 5 + 1) * TILE_VECTORS * 8 * (int)sizeof(float);
    return rc_cuda_shared(cuda, BLOCK_BYTES) - sums - weights - TILE_VECTORS * (int)sizeof(coefficients8);
}

template <typename Shape, typename Source, typename Sink>
static bool launch(rc_cuda *cuda, const char *operation, const rc_conv *conv, const rc_tensor *batch,
                   depthwise_arguments<Source, Sink> a)
{
    typedef typename Sink::Act Act;
    constexpr int K = Shape::K, S = Shape::S;
    cut_channels(&a.cut.map, conv->c_out);
    int rows = rc_cuda_partial_rows(batch->n * (Sink::FORWARD ? conv->oh * conv->ow : conv->h * conv->w));
    int pitch = a.cut.map.width * 8;
    typedef depthwise_axis<K, S, Sink::FORWARD> Axis;
    if (!cut_depthwise<Axis>(conv, Sink::FORWARD, batch, pitch * (int)sizeof(Act), 0, tile_space(cuda), rows, &a.cut))
        return false;
    a.sink.e.cut = a.cut.map;
    a.tile_bytes = a.cut.images * a.cut.rows * a.cut.columns * pitch * (int)sizeof(Act);
    a.c = conv->c_out;
    auto kernel = depthwise_kernel<K, S, Source, Sink>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    size_t rest = (size_t)(K * K + 1) * (size_t)pitch * sizeof(float) + TILE_VECTORS * sizeof(typename Source::pending);
    rc_cuda_launch_early(cuda, operation, kernel, map_grid(a.cut.map), MAP_THREADS, (size_t)a.tile_bytes + rest, a);
    return true;
}

template <typename Act>
static void forward_of(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const float *weight, const float *bias,
                       rc_tensor *y, const rc_epilogue *epilogue)
{
    depthwise_arguments<depthwise_value<Act>, depthwise_result<Act>> a = {};
    a.source.map = view_tensor<Act>(x);
    a.sink.e = view_epilogue<Act>(y, epilogue, a.cut.map);
    a.weight = weight;
    a.bias = bias;
    bool done = with_depthwise_shape(conv, [&](auto shape) {
        return launch<decltype(shape)>(cuda, "depthwise_forward", conv, y, a);
    });
    if (!done)
        rc_cuda_any_depthwise_forward(cuda, conv, x, weight, bias, y, epilogue);
}

template <typename Act>
static void backward_data_of(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                             const rc_back_epilogue *epilogue)
{
    depthwise_arguments<depthwise_gradient<Act>, depthwise_derivative<Act>> a = {};
    a.source.dy = view_grad<Act>(dy);
    a.sink.e = view_back_epilogue<Act>(dx, epilogue, a.cut.map);
    a.weight = weight;
    bool done = with_depthwise_shape(conv, [&](auto shape) {
        return launch<decltype(shape)>(cuda, "depthwise_backward_data", conv, epilogue->x, a);
    });
    if (!done)
        rc_cuda_any_depthwise_data(cuda, conv, dy, weight, dx, epilogue);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static rc_status reserve_depthwise(rc_backend *be, const rc_conv *conv, int)
{
    size_t bias = rc_cuda_bias_bytes(conv->c_out), weight = rc_cuda_depthwise_workspace(conv);
    return rc_cuda_reserve(rc_cuda_of(be), bias > weight ? bias : weight);
}

static void depthwise_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                              rc_tensor *y, const rc_epilogue *epilogue)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (x->value && !x->stored)
        cuda->table.materialise(be, x);
    if (cuda->bf16)
        forward_of<__nv_bfloat16>(cuda, conv, x, (const float *)weight, (const float *)bias, y, epilogue);
    else
        forward_of<float>(cuda, conv, x, (const float *)weight, (const float *)bias, y, epilogue);
}

static void depthwise_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight,
                                    void *dx, const rc_back_epilogue *epilogue)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (cuda->bf16)
        backward_data_of<__nv_bfloat16>(cuda, conv, dy, (const float *)weight, dx, epilogue);
    else
        backward_data_of<float>(cuda, conv, dy, (const float *)weight, dx, epilogue);
}

static void depthwise_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                      void *dweight, void *dbias)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (!rc_cuda_depthwise_weight(cuda, conv, x, dy, (float *)dweight))
        rc_cuda_any_depthwise_weight(cuda, conv, x, dy, (float *)dweight);
    if (dbias)
        rc_cuda_bias_gradient(cuda, dy, (float *)dbias);
}

void rc_cuda_fill_depthwise(rc_cuda *cuda)
{
    cuda->table.reserve_depthwise = reserve_depthwise;
    cuda->table.depthwise_forward = depthwise_forward;
    cuda->table.depthwise_backward_data = depthwise_backward_data;
    cuda->table.depthwise_backward_weight = depthwise_backward_weight;
}
