/* Forward through a chain (chain.cuh): a teacher's, of which only the last map leaves the block, or a frozen one, whose
 * raw maps and sums are kept. */
#include "backend/cuda/convolution/chain.h"

#include "backend/cuda/convolution/chain.cuh"
#include "backend/cuda/convolution/conv_plan.h"

struct forward_link {
    const char *weights;                 /* packed */
    const float *scale, *shift, *center; /* (c) */
    bf16 *raw;                           /* frozen: (n, h, w, c) */
    bf16 *value;                         /* where the finished value goes; NULL: nowhere but into the map */
    void *partial;                       /* frozen; NULL: no sums */
    rc_act act;
    bool adds; /* what the map that it writes holds: the value that the link before has read */
};

struct forward_chain {
    value_source source;
    chain_skip skip; /* of link 0 */
    int n, h, count;
    bool hurries; /* see gather_arguments */
    forward_link link[RC_MAX_FUSED];
};

/* What finishing the results of a task takes besides. */
template <typename Shape> struct forward_finish : chain_results<Shape> {
    float2 scale, shift, center, first, second; /* of the thread's two channels; sums */
    char *map;                                  /* of the task's first result; NULL: the value stays in no map */
    bf16 *raw, *value;

    template <bool FROZEN, bool ADDS, rc_act ACT> __device__ void take(float2 v, int tile, int row, int i)
    {
        int in_map = this->in_map(tile, row, i), in_tensor = this->in_tensor(tile, row, i);
        bool inside = this->inside(tile);
        float2 skip = make_float2(0, 0);
        if (ADDS)
            skip = unpack2(*(const unsigned *)(map + in_map));
        if (FROZEN) { /* as readers of raw see it */
            unsigned bits = pack_bf16(v.x, v.y);
            if (inside)
                *(unsigned *)(raw + in_tensor) = bits;
            v = unpack2(bits);
            float2 s = make_float2(v.x - center.x, v.y - center.y);
            if (!inside)
                s = make_float2(0, 0);
            first = make_float2(first.x + s.x, first.y + s.y);
            second = make_float2(second.x + s.x * s.x, second.y + s.y * s.y);
            v = make_float2(v.x * scale.x + shift.x, v.y * scale.y + shift.y);
            if (ADDS)
                v = make_float2(v.x + skip.x, v.y + skip.y);
        } else if (ADDS) {
            v = make_float2(v.x * scale.x + (shift.x + skip.x), v.y * scale.y + (shift.y + skip.y));
        } else {
            v = make_float2(v.x * scale.x + shift.x, v.y * scale.y + shift.y);
        }
        unsigned bits = pack_activated<ACT>(v);
        *(unsigned *)(map + in_map) = bits;
        if (value && inside)
            *(unsigned *)(value + in_tensor) = bits;
    }

    template <bool FROZEN, bool ADDS, rc_act ACT> __device__ void take_all(const typename Shape::sums &sum)
    {
        for_results<Shape>([&](int tile, int row, int i) {
            take<FROZEN, ADDS, ACT>(make_float2(sum[tile][row][i], sum[tile][row][2 + i]), tile, row, i);
        });
    }
};

template <typename Shape, bool FROZEN, bool ADDS>
__device__ inline void finish_task(forward_finish<Shape> &finish, const typename Shape::sums &sum, rc_act act)
{
    if (act == RC_ACT_NONE)
        finish.template take_all<FROZEN, ADDS, RC_ACT_NONE>(sum);
    else if (act == RC_ACT_RELU)
        finish.template take_all<FROZEN, ADDS, RC_ACT_RELU>(sum);
    else
        finish.template take_all<FROZEN, ADDS, RC_ACT_LEAKY_RELU>(sum);
}

/* Adds the sums of all tasks, in order, to the block's row. */
template <typename Shape> __device__ inline void write_link_sums(void *partial, const float *sums, int tasks)
{
    if (!partial)
        return;
    add_task_sums<Shape>(partial_row(partial, (int)blockIdx.x, 1, 0, Shape::C), sums, tasks);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        ((partial_header *)partial)->rows = (int)gridDim.x;
}

template <typename Shape, bool FROZEN>
__global__ static void __launch_bounds__(Shape::THREADS, FROZEN || Shape::THREADS == CHAIN_THREADS ? 1 : 2)
    chain_forward_kernel(const __grid_constant__ forward_chain a)
{
    char *shared = dynamic_shared();
    int map_bytes = Shape::map_bytes(a.h), maps = 2 * Shape::IMAGES * map_bytes, tasks = Shape::tasks(a.h);
    float *task_sums = (float *)(shared + maps + 2 * Shape::WEIGHTS);
    unsigned weights = shared_address(shared) + maps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, image = blockIdx.x * Shape::IMAGES;
    unsigned offset[3];
    forward_finish<Shape> finish;
    finish.begin(a.h, a.n - image);
    locate_operands<Shape>(offset, map_bytes);

    copy_link_weights(weights, a.link[0].weights, Shape::WEIGHTS);
    clear_maps(shared, maps);
    wait_for_kernel_before();
    __syncthreads();
    for (int i = 0; i < Shape::IMAGES && image + i < a.n; i++) {
        load_image<Shape>(a.source, 0, image + i, a.h, shared + i * map_bytes);
        if (a.skip.value)
            load_skip<Shape>(a.skip, image + i, a.h, shared + (Shape::IMAGES + i) * map_bytes);
    }
#pragma unroll 1
    for (int l = 0; l < a.count; l++) {
        const forward_link &link = a.link[l];
        int from = l % 2, to = 1 - from, channel = warp % Shape::TILES_M * 16 + lane / 4 * 2;
        finish.scale = load2(link.scale + channel);
        finish.shift = load2(link.shift + channel);
        if (FROZEN) /* aligned to 4 bytes alone */
            finish.center = link.center ? make_float2(link.center[channel], link.center[channel + 1])
                                        : make_float2(0, 0);
        wait_for_copies();
        __syncthreads();
        if (FROZEN && l > 0) {
            write_link_sums<Shape>(a.link[l - 1].partial, task_sums + to % Shape::SUM_BUFFERS * tasks * 32, tasks);
            if (Shape::SUM_BUFFERS == 1)
                __syncthreads();
        }
        if (l + 1 < a.count)
            copy_link_weights(weights + to * Shape::WEIGHTS, a.link[l + 1].weights, Shape::WEIGHTS);
        else if (a.hurries)
            start_kernel_after();
#pragma unroll 1
        for (int number = warp; number < tasks; number += blockDim.x / 32) {
            chain_task task = task_of<Shape>(number);
            int column = task.strip * 8 * Shape::TILES;
            typename Shape::sums sum;
            unsigned begin = task.row * Shape::PITCH + column * Shape::PIXEL;
            multiply_task<Shape>(sum, offset, shared_address(shared) + from * Shape::IMAGES * map_bytes + begin,
                                 weights + from * Shape::WEIGHTS + task.tile_m * 512 + lane * 16);
            size_t first = ((size_t)(image * a.h + task.row) * Shape::W + column) * Shape::C;
            finish.map = shared + to * Shape::IMAGES * map_bytes + begin + Shape::PITCH + Shape::PIXEL;
            finish.raw = link.raw + first;
            finish.value = link.value ? link.value + first : NULL;
            finish.first = finish.second = make_float2(0, 0);
            if (link.adds)
                finish_task<Shape, FROZEN, true>(finish, sum, link.act);
            else
                finish_task<Shape, FROZEN, false>(finish, sum, link.act);
            if (FROZEN)
                store_task_sums(finish.first, finish.second,
                                task_sums + (from % Shape::SUM_BUFFERS * tasks + number) * 32);
        }
    }
    if (FROZEN) {
        __syncthreads();
        int last = (a.count - 1) % Shape::SUM_BUFFERS;
        write_link_sums<Shape>(a.link[a.count - 1].partial, task_sums + last * tasks * 32, tasks);
    }
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

const char *rc_cuda_chain_weights(rc_cuda *cuda, const rc_conv *conv, bool forward, const void *weight, bool *fresh)
{
    axis_taps taps;
    conv_form form;
    bool now;
    if (!(forward ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return NULL;
    rc_cuda_set_form(conv, forward, &taps, &form);
    form.left = true;
    form.chunk_c = form.tile_c = conv->c_in;
    form.chunks = form.tiles = 1;
    const char *packed = (const char *)rc_cuda_packed_weights(cuda, &form, (const float *)weight, &now);
    *fresh = *fresh || now;
    return packed;
}

static forward_link link_of(const rc_fused *link, bool last, const char *weights)
{
    const rc_tensor *y = link->y;
    bool apply = link->epilogue.apply;
    forward_link made = {};
    made.weights = weights;
    made.scale = (const float *)y->scale;
    made.shift = (const float *)y->shift;
    made.center = (const float *)link->epilogue.center;
    made.raw = (bf16 *)y->raw;
    made.partial = link->epilogue.partial;
    made.act = y->act;
    made.adds = y->skip.value != NULL;
    if (apply)
        made.value = last ? made.raw : NULL;
    else if (y->value && (last || (made.adds && y->act != RC_ACT_NONE)))
        made.value = (bf16 *)y->value;
    return made;
}

void rc_cuda_chain_forward(rc_backend *be, rc_tensor *x, const rc_fused *links, int count)
{
    rc_cuda *cuda = rc_cuda_of(be);
    const rc_conv *conv = links[0].conv;
    forward_chain a = {};
    bool fresh = false, frozen = !links[0].epilogue.apply;
    if (!view_source(x, &a.source)) {
        be->materialise(be, x);
        x->stored = true;
        view_source(x, &a.source);
    }
    a.skip = view_skip(&links[0].y->skip);
    a.n = x->n;
    a.h = conv->h;
    a.count = count;
    a.hurries = cuda->lane == RC_MAIN_LANE;
    for (int i = 0; i < count; i++) {
        const char *weights = rc_cuda_chain_weights(cuda, conv, true, links[i].weight, &fresh);
        a.link[i] = link_of(&links[i], i == count - 1, weights);
        links[i].y->stored = frozen && a.link[i].value;
    }
    chain_use use = frozen ? CHAIN_FROZEN : CHAIN_EVAL;
    with_chain_shape(cuda, conv, a.n, [&](auto shape) {
        typedef decltype(shape) Shape;
        auto kernel = frozen ? chain_forward_kernel<Shape, true> : chain_forward_kernel<Shape, false>;
        int blocks = (a.n + Shape::IMAGES - 1) / Shape::IMAGES;
        rc_cuda_allow_shared(cuda, kernel, "chain_forward");
        rc_cuda_launch_as(cuda, !fresh, "chain_forward", kernel, dim3((unsigned)blocks),
                          chain_threads<Shape>(cuda, a.h, blocks), (size_t)chain_bytes<Shape>(a.h, use), a);
        return true;
    });
    x->stored = x->stored || x->value;
}

bool rc_cuda_takes_links(const rc_cuda *cuda, const rc_conv *conv, int n, bool gradients)
{
    bool form = conv->k == 3 && conv->stride == 1 && conv->pad == 1 && conv->up == 1 && !conv->transposed &&
                conv->c_in == conv->c_out && conv->oh == conv->h && conv->ow == conv->w;
    if (!cuda->bf16 || !form || (gradients && n > RC_CUDA_MAX_ROWS))
        return false;
    return with_chain_shape(cuda, conv, n, [&](auto shape) {
        typedef decltype(shape) Shape;
        int forward = chain_bytes<Shape>(conv->h, gradients ? CHAIN_FROZEN : CHAIN_EVAL);
        int back = gradients ? chain_bytes<Shape>(conv->h, CHAIN_BACK) : 0;
        return forward <= cuda->shared_bytes && back <= cuda->shared_bytes;
    });
}
