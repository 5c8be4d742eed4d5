/* Weight gradient of a linear layer inside a net, on the tensor cores. */
#ifndef RC_BACKEND_CUDA_PRODUCT_LINEAR_WEIGHT_H
#define RC_BACKEND_CUDA_PRODUCT_LINEAR_WEIGHT_H

#include "backend/cuda/convolution/conv_tile.cuh"

/* Bytes of workspace. */
size_t rc_cuda_linear_weight_bytes(const rc_linear *linear, int n);

/* dweight and, unless it is NULL, dbias. values: of x, (n, padded c_in). False: nothing is enqueued. */
bool rc_cuda_linear_weight(rc_cuda *cuda, const rc_linear *linear, const bf16 *values, const rc_grad *dy,
                           float *dweight, float *dbias);

#endif
