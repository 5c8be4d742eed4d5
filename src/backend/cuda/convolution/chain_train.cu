/* Forward through a chain (chain.cuh) whose normalisations take the statistics of the batch.
 *
 * All blocks of the kernel are on the device at once. A link's products stay in registers, as bf16, until the blocks
 * have met (meeting.cuh): each leaves a row of sums for its group of images and arrives, writes raw to memory while the
 * others come, and then adds the rows of its group itself, in order, in double. So no map leaves the multiprocessor
 * before the next link reads it, and no kernel has to begin or to end between two links.
 *
 * In the end block l does link l's normalisation for all groups (norm.cuh), for whoever reads the tensor later. */
#include "backend/cuda/convolution/chain.h"

#include "backend/cuda/convolution/chain_train.cuh"

struct train_link {
    const char *weights; /* packed */
    bf16 *raw, *value;   /* (n, h, w, c); value NULL: nobody reads it but the next links */
    void *partial;
    rc_bn bn;
    const float *center; /* (c) */
    affine by;
    float *running_mean, *running_var; /* (c) */
    normalisation to;
    rc_act act;
    bool adds; /* as in forward_link */
};

struct train_chain {
    value_source source;
    chain_skip skip; /* of link 0 */
    meeting *meets;
    norm_shape shape;
    int h, count;
    int group_blocks[RC_MAX_GROUPS];
    train_link link[RC_MAX_FUSED];
};

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* The raw results of a task, two channels in a word, between two meetings. */
template <typename Shape> struct held_task {
    unsigned raw[Shape::TILES][Shape::ROWS][2];

    template <typename Each> __device__ void for_all(Each each)
    {
        for_results<Shape>([&](int tile, int row, int i) { each(raw[tile][row][i], tile, row, i); });
    }

    /* Rounds the products, and leaves the task's sums at `to`. */
    __device__ void take(const typename Shape::sums &sum, const chain_results<Shape> &results, float2 center, float *to)
    {
        float2 first = make_float2(0, 0), second = make_float2(0, 0);
        for_all([&](unsigned &bits, int tile, int row, int i) {
            bits = pack_bf16(sum[tile][row][i], sum[tile][row][2 + i]);
            float2 v = unpack2(bits), s = make_float2(v.x - center.x, v.y - center.y);
            if (!results.inside(tile))
                s = make_float2(0, 0);
            first = make_float2(first.x + s.x, first.y + s.y);
            second = make_float2(second.x + s.x * s.x, second.y + s.y * s.y);
        });
        store_task_sums(first, second, to);
    }

    __device__ void store(const chain_results<Shape> &results, bf16 *to)
    {
        for_all([&](unsigned &bits, int tile, int row, int i) {
            if (results.inside(tile))
                *(unsigned *)(to + results.in_tensor(tile, row, i)) = bits;
        });
    }

    /* To the value, in `map` and, unless that is NULL, in `value`. */
    template <bool ADDS, rc_act ACT>
    __device__ void finish(const chain_results<Shape> &results, float2 scale, float2 shift, char *map, bf16 *value)
    {
        for_all([&](unsigned &bits, int tile, int row, int i) {
            unsigned *at = (unsigned *)(map + results.in_map(tile, row, i));
            float2 v = unpack2(bits);
            v = make_float2(v.x * scale.x + shift.x, v.y * scale.y + shift.y);
            if (ADDS) {
                float2 skip = unpack2(*at);
                v = make_float2(v.x + skip.x, v.y + skip.y);
            }
            *at = pack_activated<ACT>(v);
            if (value && results.inside(tile))
                *(unsigned *)(value + results.in_tensor(tile, row, i)) = *at;
        });
    }

    template <bool ADDS>
    __device__ void finish_as(rc_act act, const chain_results<Shape> &results, float2 scale, float2 shift, char *map,
                              bf16 *value)
    {
        if (act == RC_ACT_NONE)
            finish<ADDS, RC_ACT_NONE>(results, scale, shift, map, value);
        else if (act == RC_ACT_RELU)
            finish<ADDS, RC_ACT_RELU>(results, scale, shift, map, value);
        else
            finish<ADDS, RC_ACT_LEAKY_RELU>(results, scale, shift, map, value);
    }
};

/* ---- sums of all blocks ------------------------------------------------------------------------------------------ */

/* Makes scale and shift of a link, (2, C), of what add_rows left. For the first C threads; `known` is the channel's. */
template <typename Shape, int THREADS>
__device__ inline void make_scale(const train_link &link, const norm_shape &shape, int group,
                                  const train_norm::known &known, const double *space, float *table)
{
    constexpr int C = Shape::C;
    int channel = threadIdx.x;
    double mean, var;
    moments(add_warps<THREADS, C>(space, channel), add_warps<THREADS, C>(space, C + channel), samples_of(shape, group),
            (double)known.center, &mean, &var);
    float unused[2];
    normalisation to = {table + channel, table + C + channel, &unused[0], &unused[1]};
    set_normalisation(to, 0, mean, var, (double)link.bn.eps, (double)known.gamma, (double)known.beta);
}

__device__ inline train_norm norm_of(const train_link &link, const norm_shape &shape)
{
    train_norm norm = {link.bn, shape, link.center, link.by, link.running_mean, link.running_var, link.to};
    return norm;
}

/* The normalisation of a link for all groups. */
template <typename Shape, int THREADS>
__device__ inline void finish_link(const train_chain &a, const train_link &link, double *space)
{
    const double *sums = add_groups<Shape, THREADS>(link.partial, a.shape.groups.count, a.group_blocks, space);
    if (threadIdx.x < Shape::C) {
        train_norm norm = norm_of(link, a.shape);
        norm.finish(threadIdx.x, norm.know(threadIdx.x), sums + threadIdx.x, 2 * Shape::C, Shape::C);
    }
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* Waits for the sums of all blocks, and makes scale and shift of the block's group. */
template <typename Train>
__device__ inline void meet(const train_chain &a, const train_link &link, const train_share &share, unsigned arrivals,
                            double *space, float *table)
{
    typedef typename Train::Shape Shape;
    train_norm::known known = {};
    if (threadIdx.x < Shape::C)
        known = norm_of(link, a.shape).know(threadIdx.x);
    if (threadIdx.x == 0)
        wait_for_arrivals(a.meets, arrivals);
    __syncthreads();
    add_rows<Shape, Train::THREADS>(link.partial, a.shape.groups.count, share.group, a.group_blocks[share.group],
                                    space);
    __syncthreads();
    if (threadIdx.x < Shape::C)
        make_scale<Shape, Train::THREADS>(link, a.shape, share.group, known, space, table);
    __syncthreads();
}

template <typename Train>
__global__ static void __launch_bounds__(Train::THREADS, Train::BLOCKS)
    chain_train_kernel(const __grid_constant__ train_chain a)
{
    typedef typename Train::Shape Shape;
    constexpr int C = Shape::C, HELD = Train::HELD, WARPS = Train::WARPS;
    char *shared = dynamic_shared();
    int map_bytes = Shape::map_bytes(a.h), maps = Train::maps(a.h), tasks = Shape::tasks(a.h);
    double *space = (double *)(shared + maps + 2 * Train::WEIGHTS);
    float *task_sums = (float *)((char *)space + Train::SPACE);
    float *table = (float *)((char *)task_sums + Train::TASK_SUMS);
    unsigned weights = shared_address(shared) + maps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channel = warp % Shape::TILES_M * 16 + lane / 4 * 2;
    train_share share = share_of<Shape>(a);
    unsigned offset[3], base = *(volatile unsigned *)&a.meets->base;
    chain_results<Shape> results;
    held_task<Shape> held[HELD];
    results.begin(a.h, share.images);
    int own = take_place<Train>(results);
    locate_operands<Shape>(offset, map_bytes);

    copy_first_weights<Train>(weights, 0, a.link[0].weights);
    clear_maps(shared, maps);
    __syncthreads();
    for (int i = 0; i < Shape::IMAGES && i < share.images; i++) {
        load_image<Shape>(a.source, share.group, share.image + i, a.h, shared + i * map_bytes);
        if (a.skip.value)
            load_skip<Shape>(a.skip, share.image + i, a.h, shared + (Shape::IMAGES + i) * map_bytes);
    }
#pragma unroll 1
    for (int l = 0; l < a.count; l++) {
        const train_link &link = a.link[l];
        int from = l % 2, to = 1 - from;
        float2 center = make_float2(0, 0);
        if (link.center) /* aligned to 4 bytes alone */
            center = make_float2(link.center[channel], link.center[channel + 1]);
        wait_for_copies();
        __syncthreads();
        if (!Train::STREAMED && l + 1 < a.count)
            copy_first_weights<Train>(weights, to, a.link[l + 1].weights);
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            int number = warp + k * WARPS;
            if (number >= tasks)
                break;
            chain_task task = task_of<Shape>(number);
            typename Shape::sums sum;
            unsigned begin = source_in_maps<Shape>(task, map_bytes);
            unsigned map = shared_address(shared) + from * Shape::IMAGES * map_bytes + begin;
            if (Train::STREAMED)
                multiply_streamed<Train>(sum, offset, map, weights, task.tile_m, link.weights,
                                         l + 1 < a.count ? a.link[l + 1].weights : NULL);
            else
                multiply_task<Shape>(sum, offset, map, weights + from * Train::WEIGHTS + task.tile_m * 512 + lane * 16);
            held[k].take(sum, results, center, task_sums + number * 32);
        }
        __syncthreads();
        add_task_sums<Shape>(partial_row(link.partial, share.row, a.shape.groups.count, share.group, C), task_sums,
                             tasks);
        __syncthreads();
        if (threadIdx.x == 0)
            arrive_at(a.meets);
#pragma unroll
        for (int k = 0; k < HELD; k++) { /* only now: whoever arrives waits for what it has written */
            chain_task task = task_of<Shape>(warp + k * WARPS);
            size_t first = ((size_t)task_row(task, share, a.h) * Shape::W + task_column<Shape>(task)) * C + own;
            if (warp + k * WARPS < tasks)
                held[k].store(results, link.raw + first);
        }
        if (l == a.count - 1)
            break;
        meet<Train>(a, link, share, base + (unsigned)(l + 1) * gridDim.x, space, table);
        float2 scale = load2(table + channel), shift = load2(table + C + channel);
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            chain_task task = task_of<Shape>(warp + k * WARPS);
            size_t first = ((size_t)task_row(task, share, a.h) * Shape::W + task_column<Shape>(task)) * C + own;
            char *map = shared + to * Shape::IMAGES * map_bytes + result_in_maps<Shape>(task, map_bytes);
            bf16 *value = link.value ? link.value + first : NULL;
            if (warp + k * WARPS >= tasks)
                break;
            if (link.adds)
                held[k].template finish_as<true>(link.act, results, scale, shift, map, value);
            else
                held[k].template finish_as<false>(link.act, results, scale, shift, map, value);
        }
    }
    if ((int)blockIdx.x >= a.count)
        return;
    unsigned end = base + (unsigned)a.count * gridDim.x;
    if (threadIdx.x == 0)
        wait_for_arrivals(a.meets, end);
    for (int l = blockIdx.x; l < a.count; l += gridDim.x)
        finish_link<Shape, Train::THREADS>(a, a.link[l], (double *)shared);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        a.meets->base = end; /* everybody has read it, or would not have come */
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

static bool fits(rc_cuda *cuda, const rc_conv *conv, int n, int groups)
{
    return fits_at_once(cuda, conv, n, groups, false, [](auto train) { return chain_train_kernel<decltype(train)>; }) &&
           rc_cuda_train_back_fits(cuda, conv, n, groups);
}

bool rc_cuda_trains_links(rc_cuda *cuda, const rc_conv *conv, int n, int groups)
{
    if (!cuda->meets || !rc_cuda_takes_links(cuda, conv, n, true))
        return false;
    return fits(cuda, conv, n, groups) &&
           fits(cuda, conv, 1, 1); /* a last batch may be smaller, and take another kernel */
}

static train_link link_of(const rc_fused_train *link, const char *weights)
{
    const rc_bn_forward *f = &link->norm;
    train_link made = {};
    made.weights = weights;
    made.raw = (bf16 *)link->layer.y->raw;
    made.value = (bf16 *)link->layer.y->value;
    made.partial = rc_without_const(f->partial);
    made.bn = *link->bn;
    made.center = (const float *)f->center;
    made.by = affine{(const float *)f->gamma, (const float *)f->beta};
    made.running_mean = (float *)f->running_mean;
    made.running_var = (float *)f->running_var;
    made.to = normalisation{(float *)f->scale, (float *)f->shift, (float *)f->mean, (float *)f->istd};
    made.act = link->layer.y->act;
    made.adds = link->layer.y->skip.value != NULL;
    return made;
}

void rc_cuda_chain_train(rc_backend *be, rc_tensor *x, const rc_fused_train *links, int count)
{
    rc_cuda *cuda = rc_cuda_of(be);
    const rc_conv *conv = links[0].layer.conv;
    train_chain a = {};
    bool fresh = false;
    if (!view_source(x, &a.source)) {
        be->materialise(be, x);
        x->stored = true;
        view_source(x, &a.source);
    }
    a.skip = view_skip(&links[0].layer.y->skip);
    a.meets = (meeting *)(cuda->meetings + cuda->lane * RC_CUDA_MEETING);
    a.shape = shape_of(links[0].layer.y);
    a.h = conv->h;
    a.count = count;
    for (int i = 0; i < count; i++) {
        a.link[i] = link_of(&links[i], rc_cuda_chain_weights(cuda, conv, true, links[i].layer.weight, &fresh));
        links[i].layer.y->stored = i < count - 1 && links[i].layer.y->value;
    }
    with_train_shape(cuda, conv, x->n, [&](auto train) {
        typedef decltype(train) Train;
        int blocks = deal_blocks<typename Train::Shape>(a.shape.groups, a.group_blocks);
        rc_cuda_allow_shared(cuda, chain_train_kernel<Train>, "chain_train");
        rc_cuda_launch_together(cuda, "chain_train", chain_train_kernel<Train>, dim3((unsigned)blocks), Train::THREADS,
                                (size_t)Train::bytes(a.h), a);
        return true;
    });
    x->stored = x->stored || x->value;
}
