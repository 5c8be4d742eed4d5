/* Warps that share the positions of a weight gradient's tiles. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_SPLITS_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_SPLITS_CUH

#include "backend/cuda/device.cuh"

/* Adds the sums of the warps that split the positions, in halves; those with split 0 end up with them. `space`, in
 * shared memory, is (SPLIT / 2, owners, COUNT, 32). */
template <int SPLIT, int COUNT>
__device__ inline void add_splits(float *sum, int split, int owner, int owners, float *space)
{
#pragma unroll
    for (int half = SPLIT / 2; half > 0; half /= 2) {
        float *mine = space + ((split % half) * owners + owner) * COUNT * 32 + threadIdx.x % 32;
        __syncthreads();
        if (split >= half && split < 2 * half) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                mine[i * 32] = sum[i];
        }
        __syncthreads();
        if (split < half) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                sum[i] += mine[i * 32];
        }
    }
}

#endif
