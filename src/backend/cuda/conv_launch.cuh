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

    static void launch(rc_cuda *cuda, const char *operation, const gather_plan &plan, const Source &source,
                       const Sink &sink, const float *weight)
    {
        bool fresh;
        gather_arguments<Source, Sink> a;
        a.cut = plan.cut;
        a.source = source;
        a.sink = sink;
        a.weights = (const char *)rc_cuda_packed_weights(cuda, &plan.form, weight, &fresh);
        a.chunks = plan.form.chunks;
        a.tile_bytes = plan.tile_bytes;
        a.weight_bytes = plan.weight_bytes;
        a.all_steps = plan.all_steps;
        for (int phase = 0; phase < 4; phase++) {
            a.steps[phase] = plan.steps[phase];
            a.first_step[phase] = plan.first_step[phase];
        }
        for (int i = 0; i < CONV_TAPS + 4; i++)
            a.offset[i] = plan.offset[i];
        kernel chosen = choose(plan);
        rc_cuda_allow_shared(cuda, chosen, operation);
        /* Weights that are being packed right before must not be read early. */
        rc_cuda_launch_as(cuda, !fresh, operation, chosen, plan.grid, CONV_THREADS, (size_t)plan.shared_bytes, a);
    }
};

#endif
