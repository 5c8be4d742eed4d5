/* Reading a lazy tensor and a lazy gradient, one element at a time: every reference operation goes through these. */
#ifndef RC_BACKEND_CPU_REFERENCE_VALUE_H
#define RC_BACKEND_CPU_REFERENCE_VALUE_H

#include <math.h>

#include "backend/cpu/reference/reference.h"

/* Index of (image, y, x, channel) in (n, h, w, cp). */
static inline size_t at(int h, int w, int cp, int image, int y, int x, int channel)
{
    return (((size_t)image * (size_t)h + (size_t)y) * (size_t)w + (size_t)x) * (size_t)cp + (size_t)channel;
}

static inline real activate(rc_act act, real z)
{
    switch (act) {
    case RC_ACT_NONE: return z;
    case RC_ACT_RELU: return z > 0 ? z : 0;
    case RC_ACT_LEAKY_RELU: return z > 0 ? z : (real)0.2 * z;
    case RC_ACT_TANH: return (real)tanh((double)z);
    case RC_ACT_SIGMOID: return (real)(1 / (1 + exp(-(double)z)));
    case RC_ACT_RELU6: return z > 0 ? (z < 6 ? z : 6) : 0;
    case RC_ACT_SILU: return (real)((double)z / (1 + exp(-(double)z)));
    }
    return z;
}

/* act'(z), written as a function of v = act(z): v has the sign of z where the sign decides. SiLU takes the same value
 * twice, so it has silu_slope. */
static inline real act_slope(rc_act act, real v)
{
    switch (act) {
    case RC_ACT_NONE: return 1;
    case RC_ACT_RELU: return v > 0 ? 1 : 0;
    case RC_ACT_LEAKY_RELU: return v > 0 ? 1 : (real)0.2;
    case RC_ACT_TANH: return 1 - v * v;
    case RC_ACT_SIGMOID: return v * (1 - v);
    case RC_ACT_RELU6: return v > 0 && v < 6 ? 1 : 0;
    case RC_ACT_SILU: break;
    }
    return 1;
}

/* d/dz z s(z) = s (1 + z (1 - s)), s the sigmoid of z. */
static inline real silu_slope(real z)
{
    double s = 1 / (1 + exp(-(double)z));
    return (real)(s * (1 + (double)z * (1 - s)));
}

/* What the skip of t adds at a place. */
static inline real skip_at(const rc_backend *be, const rc_tensor *t, int image, int y, int x, int channel)
{
    const rc_skip *skip = &t->skip;
    int source = channel - skip->channel_offset;
    if (!skip->value || source < 0 || source >= skip->c)
        return 0;
    const real *value = skip->value;
    return value[at(skip->h, skip->w, rc_padded(be, skip->c), image, y * skip->stride, x * skip->stride, source)];
}

/* raw * scale + shift + skip. */
static inline real before_act_at(const rc_backend *be, const rc_tensor *t, int image, int y, int x, int channel)
{
    int cp = rc_padded(be, t->c);
    real z = ((const real *)t->raw)[at(t->h, t->w, cp, image, y, x, channel)];
    if (t->scale) {
        int i = rc_group_of(t, image) * cp + channel;
        z = z * ((const real *)t->scale)[i] + ((const real *)t->shift)[i];
    }
    return z + skip_at(be, t, image, y, x, channel);
}

/* act of that, whether or not it has been stored. */
static inline real pending_at(const rc_backend *be, const rc_tensor *t, int image, int y, int x, int channel)
{
    return activate(t->act, before_act_at(be, t, image, y, x, channel));
}

static inline real value_at(const rc_backend *be, const rc_tensor *t, int image, int y, int x, int channel)
{
    if (t->stored)
        return ((const real *)t->value)[at(t->h, t->w, rc_padded(be, t->c), image, y, x, channel)];
    return pending_at(be, t, image, y, x, channel);
}

/* dz = g * act'(pre-activation of y), g (n, h, w, cp) = dL/dvalue of y. */
static inline real dz_at(const rc_backend *be, const rc_tensor *y, const void *g, int image, int row, int column,
                         int channel)
{
    real dvalue = ((const real *)g)[at(y->h, y->w, rc_padded(be, y->c), image, row, column, channel)];
    if (y->act == RC_ACT_NONE)
        return dvalue;
    if (y->act == RC_ACT_SILU)
        return dvalue * silu_slope(before_act_at(be, y, image, row, column, channel));
    return dvalue * act_slope(y->act, value_at(be, y, image, row, column, channel));
}

/* dL/draw = a * dz + b * raw + c. */
static inline real draw_at(const rc_backend *be, const rc_grad *dy, int image, int row, int column, int channel)
{
    const rc_tensor *y = dy->y;
    real dz = dz_at(be, y, dy->g, image, row, column, channel);
    if (!dy->a)
        return dz;
    int cp = rc_padded(be, y->c);
    int i = rc_group_of(y, image) * cp + channel;
    real raw = ((const real *)y->raw)[at(y->h, y->w, cp, image, row, column, channel)];
    return ((const real *)dy->a)[i] * dz + ((const real *)dy->b)[i] * raw + ((const real *)dy->c)[i];
}

/* The first reader of a tensor with memory for its value fills it. */
static inline void store_value(rc_backend *be, rc_tensor *x)
{
    if (x->value && !x->stored)
        be->materialise(be, x);
}

/* What every forward operation does once y->raw holds its result; pad channels become zero. */
void RC_REFERENCE(finish_forward)(rc_backend *be, const rc_tensor *y, const rc_epilogue *epilogue);
/* What every backward operation does once dx (n, h, w, cp), the shape of epilogue->x, is complete. */
void RC_REFERENCE(finish_backward)(rc_backend *be, void *dx, const rc_back_epilogue *epilogue);

/* ---- which pixels of a convolution meet ------------------------------------------------------------------------- */

/* Along one axis: the input position that output position `out` reads through tap `tap`, or -1.
 *     convolution: in = out * stride - pad + tap     transposed: out = in * stride - pad + tap
 * `size` is the length of the input before it is enlarged. */
static inline int source_of(const rc_conv *conv, int size, int out, int tap)
{
    int in = conv->transposed ? out + conv->pad - tap : out * conv->stride - conv->pad + tap;
    if (in < 0)
        return -1;
    if (conv->transposed) {
        if (in % conv->stride != 0)
            return -1;
        in /= conv->stride;
    }
    return in < size * conv->up ? in / conv->up : -1;
}

/* The inverse: the output position that reads enlarged input position `in` through tap `tap`, or -1; `size` is the
 * length of the output. */
static inline int target_of(const rc_conv *conv, int size, int in, int tap)
{
    int out = conv->transposed ? in * conv->stride - conv->pad + tap : in + conv->pad - tap;
    if (out < 0)
        return -1;
    if (!conv->transposed) {
        if (out % conv->stride != 0)
            return -1;
        out /= conv->stride;
    }
    return out < size ? out : -1;
}

#endif
