/* Exponential and logarithm of vectors. */
#ifndef RC_BACKEND_CPU_FAST_VECTOR_MATH_H
#define RC_BACKEND_CPU_FAST_VECTOR_MATH_H

#include "backend/cpu/fast/isa.h"

/* mask ? a : b, lane by lane; masks are all ones or all zeros. */
RC_INLINE vec vec_select(veci mask, vec a, vec b)
{
    return (vec)((mask & (veci)a) | (~mask & (veci)b));
}

/* e^x for x <= 88, within 2 ulp; exactly 1 at 0, and 0 below -87 (so that no result is subnormal).
 * With x = n log 2 + r, |r| <= log 2 / 2: e^x = 2^n e^r, e^r by its Taylor series with the last terms adjusted. */
RC_INLINE vec vec_exp(vec x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits */
    veci vanishes = x < vec_set(-87.0f);
    x = vec_select(vanishes, vec_set(0), x);
    vec shifted = x * vec_set(1.44269504f) + vec_set(shift), n = shifted - vec_set(shift);
    vec r = x - n * vec_set(0.693359375f) - n * vec_set(-2.12194440e-4f); /* log 2 in two pieces, the first exact */
    vec p = vec_set(1.9875691500e-4f);
    p = p * r + vec_set(1.3981999507e-3f);
    p = p * r + vec_set(8.3334519073e-3f);
    p = p * r + vec_set(4.1665795894e-2f);
    p = p * r + vec_set(1.6666665459e-1f);
    p = p * r + vec_set(5.0000001201e-1f);
    p = p * (r * r) + r + vec_set(1);
    veci power = ((veci)shifted << 23) + (veci)vec_set(1); /* the bits of 2^n */
    return (vec)((veci)(p * (vec)power) & ~vanishes);
}

/* log x for x in [0, 1], off by an ulp of the result or of 1; -100 for anything below the smallest normal number.
 * With x = 2^n (1 + r) and sqrt(1/2) <= 1 + r < sqrt(2): log x = n log 2 + r - r^2 / 2 + r^3 polynomial(r). */
RC_INLINE vec vec_log_of_fraction(vec x)
{
    const int32_t root_half = 0x3f3504f3; /* the bits of sqrt(1/2) */
    veci bits = (veci)x, exponent = (bits - root_half) >> 23;
    vec r = (vec)(bits - (exponent << 23)) - vec_set(1), n = __builtin_convertvector(exponent, vec);
    vec p = vec_set(7.0376836292e-2f);
    p = p * r + vec_set(-1.1514610310e-1f);
    p = p * r + vec_set(1.1676998740e-1f);
    p = p * r + vec_set(-1.2420140846e-1f);
    p = p * r + vec_set(1.4249322787e-1f);
    p = p * r + vec_set(-1.6668057665e-1f);
    p = p * r + vec_set(2.0000714765e-1f);
    p = p * r + vec_set(-2.4999993993e-1f);
    p = p * r + vec_set(3.3333331174e-1f);
    vec square = r * r, small = p * r * square + n * vec_set(-2.12194440e-4f) - vec_set(0.5f) * square;
    return vec_select(x < vec_set(0x1p-126f), vec_set(-100), small + r + n * vec_set(0.693359375f));
}

#endif
