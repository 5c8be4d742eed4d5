/* Forward convolution on the tensor cores. */
#include "backend/cuda/convolution/conv_launch.cuh"
#include "backend/cuda/convolution/conv_mma.h"
#include "backend/cuda/convolution/conv_narrow.h"
#include "backend/cuda/convolution/conv_stem.h"
#include "backend/cuda/convolution/conv_walk.h"

bool rc_cuda_mma_forward(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    gather_plan plan;
    wide_plan wide;
    strip_plan strip;
    value_source source;
    forward_sink sink = {view_tensor<bf16>(y),
                         (bf16 *)y->raw,
                         epilogue->partial,
                         bias,
                         (const float *)epilogue->center,
                         slope_below(y->act),
                         epilogue->apply,
                         NULL};
    /* The sigmoid of pad channels is not 0. */
    bool finishes = !epilogue->apply || (y->act != RC_ACT_SIGMOID && y->skip.channel_offset % 8 == 0);
    if (!cuda->bf16 || !finishes || !view_source(x, &source))
        return false;
    if (rc_cuda_plan_wide(cuda, conv, true, y, &wide)) {
        if (rc_cuda_plan_strip(cuda, conv, true, y, &strip))
            launch_strip(cuda, "conv_forward", strip, source, x, sink, weight);
        else
            launch_wide(cuda, "conv_forward", wide, source, x, sink, weight);
        return true;
    }
    if (rc_cuda_walk_forward(cuda, conv, source, sink, y, weight) ||
        rc_cuda_stem_forward(cuda, conv, source, sink, y, weight) ||
        rc_cuda_narrow_forward(cuda, conv, source, sink, y, weight))
        return true;
    if (!rc_cuda_plan_gather(cuda, conv, true, y, &plan))
        return false;
    gather_launcher<value_source, forward_sink>::launch(cuda, "conv_forward", plan, source, sink, weight);
    return true;
}
