/* Convolution: gradient of weights and bias.
 *
 * Both tensors (big and small, see weight_plan.h) are loaded into bands, 16 channels of a pixel side by side, so that
 * the taps of a row and 16 channels are one run of floats. A tile multiplies a few floats of that run with a few
 * channels of small over all pixels of the band, sums in registers, and adds them to a private gradient: a piece of
 * (run floats, small channels). Two forms take another way: a 3 x 3 kernel of step 1 that of winograd.h, and one on an
 * enlarged input that of enlarged.h. Their bands are transformed first, and the same tiles multiply the results.
 *
 * Images are shared out to slots, a number that depends on the shape alone; each slot has a private gradient, and in
 * the end the slots are added in order. Where the weights are too large for that there are fewer slots, and a task
 * takes only a part of small's channels instead. A slot is filled unit by unit: a unit is what lies in the bands at a
 * time. The task that owns the slot takes its units from the front; a task that is done takes units of others from the
 * back, each to a spare gradient, which weight_sum.c adds to the slot in the order of the units. So cores of different
 * speed end at the same time, and the bits are the same whichever thread did what. */
#include "backend/cpu/fast/convolution/conv_weight.h"

#include <string.h>

#include "backend/cpu/fast/convolution/conv.h"
#include "backend/cpu/fast/convolution/enlarged.h"
#include "backend/cpu/fast/convolution/winograd.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* The first row of big that band number `band` meets, and the end of what the bands before it have loaded. */
static int first_big_row(const weight_plan *plan, int band)
{
    return band * plan->rows * plan->taps.stride - plan->taps.pad;
}

static int loaded_until(const weight_plan *plan, int band)
{
    if (band == 0)
        return smaller(-plan->taps.pad, 0);
    return (band * plan->rows - 1) * plan->taps.stride - plan->taps.pad + plan->taps.k;
}

/* Puts the images from `first` on into the group, ready for band number `at`. */
static void start_group(weight_group *group, const weight_job *job, int first, int at, float *scratch)
{
    const weight_plan *plan = group->plan;
    bool x_is_big = !plan->taps.scatter;
    int x_cp = x_is_big ? plan->big_cp : plan->small_cp, dy_cp = x_is_big ? plan->small_cp : plan->big_cp;
    float *big_memory = scratch, *small_memory = big_memory + (size_t)plan->images * plan->big_floats;
    group->transformed = small_memory + (size_t)plan->images * plan->small_floats;
    float *skip_row = group->transformed + line_floats(plan->transformed_floats);
    for (int i = 0; i < group->images; i++) {
        group->x[i] = RC_FAST(value_source)(job->x, x_cp, first + i, skip_row);
        group->x[i].store = NULL; /* that is forward's business */
        group->dy[i] = RC_FAST(gradient_source)(job->dy, dy_cp, first + i, skip_row);
        row_band *big = &group->big[i], *small = &group->small[i];
        *big = (row_band){.memory = big_memory + (size_t)i * plan->big_floats,
                          .rows = plan->big_rows,
                          .width = plan->width,
                          .left = plan->left,
                          .channels = big_channels(plan),
                          .block = plan->big_block,
                          .compact = plan->compact,
                          .read_step = 1,
                          .read_span = 1};
        *small = (row_band){.memory = small_memory + (size_t)i * plan->small_floats,
                            .rows = plan->rows + 2 * plan->small_left,
                            .width = plan->small_width,
                            .left = plan->small_left,
                            .channel = group->channel,
                            .channels = group->channels,
                            .block = plan->small_block,
                            .read_step = 1,
                            .read_span = 1};
        small->top = small->next = at * plan->rows - plan->small_left;
        *(x_is_big ? &big->values : &small->values) = &group->x[i];
        *(x_is_big ? &small->gradients : &big->gradients) = &group->dy[i];
        /* Rows that the band before has summed for the bias are loaded, but not summed again. */
        big->top = big->next = smaller(first_big_row(plan, at), loaded_until(plan, at));
        RC_FAST(band_load)(big, big->top, loaded_until(plan, at));
    }
}

/* Loads the rows [first, last) of a band, and adds up the new ones for the bias if `sums` (cp of dy) is set. */
static void load_and_sum(row_band *band, int first, int last, double *sums)
{
    static const float zeros[64];
    int from = larger(band->next, first);
    RC_FAST(band_load)(band, first, last);
    for (int b = 0; sums && b < band_blocks(band); b++) {
        int pixel = band_pixel(band, b), channel = band->channel + b * band->block;
        double local[2 * 64] = {0};
        RC_FAST(sum_values)(band_row(band, from, b), pixel, (last - from) * band->width, 0, pixel, zeros, local);
        for (int c = 0; c < pixel; c++)
            sums[channel + c] += local[c];
    }
}

/* Rows of dy that no tap reads, between the bands and around them, still belong to the bias. */
static void sum_rows_until(row_band *band, int last, double *sums)
{
    while (band->next < last)
        load_and_sum(band, band->next, band->next + 1, sums);
}

/* ---- multiplying ----------------------------------------------------------------------------------------------- */

/* a <-> b: then vectors run along big. */
static tile_outer swapped(const tile_outer *t)
{
    tile_outer s = *t;
    s.a = t->b;
    s.a_pixel = t->b_pixel;
    s.a_row = t->b_row;
    s.a_image = t->b_image;
    s.b = t->a;
    s.b_pixel = t->a_pixel;
    s.b_row = t->a_row;
    s.b_image = t->a_image;
    s.scalars = t->width;
    s.width = t->scalars;
    return s;
}

/* One piece of the gradient, from the rows [first, last) of small in the bands. */
static void run_piece(const weight_group *group, const weight_piece *p, int first, int last, float *slot)
{
    const weight_plan *plan = group->plan;
    const row_band *big = &group->big[0], *small = &group->small[0];
    int stride = plan->taps.stride, pad = plan->taps.pad, pixel = big_pixel(plan, p->b);
    int in_group = p->s - group->channel, b = in_group / plan->small_block, small_pixel = band_pixel(small, b);
    tile_outer outer = {.images = group->images,
                        .rows = last - first,
                        .pixels = plan->small_w,
                        .d = slot + p->at,
                        .add = group->add,
                        .scalars = p->floats,
                        .width = p->channels,
                        .a_four = 4,
                        .b_vector = RC_LANES};
    outer.a = band_row(big, first * stride - pad + p->line, p->b) + (plan->left - pad) * pixel + p->f;
    outer.a_pixel = (ptrdiff_t)stride * pixel;
    outer.a_row = (ptrdiff_t)stride * plan->width * pixel;
    outer.a_image = (ptrdiff_t)plan->big_floats;
    outer.b = band_row(small, first, b) + (in_group - b * plan->small_block);
    outer.b_pixel = small_pixel;
    outer.b_row = (ptrdiff_t)plan->small_width * small_pixel;
    outer.b_image = (ptrdiff_t)plan->small_floats;
    if (plan->swap)
        outer = swapped(&outer);
    RC_FAST(tile_outer)(&outer);
}

static void run_pieces(const weight_group *group, int first, int last, float *slot)
{
    const weight_plan *plan = group->plan;
    weight_piece p = {.at = (size_t)group->channel * plan->row_floats};
    for (p.s = group->channel; p.s < group->channel + group->channels; p.s += p.channels)
        for (p.b = 0; p.b < big_blocks(plan); p.b++)
            for (p.line = 0; p.line < plan->lines; p.line++)
                for (p.f = 0; p.f < RC_FAST(run_of_block)(plan, p.b); p.f += p.floats) {
                    RC_FAST(size_piece)(plan, &p);
                    run_piece(group, &p, first, last, slot);
                    p.at += piece_size(&p);
                }
}

/* ---- units ----------------------------------------------------------------------------------------------------- */

/* What a task works with. */
typedef struct weight_worker {
    weight_job *job;
    int worker;
    float *scratch;
    weight_group group;
    int slot, unit; /* the last unit that it did, and whose; -1: none */
    int spare;      /* one that it has taken and not used; -1: none */
} weight_worker;

/* The gradient of one band, to `to`. */
static void run_band(weight_group *group, int number, float *to, double *big_bias, double *small_bias)
{
    const weight_plan *plan = group->plan;
    int stride = plan->taps.stride, pad = plan->taps.pad, row = number * plan->rows;
    int last = smaller(row + plan->rows, plan->small_h), big_row = first_big_row(plan, number);
    int whole = plan->winograd ? row + (last - row + 1) / 2 * 2 : last; /* tiles may reach below the image */
    for (int i = 0; i < group->images; i++) {
        if (big_bias)
            sum_rows_until(&group->big[i], big_row, big_bias);
        load_and_sum(&group->big[i], big_row, (whole - 1) * stride - pad + plan->taps.k, big_bias);
        load_and_sum(&group->small[i], row - plan->small_left, whole + plan->small_left, small_bias);
    }
    if (plan->winograd)
        RC_FAST(run_winograd_pieces)(group, row, last, to);
    else if (plan->enlarged)
        RC_FAST(run_enlarged_pieces)(group, row, last, to);
    else
        run_pieces(group, row, last, to);
    for (int i = 0; big_bias && last == plan->small_h && i < group->images; i++)
        sum_rows_until(&group->big[i], plan->big_h, big_bias);
}

/* Adds the gradient of a unit to `to`, or writes it there. The bands go on where the last unit has left them. */
static void run_unit(weight_worker *w, int slot, int unit, bool add, float *to)
{
    weight_group *group = &w->group;
    const weight_plan *plan = group->plan;
    int band = unit % plan->bands, first = slot_begin(w->job, slot) + unit / plan->bands * plan->images;
    if (band == 0 || w->slot != slot || w->unit != unit - 1) {
        group->images = smaller(plan->images, slot_begin(w->job, slot + 1) - first);
        start_group(group, w->job, first, band, w->scratch);
    }
    bool dy_is_big = plan->taps.scatter;
    size_t dy_cp = (size_t)(dy_is_big ? plan->big_cp : plan->small_cp);
    double *bias = w->job->bias ? w->job->bias + (size_t)(slot * plan->units + unit) * dy_cp : NULL;
    group->add = add;
    run_band(group, band, to, dy_is_big && group->channel == 0 ? bias : NULL, dy_is_big ? NULL : bias);
    w->slot = slot;
    w->unit = unit;
    /* It takes the scratch, where the next unit begins with other images. */
    if (w->job->sequel && band == plan->bands - 1)
        w->job->sequel->run(w->job->sequel->context, first, group->images, w->worker);
}

/* ---- tasks ----------------------------------------------------------------------------------------------------- */

static uint64_t units_left(int first, int end)
{
    return (uint64_t)first << 32 | (uint32_t)end;
}

static int count_left(uint64_t left)
{
    return (int)(uint32_t)left - (int)(left >> 32);
}

/* Takes the first unit that is left, or the last. Returns -1 if none is left. */
static int take_unit(weight_lane *lane, bool last)
{
    uint64_t left = atomic_load_explicit(&lane->left, memory_order_relaxed);
    while (count_left(left) > 0) {
        int first = (int)(left >> 32), end = (int)(uint32_t)left;
        uint64_t rest = last ? units_left(first, end - 1) : units_left(first + 1, end);
        if (atomic_compare_exchange_weak_explicit(&lane->left, &left, rest, memory_order_relaxed, memory_order_relaxed))
            return last ? end - 1 : first;
    }
    return -1;
}

/* The slot that has most to do; -1: none has. */
static int slowest_slot(weight_job *job)
{
    int slowest = -1, most = 0;
    for (int slot = 0; slot < job->plan.slots; slot++) {
        int left = count_left(atomic_load_explicit(&job->lane[slot].left, memory_order_relaxed));
        if (left > most) {
            most = left;
            slowest = slot;
        }
    }
    return slowest;
}

/* Does a unit of another slot, if there is one and a spare gradient for it. */
static bool help(weight_worker *w)
{
    weight_job *job = w->job;
    const weight_plan *plan = &job->plan;
    if (w->spare < 0)
        w->spare = atomic_fetch_add(&job->spares_taken, 1);
    int slot = w->spare < plan->spares ? slowest_slot(job) : -1;
    if (slot < 0)
        return false;
    int unit = take_unit(&job->lane[slot], true);
    if (unit < 0)
        return true; /* another one may have more */
    job->lane[slot].spare[slot_units(job, slot) - 1 - unit] = w->spare;
    run_unit(w, slot, unit, false, job->spares + (size_t)w->spare * plan->slot_floats);
    w->spare = -1;
    return true;
}

static void weight_task(void *context, int task, int worker)
{
    weight_job *job = context;
    const weight_plan *plan = &job->plan;
    int slot = task / plan->splits, split = task % plan->splits;
    int blocks = (plan->small_cp + plan->small_block - 1) / plan->small_block;
    weight_worker w = {
        .job = job, .worker = worker, .scratch = rc_cpu_scratch(job->cpu, worker), .slot = -1, .spare = -1};
    w.group.plan = plan;
    w.group.channel = blocks * split / plan->splits * plan->small_block;
    w.group.channels = smaller(blocks * (split + 1) / plan->splits * plan->small_block, plan->small_cp) -
                       w.group.channel;
    atomic_fetch_add(&job->begun, 1);
    for (int unit = 0; unit >= 0; unit = take_unit(&job->lane[task], false))
        run_unit(&w, slot, unit, unit > 0, job->slots + (size_t)slot * plan->slot_floats);
    /* Whole tasks first: they need no spare. */
    while (plan->spares > 0 && atomic_load(&job->begun) == plan->slots && help(&w))
        ;
}

/* ---- the operation --------------------------------------------------------------------------------------------- */

static size_t folded_floats(const weight_plan *plan)
{
    if (!plan->taps.folded || plan->enlarged)
        return 0;
    return line_floats((size_t)plan->big_c * (size_t)plan->small_c * (size_t)(plan->taps.k * plan->taps.k));
}

static size_t bias_floats(const weight_plan *plan, int units)
{
    size_t deepest = (size_t)larger(plan->big_cp, plan->small_cp);
    return line_floats(2 * deepest * (size_t)(plan->slots * units)); /* doubles */
}

workspace RC_FAST(weight_workspace)(const rc_conv *conv, int n)
{
    weight_plan plan = RC_FAST(plan_weights)(conv, n);
    int deepest = larger(plan.big_cp, plan.small_cp), widest = larger(plan.big_w, plan.small_w);
    return (workspace){.shared = (size_t)(plan.slots + plan.spares) * plan.slot_floats + folded_floats(&plan) +
                                 bias_floats(&plan, plan.most_units),
                       .scratch = (size_t)plan.images * (plan.big_floats + plan.small_floats) +
                                  line_floats(plan.transformed_floats) + line_floats((size_t)deepest * (size_t)widest)};
}

bool RC_FAST(weights_take_sequel)(const rc_conv *conv, int n)
{
    return RC_FAST(plan_weights)(conv, n).splits == 1;
}

void RC_FAST(conv_backward_weight)(rc_cpu *cpu, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias, const weight_sequel *sequel, float *memory)
{
    weight_job job = {
        .cpu = cpu, .sequel = sequel, .plan = RC_FAST(plan_weights)(conv, x->n), .x = x, .dy = dy, .result = dweight};
    const weight_plan *plan = &job.plan;
    job.slots = memory;
    job.spares = job.slots + (size_t)plan->slots * plan->slot_floats;
    job.folded = job.spares + (size_t)plan->spares * plan->slot_floats;
    job.gradient = folded_floats(plan) ? job.folded : job.result;
    if (dbias) {
        job.bias = (double *)(void *)(job.folded + folded_floats(plan));
        memset(job.bias, 0, bias_floats(plan, plan->units) * sizeof(float));
    }
    int lanes = plan->slots * plan->splits;
    for (int lane = 0; lane < lanes; lane++) /* its owner has the first unit */
        atomic_init(&job.lane[lane].left, units_left(1, slot_units(&job, lane / plan->splits)));
    rc_phase tasks = {lanes, weight_task, &job};
    if (sequel)
        rc_pool_run_two(cpu->pool, sequel->before, tasks);
    else
        rc_pool_run(cpu->pool, tasks.tasks, tasks.fn, tasks.ctx);
    RC_FAST(sum_weights)(&job, dbias);
}
