/* Convolution: gradient of weights and bias.
 *
 * Both tensors (big and small, see weight_plan.h) are loaded into bands, 16 channels of a pixel side by side, so that
 * the taps of a row and 16 channels are one run of floats. A tile multiplies a few floats of that run with a few
 * channels of small over all pixels of the band, sums in registers, and adds them to a private gradient: a piece of
 * (run floats, small channels). Two forms take another way: a 3 x 3 kernel of step 1 that of winograd.h, and one on an
 * enlarged input that of enlarged.h. Their bands are transformed first, and the same tiles multiply the results.
 *
 * Images are shared out to slots, a number that depends on the shape alone; each slot has a private gradient and is
 * filled by one task, and in the end the slots are added in order. Where the weights are too large for that there are
 * fewer slots, and a task takes only a part of small's channels instead. */
#include "backend/cpu/fast/conv_weight.h"

#include <string.h>

#include "backend/cpu/fast/conv.h"
#include "backend/cpu/fast/enlarged.h"
#include "backend/cpu/fast/tile.h"
#include "backend/cpu/fast/winograd.h"

typedef struct weight_job {
    rc_cpu *cpu;
    weight_plan plan;
    const rc_tensor *x;
    const rc_grad *dy;
    float *slots;    /* (slots, slot_floats) */
    double *bias;    /* (slots, cp of dy) */
    float *gradient; /* in the layout of the weights */
    float *folded;   /* (c_out, c_in, k + 1, k + 1) for an enlarged input */
    float *result;
} weight_job;

/* ---- loading --------------------------------------------------------------------------------------------------- */

static void start_group(weight_group *group, const weight_job *job, int first, float *scratch)
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
        band *big = &group->big[i], *small = &group->small[i];
        *big = (band){.memory = big_memory + (size_t)i * plan->big_floats, .rows = plan->big_rows,
                      .width = plan->width, .left = plan->left, .channels = big_channels(plan),
                      .block = plan->big_block, .compact = plan->compact, .read_step = 1, .read_span = 1};
        big->top = big->next = smaller(-plan->taps.pad, 0);
        *small = (band){.memory = small_memory + (size_t)i * plan->small_floats,
                        .rows = plan->rows + 2 * plan->small_left, .width = plan->small_width,
                        .left = plan->small_left, .channel = group->channel, .channels = group->channels,
                        .block = plan->small_block, .read_step = 1, .read_span = 1};
        small->top = small->next = -plan->small_left;
        *(x_is_big ? &big->values : &small->values) = &group->x[i];
        *(x_is_big ? &small->gradients : &big->gradients) = &group->dy[i];
    }
}

/* Loads the rows [first, last) of a band, and adds up the new ones for the bias if `sums` (cp of dy) is set. */
static void load_and_sum(band *band, int first, int last, double *sums)
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
static void sum_rows_until(band *band, int last, double *sums)
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
    const band *big = &group->big[0], *small = &group->small[0];
    int stride = plan->taps.stride, pad = plan->taps.pad, pixel = big_pixel(plan, p->b);
    int in_group = p->s - group->channel, b = in_group / plan->small_block, small_pixel = band_pixel(small, b);
    tile_outer outer = {.images = group->images, .rows = last - first, .pixels = plan->small_w,
                        .d = slot + p->at, .add = group->add, .scalars = p->floats,
                        .width = p->channels, .a_four = 4, .b_vector = RC_LANES};
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

/* ---- tasks ----------------------------------------------------------------------------------------------------- */

/* Adds the gradient of the images in the group to the slot. */
static void run_group(weight_group *group, float *slot, double *big_bias, double *small_bias)
{
    const weight_plan *plan = group->plan;
    int stride = plan->taps.stride, pad = plan->taps.pad;
    for (int row = 0; row < plan->small_h; row += plan->rows) {
        int last = smaller(row + plan->rows, plan->small_h), big_row = row * stride - pad;
        int whole = plan->winograd ? row + (last - row + 1) / 2 * 2 : last; /* tiles may reach below the image */
        for (int i = 0; i < group->images; i++) {
            if (big_bias)
                sum_rows_until(&group->big[i], big_row, big_bias);
            load_and_sum(&group->big[i], big_row, (whole - 1) * stride - pad + plan->taps.k, big_bias);
            load_and_sum(&group->small[i], row - plan->small_left, whole + plan->small_left, small_bias);
        }
        if (plan->winograd)
            RC_FAST(run_winograd_pieces)(group, row, last, slot);
        else if (plan->enlarged)
            RC_FAST(run_enlarged_pieces)(group, row, last, slot);
        else
            run_pieces(group, row, last, slot);
        group->add = true;
    }
    for (int i = 0; big_bias && i < group->images; i++)
        sum_rows_until(&group->big[i], plan->big_h, big_bias);
}

static void weight_task(void *context, int task, int worker)
{
    const weight_job *job = context;
    const weight_plan *plan = &job->plan;
    int slot = task / plan->splits, split = task % plan->splits, n = job->x->n;
    int blocks = (plan->small_cp + plan->small_block - 1) / plan->small_block;
    weight_group group = {.plan = plan, .channel = blocks * split / plan->splits * plan->small_block};
    int end = smaller(blocks * (split + 1) / plan->splits * plan->small_block, plan->small_cp);
    group.channels = end - group.channel;
    bool dy_is_big = plan->taps.scatter;
    size_t dy_cp = (size_t)(dy_is_big ? plan->big_cp : plan->small_cp);
    double *bias = job->bias ? job->bias + (size_t)slot * dy_cp : NULL;
    int last = (int)((int64_t)n * (slot + 1) / plan->slots);
    for (int image = (int)((int64_t)n * slot / plan->slots); image < last; image += group.images) {
        group.images = smaller(plan->images, last - image);
        start_group(&group, job, image, rc_cpu_scratch(job->cpu, worker));
        run_group(&group, job->slots + (size_t)slot * plan->slot_floats, dy_is_big && split == 0 ? bias : NULL,
                  dy_is_big ? NULL : bias);
    }
}

/* ---- adding up ------------------------------------------------------------------------------------------------- */

enum { LARGEST_PIECE = 16 * OUTER_WIDTH };

static void add_slots(const weight_job *job, size_t at, size_t size, float *sum)
{
    memcpy(sum, job->slots + at, size * sizeof(float));
    for (int slot = 1; slot < job->plan.slots; slot++) {
        const float *add = job->slots + (size_t)slot * job->plan.slot_floats + at;
        for (size_t i = 0; i < size; i++)
            sum[i] += add[i];
    }
}

/* Writes one tap of channel `big`, small channels of the piece from values, `stride` apart. */
static void write_tap(const weight_job *job, const weight_piece *p, int big, int tap, const float *values, int stride)
{
    const weight_plan *plan = &job->plan;
    float *to = job->gradient + (size_t)big * plan->big_stride + (size_t)tap;
    for (int s = 0; s < p->channels && p->s + s < plan->small_c; s++)
        to[(size_t)(p->s + s) * plan->small_stride] = values[s * stride];
}

/* One piece, all slots, to the layout of the weights. */
static void reduce_piece(const weight_job *job, const weight_piece *p)
{
    const weight_plan *plan = &job->plan;
    float sum[LARGEST_PIECE];
    int k = plan->taps.k, pixel = big_pixel(plan, p->b);
    add_slots(job, p->at, piece_size(p), sum);
    for (int f = 0; f < p->floats; f++) {
        int kx = (p->f + f) / pixel, big = p->b * plan->big_block + (p->f + f) % pixel;
        if (kx >= k || big >= plan->big_c)
            continue;
        write_tap(job, p, big, p->line * k + kx, sum + (plan->swap ? f : f * p->channels), plan->swap ? p->floats : 1);
    }
}

/* The elements or kernels of a piece, all slots, to the 9 taps. */
static void reduce_transformed(const weight_job *job, const weight_piece *p)
{
    const weight_plan *plan = &job->plan;
    float sum[WINOGRAD_ELEMENTS][LARGEST_PIECE], taps[9][LARGEST_PIECE];
    for (int line = 0; line < plan->lines; line++)
        add_slots(job, p->at + (size_t)line * plan->line_floats, piece_size(p), sum[line]);
    if (plan->winograd)
        RC_FAST(winograd_taps)(&sum[0][0], LARGEST_PIECE, (int)piece_size(p), &taps[0][0]);
    else
        RC_FAST(enlarged_taps)(&sum[0][0], LARGEST_PIECE, (int)piece_size(p), &taps[0][0]);
    for (int f = 0; f < p->floats; f++)
        for (int tap = 0; tap < 9 && p->b * plan->big_block + p->f + f < plan->big_c; tap++)
            write_tap(job, p, p->b * plan->big_block + p->f + f, tap, taps[tap] + f * p->channels, 1);
}

/* A task takes the pieces of one block of small channels. */
static void reduce_task(void *context, int task, int worker)
{
    (void)worker;
    const weight_job *job = context;
    const weight_plan *plan = &job->plan;
    weight_piece p = {.s = task * OUTER_WIDTH};
    p.at = (size_t)p.s * plan->row_floats;
    for (p.b = 0; p.b < big_blocks(plan); p.b++)
        for (p.line = 0; p.line < (weights_are_transformed(plan) ? 1 : plan->lines); p.line++)
            for (p.f = 0; p.f < RC_FAST(run_of_block)(plan, p.b); p.f += p.floats) {
                RC_FAST(size_piece)(plan, &p);
                if (weights_are_transformed(plan))
                    reduce_transformed(job, &p);
                else
                    reduce_piece(job, &p);
                p.at += piece_size(&p);
            }
}

/* dw[t] = sum of the taps of the larger kernel that w[t] is part of: k - 1 - t and k - t along both axes. */
static void unfold_task(void *context, int out, int worker)
{
    (void)worker;
    const weight_job *job = context;
    const weight_plan *plan = &job->plan;
    int big = plan->taps.k, k = big - 1, c_in = plan->small_c;
    for (int in = 0; in < c_in; in++) {
        const float *from = job->folded + (size_t)(out * c_in + in) * (size_t)(big * big);
        float *to = job->result + (size_t)(out * c_in + in) * (size_t)(k * k);
        for (int y = 0; y < k; y++)
            for (int x = 0; x < k; x++) {
                const float *corner = from + (k - 1 - y) * big + k - 1 - x;
                to[y * k + x] = (corner[0] + corner[1]) + (corner[big] + corner[big + 1]);
            }
    }
}

/* ---- the operation --------------------------------------------------------------------------------------------- */

static size_t folded_floats(const weight_plan *plan)
{
    if (!plan->taps.folded || plan->enlarged)
        return 0;
    return line_floats((size_t)plan->big_c * (size_t)plan->small_c * (size_t)(plan->taps.k * plan->taps.k));
}

workspace RC_FAST(weight_workspace)(const rc_conv *conv, int n)
{
    weight_plan plan = RC_FAST(plan_weights)(conv, n);
    int deepest = larger(plan.big_cp, plan.small_cp), widest = larger(plan.big_w, plan.small_w);
    size_t bias = line_floats(2 * (size_t)deepest); /* doubles */
    return (workspace){.shared = (size_t)plan.slots * (plan.slot_floats + bias) + folded_floats(&plan),
                       .scratch = (size_t)plan.images * (plan.big_floats + plan.small_floats) +
                                  line_floats(plan.transformed_floats) + line_floats((size_t)deepest * (size_t)widest)};
}

void RC_FAST(conv_backward_weight)(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    weight_job job = {.cpu = rc_cpu_of(table), .plan = RC_FAST(plan_weights)(conv, x->n), .x = x, .dy = dy,
                      .result = dweight};
    const weight_plan *plan = &job.plan;
    size_t dy_cp = (size_t)(plan->taps.scatter ? plan->big_cp : plan->small_cp);
    job.slots = job.cpu->shared;
    job.folded = job.slots + (size_t)plan->slots * plan->slot_floats;
    job.gradient = folded_floats(plan) ? job.folded : job.result;
    if (dbias) {
        job.bias = (double *)(void *)(job.folded + folded_floats(plan));
        memset(job.bias, 0, (size_t)plan->slots * dy_cp * sizeof(double));
    }
    rc_pool_run(job.cpu->pool, plan->slots * plan->splits, weight_task, &job);

    rc_pool_run(job.cpu->pool, (plan->small_cp + OUTER_WIDTH - 1) / OUTER_WIDTH, reduce_task, &job);
    if (folded_floats(plan))
        rc_pool_run(job.cpu->pool, conv->c_out, unfold_task, &job);
    for (int c = 0; dbias && c < conv->c_out; c++) {
        double sum = 0;
        for (int slot = 0; slot < plan->slots; slot++)
            sum += job.bias[(size_t)slot * dy_cp + (size_t)c];
        ((float *)dbias)[c] = (float)sum;
    }
}
