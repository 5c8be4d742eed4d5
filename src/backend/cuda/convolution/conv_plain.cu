#include "backend/cuda/convolution/conv_plain.h"

enum { PLAIN_THREADS = 256, PLAIN_AT_ONCE = 4, PLAIN_PIXELS = 16 /* of a thread */ };

struct plain_cut {
    group_view groups;
    int h, w, cp, vectors; /* vectors: of a block, at most one for each thread */
    unsigned by_w;
};

/* Grid: (runs of pixels of an image, images, runs of channels). A thread keeps its eight channels. */
template <pending WHAT, typename Source>
__global__ static void __launch_bounds__(PLAIN_THREADS, Source::LOADS == 1 ? 4 : 2)
    plain_kernel(const __grid_constant__ Source source, plain_cut cut, bf16 *to)
{
    begin_after_kernel_before();
    int image = blockIdx.y, lanes = PLAIN_THREADS / cut.vectors, lane = threadIdx.x / cut.vectors;
    int channel = (blockIdx.z * cut.vectors + threadIdx.x % cut.vectors) * 8;
    if (lane >= lanes || channel >= cut.cp)
        return;
    rectangle whole = make_rectangle(1, cut.h, cut.w, 0, cut.by_w);
    typename Source::lines lines = source.walk(whole, image, 0, 0, 1, channel);
    typename Source::coefficients by = coefficients_of(source, group_of(cut.groups, image), channel);
    bf16 *map = to + (size_t)image * cut.h * cut.w * cut.cp + channel;
    int first = blockIdx.x * lanes * PLAIN_PIXELS + lane;
#pragma unroll 1
    for (int round = 0; round < PLAIN_PIXELS / PLAIN_AT_ONCE; round++, first += PLAIN_AT_ONCE * lanes) {
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

template <typename Source>
static void write_plain(rc_cuda *cuda, const char *operation, const Source &source, const rc_tensor *shape, bf16 *to)
{
    int cp = source.channels(), vectors = cp / 8 < PLAIN_THREADS ? cp / 8 : PLAIN_THREADS;
    int pixels = PLAIN_THREADS / vectors * PLAIN_PIXELS;
    plain_cut cut = {view_groups(shape), shape->h, shape->w, cp, vectors, reciprocal(shape->w)};
    dim3 grid((unsigned)((shape->h * shape->w + pixels - 1) / pixels), (unsigned)shape->n,
              (unsigned)((cp / 8 + vectors - 1) / vectors));
    rc_cuda_launch_early(cuda, operation,
                         source.what == PENDING_USUAL ? plain_kernel<PENDING_USUAL, Source>
                                                      : plain_kernel<PENDING_ANY, Source>,
                         grid, PLAIN_THREADS, 0, source, cut, to);
}

size_t rc_cuda_plain_bytes(int n, int h, int w, int c)
{
    return (size_t)n * h * w * rc_cuda_padded(c) * sizeof(bf16);
}

const bf16 *rc_cuda_plain(rc_cuda *cuda, const char *operation, const value_source &source, const rc_tensor *shape,
                          bf16 *space)
{
    bf16 *to = source.x.fill ? source.x.fill : space;
    if (source.what == PENDING_NOTHING && !source.x.fill)
        return source.x.raw;
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

void rc_cuda_write_draw(rc_cuda *cuda, const char *operation, const gradient_source &source, const rc_tensor *shape,
                        bf16 *to)
{
    write_plain(cuda, operation, source, shape, to);
}
