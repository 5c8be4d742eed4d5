/* First layers: nine taps at stride 1, at most eight channels of an image, 64 channels of the result or a multiple. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_H

#include "backend/cuda/convolution/conv_sink.cuh"

enum { STEM_CHANNELS = 64 /* of a block's results */ };

static inline bool rc_cuda_is_first_layer(const rc_conv *conv)
{
    bool shape = conv->k == 3 && conv->stride == 1 && conv->pad == 1 && conv->up == 1 && !conv->transposed;
    return shape && rc_cuda_padded(conv->c_in) == 8 && conv->c_out % STEM_CHANNELS == 0;
}

/* Forward (conv_stem.cu); false: not taken. */
bool rc_cuda_stem_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                          const rc_tensor *y, const float *weight);

#endif
