/* The end of a weight gradient: the private gradients of all slots are added up, in order, and brought into the layout
 * of the weights. */
#include "backend/cpu/fast/convolution/conv_weight.h"

#include <string.h>

#include "backend/cpu/fast/convolution/enlarged.h"
#include "backend/cpu/fast/convolution/winograd.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

enum { LARGEST_PIECE = 16 * OUTER_WIDTH, REDUCED = 64 };

static void add_floats(float *to, const float *add, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += add[i];
}

/* The numbers of a slot; those whose last units were done by others are completed first. */
static const float *slot_numbers(const weight_job *job, int slot, size_t at, size_t size, float completed[REDUCED])
{
    const weight_plan *plan = &job->plan;
    const weight_lane *lane = &job->lane[slot];
    const float *from = job->slots + (size_t)slot * plan->slot_floats + at;
    if (lane->elsewhere == 0)
        return from;
    memcpy(completed, from, size * sizeof(float));
    for (int i = lane->elsewhere - 1; i >= 0; i--)
        add_floats(completed, job->spares + (size_t)lane->spare[i] * plan->slot_floats + at, size);
    return completed;
}

/* The sums of so many vectors over all slots, in order. */
RC_INLINE void sum_vectors(const float *const from[SLOTS], int slots, const int vectors, size_t at, float *sum)
{
    vec total[REDUCED / RC_LANES];
    for (int v = 0; v < vectors; v++)
        total[v] = vec_load(from[0] + at + v * RC_LANES);
    for (int slot = 1; slot < slots; slot++)
        for (int v = 0; v < vectors; v++)
            total[v] += vec_load(from[slot] + at + v * RC_LANES);
    for (int v = 0; v < vectors; v++)
        vec_store(sum + at + v * RC_LANES, total[v]);
}

/* The numbers of all slots, a multiple of the lanes. They lie in the caches of other cores: all of a few vectors are
 * asked for at once. */
static void add_slots(const weight_job *job, size_t at, size_t size, float *sum)
{
    for (size_t first = 0; first < size; first += REDUCED) {
        size_t count = size - first < REDUCED ? size - first : REDUCED, i = 0;
        float completed[SLOTS][REDUCED];
        const float *from[SLOTS] = {NULL};
        for (int slot = 0; slot < job->plan.slots; slot++)
            from[slot] = slot_numbers(job, slot, at + first, count, completed[slot]);
        for (; i + 4 * RC_LANES <= count; i += 4 * RC_LANES)
            sum_vectors(from, job->plan.slots, 4, i, sum + first);
        for (; i < count; i += RC_LANES)
            sum_vectors(from, job->plan.slots, 1, i, sum + first);
    }
}

/* Asks for numbers of all slots. Each task begins with another slot, so that not all cores ask the same one. */
static void fetch_slots(const weight_job *job, size_t at, size_t size, int task)
{
    enum { LINE = 16 }; /* floats */
    const weight_plan *plan = &job->plan;
    for (int i = 0; i < plan->slots; i++) {
        const float *from = job->slots + (size_t)((i + task) % plan->slots) * plan->slot_floats + at;
        for (size_t f = 0; f < size; f += LINE)
            __builtin_prefetch(from + f, 0, 2);
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

/* What is reduced at a time: some floats of a piece, REDUCED numbers. Where a vector holds all channels of small
 * weights, one float, so that there is work for all threads. */
static int reduced_floats(const weight_plan *plan, const weight_piece *p)
{
    int numbers = RC_LANES == 16 && big_channels(plan) <= 16 ? RC_LANES : REDUCED;
    return larger(numbers / p->channels, 1);
}

/* The floats [first, last) of a piece, all slots, to the layout of the weights. */
static void reduce_piece(const weight_job *job, const weight_piece *p, int first, int last)
{
    const weight_plan *plan = &job->plan;
    float sum[LARGEST_PIECE];
    int k = plan->taps.k, pixel = big_pixel(plan, p->b);
    add_slots(job, p->at + (size_t)(first * p->channels), (size_t)((last - first) * p->channels), sum);
    for (int f = first; f < last; f++) {
        int kx = (p->f + f) / pixel, big = p->b * plan->big_block + (p->f + f) % pixel;
        if (kx >= k || big >= plan->big_c)
            continue;
        write_tap(job, p, big, p->line * k + kx, sum + (plan->swap ? f : (f - first) * p->channels),
                  plan->swap ? p->floats : 1);
    }
}

/* The elements or kernels of those floats, all slots, to the 9 taps. */
static void reduce_transformed(const weight_job *job, const weight_piece *p, int first, int last)
{
    const weight_plan *plan = &job->plan;
    float sum[WINOGRAD_ELEMENTS][REDUCED], taps[9][REDUCED];
    int count = (last - first) * p->channels;
    for (int line = 0; line < plan->lines; line++)
        add_slots(job, p->at + (size_t)line * plan->line_floats + (size_t)(first * p->channels), (size_t)count,
                  sum[line]);
    if (plan->winograd)
        RC_FAST(winograd_taps)(&sum[0][0], REDUCED, count, &taps[0][0]);
    else
        RC_FAST(enlarged_taps)(&sum[0][0], REDUCED, count, &taps[0][0]);
    for (int f = first; f < last; f++)
        for (int tap = 0; tap < 9 && p->b * plan->big_block + p->f + f < plan->big_c; tap++)
            write_tap(job, p, p->b * plan->big_block + p->f + f, tap, taps[tap] + (f - first) * p->channels, 1);
}

/* Tasks that share a block of small channels: each walks through all its pieces, so they are no more than needed. */
static int reduce_parts(const weight_plan *plan)
{
    enum { TASKS = 32 };
    int small_blocks = (plan->small_cp + OUTER_WIDTH - 1) / OUTER_WIDTH;
    return larger(TASKS / small_blocks, 1);
}

/* The floats of all lines that reduce_transformed() is going to add, or reduce_piece() those of its one line. */
static void fetch_piece(const weight_job *job, const weight_piece *p, int first, int last, int task)
{
    const weight_plan *plan = &job->plan;
    size_t at = p->at + (size_t)(first * p->channels), size = (size_t)((last - first) * p->channels);
    for (int line = 0; line < (weights_are_transformed(plan) ? plan->lines : 1); line++)
        fetch_slots(job, at + (size_t)line * plan->line_floats, size, task);
}

/* One round over the floats of a block, of which a task takes every so many. */
static void reduce_block(const weight_job *job, int task, bool fetch)
{
    const weight_plan *plan = &job->plan;
    bool transformed = weights_are_transformed(plan);
    int parts = reduce_parts(plan), number = 0, part = task % parts;
    weight_piece p = {.s = task / parts * OUTER_WIDTH};
    p.at = (size_t)p.s * plan->row_floats;
    for (p.b = 0; p.b < big_blocks(plan); p.b++)
        for (p.line = 0; p.line < (transformed ? 1 : plan->lines); p.line++)
            for (p.f = 0; p.f < RC_FAST(run_of_block)(plan, p.b); p.f += p.floats) {
                RC_FAST(size_piece)(plan, &p);
                int step = plan->swap ? p.floats : reduced_floats(plan, &p); /* a swapped piece stays whole */
                for (int f = 0; f < p.floats; f += step, number++) {
                    if (number % parts != part)
                        continue;
                    if (fetch)
                        fetch_piece(job, &p, f, smaller(f + step, p.floats), task);
                    else
                        (transformed ? reduce_transformed : reduce_piece)(job, &p, f, smaller(f + step, p.floats));
                }
                p.at += piece_size(&p);
            }
}

static int reduce_tasks(const weight_plan *plan)
{
    return (plan->small_cp + OUTER_WIDTH - 1) / OUTER_WIDTH * reduce_parts(plan);
}

static void reduce_task(void *context, int task, int worker)
{
    (void)worker;
    enum { MOST_FETCHED = 256 << 10 }; /* bytes that stay in the second cache until they are added */
    const weight_job *job = context;
    const weight_plan *plan = &job->plan;
    size_t bytes = (size_t)plan->slots * plan->slot_floats * sizeof(float) / (size_t)reduce_tasks(plan);
    if (bytes <= MOST_FETCHED)
        reduce_block(job, task, true);
    reduce_block(job, task, false);
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

void RC_FAST(sum_weights)(weight_job *job, float *dbias)
{
    const weight_plan *plan = &job->plan;
    for (int slot = 0; plan->spares > 0 && slot < plan->slots; slot++)
        job->lane[slot].elsewhere = slot_units(job, slot) - (int)(uint32_t)atomic_load(&job->lane[slot].left);
    rc_pool_run(job->cpu->pool, reduce_tasks(plan), reduce_task, job);
    if (job->gradient != job->result)
        rc_pool_run(job->cpu->pool, plan->big_c, unfold_task, job); /* an enlarged input: big is dy */
    bool dy_is_big = plan->taps.scatter;
    int dy_c = dy_is_big ? plan->big_c : plan->small_c, dy_cp = dy_is_big ? plan->big_cp : plan->small_cp;
    for (int c = 0; dbias && c < dy_c; c++) {
        double sum = 0;
        for (int unit = 0; unit < plan->slots * plan->units; unit++)
            sum += job->bias[(size_t)unit * (size_t)dy_cp + (size_t)c];
        dbias[c] = (float)sum;
    }
}
