/* Weight gradient of a linear layer inside a net, on the tensor cores. */
#ifndef RC_BACKEND_CUDA_PRODUCT_LINEAR_WEIGHT_H
#define RC_BACKEND_CUDA_PRODUCT_LINEAR_WEIGHT_H

#include "backend/cuda/convolution/conv_tile.cuh"

/* Bytes of workspace. */
size_t rc_cuda_linear_weight_bytes(const rc_linear *linear, int n);

/* dweight and, unless it is NULL, dbias. values: of x, (n, padded c_in). False: nothing is enqueued. On the main lane
 * it is held back, also while that waits for other lanes. */
bool rc_cuda_linear_weight(rc_cuda *cuda, const rc_linear *linear, const bf16 *values, const rc_grad *dy,
                           float *dweight, float *dbias);

/* The arguments of the operation adam. */
struct linear_adam {
    rc_adam adam;
    const rc_step *step;
    float *param;
    const float *grad;
    float *first, *second;
};

/* If dweight is held back and part of the gradient of `count` parameters, its kernel updates these, too: from `begin`
 * to what it returns. Otherwise it returns 0 and leaves begin. */
size_t rc_cuda_linear_adam(rc_cuda *cuda, const linear_adam &all, size_t count, size_t *begin);

#endif
