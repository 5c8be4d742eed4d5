#include "backend/cpu/fast/rows.h"

#include <stdio.h>
#include <string.h>

bool RC_FAST(scratch_fits)(rc_backend *be, size_t floats, const char *operation)
{
    rc_cpu *cpu = rc_cpu_of(be);
    if (floats * sizeof(float) <= cpu->scratch_bytes)
        return true;
    char message[160];
    snprintf(message, sizeof message, "%s needs %zu bytes of workspace per thread and has %zu: rows are too long",
             operation, floats * sizeof(float), cpu->scratch_bytes);
    rc_cpu_set_error(cpu, RC_UNSUPPORTED, message);
    return false;
}

static int rows_together(int w, int cp)
{
    int pixels = SUM_FLOATS / cp < SUM_PIXELS ? SUM_FLOATS / cp : SUM_PIXELS;
    return w >= pixels ? 1 : pixels / w;
}

size_t RC_FAST(finish_forward_floats)(const rc_tensor *y, int cp)
{
    return RC_FAST(skip_row_floats)(y, cp) + (size_t)cp;
}

void RC_FAST(finish_forward)(const rc_tensor *y, int cp, int image, const rc_epilogue *epilogue, float *scratch)
{
    size_t row_floats = (size_t)y->w * (size_t)cp;
    float *raw = (float *)y->raw + (size_t)image * (size_t)y->h * row_floats;
    float *center = scratch, *skip_row = scratch + cp;
    if (epilogue->partial) {
        double *sums = rc_cpu_partial(epilogue->partial, image, cp);
        memset(sums, 0, 2 * (size_t)cp * sizeof *sums);
        memset(center, 0, (size_t)cp * sizeof *center);
        if (epilogue->center)
            memcpy(center, epilogue->center, (size_t)y->c * sizeof *center);
        int together = rows_together(y->w, cp);
        for (int row = 0; row < y->h; row += together) {
            int rows = y->h - row < together ? y->h - row : together;
            RC_FAST(sum_values)(raw + (size_t)row * row_floats, cp, rows * y->w, 0, cp, center, sums);
        }
    }
    if (epilogue->apply) {
        value_source source = RC_FAST(value_source)(y, cp, image, skip_row);
        source.store = NULL;
        for (int row = 0; row < y->h; row++, raw += row_floats)
            load_value_row(&source, row, 0, cp, raw, cp);
    }
}

void RC_FAST(finish_backward)(const rc_back_epilogue *epilogue, int cp, int image, const float *dx, float *scratch)
{
    if (!epilogue->partial)
        return;
    const rc_tensor *x = epilogue->x;
    double *sums = rc_cpu_partial(epilogue->partial, image, cp);
    memset(sums, 0, 2 * (size_t)cp * sizeof *sums);
    rc_grad gradient = {.y = x, .g = rc_without_const(dx)};
    gradient_source source = RC_FAST(gradient_source)(&gradient, cp, image, scratch);
    int together = rows_together(x->w, cp);
    for (int row = 0; row < x->h; row += together) {
        int rows = x->h - row < together ? x->h - row : together;
        RC_FAST(sum_gradients)(&source, row, rows, 0, cp, sums);
    }
}

void RC_FAST(add_floats)(float *to, const float *from, int count)
{
    int i = 0;
    for (; i + RC_LANES <= count; i += RC_LANES)
        vec_store(to + i, vec_load(to + i) + vec_load(from + i));
    for (; i < count; i++)
        to[i] += from[i];
}
