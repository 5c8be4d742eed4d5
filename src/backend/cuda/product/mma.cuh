/* The instructions behind the convolutions on the tensor cores: m16n8k16 products of bf16 with fp32 sums, the loads
 * that bring their operands from shared memory, and asynchronous copies. sm_80 and newer.
 *
 * Operands of a product D (16, 8) += A (16, 16) B (16, 8), lane = 4 g + t:
 *     A: rows g and g + 8, columns 2t, 2t + 1, 2t + 8, 2t + 9      B: column g, the same four rows
 *     D: rows g and g + 8, columns 2t and 2t + 1 */
#ifndef RC_BACKEND_CUDA_PRODUCT_MMA_CUH
#define RC_BACKEND_CUDA_PRODUCT_MMA_CUH

#include "backend/cuda/device.cuh"

/* The shared memory whose size the launch gives. */
__device__ inline char *dynamic_shared()
{
    extern __shared__ __align__(16) char bytes[];
    return bytes;
}

__device__ inline unsigned shared_address(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

/* Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8. Thread (g, t) receives elements 2t and
 * 2t + 1 of row g of each; transposed: element g of rows 2t and 2t + 1. */
__device__ inline void load_matrices(unsigned to[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ inline void load_matrices_transposed(unsigned to[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ inline void load_shared8(unsigned to[2], unsigned address)
{
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(address));
}

__device__ inline void load_shared16(unsigned to[4], unsigned address)
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

__device__ inline void store_shared8(unsigned address, const unsigned from[2])
{
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(from[0]), "r"(from[1]) : "memory");
}

__device__ inline void store_shared16(unsigned address, const unsigned from[4])
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]), "r"(from[1]), "r"(from[2]),
                 "r"(from[3])
                 : "memory");
}

__device__ inline void multiply_add(float d[4], const unsigned a[4], const unsigned b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two values as bf16, after ReLU. */
__device__ inline unsigned pack_rectified(float low, float high)
{
    unsigned bits;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/* Ones in the halves of two bf16 that are above 0. */
__device__ inline unsigned positive_halves(unsigned pair)
{
    __nv_bfloat162 zero = __floats2bfloat162_rn(0, 0);
    return __hgt2_mask(*(const __nv_bfloat162 *)&pair, zero);
}

/* Products of two pairs of bf16. */
__device__ inline unsigned multiply_halves(unsigned a, unsigned b)
{
    __nv_bfloat162 product = __hmul2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const unsigned *)&product;
}

__device__ inline void copy16_async(unsigned to_shared, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to_shared), "l"(from) : "memory");
}

/* Of the 16 bytes only the first `bytes` are read, the rest becomes 0. */
__device__ inline void copy16_async_part(unsigned to_shared, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_shared), "l"(from), "r"(bytes) : "memory");
}

/* What is at a negative place is 0, and not read. */
__device__ inline void copy16_async_if(int place, unsigned to_shared, const void *from)
{
    asm volatile("{\n"
                 ".reg .pred ignore;\n"
                 "setp.lt.s32 ignore, %2, 0;\n"
                 "cp.async.cg.shared.global [%0], [%1], 16, ignore;\n"
                 "}" ::"r"(to_shared),
                 "l"(from), "r"(place)
                 : "memory");
}

/* Nothing is stored for a negative place. */
__device__ inline void store16_if(int place, void *to, const unsigned from[4])
{
    asm volatile("{\n"
                 ".reg .pred exists;\n"
                 "setp.ge.s32 exists, %0, 0;\n"
                 "@exists st.global.v4.u32 [%1], {%2, %3, %4, %5};\n"
                 "}" ::"r"(place),
                 "l"(__cvta_generic_to_global(to)), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

/* Asks for the line of 128 bytes in which the address is: a later load finds it in L2. */
__device__ inline void prefetch_line(const void *address)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/* The copies since the last call belong together; the second waits for all but the COUNT youngest of such groups. */
__device__ inline void close_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int COUNT> __device__ inline void wait_for_older_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}

__device__ inline void wait_for_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif
