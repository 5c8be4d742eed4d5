/* In place of backend/cuda/product/wgmma.cuh: the products of four warps, each thread its own sums. A product reads its
 * operands as its descriptors say: for every second row of the result at once, for the others as late as it may, when
 * their threads wait for it. So a kernel that multiplies or uses sums too early is noticed, and one that overwrites
 * operands too early. */
#ifndef RC_EMULATION_WGMMA_CUH
#define RC_EMULATION_WGMMA_CUH

#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/product/operand.cuh"
#include "groups.h"

/* RECOLLECT_EMULATED_WGMMA: `none`, where the code is that of sm_90, whose products trap. */
inline bool has_products()
{
    const char *wgmma = getenv("RECOLLECT_EMULATED_WGMMA");
    return !wgmma || strcmp(wgmma, "none") != 0;
}

/* All warps of a block call it equally often. */
inline void join_four_warps()
{
    __syncthreads();
}

/* An operand: its rows are those of the product (or columns of B), or along the inner dimension. */
struct emulated_operand {
    unsigned long long bits;
    bool inner_rows;

    unsigned field(int first) const
    {
        return (unsigned)(bits >> first & 0x3fff) << 4;
    }

    /* Of row (or column) `outer` at `inner`: eight along a row lie beside each other. */
    const char *at(unsigned outer, unsigned inner) const
    {
        unsigned along = inner_rows ? inner : outer, across = inner_rows ? outer : inner;
        unsigned address = field(0) + along % 8 * WGMMA_ROW + along / 8 * field(32);
        address += across % 64 * 2 + across / 64 * field(16);
        return rc_emulated_shared + (address ^ (address >> 7 & 7) << 4);
    }

    float value(unsigned outer, unsigned inner) const
    {
        uint16_t half;
        memcpy(&half, at(outer, inner), sizeof half);
        return half_of_word(half, 0);
    }

    /* Words of `outer`, which is even, and its neighbour. */
    void pairs(unsigned outer, unsigned to[16]) const
    {
        uint16_t half[2][16];
        for (unsigned inner = 0; inner < 16 && inner_rows; inner++)
            memcpy(&to[inner], at(outer, inner), sizeof *to);
        if (inner_rows)
            return;
        for (unsigned i = 0; i < 4; i++)
            memcpy(&half[i / 2][i % 2 * 8], at(outer + i / 2, i % 2 * 8), 8 * sizeof(uint16_t));
        for (unsigned inner = 0; inner < 16; inner++)
            to[inner] = half[0][inner] | (unsigned)half[1][inner] << 16;
    }
};

struct emulated_product {
    float *d; /* of n columns */
    int n;
    emulated_operand a, b;

    void run() const
    {
        typedef float four __attribute__((vector_size(16))); /* of two rows, each with two columns */
        unsigned lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4, column = lane % 4 * 2;
        four left[16], sum;
        for (unsigned k = 0; k < 16; k++) {
            float upper = a.value(row, k), lower = a.value(row + 8, k);
            left[k] = (four){upper, upper, lower, lower};
        }
        for (unsigned j = 0; j < (unsigned)n / 8; j++) {
            unsigned right[16];
            b.pairs(j * 8 + column, right);
            memcpy(&sum, d + 4 * j, sizeof sum);
            for (unsigned k = 0; k < 16; k++) {
                float first = half_of_word(right[k], 0), second = half_of_word(right[k], 1);
                sum += left[k] * (four){first, second, first, second};
            }
            memcpy(d + 4 * j, &sum, sizeof sum);
        }
    }
};

typedef emulated_groups<emulated_product> emulated_products;

inline void begin_product(float *d, int n, unsigned long long a, unsigned long long b, bool inner_rows)
{
    if (!has_products()) {
        fprintf(stderr, "a product of wgmma in code that has none\n");
        abort();
    }
    for (unsigned long long bits : {a, b})
        if (bits >> 62 != 1 || (bits >> 46 & 0xffff) != 0) {
            fprintf(stderr, "the emulation knows no such operand of wgmma\n");
            abort();
        }
    emulated_product product = {d, n, {a, inner_rows}, {b, inner_rows}};
    if (threadIdx.x / 4 % 2 == 0)
        product.run();
    else
        emulated_products::mine().add(product);
}

inline void show_products()
{
}

inline void fence_sums()
{
}

inline void close_products()
{
    emulated_products::mine().close();
}

template <int COUNT> inline void wait_for_products()
{
    emulated_products::mine().wait(COUNT);
}

template <int N> inline void take_sums(float (&)[N])
{
}

template <int N> inline void multiply_rows(float (&d)[N], unsigned long long a, unsigned long long b)
{
    static_assert(N == 64 || N == 56 || N == 48 || N == 40, "as many columns as there are products of");
    begin_product(d, 2 * N, a, b, false);
}

inline void multiply_three(float (&d)[96], unsigned long long a, unsigned long long b)
{
    begin_product(d, 192, a, b, true);
}

inline void multiply_first_two(float (&d)[96], unsigned long long a, unsigned long long b)
{
    begin_product(d, 128, a, b, true);
}

inline void multiply_third(float (&d)[96], unsigned long long a, unsigned long long b)
{
    begin_product(d + 64, 64, a, b, true);
}

inline void store_matrices_transposed(unsigned address, const unsigned from[4])
{
    typedef unsigned words[4];
    const words *all = (const words *)rc_emulated_gather(from, sizeof(words), NULL);
    int lane = (int)threadIdx.x % 32;
    uint16_t row[8]; /* of matrix lane / 8 */
    for (int g = 0; g < 8; g++)
        row[g] = (uint16_t)(all[g * 4 + lane % 8 / 2][lane / 8] >> lane % 2 * 16);
    memcpy(rc_emulated_shared + address, row, sizeof row);
}

#endif
