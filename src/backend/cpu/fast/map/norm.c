/* Normalisation's sums, copies, stored values and skips: all of them move rows, none of them computes much. */
#include "backend/cpu/fast/rows.h"

#include <string.h>

/* The arguments of the operation that runs. */
typedef struct norm_job {
    rc_cpu *cpu;
    int cp;
    const rc_tensor *x, *y;
    const rc_grad *dy;
    float *to;
    void *partial;
    const rc_epilogue *epilogue;
    const rc_back_epilogue *back;
} norm_job;

static void run(rc_backend *be, norm_job *job, int images, rc_task *task)
{
    job->cpu = rc_cpu_of(be);
    rc_pool_run(job->cpu->pool, images, task, job);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Floats of one image of t. */
static size_t image_floats(const rc_tensor *t, int cp)
{
    return (size_t)t->h * (size_t)t->w * (size_t)cp;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* Values of one image of job->x to job->to (n, h, w, cp). */
static void value_image(void *context, int image, int worker)
{
    const norm_job *job = context;
    const rc_tensor *x = job->x;
    int cp = job->cp;
    float *to = job->to + (size_t)image * image_floats(x, cp), *scratch = rc_cpu_scratch(job->cpu, worker);
    value_source source = RC_FAST(value_source)(x, cp, image, scratch);
    source.store = NULL;
    for (int row = 0; row < x->h; row++)
        load_value_row(&source, row, 0, cp, to + (size_t)row * (size_t)x->w * (size_t)cp, cp);
    if (job->epilogue)
        RC_FAST(finish_forward)(job->y, cp, image, job->epilogue, scratch);
}

static void materialise(rc_backend *be, rc_tensor *x)
{
    int cp = rc_padded(be, x->c);
    if (!RC_FAST(scratch_fits)(be, RC_FAST(skip_row_floats)(x, cp), "materialise"))
        return;
    run(be, &(norm_job){.cp = cp, .x = x, .to = x->value}, x->n, value_image);
    x->stored = true;
}

static void copy_forward(rc_backend *be, rc_tensor *x, rc_tensor *y, const rc_epilogue *epilogue)
{
    int cp = rc_padded(be, x->c);
    if (x->value && !x->stored)
        be->materialise(be, x);
    size_t floats = larger(RC_FAST(skip_row_floats)(x, cp), RC_FAST(finish_forward_floats)(y, cp));
    if (RC_FAST(scratch_fits)(be, floats, "copy_forward"))
        run(be, &(norm_job){.cp = cp, .x = x, .y = y, .to = y->raw, .epilogue = epilogue}, x->n, value_image);
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

static void sums_image(void *context, int image, int worker)
{
    const norm_job *job = context;
    const rc_back_epilogue sums_alone = {.x = job->dy->y, .partial = job->partial};
    RC_FAST(finish_backward)(&sums_alone, job->cp, image, job->dy->g, rc_cpu_scratch(job->cpu, worker));
}

static void bn_backward_sums(rc_backend *be, const rc_grad *dy, void *partial)
{
    int cp = rc_padded(be, dy->y->c);
    if (RC_FAST(scratch_fits)(be, RC_FAST(skip_row_floats)(dy->y, cp), "bn_backward_sums"))
        run(be, &(norm_job){.cp = cp, .dy = dy, .partial = partial}, dy->y->n, sums_image);
}

/* One row of dL/draw, (w, cp), added or written to `to`; `block` holds a row. */
static void move_gradient_row(const gradient_source *source, int row, bool add, float *to, float *block)
{
    int cp = source->y.cp, w = source->y.w;
    bool as_it_is = !source->a && source->y.act == RC_ACT_NONE; /* dL/draw = g */
    if (add && as_it_is) {
        RC_FAST(add_floats)(to, source->g + (size_t)row * (size_t)w * (size_t)cp, w * cp);
        return;
    }
    load_gradient_row(source, row, 0, cp, add ? block : to, cp);
    if (add)
        RC_FAST(add_floats)(to, block, w * cp);
}

static void copy_back_image(void *context, int image, int worker)
{
    const norm_job *job = context;
    const rc_tensor *y = job->dy->y;
    int cp = job->cp;
    float *to = job->to + (size_t)image * image_floats(y, cp), *scratch = rc_cpu_scratch(job->cpu, worker);
    float *block = scratch + RC_FAST(skip_row_floats)(y, cp);
    gradient_source source = RC_FAST(gradient_source)(job->dy, cp, image, scratch);
    for (int row = 0; row < y->h; row++)
        move_gradient_row(&source, row, job->back->add, to + (size_t)row * (size_t)y->w * (size_t)cp, block);
    RC_FAST(finish_backward)(job->back, cp, image, job->to, scratch);
}

static void copy_backward(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    const rc_tensor *y = dy->y;
    int cp = rc_padded(be, y->c);
    size_t floats = RC_FAST(skip_row_floats)(y, cp) + (size_t)y->w * (size_t)cp;
    floats = larger(floats, RC_FAST(skip_row_floats)(epilogue->x, cp));
    if (RC_FAST(scratch_fits)(be, floats, "copy_backward"))
        run(be, &(norm_job){.cp = cp, .dy = dy, .to = dx, .back = epilogue}, y->n, copy_back_image);
}

/* ---- skips ----------------------------------------------------------------------------------------------------- */

/* dz (w, cp) of a row of y to the row of the skip (skip w, skip cp) that it came from. */
static void spread_row(const rc_tensor *y, int cp, const float *dz, bool add, int skip_cp, float *to)
{
    const rc_skip *skip = &y->skip;
    int channels = y->c - skip->channel_offset < skip->c ? y->c - skip->channel_offset : skip->c;
    if (!add)
        memset(to, 0, (size_t)skip->w * (size_t)skip_cp * sizeof *to);
    for (int x = 0; x < y->w; x++) {
        const float *from = dz + (size_t)x * (size_t)cp + skip->channel_offset;
        float *pixel = to + (size_t)(x * skip->stride) * (size_t)skip_cp;
        for (int c = 0; c < channels; c++)
            pixel[c] += from[c];
    }
}

/* A skip that takes every second pixel or shifts the channels. job->cp is that of y. */
static void skip_image(void *context, int image, int worker)
{
    const norm_job *job = context;
    const rc_tensor *y = job->dy->y;
    const rc_skip *skip = &y->skip;
    int cp = job->cp, skip_cp = (skip->c + 3) / 4 * 4;
    float *scratch = rc_cpu_scratch(job->cpu, worker), *dz = scratch + RC_FAST(skip_row_floats)(y, cp);
    size_t row_floats = (size_t)skip->w * (size_t)skip_cp;
    float *to = job->to + (size_t)image * (size_t)skip->h * row_floats;
    gradient_source source = RC_FAST(gradient_source)(job->dy, cp, image, scratch);
    for (int row = 0; row < skip->h; row++, to += row_floats) {
        if (row % skip->stride == 0) {
            load_gradient_row(&source, row / skip->stride, 0, cp, dz, cp);
            spread_row(y, cp, dz, job->back->add, skip_cp, to);
        } else if (!job->back->add) {
            memset(to, 0, row_floats * sizeof *to);
        }
    }
    RC_FAST(finish_backward)(job->back, skip_cp, image, job->to, scratch);
}

static void skip_backward(rc_backend *be, const rc_grad *dy, void *dskip, const rc_back_epilogue *epilogue)
{
    const rc_tensor *y = dy->y;
    const rc_grad dz = {.y = y, .g = dy->g};
    if (y->skip.stride == 1 && y->skip.channel_offset == 0 && y->skip.c == y->c) {
        copy_backward(be, &dz, dskip, epilogue);
        return;
    }
    int cp = rc_padded(be, y->c), skip_cp = rc_padded(be, y->skip.c);
    size_t floats = RC_FAST(skip_row_floats)(y, cp) + (size_t)y->w * (size_t)cp;
    floats = larger(floats, RC_FAST(skip_row_floats)(epilogue->x, skip_cp));
    if (RC_FAST(scratch_fits)(be, floats, "skip_backward"))
        run(be, &(norm_job){.cp = cp, .dy = &dz, .to = dskip, .back = epilogue}, y->n, skip_image);
}

void RC_FAST(fill_norm)(rc_backend *table)
{
    table->materialise = materialise;
    table->copy_forward = copy_forward;
    table->bn_backward_sums = bn_backward_sums;
    table->copy_backward = copy_backward;
    table->skip_backward = skip_backward;
}
