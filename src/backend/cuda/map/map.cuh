/* Walking over a map (n, h, w, cp) with per-channel sums: how the work is cut, and the epilogues that write `partial`.
 *
 * The grid is (slots, groups, tiles): a slot is a run of pixels of one group, a tile at most 32 vectors of 8 channels.
 * Thread t of a block takes vector t % width of the tile and every lanes-th pixel of the slot. The cut depends on the
 * shape alone, and slot s writes row s of `partial`, so the sums are the same in every run and on every card. */
#ifndef RC_BACKEND_CUDA_MAP_MAP_CUH
#define RC_BACKEND_CUDA_MAP_MAP_CUH

#include "backend/cuda/device.cuh"

enum { MAP_THREADS = 256, MAP_TILE = 32, MAP_PIXELS = 4 /* per thread, where there are enough slots */ };

struct map_cut {
    group_view groups;
    int image_pixels, cp, width, slots, tiles;
};

static inline map_cut cut_map(const rc_tensor *t)
{
    map_cut cut = {};
    cut.groups = view_groups(t);
    cut.image_pixels = t->h * t->w;
    cut.cp = rc_cuda_padded(t->c);
    int vectors = cut.cp / 8;
    cut.width = vectors < MAP_TILE ? vectors : MAP_TILE;
    cut.tiles = (vectors + cut.width - 1) / cut.width;
    int most = 0, pixels = t->n * cut.image_pixels;
    for (int g = 0; g < t->groups; g++) {
        int images = t->group_end[g] - group_begin(cut.groups, g);
        most = images > most ? images : most;
    }
    int each = MAP_THREADS / cut.width * MAP_PIXELS;
    cut.slots = (most * cut.image_pixels + each - 1) / each;
    if (cut.slots > rc_cuda_partial_rows(pixels))
        cut.slots = rc_cuda_partial_rows(pixels);
    return cut;
}

static inline dim3 map_grid(const map_cut &cut)
{
    return dim3((unsigned)cut.slots, (unsigned)cut.groups.count, (unsigned)cut.tiles);
}

/* What a thread walks over: for (int pixel = walk.first; pixel < walk.end; pixel += walk.step). */
struct map_walk {
    int channel; /* the first of eight; past cp: nothing to do */
    int group, first, end, step;
};

__device__ inline map_walk walk_map(const map_cut &cut)
{
    int group = blockIdx.y, lanes = blockDim.x / cut.width, lane = threadIdx.x / cut.width;
    int begin = group_begin(cut.groups, group) * cut.image_pixels, end = cut.groups.end[group] * cut.image_pixels;
    int each = (end - begin + cut.slots - 1) / cut.slots;
    int first = begin + (int)blockIdx.x * each, last = first + each < end ? first + each : end;
    int channel = ((int)blockIdx.z * cut.width + (int)threadIdx.x % cut.width) * 8;
    map_walk walk = {channel, group, first + lane, last, lanes};
    if (lane >= lanes || walk.channel >= cut.cp)
        walk.end = 0;
    return walk;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* What rc_epilogue asks for, as an argument of a kernel. */
template <typename Act> struct forward_epilogue {
    tensor_view<Act> y;
    Act *raw;
    void *partial;
    const float *center;
    bool apply;
    map_cut cut;
};

template <typename Act>
static forward_epilogue<Act> view_epilogue(const rc_tensor *y, const rc_epilogue *epilogue, map_cut cut)
{
    forward_epilogue<Act> view = {
        view_tensor<Act>(y), (Act *)y->raw, epilogue->partial, (const float *)epilogue->center, epilogue->apply, cut};
    return view;
}

/* What the sums of eight channels are taken around. */
template <typename Act> __device__ inline float8 load_center8(const forward_epilogue<Act> &e, int channel)
{
    float8 center = zero8();
#pragma unroll
    for (int i = 0; i < 8 && e.partial && e.center; i++)
        center.v[i] = channel + i < e.y.c ? e.center[channel + i] : 0;
    return center;
}

/* Stores eight channels of the result of an operation and adds to the sums; pad channels become 0. */
template <typename Act, typename Sum>
__device__ inline void finish_forward8(const forward_epilogue<Act> &e, const map_walk &walk, place at, float8 result,
                                       const float8 &center, channel_sums<Sum> *sums)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (walk.channel + i >= e.y.c)
            result.v[i] = 0;
    if (e.partial) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Sum s = (Sum)rounded(e.raw, result.v[i]) - (Sum)center.v[i]; /* 0 for pad channels */
            sums->first[i] += s;
            sums->second[i] += s * s;
        }
    }
    if (e.apply)
        result = finish8(e.y, result, at, walk.group, walk.channel);
    store8(e.raw + offset8(e.y, at.pixel, walk.channel), result);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* What rc_back_epilogue asks for: x is the forward tensor whose dL/dvalue is being written to dx. */
template <typename Act> struct backward_epilogue {
    tensor_view<Act> x;
    const float *mean; /* (groups, cp); NULL: 0 */
    Act *dx;
    void *partial;
    const Act *addend; /* what the gradient is added to: itself, or another; NULL: overwrite */
    map_cut cut;
};

static inline const void *addend_of(const rc_back_epilogue *epilogue, const void *dx)
{
    return !epilogue->add ? NULL : epilogue->addend ? epilogue->addend : dx;
}

template <typename Act>
static backward_epilogue<Act> view_back_epilogue(void *dx, const rc_back_epilogue *epilogue, map_cut cut)
{
    backward_epilogue<Act> view = {view_tensor<Act>(epilogue->x),
                                   (const float *)epilogue->x->mean,
                                   (Act *)dx,
                                   epilogue->partial,
                                   (const Act *)addend_of(epilogue, dx),
                                   cut};
    return view;
}

/* Adds dz and dz * (raw - mean) of eight channels, given g = dL/dvalue. */
template <typename Act, typename Sum>
__device__ inline void add_gradient_sums8(const tensor_view<Act> &x, const float *mean, int group, int channel,
                                          place at, float8 g, channel_sums<Sum> *sums)
{
    float8 dz = dz8(x, g, at, channel), raw = load8(x.raw + offset8(x, at.pixel, channel));
    float8 center = mean ? load8(mean + group * x.cp + channel) : zero8();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sums->first[i] += (Sum)dz.v[i];
        sums->second[i] += (Sum)dz.v[i] * ((Sum)raw.v[i] - (Sum)center.v[i]);
    }
}

/* Stores eight channels of a gradient, or adds them to what is there, and adds to the sums; pad channels become 0. */
template <typename Act, typename Sum>
__device__ inline void finish_backward8(const backward_epilogue<Act> &e, const map_walk &walk, place at, float8 result,
                                        channel_sums<Sum> *sums)
{
    Act *to = e.dx + offset8(e.x, at.pixel, walk.channel);
    float8 before = e.addend ? load8(e.addend + offset8(e.x, at.pixel, walk.channel)) : zero8();
#pragma unroll
    for (int i = 0; i < 8; i++)
        result.v[i] = walk.channel + i < e.x.c ? rounded(to, result.v[i] + before.v[i]) : 0;
    store8(to, result);
    if (e.partial)
        add_gradient_sums8(e.x, e.mean, walk.group, walk.channel, at, result, sums);
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

/* Once a block has stored everything: its row of sums. */
template <typename Sum> __device__ inline void finish_sums(void *partial, const map_cut &cut, channel_sums<Sum> sums)
{
    __shared__ Sum space[MAP_THREADS * 16];
    if (!partial)
        return;
    Sum *row = partial_row<Sum>(partial, (int)blockIdx.x, cut.groups.count, (int)blockIdx.y, cut.cp);
    write_partial_row(row, cut.cp, (int)blockIdx.z * cut.width * 8, cut.width, sums, space);
    if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
        ((partial_header *)partial)->rows = cut.slots;
}

#endif
