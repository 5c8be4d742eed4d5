/* Layers from 64 channels to at most four, nine taps at stride 1: the last layer of a generator, forward, and the data
 * gradient of a first layer (conv_narrow.cu). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_NARROW_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_NARROW_H

#include "backend/cuda/convolution/conv_sink.cuh"

/* `batch`: of n and groups. False: not taken. */
bool rc_cuda_narrow_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                            const rc_tensor *batch, const float *weight);
bool rc_cuda_narrow_backward_data(rc_cuda *cuda, const rc_conv *conv, const gradient_source &source,
                                  const gradient_sink &sink, const rc_tensor *batch, const float *weight);

#endif
