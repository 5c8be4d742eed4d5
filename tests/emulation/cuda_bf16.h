/* bf16 on the CPU: the upper half of a float, rounded to nearest even. */
#ifndef RC_EMULATION_CUDA_BF16_H
#define RC_EMULATION_CUDA_BF16_H

#include <math.h>
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

inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return __floats2bfloat162_rn(__bfloat162float(a.x) * __bfloat162float(b.x),
                                 __bfloat162float(a.y) * __bfloat162float(b.y));
}

inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c)
{
    return __floats2bfloat162_rn(__bfloat162float(a.x) * __bfloat162float(b.x) + __bfloat162float(c.x),
                                 __bfloat162float(a.y) * __bfloat162float(b.y) + __bfloat162float(c.y));
}

/* What is greater; a NaN is not, or always. */
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return __floats2bfloat162_rn(fmaxf(__bfloat162float(a.x), __bfloat162float(b.x)),
                                 fmaxf(__bfloat162float(a.y), __bfloat162float(b.y)));
}

inline float greater_or_nan(float a, float b)
{
    return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
}

inline __nv_bfloat162 __hmax2_nan(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return __floats2bfloat162_rn(greater_or_nan(__bfloat162float(a.x), __bfloat162float(b.x)),
                                 greater_or_nan(__bfloat162float(a.y), __bfloat162float(b.y)));
}

/* 1 where a equals b, otherwise 0. */
inline __nv_bfloat162 __heq2(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return __floats2bfloat162_rn(__bfloat162float(a.x) == __bfloat162float(b.x),
                                 __bfloat162float(a.y) == __bfloat162float(b.y));
}

/* Ones in the half where a > b. */
inline unsigned __hgt2_mask(__nv_bfloat162 a, __nv_bfloat162 b)
{
    return (__bfloat162float(a.x) > __bfloat162float(b.x) ? 0xffffu : 0) |
           (__bfloat162float(a.y) > __bfloat162float(b.y) ? 0xffff0000u : 0);
}

#endif
