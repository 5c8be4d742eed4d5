/* From a plan to the kernel: the list of channel counts that the tensor-core convolutions are compiled for. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_LAUNCH_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_LAUNCH_CUH

#include "backend/cuda/convolution/conv_gather.cuh"
#include "backend/cuda/convolution/conv_plain.h"
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/conv_strip.cuh"
#include "backend/cuda/convolution/conv_wide.cuh"

/* A convolution that waits for what may join it: see rc_cuda_held. */
template <typename Arguments> struct held_launch {
    typedef void (*kernel)(const Arguments);

    /* Launches what has been held back, with or without what it has waited for. */
    static void launch_held(rc_cuda *cuda)
    {
        const rc_cuda_held *held = &cuda->held;
        rc_cuda_launch_as(cuda, held->early, held->operation, (kernel)held->kernel, held->grid, held->threads,
                          held->shared_bytes, *(const Arguments *)held->arguments);
        cuda->held.sink = NULL;
    }

    /* The arguments that the caller fills in, before hold() sends them off. */
    static Arguments *begin(rc_cuda *cuda)
    {
        static_assert(sizeof(Arguments) <= sizeof cuda->held.arguments, "no room for the arguments");
        rc_cuda_enqueue_deferred(cuda);
        Arguments *a = (Arguments *)cuda->held.arguments;
        *a = Arguments();
        return a;
    }

    /* Packs the weights where they are stale. packed: so were others that the kernel reads. */
    static void hold(rc_cuda *cuda, const char *operation, kernel chosen, int threads, const conv_form &form,
                     const float *weight, dim3 grid, int shared_bytes, bool packed = false)
    {
        bool fresh;
        Arguments *a = (Arguments *)cuda->held.arguments;
        a->weights = (const char *)rc_cuda_packed_weights(cuda, &form, weight, &fresh);
        a->hurries = cuda->lane == RC_MAIN_LANE;
        rc_cuda_allow_shared(cuda, chosen, operation);
        rc_cuda_held *held = &cuda->held;
        held->partial = form.tiles <= RC_CUDA_TICKETS ? a->sink.partial : NULL;
        held->norm = &a->norm;
        held->tickets = &a->tickets;
        held->backward = a->sink.BACKWARD;
        held->operation = operation;
        held->kernel = (void (*)(void))chosen;
        held->grid = grid;
        held->threads = threads;
        held->shared_bytes = (size_t)shared_bytes;
        held->early = !fresh && !packed; /* weights that are being packed right before must not be read early */
        cuda->deferred = launch_held;
        if (!held->partial && !held->sink)
            rc_cuda_enqueue_deferred(cuda);
    }
};

/* The same for the kernel of conv_strip.cuh, whose sink can finish what it writes. */
template <typename Sink>
static void hold_strip(rc_cuda *cuda, const char *operation, const strip_plan &plan, const rc_tensor *source,
                       const float *weight, bool packed = false)
{
    typedef strip_arguments<Sink> arguments;
    arguments *a = (arguments *)cuda->held.arguments;
    a->cut = plan.cut;
    cuda->held.sink = &a->sink;
    cuda->held.read[0] = a->map;
    cuda->held.read[1] = a->beside;
    cuda->held.read_bytes = rc_cuda_plain_bytes(source->n, a->cut.source_h, a->cut.source_w, a->cut.source_c);
    held_launch<arguments>::hold(cuda, operation, strip_kernel<Sink>, STRIP_THREADS, plan.form, weight, plan.grid,
                                 plan.shared_bytes, packed);
}

/* Begins the launch of a kernel that reads its source as a plain map: what is left to the caller is how it is cut.
 * NULL: there is no space for the map. `cut` and `shape` are those of the source. */
template <typename Arguments, typename Cut, typename Source, typename Sink>
static Arguments *begin_plain(rc_cuda *cuda, const char *operation, const Cut &cut, const Source &source,
                              const rc_tensor *shape, const Sink &sink)
{
    size_t bytes = rc_cuda_plain_bytes(shape->n, cut.source_h, cut.source_w, cut.source_c);
    if (source.what == PENDING_NOTHING)
        bytes = 0;
    bf16 *space = (bf16 *)rc_cuda_workspace(cuda, bytes, operation);
    if (!space)
        return NULL;
    const bf16 *map = rc_cuda_plain(cuda, operation, source, shape, space); /* which what is held back may write */
    Arguments *a = held_launch<Arguments>::begin(cuda);
    a->map = map;
    a->sink = sink;
    return a;
}

template <typename Source, typename Sink>
static void launch_strip(rc_cuda *cuda, const char *operation, const strip_plan &plan, const Source &source,
                         const rc_tensor *shape, const Sink &sink, const float *weight)
{
    if (begin_plain<strip_arguments<Sink>>(cuda, operation, plan.cut, source, shape, sink))
        hold_strip<Sink>(cuda, operation, plan, shape, weight);
}

template <typename Source, typename Sink>
static void launch_wide(rc_cuda *cuda, const char *operation, const wide_plan &plan, const Source &source,
                        const rc_tensor *shape, const Sink &sink, const float *weight)
{
    typedef wide_arguments<Sink> arguments;
    arguments *a = begin_plain<arguments>(cuda, operation, plan.wide, source, shape, sink);
    if (!a)
        return;
    a->wide = plan.wide;
    typename held_launch<arguments>::kernel chosen = plan.tiles_m == 8   ? wide_kernel<8, Sink>
                                                     : plan.tiles_m == 7 ? wide_kernel<7, Sink>
                                                                         : wide_kernel<4, Sink>;
    held_launch<arguments>::hold(cuda, operation, chosen, WIDE_THREADS, plan.form, weight, plan.grid,
                                 plan.shared_bytes);
}

template <typename Source, typename Sink> struct gather_launcher {
    typedef gather_arguments<Source, Sink> arguments;
    typedef typename held_launch<arguments>::kernel kernel;

    template <int C> static kernel with_channels(int n)
    {
        return n == 8    ? gather_kernel<C, 8, false, Source, Sink>
               : n == 16 ? gather_kernel<C, 16, false, Source, Sink>
               : n == 32 ? gather_kernel<C, 32, false, Source, Sink>
                         : gather_kernel<C, 64, false, Source, Sink>;
    }

    static kernel choose(const gather_plan &plan)
    {
        int n = plan.form.tile_c;
        if (plan.chunked && n == 32)
            return plan.form.chunk_c == 64   ? gather_kernel<64, 32, true, Source, Sink>
                   : plan.form.chunk_c == 32 ? gather_kernel<32, 32, true, Source, Sink>
                                             : gather_kernel<16, 32, true, Source, Sink>;
        if (plan.chunked)
            return plan.form.chunk_c == 64   ? gather_kernel<64, 64, true, Source, Sink>
                   : plan.form.chunk_c == 32 ? gather_kernel<32, 64, true, Source, Sink>
                                             : gather_kernel<16, 64, true, Source, Sink>;
        switch (plan.form.chunk_c) {
        case 8: return with_channels<8>(n);
        case 16: return with_channels<16>(n);
        case 32: return with_channels<32>(n);
        default: return with_channels<64>(n);
        }
    }

    static void launch(rc_cuda *cuda, const char *operation, const gather_plan &plan, const Source &source,
                       const Sink &sink, const float *weight)
    {
        arguments *a = held_launch<arguments>::begin(cuda);
        rc_cuda_set_gather(plan, a);
        a->source = source;
        a->sink = sink;
        held_launch<arguments>::hold(cuda, operation, choose(plan), CONV_THREADS, plan.form, weight, plan.grid,
                                     plan.shared_bytes);
    }
};

#endif
