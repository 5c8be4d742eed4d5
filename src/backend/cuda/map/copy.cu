/* Copies, finished values and skips: one thread per eight channels of a pixel. */
#include "backend/cuda/convolution/conv_plain.h"
#include "backend/cuda/map/map.cuh"

/* The first reader of a tensor with memory for its value fills it. */
static bool must_fill(const rc_tensor *x)
{
    return x->value && !x->stored;
}

template <typename Act> __global__ static void copy_forward_kernel(tensor_view<Act> x, forward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place at = place_of(x, pixel);
        finish_forward8(e, walk, at, take_value8(x, at, walk.channel), load_center8(e, walk.channel), &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void copy_forward(rc_backend *be, rc_tensor *x, rc_tensor *y, const rc_epilogue *epilogue)
{
    map_cut cut = cut_map(y);
    rc_cuda_launch_early(rc_cuda_of(be), "copy_forward", copy_forward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_tensor<Act>(x), view_epilogue<Act>(y, epilogue, cut));
    x->stored = x->stored || must_fill(x);
}

template <typename Act> __global__ static void copy_backward_kernel(grad_view<Act> dy, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place at = place_of(dy.y, pixel);
        finish_backward8(e, walk, at, load_draw8(dy, at, walk.channel), &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void copy_backward(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch_early(rc_cuda_of(be), "copy_backward", copy_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_grad<Act>(dy), view_back_epilogue<Act>(dx, epilogue, cut));
}

template <typename Act> __global__ static void materialise_kernel(tensor_view<Act> x, Act *value, map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step)
        store8(value + offset8(x, pixel, walk.channel), load_pending8(x, place_of(x, pixel), walk.channel));
}

template <typename Act> static void materialise(rc_backend *be, rc_tensor *x)
{
    map_cut cut = cut_map(x);
    rc_cuda_launch_early(rc_cuda_of(be), "materialise", materialise_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         view_tensor<Act>(x), (Act *)x->value, cut);
    x->stored = true;
}

/* The same in bf16, where the convolution before may do it. */
static void materialise_here(rc_backend *be, rc_tensor *x)
{
    if (rc_cuda_join_value(rc_cuda_of(be), view_tensor<bf16>(x), (bf16 *)x->value))
        x->stored = true;
    else
        materialise<bf16>(be, x);
}

/* dz of eight channels that need not begin at a vector of y. */
template <typename Act> __device__ static float8 load_dz_from(const grad_view<Act> &dy, place at, int first)
{
    if (first % 8 == 0)
        return first < dy.y.cp ? load_dz8(dy, at, first) : zero8();
    float8 out = zero8();
    int begin = first / 8 * 8;
    for (int part = 0; part < 2; part++) {
        int vector = begin + 8 * part;
        float8 dz = vector < dy.y.cp ? load_dz8(dy, at, vector) : zero8();
        for (int i = 0; i < 8; i++)
            if (vector + i >= first && vector + i < first + 8)
                out.v[vector + i - first] = dz.v[i];
    }
    return out;
}

/* Over the skip's source: pixels and channels that y did not take get nothing. */
template <typename Act> __global__ static void skip_backward_kernel(grad_view<Act> dy, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int stride = dy.y.skip_stride;
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place to = place_of(e.x, pixel);
        bool taken = to.y % stride == 0 && to.x % stride == 0;
        place from = place_at(dy.y, to.image, to.y / stride, to.x / stride);
        float8 dz = taken ? load_dz_from(dy, from, walk.channel + dy.y.skip_offset) : zero8();
        finish_backward8(e, walk, to, dz, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act> struct identity_arguments {
    grad_view<Act> dy;
    backward_epilogue<Act> e;
    Act *draw;
};

/* Threads of a block, and blocks of a multiprocessor. Those that write dL/draw fit beside one of conv_strip_weight.cu,
 * whose products leave memory idle. */
template <bool SUMS, bool DRAW, typename Act> constexpr int identity_threads()
{
    return SUMS && DRAW && sizeof(Act) == 2 ? MAP_THREADS / 2 : MAP_THREADS;
}

template <bool SUMS, bool DRAW, typename Act> constexpr int identity_blocks()
{
    return sizeof(Act) != 2 ? 2 : SUMS && DRAW ? 5 : 4;
}

/* skip_backward where the skip takes everything as it is and no value is to be computed: pixels need no coordinates,
 * and everything is loaded at once. SUMS: it may be asked for sums. DRAW: and copy_backward of the same gradient, to
 * `draw`, which may be its memory. */
template <bool SUMS, bool DRAW, typename Act>
__global__ static void __launch_bounds__((identity_threads<SUMS, DRAW, Act>()), (identity_blocks<SUMS, DRAW, Act>()))
    identity_backward_kernel(const __grid_constant__ identity_arguments<Act> arguments)
{
    const grad_view<Act> &dy = arguments.dy;
    const backward_epilogue<Act> &e = arguments.e;
    begin_after_kernel_before();
    typedef typename sum_of<Act>::type Sum;
    map_walk walk = walk_map(e.cut);
    channel_sums<Sum> sums = {};
    const Act *y_value = dy.y.act == RC_ACT_NONE ? NULL : dy.y.stored; /* whose sign tells the slope; NULL: 1 */
    const Act *x_value = !SUMS || e.x.act == RC_ACT_NONE || !e.partial ? NULL : e.x.stored;
    float y_below = act_slope(dy.y.act, -1), x_below = act_slope(e.x.act, -1);
    bool centred = SUMS && e.mean && walk.channel < e.cut.cp;
    float8 mean = centred ? load8(e.mean + walk.group * e.x.cp + walk.channel) : zero8();
    coefficients8 by = {};
    if (DRAW && walk.channel < e.cut.cp)
        by = load_coefficients8(dy, walk.group, walk.channel);
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        size_t at = offset8(e.x, pixel, walk.channel);
        float8 result = load8(dy.g + at), y = y_value ? load8(y_value + at) : zero8();
        float8 before = e.addend ? load8(e.addend + at) : zero8();
        float8 x = x_value ? load8(x_value + at) : zero8(), raw = SUMS && e.partial ? load8(e.x.raw + at) : zero8();
        float8 y_raw = DRAW ? load8(dy.y.raw + at) : zero8();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float dz = y.v[i] > 0 ? result.v[i] : y_below * result.v[i];
            result.v[i] = dz + before.v[i];
            y_raw.v[i] = by.a.v[i] * dz + (by.b.v[i] * y_raw.v[i] + by.c.v[i]);
        }
        result = store_rounded8(e.dx + at, result);
        if (DRAW)
            store8(arguments.draw + at, y_raw);
#pragma unroll
        for (int i = 0; i < 8 && SUMS; i++) {
            Sum dz = x.v[i] > 0 ? result.v[i] : x_below * result.v[i];
            sums.first[i] += dz;
            sums.second[i] += dz * ((Sum)raw.v[i] - (Sum)mean.v[i]);
        }
    }
    if (SUMS)
        finish_sums(e.partial, e.cut, sums);
}

template <bool SUMS, bool DRAW, typename Act>
static void launch_identity_of(rc_cuda *cuda, const identity_arguments<Act> &a)
{
    rc_cuda_launch_early(cuda, "skip_backward", identity_backward_kernel<SUMS, DRAW, Act>, map_grid(a.e.cut),
                         identity_threads<SUMS, DRAW, Act>(), 0, a);
}

/* What has been held back, until it is known whether dL/draw is to be written as well. */
template <typename Act> static void launch_identity(rc_cuda *cuda)
{
    static_assert(sizeof(identity_arguments<Act>) <= sizeof cuda->held.arguments, "no room for the arguments");
    const identity_arguments<Act> *a = (const identity_arguments<Act> *)cuda->held.arguments;
    if (!a->draw)
        launch_identity_of<true, false>(cuda, *a);
    else if (a->e.partial)
        launch_identity_of<true, true>(cuda, *a);
    else
        launch_identity_of<false, true>(cuda, *a);
}

/* Is the gradient of the skip of y held back, and can its kernel write dL/draw of y to dx, too? Not if dx is where
 * something lies that other threads still read. */
static bool join_identity(rc_cuda *cuda, const rc_grad *dy, void *dx)
{
    identity_arguments<bf16> *a = (identity_arguments<bf16> *)cuda->held.arguments;
    if (cuda->deferred != launch_identity<bf16> || a->dy.g != dy->g || !dy->a)
        return false;
    size_t bytes = rc_cuda_plain_bytes(dy->y->n, dy->y->h, dy->y->w, dy->y->c);
    const void *read[] = {
        a->e.dx, a->e.addend, a->e.x.raw, a->e.x.stored, a->dy.y.raw, a->dy.y.stored, dx == dy->g ? NULL : dy->g};
    for (const void *map : read)
        if (map && (const char *)dx < (const char *)map + bytes && (const char *)map < (const char *)dx + bytes)
            return false;
    a->draw = (bf16 *)dx;
    rc_cuda_enqueue_deferred(cuda);
    return true;
}

static bool has_stored_slope(const rc_tensor *t)
{
    return t->act == RC_ACT_NONE || (t->stored && (t->act == RC_ACT_RELU || t->act == RC_ACT_LEAKY_RELU));
}

template <typename Act>
static void skip_backward(rc_backend *be, const rc_grad *dy, void *dskip, const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    const rc_skip *skip = &dy->y->skip;
    bool identity = skip->stride == 1 && skip->channel_offset == 0 && skip->c == dy->y->c;
    bool plain = has_stored_slope(dy->y) && (!epilogue->partial || has_stored_slope(epilogue->x));
    rc_cuda *cuda = rc_cuda_of(be);
    identity_arguments<Act> a = {view_grad<Act>(dy), view_back_epilogue<Act>(dskip, epilogue, cut), NULL};
    if (!identity || !plain) {
        rc_cuda_launch_early(cuda, "skip_backward", skip_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0, a.dy,
                             a.e);
        return;
    }
    rc_cuda_enqueue_deferred(cuda);
    *(identity_arguments<Act> *)cuda->held.arguments = a;
    cuda->held.partial = NULL;
    cuda->deferred = launch_identity<Act>;
}

/* Where nothing but dL/draw is to be written, in bf16. */
static void copy_draw(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    gradient_source source;
    if (epilogue->add || epilogue->partial || !view_source(dy, &source))
        copy_backward<__nv_bfloat16>(be, dy, dx, epilogue);
    else if (!join_identity(rc_cuda_of(be), dy, dx))
        rc_cuda_write_draw(rc_cuda_of(be), "copy_backward", source, dy->y, (bf16 *)dx);
}

template <typename Act> static void fill(rc_backend *table)
{
    table->copy_forward = copy_forward<Act>;
    table->copy_backward = copy_backward<Act>;
    table->materialise = materialise<Act>;
    table->skip_backward = skip_backward<Act>;
}

void rc_cuda_fill_copy(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
    if (cuda->bf16) {
        cuda->table.copy_backward = copy_draw;
        cuda->table.materialise = materialise_here;
    }
}
