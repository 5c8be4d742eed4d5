/* Back through a chain whose normalisations took the statistics of the batch (chain_train.cuh).
 *
 * All blocks of the kernel are on the device at once. The products of link l are dL/dvalue of the link before; with the
 * slope of its activation they are dz, which a thread keeps as bf16, in registers, until the blocks have met
 * (meeting.cuh): each leaves a row of sums for its group of images and arrives, and then adds the rows of its group
 * itself, in order, in double. With the coefficients that they give, dz becomes dL/draw, which goes to the map that the
 * next products read, where the products of all warps are done by then, and to memory, for the weight gradients. A
 * second map holds dz of the last sum until it has come to the value that was added; that of link 1 stays for its skip.
 *
 * In the end block l does the rest of link l's normalisation, for all groups (norm.cuh). */
#include "backend/cuda/convolution/chain.h"

#include "backend/cuda/convolution/chain_train.cuh"

struct train_back_link {
    const char *weights;                      /* packed */
    const bf16 *raw;                          /* (n, h, w, c) */
    const bf16 *stored;                       /* the value that tells the slope; NULL: raw does */
    bf16 *draw;                               /* (n, h, w, c) */
    void *partial;                            /* NULL: no sums */
    const float *scale, *shift, *mean, *istd; /* (groups, c) */
    float *dgamma, *dbeta, *a, *b, *c;
    float below;
    bool adds;
};

struct train_back_chain {
    const bf16 *g; /* of the last link; its draw may be the same memory */
    bf16 *dx;
    const bf16 *addend; /* what dx is added to: dx, or another; NULL: overwrite */
    chain_skip skip;    /* of link 1 */
    bf16 *dskip;        /* NULL: there is none */
    bool add_skip;
    meeting *meets;
    norm_shape shape;
    int h, count;
    int group_blocks[RC_MAX_GROUPS];
    train_back_link link[RC_MAX_FUSED + 1]; /* 0: what the first link reads, of which dx is the gradient */
};

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* What makes dz of dL/dvalue, and dL/draw of dz, in two channels. */
struct slope_of_two {
    float2 scale, shift;
    float below;

    __device__ void read(const train_back_link &link, int at)
    {
        bool told = link.scale && !link.stored;
        scale = told ? load2(link.scale + at) : make_float2(1, 1);
        shift = told ? load2(link.shift + at) : make_float2(0, 0);
        below = link.below;
    }

    /* As bf16. told: raw, or the value that is stored. */
    __device__ unsigned dz(float2 v, unsigned told) const
    {
        float2 z = unpack2(told);
        z = make_float2(z.x * scale.x + shift.x, z.y * scale.y + shift.y);
        return pack_bf16(z.x > 0 ? v.x : below * v.x, z.y > 0 ? v.y : below * v.y);
    }
};

struct coefficients_of_two {
    float2 a, b, c;

    __device__ unsigned draw(unsigned dz_bits, unsigned raw_bits) const
    {
        float2 dz = unpack2(dz_bits), raw = unpack2(raw_bits);
        return pack_bf16(a.x * dz.x + (b.x * raw.x + c.x), a.y * dz.y + (b.y * raw.y + c.y));
    }
};

__device__ inline unsigned load_word(const bf16 *from)
{
    return __ldg((const unsigned *)from);
}

/* The gradient of the last link: dz to `kept`, dL/draw to `map` and to memory. */
template <typename Shape>
__device__ inline void load_gradient(const train_back_chain &chain, int group, int image, char *map, char *kept)
{
    constexpr int PAIRS = Shape::C / 2;
    const train_back_link &link = chain.link[chain.count];
    int pair = threadIdx.x % PAIRS, step = blockDim.x / PAIRS, pixels = chain.h * Shape::W;
    int channel = group * Shape::C + pair * 2;
    slope_of_two slope;
    slope.read(link, channel);
    coefficients_of_two by = {load2(link.a + channel), load2(link.b + channel), load2(link.c + channel)};
    size_t first = (size_t)image * pixels * Shape::C + pair * 2;
#pragma unroll 4
    for (int pixel = threadIdx.x / PAIRS; pixel < pixels; pixel += step) {
        size_t at = first + pixel * Shape::C;
        unsigned raw = load_word(link.raw + at), told = link.stored ? load_word(link.stored + at) : raw;
        unsigned dz = slope.dz(unpack2(*(const unsigned *)(chain.g + at)), told), draw = by.draw(dz, raw);
        int to = Shape::in_map(pixel / Shape::W, pixel % Shape::W, pair / 4) + pair % 4 * 4;
        *(unsigned *)(map + to) = draw;
        *(unsigned *)(link.draw + at) = draw;
        *(unsigned *)(kept + to) = dz;
    }
}

/* The same for large maps: eight channels at a time, and no load waits for another. */
template <typename Shape>
__device__ inline void load_large_gradient(const train_back_chain &chain, int group, int image, char *map, char *kept)
{
    constexpr int VECTORS = Shape::C / 8, AT_ONCE = 4;
    const train_back_link &link = chain.link[chain.count];
    int vector = threadIdx.x % VECTORS, step = blockDim.x / VECTORS, pixels = chain.h * Shape::W;
    int channel = group * Shape::C + vector * 8;
    const bf16 *told_from = link.stored ? link.stored : link.raw;
    size_t first = (size_t)image * pixels * Shape::C + vector * 8;
    slope_of_two slope[4];
    coefficients_of_two by[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int at = channel + 2 * k;
        slope[k].read(link, at);
        by[k] = {load2(link.a + at), load2(link.b + at), load2(link.c + at)};
    }
#pragma unroll 1
    for (int pixel = threadIdx.x / VECTORS; pixel < pixels; pixel += AT_ONCE * step) {
        uint4 g[AT_ONCE], raw[AT_ONCE], told[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            size_t at = first + (pixel + u * step) * Shape::C;
            if (pixel + u * step >= pixels)
                break;
            g[u] = *(const uint4 *)(chain.g + at);
            raw[u] = load16(link.raw + at);
            told[u] = load16(told_from + at);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int now = pixel + u * step, to = Shape::in_map(now / Shape::W, now % Shape::W, vector);
            if (now >= pixels)
                break;
            uint4 dz, draw;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                unsigned word = slope[k].dz(unpack2((&g[u].x)[k]), (&told[u].x)[k]);
                (&dz.x)[k] = word;
                (&draw.x)[k] = by[k].draw(word, (&raw[u].x)[k]);
            }
            *(uint4 *)(map + to) = draw;
            *(uint4 *)(link.draw + first + now * Shape::C) = draw;
            *(uint4 *)(kept + to) = dz;
        }
    }
}

/* Of all images of a block. */
template <typename Shape>
__device__ inline void load_gradients(const train_back_chain &chain, const train_share &share, char *maps, char *kept)
{
    for (int i = 0; i < Shape::IMAGES && i < share.images; i++) {
        int at = i * Shape::map_bytes(chain.h);
        if (Shape::LARGE)
            load_large_gradient<Shape>(chain, share.group, share.image + i, maps + at, kept + at);
        else
            load_gradient<Shape>(chain, share.group, share.image + i, maps + at, kept + at);
    }
}

/* Where the first result of a task lies. */
struct back_place {
    unsigned in_tensor; /* elements */
    int in_map;         /* bytes */
};

template <typename Shape>
__device__ inline back_place place_of(chain_task task, const train_share &share, int own, int h)
{
    int row = task_row(task, share, h), column = task_column<Shape>(task);
    back_place place = {(unsigned)((row * Shape::W + column) * Shape::C + own),
                        result_in_maps<Shape>(task, Shape::map_bytes(h))};
    return place;
}

/* dz of a task, two channels in a word, between two meetings. */
template <typename Shape> struct held_dz {
    unsigned dz[Shape::TILES][Shape::ROWS][2];

    /* each(word, its number). */
    template <typename Each> __device__ void for_all(Each each)
    {
        for_results<Shape>([&](int tile, int row, int i) {
            each(dz[tile][row][i], (row * Shape::TILES + tile) * 2 + i);
        });
    }

    /* Rounds the products of a task, dL/dvalue of a link. ADDS: what `kept` holds is added to them. */
    template <bool ADDS>
    __device__ void round(const typename Shape::sums &sum, const chain_results<Shape> &results, const char *kept)
    {
        for_results<Shape>([&](int tile, int row, int i) {
            float2 v = make_float2(sum[tile][row][i], sum[tile][row][2 + i]);
            if (ADDS) {
                float2 old = unpack2(*(const unsigned *)(kept + results.in_map(tile, row, i)));
                v = make_float2(v.x + old.x, v.y + old.y);
            }
            dz[tile][row][i] = pack_bf16(v.x, v.y);
        });
    }

    /* The same for what the first link reads, whose gradient goes to dx; kept NULL: it adds nothing. */
    __device__ void leave(const typename Shape::sums &sum, const chain_results<Shape> &results, const char *kept,
                          const bf16 *addend, bf16 *dx)
    {
        for_results<Shape>([&](int tile, int row, int i) {
            int in_tensor = results.in_tensor(tile, row, i);
            float2 v = make_float2(sum[tile][row][i], sum[tile][row][2 + i]);
            if (kept) {
                float2 old = unpack2(*(const unsigned *)(kept + results.in_map(tile, row, i)));
                v = make_float2(v.x + old.x, v.y + old.y);
            }
            if (addend && results.inside(tile)) {
                float2 old = unpack2(*(const unsigned *)(addend + in_tensor));
                v = make_float2(v.x + old.x, v.y + old.y);
            }
            dz[tile][row][i] = pack_bf16(v.x, v.y);
            if (results.inside(tile))
                *(unsigned *)(dx + in_tensor) = dz[tile][row][i];
        });
    }

    /* From dL/dvalue to dz, whose sums are left at `to`. raw_from: from the task's first result on; told_of(place from
     * there, raw) tells the slope. */
    template <typename Told>
    __device__ void slope_down(const chain_results<Shape> &results, const bf16 *raw_from, Told told_of,
                               const slope_of_two &slope, float2 mean, float *to)
    {
        float2 first = make_float2(0, 0), second = make_float2(0, 0);
        for_results<Shape>([&](int tile, int row, int i) {
            bool there = !Shape::TILE_IMAGES || results.inside(tile); /* otherwise the first image is read */
            int in_tensor = results.in_tensor(there ? tile : 0, row, i);
            unsigned raw = load_word(raw_from + in_tensor), told = told_of(in_tensor, raw);
            dz[tile][row][i] = slope.dz(unpack2(dz[tile][row][i]), told);
            float2 s = unpack2(there ? dz[tile][row][i] : 0), r = unpack2(raw);
            first = make_float2(first.x + s.x, first.y + s.y);
            second = make_float2(second.x + s.x * (r.x - mean.x), second.y + s.y * (r.y - mean.y));
        });
        if (Shape::TASK_IMAGES > 1 && !results.inside(0))
            first = second = make_float2(0, 0);
        store_task_sums(first, second, to);
    }

    /* From dz to dL/draw, in `map` and in memory; kept NULL: dz is not. */
    __device__ void finish(const chain_results<Shape> &results, const bf16 *raw_from, bf16 *to, char *map, char *kept,
                           const coefficients_of_two &by)
    {
        for_results<Shape>([&](int tile, int row, int i) {
            int in_tensor = results.in_tensor(tile, row, i), in_map = results.in_map(tile, row, i);
            bool inside = results.inside(tile);
            bool there = !Shape::TILE_IMAGES || inside;
            unsigned draw = by.draw(dz[tile][row][i], there ? load_word(raw_from + in_tensor) : 0);
            *(unsigned *)(map + in_map) = draw;
            if (inside)
                *(unsigned *)(to + in_tensor) = draw;
            if (kept)
                *(unsigned *)(kept + in_map) = dz[tile][row][i];
        });
    }
};

/* ---- sums of all blocks ------------------------------------------------------------------------------------------ */

/* Waits for the sums of all blocks, and makes a, b and c of the block's group, (3, C). */
template <typename Train>
__device__ inline void meet(const train_back_chain &a, const train_back_link &link, const train_share &share,
                            unsigned arrivals, double *space, float *table)
{
    typedef typename Train::Shape Shape;
    constexpr int C = Shape::C;
    int channel = threadIdx.x, at = share.group * C + channel;
    float scale = 0, mean = 0, istd = 0;
    if (channel < C) {
        scale = link.scale[at];
        mean = link.mean[at];
        istd = link.istd[at];
    }
    if (threadIdx.x == 0)
        wait_for_arrivals(a.meets, arrivals);
    __syncthreads();
    add_rows<Shape, Train::THREADS>(link.partial, a.shape.groups.count, share.group, a.group_blocks[share.group],
                                    space);
    __syncthreads();
    if (channel < C) {
        double first = add_warps<Train::THREADS, C>(space, channel);
        double second = add_warps<Train::THREADS, C>(space, C + channel), by_raw, constant;
        batch_coefficients(first, second, samples_of(a.shape, share.group), (double)scale, (double)mean, (double)istd,
                           &by_raw, &constant);
        table[channel] = scale;
        table[C + channel] = (float)by_raw;
        table[2 * C + channel] = (float)constant;
    }
    __syncthreads();
}

/* The normalisation of a link for all groups. */
template <typename Shape, int THREADS>
__device__ inline void finish_link(const train_back_chain &a, const train_back_link &link, double *space)
{
    const double *sums = add_groups<Shape, THREADS>(link.partial, a.shape.groups.count, a.group_blocks, space);
    if (threadIdx.x >= Shape::C)
        return;
    backward_norm norm = {};
    norm.shape = a.shape;
    norm.train = true;
    norm.scale = link.scale;
    norm.mean = link.mean;
    norm.istd = link.istd;
    norm.dgamma = link.dgamma;
    norm.dbeta = link.dbeta;
    norm.a = link.a;
    norm.b = link.b;
    norm.c = link.c;
    norm.finish(threadIdx.x, norm.know(threadIdx.x), sums + threadIdx.x, 2 * Shape::C, Shape::C);
}

/* What others read of the sums that this kernel leaves them: how many rows there are, and zeros for a group that has
 * fewer. */
template <typename Shape> __device__ inline void complete_rows(const train_back_chain &a, const train_share &share)
{
    int groups = a.shape.groups.count, most = 0;
    for (int g = 0; g < groups; g++)
        most = most > a.group_blocks[g] ? most : a.group_blocks[g];
    for (int g = 0; g < groups; g++)
        if (share.row >= a.group_blocks[g] && a.group_blocks[share.group] == most && threadIdx.x < 2 * Shape::C)
            partial_row(a.link[0].partial, share.row, groups, g, Shape::C)[threadIdx.x] = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        ((partial_header *)a.link[0].partial)->rows = most;
}

/* dz of a task of which dL/dvalue is held; first: where it begins in a tensor. */
template <typename Shape>
__device__ inline void slope_task(held_dz<Shape> &held, const chain_results<Shape> &results,
                                  const train_back_link &link, unsigned first, int in_group, float *sums)
{
    const bf16 *raw = link.raw + first, *stored = link.stored ? link.stored + first : NULL;
    slope_of_two slope;
    slope.read(link, in_group);
    float2 mean = load2(link.mean + in_group);
    auto of_stored = [&](int place, unsigned) { return load_word(stored + place); };
    auto of_raw = [](int, unsigned bits) { return bits; };
    if (stored) /* asked once, so that no load waits for another */
        held.slope_down(results, raw, of_stored, slope, mean, sums);
    else
        held.slope_down(results, raw, of_raw, slope, mean, sums);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* A thread asks for a line of raw, and where maps are large of what is stored, so that it is in L2 when dL/dvalue of
 * the link has been computed. */
template <typename Shape>
__device__ inline void expect_raw(const train_back_chain &a, const train_back_link &link, const train_share &share)
{
    constexpr int LINE = 64;
    int images = share.images < Shape::IMAGES ? share.images : Shape::IMAGES;
    int image_elements = a.h * Shape::W * Shape::C;
    for (int i = threadIdx.x * LINE; link.raw && i < images * image_elements; i += blockDim.x * LINE)
        prefetch_line(link.raw + (size_t)share.image * image_elements + i);
    for (int i = threadIdx.x * LINE; Shape::LARGE && link.stored && i < images * image_elements; i += blockDim.x * LINE)
        prefetch_line(link.stored + (size_t)share.image * image_elements + i);
}

template <typename Train>
__global__ static void __launch_bounds__(Train::THREADS, Train::BLOCKS)
    chain_train_back_kernel(const __grid_constant__ train_back_chain a)
{
    typedef typename Train::Shape Shape;
    constexpr int C = Shape::C, HELD = Train::HELD, WARPS = Train::WARPS;
    char *shared = dynamic_shared();
    int map_bytes = Shape::map_bytes(a.h), maps = Train::maps(a.h), tasks = Shape::tasks(a.h);
    char *kept = shared + Shape::IMAGES * map_bytes;
    double *space = (double *)(shared + maps + 2 * Train::WEIGHTS);
    float *task_sums = (float *)((char *)space + Train::SPACE);
    float *table = (float *)((char *)task_sums + Train::TASK_SUMS);
    unsigned weights = shared_address(shared) + maps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channel = warp % Shape::TILES_M * 16 + lane / 4 * 2;
    train_share share = share_of<Shape>(a);
    int in_group = share.group * C + channel;
    unsigned offset[3], arrivals = *(volatile unsigned *)&a.meets->base;
    chain_results<Shape> results;
    held_dz<Shape> held;
    unsigned *parked = (unsigned *)(table + 3 * C) + threadIdx.x; /* dz of all tasks but the last of a warp */
    results.begin(a.h, share.images);
    int own = take_place<Train>(results);
    locate_operands<Shape>(offset, map_bytes);

    copy_first_weights<Train>(weights, a.count % 2, a.link[a.count].weights);
    expect_raw<Shape>(a, a.link[a.count - 1], share);
    clear_maps(shared, maps);
    __syncthreads();
    load_gradients<Shape>(a, share, shared, kept);
#pragma unroll 1
    for (int l = a.count; l > 0; l--) {
        const train_back_link &link = a.link[l - 1]; /* whose gradient it is */
        bool first = l == 1, adds = l < a.count && a.link[l + 1].adds;
        wait_for_copies();
        __syncthreads();
        if (!first) {
            if (!Train::STREAMED)
                copy_first_weights<Train>(weights, (l - 1) % 2, link.weights);
            expect_raw<Shape>(a, a.link[l - 2], share);
        }
        for (int i = 0; first && a.dskip && i < Shape::IMAGES && i < share.images; i++)
            store_skip(a.skip, a.dskip, a.add_skip, share.image + i, [&](int y, int x, int vector) {
                return *(const uint4 *)(kept + i * map_bytes + Shape::in_map(y, x, vector));
            });
#pragma unroll 1
        for (int k = 0; k < HELD; k++) {
            int number = warp + k * WARPS;
            if (number >= tasks)
                break;
            chain_task task = task_of<Shape>(number);
            typename Shape::sums sum;
            unsigned begin = source_in_maps<Shape>(task, map_bytes), map = shared_address(shared) + begin;
            if (Train::STREAMED)
                multiply_streamed<Train>(sum, offset, map, weights, task.tile_m, a.link[l].weights,
                                         first ? NULL : link.weights);
            else
                multiply_task<Shape>(sum, offset, map,
                                     weights + l % 2 * Train::WEIGHTS + task.tile_m * 512 + lane * 16);
            back_place at = place_of<Shape>(task, share, own, a.h);
            const char *added = adds ? kept + at.in_map : NULL;
            if (first)
                held.leave(sum, results, added, a.addend ? a.addend + at.in_tensor : NULL, a.dx + at.in_tensor);
            else if (adds)
                held.template round<true>(sum, results, added);
            else
                held.template round<false>(sum, results, added);
            if (!link.partial)
                continue;
            slope_task(held, results, link, at.in_tensor, in_group, task_sums + number * 32);
            if (k < HELD - 1)
                held.for_all([&](unsigned &bits, int index) { parked[index * Train::THREADS] = bits; });
        }
        __syncthreads();
        if (link.partial)
            add_task_sums<Shape>(partial_row(link.partial, share.row, a.shape.groups.count, share.group, C), task_sums,
                                 tasks);
        if (first)
            break;
        __syncthreads();
        if (threadIdx.x == 0)
            arrive_at(a.meets);
        arrivals += gridDim.x;
        meet<Train>(a, link, share, arrivals, space, table);
        coefficients_of_two by = {load2(table + channel), load2(table + C + channel), load2(table + 2 * C + channel)};
#pragma unroll 1
        for (int k = HELD - 1; k >= 0; k--) {
            int number = warp + k * WARPS;
            if (number >= tasks)
                continue;
            if (k < HELD - 1)
                held.for_all([&](unsigned &bits, int index) { bits = parked[index * Train::THREADS]; });
            back_place at = place_of<Shape>(task_of<Shape>(number), share, own, a.h);
            held.finish(results, link.raw + at.in_tensor, link.draw + at.in_tensor, shared + at.in_map,
                        link.adds ? kept + at.in_map : NULL, by);
        }
    }
    if (a.link[0].partial)
        complete_rows<Shape>(a, share);
    for (int l = 1 + blockIdx.x; l < a.count; l += gridDim.x) /* all have met over these sums */
        finish_link<Shape, Train::THREADS>(a, a.link[l], (double *)shared);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        a.meets->base = arrivals; /* everybody has read it, or would not have come */
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

bool rc_cuda_train_back_fits(rc_cuda *cuda, const rc_conv *conv, int n, int groups)
{
    return fits_at_once(cuda, conv, n, groups, true,
                        [](auto train) { return chain_train_back_kernel<decltype(train)>; });
}

/* What a link's gradient takes of its tensor. */
static train_back_link link_of_tensor(const rc_tensor *y)
{
    train_back_link link = {};
    link.raw = (const bf16 *)y->raw;
    link.scale = (const float *)y->scale;
    link.shift = (const float *)y->shift;
    link.mean = (const float *)y->mean;
    link.istd = (const float *)y->istd;
    link.below = slope_below(y->act);
    link.adds = y->skip.value != NULL;
    link.stored = y->stored && y->act != RC_ACT_NONE ? (const bf16 *)y->value : NULL;
    return link;
}

static train_back_link link_of(const rc_fused_train_back *layer, const char *weights)
{
    train_back_link link = link_of_tensor(layer->layer.dy->y);
    link.weights = weights;
    link.draw = (bf16 *)layer->draw;
    link.partial = rc_without_const(layer->norm.partial);
    link.dgamma = (float *)layer->norm.dgamma;
    link.dbeta = (float *)layer->norm.dbeta;
    link.a = (float *)layer->norm.a;
    link.b = (float *)layer->norm.b;
    link.c = (float *)layer->norm.c;
    return link;
}

void rc_cuda_chain_train_back(rc_backend *be, const rc_fused_train_back *links, int count,
                              const rc_fused_train_gradients *to)
{
    rc_cuda *cuda = rc_cuda_of(be);
    const rc_conv *conv = links[0].layer.conv;
    const rc_tensor *y = links[0].layer.dy->y;
    train_back_chain a = {};
    bool fresh = false;
    a.g = (const bf16 *)links[count - 1].layer.dy->g;
    a.dx = (bf16 *)to->dx;
    if (to->epilogue.add)
        a.addend = to->epilogue.addend ? (const bf16 *)to->epilogue.addend : a.dx;
    a.skip = view_skip(&y->skip);
    a.dskip = (bf16 *)to->dskip;
    a.add_skip = to->add_skip;
    a.meets = (meeting *)(cuda->meetings + cuda->lane * RC_CUDA_MEETING);
    a.shape = shape_of(y);
    a.h = conv->h;
    a.count = count;
    a.link[0] = link_of_tensor(to->epilogue.x);
    a.link[0].partial = to->epilogue.partial;
    for (int i = 0; i < count; i++)
        a.link[i + 1] = link_of(&links[i], rc_cuda_chain_weights(cuda, conv, false, links[i].layer.weight, &fresh));
    with_train_shape(cuda, conv, y->n, [&](auto train) {
        typedef decltype(train) Train;
        int blocks = deal_blocks<typename Train::Shape>(a.shape.groups, a.group_blocks);
        rc_cuda_allow_shared(cuda, chain_train_back_kernel<Train>, "chain_train_back");
        rc_cuda_launch_together(cuda, "chain_train_back", chain_train_back_kernel<Train>, dim3((unsigned)blocks),
                                Train::THREADS, (size_t)(Train::bytes(a.h) + Train::PARKED), a);
        return true;
    });
}
