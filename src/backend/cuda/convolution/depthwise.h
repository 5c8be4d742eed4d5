/* Depthwise convolutions: kernels for the windows that nets have (depthwise.cu, depthwise_weight.cu), and for any other
 * (depthwise_any.cu). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_DEPTHWISE_H
#define RC_BACKEND_CUDA_CONVOLUTION_DEPTHWISE_H

#include "backend/cuda/convolution/conv.h"

/* The gradient of the weights where the window is one of those; false: it is not, and nothing has been enqueued. */
bool rc_cuda_depthwise_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                              float *dweight);
/* Its bytes of workspace, for however many images in whatever groups. */
size_t rc_cuda_depthwise_workspace(const rc_conv *conv);

/* Any window. */
void rc_cuda_any_depthwise_forward(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const float *weight,
                                   const float *bias, rc_tensor *y, const rc_epilogue *epilogue);
void rc_cuda_any_depthwise_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                                const rc_back_epilogue *epilogue);
void rc_cuda_any_depthwise_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                  float *dweight);

#endif
