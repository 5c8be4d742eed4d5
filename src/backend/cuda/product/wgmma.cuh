/* Products on the tensor cores of sm_90 by four warps together: D (64, 128) += A (64, 16) B (16, 128), bf16 with fp32
 * sums. Both operands lie in shared memory: rows of A and columns of B are 64 values, 128 bytes, one behind the other,
 * and value 8 v + i of the row at address 128 r is at 128 r + 16 (v ^ r % 8) + 2 i. The hardware undoes this by the
 * bits of addresses, so an operand may begin at any row and at any 16 values of it.
 *
 * Warp w of the four has rows 16 w to 16 w + 15 of D, with the lanes of m16n8k16 (mma.cuh): d[4 j + i] is value i of
 * columns 8 j to 8 j + 7.
 *
 * The products run on while the warps go on: fence_sums() comes after the warps wrote to the sums, close_products()
 * makes those since the last call a group, and the sums and operands are free once wait_for_products() has waited. */
#ifndef RC_BACKEND_CUDA_PRODUCT_WGMMA_CUH
#define RC_BACKEND_CUDA_PRODUCT_WGMMA_CUH

#include "backend/cuda/product/mma.cuh"

enum { WGMMA_ROW = 128, WGMMA_ALIGN = 8 * WGMMA_ROW /* bytes; of the memory in which operands lie */ };

/* Cards other than sm_90 compile what follows and never run it: the host asks for the card first. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RC_WGMMA(...) asm volatile(__VA_ARGS__)
#else
#define RC_WGMMA(...) __trap()
#endif

/* A barrier for the four warps that multiply together. */
__device__ inline void join_four_warps()
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
}

/* How the hardware is told of an operand: its address, eight rows are 1024 bytes, swizzled by 128 bytes. */
__device__ inline unsigned long long operand_at(unsigned address)
{
    return (unsigned long long)(address >> 4) | 1ull << 16 | (unsigned long long)(WGMMA_ALIGN >> 4) << 32 | 1ull << 62;
}

/* What this thread has written to shared memory, also by cp.async that it has waited for, products will see after the
 * next barrier. */
__device__ inline void show_products()
{
    RC_WGMMA("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void fence_sums()
{
    RC_WGMMA("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void close_products()
{
    RC_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* For all but the COUNT youngest groups. */
template <int COUNT> __device__ inline void wait_for_products()
{
    RC_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
}

__device__ inline void multiply_rows(float (&d)[64], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
             "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
             "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
             "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
             "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
             "%64, %65, 1, 1, 1, 0, 0;"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
               "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
               "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
               "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
               "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
               "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
               "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
               "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
             : "l"(a), "l"(b));
}

#undef RC_WGMMA

#endif
