#include "backend/cpu/fast/convolution/depthwise.h"

#include <string.h>

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/ints.h"

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif

/* ---- rows ------------------------------------------------------------------------------------------------------- */

const float *RC_FAST(plain_values)(const value_source *x)
{
    return x->value;
}

const float *RC_FAST(plain_gradients)(const gradient_source *dy)
{
    return dy->y.act == RC_ACT_NONE && !dy->a ? dy->g : NULL;
}

void RC_FAST(ring_load)(row_ring *ring, int first, int last)
{
    if (ring->direct)
        return;
    int end = ring->first + ring->channels;
    for (int row = larger(larger(ring->next, first), 0); row < smaller(last, ring->h); row++) {
        float *to = ring->memory + (size_t)(row % ring->slots) * (size_t)ring->w * (size_t)ring->channels;
        if (ring->values)
            load_value_row(ring->values, row, ring->first, end, to, ring->channels);
        else
            load_gradient_row(ring->gradients, row, ring->first, end, to, ring->channels);
    }
    ring->next = larger(ring->next, last);
}

/* ---- one row of outputs ----------------------------------------------------------------------------------------- */

typedef struct depth_row {
    const float *x[DEPTH_TAPS]; /* the tap rows that lie inside the map, (in_w, cp) each ... */
    const float *w[DEPTH_TAPS]; /* ... and their weights: of channel c and tap t at t * w_tap + c */
    int rows;
    int first, taps, in_step, in_w; /* output j reads columns j * in_step + first .. + taps - 1 */
    ptrdiff_t w_tap;
    int cp;
    const float *start; /* (cp): what the sums begin with; NULL: with what y holds */
    /* What is done with a sum: scale and shift (cp), NULL: nothing; then it is cut off below and above. */
    const float *scale, *shift;
    float low, high;
    float *y;
    ptrdiff_t y_pixel;
} depth_row;

RC_INLINE vec finish_vector(const depth_row *r, const int lanes, int c, vec sum)
{
    if (r->scale)
        sum = sum * vec_load_lanes(lanes, r->scale + c) + vec_load_lanes(lanes, r->shift + c);
    return vec_cut_off(sum, r->low, r->high);
}

/* Outputs [j, j + pixels), all of whose taps lie inside the map; one vector of channels. */
RC_INLINE void tile_vector(const depth_row *r, const int lanes, const int pixels, const int step, const int taps, int j,
                           int c)
{
    enum { MOST = 8 };
    vec sum[MOST], in[2 * MOST + DEPTH_TAPS];
    ptrdiff_t cp = r->cp, at = (ptrdiff_t)(j * step + r->first) * cp + c;
    float *y = r->y + j * r->y_pixel + c;
    UNROLLED
    for (int p = 0; p < pixels; p++)
        sum[p] = r->start ? vec_load_lanes(lanes, r->start + c) : vec_load_lanes(lanes, y + p * r->y_pixel);
    for (int row = 0; row < r->rows; row++) {
        const float *x = r->x[row] + at, *w = r->w[row] + c;
        UNROLLED
        for (int i = 0; i < (pixels - 1) * step + taps; i++)
            in[i] = vec_load_lanes(lanes, x + i * cp);
        UNROLLED
        for (int t = 0; t < taps; t++) {
            vec weight = vec_load_lanes(lanes, w + t * r->w_tap);
            UNROLLED
            for (int p = 0; p < pixels; p++)
                sum[p] += in[p * step + t] * weight;
        }
    }
    UNROLLED
    for (int p = 0; p < pixels; p++)
        vec_store_lanes(lanes, y + p * r->y_pixel, finish_vector(r, lanes, c, sum[p]));
}

enum { EDGE = 4 };

/* One output, of whose taps [from, to) lie inside the map; some vectors of channels, whose sums do not wait for each
 * other. */
RC_INLINE void edge_vectors(const depth_row *r, const int lanes, const int vectors, int j, int from, int to, int c)
{
    ptrdiff_t cp = r->cp, at = (ptrdiff_t)(j * r->in_step + r->first) * cp + c;
    float *y = r->y + j * r->y_pixel + c;
    vec sum[EDGE];
    UNROLLED
    for (int v = 0; v < vectors; v++)
        sum[v] = vec_load_lanes(lanes, r->start ? r->start + c + v * lanes : y + v * lanes);
    for (int row = 0; row < r->rows; row++)
        for (int t = from; t < to; t++) {
            const float *x = r->x[row] + at + t * cp, *w = r->w[row] + t * r->w_tap + c;
            UNROLLED
            for (int v = 0; v < vectors; v++)
                sum[v] += vec_load_lanes(lanes, x + v * lanes) * vec_load_lanes(lanes, w + v * lanes);
        }
    UNROLLED
    for (int v = 0; v < vectors; v++)
        vec_store_lanes(lanes, y + v * lanes, finish_vector(r, lanes, c + v * lanes, sum[v]));
}

static void run_edge(const depth_row *given, int first, int last)
{
    const depth_row here = *given, *r = &here;
    for (int j = first; j < last; j++) {
        int column = j * r->in_step + r->first, from = larger(-column, 0), to = smaller(r->in_w - column, r->taps),
            c = 0;
        for (; c + EDGE * RC_LANES <= r->cp; c += EDGE * RC_LANES)
            edge_vectors(r, RC_LANES, EDGE, j, from, to, c);
        for (; c + RC_LANES <= r->cp; c += RC_LANES)
            edge_vectors(r, RC_LANES, 1, j, from, to, c);
        for (; c < r->cp; c += 4)
            edge_vectors(r, 4, 1, j, from, to, c);
    }
}

RC_INLINE void run_tiles(const depth_row *given, const int pixels, const int step, const int taps, int *first, int last)
{
    const depth_row here = *given, *r = &here; /* no store can change it: what it holds stays in registers */
    int j = *first;
    for (; j + pixels <= last; j += pixels) {
        int c = 0;
        for (; c + RC_LANES <= r->cp; c += RC_LANES)
            tile_vector(r, RC_LANES, pixels, step, taps, j, c);
        for (; c < r->cp; c += 4)
            tile_vector(r, 4, pixels, step, taps, j, c);
    }
    *first = j;
}

/* With 32 registers, tiles of eight and four pixels; with 16, of four and two. What is left goes to the edge. */
#if defined(__aarch64__) || defined(__AVX512F__)
enum { WIDE = 8, NARROW = 4, WIDE_APART = 4 };
#else
enum { WIDE = 4, NARROW = 2, WIDE_APART = 3 };
#endif

#define ROW(step, taps) \
    static __attribute__((noinline)) void row_##step##_##taps(const depth_row *r, int first, int last) \
    { \
        run_tiles(r, (step) == 1 ? WIDE : WIDE_APART, step, taps, &first, last); \
        run_tiles(r, (step) == 1 ? NARROW : 2, step, taps, &first, last); \
        run_tiles(r, 1, step, taps, &first, last); \
    }
ROW(1, 1)
ROW(1, 2)
ROW(1, 3)
ROW(1, 5)
ROW(2, 3)
ROW(2, 5)

static void run_row(const depth_row *r, int outputs)
{
    /* Outputs that read inside the map alone. */
    int begin = r->first < 0 ? (-r->first + r->in_step - 1) / r->in_step : 0;
    int room = r->in_w - r->taps - r->first, end = room < 0 ? 0 : room / r->in_step + 1;
    begin = smaller(begin, outputs);
    end = larger(smaller(end, outputs), begin);
    run_edge(r, 0, begin);
    run_edge(r, end, outputs);
    switch (r->in_step * 16 + r->taps) {
    case 16 + 1: row_1_1(r, begin, end); break;
    case 16 + 2: row_1_2(r, begin, end); break;
    case 16 + 3: row_1_3(r, begin, end); break;
    case 16 + 5: row_1_5(r, begin, end); break;
    case 32 + 3: row_2_3(r, begin, end); break;
    case 32 + 5: row_2_5(r, begin, end); break;
    default: run_edge(r, begin, end); break;
    }
}

/* ---- one image -------------------------------------------------------------------------------------------------- */

typedef struct depth_plan {
    int in_h, in_w, out_h, out_w, c, cp, k;
    tap_geometry taps;
    tap_axis y[MAX_STRIDE], x[MAX_STRIDE]; /* out_step of them */
    int first_y, span_y;                   /* unit u reads rows u * in_step + first_y and the span_y - 1 after it */
    int units;
} depth_plan;

typedef struct depth_job {
    rc_cpu *cpu;
    depth_plan plan;
    const float *weight; /* (c, 1, k, k) */
    float *packed;       /* (k * k, cp) */
    float *start;        /* (cp): bias, or zeros */
    float *center;       /* (cp) */
    float *out;
    bool add;
    int parts; /* of an image */
    const rc_tensor *x, *y;
    const rc_epilogue *epilogue;
    const rc_grad *dy;
    const rc_back_epilogue *back;
} depth_job;

static depth_plan plan_depthwise(const rc_conv *conv, bool backward)
{
    depth_plan plan = {.in_h = backward ? conv->oh : conv->h,
                       .in_w = backward ? conv->ow : conv->w,
                       .out_h = backward ? conv->h : conv->oh,
                       .out_w = backward ? conv->w : conv->ow,
                       .c = conv->c_in,
                       .cp = round_up(conv->c_in, 4),
                       .k = conv->k};
    plan.taps = RC_FAST(tap_geometry)(conv, backward);
    int low = INT32_MAX, high = INT32_MIN;
    for (int r = 0; r < plan.taps.out_step; r++) {
        plan.y[r] = RC_FAST(tap_axis)(&plan.taps, r, plan.out_h);
        plan.x[r] = RC_FAST(tap_axis)(&plan.taps, r, plan.out_w);
        if (plan.y[r].taps > 0) {
            low = smaller(low, plan.y[r].first);
            high = larger(high, plan.y[r].first + plan.y[r].taps);
        }
    }
    plan.first_y = low;
    plan.span_y = high - low;
    plan.units = plan.y[0].outputs;
    return plan;
}

static void pack(const depth_job *job)
{
    const depth_plan *plan = &job->plan;
    int taps = plan->k * plan->k;
    for (int tap = 0; tap < taps; tap++)
        for (int c = 0; c < plan->cp; c++)
            job->packed[tap * plan->cp + c] = c < plan->c ? job->weight[(size_t)c * (size_t)taps + (size_t)tap] : 0;
}

/* Can a sum be finished in its register? */
static bool finishes_alone(const depth_job *job)
{
    float low, high;
    return !job->y->skip.value && act_limits(job->y->act, &low, &high);
}

static void set_finish(const depth_job *job, int image, depth_row *r)
{
    act_limits(RC_ACT_NONE, &r->low, &r->high);
    if (job->dy || !job->epilogue->apply || !finishes_alone(job))
        return;
    const rc_tensor *y = job->y;
    size_t vectors = (size_t)rc_group_of(y, image) * (size_t)job->plan.cp;
    r->scale = y->scale ? (const float *)y->scale + vectors : NULL;
    r->shift = y->scale ? (const float *)y->shift + vectors : NULL;
    act_limits(y->act, &r->low, &r->high);
}

/* What the outputs of unit u with these residues are made of. */
static void run_residue(const depth_job *job, const row_ring *ring, depth_row *r, float *out, int u, int residue_y,
                        int residue_x)
{
    const depth_plan *plan = &job->plan;
    const tap_axis *y = &plan->y[residue_y], *x = &plan->x[residue_x];
    int step = plan->taps.out_step, top = u * plan->taps.in_step + y->first;
    if (u >= y->outputs)
        return;
    r->rows = 0;
    for (int i = larger(-top, 0); i < smaller(y->taps, plan->in_h - top); i++) {
        int tap = (y->kernel_first + i * y->kernel_step) * plan->k + x->kernel_first;
        r->x[r->rows] = ring_row(ring, top + i);
        r->w[r->rows++] = job->packed + (ptrdiff_t)tap * plan->cp;
    }
    r->first = x->first;
    r->taps = x->taps;
    r->w_tap = (ptrdiff_t)x->kernel_step * plan->cp;
    r->y = out + ((ptrdiff_t)(u * step + residue_y) * plan->out_w + residue_x) * plan->cp;
    run_row(r, x->outputs);
}

/* Sums of finished rows, and activations that no register finishes. */
static void finish_rows(const depth_job *job, int image, float *out, int first, int rows, float *skip_row)
{
    const depth_plan *plan = &job->plan;
    int cp = plan->cp;
    void *partial = job->dy ? job->back->partial : job->epilogue->partial;
    double *sums = partial ? rc_cpu_partial(partial, image, cp) : NULL;
    if (job->dy) {
        rc_grad finished = {.y = job->back->x, .g = job->out};
        gradient_source source = RC_FAST(gradient_source)(&finished, cp, image, skip_row);
        if (sums)
            RC_FAST(sum_gradients)(&source, first, rows, 0, cp, sums);
        return;
    }
    float *at = out + (size_t)first * (size_t)plan->out_w * (size_t)cp;
    if (sums)
        RC_FAST(sum_values)(at, cp, rows * plan->out_w, 0, cp, job->center, sums);
    if (job->epilogue->apply && !finishes_alone(job)) {
        rc_tensor pending = *job->y;
        pending.value = NULL;
        pending.stored = false;
        value_source source = RC_FAST(value_source)(&pending, cp, image, skip_row);
        RC_FAST(load_value_rows)(&source, first, rows, 0, cp, at, cp, (ptrdiff_t)plan->out_w * cp);
    }
}

static void depth_task(void *context, int task, int worker)
{
    const depth_job *job = context;
    const depth_plan *plan = &job->plan;
    int image = task / job->parts, part = task % job->parts, cp = plan->cp, step = plan->taps.out_step;
    int begin = plan->units * part / job->parts, end = plan->units * (part + 1) / job->parts;
    float *scratch = rc_cpu_scratch(job->cpu, worker);
    float *out_skip = scratch + line_floats((size_t)plan->in_w * (size_t)cp);
    float *out = job->out + (size_t)image * (size_t)plan->out_h * (size_t)plan->out_w * (size_t)cp;
    value_source values;
    gradient_source gradients;
    row_ring ring = {.memory = out_skip + line_floats((size_t)plan->out_w * (size_t)cp),
                     .h = plan->in_h,
                     .w = plan->in_w,
                     .cp = cp,
                     .slots = plan->span_y,
                     .channels = cp};
    if (job->dy) {
        gradients = RC_FAST(gradient_source)(job->dy, cp, image, scratch);
        ring.gradients = &gradients;
        ring.direct = RC_FAST(plain_gradients)(&gradients);
    } else {
        values = RC_FAST(value_source)(job->x, cp, image, scratch);
        ring.values = &values;
        ring.direct = RC_FAST(plain_values)(&values);
    }
    void *partial = job->dy ? job->back->partial : job->epilogue->partial;
    if (partial)
        memset(rc_cpu_partial(partial, image, cp), 0, 2 * (size_t)cp * sizeof(double));
    depth_row r = {.in_step = plan->taps.in_step,
                   .in_w = plan->in_w,
                   .cp = cp,
                   .start = job->add ? NULL : job->start,
                   .y_pixel = (ptrdiff_t)step * cp};
    set_finish(job, image, &r);
    for (int u = begin; u < end; u++) {
        int top = u * plan->taps.in_step + plan->first_y;
        RC_FAST(ring_load)(&ring, top, top + plan->span_y);
        for (int residue = 0; residue < step * step; residue++)
            run_residue(job, &ring, &r, out, u, residue / step, residue % step);
        finish_rows(job, image, out, u * step, smaller(step, plan->out_h - u * step), out_skip);
    }
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

static bool fits(const rc_conv *conv)
{
    return conv->stride <= MAX_STRIDE && conv->k <= DEPTH_TAPS;
}

static rc_backend reference_operations(void)
{
    rc_backend table = {0};
    rc_reference_fill_float(&table);
    return table;
}

/* Lays out the shared workspace: packed weights, start, center. */
static void prepare(depth_job *job, const void *weight, const void *bias, const void *center)
{
    const depth_plan *plan = &job->plan;
    size_t cp = (size_t)plan->cp, vector = line_floats(cp), bytes = (size_t)plan->c * sizeof(float);
    job->weight = weight;
    job->start = job->cpu->shared;
    job->center = job->start + vector;
    job->packed = job->center + vector;
    memset(job->start, 0, 2 * vector * sizeof(float));
    if (bias)
        memcpy(job->start, bias, bytes);
    if (center)
        memcpy(job->center, center, bytes);
    pack(job);
}

/* Few images are cut into parts for the threads, unless sums are wanted. */
static void run(depth_job *job, int n, bool sums)
{
    enum { TASKS = 32, FEWEST_ROWS = 4 };
    job->parts = 1;
    if (!sums && n < TASKS)
        job->parts = larger(smaller((TASKS + n - 1) / n, job->plan.units / FEWEST_ROWS), 1);
    rc_pool_run(job->cpu->pool, n * job->parts, depth_task, job);
}

static void depthwise_forward(rc_backend *table, const rc_conv *conv, rc_tensor *x, const void *weight,
                              const void *bias, rc_tensor *y, const rc_epilogue *epilogue)
{
    if (!fits(conv)) {
        reference_operations().depthwise_forward(table, conv, x, weight, bias, y, epilogue);
        return;
    }
    if (x->value && !x->stored) {
        table->materialise(table, x);
        x->stored = true;
    }
    depth_job job = {.cpu = rc_cpu_of(table),
                     .plan = plan_depthwise(conv, false),
                     .out = y->raw,
                     .x = x,
                     .y = y,
                     .epilogue = epilogue};
    prepare(&job, weight, bias, epilogue->center);
    run(&job, x->n, epilogue->partial != NULL);
}

static void depthwise_backward_data(rc_backend *table, const rc_conv *conv, const rc_grad *dy, const void *weight,
                                    void *dx, const rc_back_epilogue *epilogue)
{
    if (!fits(conv)) {
        reference_operations().depthwise_backward_data(table, conv, dy, weight, dx, epilogue);
        return;
    }
    depth_job job = {.cpu = rc_cpu_of(table),
                     .plan = plan_depthwise(conv, true),
                     .out = dx,
                     .dy = dy,
                     .back = epilogue,
                     .add = epilogue->add};
    prepare(&job, weight, NULL, NULL);
    run(&job, dy->y->n, epilogue->partial != NULL);
}

static void depthwise_backward_weight(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                      void *dweight, void *dbias)
{
    if (fits(conv))
        RC_FAST(depthwise_backward_weight)(table, conv, x, dy, dweight, dbias);
    else
        reference_operations().depthwise_backward_weight(table, conv, x, dy, dweight, dbias);
}

static rc_status reserve_depthwise(rc_backend *table, const rc_conv *conv, int n)
{
    if (!fits(conv))
        return reference_operations().reserve_depthwise(table, conv, n);
    size_t cp = (size_t)round_up(conv->c_in, 4), taps = (size_t)conv->k * (size_t)conv->k;
    size_t widest = (size_t)larger(conv->w, conv->ow) * cp;
    size_t shared = (2 * line_floats(cp) + taps * cp) * sizeof(float);
    size_t scratch = 2 * line_floats(widest) + (size_t)conv->k * widest;
    size_t doubles = RC_FAST(depthwise_weight_doubles)(conv, n), floats = RC_FAST(depthwise_weight_floats)(conv);
    return rc_cpu_reserve(rc_cpu_of(table), shared > doubles * sizeof(double) ? shared : doubles * sizeof(double),
                          (scratch > floats ? scratch : floats) * sizeof(float));
}

void RC_FAST(fill_depthwise)(rc_backend *table)
{
    table->reserve_depthwise = reserve_depthwise;
    table->depthwise_forward = depthwise_forward;
    table->depthwise_backward_data = depthwise_backward_data;
    table->depthwise_backward_weight = depthwise_backward_weight;
}
