/* Activations on vectors, and how a vector of four channels is loaded and stored where a whole one would reach too far.
 * tanh and sigmoid come from one exponential; their error is below 3 units in the last place. */
#ifndef RC_BACKEND_CPU_FAST_ACTIVATION_H
#define RC_BACKEND_CPU_FAST_ACTIVATION_H

#include <math.h>

#include "backend/cpu/fast/vector_math.h"

#define RC_LEAKY_SLOPE 0.2f

RC_INLINE vec vec_relu(vec x)
{
    return (vec)((x > vec_set(0)) & (veci)x);
}

RC_INLINE vec vec_sigmoid(vec x)
{
    vec positive = vec_select(x < vec_set(0), -x, x);
    vec e = vec_exp(-positive); /* e^-|x| never overflows */
    vec one = vec_set(1);
    return vec_select(x < vec_set(0), e / (one + e), one / (one + e));
}

RC_INLINE vec vec_relu6(vec x)
{
    return vec_select(x < vec_set(6), vec_relu(x), vec_set(6));
}

RC_INLINE vec vec_tanh(vec x)
{
    vec magnitude = vec_select(x < vec_set(0), -x, x);
    vec e = vec_exp(-2 * magnitude);
    vec large = (vec_set(1) - e) / (vec_set(1) + e);
    large = vec_select(x < vec_set(0), -large, large);
    /* 1 - e loses digits near 0; there the odd polynomial is exact enough. */
    vec square = x * x;
    vec p = vec_set(-5.70498872745e-3f);
    p = p * square + vec_set(2.06390887954e-2f);
    p = p * square + vec_set(-5.37397155531e-2f);
    p = p * square + vec_set(1.33314422036e-1f);
    p = p * square + vec_set(-3.33332819422e-1f);
    vec small = p * square * x + x;
    return vec_select(magnitude < vec_set(0.625f), small, large);
}

RC_INLINE vec vec_activate(const rc_act act, vec z)
{
    switch (act) {
    case RC_ACT_NONE: return z;
    case RC_ACT_RELU: return vec_relu(z);
    case RC_ACT_LEAKY_RELU: return vec_select(z > vec_set(0), z, RC_LEAKY_SLOPE * z);
    case RC_ACT_TANH: return vec_tanh(z);
    case RC_ACT_SIGMOID: return vec_sigmoid(z);
    case RC_ACT_RELU6: return vec_relu6(z);
    case RC_ACT_SILU: return z * vec_sigmoid(z);
    }
    return z;
}

/* Between which limits an activation cuts off, if it does nothing else; false: it does. */
RC_INLINE bool act_limits(rc_act act, float *low, float *high)
{
    *low = act == RC_ACT_NONE ? -INFINITY : 0;
    *high = act == RC_ACT_RELU6 ? 6 : INFINITY;
    return act == RC_ACT_NONE || act == RC_ACT_RELU || act == RC_ACT_RELU6;
}

/* NaN passes. */
RC_INLINE vec vec_cut_off(vec x, float low, float high)
{
    x = vec_select(x < vec_set(low), vec_set(low), x);
    return vec_select(x > vec_set(high), vec_set(high), x);
}

/* g * act'(z), from v = act(z), for SiLU from v = z. Where the side of a kink decides, z does as well as v. */
RC_INLINE vec vec_activate_back(const rc_act act, vec v, vec g)
{
    switch (act) {
    case RC_ACT_NONE: return g;
    case RC_ACT_RELU: return (vec)((v > vec_set(0)) & (veci)g);
    case RC_ACT_LEAKY_RELU: return vec_select(v > vec_set(0), g, RC_LEAKY_SLOPE * g);
    case RC_ACT_TANH: return g * (vec_set(1) - v * v);
    case RC_ACT_SIGMOID: return g * (v * (vec_set(1) - v));
    case RC_ACT_RELU6: return (vec)(((v > vec_set(0)) & (v < vec_set(6))) & (veci)g);
    case RC_ACT_SILU: {
        vec s = vec_sigmoid(v);
        return g * (s * (vec_set(1) + v * (vec_set(1) - s)));
    }
    }
    return g;
}

/* Channels are a multiple of four, which may be less than a vector: then `lanes` is 4 and the other lanes are zeros
 * that nobody stores. */
typedef float vec_four __attribute__((vector_size(16), aligned(4), may_alias));

RC_INLINE vec vec_load_lanes(const int lanes, const float *p)
{
    if (lanes == RC_LANES)
        return vec_load(p);
#if RC_VECTOR_BYTES == 64
    vec_four four = *(const vec_four *)p, zero = {0};
    return __builtin_shufflevector(four, zero, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
#elif RC_VECTOR_BYTES == 32
    vec_four four = *(const vec_four *)p, zero = {0};
    return __builtin_shufflevector(four, zero, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    return vec_load(p);
#endif
}

RC_INLINE void vec_store_lanes(const int lanes, float *p, vec v)
{
    if (lanes == RC_LANES)
        vec_store(p, v);
    else
        *(vec_four *)p = __builtin_shufflevector(v, v, 0, 1, 2, 3);
}

#endif
