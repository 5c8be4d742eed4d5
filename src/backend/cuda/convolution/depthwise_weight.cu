/* Weight gradient of a depthwise convolution.
 *
 * dW[tap] (c) = sum over results of dL/draw (c) x value of x (c) at the tap. A block keeps tiles of both maps in shared
 * memory; a thread has the taps of one row of the kernel, and goes over strips of results. Every block writes the sums
 * of its tiles to the workspace, where a second kernel adds them in a fixed order (conv_reduce.h). */
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/convolution/depthwise.cuh"

template <typename Act> struct depthwise_weight_arguments {
    depthwise_value<Act> x;
    depthwise_gradient<Act> dy;
    depthwise_cut cut;
    float *sums;                /* (groups, blocks of a group, taps, cp) */
    int tile_bytes, draw_bytes; /* of shared memory: pixels of x, and of dL/draw; what is pending follows */
};

/* Adds the products of a strip to the sums of one row of taps. */
template <typename Axis, int K, typename Act>
__device__ inline void add_strip(float8 (&sum)[K], const Act *draws, const Act *pixels, int pitch)
{
    float8 draw[STRIP];
#pragma unroll
    for (int result = 0; result < STRIP; result++)
        draw[result] = load8(draws + result * pitch);
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
                sum[tap].v[i] += draw[result].v[i] * value.v[i];
        }
    }
}

/* Grid: (blocks of a group, groups, tiles of channels). */
template <int K, int S, typename Act>
__global__ static void __launch_bounds__(MAP_THREADS, 2)
    depthwise_weight_kernel(const __grid_constant__ depthwise_weight_arguments<Act> a)
{
    typedef depthwise_axis<K, S, true> Axis;
    const depthwise_cut &cut = a.cut;
    Act *pixels = (Act *)dynamic_shared(), *draws = (Act *)(dynamic_shared() + a.tile_bytes);
    coefficients8 *draw_pending = (coefficients8 *)(dynamic_shared() + a.tile_bytes + a.draw_bytes);
    scale8 *pending = (scale8 *)(draw_pending + TILE_VECTORS);
    depthwise_thread mine = thread_of(cut);
    int group = blockIdx.y, width = cut.map.width, pitch = width * 8, tiles = tiles_of_group(cut, group);
    /* Lanes of the products: each is K threads for every vector. */
    int tap_row = mine.lane % K, lane = mine.lane / K, lanes = mine.lanes / K;
    bool idle = mine.idle || lane >= lanes;
    float8 sum[K] = {};
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    read_pending(a.x, group, mine, pending);
    read_pending(a.dy, group, mine, draw_pending);
    for (int t = blockIdx.x; t < tiles; t += cut.map.slots) {
        depthwise_place at = place_of_tile(cut, group, t);
        __syncthreads(); /* what is pending is there, and nobody reads the tiles before */
        if (!mine.idle) {
            depthwise_window source = {at.image,
                                       at.images,
                                       Axis::first_pixel(at.y, cut.pad),
                                       Axis::first_pixel(at.x, cut.pad),
                                       cut.rows,
                                       cut.columns,
                                       cut.source_h,
                                       cut.source_w,
                                       cut.by_rows,
                                       cut.by_columns};
            depthwise_window results = {at.image,   at.images, at.y,  at.x,          cut.tile_h,
                                        cut.tile_w, cut.h,     cut.w, cut.by_tile_h, cut.by_tile_w};
            load_window(a.x, pending, source, mine, width, pixels);
            load_window(a.dy, draw_pending, results, mine, width, draws);
        }
        __syncthreads();
        int strips = idle ? 0 : at.images * cut.tile_h * (cut.tile_w / STRIP);
#pragma unroll 1
        for (int number = lane; number < strips; number += lanes) {
            depthwise_strip strip = strip_of(cut, number);
            int result = (strip.image * cut.tile_h + strip.row) * cut.tile_w + strip.column;
            int row = strip.image * cut.rows + Axis::row_of_tap(strip.row, tap_row);
            int pixel = row * cut.columns + Axis::strip_pixel(strip.column);
            add_strip<Axis, K>(sum, draws + result * pitch + mine.vector * 8, pixels + pixel * pitch + mine.vector * 8,
                               pitch);
        }
    }
    float *space = (float *)dynamic_shared(); /* (lanes, taps, width, 8) */
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap < K; tap++)
        if (!idle)
            store8(space + ((lane * K + tap_row) * K + tap) * pitch + mine.vector * 8, sum[tap]);
    __syncthreads();
    float *to = a.sums + ((size_t)group * cut.map.slots + blockIdx.x) * (K * K) * cut.map.cp;
    for (int i = (int)threadIdx.x; i < K * K * pitch; i += MAP_THREADS) {
        int tap = i / pitch, channel = (int)blockIdx.z * pitch + i % pitch;
        float all = 0;
        if (channel >= cut.map.cp)
            continue;
        for (int l = 0; l < lanes; l++)
            all += space[l * K * K * pitch + i];
        to[(size_t)tap * cut.map.cp + channel] = all;
    }
}

/* ---- launch ----------------------------------------------------------------------------------------------------- */

enum { WEIGHT_BLOCKS = 528 /* of all groups and tiles of channels: four for each of 132 multiprocessors */ };

/* Blocks of a group. */
static int most_blocks(const map_cut &map, int groups)
{
    int blocks = WEIGHT_BLOCKS / (map.tiles * groups);
    return blocks > 1 ? blocks : 1;
}

size_t rc_cuda_depthwise_workspace(const rc_conv *conv)
{
    map_cut map = {};
    cut_channels(&map, conv->c_out);
    int blocks = most_blocks(map, 1) > RC_MAX_GROUPS ? most_blocks(map, 1) : RC_MAX_GROUPS;
    return (size_t)blocks * (size_t)(conv->k * conv->k) * (size_t)map.cp * sizeof(float);
}

template <typename Shape, typename Act>
static bool weight_with(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, float *dweight)
{
    enum { BLOCK_BYTES = 75 * 1024 };
    static const char operation[] = "depthwise_backward_weight";
    constexpr int K = Shape::K, S = Shape::S;
    depthwise_weight_arguments<Act> a = {};
    depthwise_cut *cut = &a.cut;
    cut_channels(&cut->map, conv->c_out);
    int pixel_bytes = cut->map.width * 8 * (int)sizeof(Act), blocks = most_blocks(cut->map, dy->y->groups);
    typedef depthwise_axis<K, S, true> Axis;
    int rest = TILE_VECTORS * (int)(sizeof(coefficients8) + sizeof(scale8));
    if (!cut_depthwise<Axis>(conv, true, dy->y, pixel_bytes, pixel_bytes, rc_cuda_shared(cuda, BLOCK_BYTES) - rest,
                             blocks, cut))
        return false;
    a.x.map = view_tensor<Act>(x);
    a.dy.dy = view_grad<Act>(dy);
    a.sums = (float *)rc_cuda_workspace(cuda, rc_cuda_depthwise_workspace(conv), operation);
    if (!a.sums)
        return true;
    a.tile_bytes = cut->images * cut->rows * cut->columns * pixel_bytes;
    a.draw_bytes = cut->images * cut->tile_h * cut->tile_w * pixel_bytes;
    int bytes = a.tile_bytes + a.draw_bytes + rest;
    int sums = MAP_THREADS * K * 8 * (int)sizeof(float); /* of all threads, at most */
    bytes = bytes > sums ? bytes : sums;
    auto kernel = depthwise_weight_kernel<K, S, Act>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, map_grid(cut->map), MAP_THREADS, (size_t)bytes, a);

    reduce_arguments reduce = {};
    reduce.sums = a.sums;
    reduce.dweight[0] = dweight;
    reduce.blocks = cut->map.groups.count * cut->map.slots;
    reduce.taps = K * K;
    reduce.k = K;
    reduce.co = reduce.co_padded = 1;
    reduce.ci = conv->c_out;
    reduce.ci_padded = cut->map.cp;
    reduce.terms = 1;
    for (int tap = 0; tap < K * K; tap++)
        reduce.term[tap][0] = (signed char)tap;
    rc_cuda_reduce_weight(cuda, &reduce);
    return true;
}

bool rc_cuda_depthwise_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, float *dweight)
{
    return with_depthwise_shape(conv, [&](auto shape) {
        typedef decltype(shape) Shape;
        return cuda->bf16 ? weight_with<Shape, __nv_bfloat16>(cuda, conv, x, dy, dweight)
                          : weight_with<Shape, float>(cuda, conv, x, dy, dweight);
    });
}
