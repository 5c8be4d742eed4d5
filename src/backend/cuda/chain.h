/* Chains of convolutions, as the table has them (backend/backend.h). bf16 only. */
#ifndef RC_BACKEND_CUDA_CHAIN_H
#define RC_BACKEND_CUDA_CHAIN_H

#include "backend/cuda/cuda.h"

bool rc_cuda_takes_chain(rc_backend *be, const rc_conv *conv, int n, bool gradients);
void rc_cuda_chain_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const rc_link *links, int count);
void rc_cuda_chain_backward(rc_backend *be, const rc_conv *conv, const rc_back_link *links, int count, void *dx,
                            bool add, void *dskip, bool add_skip);

/* Packed as chains take them; *fresh is set if they are being packed right before. */
const char *rc_cuda_chain_weights(rc_cuda *cuda, const rc_conv *conv, bool forward, const void *weight, bool *fresh);

#endif
