/* Optimisers, with PyTorch's arithmetic. They do little but move memory: a thread takes vectors of four, all of whose
 * loads are on their way before the first is used, and there are no more blocks than run at once. */
#include "backend/cuda/device.cuh"

enum { OPTIMISER_THREADS = 256, OPTIMISER_BLOCKS = 4 /* of a multiprocessor */ };

/* How `count` elements are cut: whole vectors of four, if all addresses allow them, and the rest one by one. */
struct element_cut {
    size_t vectors, rest;
};

static element_cut cut_elements(size_t count, const void *a, const void *b, const void *c, const void *d)
{
    bool aligned = ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16 == 0;
    element_cut cut = {aligned ? count / 4 : 0, aligned ? count % 4 : count};
    return cut;
}

static dim3 blocks_for(const rc_cuda *cuda, element_cut cut)
{
    size_t threads = cut.vectors > cut.rest ? cut.vectors : cut.rest;
    size_t blocks = (threads + OPTIMISER_THREADS - 1) / OPTIMISER_THREADS;
    size_t most = (size_t)cuda->multiprocessors * OPTIMISER_BLOCKS;
    return dim3((unsigned)(blocks < most ? blocks : most));
}

template <int WIDTH> struct vector {
    float v[WIDTH];
};

__device__ static void load_vector(vector<4> *to, const float *from, size_t i)
{
    float4 x = ((const float4 *)from)[i];
    to->v[0] = x.x;
    to->v[1] = x.y;
    to->v[2] = x.z;
    to->v[3] = x.w;
}

__device__ static void store_vector(float *to, size_t i, const vector<4> &x)
{
    ((float4 *)to)[i] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
}

__device__ static void load_vector(vector<1> *to, const float *from, size_t i)
{
    to->v[0] = from[i];
}

__device__ static void store_vector(float *to, size_t i, const vector<1> &x)
{
    to[i] = x.v[0];
}

/* Calls update(i, vector<4> or vector<1> to tell the width) for everything that this thread owns; `i` counts vectors of
 * that width from the beginning. */
template <typename Update> __device__ static void update_all(element_cut cut, const Update &update)
{
    size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x, stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = thread; i < cut.vectors; i += stride)
        update(i, vector<4>());
    for (size_t i = thread; i < cut.rest; i += stride)
        update(4 * cut.vectors + i, vector<1>());
}

/* g = grad + weight_decay * p;  v = momentum * v + g;  p -= lr * v. */
struct sgd_update {
    rc_sgd sgd;
    float rate, *param;
    const float *grad;
    float *momentum;

    template <int WIDTH> __device__ void operator()(size_t i, vector<WIDTH> p) const
    {
        vector<WIDTH> g, v;
        load_vector(&p, param, i);
        load_vector(&g, grad, i);
        load_vector(&v, momentum, i);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            v.v[e] = sgd.momentum * v.v[e] + (g.v[e] + sgd.weight_decay * p.v[e]);
            p.v[e] -= rate * v.v[e];
        }
        store_vector(momentum, i, v);
        store_vector(param, i, p);
    }
};

__global__ static void sgd_kernel(sgd_update update, const rc_step *step, element_cut cut)
{
    begin_after_kernel_before();
    update.rate = step->learning_rate;
    update_all(cut, update);
}

static void sgd(rc_backend *be, const rc_sgd *sgd, const rc_step *step, size_t count, void *param, const void *grad,
                void *momentum)
{
    rc_cuda *cuda = rc_cuda_of(be);
    element_cut cut = cut_elements(count, param, grad, momentum, NULL);
    sgd_update update = {*sgd, 0, (float *)param, (const float *)grad, (float *)momentum};
    rc_cuda_launch_early(cuda, "sgd", sgd_kernel, blocks_for(cuda, cut), OPTIMISER_THREADS, 0, update, step, cut);
    rc_cuda_weights_written(cuda, param, count * sizeof(float));
}

/* m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  with t = step + 1
 * p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). */
struct adam_update {
    rc_adam adam;
    float rate, correction, *param;
    const float *grad;
    float *first, *second;

    template <int WIDTH> __device__ void operator()(size_t i, vector<WIDTH> p) const
    {
        vector<WIDTH> g, m, v;
        load_vector(&g, grad, i);
        load_vector(&m, first, i);
        load_vector(&v, second, i);
        load_vector(&p, param, i);
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            m.v[e] = adam.beta1 * m.v[e] + (1 - adam.beta1) * g.v[e];
            v.v[e] = adam.beta2 * v.v[e] + (1 - adam.beta2) * g.v[e] * g.v[e];
            p.v[e] -= rate * m.v[e] / (sqrtf(v.v[e]) * correction + adam.eps);
        }
        store_vector(first, i, m);
        store_vector(second, i, v);
        store_vector(param, i, p);
    }
};

__global__ static void adam_kernel(adam_update update, const rc_step *step, element_cut cut)
{
    begin_after_kernel_before();
    __shared__ float rate, correction; /* powers in double, once per block */
    if (threadIdx.x == 0) {
        double t = (double)step->step + 1;
        rate = (float)((double)step->learning_rate / (1 - pow((double)update.adam.beta1, t)));
        correction = (float)(1 / sqrt(1 - pow((double)update.adam.beta2, t)));
    }
    __syncthreads();
    update.rate = rate;
    update.correction = correction;
    update_all(cut, update);
}

static void adam(rc_backend *be, const rc_adam *adam, const rc_step *step, size_t count, void *param, const void *grad,
                 void *first, void *second)
{
    rc_cuda *cuda = rc_cuda_of(be);
    element_cut cut = cut_elements(count, param, grad, first, second);
    adam_update update = {*adam, 0, 0, (float *)param, (const float *)grad, (float *)first, (float *)second};
    rc_cuda_launch_early(cuda, "adam", adam_kernel, blocks_for(cuda, cut), OPTIMISER_THREADS, 0, update, step, cut);
    rc_cuda_weights_written(cuda, param, count * sizeof(float));
}

void rc_cuda_fill_optimiser(rc_cuda *cuda)
{
    cuda->table.sgd = sgd;
    cuda->table.adam = adam;
}
