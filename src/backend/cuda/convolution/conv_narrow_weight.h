/* The weight gradient of narrow layers (conv_narrow_weight.cu), of one or of several of one shape. Those that
 * conv_walk.h describes have a kernel of their own (conv_walk_weight.cu), with the same workspace. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_NARROW_WEIGHT_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_NARROW_WEIGHT_H

#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/conv_reduce.h"

struct weight_layer {
    value_source x;
    gradient_source dy;
    float *dweight;
};

/* Bytes of workspace for as many layers as there may be, 0: not taken; and whether it has been enqueued. */
size_t rc_cuda_narrow_weight_workspace(const rc_cuda *cuda, const rc_conv *conv);
bool rc_cuda_narrow_backward_weight(rc_cuda *cuda, const rc_conv *conv, const weight_layer *layers, int count);
bool rc_cuda_walk_backward_weight(rc_cuda *cuda, const rc_conv *conv, const weight_layer *layers, int count);

/* All of the sum but its blocks and where they lie. False: not of nine taps. */
bool rc_cuda_begin_reduce(const rc_conv *conv, const weight_layer *layers, int count, reduce_arguments *reduce);

#endif
