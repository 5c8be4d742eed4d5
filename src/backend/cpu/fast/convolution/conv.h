/* What the files of the convolution share beside the plan. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_H

#include "backend/cpu/fast/convolution/conv_plan.h"
#include "backend/cpu/fast/ints.h"

/* Sizes of the workspace, in floats: what the tasks share, and what each worker has to itself. */
typedef struct workspace {
    size_t shared, scratch;
} workspace;

workspace RC_FAST(weight_workspace)(const rc_conv *conv, int n);
void RC_FAST(conv_backward_weight)(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias);

/* dL/draw (n, h, w, cp): where it is, or in `memory`. */
const float *RC_FAST(finished_gradients)(rc_cpu *cpu, const rc_grad *dy, float *memory);

void RC_FAST(fill_linear)(rc_backend *table);

#endif
