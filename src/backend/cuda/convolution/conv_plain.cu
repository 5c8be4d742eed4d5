#include "backend/cuda/convolution/conv_plain.h"

#include "backend/cuda/convolution/conv_sink.cuh"

enum {
    PLAIN_AT_ONCE = 4, /* pixels of a thread */
    VALUE_THREADS = 256,
    VALUE_ROUNDS = 4,   /* of a thread, at most: fewer where there are few blocks */
    DRAW_THREADS = 128, /* a block of these fits beside one of conv_strip_weight.cu or two of conv_wide_weight.cu */
    DRAW_ROUNDS = 8
};

struct plain_cut {
    group_view groups;
    int h, w, cp, images, threads, vectors; /* vectors: of a block, at most one for each thread */
    int rounds;                             /* of PLAIN_AT_ONCE pixels */
    int runs;                               /* of pixels of an image, one for each block */
    unsigned by_w;
};

/* Blocks of a multiprocessor: as many as need no spilled registers. */
template <pending WHAT, typename Source> constexpr int plain_blocks()
{
    return Source::LOADS == 1 || WHAT != PENDING_USUAL ? 4 : 5;
}

/* Grid: (runs of pixels of all images, runs of channels). A thread keeps its eight channels. */
template <pending WHAT, typename Source>
__global__ static void __launch_bounds__(Source::LOADS == 1 ? VALUE_THREADS : DRAW_THREADS,
                                         (plain_blocks<WHAT, Source>()))
    plain_kernel(const __grid_constant__ Source source, plain_cut cut, bf16 *to)
{
    begin_after_kernel_before();
    int image = blockIdx.x / cut.runs, run = blockIdx.x % cut.runs;
    int lanes = cut.threads / cut.vectors, lane = threadIdx.x / cut.vectors;
    int channel = (blockIdx.y * cut.vectors + threadIdx.x % cut.vectors) * 8;
    if (lane >= lanes || channel >= cut.cp)
        return;
    rectangle whole = make_rectangle(1, cut.h, cut.w, 0, cut.by_w);
    typename Source::lines lines = source.walk(whole, image, 0, 0, 1, channel);
    typename Source::coefficients by = coefficients_of(source, group_of(cut.groups, image), channel);
    bf16 *map = to + (size_t)image * cut.h * cut.w * cut.cp + channel;
    int first = run * lanes * PLAIN_AT_ONCE * cut.rounds + lane;
#pragma unroll 1
    for (int round = 0; round < cut.rounds; round++, first += PLAIN_AT_ONCE * lanes) {
        typename Source::fetched fetched[PLAIN_AT_ONCE];
#pragma unroll
        for (int u = 0; u < PLAIN_AT_ONCE; u++) {
            int index = first + u * lanes;
            fetched[u] = {};
            if (index < whole.count)
                fetched[u] = source.template fetch<WHAT>(lines, element_of(whole, index), channel);
        }
#pragma unroll
        for (int u = 0; u < PLAIN_AT_ONCE; u++) {
            int index = first + u * lanes;
            if (index < whole.count)
                *(uint4 *)(map + (size_t)index * cut.cp) = source.template finish<WHAT>(fetched[u], by);
        }
    }
}

static int plain_runs(const plain_cut &cut)
{
    int pixels = cut.threads / cut.vectors * PLAIN_AT_ONCE * cut.rounds;
    return (cut.h * cut.w + pixels - 1) / pixels;
}

/* There may be more images than a grid can be high. */
static dim3 plain_grid(const plain_cut &cut)
{
    return dim3((unsigned)cut.images * (unsigned)cut.runs, (unsigned)((cut.cp / 8 + cut.vectors - 1) / cut.vectors));
}

static bool has_few_blocks(const rc_cuda *cuda, const plain_cut &cut)
{
    dim3 grid = plain_grid(cut);
    return 2 * grid.x * grid.y < (unsigned)(cut.rounds * cuda->multiprocessors);
}

static plain_cut cut_plain(const rc_cuda *cuda, const rc_tensor *shape, int cp, int threads, int rounds)
{
    int vectors = cp / 8 < threads ? cp / 8 : threads;
    plain_cut cut = {view_groups(shape),  shape->h, shape->w, cp, shape->n, threads, vectors, rounds, 0,
                     reciprocal(shape->w)};
    cut.runs = plain_runs(cut);
    while (cut.rounds > 1 && has_few_blocks(cuda, cut)) {
        cut.rounds /= 2;
        cut.runs = plain_runs(cut);
    }
    return cut;
}

template <typename Source>
static void launch_plain(rc_cuda *cuda, const char *operation, const Source &source, const plain_cut &cut, bf16 *to)
{
    rc_cuda_launch_early(cuda, operation,
                         source.what == PENDING_USUAL ? plain_kernel<PENDING_USUAL, Source>
                                                      : plain_kernel<PENDING_ANY, Source>,
                         plain_grid(cut), cut.threads, 0, source, cut, to);
}

template <typename Source>
static void write_plain(rc_cuda *cuda, const char *operation, const Source &source, const rc_tensor *shape, bf16 *to)
{
    bool value = Source::LOADS == 1;
    launch_plain(cuda, operation, source,
                 cut_plain(cuda, shape, source.channels(), value ? VALUE_THREADS : DRAW_THREADS,
                           value ? VALUE_ROUNDS : DRAW_ROUNDS),
                 to);
}

size_t rc_cuda_plain_bytes(int n, int h, int w, int c)
{
    return (size_t)n * h * w * rc_cuda_padded(c) * sizeof(bf16);
}

/* ---- convolutions that finish what they write -------------------------------------------------------------------- */

/* The sink of a convolution that is held back, if it can also write a map of the shape of y to `to`: its blocks may
 * still read the source when others write. NULL: there is none. */
template <typename Sink> static Sink *waiting_sink(rc_cuda *cuda, const tensor_view<bf16> &y, const bf16 *to)
{
    const rc_cuda_held *held = &cuda->held;
    const char *begin = (const char *)to, *end = begin + rc_cuda_plain_bytes(y.n, y.h, y.w, y.c);
    if (!held->sink || held->backward != Sink::BACKWARD)
        return NULL;
    for (const void *map : held->read)
        if (map && begin < (const char *)map + held->read_bytes && (const char *)map < end)
            return NULL;
    return (Sink *)held->sink;
}

bool rc_cuda_join_value(rc_cuda *cuda, const tensor_view<bf16> &x, bf16 *to)
{
    forward_sink *sink = waiting_sink<forward_sink>(cuda, x, to);
    if (!sink || sink->raw != x.raw || is_curved(x.act) || x.skip_offset % 8 != 0)
        return false;
    sink->value = to;
    rc_cuda_enqueue_deferred(cuda);
    return true;
}

/* The same for dL/draw, which may take the place of the gradient. */
static bool join_gradient(rc_cuda *cuda, const gradient_source &source, bf16 *to)
{
    const tensor_view<bf16> &y = source.dy.y;
    gradient_sink *sink = waiting_sink<gradient_sink>(cuda, y, to);
    if (!sink || sink->dx != source.dy.g || source.what != PENDING_USUAL || y.groups.count > 1 ||
        (sink->addend && sink->addend != sink->dx))
        return false;
    sink->draw = to;
    sink->by[0] = source.dy.a;
    sink->by[1] = source.dy.b;
    sink->by[2] = source.dy.c;
    rc_cuda_enqueue_deferred(cuda);
    return true;
}

/* ---- finished maps ----------------------------------------------------------------------------------------------- */

const bf16 *rc_cuda_plain(rc_cuda *cuda, const char *operation, const value_source &source, const rc_tensor *shape,
                          bf16 *space)
{
    bf16 *to = source.x.fill ? source.x.fill : space;
    if (source.what == PENDING_NOTHING && !source.x.fill)
        return source.x.raw;
    if (rc_cuda_join_value(cuda, source.x, to))
        return to;
    write_plain(cuda, operation, source, shape, to);
    return to;
}

const bf16 *rc_cuda_plain(rc_cuda *cuda, const char *operation, const gradient_source &source, const rc_tensor *shape,
                          bf16 *space)
{
    if (source.what == PENDING_NOTHING)
        return source.dy.g;
    write_plain(cuda, operation, source, shape, space);
    return space;
}

/* ---- dL/draw ----------------------------------------------------------------------------------------------------- */

/* Held back until it is known whether dL/draw is the gradient of a layer whose own is asked for next, in its place. */
struct draw_arguments {
    gradient_source source, next; /* of the layer before: an activation is all that is pending */
    plain_cut cut;
    bf16 *to;
    const char *operation;
};

/* As plain_kernel, for both layers at once: what the one leaves is rounded as if it had gone to memory. */
__global__ static void __launch_bounds__(DRAW_THREADS, 4) two_draws_kernel(const __grid_constant__ draw_arguments a)
{
    begin_after_kernel_before();
    const plain_cut &cut = a.cut;
    int image = blockIdx.x / cut.runs, run = blockIdx.x % cut.runs;
    int lanes = cut.threads / cut.vectors, lane = threadIdx.x / cut.vectors;
    int channel = (blockIdx.y * cut.vectors + threadIdx.x % cut.vectors) * 8;
    if (lane >= lanes || channel >= cut.cp)
        return;
    rectangle whole = make_rectangle(1, cut.h, cut.w, 0, cut.by_w);
    gradient_source::lines lines = a.source.walk(whole, image, 0, 0, 1, channel);
    gradient_source::coefficients by = coefficients_of(a.source, group_of(cut.groups, image), channel), none = {};
#pragma unroll
    for (int i = 0; i < 8; i++)
        none.row[gradient_source::SCALE].v[i] = 1;
    bf16 *map = a.to + (size_t)image * cut.h * cut.w * cut.cp + channel;
    int first = run * lanes * PLAIN_AT_ONCE * cut.rounds + lane;
#pragma unroll 1
    for (int round = 0; round < cut.rounds; round++, first += PLAIN_AT_ONCE * lanes) {
        gradient_source::fetched fetched[PLAIN_AT_ONCE], next[PLAIN_AT_ONCE];
#pragma unroll
        for (int u = 0; u < PLAIN_AT_ONCE; u++) {
            int index = first + u * lanes;
            fetched[u] = next[u] = {};
            if (index < whole.count) {
                element e = element_of(whole, index);
                fetched[u] = a.source.fetch<PENDING_USUAL>(lines, e, channel);
                next[u].raw = load16(a.next.dy.y.raw + (unsigned)place_on(lines, e));
            }
        }
#pragma unroll
        for (int u = 0; u < PLAIN_AT_ONCE; u++) {
            int index = first + u * lanes;
            next[u].g = a.source.finish<PENDING_USUAL>(fetched[u], by);
            if (index < whole.count)
                *(uint4 *)(map + (size_t)index * cut.cp) = a.next.finish<PENDING_ANY>(next[u], none);
        }
    }
}

static void launch_draw(rc_cuda *cuda)
{
    static_assert(sizeof(draw_arguments) <= sizeof cuda->held.arguments, "no room for the arguments");
    const draw_arguments *a = (const draw_arguments *)cuda->held.arguments;
    launch_plain(cuda, a->operation, a->source, a->cut, a->to);
}

static void launch_two_draws(rc_cuda *cuda)
{
    const draw_arguments *a = (const draw_arguments *)cuda->held.arguments;
    rc_cuda_launch_early(cuda, a->operation, two_draws_kernel, plain_grid(a->cut), a->cut.threads, 0, *a);
}

/* Is what `source` reads held back, and its dL/draw to take its place? */
static bool join_draw(rc_cuda *cuda, const gradient_source &source, const plain_cut &cut, const bf16 *to)
{
    draw_arguments *a = (draw_arguments *)cuda->held.arguments;
    const tensor_view<bf16> *y = &source.dy.y;
    if (cuda->deferred != launch_draw || a->to != source.dy.g || a->to != to || a->source.what != PENDING_USUAL)
        return false;
    if (source.dy.a || y->scale || (y->stored && !is_curved(y->act)) || cut.cp != a->cut.cp)
        return false;
    a->next = source;
    cuda->deferred = launch_two_draws;
    rc_cuda_enqueue_deferred(cuda);
    return true;
}

void rc_cuda_write_draw(rc_cuda *cuda, const char *operation, const gradient_source &source, const rc_tensor *shape,
                        bf16 *to)
{
    plain_cut cut = cut_plain(cuda, shape, source.channels(), DRAW_THREADS, DRAW_ROUNDS);
    if (join_draw(cuda, source, cut, to) || join_gradient(cuda, source, to))
        return;
    rc_cuda_enqueue_deferred(cuda);
    const draw_arguments a = {source, gradient_source(), cut, to, operation};
    *(draw_arguments *)cuda->held.arguments = a;
    cuda->held.partial = NULL;
    cuda->deferred = launch_draw;
}
