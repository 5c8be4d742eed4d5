/* Optimisers, with PyTorch's arithmetic. */
#include "backend/cuda/device.cuh"

enum { OPTIMISER_THREADS = 256 };

static dim3 blocks_for(size_t count)
{
    return dim3((unsigned)((count + OPTIMISER_THREADS - 1) / OPTIMISER_THREADS));
}

/* g = grad + weight_decay * p;  v = momentum * v + g;  p -= lr * v. */
__global__ static void sgd_kernel(rc_sgd sgd, const rc_step *step, size_t count, float *param, const float *grad,
                                  float *momentum)
{
    begin_after_kernel_before();
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float g = grad[i] + sgd.weight_decay * param[i], v = sgd.momentum * momentum[i] + g;
    momentum[i] = v;
    param[i] -= step->learning_rate * v;
}

static void sgd(rc_backend *be, const rc_sgd *sgd, const rc_step *step, size_t count, void *param, const void *grad,
                void *momentum)
{
    rc_cuda_launch_early(rc_cuda_of(be), "sgd", sgd_kernel, blocks_for(count), OPTIMISER_THREADS, 0, *sgd, step, count,
                         (float *)param, (const float *)grad, (float *)momentum);
    rc_cuda_weights_written(rc_cuda_of(be), param, count * sizeof(float));
}

/* m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  with t = step + 1
 * p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). */
__global__ static void adam_kernel(rc_adam adam, const rc_step *step, size_t count, float *param, const float *grad,
                                   float *first, float *second)
{
    begin_after_kernel_before();
    __shared__ float rate, correction; /* powers in double, once per block */
    if (threadIdx.x == 0) {
        double t = (double)step->step + 1;
        rate = (float)((double)step->learning_rate / (1 - pow((double)adam.beta1, t)));
        correction = (float)(1 / sqrt(1 - pow((double)adam.beta2, t)));
    }
    __syncthreads();
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float g = grad[i];
    float m = adam.beta1 * first[i] + (1 - adam.beta1) * g;
    float v = adam.beta2 * second[i] + (1 - adam.beta2) * g * g;
    first[i] = m;
    second[i] = v;
    param[i] -= rate * m / (sqrtf(v) * correction + adam.eps);
}

static void adam(rc_backend *be, const rc_adam *adam, const rc_step *step, size_t count, void *param, const void *grad,
                 void *first, void *second)
{
    rc_cuda_launch_early(rc_cuda_of(be), "adam", adam_kernel, blocks_for(count), OPTIMISER_THREADS, 0, *adam, step,
                         count, (float *)param, (const float *)grad, (float *)first, (float *)second);
    rc_cuda_weights_written(rc_cuda_of(be), param, count * sizeof(float));
}

void rc_cuda_fill_optimiser(rc_cuda *cuda)
{
    cuda->table.sgd = sgd;
    cuda->table.adam = adam;
}
