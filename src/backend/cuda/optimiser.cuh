/* Adam's arithmetic, for the kernels that update parameters with it. */
#ifndef RC_BACKEND_CUDA_OPTIMISER_CUH
#define RC_BACKEND_CUDA_OPTIMISER_CUH

#include "backend/cuda/device.cuh"

/* m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  with t = step + 1
 * p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
 * It says what is fused, so that all kernels round alike. */
struct adam_rule {
    rc_adam adam;
    float rate, correction; /* of the step */

    __device__ void operator()(float g, float *p, float *m, float *v) const
    {
        *m = fmaf(1 - adam.beta1, g, adam.beta1 * *m);
        *v = fmaf((1 - adam.beta2) * g, g, adam.beta2 * *v);
        *p -= rate * *m / fmaf(sqrtf(*v), correction, adam.eps);
    }
};

/* All threads of a block call this: powers in double, once per block. */
__device__ inline adam_rule rule_of_step(const rc_adam &adam, const rc_step *step)
{
    __shared__ float rate, correction;
    if (threadIdx.x == 0) {
        double t = (double)step->step + 1;
        rate = (float)((double)step->learning_rate / (1 - pow((double)adam.beta1, t)));
        correction = (float)(1 / sqrt(1 - pow((double)adam.beta2, t)));
    }
    __syncthreads();
    adam_rule rule = {adam, rate, correction};
    return rule;
}

#endif
