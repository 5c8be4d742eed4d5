/* Pooling. */
#include <string.h>

#include "backend/cpu/reference/value.h"

/* The place of the first maximum of a window, in row order; NaN counts as a maximum, so that it is not lost. */
typedef struct maximum {
    int row, column;
    real value;
} maximum;

static maximum maximum_of(const rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, int image, int oy, int ox,
                          int channel)
{
    maximum best = {-1, -1, 0};
    for (int tap_y = 0; tap_y < pool->k; tap_y++)
        for (int tap_x = 0; tap_x < pool->k; tap_x++) {
            int row = oy * pool->stride - pool->pad + tap_y, column = ox * pool->stride - pool->pad + tap_x;
            if (row < 0 || row >= x->h || column < 0 || column >= x->w)
                continue;
            real value = value_at(be, x, image, row, column, channel);
            if (best.row < 0 || value > best.value || (isnan(value) && !isnan(best.value)))
                best = (maximum){row, column, value};
        }
    return best;
}

static void max_pool_forward(rc_backend *be, const rc_pool2d *pool, rc_tensor *x, rc_tensor *y)
{
    store_value(be, x);
    int cp = rc_padded(be, y->c);
    for (int image = 0; image < y->n; image++)
        for (int oy = 0; oy < y->h; oy++)
            for (int ox = 0; ox < y->w; ox++)
                for (int channel = 0; channel < cp; channel++)
                    ((real *)y->raw)[at(y->h, y->w, cp, image, oy, ox, channel)] =
                        channel < y->c ? maximum_of(be, pool, x, image, oy, ox, channel).value : 0;
}

static void max_pool_backward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *epilogue)
{
    const rc_tensor *y = dy->y;
    int cp = rc_padded(be, x->c);
    if (!epilogue->add)
        memset(dx, 0, rc_act_count(be, x->n, x->h, x->w, x->c) * sizeof(real));
    for (int image = 0; image < y->n; image++)
        for (int oy = 0; oy < y->h; oy++)
            for (int ox = 0; ox < y->w; ox++)
                for (int channel = 0; channel < y->c; channel++) {
                    maximum best = maximum_of(be, pool, x, image, oy, ox, channel);
                    ((real *)dx)[at(x->h, x->w, cp, image, best.row, best.column, channel)] += draw_at(be, dy, image,
                                                                                                       oy, ox, channel);
                }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

/* features (n, c) = mean over (h, w) of value. */
static void average_pool_forward(rc_backend *be, rc_tensor *x, void *features)
{
    store_value(be, x);
    for (int image = 0; image < x->n; image++)
        for (int channel = 0; channel < x->c; channel++) {
            double sum = 0;
            for (int row = 0; row < x->h; row++)
                for (int column = 0; column < x->w; column++)
                    sum += (double)value_at(be, x, image, row, column, channel);
            ((real *)features)[(size_t)image * (size_t)x->c + (size_t)channel] = (real)(sum / ((double)x->h * x->w));
        }
}

static void average_pool_backward(rc_backend *be, const void *dfeatures, void *dx, const rc_back_epilogue *epilogue)
{
    const rc_tensor *x = epilogue->x;
    int cp = rc_padded(be, x->c);
    real share = (real)(1 / ((double)x->h * x->w));
    for (int image = 0; image < x->n; image++)
        for (int row = 0; row < x->h; row++)
            for (int column = 0; column < x->w; column++)
                for (int channel = 0; channel < x->c; channel++) {
                    real *to = (real *)dx + at(x->h, x->w, cp, image, row, column, channel);
                    real d = share * ((const real *)dfeatures)[(size_t)image * (size_t)x->c + (size_t)channel];
                    *to = epilogue->add ? *to + d : d;
                }
    RC_REFERENCE(finish_backward)(be, dx, epilogue);
}

void RC_REFERENCE(fill_pool)(rc_backend *table)
{
    table->max_pool_forward = max_pool_forward;
    table->max_pool_backward = max_pool_backward;
    table->average_pool_forward = average_pool_forward;
    table->average_pool_backward = average_pool_backward;
}
