/* Chains of convolutions: what this backend fuses (backend/backend.h), in bf16 alone. A link is one of the layers. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CHAIN_H
#define RC_BACKEND_CUDA_CONVOLUTION_CHAIN_H

#include "backend/cuda/cuda.h"

/* Are there kernels for links of this shape? */
bool rc_cuda_takes_links(const rc_cuda *cuda, const rc_conv *conv, int n, bool gradients);

/* The same with statistics of the batch: are all blocks on the device at once? */
bool rc_cuda_trains_links(rc_cuda *cuda, const rc_conv *conv, int n, int groups);

/* The same for the way back, which takes the same links. */
bool rc_cuda_train_back_fits(rc_cuda *cuda, const rc_conv *conv, int n, int groups);

/* The entries of the table: fuse, fused_forward, fused_backward, fuse_train, fused_train and fused_train_backward. The
 * first and the fourth take a first layer with its pooling, too (conv_stem.h, conv_stem_train.h). */
int rc_cuda_fuse(rc_backend *be, const rc_fusible *layers, int count, int first, int n, bool gradients);
void rc_cuda_chain_forward(rc_backend *be, rc_tensor *x, const rc_fused *links, int count);
int rc_cuda_find_train_chain(rc_backend *be, const rc_fusible *layers, int count, int first, int n, int groups);
void rc_cuda_chain_train(rc_backend *be, rc_tensor *x, const rc_fused_train *links, int count);
void rc_cuda_chain_train_back(rc_backend *be, const rc_fused_train_back *links, int count,
                              const rc_fused_train_gradients *to);
void rc_cuda_chain_backward(rc_backend *be, const rc_fused_back *links, int count, const rc_fused_gradients *to);

/* Packed as chains take them; *fresh is set if they are being packed right before. */
const char *rc_cuda_chain_weights(rc_cuda *cuda, const rc_conv *conv, bool forward, const void *weight, bool *fresh);

#endif
