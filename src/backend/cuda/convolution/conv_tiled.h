/* The convolutions by fused multiply-adds, as conv.h describes a kind: products and sums in fp32, whatever the type of
 * activations is. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_TILED_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_TILED_H

#include "backend/cuda/convolution/conv.h"

bool rc_cuda_tiled_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   float *dweight, float *dbias);
/* Bytes that the weight gradient needs for its sums; 0: not taken. */
size_t rc_cuda_tiled_workspace(const rc_cuda *cuda, const rc_conv *conv, int n);

#endif
