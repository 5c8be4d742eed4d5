/* Convolution, transposed or not, of an input that may be enlarged first. Forward and the weight gradient go from an
 * output pixel to its source, the data gradient from an input pixel to its targets (value.h). Sums are taken in double
 * in both types. */
#include "backend/cpu/reference/value.h"

/* Index into (c_out, c_in, k, k), or (c_in, c_out, k, k) if transposed. */
static size_t weight_at(const rc_conv *conv, int out, int in, int tap_y, int tap_x)
{
    size_t pair = conv->transposed ? (size_t)in * (size_t)conv->c_out + (size_t)out
                                   : (size_t)out * (size_t)conv->c_in + (size_t)in;
    return (pair * (size_t)conv->k + (size_t)tap_y) * (size_t)conv->k + (size_t)tap_x;
}

/* sum over taps and input channels of weight * value of x, for one output. */
static double conv_at(const rc_backend *be, const rc_conv *conv, const rc_tensor *x, const real *weight, int image,
                      int oy, int ox, int out)
{
    double sum = 0;
    for (int tap_y = 0; tap_y < conv->k; tap_y++) {
        int y = source_of(conv, conv->h, oy, tap_y);
        if (y < 0)
            continue;
        for (int tap_x = 0; tap_x < conv->k; tap_x++) {
            int column = source_of(conv, conv->w, ox, tap_x);
            if (column < 0)
                continue;
            for (int in = 0; in < conv->c_in; in++)
                sum += (double)weight[weight_at(conv, out, in, tap_y, tap_x)] *
                       (double)value_at(be, x, image, y, column, in);
        }
    }
    return sum;
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
                for (int out = 0; out < conv->c_out; out++) {
                    double sum = conv_at(be, conv, x, weight, image, oy, ox, out);
                    if (bias)
                        sum += (double)((const real *)bias)[out];
                    raw[at(conv->oh, conv->ow, cp, image, oy, ox, out)] = (real)sum;
                }
    RC_REFERENCE(finish_forward)(be, y, epilogue);
}

/* sum over taps and output channels of weight * dL/draw, for one pixel of the enlarged input. */
static double conv_back_at(const rc_backend *be, const rc_conv *conv, const rc_grad *dy, const real *weight, int image,
                           int y, int x, int in)
{
    double sum = 0;
    for (int tap_y = 0; tap_y < conv->k; tap_y++) {
        int oy = target_of(conv, conv->oh, y, tap_y);
        if (oy < 0)
            continue;
        for (int tap_x = 0; tap_x < conv->k; tap_x++) {
            int ox = target_of(conv, conv->ow, x, tap_x);
            if (ox < 0)
                continue;
            for (int out = 0; out < conv->c_out; out++)
                sum += (double)weight[weight_at(conv, out, in, tap_y, tap_x)] *
                       (double)draw_at(be, dy, image, oy, ox, out);
        }
    }
    return sum;
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
                for (int in = 0; in < conv->c_in; in++) {
                    double sum = 0;
                    for (int copy = 0; copy < up * up; copy++)
                        sum += conv_back_at(be, conv, dy, weight, image, y * up + copy / up, x * up + copy % up, in);
                    size_t element = at(conv->h, conv->w, cp, image, y, x, in);
                    result[element] = (real)(epilogue->add ? (double)addend[element] + sum : sum);
                }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

/* sum over images and output pixels of dL/draw * value of x, for one weight. */
static double conv_weight_at(const rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, int out,
                             int in, int tap_y, int tap_x)
{
    double sum = 0;
    for (int image = 0; image < x->n; image++)
        for (int oy = 0; oy < conv->oh; oy++) {
            int y = source_of(conv, conv->h, oy, tap_y);
            if (y < 0)
                continue;
            for (int ox = 0; ox < conv->ow; ox++) {
                int column = source_of(conv, conv->w, ox, tap_x);
                if (column >= 0)
                    sum += (double)draw_at(be, dy, image, oy, ox, out) * (double)value_at(be, x, image, y, column, in);
            }
        }
    return sum;
}

static void conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    for (int out = 0; out < conv->c_out; out++)
        for (int in = 0; in < conv->c_in; in++)
            for (int tap_y = 0; tap_y < conv->k; tap_y++)
                for (int tap_x = 0; tap_x < conv->k; tap_x++)
                    ((real *)dweight)[weight_at(conv, out, in, tap_y, tap_x)] = (real)conv_weight_at(be, conv, x, dy,
                                                                                                     out, in, tap_y,
                                                                                                     tap_x);
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
