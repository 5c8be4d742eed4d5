/* Chains of convolutions, as the table has them (backend/backend.h). bf16 only. */
#ifndef RC_BACKEND_CUDA_CHAIN_H
#define RC_BACKEND_CUDA_CHAIN_H

#include "backend/cuda/cuda.h"

bool rc_cuda_takes_chain(rc_backend *be, const rc_conv *conv, int n);
void rc_cuda_chain_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const rc_link *links, int count);

#endif
