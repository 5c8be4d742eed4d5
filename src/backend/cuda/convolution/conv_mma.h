/* The convolutions on the tensor cores, as conv.h describes a kind: bf16 activations and products, fp32 sums. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_MMA_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_MMA_H

#include "backend/cuda/convolution/conv.h"

bool rc_cuda_mma_forward(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                         rc_tensor *y, const rc_epilogue *epilogue);
bool rc_cuda_mma_backward_data(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                               const rc_back_epilogue *epilogue);
bool rc_cuda_mma_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 float *dweight, float *dbias);
/* Bytes that the weight gradient needs for its sums; 0: not taken. */
size_t rc_cuda_mma_workspace(const rc_cuda *cuda, const rc_conv *conv, int n);

/* Weight gradients of several layers of one shape: the entry of the table. Those that it does not take at once it takes
 * one by one. */
void rc_cuda_fused_weight(rc_backend *be, const rc_fused_weight *layers, int count);

#endif
