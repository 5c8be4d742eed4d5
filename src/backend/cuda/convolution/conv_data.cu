/* Data gradient of a convolution on the tensor cores. */
#include "backend/cuda/convolution/conv_launch.cuh"
#include "backend/cuda/convolution/conv_mma.h"

bool rc_cuda_mma_backward_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    gather_plan plan;
    wide_plan wide;
    strip_plan strip;
    gradient_source source;
    const rc_tensor *x = epilogue->x;
    bool slopes = epilogue->partial && x->act != RC_ACT_NONE;
    const void *addend = !epilogue->add ? NULL : epilogue->addend ? epilogue->addend : dx;
    gradient_sink sink = {
        view_tensor<bf16>(x), (bf16 *)dx, (const bf16 *)addend, epilogue->partial, (const float *)x->mean,
        slope_below(x->act),  slopes};
    bool finishes = !slopes || !x->skip.value || (x->stored && !is_curved(x->act));
    if (!cuda->bf16 || !finishes || !view_source(dy, &source))
        return false;
    if (rc_cuda_plan_wide(cuda, conv, false, x, &wide)) {
        if (rc_cuda_plan_strip(cuda, conv, false, x, &strip))
            launch_strip(cuda, "conv_backward_data", strip, source, dy->y, sink, weight);
        else
            launch_wide(cuda, "conv_backward_data", wide, source, dy->y, sink, weight);
        return true;
    }
    if (!rc_cuda_plan_gather(cuda, conv, false, x, &plan))
        return false;
    gather_launcher<gradient_source, gradient_sink>::launch(cuda, "conv_backward_data", plan, source, sink, weight);
    return true;
}
