/* Linear layers inside a net, and dense layers on reals. Sums are taken in double in both types. */
#include "backend/cpu/reference/value.h"

/* ---- inside a net: (n, 1, 1, c_in) -> (n, h, w, c) -------------------------------------------------- */

/* PyTorch's row of the weight for output (y, x, channel): the index into (c, h, w). */
static size_t row_of(const rc_linear *linear, int y, int x, int channel)
{
    return ((size_t)channel * (size_t)linear->h + (size_t)y) * (size_t)linear->w + (size_t)x;
}

static void linear_forward(rc_backend *be, const rc_linear *linear, rc_tensor *x, const void *weight, const void *bias,
                           rc_tensor *y, const rc_epilogue *epilogue)
{
    store_value(be, x);
    int cp = rc_padded(be, linear->c);
    for (int image = 0; image < x->n; image++)
        for (int row = 0; row < linear->h; row++)
            for (int column = 0; column < linear->w; column++)
                for (int channel = 0; channel < linear->c; channel++) {
                    size_t out = row_of(linear, row, column, channel);
                    const real *w = (const real *)weight + out * (size_t)linear->c_in;
                    double sum = bias ? (double)((const real *)bias)[out] : 0;
                    for (int in = 0; in < linear->c_in; in++)
                        sum += (double)w[in] * (double)value_at(be, x, image, 0, 0, in);
                    ((real *)y->raw)[at(linear->h, linear->w, cp, image, row, column, channel)] = (real)sum;
                }
    RC_REFERENCE(finish_forward)(be, y, epilogue);
}

static void linear_backward_data(rc_backend *be, const rc_linear *linear, const rc_grad *dy, const void *weight,
                                 void *dx, const rc_back_epilogue *epilogue)
{
    int cp = rc_padded(be, linear->c_in);
    for (int image = 0; image < dy->y->n; image++)
        for (int in = 0; in < linear->c_in; in++) {
            double sum = 0;
            for (int row = 0; row < linear->h; row++)
                for (int column = 0; column < linear->w; column++)
                    for (int channel = 0; channel < linear->c; channel++) {
                        size_t out = row_of(linear, row, column, channel);
                        sum += (double)((const real *)weight)[out * (size_t)linear->c_in + (size_t)in] *
                               (double)draw_at(be, dy, image, row, column, channel);
                    }
            real *to = (real *)dx + (size_t)image * (size_t)cp + (size_t)in;
            *to = (real)(epilogue->add ? (double)*to + sum : sum);
        }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

static void linear_backward_weight(rc_backend *be, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    for (int row = 0; row < linear->h; row++)
        for (int column = 0; column < linear->w; column++)
            for (int channel = 0; channel < linear->c; channel++) {
                size_t out = row_of(linear, row, column, channel);
                for (int in = 0; in < linear->c_in; in++) {
                    double sum = 0;
                    for (int image = 0; image < x->n; image++)
                        sum += (double)draw_at(be, dy, image, row, column, channel) *
                               (double)value_at(be, x, image, 0, 0, in);
                    ((real *)dweight)[out * (size_t)linear->c_in + (size_t)in] = (real)sum;
                }
                if (!dbias)
                    continue;
                double sum = 0;
                for (int image = 0; image < x->n; image++)
                    sum += (double)draw_at(be, dy, image, row, column, channel);
                ((real *)dbias)[out] = (real)sum;
            }
}

/* ---- on reals: y (n, out) = x (n, in) weight^T (out, in) + bias ------------------------------------------------- */

static void dense_forward(rc_backend *be, int n, int in, int out, const void *x, const void *weight, const void *bias,
                          void *y, int y_stride)
{
    (void)be;
    for (int b = 0; b < n; b++)
        for (int o = 0; o < out; o++) {
            const real *row = (const real *)x + (size_t)b * (size_t)in;
            const real *w = (const real *)weight + (size_t)o * (size_t)in;
            double sum = bias ? (double)((const real *)bias)[o] : 0;
            for (int i = 0; i < in; i++)
                sum += (double)row[i] * (double)w[i];
            ((real *)y)[(size_t)b * (size_t)y_stride + (size_t)o] = (real)sum;
        }
}

static void dense_backward_data(rc_backend *be, int n, int in, int out, const void *dy, int dy_stride,
                                const void *weight, void *dx, bool add)
{
    (void)be;
    for (int b = 0; b < n; b++)
        for (int i = 0; i < in; i++) {
            real *to = (real *)dx + (size_t)b * (size_t)in + (size_t)i;
            double sum = add ? (double)*to : 0;
            for (int o = 0; o < out; o++)
                sum += (double)((const real *)dy)[(size_t)b * (size_t)dy_stride + (size_t)o] *
                       (double)((const real *)weight)[(size_t)o * (size_t)in + (size_t)i];
            *to = (real)sum;
        }
}

static void dense_backward_weight(rc_backend *be, int n, int in, int out, const void *x, const void *dy, int dy_stride,
                                  void *dweight, void *dbias, bool add)
{
    (void)be;
    for (int o = 0; o < out; o++) {
        for (int i = 0; i < in; i++) {
            real *to = (real *)dweight + (size_t)o * (size_t)in + (size_t)i;
            double sum = add ? (double)*to : 0;
            for (int b = 0; b < n; b++)
                sum += (double)((const real *)dy)[(size_t)b * (size_t)dy_stride + (size_t)o] *
                       (double)((const real *)x)[(size_t)b * (size_t)in + (size_t)i];
            *to = (real)sum;
        }
        if (!dbias)
            continue;
        real *to = (real *)dbias + o;
        double sum = add ? (double)*to : 0;
        for (int b = 0; b < n; b++)
            sum += (double)((const real *)dy)[(size_t)b * (size_t)dy_stride + (size_t)o];
        *to = (real)sum;
    }
}

void RC_REFERENCE(fill_dense)(rc_backend *table)
{
    table->linear_forward = linear_forward;
    table->linear_backward_data = linear_backward_data;
    table->linear_backward_weight = linear_backward_weight;
    table->dense_forward = dense_forward;
    table->dense_backward_data = dense_backward_data;
    table->dense_backward_weight = dense_backward_weight;
}
