/* First layers: nine taps at stride 1, at most eight channels of an image, 64 channels of the result or a multiple.
 * Last layers of nets that make images have the same the other way round, and their data gradient is as a first
 * layer. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_H

#include "backend/cuda/convolution/conv_sink.cuh"

enum { STEM_CHANNELS = 64 /* of a block's results */ };

static inline bool rc_cuda_has_stem_taps(const rc_conv *conv)
{
    return conv->k == 3 && conv->stride == 1 && conv->pad == 1 && conv->up == 1 && !conv->transposed;
}

static inline bool rc_cuda_is_first_layer(const rc_conv *conv)
{
    return rc_cuda_has_stem_taps(conv) && rc_cuda_padded(conv->c_in) == 8 && conv->c_out % STEM_CHANNELS == 0;
}

static inline bool rc_cuda_is_last_layer(const rc_conv *conv)
{
    return rc_cuda_has_stem_taps(conv) && rc_cuda_padded(conv->c_out) == 8 && conv->c_in % STEM_CHANNELS == 0;
}

/* Forward of a first layer, and the data gradient of a last one, from dL/draw with nothing pending (conv_stem.cu);
 * false: not taken. */
bool rc_cuda_stem_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                          const rc_tensor *y, const float *weight);
bool rc_cuda_stem_backward_data(rc_cuda *cuda, const rc_conv *conv, const gradient_source &source,
                                const gradient_sink &sink, const rc_tensor *x, const float *weight);

/* A first layer without gradients and the pooling of its value, in one kernel (conv_stem_pool.cu). The convolution has
 * no bias; y: the result of the pooling. */
bool rc_cuda_takes_stem_pool(const rc_cuda *cuda, const rc_conv *conv, rc_act act, const rc_pool2d *pool);
void rc_cuda_stem_pool(rc_backend *be, rc_tensor *x, const rc_fused *conv, const rc_tensor *y);

#endif
