#include "base/rng.h"

#include <math.h>

/* ln and the angle are computed in double, so that the float result is the same on nearly every machine. */
static const double two_pi = 6.283185307179586476925286766559;

/*
 * Box-Muller: two uniforms make two independent normals,
 *     r = sqrt(-2 ln u1),  r cos(2 pi u2)  and  r sin(2 pi u2).
 * The half keeps u1 above 0; it also bounds |normal| by sqrt(-2 ln 2^-25) = 5.9.
 */
static void normal_pair(uint32_t a, uint32_t b, double pair[2])
{
    double u1 = ((double)(a >> 8) + 0.5) * 0x1p-24;
    double u2 = (double)(b >> 8) * 0x1p-24;
    double radius = sqrt(-2.0 * log(u1));
    pair[0] = radius * cos(two_pi * u2);
    pair[1] = radius * sin(two_pi * u2);
}

uint32_t rc_rng_bits(rc_rng rng, uint64_t i)
{
    return rc_rng_block(rng, i / 4).lane[i % 4];
}

float rc_rng_uniform(rc_rng rng, uint64_t i)
{
    return rc_uniform_from_bits(rc_rng_bits(rng, i));
}

uint32_t rc_rng_below(rc_rng rng, uint64_t i, uint32_t n)
{
    return rc_below_from_bits(rc_rng_bits(rng, i), n);
}

double rc_rng_normal(rc_rng rng, uint64_t i)
{
    rc_philox block = rc_rng_block(rng, i / 4);
    size_t even = (size_t)(i % 4) & ~(size_t)1;
    double pair[2];
    normal_pair(block.lane[even], block.lane[even + 1], pair);
    return pair[i % 2];
}

static void uniforms_of_block(rc_philox block, float out[4])
{
    for (int lane = 0; lane < 4; lane++)
        out[lane] = rc_uniform_from_bits(block.lane[lane]);
}

static void normals_of_block(rc_philox block, float out[4])
{
    for (int lane = 0; lane < 4; lane += 2) {
        double pair[2];
        normal_pair(block.lane[lane], block.lane[lane + 1], pair);
        out[lane] = (float)pair[0];
        out[lane + 1] = (float)pair[1];
    }
}

/* Walks over the blocks that hold elements first .. first+n-1, computing each once. */
static void fill(rc_rng rng, uint64_t first, float *out, size_t n, void of_block(rc_philox, float[4]))
{
    uint64_t block = first / 4;
    size_t lane = (size_t)(first % 4);
    for (size_t done = 0; done < n; lane = 0) {
        float values[4];
        of_block(rc_rng_block(rng, block++), values);
        while (lane < 4 && done < n)
            out[done++] = values[lane++];
    }
}

void rc_rng_fill_uniform(rc_rng rng, uint64_t first, float *out, size_t n)
{
    fill(rng, first, out, n, uniforms_of_block);
}

void rc_rng_fill_normal(rc_rng rng, uint64_t first, float *out, size_t n)
{
    fill(rng, first, out, n, normals_of_block);
}

/*
 * Fisher-Yates: for i = n-1 down to 1, swap out[i] with out[j], j uniform in 0 .. i. The draws take elements
 * 0, 1, 2, ... of the stream. A draw is the high word of bits * (i+1); when the low word is below 2^32 mod (i+1)
 * the result would be too frequent by one, so the draw is thrown away and the next element taken (Lemire 2019).
 */
void rc_rng_permutation(rc_rng rng, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = i;
    rc_philox block = {{0}};
    uint64_t next = 0;
    for (uint32_t bound = n; bound > 1; bound--) {
        uint32_t reject_below = (0u - bound) % bound;
        uint64_t product;
        do {
            if (next % 4 == 0)
                block = rc_rng_block(rng, next / 4);
            product = (uint64_t)block.lane[next++ % 4] * bound;
        } while ((uint32_t)product < reject_below);
        uint32_t i = bound - 1, j = (uint32_t)(product >> 32), swap = out[i];
        out[i] = out[j];
        out[j] = swap;
    }
}
