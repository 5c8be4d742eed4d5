#include "backend/cuda/convolution/conv_taps.h"

/* Any position far from the border: offsets are the same everywhere. */
enum { BASE = 64 };

static bool has_form(const rc_conv *conv)
{
    bool steps = conv->stride == 1 || (conv->stride == 2 && conv->up == 1);
    return conv->k <= RC_KERNEL_MAX && steps && (conv->up == 1 || (conv->up == 2 && !conv->transposed));
}

/* Kernel position `k` reads the source at `offset`: joins the tap of that offset or begins one. */
static void add_tap(axis_taps *taps, int phase, int offset, int k)
{
    int i = 0;
    while (i < taps->count[phase] && taps->offset[phase][i] != offset)
        i++;
    if (i == taps->count[phase])
        taps->count[phase]++;
    taps->offset[phase][i] = offset;
    taps->kernel[phase][i] |= (unsigned char)(1 << k);
    taps->low = offset < taps->low ? offset : taps->low;
    taps->high = offset > taps->high ? offset : taps->high;
}

bool rc_cuda_forward_taps(const rc_conv *conv, axis_taps *taps)
{
    *taps = {};
    if (!has_form(conv))
        return false;
    taps->out_step = conv->transposed ? conv->stride : conv->up;
    taps->source_step = conv->transposed ? 1 : conv->stride;
    for (int phase = 0; phase < taps->out_step; phase++)
        for (int k = 0; k < conv->k; k++) {
            int out = BASE * taps->out_step + phase;
            int in = conv->transposed ? out + conv->pad - k : out * conv->stride - conv->pad + k;
            if (conv->transposed && in % conv->stride != 0)
                continue;
            in = conv->transposed ? in / conv->stride : in / conv->up;
            add_tap(taps, phase, in - BASE * taps->source_step, k);
        }
    return true;
}

bool rc_cuda_backward_taps(const rc_conv *conv, axis_taps *taps)
{
    *taps = {};
    if (!has_form(conv))
        return false;
    taps->out_step = conv->transposed ? 1 : conv->stride;
    taps->source_step = conv->transposed ? conv->stride : conv->up;
    for (int phase = 0; phase < taps->out_step; phase++)
        for (int copy = 0; copy < conv->up; copy++)
            for (int k = conv->k - 1; k >= 0; k--) {
                int in = (BASE * taps->out_step + phase) * conv->up + copy;
                int out = conv->transposed ? in * conv->stride - conv->pad + k : in + conv->pad - k;
                if (!conv->transposed && out % conv->stride != 0)
                    continue;
                out = conv->transposed ? out : out / conv->stride;
                add_tap(taps, phase, out - BASE * taps->source_step, k);
            }
    return true;
}
