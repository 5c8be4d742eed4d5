/* Where the operands of wgmma.cuh lie in shared memory, and how the hardware is told.
 *
 * An operand is made of rows of 64 values, 128 bytes, one behind the other: value 8 v + i of the row at address 128 r
 * is at 128 r + 16 (v ^ r % 8) + 2 i. The hardware undoes this by the bits of addresses, after it has added everything
 * up. So an operand may begin at any row.
 *
 * operand_at: rows are those of A or columns of B, and values are along the inner dimension. The operand begins at any
 * 16 values of the row. columns_at: rows are along the inner dimension, values are 64 rows of A or columns of B; B may
 * have more than 64 columns, each 64 of which begin `next` bytes after the 64 before: 128 bytes are one row later. */
#ifndef RC_BACKEND_CUDA_PRODUCT_OPERAND_CUH
#define RC_BACKEND_CUDA_PRODUCT_OPERAND_CUH

#include "backend/cuda/product/mma.cuh"

enum { WGMMA_ROW = 128, WGMMA_ALIGN = 8 * WGMMA_ROW /* bytes; of the memory in which operands lie */ };

/* The shared memory of a launch that asked for WGMMA_ALIGN bytes more than it needs. */
__device__ inline char *operand_memory()
{
    char *shared = dynamic_shared();
    return shared + (WGMMA_ALIGN - shared_address(shared) % WGMMA_ALIGN) % WGMMA_ALIGN;
}

/* A value that all lanes have: the compiler then knows, and describes operands without a copy in every lane. */
__device__ inline int same_in_warp(int x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

/* Fields of 16 bytes: the address, from 64 columns to the next, from eight rows to the next; swizzled by 128 bytes. */
__device__ inline unsigned long long columns_at(unsigned address, unsigned next)
{
    return (unsigned long long)(address >> 4) | (unsigned long long)(next >> 4) << 16 |
           (unsigned long long)(WGMMA_ALIGN >> 4) << 32 | 1ull << 62;
}

__device__ inline unsigned long long operand_at(unsigned address)
{
    return columns_at(address, 16); /* the second field means nothing here */
}

/* The operand that begins so many bytes later. */
__device__ inline unsigned long long operand_after(unsigned long long operand, unsigned bytes)
{
    return operand >> 32 << 32 | ((unsigned)operand + (bytes >> 4));
}

#endif
