/* Numbers of 16 bits as IEEE 754 has them: sign, 5 bits of exponent (bias 15), 10 of mantissa. Below 2^-14 the exponent
 * stays and the leading 1 is absent. */
#ifndef RC_BASE_HALF_H
#define RC_BASE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float rc_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3FF, bits;
    float value = (float)mantissa * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
    if (exponent == 31)
        bits = 0x7F800000 | mantissa << 13;
    else if (exponent > 0)
        bits = (exponent + 112) << 23 | mantissa << 13;
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest one, of two the even one. What is too large becomes the largest finite one, 65504. */
static inline uint16_t rc_half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000)
        return (uint16_t)(sign | 0x7E00); /* not a number */
    if (bits < 0x38800000)
        return (uint16_t)(sign | (uint16_t)lrintf(fabsf(value) * 0x1p24f));
    bits += 0xFFF + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits < 0x47800000 ? (bits - 0x38000000) >> 13 : 0x7BFF));
}

#endif
