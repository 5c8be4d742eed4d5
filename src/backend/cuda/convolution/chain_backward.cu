/* Back through a frozen chain (chain.cuh): what a normalisation does to the gradient is known for all links before, so
 * a block takes the gradient of its image from the last link's value to that of what the first link read.
 *
 * The map that link l reads holds dL/draw of its result. Its products, dL/dvalue of the link before, become dL/draw of
 * that one at once, in the other map; a third holds dz of the last sum until it has come to the value that was added;
 * that of link 0 stays for its skip. Where there is no room for it, it lies in the memory of the gradient that came
 * in. */
#include "backend/cuda/convolution/chain.h"

#include "backend/cuda/convolution/chain.cuh"
#include "backend/cuda/convolution/conv_plan.h"

struct back_link {
    const char *weights;                    /* packed */
    const float *a, *b, *c, *scale, *shift; /* (c) */
    const bf16 *raw;                        /* (n, h, w, c) */
    const bf16 *stored;                     /* the value that tells the slope; NULL: raw does */
    float below;
    bool adds;
};

struct back_chain {
    bf16 *g; /* of the last link; then sums */
    bf16 *dx;
    const bf16 *addend; /* dx, or NULL: overwrite */
    chain_skip skip;    /* of link 0 */
    bf16 *dskip;        /* NULL: there is none */
    bool add_skip;
    int n, h, count;
    bool hurries;
    back_link link[RC_MAX_FUSED];
};

/* What becomes of dL/dvalue of a link's result, in two channels. */
struct back_coefficients {
    float2 a, b, c, scale, shift;
    float below;

    __device__ void read(const back_link &link, int channel)
    {
        a = load2(link.a + channel);
        b = load2(link.b + channel);
        c = load2(link.c + channel);
        scale = load2(link.scale + channel);
        shift = load2(link.shift + channel);
        below = link.below;
    }

    __device__ float2 sign_of(float2 raw) const
    {
        return make_float2(raw.x * scale.x + shift.x, raw.y * scale.y + shift.y);
    }

    __device__ float2 dz(float2 v, float2 sign) const
    {
        return make_float2(sign.x > 0 ? v.x : below * v.x, sign.y > 0 ? v.y : below * v.y);
    }

    __device__ unsigned draw(float2 dz, float2 raw) const
    {
        return pack_bf16(a.x * dz.x + (b.x * raw.x + c.x), a.y * dz.y + (b.y * raw.y + c.y));
    }
};

/* ---- what comes in --------------------------------------------------------------------------------------------- */

/* The gradient of the last link: dz to `sum`, or back to where g was, dL/draw to `map`. */
template <typename Shape> __device__ inline void load_gradient(const back_chain &chain, int image, char *map, char *sum)
{
    constexpr int PAIRS = Shape::C / 2;
    const back_link &link = chain.link[chain.count - 1];
    int pair = threadIdx.x % PAIRS, step = blockDim.x / PAIRS, pixels = chain.h * Shape::W;
    back_coefficients by;
    by.read(link, pair * 2);
    size_t first = (size_t)image * pixels * Shape::C + pair * 2;
#pragma unroll 4
    for (int pixel = threadIdx.x / PAIRS; pixel < pixels; pixel += step) {
        size_t at = first + pixel * Shape::C;
        float2 g = unpack2(*(const unsigned *)(chain.g + at)), raw = unpack2(*(const unsigned *)(link.raw + at));
        float2 sign = link.stored ? unpack2(*(const unsigned *)(link.stored + at)) : by.sign_of(raw);
        float2 dz = by.dz(g, sign);
        int to = Shape::in_map(pixel / Shape::W, pixel % Shape::W, pair / 4) + pair % 4 * 4;
        *(unsigned *)(map + to) = by.draw(dz, raw);
        *(unsigned *)(Shape::LARGE ? (char *)(chain.g + at) : sum + to) = pack_bf16(dz.x, dz.y);
    }
}

/* ---- results --------------------------------------------------------------------------------------------------- */

template <typename Shape> struct back_finish : chain_results<Shape> {
    using chain_results<Shape>::in_map;
    using chain_results<Shape>::in_tensor;
    using chain_results<Shape>::inside;
    back_coefficients by;
    char *map, *sum;               /* of the task's first result; LARGE: sum is in a tensor */
    const bf16 *raw_from, *stored; /* likewise */
    bf16 *dx;
    const bf16 *addend;
    unsigned raw[Shape::TILES][Shape::ROWS][2];
    bool saves; /* dz, for the value that was added */

    /* Two channels of a sum of gradients. */
    __device__ unsigned *sum_at(int tile, int row, int i) const
    {
        return (unsigned *)(sum + (Shape::LARGE ? in_tensor(tile, row, i) * 2 : in_map(tile, row, i)));
    }

    /* Long before they are used. */
    __device__ void fetch()
    {
        for_results<Shape>([this](int tile, int row, int i) {
            raw[tile][row][i] = 0;
            if (inside(tile))
                raw[tile][row][i] = __ldg((const unsigned *)(raw_from + in_tensor(tile, row, i)));
        });
    }

    /* dL/dvalue of the link before: to dL/draw of it. */
    template <bool ADDS> __device__ void take(const typename Shape::sums &sums)
    {
        for_results<Shape>([this, &sums](int tile, int row, int i) {
            float2 v = make_float2(sums[tile][row][i], sums[tile][row][2 + i]);
            if (ADDS) {
                float2 old = unpack2(*sum_at(tile, row, i));
                v = make_float2(v.x + old.x, v.y + old.y);
            }
            v = unpack2(pack_bf16(v.x, v.y)); /* as it would have been stored */
            float2 of_raw = unpack2(raw[tile][row][i]), sign = by.sign_of(of_raw);
            if (stored && inside(tile))
                sign = unpack2(*(const unsigned *)(stored + in_tensor(tile, row, i)));
            float2 dz = by.dz(v, sign);
            *(unsigned *)(map + in_map(tile, row, i)) = by.draw(dz, of_raw);
            if (saves)
                *sum_at(tile, row, i) = pack_bf16(dz.x, dz.y);
        });
    }

    /* dL/dvalue of what the first link read. */
    template <bool ADDS> __device__ void leave(const typename Shape::sums &sums)
    {
        for_results<Shape>([this, &sums](int tile, int row, int i) {
            int at = in_tensor(tile, row, i);
            float2 v = make_float2(sums[tile][row][i], sums[tile][row][2 + i]);
            if (!inside(tile))
                return;
            if (ADDS) {
                float2 old = unpack2(*sum_at(tile, row, i));
                v = make_float2(v.x + old.x, v.y + old.y);
            }
            if (addend) {
                float2 old = unpack2(*(const unsigned *)(addend + at));
                v = make_float2(v.x + old.x, v.y + old.y);
            }
            *(unsigned *)(dx + at) = pack_bf16(v.x, v.y);
        });
    }
};

template <typename Shape>
__global__ static void __launch_bounds__(Shape::THREADS, 1) chain_backward_kernel(const __grid_constant__ back_chain a)
{
    char *shared = dynamic_shared();
    int map_bytes = Shape::map_bytes(a.h), all = Shape::IMAGES * map_bytes, tasks = Shape::tasks(a.h);
    int maps = (Shape::LARGE ? 2 : 3) * all;
    char *sum_map = shared + 2 * all; /* unless LARGE */
    unsigned weights = shared_address(shared) + maps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, image = blockIdx.x * Shape::IMAGES, last = a.count - 1;
    unsigned offset[3];
    back_finish<Shape> finish;
    finish.begin(a.h, a.n - image);
    locate_operands<Shape>(offset, map_bytes);

    copy_link_weights(weights + last % 2 * Shape::WEIGHTS, a.link[last].weights, Shape::WEIGHTS);
    clear_maps(shared, maps);
    wait_for_kernel_before();
    __syncthreads();
    for (int i = 0; i < Shape::IMAGES && image + i < a.n; i++)
        load_gradient<Shape>(a, image + i, shared + last % 2 * all + i * map_bytes, sum_map + i * map_bytes);
#pragma unroll 1
    for (int l = last; l >= 0; l--) {
        const back_link &before = a.link[l > 0 ? l - 1 : 0];
        int from = l % 2, to = 1 - from;
        bool adds = l < last && a.link[l + 1].adds;
        finish.by.read(before, warp % Shape::TILES_M * 16 + lane / 4 * 2);
        finish.saves = before.adds;
        wait_for_copies();
        __syncthreads();
        if (l > 0)
            copy_link_weights(weights + to * Shape::WEIGHTS, before.weights, Shape::WEIGHTS);
        else if (a.hurries)
            start_kernel_after();
        for (int i = 0; l == 0 && a.dskip && i < Shape::IMAGES && image + i < a.n; i++)
            store_skip(a.skip, a.dskip, a.add_skip, image + i, [&](int y, int x, int vector) {
                size_t pixel = (size_t)((image + i) * a.h + y) * Shape::W + x;
                return *(const uint4 *)(Shape::LARGE ? (const char *)(a.g + pixel * Shape::C + vector * 8)
                                                     : sum_map + i * map_bytes + Shape::in_map(y, x, vector));
            });
#pragma unroll 1
        for (int number = warp; number < tasks; number += blockDim.x / 32) {
            chain_task task = task_of<Shape>(number);
            int column = task.strip * 8 * Shape::TILES;
            typename Shape::sums sum;
            unsigned begin = task.row * Shape::PITCH + column * Shape::PIXEL;
            unsigned result = begin + Shape::PITCH + Shape::PIXEL;
            size_t first = ((size_t)(image * a.h + task.row) * Shape::W + column) * Shape::C;
            finish.sum = Shape::LARGE ? (char *)(a.g + first) : sum_map + result;
            finish.map = shared + to * all + result;
            finish.raw_from = before.raw + first;
            finish.stored = before.stored ? before.stored + first : NULL;
            if (l > 0)
                finish.fetch();
            multiply_task<Shape>(sum, offset, shared_address(shared) + from * all + begin,
                                 weights + from * Shape::WEIGHTS + task.tile_m * 512 + lane * 16);
            if (l > 0 && adds) {
                finish.template take<true>(sum);
            } else if (l > 0) {
                finish.template take<false>(sum);
            } else {
                finish.dx = a.dx + first;
                finish.addend = a.addend ? a.addend + first : NULL;
                if (adds)
                    finish.template leave<true>(sum);
                else
                    finish.template leave<false>(sum);
            }
        }
    }
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

static back_link back_link_of(const rc_grad *dy, const char *weights)
{
    const rc_tensor *y = dy->y;
    back_link link = {};
    link.weights = weights;
    link.a = (const float *)dy->a;
    link.b = (const float *)dy->b;
    link.c = (const float *)dy->c;
    link.scale = (const float *)y->scale;
    link.shift = (const float *)y->shift;
    link.raw = (const bf16 *)y->raw;
    link.below = slope_below(y->act);
    link.adds = y->skip.value != NULL;
    link.stored = link.adds && y->act != RC_ACT_NONE ? (const bf16 *)y->value : NULL;
    return link;
}

void rc_cuda_chain_backward(rc_backend *be, const rc_fused_back *links, int count, const rc_fused_gradients *to)
{
    rc_cuda *cuda = rc_cuda_of(be);
    const rc_conv *conv = links[0].conv;
    back_chain a = {};
    bool fresh = false;
    a.g = (bf16 *)links[count - 1].dy->g;
    a.dx = (bf16 *)to->dx;
    a.addend = to->add ? a.dx : NULL;
    a.skip = view_skip(&links[0].dy->y->skip);
    a.dskip = (bf16 *)to->dskip;
    a.add_skip = to->add_skip;
    a.n = links[0].dy->y->n;
    a.h = conv->h;
    a.count = count;
    a.hurries = cuda->lane == RC_MAIN_LANE;
    for (int i = 0; i < count; i++)
        a.link[i] = back_link_of(links[i].dy, rc_cuda_chain_weights(cuda, conv, false, links[i].weight, &fresh));
    with_chain_shape(cuda, conv, a.n, [&](auto shape) {
        typedef decltype(shape) Shape;
        int blocks = (a.n + Shape::IMAGES - 1) / Shape::IMAGES;
        rc_cuda_allow_shared(cuda, chain_backward_kernel<Shape>, "chain_backward");
        rc_cuda_launch_as(cuda, !fresh, "chain_backward", chain_backward_kernel<Shape>, dim3((unsigned)blocks),
                          chain_threads<Shape>(cuda, a.h, blocks), (size_t)chain_bytes<Shape>(a.h, CHAIN_BACK), a);
        return true;
    });
}
