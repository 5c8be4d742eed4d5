/* From a plan to the kernel: the list of channel counts that the tensor-core convolutions are compiled for. */
#ifndef RC_BACKEND_CUDA_CONV_LAUNCH_CUH
#define RC_BACKEND_CUDA_CONV_LAUNCH_CUH

#include "backend/cuda/conv_gather.cuh"
#include "backend/cuda/conv_plan.h"

template <typename Source, typename Sink> struct gather_launcher {
    typedef void (*kernel)(const gather_arguments<Source, Sink>);

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

    /* Launches what has been held back, with or without a normalisation. */
    static void launch_held(rc_cuda *cuda)
    {
        const rc_cuda_held *held = &cuda->held;
        rc_cuda_launch_as(cuda, held->early, held->operation, (kernel)held->kernel, held->grid, CONV_THREADS,
                          held->shared_bytes, *(const gather_arguments<Source, Sink> *)held->arguments);
    }

    static void launch(rc_cuda *cuda, const char *operation, const gather_plan &plan, const Source &source,
                       const Sink &sink, const float *weight)
    {
        typedef gather_arguments<Source, Sink> arguments;
        static_assert(sizeof(arguments) <= sizeof cuda->held.arguments, "no room for the arguments");
        bool fresh;
        rc_cuda_enqueue_deferred(cuda);
        const char *weights = (const char *)rc_cuda_packed_weights(cuda, &plan.form, weight, &fresh);
        arguments *a = (arguments *)cuda->held.arguments;
        *a = arguments();
        rc_cuda_set_gather(plan, a);
        a->source = source;
        a->sink = sink;
        a->weights = weights;
        a->hurries = cuda->lane == RC_MAIN_LANE;
        kernel chosen = choose(plan);
        rc_cuda_allow_shared(cuda, chosen, operation);
        rc_cuda_held *held = &cuda->held;
        held->partial = plan.form.tiles <= RC_CUDA_TICKETS ? sink.partial : NULL;
        held->norm = &a->norm;
        held->tickets = &a->tickets;
        held->backward = Sink::BACKWARD;
        held->operation = operation;
        held->kernel = (void (*)(void))chosen;
        held->grid = plan.grid;
        held->shared_bytes = (size_t)plan.shared_bytes;
        held->early = !fresh; /* weights that are being packed right before must not be read early */
        cuda->deferred = launch_held;
        if (!held->partial)
            rc_cuda_enqueue_deferred(cuda);
    }
};

#endif
