/* Convolution, transposed or not, of an input that may be enlarged first. Forward and the weight gradient go from an
 * output pixel to its source, the data gradient from an input pixel to its targets (value.h). Sums are taken in double
 * in both types. */
#include <string.h>

#include "backend/cpu/reference/value.h"

/* Index into (c_out, c_in, k, k), or (c_in, c_out, k, k) if transposed. */
static size_t weight_at(const rc_conv *conv, int out, int in, int tap_y, int tap_x)
{
    size_t pair = conv->transposed ? (size_t)in * (size_t)conv->c_out + (size_t)out
                                   : (size_t)out * (size_t)conv->c_in + (size_t)in;
    return (pair * (size_t)conv->k + (size_t)tap_y) * (size_t)conv->k + (size_t)tap_x;
}

/* As many channels are summed up beside each other, so that an element is read once for all of them. Each sum has its
 * terms in the order that it would have alone. */
enum { BESIDE = 16 };

static int beside(int channels, int first)
{
    return channels - first < BESIDE ? channels - first : BESIDE;
}

/* sum[o] = sum over taps and input channels of weight * value of x, for `outs` outputs of a pixel from `out` on. */
static void conv_at(const rc_backend *be, const rc_conv *conv, const rc_tensor *x, const real *weight, int image,
                    int oy, int ox, int out, int outs, double sum[BESIDE])
{
    size_t step = weight_at(conv, 1, 0, 0, 0);
    for (int o = 0; o < outs; o++)
        sum[o] = 0;
    for (int tap_y = 0; tap_y < conv->k; tap_y++) {
        int y = source_of(conv, conv->h, oy, tap_y);
        if (y < 0)
            continue;
        for (int tap_x = 0; tap_x < conv->k; tap_x++) {
            int column = source_of(conv, conv->w, ox, tap_x);
            if (column < 0)
                continue;
            for (int in = 0; in < conv->c_in; in++) {
                const real *w = weight + weight_at(conv, out, in, tap_y, tap_x);
                double value = (double)value_at(be, x, image, y, column, in);
                for (int o = 0; o < outs; o++)
                    sum[o] += (double)w[(size_t)o * step] * value;
            }
        }
    }
}

static void conv_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    store_value(be, x);
    int cp = rc_padded(be, conv->c_out);
    real *raw = y->raw;
    for (int image = 0; image < y->n; image++)
        for (int oy = 0; oy < conv->oh; oy++)
            for (int ox = 0; ox < conv->ow; ox++)
                for (int out = 0; out < conv->c_out; out += BESIDE) {
                    int outs = beside(conv->c_out, out);
                    double sum[BESIDE];
                    conv_at(be, conv, x, weight, image, oy, ox, out, outs, sum);
                    for (int o = 0; o < outs; o++)
                        raw[at(conv->oh, conv->ow, cp, image, oy, ox, out + o)] =
                            (real)(bias ? sum[o] + (double)((const real *)bias)[out + o] : sum[o]);
                }
    RC_REFERENCE(finish_forward)(be, y, epilogue);
}

/* sum[i] += sum over taps and output channels of weight * dL/draw, for `ins` inputs of a pixel of the enlarged input
 * from `in` on. */
static void conv_back_at(const rc_backend *be, const rc_conv *conv, const rc_grad *dy, const real *weight, int image,
                         int y, int x, int in, int ins, double sum[BESIDE])
{
    size_t step = weight_at(conv, 0, 1, 0, 0);
    double here[BESIDE] = {0};
    for (int tap_y = 0; tap_y < conv->k; tap_y++) {
        int oy = target_of(conv, conv->oh, y, tap_y);
        if (oy < 0)
            continue;
        for (int tap_x = 0; tap_x < conv->k; tap_x++) {
            int ox = target_of(conv, conv->ow, x, tap_x);
            if (ox < 0)
                continue;
            for (int out = 0; out < conv->c_out; out++) {
                const real *w = weight + weight_at(conv, out, in, tap_y, tap_x);
                double draw = (double)draw_at(be, dy, image, oy, ox, out);
                for (int i = 0; i < ins; i++)
                    here[i] += (double)w[(size_t)i * step] * draw;
            }
        }
    }
    for (int i = 0; i < ins; i++)
        sum[i] += here[i];
}

static void conv_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    int cp = rc_padded(be, conv->c_in), up = conv->up;
    real *result = dx;
    const real *addend = epilogue->addend ? epilogue->addend : dx;
    for (int image = 0; image < dy->y->n; image++)
        for (int y = 0; y < conv->h; y++)
            for (int x = 0; x < conv->w; x++)
                for (int in = 0; in < conv->c_in; in += BESIDE) {
                    int ins = beside(conv->c_in, in);
                    double sum[BESIDE] = {0};
                    for (int copy = 0; copy < up * up; copy++)
                        conv_back_at(be, conv, dy, weight, image, y * up + copy / up, x * up + copy % up, in, ins, sum);
                    for (int i = 0; i < ins; i++) {
                        size_t element = at(conv->h, conv->w, cp, image, y, x, in + i);
                        result[element] = (real)(epilogue->add ? (double)addend[element] + sum[i] : sum[i]);
                    }
                }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

/* sum over images and output pixels of dL/draw * value of x, for one tap of the weights of `outs` outputs from `out` on
 * and `ins` inputs from `in` on. */
static void conv_weight_at(const rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, int out,
                           int outs, int in, int ins, int tap_y, int tap_x, double sum[BESIDE][BESIDE])
{
    double value[BESIDE];
    memset(sum, 0, sizeof(double[BESIDE][BESIDE]));
    for (int image = 0; image < x->n; image++)
        for (int oy = 0; oy < conv->oh; oy++) {
            int y = source_of(conv, conv->h, oy, tap_y);
            if (y < 0)
                continue;
            for (int ox = 0; ox < conv->ow; ox++) {
                int column = source_of(conv, conv->w, ox, tap_x);
                if (column < 0)
                    continue;
                for (int i = 0; i < ins; i++)
                    value[i] = (double)value_at(be, x, image, y, column, in + i);
                for (int o = 0; o < outs; o++) {
                    double draw = (double)draw_at(be, dy, image, oy, ox, out + o);
                    for (int i = 0; i < ins; i++)
                        sum[o][i] += draw * value[i];
                }
            }
        }
}

static void conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    int blocks_in = (conv->c_in + BESIDE - 1) / BESIDE, blocks = (conv->c_out + BESIDE - 1) / BESIDE * blocks_in;
    for (int block = 0; block < blocks; block++) {
        int out = block / blocks_in * BESIDE, outs = beside(conv->c_out, out);
        int in = block % blocks_in * BESIDE, ins = beside(conv->c_in, in);
        for (int tap = 0; tap < conv->k * conv->k; tap++) {
            double sum[BESIDE][BESIDE];
            conv_weight_at(be, conv, x, dy, out, outs, in, ins, tap / conv->k, tap % conv->k, sum);
            for (int o = 0; o < outs; o++)
                for (int i = 0; i < ins; i++)
                    ((real *)dweight)[weight_at(conv, out + o, in + i, 0, tap)] = (real)sum[o][i];
        }
    }
    for (int out = 0; dbias && out < conv->c_out; out++) {
        double sum = 0;
        for (int image = 0; image < x->n; image++)
            for (int oy = 0; oy < conv->oh; oy++)
                for (int ox = 0; ox < conv->ow; ox++)
                    sum += (double)draw_at(be, dy, image, oy, ox, out);
        ((real *)dbias)[out] = (real)sum;
    }
}

void RC_REFERENCE(fill_conv)(rc_backend *table)
{
    table->conv_forward = conv_forward;
    table->conv_backward_data = conv_backward_data;
    table->conv_backward_weight = conv_backward_weight;
}
