/* Products on the tensor cores of sm_90 by four warps together: D (64, n) += A (64, 16) B (16, n), bf16 with fp32 sums.
 * Both operands lie in shared memory (operand.cuh).
 *
 * Warp w of the four has rows 16 w to 16 w + 15 of D, with the lanes of m16n8k16 (mma.cuh): d[4 j + i] is value i of
 * columns 8 j to 8 j + 7.
 *
 * The products run on while the warps go on: fence_sums() comes after the warps wrote to the sums, close_products()
 * makes those since the last call a group, and the sums and operands are free once wait_for_products() has waited. */
#ifndef RC_BACKEND_CUDA_PRODUCT_WGMMA_CUH
#define RC_BACKEND_CUDA_PRODUCT_WGMMA_CUH

#include "backend/cuda/product/operand.cuh"

/* Is this the code of sm_90a? That of sm_90, which a build for a card of that kind may have instead, has no such
 * products. */
__device__ inline bool has_products()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    return true;
#else
    return false;
#endif
}

/* Other code has what follows and never runs it: the host asks the card first (open.cu). */
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

/* Of products that have been waited for: the compiler moves nothing that uses the sums before this. */
template <int N> __device__ inline void take_sums(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i]));
}

/* Numbers of the sums in the text of an instruction, and the sums themselves. */
#define RC_PLACES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RC_PLACES_40 RC_PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define RC_PLACES_48 RC_PLACES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define RC_PLACES_56 RC_PLACES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define RC_PLACES_64 RC_PLACES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define RC_PLACES_96 \
    RC_PLACES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define RC_SUMS_8(d, i) \
    "+f"(d[(i)]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
        "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define RC_SUMS_32(d, i) RC_SUMS_8(d, i), RC_SUMS_8(d, (i) + 8), RC_SUMS_8(d, (i) + 16), RC_SUMS_8(d, (i) + 24)

/* Of operand_at(): 128, 112, 96 or 80 columns. */
__device__ inline void multiply_rows(float (&d)[64], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" RC_PLACES_64 "}, %64, %65, 1, 1, 1, 0, 0;"
             : RC_SUMS_32(d, 0), RC_SUMS_32(d, 32)
             : "l"(a), "l"(b));
}

__device__ inline void multiply_rows(float (&d)[56], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {" RC_PLACES_56 "}, %56, %57, 1, 1, 1, 0, 0;"
             : RC_SUMS_32(d, 0), RC_SUMS_8(d, 32), RC_SUMS_8(d, 40), RC_SUMS_8(d, 48)
             : "l"(a), "l"(b));
}

__device__ inline void multiply_rows(float (&d)[48], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {" RC_PLACES_48 "}, %48, %49, 1, 1, 1, 0, 0;"
             : RC_SUMS_32(d, 0), RC_SUMS_8(d, 32), RC_SUMS_8(d, 40)
             : "l"(a), "l"(b));
}

__device__ inline void multiply_rows(float (&d)[40], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" RC_PLACES_40 "}, %40, %41, 1, 1, 1, 0, 0;"
             : RC_SUMS_32(d, 0), RC_SUMS_8(d, 32)
             : "l"(a), "l"(b));
}

/* Of columns_at(): all 192 columns, the first 128, and the last 64. */
__device__ inline void multiply_three(float (&d)[96], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" RC_PLACES_96 "}, %96, %97, 1, 1, 1, 1, 1;"
             : RC_SUMS_32(d, 0), RC_SUMS_32(d, 32), RC_SUMS_32(d, 64)
             : "l"(a), "l"(b));
}

__device__ inline void multiply_first_two(float (&d)[96], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" RC_PLACES_64 "}, %64, %65, 1, 1, 1, 1, 1;"
             : RC_SUMS_32(d, 0), RC_SUMS_32(d, 32)
             : "l"(a), "l"(b));
}

__device__ inline void multiply_third(float (&d)[96], unsigned long long a, unsigned long long b)
{
    RC_WGMMA("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" RC_PLACES_32 "}, %32, %33, 1, 1, 1, 1, 1;"
             : RC_SUMS_32(d, 64)
             : "l"(a), "l"(b));
}

/* What load_matrices_transposed() (mma.cuh) loads. */
__device__ inline void store_matrices_transposed(unsigned address, const unsigned from[4])
{
    RC_WGMMA("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
             "r"(from[1]), "r"(from[2]), "r"(from[3])
             : "memory");
}

#undef RC_PLACES_32
#undef RC_PLACES_40
#undef RC_PLACES_48
#undef RC_PLACES_56
#undef RC_PLACES_64
#undef RC_PLACES_96
#undef RC_SUMS_8
#undef RC_SUMS_32
#undef RC_WGMMA

#endif
