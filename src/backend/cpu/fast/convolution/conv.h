/* What the files of the convolution share beside the plan. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_H

#include "backend/cpu/fast/convolution/conv_plan.h"
#include "backend/cpu/fast/ints.h"

/* Sizes of the workspace, in floats: what the tasks share, and what each worker has to itself. */
typedef struct workspace {
    size_t shared, scratch;
} workspace;

/* What else is done with images as soon as their weight gradients are, while they are in the cache. */
typedef struct weight_sequel {
    rc_phase before; /* comes first */
    void (*run)(void *context, int image, int images, int worker);
    void *context;
} weight_sequel;

workspace RC_FAST(weight_workspace)(const rc_conv *conv, int n);
/* Can a sequel follow? Not where a task takes only a part of the channels. */
bool RC_FAST(weights_take_sequel)(const rc_conv *conv, int n);
/* On weight_workspace() at `memory`. sequel NULL: none. */
void RC_FAST(conv_backward_weight)(rc_cpu *cpu, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias, const weight_sequel *sequel, float *memory);

/* dL/draw (n, h, w, cp): where it is, or in `memory`. */
const float *RC_FAST(finished_gradients)(rc_cpu *cpu, const rc_grad *dy, float *memory);

void RC_FAST(fill_linear)(rc_backend *table);

#endif
