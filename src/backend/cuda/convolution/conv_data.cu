/* Data gradient of a convolution on the tensor cores. */
#include "backend/cuda/convolution/conv_launch.cuh"
#include "backend/cuda/convolution/conv_mma.h"
#include "backend/cuda/convolution/conv_narrow.h"
#include "backend/cuda/convolution/conv_stem.h"
#include "backend/cuda/convolution/conv_walk.h"

/* The launch of rc_cuda_plan_beside. */
static void launch_beside(rc_cuda *cuda, const strip_plan &plan, const conv_form &form, const gradient_source &source,
                          const rc_grad *dy, const gradient_source &other, const rc_fused_back *beside,
                          const gradient_sink &sink, const float *weight)
{
    typedef strip_arguments<gradient_sink> arguments;
    const char *operation = "conv_backward_data";
    bool fresh, pending = source.what != PENDING_NOTHING || other.what != PENDING_NOTHING;
    size_t bytes = rc_cuda_plain_bytes(dy->y->n, plan.cut.source_h, plan.cut.source_w, plan.cut.source_c);
    char *space = (char *)rc_cuda_workspace(cuda, pending ? 2 * bytes : 0, operation);
    arguments *a = space ? begin_plain<arguments>(cuda, operation, plan.cut, source, dy->y, sink) : NULL;
    if (!a)
        return;
    a->beside = rc_cuda_plain(cuda, operation, other, beside->dy->y, (bf16 *)(space + bytes));
    a->beside_weights = (const char *)rc_cuda_packed_weights(cuda, &form, (const float *)beside->weight, &fresh);
    hold_strip<gradient_sink>(cuda, operation, plan, dy->y, weight, fresh);
}

bool rc_cuda_mma_backward_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    gather_plan plan;
    wide_plan wide;
    strip_plan strip;
    gradient_source source, other;
    conv_form form;
    const rc_tensor *x = epilogue->x;
    const rc_fused_back *beside = epilogue->beside;
    bool slopes = epilogue->partial && x->act != RC_ACT_NONE;
    const void *addend = !epilogue->add ? NULL : epilogue->addend ? epilogue->addend : dx;
    gradient_sink sink = {view_tensor<bf16>(x),
                          (bf16 *)dx,
                          (const bf16 *)addend,
                          epilogue->partial,
                          (const float *)x->mean,
                          slope_below(x->act),
                          slopes,
                          NULL,
                          {}};
    bool finishes = !slopes || !x->skip.value || (x->stored && !is_curved(x->act));
    if (!cuda->bf16 || !finishes || !view_source(dy, &source))
        return false;
    if (beside) {
        bool taken = view_source(beside->dy, &other) && rc_cuda_plan_wide(cuda, conv, false, x, &wide) &&
                     rc_cuda_plan_beside(cuda, conv, beside->conv, x, &strip, &form);
        if (taken)
            launch_beside(cuda, strip, form, source, dy, other, beside, sink, weight);
        return taken;
    }
    if (rc_cuda_plan_wide(cuda, conv, false, x, &wide)) {
        if (rc_cuda_plan_strip(cuda, conv, false, x, &strip))
            launch_strip(cuda, "conv_backward_data", strip, source, dy->y, sink, weight);
        else
            launch_wide(cuda, "conv_backward_data", wide, source, dy->y, sink, weight);
        return true;
    }
    if (rc_cuda_walk_backward_data(cuda, conv, source, sink, x, weight) ||
        rc_cuda_stem_backward_data(cuda, conv, source, sink, x, weight) ||
        rc_cuda_narrow_backward_data(cuda, conv, source, sink, x, weight))
        return true;
    if (!rc_cuda_plan_gather(cuda, conv, false, x, &plan))
        return false;
    gather_launcher<gradient_source, gradient_sink>::launch(cuda, "conv_backward_data", plan, source, sink, weight);
    return true;
}
