/* What the products of matrices on the tensor cores have in common. */
#ifndef RC_BACKEND_CUDA_PRODUCT_PRODUCT_SLICE_CUH
#define RC_BACKEND_CUDA_PRODUCT_PRODUCT_SLICE_CUH

#include "backend/cuda/product/mma.cuh"

/* The part of a warp, (32, 32) from `row` and `column` on, in the product of two slices of matrices, DEPTH deep. Tiles
 * give two neighbouring depths of a row as an operand has them: unsigned pair(int row, int k) const. */
template <int DEPTH, typename Left, typename Right>
__device__ inline void multiply_slice(float sum[2][4][4], const Left &a, const Right &b, int row, int column)
{
    int group = (int)threadIdx.x % 32 / 4, inside = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        unsigned left[2][4], right[4][2];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int part = 0; part < 4; part++)
                left[i][part] = a.pair(row + 16 * i + group + part % 2 * 8, k + inside + part / 2 * 8);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int part = 0; part < 2; part++)
                right[j][part] = b.pair(column + 8 * j + group, k + inside + part * 8);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply_add(sum[i][j], left[i], right[j]);
    }
}

/* Where those sums belong: store(y, x, first, second) for two neighbouring columns at a time. */
template <typename Store> __device__ inline void store_slice(const float sum[2][4][4], int row, int column, Store store)
{
    int group = (int)threadIdx.x % 32 / 4, inside = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                store(row + 16 * i + group + half * 8, column + 8 * j + inside, sum[i][j][half * 2],
                      sum[i][j][half * 2 + 1]);
}

#endif
