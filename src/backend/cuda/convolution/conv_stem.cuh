/* What the kernels of conv_stem.cu and conv_stem_pool.cu share: the products of a warp with 32 positions of a line, of
 * eight channels, and 32 of the block's 64 channels. All weights stay in registers: two taps of eight channels make a
 * product, five products all nine. Positions are the rows of the products. The rows of the second tap lie in shared
 * memory beside those of the first, or a line below, so that ldmatrix finds both:
 *
 *     product     0      1      2      3      4          tap 3 y + x is line y, column x
 *     taps       0, 1   3, 4   6, 7   2, 5   -, 8
 */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STEM_CUH

#include "backend/cuda/convolution/conv_gather.cuh"
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/conv_stem.h"

enum {
    STEM_POSITIONS = 32, /* of a line */
    STEM_PRODUCTS = 5,
    STEM_AHEAD = 3, /* lines that are on their way */
    STEM_LINES = 8  /* of a ring: three in use and those on their way, a power of two */
};
static_assert(STEM_LINES >= STEM_AHEAD + 3, "the ring holds what is in use and what is on its way");

typedef warp_shape<STEM_CHANNELS, false> stem_shape;
typedef unsigned stem_weights[STEM_PRODUCTS][stem_shape::TILES_N][2];

/* Of this lane, from the packed weights (pack.h), whose products have taps 2 p and 2 p + 1; tap 9 is zeros. tile: of 64
 * channels, half: which 32 of them. */
__device__ inline void load_weights(const char *all, int tile, int half, stem_weights &weights)
{
    const char *packed = all + tile * (STEM_PRODUCTS * STEM_CHANNELS * 32) + half * (stem_shape::CHANNELS * 32) +
                         threadIdx.x % 32 * 16;
    constexpr int TAP[STEM_PRODUCTS][2] = {{0, 1}, {3, 4}, {6, 7}, {2, 5}, {9, 8}};
    unsigned word[2 * STEM_PRODUCTS][stem_shape::TILES_N];
#pragma unroll
    for (int product = 0; product < STEM_PRODUCTS; product++)
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j += 2) {
            uint4 two = *(const uint4 *)(packed + product * (STEM_CHANNELS * 32) + j * 256);
            word[2 * product][j] = two.x;
            word[2 * product + 1][j] = two.y;
            word[2 * product][j + 1] = two.z;
            word[2 * product + 1][j + 1] = two.w;
        }
#pragma unroll
    for (int product = 0; product < STEM_PRODUCTS; product++)
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                weights[product][j][k] = word[TAP[product][k]][j];
}

/* Results of 16 positions. address: of this lane's row of each product. */
__device__ inline void multiply_stem(const unsigned (&address)[STEM_PRODUCTS], const stem_weights &weights,
                                     float (&sum)[stem_shape::TILES_N][4])
{
#pragma unroll
    for (int product = 0; product < STEM_PRODUCTS; product++) {
        unsigned pixels[4];
        load_matrices(pixels, address[product]);
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j++)
            multiply_add(sum[j], pixels, weights[product][j]);
    }
}

/* The form of the weights that load_weights reads. */
static inline conv_form stem_form(const rc_conv *conv, bool forward, const axis_taps *taps)
{
    conv_form form;
    rc_cuda_set_form(conv, forward, taps, &form);
    form.chunk_c = 8;
    form.chunks = 1;
    form.tile_c = STEM_CHANNELS;
    form.tiles = form.result_c / STEM_CHANNELS;
    return form;
}

#endif
