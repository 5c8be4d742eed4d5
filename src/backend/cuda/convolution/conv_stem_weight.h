/* The weight gradient of a first layer (conv_stem_weight.cu). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_WEIGHT_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_WEIGHT_H

#include "backend/cuda/convolution/conv_plan.h"

/* Bytes of workspace, 0: not taken; and whether it has been enqueued. */
size_t rc_cuda_stem_weight_workspace(const rc_cuda *cuda, const rc_conv *conv);
bool rc_cuda_stem_backward_weight(rc_cuda *cuda, const rc_conv *conv, const value_source &value,
                                  const gradient_source &gradient, float *dweight);

#endif
