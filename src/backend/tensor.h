/* Tensors as the operations see them.
 *
 * A backend computes on backend memory. The layers above hold it as `void *` and never follow the pointer. It holds two
 * element types, whose sizes the backend tells:
 *   act   activations and their gradients        (CPU: float;  CUDA: bf16 or float;  CPU double reference: double)
 *   real  parameters, statistics, features after pooling, logits, losses, optimiser state   (float; double in the
 *         double reference)
 * Labels and indices are int32_t, pixels of data sets are bytes.
 *
 * Activations are (n, h, w, cp): cp is c rounded up to the backend's channel multiple. Pad channels hold zeros in
 * every tensor that an operation writes, and so do the pad entries of per-channel vectors (groups, cp).
 * Parameters and running statistics keep PyTorch's layout and are never padded: files and memory are the same.
 *
 * A tensor is lazy: its value is
 *     act(raw * scale + shift + skip)
 * and every operation that reads it computes that while it loads. `value`, where it is set, is memory for the finished
 * value. The first operation that reads the tensor fills it: a residual sum is read again as a skip and in backward.
 */
#ifndef RC_BACKEND_TENSOR_H
#define RC_BACKEND_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RC_MAX_GROUPS = 4 };

typedef enum rc_act {
    RC_ACT_NONE,
    RC_ACT_RELU,
    RC_ACT_LEAKY_RELU, /* slope 0.2 */
    RC_ACT_TANH,
    RC_ACT_SIGMOID,
    RC_ACT_RELU6, /* min(max(z, 0), 6) */
    RC_ACT_SILU   /* z * sigmoid(z): not monotonic, so its slope needs z, which raw tells, and not the value */
} rc_act;

/* How the value of an earlier layer joins a residual sum. A strided skip takes every second pixel in both
 * directions and places its channels at `channel_offset`, zeros elsewhere (shortcut "option A"). */
typedef struct rc_skip {
    const void *value; /* (n, h * stride, w * stride, cp of c) finished values, act; NULL: no skip */
    int h, w, c;       /* shape of the earlier layer */
    int stride;        /* 1 or 2 */
    int channel_offset;
} rc_skip;

typedef struct rc_tensor {
    int n, h, w, c;
    int groups;                   /* batch normalisation statistics are taken per group of images */
    int group_end[RC_MAX_GROUPS]; /* group g is images [group_end[g-1], group_end[g]); the last equals n */

    void *raw;                 /* (n, h, w, cp) act: what the operation computed, before normalisation */
    const void *scale, *shift; /* (groups, cp) real: pending normalisation; NULL: none */
    const void *mean, *istd;   /* (groups, cp) real: what raw was (or, in eval mode, is) normalised with; NULL: none */
    rc_skip skip;
    rc_act act;

    void *value; /* (n, h, w, cp) act: memory for the finished value; NULL: every reader computes it */
    bool stored; /* value is filled */

    void *taps; /* (n, h, w, cp) half bytes: where a maximum may keep, for its gradient, what it has found; or NULL */
} rc_tensor;

/* A gradient, lazy in the same way. With g = dL/dvalue and dz = g * act'(pre-activation),
 *     dL/draw = a * dz + b * raw + c      per group and channel; a == NULL: dL/draw = dz
 * which is the backward pass of batch normalisation once its two sums are known (bn_backward). */
typedef struct rc_grad {
    const rc_tensor *y;    /* the forward tensor */
    void *g;               /* (n, h, w, cp) act */
    const void *a, *b, *c; /* (groups, cp) real */
} rc_grad;

#endif
