/* In place of backend/cuda/product/mma.cuh: what the tensor cores and their loads do, by threads that are fibers. An
 * address in shared memory is an offset into the block's. */
#ifndef RC_EMULATION_MMA_CUH
#define RC_EMULATION_MMA_CUH

#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/device.cuh"
#include "groups.h"

inline char *dynamic_shared()
{
    return rc_emulated_shared;
}

inline unsigned shared_address(const void *pointer)
{
    return (unsigned)((const char *)pointer - rc_emulated_shared);
}

/* Element `column` of row `row` of matrix `matrix`, of which lane 8 matrix + row knows the address. */
inline unsigned matrix_element(const unsigned *address, int matrix, int row, int column)
{
    uint16_t bits;
    memcpy(&bits, rc_emulated_shared + address[matrix * 8 + row] + column * 2, sizeof bits);
    return bits;
}

inline void load_matrices_as(unsigned to[4], unsigned address, bool transposed)
{
    const unsigned *all = (const unsigned *)rc_emulated_gather(&address, sizeof address, NULL);
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int m = 0; m < 4; m++) {
        unsigned low = transposed ? matrix_element(all, m, 2 * t, g) : matrix_element(all, m, g, 2 * t);
        unsigned high = transposed ? matrix_element(all, m, 2 * t + 1, g) : matrix_element(all, m, g, 2 * t + 1);
        to[m] = low | high << 16;
    }
}

inline void load_matrices(unsigned to[4], unsigned address)
{
    load_matrices_as(to, address, false);
}

inline void load_matrices_transposed(unsigned to[4], unsigned address)
{
    load_matrices_as(to, address, true);
}

inline void load_shared8(unsigned to[2], unsigned address)
{
    memcpy(to, rc_emulated_shared + address, 8);
}

inline void load_shared16(unsigned to[4], unsigned address)
{
    memcpy(to, rc_emulated_shared + address, 16);
}

inline void store_shared8(unsigned address, const unsigned from[2])
{
    memcpy(rc_emulated_shared + address, from, 8);
}

inline void store_shared16(unsigned address, const unsigned from[4])
{
    memcpy(rc_emulated_shared + address, from, 16);
}

inline float half_of_word(unsigned word, int half)
{
    return __uint_as_float(half ? word & 0xffff0000u : word << 16);
}

/* What a lane has of a product, and of a warp's 32 lanes: D (16, 8) += A (16, 16) B (16, 8), whose elements lie as
 * mma.m16n8k16 has them. */
struct emulated_operands {
    float d[4];
    unsigned a[4], b[2];

    static void multiply(void *warp)
    {
        typedef float row_of_d __attribute__((vector_size(32)));
        emulated_operands *lanes = (emulated_operands *)warp;
        row_of_d b[16];
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++)
                b[lane % 4 * 2 + i / 2 * 8 + i % 2][lane / 4] = half_of_word(lanes[lane].b[i / 2], i % 2);
        for (int row = 0; row < 16; row++) {
            emulated_operands *four = lanes + row % 8 * 4;
            row_of_d sum;
            for (int column = 0; column < 8; column++)
                sum[column] = four[column / 2].d[row / 8 * 2 + column % 2];
            for (int k = 0; k < 16; k++)
                sum += half_of_word(four[k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2) * b[k];
            for (int column = 0; column < 8; column++)
                four[column / 2].d[row / 8 * 2 + column % 2] = sum[column];
        }
    }
};

inline void multiply_add(float d[4], const unsigned a[4], const unsigned b[2])
{
    emulated_operands mine;
    memcpy(mine.d, d, sizeof mine.d);
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const void *all = rc_emulated_gather(&mine, sizeof mine, emulated_operands::multiply);
    memcpy(d, ((const emulated_operands *)all)[threadIdx.x % 32].d, sizeof mine.d);
}

inline unsigned pack_rectified(float low, float high)
{
    return pack_bf16(low > 0 ? low : 0, high > 0 ? high : 0);
}

inline unsigned positive_halves(unsigned pair)
{
    return (half_of_word(pair, 0) > 0 ? 0xffffu : 0) | (half_of_word(pair, 1) > 0 ? 0xffff0000u : 0);
}

inline unsigned multiply_halves(unsigned a, unsigned b)
{
    return pack_bf16(half_of_word(a, 0) * half_of_word(b, 0), half_of_word(a, 1) * half_of_word(b, 1));
}

/* A copy on its way. What it overwrites is NaN at once, and its bytes arrive when the thread waits for them: a kernel
 * that asks too early or does not wait is noticed. */
struct emulated_copy {
    unsigned to;
    const void *from;
    size_t bytes;

    void run() const
    {
        memset(rc_emulated_shared + to, 0, 16);
        memcpy(rc_emulated_shared + to, from, bytes);
    }
};
typedef emulated_groups<emulated_copy> emulated_copies;

inline void must_be_aligned(size_t address)
{
    if (address % 16 == 0)
        return;
    fprintf(stderr, "emulated CUDA: misaligned address\n");
    abort();
}

inline void copy16_async_part(unsigned to_shared, const void *from, int bytes)
{
    must_be_aligned(to_shared);
    must_be_aligned(bytes > 0 ? (size_t)(uintptr_t)from : 0);
    memset(rc_emulated_shared + to_shared, 0xff, 16);
    emulated_copies::mine().add({to_shared, from, (size_t)bytes});
}

inline void copy16_async(unsigned to_shared, const void *from)
{
    copy16_async_part(to_shared, from, 16);
}

inline void copy16_async_if(int place, unsigned to_shared, const void *from)
{
    copy16_async_part(to_shared, from, place >= 0 ? 16 : 0);
}

inline void store16_if(int place, void *to, const unsigned from[4])
{
    must_be_aligned(place >= 0 ? (size_t)(uintptr_t)to : 0);
    if (place >= 0)
        memcpy(to, from, 16);
}

inline void prefetch_line(const void *)
{
}

inline void close_copies()
{
    emulated_copies::mine().close();
}

template <int COUNT> inline void wait_for_older_copies()
{
    emulated_copies::mine().wait(COUNT);
}

inline void wait_for_copies()
{
    close_copies();
    emulated_copies::mine().wait(0);
}

#endif
