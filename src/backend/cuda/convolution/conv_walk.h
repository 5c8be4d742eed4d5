/* Layers of 16 channels that keep them, nine taps at stride 1, where no chain takes them: forward, and the data
 * gradient (conv_walk.cu). The width of the map is a multiple of 32. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_WALK_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_WALK_H

#include "backend/cuda/convolution/conv_sink.cuh"

/* `batch`: of n and groups. False: not taken. */
bool rc_cuda_walk_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                          const rc_tensor *batch, const float *weight);
bool rc_cuda_walk_backward_data(rc_cuda *cuda, const rc_conv *conv, const gradient_source &source,
                                const gradient_sink &sink, const rc_tensor *batch, const float *weight);

#endif
