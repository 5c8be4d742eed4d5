/* Sums over the threads of a block, always added in the same order, in double: a loss has few terms, and their digits
 * are worth more than the time. */
#ifndef RC_BACKEND_CUDA_REDUCE_CUH
#define RC_BACKEND_CUDA_REDUCE_CUH

#include <cuda_runtime.h>

enum { REDUCE_THREADS = 256 }; /* of every block that calls these; a power of two */

/* The sum of `x` over all threads, in every thread. */
__device__ inline double block_sum(double x)
{
    __shared__ double space[REDUCE_THREADS];
    __syncthreads(); /* another thread may still read the sum before this one */
    space[threadIdx.x] = x;
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            space[threadIdx.x] += space[threadIdx.x + half];
    }
    __syncthreads();
    return space[0];
}

/* The largest `x` of all threads, in every thread. */
__device__ inline double block_max(double x)
{
    __shared__ double space[REDUCE_THREADS];
    __syncthreads();
    space[threadIdx.x] = x;
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half && space[threadIdx.x + half] > space[threadIdx.x])
            space[threadIdx.x] = space[threadIdx.x + half];
    }
    __syncthreads();
    return space[0];
}

/* The same over the 32 threads of a warp, in every thread of it. */
template <typename T> __device__ inline T warp_sum(T x)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

__device__ inline double warp_max(double x)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        double other = __shfl_xor_sync(0xffffffffu, x, distance);
        x = other > x ? other : x;
    }
    return x;
}

#endif
