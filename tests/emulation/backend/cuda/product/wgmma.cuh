/* In place of backend/cuda/product/wgmma.cuh: the products of four warps, each thread its own sums. */
#ifndef RC_EMULATION_WGMMA_CUH
#define RC_EMULATION_WGMMA_CUH

#include "backend/cuda/product/mma.cuh"

enum { WGMMA_ROW = 128, WGMMA_ALIGN = 8 * WGMMA_ROW };

/* All warps of a block call it equally often. */
inline void join_four_warps()
{
    __syncthreads();
}

inline unsigned long long operand_at(unsigned address)
{
    return address;
}

inline void show_products()
{
}

inline void fence_sums()
{
}

inline void close_products()
{
}

template <int COUNT> inline void wait_for_products()
{
}

/* Value `column` of row `row` of an operand: addresses are swizzled by their bits. */
inline float operand_value(unsigned long long operand, int row, int column)
{
    unsigned address = (unsigned)operand + (unsigned)(row * WGMMA_ROW + column * 2);
    uint16_t bits;
    memcpy(&bits, rc_emulated_shared + (address ^ (address >> 7 & 7) << 4), sizeof bits);
    return half_of_word(bits, 0);
}

inline void multiply_rows(float (&d)[64], unsigned long long a, unsigned long long b)
{
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % 128 / 32 * 16 + lane / 4, column = lane % 4 * 2;
    float left[2][16];
    for (int k = 0; k < 16; k++) {
        left[0][k] = operand_value(a, row, k);
        left[1][k] = operand_value(a, row + 8, k);
    }
    for (int j = 0; j < 16; j++)
        for (int c = 0; c < 2; c++)
            for (int k = 0; k < 16; k++) {
                float right = operand_value(b, j * 8 + column + c, k);
                d[4 * j + c] += left[0][k] * right;
                d[4 * j + 2 + c] += left[1][k] * right;
            }
}

#endif
