/* Pooling, one task per image. Maxima go over the channels in chunks, so that the rows of a window stay in cache. */
#include "backend/cpu/fast/rows.h"

#include <string.h>

#include "backend/cpu/fast/activation.h"

typedef struct pool_job {
    rc_cpu *cpu;
    int cp;
    const rc_pool2d *pool;
    const rc_tensor *x, *y;
    const rc_grad *dy;
    const float *dfeatures;
    float *to;
    const rc_back_epilogue *back;
} pool_job;

static void run(rc_backend *be, pool_job *job, int images, rc_task *task)
{
    job->cpu = rc_cpu_of(be);
    rc_pool_run(job->cpu->pool, images, task, job);
}

static size_t image_floats(const rc_tensor *t, int cp)
{
    return (size_t)t->h * (size_t)t->w * (size_t)cp;
}

static void store_value(rc_backend *be, rc_tensor *x)
{
    if (x->value && !x->stored)
        be->materialise(be, x);
}

/* ---- maximum --------------------------------------------------------------------------------------------------- */

enum { CHUNK_VECTORS = CHUNK / RC_LANES };

/* What lies inside the map of the window of output position `out`, along one axis. */
typedef struct span {
    int begin, end;
} span;

static span span_of(const rc_pool2d *pool, int size, int out)
{
    int begin = out * pool->stride - pool->pad, end = begin + pool->k;
    return (span){begin < 0 ? 0 : begin, end > size ? size : end};
}

/* The rows of x that the current row of windows covers, one chunk of channels of them. */
typedef struct pool_window {
    const rc_pool2d *pool;
    const value_source *x;
    int first, channels; /* the chunk */
    span rows;           /* those that are loaded */
    float *values;       /* (rows, w, channels) */
} pool_window;

static size_t window_floats(const rc_pool2d *pool, const rc_tensor *x)
{
    return (size_t)pool->k * (size_t)x->w * CHUNK;
}

/* To output row oy: rows that the last one had, too, move to the front. */
static void move_window(pool_window *window, int oy)
{
    const value_source *x = window->x;
    size_t row_floats = (size_t)x->w * (size_t)window->channels;
    span rows = span_of(window->pool, x->h, oy), old = window->rows;
    int next = rows.begin;
    if (oy > 0 && old.end > rows.begin) {
        memmove(window->values, window->values + (size_t)(rows.begin - old.begin) * row_floats,
                (size_t)(old.end - rows.begin) * row_floats * sizeof(float));
        next = old.end;
    }
    for (; next < rows.end; next++)
        load_value_row(x, next, window->first, window->first + window->channels,
                       window->values + (size_t)(next - rows.begin) * row_floats, window->channels);
    window->rows = rows;
}

/* The maxima of one window in a chunk of channels, and which pixels of the map had them first. */
typedef struct maxima {
    vec value[CHUNK_VECTORS];
    veci pixel[CHUNK_VECTORS];
} maxima;

RC_INLINE maxima maxima_at(const pool_window *window, const int lanes, const int vectors, const bool want_pixel, int ox)
{
    int w = window->x->w, stride = window->channels;
    span rows = window->rows, columns = span_of(window->pool, w, ox);
    maxima best;
    for (int v = 0; v < vectors; v++) {
        best.value[v] = vec_load_lanes(lanes, window->values + (ptrdiff_t)columns.begin * stride + v * lanes);
        best.pixel[v] = (veci){0} + (rows.begin * w + columns.begin);
    }
    for (int row = rows.begin; row < rows.end; row++) {
        const float *values = window->values + ((ptrdiff_t)(row - rows.begin) * w + columns.begin) * stride;
        for (int column = columns.begin; column < columns.end; column++, values += stride)
            for (int v = 0; v < vectors; v++) {
                vec value = vec_load_lanes(lanes, values + v * lanes);
                /* NaN counts as a maximum, so that it is not lost */
                veci better = (value > best.value[v]) | (value != value);
                best.value[v] = vec_select(better, value, best.value[v]);
                if (want_pixel)
                    best.pixel[v] = (better & (row * w + column)) | (~better & best.pixel[v]);
            }
    }
    return best;
}

/* One row of maxima, `to` (ow, cp) at the chunk's first channel. */
RC_INLINE void maxima_row(const pool_window *window, const int lanes, const int vectors, int cp, int ow, float *to)
{
    for (int ox = 0; ox < ow; ox++, to += cp) {
        maxima best = maxima_at(window, lanes, vectors, false, ox);
        for (int v = 0; v < vectors; v++)
            vec_store_lanes(lanes, to + v * lanes, best.value[v]);
    }
}

static void max_image(void *context, int image, int worker)
{
    const pool_job *job = context;
    const rc_tensor *x = job->x, *y = job->y;
    int cp = job->cp;
    float *scratch = rc_cpu_scratch(job->cpu, worker);
    value_source source = RC_FAST(value_source)(x, cp, image, scratch);
    float *out = (float *)y->raw + (size_t)image * image_floats(y, cp);
    pool_window window = {.pool = job->pool, .x = &source, .values = scratch + RC_FAST(skip_row_floats)(x, cp)};
    for (; window.first < cp; window.first += window.channels) {
        window.channels = window.first + CHUNK <= cp ? CHUNK : 4;
        for (int oy = 0; oy < y->h; oy++) {
            move_window(&window, oy);
            float *to = out + (size_t)oy * (size_t)y->w * (size_t)cp + window.first;
            if (window.channels == CHUNK)
                maxima_row(&window, RC_LANES, CHUNK_VECTORS, cp, y->w, to);
            else
                maxima_row(&window, 4, 1, cp, y->w, to);
        }
    }
}

static void max_pool_forward(rc_backend *be, const rc_pool2d *pool, rc_tensor *x, rc_tensor *y)
{
    int cp = rc_padded(be, x->c);
    store_value(be, x);
    if (RC_FAST(scratch_fits)(be, RC_FAST(skip_row_floats)(x, cp) + window_floats(pool, x), "max_pool_forward"))
        run(be, &(pool_job){.cp = cp, .pool = pool, .x = x, .y = y}, x->n, max_image);
}

/* Adds a row of gradients d (ow, channels) to the pixels of dx (h, w, cp) that were the maxima. */
RC_INLINE void scatter_row(const pool_window *window, const int lanes, const int vectors, int cp, int ow,
                           const float *d, float *dx)
{
    dx += window->first;
    for (int ox = 0; ox < ow; ox++, d += window->channels) {
        maxima best = maxima_at(window, lanes, vectors, true, ox);
        for (int v = 0; v < vectors; v++)
            for (int lane = 0; lane < lanes; lane++)
                dx[(ptrdiff_t)best.pixel[v][lane] * cp + v * lanes + lane] += d[v * lanes + lane];
    }
}

static void max_back_image(void *context, int image, int worker)
{
    const pool_job *job = context;
    const rc_tensor *x = job->x, *y = job->dy->y;
    int cp = job->cp;
    float *scratch = rc_cpu_scratch(job->cpu, worker);
    float *skip_y = scratch + RC_FAST(skip_row_floats)(x, cp), *values = skip_y + RC_FAST(skip_row_floats)(y, cp);
    float *d = values + window_floats(job->pool, x);
    value_source source = RC_FAST(value_source)(x, cp, image, scratch);
    source.store = NULL;
    gradient_source gradient = RC_FAST(gradient_source)(job->dy, cp, image, skip_y);
    float *dx = job->to + (size_t)image * image_floats(x, cp);
    if (!job->back->add)
        memset(dx, 0, image_floats(x, cp) * sizeof *dx);
    pool_window window = {.pool = job->pool, .x = &source, .values = values};
    for (; window.first < cp; window.first += window.channels) {
        window.channels = window.first + CHUNK <= cp ? CHUNK : 4;
        for (int oy = 0; oy < y->h; oy++) {
            move_window(&window, oy);
            load_gradient_row(&gradient, oy, window.first, window.first + window.channels, d, window.channels);
            if (window.channels == CHUNK)
                scatter_row(&window, RC_LANES, CHUNK_VECTORS, cp, y->w, d, dx);
            else
                scatter_row(&window, 4, 1, cp, y->w, d, dx);
        }
    }
    RC_FAST(finish_backward)(job->back, cp, image, job->to, scratch);
}

static void max_pool_backward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *epilogue)
{
    int cp = rc_padded(be, x->c);
    size_t floats = RC_FAST(skip_row_floats)(x, cp) + RC_FAST(skip_row_floats)(dy->y, cp) + window_floats(pool, x) +
                                                              (size_t)dy->y->w * CHUNK;
    if (RC_FAST(scratch_fits)(be, floats, "max_pool_backward"))
        run(be, &(pool_job){.cp = cp, .pool = pool, .x = x, .dy = dy, .to = dx, .back = epilogue}, x->n,
            max_back_image);
}

/* ---- average --------------------------------------------------------------------------------------------------- */

/* features (n, c): the map is summed in rows of float, the rows in double. */
static void average_image(void *context, int image, int worker)
{
    const pool_job *job = context;
    const rc_tensor *x = job->x;
    int cp = job->cp;
    float *scratch = rc_cpu_scratch(job->cpu, worker), *values = scratch + RC_FAST(skip_row_floats)(x, cp);
    value_source source = RC_FAST(value_source)(x, cp, image, scratch);
    float *features = job->to + (size_t)image * (size_t)x->c;
    double share = 1 / ((double)x->h * x->w);
    for (int first = 0; first < cp; first += CHUNK) {
        int channels = cp - first < CHUNK ? cp - first : CHUNK;
        double total[CHUNK] = {0};
        for (int row = 0; row < x->h; row++) {
            float sums[CHUNK] = {0};
            load_value_row(&source, row, first, first + channels, values, channels);
            for (int p = 0; p < x->w; p++)
                for (int c = 0; c < channels; c++)
                    sums[c] += values[p * channels + c];
            for (int c = 0; c < channels; c++)
                total[c] += (double)sums[c];
        }
        for (int c = 0; c < channels && first + c < x->c; c++)
            features[first + c] = (float)(total[c] * share);
    }
}

static void average_pool_forward(rc_backend *be, rc_tensor *x, void *features)
{
    int cp = rc_padded(be, x->c);
    store_value(be, x);
    size_t floats = RC_FAST(skip_row_floats)(x, cp) + (size_t)x->w * CHUNK;
    if (RC_FAST(scratch_fits)(be, floats, "average_pool_forward"))
        run(be, &(pool_job){.cp = cp, .x = x, .to = features}, x->n, average_image);
}

static void average_back_image(void *context, int image, int worker)
{
    const pool_job *job = context;
    const rc_tensor *x = job->back->x;
    int cp = job->cp, pixels = x->h * x->w;
    float *scratch = rc_cpu_scratch(job->cpu, worker), *share = scratch; /* (cp) */
    const float *d = job->dfeatures + (size_t)image * (size_t)x->c;
    float factor = (float)(1 / (double)pixels);
    for (int c = 0; c < cp; c++)
        share[c] = c < x->c ? factor * d[c] : 0;
    float *dx = job->to + (size_t)image * image_floats(x, cp);
    for (int p = 0; p < pixels; p++, dx += cp) {
        if (job->back->add)
            RC_FAST(add_floats)(dx, share, cp);
        else
            memcpy(dx, share, (size_t)cp * sizeof *dx);
    }
    RC_FAST(finish_backward)(job->back, cp, image, job->to, scratch);
}

static void average_pool_backward(rc_backend *be, const void *dfeatures, void *dx, const rc_back_epilogue *epilogue)
{
    const rc_tensor *x = epilogue->x;
    int cp = rc_padded(be, x->c);
    if (RC_FAST(scratch_fits)(be, RC_FAST(skip_row_floats)(x, cp) + (size_t)cp, "average_pool_backward"))
        run(be, &(pool_job){.cp = cp, .dfeatures = dfeatures, .to = dx, .back = epilogue}, x->n, average_back_image);
}

void RC_FAST(fill_pool)(rc_backend *table)
{
    table->max_pool_forward = max_pool_forward;
    table->max_pool_backward = max_pool_backward;
    table->average_pool_forward = average_pool_forward;
    table->average_pool_backward = average_pool_backward;
}
