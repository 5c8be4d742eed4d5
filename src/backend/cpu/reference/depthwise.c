/* Depthwise convolution: every channel has a window of its own. Sums are taken in double in both types. */
#include "backend/cpu/reference/value.h"

/* Index into (c, 1, k, k). */
static size_t weight_at(const rc_conv *conv, int channel, int tap_y, int tap_x)
{
    return ((size_t)channel * (size_t)conv->k + (size_t)tap_y) * (size_t)conv->k + (size_t)tap_x;
}

/* sum over taps of weight * value of x, for one output. */
static double depthwise_at(const rc_backend *be, const rc_conv *conv, const rc_tensor *x, const real *weight, int image,
                           int oy, int ox, int channel)
{
    double sum = 0;
    for (int tap_y = 0; tap_y < conv->k; tap_y++)
        for (int tap_x = 0; tap_x < conv->k; tap_x++) {
            int y = source_of(conv, conv->h, oy, tap_y), column = source_of(conv, conv->w, ox, tap_x);
            if (y >= 0 && column >= 0)
                sum += (double)weight[weight_at(conv, channel, tap_y, tap_x)] *
                       (double)value_at(be, x, image, y, column, channel);
        }
    return sum;
}

static void depthwise_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                              rc_tensor *y, const rc_epilogue *epilogue)
{
    store_value(be, x);
    int cp = rc_padded(be, conv->c_out);
    real *raw = y->raw;
    for (int image = 0; image < y->n; image++)
        for (int oy = 0; oy < conv->oh; oy++)
            for (int ox = 0; ox < conv->ow; ox++)
                for (int channel = 0; channel < conv->c_out; channel++) {
                    double sum = depthwise_at(be, conv, x, weight, image, oy, ox, channel);
                    if (bias)
                        sum += (double)((const real *)bias)[channel];
                    raw[at(conv->oh, conv->ow, cp, image, oy, ox, channel)] = (real)sum;
                }
    RC_REFERENCE(finish_forward)(be, y, epilogue);
}

/* sum over taps of weight * dL/draw, for one input. */
static double depthwise_back_at(const rc_backend *be, const rc_conv *conv, const rc_grad *dy, const real *weight,
                                int image, int y, int x, int channel)
{
    double sum = 0;
    for (int tap_y = 0; tap_y < conv->k; tap_y++)
        for (int tap_x = 0; tap_x < conv->k; tap_x++) {
            int oy = target_of(conv, conv->oh, y, tap_y), ox = target_of(conv, conv->ow, x, tap_x);
            if (oy >= 0 && ox >= 0)
                sum += (double)weight[weight_at(conv, channel, tap_y, tap_x)] *
                       (double)draw_at(be, dy, image, oy, ox, channel);
        }
    return sum;
}

static void depthwise_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight,
                                    void *dx, const rc_back_epilogue *epilogue)
{
    int cp = rc_padded(be, conv->c_in);
    real *result = dx;
    for (int image = 0; image < dy->y->n; image++)
        for (int y = 0; y < conv->h; y++)
            for (int x = 0; x < conv->w; x++)
                for (int channel = 0; channel < conv->c_in; channel++) {
                    double sum = depthwise_back_at(be, conv, dy, weight, image, y, x, channel);
                    size_t element = at(conv->h, conv->w, cp, image, y, x, channel);
                    result[element] = (real)(epilogue->add ? (double)result[element] + sum : sum);
                }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

/* sum over images and output pixels of dL/draw * value of x, for one weight. */
static double depthwise_weight_at(const rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                  int channel, int tap_y, int tap_x)
{
    double sum = 0;
    for (int image = 0; image < x->n; image++)
        for (int oy = 0; oy < conv->oh; oy++)
            for (int ox = 0; ox < conv->ow; ox++) {
                int y = source_of(conv, conv->h, oy, tap_y), column = source_of(conv, conv->w, ox, tap_x);
                if (y >= 0 && column >= 0)
                    sum += (double)draw_at(be, dy, image, oy, ox, channel) *
                           (double)value_at(be, x, image, y, column, channel);
            }
    return sum;
}

static void depthwise_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                      void *dweight, void *dbias)
{
    for (int channel = 0; channel < conv->c_out; channel++)
        for (int tap_y = 0; tap_y < conv->k; tap_y++)
            for (int tap_x = 0; tap_x < conv->k; tap_x++)
                ((real *)dweight)[weight_at(conv, channel, tap_y, tap_x)] = (real)depthwise_weight_at(be, conv, x, dy,
                                                                                                      channel, tap_y,
                                                                                                      tap_x);
    for (int channel = 0; dbias && channel < conv->c_out; channel++) {
        double sum = 0;
        for (int image = 0; image < x->n; image++)
            for (int oy = 0; oy < conv->oh; oy++)
                for (int ox = 0; ox < conv->ow; ox++)
                    sum += (double)draw_at(be, dy, image, oy, ox, channel);
        ((real *)dbias)[channel] = (real)sum;
    }
}

void RC_REFERENCE(fill_depthwise)(rc_backend *table)
{
    table->depthwise_forward = depthwise_forward;
    table->depthwise_backward_data = depthwise_backward_data;
    table->depthwise_backward_weight = depthwise_backward_weight;
}
