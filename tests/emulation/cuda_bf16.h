/* bf16 on the CPU: the upper half of a float, rounded to nearest even. */
#ifndef RC_EMULATION_CUDA_BF16_H
#define RC_EMULATION_CUDA_BF16_H

#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) /* NaN stays NaN */
        return {(uint16_t)0x7fff};
    return {(uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

inline float __bfloat162float(__nv_bfloat16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#endif
