/*
 * The one source of randomness: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011). A random number is a pure function of (seed, stream, index), so there is no state to
 * save, and any thread or device can make any number of the stream on its own.
 *
 *     key     = (seed low, seed high)
 *     counter = (block low, block high, stream low, stream high)      block = index / 4, lane = index % 4
 *
 * tests/oracle/philox.py is the same thing in numpy.
 */
#ifndef RC_BASE_RNG_H
#define RC_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct rc_rng {
    uint64_t seed, stream;
} rc_rng;

typedef struct rc_philox {
    uint32_t lane[4];
} rc_philox;

/* Ten rounds on a raw counter and key. Inline, so that kernel files can make their own numbers. */
static inline rc_philox rc_philox_rounds(rc_philox counter, uint32_t key0, uint32_t key1)
{
    uint32_t a = counter.lane[0], b = counter.lane[1], c = counter.lane[2], d = counter.lane[3];
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)0xD2511F53u * a, right = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(right >> 32) ^ b ^ key0;
        b = (uint32_t)right;
        c = (uint32_t)(left >> 32) ^ d ^ key1;
        d = (uint32_t)left;
        key0 += 0x9E3779B9u; /* golden ratio */
        key1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return (rc_philox){{a, b, c, d}};
}

/* Elements 4*block .. 4*block+3 of the stream. */
static inline rc_philox rc_rng_block(rc_rng rng, uint64_t block)
{
    rc_philox counter = {
        {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)rng.stream, (uint32_t)(rng.stream >> 32)}};
    return rc_philox_rounds(counter, (uint32_t)rng.seed, (uint32_t)(rng.seed >> 32));
}

/* 24 of the bits as a float in [0, 1): exact, so the same on every machine. */
static inline float rc_uniform_from_bits(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

/* 0 .. n-1 by multiply and shift; the bias is below n / 2^32. */
static inline uint32_t rc_below_from_bits(uint32_t bits, uint32_t n)
{
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* Element i of the stream, as 32 bits, as a float in [0, 1), as an integer in [0, n) (n = 0 gives 0). */
uint32_t rc_rng_bits(rc_rng rng, uint64_t i);
float rc_rng_uniform(rc_rng rng, uint64_t i);
uint32_t rc_rng_below(rc_rng rng, uint64_t i, uint32_t n);
/* Element i as a standard normal: Box-Muller on the lanes (0,1) and (2,3), in double; see rng.c. */
double rc_rng_normal(rc_rng rng, uint64_t i);

/* out[k] = element first + k, for k < n. */
void rc_rng_fill_uniform(rc_rng rng, uint64_t first, float *out, size_t n);
void rc_rng_fill_normal(rc_rng rng, uint64_t first, float *out, size_t n);

/* A uniformly random order of 0 .. n-1; takes the elements of the stream from 0 on; see rng.c. */
void rc_rng_permutation(rc_rng rng, uint32_t n, uint32_t *out);

#endif
