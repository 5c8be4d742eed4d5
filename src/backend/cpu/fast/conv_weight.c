/* Convolution: gradient of weights and bias.
 *
 * Of the two tensors that meet in a convolution one is read with taps, `big`, the other pixel by pixel, `small`:
 *     dW[t][i][j] = sum over pixels p of small of big[p * stride - pad + t][i] * small[p][j]
 * For a plain convolution x is big and dy is small, for a transposed one the other way round. Both are loaded into
 * bands, 16 channels of a pixel side by side, so that the taps of a row and 16 channels are one run of floats there.
 * The tile multiplies a few floats of that run with a few channels of small over all pixels of the band, sums in
 * registers, and adds them to a private gradient: a piece of (run floats, small channels).
 *
 * Images are shared out to slots, a number that depends on the shape alone; each slot has a private gradient and is
 * filled by one task, and in the end the slots are added in order. Where the weights are too large for that there are
 * fewer slots, and a task takes only a part of small's channels instead. */
#include <string.h>

#include "backend/cpu/fast/band.h"
#include "backend/cpu/fast/conv.h"
#include "backend/cpu/fast/tile.h"

/* SLICE_BYTES: what one piece reads should stay in the first cache. */
enum { SLOTS = 16, SLOT_BYTES = 32 << 20, SLICE_BYTES = 40 << 10, MAX_IMAGES = 8 };

typedef struct weight_plan {
    tap_geometry taps;
    int big_h, big_w, big_c, big_cp;
    int small_h, small_w, small_c, small_cp;
    size_t big_stride, small_stride; /* in the weights */
    bool compact;                    /* big has fewer than 4 channels, side by side without padding */
    bool swap;                       /* vectors run along big, scalars along small */
    int big_block, small_block;
    int width, left;                 /* of the big band */
    int rows, images;                /* of small that are in the bands at a time */
    int big_rows;
    int slots, splits;
    size_t slot_floats, big_floats, small_floats; /* floats of a slot, and of one image's bands */
} weight_plan;

/* A piece of the gradient: run floats [f, f + floats) of tap row ky and block b of big, small channels
 * [s, s + channels). In memory (floats, channels), or (channels, floats) when swapped. */
typedef struct piece {
    int s, channels, b, ky, f, floats;
    size_t at;
} piece;

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int round_up(int a, int b)
{
    return (a + b - 1) / b * b;
}

static int big_channels(const weight_plan *plan)
{
    return plan->compact ? plan->big_c : plan->big_cp;
}

static int big_pixel(const weight_plan *plan, int b)
{
    return smaller(plan->big_block, big_channels(plan) - b * plan->big_block);
}

static int run_of(const weight_plan *plan, int b)
{
    return plan->taps.k * big_pixel(plan, b);
}

/* The size of a piece, from where it begins. */
static void size_piece(const weight_plan *plan, piece *p)
{
    int floats = run_of(plan, p->b) - p->f, channels = plan->small_cp - p->s;
    if (plan->swap) {
        p->floats = tile_width(floats, OUTER_WIDTH);
        p->channels = outer_scalars(channels, p->floats);
    } else {
        p->channels = tile_width(channels, OUTER_WIDTH);
        p->floats = outer_scalars(floats, p->channels);
    }
}

static piece first_piece(const weight_plan *plan)
{
    piece p = {0};
    size_piece(plan, &p);
    return p;
}

/* Goes on to the next piece: along the run, then tap rows, blocks of big, channels of small. A swapped piece's channels
 * depend on its floats, so the last ones of a row decide; they are all the same when small is narrow, which is when
 * pieces are swapped. */
static void next_piece(const weight_plan *plan, piece *p)
{
    p->at += (size_t)p->floats * (size_t)p->channels;
    p->f += p->floats;
    if (p->f >= run_of(plan, p->b)) {
        p->f = 0;
        if (++p->ky == plan->taps.k) {
            p->ky = 0;
            if (++p->b * plan->big_block >= big_channels(plan)) {
                p->b = 0;
                p->s += p->channels;
            }
        }
    }
    size_piece(plan, p);
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

static void plan_bands(weight_plan *plan, int n)
{
    const tap_geometry *taps = &plan->taps;
    int k = taps->k, stride = taps->stride;
    plan->left = larger(taps->pad, 0);
    plan->width = plan->left + larger((plan->small_w - 1) * stride - taps->pad + k, plan->big_w);
    plan->big_block = CHUNK;
    plan->small_block = larger(CHUNK, OUTER_WIDTH);

    int big_row = plan->width * smaller(plan->big_cp, plan->big_block) * (int)sizeof(float);
    int small_row = plan->small_w * smaller(plan->small_cp, plan->small_block) * (int)sizeof(float);
    int rows = (SLICE_BYTES - (k - stride) * big_row) / (stride * big_row + small_row);
    rows = smaller(larger(rows, 1), plan->small_h);
    int bands = (plan->small_h + rows - 1) / rows;
    plan->rows = (plan->small_h + bands - 1) / bands;
    plan->big_rows = (plan->rows - 1) * stride + k;
    plan->images = 1;
    if (bands == 1)
        plan->images = SLICE_BYTES / (plan->big_rows * big_row + plan->rows * small_row);
    plan->images = smaller(smaller(larger(plan->images, 1), MAX_IMAGES), (n + plan->slots - 1) / plan->slots);
    plan->big_floats = line_floats(band_floats(plan->big_rows, plan->width, plan->big_cp));
    plan->small_floats = line_floats(band_floats(plan->rows, plan->small_w, plan->small_cp));
}

static void plan_slots(weight_plan *plan, int n)
{
    piece p = first_piece(plan);
    while (p.s < plan->small_cp)
        next_piece(plan, &p);
    plan->slot_floats = line_floats(p.at);
    size_t most = SLOT_BYTES / (plan->slot_floats * sizeof(float));
    plan->slots = smaller(smaller(n, SLOTS), most < 1 ? 1 : most > SLOTS ? SLOTS : (int)most);
    int blocks = (plan->small_cp + plan->small_block - 1) / plan->small_block;
    plan->splits = smaller((SLOTS + plan->slots - 1) / plan->slots, blocks);
}

static weight_plan plan_weights(const rc_conv *conv, int n)
{
    weight_plan plan = {.taps = RC_FAST(tap_geometry)(conv, false)};
    size_t kernel = (size_t)plan.taps.k * (size_t)plan.taps.k;
    bool x_is_big = !plan.taps.scatter;
    plan.big_h = x_is_big ? conv->h : conv->oh;
    plan.big_w = x_is_big ? conv->w : conv->ow;
    plan.big_c = x_is_big ? conv->c_in : conv->c_out;
    plan.small_h = x_is_big ? conv->oh : conv->h;
    plan.small_w = x_is_big ? conv->ow : conv->w;
    plan.small_c = x_is_big ? conv->c_out : conv->c_in;
    plan.big_cp = round_up(plan.big_c, 4);
    plan.small_cp = round_up(plan.small_c, 4);
    /* The rows of the weight matrix are c_out, of a transposed one c_in. */
    bool rows_are_big = conv->transposed == x_is_big;
    size_t row = (size_t)(conv->transposed ? conv->c_out : conv->c_in) * kernel;
    plan.big_stride = rows_are_big ? row : kernel;
    plan.small_stride = rows_are_big ? kernel : row;
    plan.compact = x_is_big && plan.big_c < 4;
    plan.swap = plan.small_cp < RC_LANES && plan.big_cp > plan.small_cp;
    plan.big_block = CHUNK;
    plan.small_block = larger(CHUNK, OUTER_WIDTH);
    plan_slots(&plan, n);
    plan_bands(&plan, n);
    return plan;
}

/* ---- the work -------------------------------------------------------------------------------------------------- */

typedef struct weight_job {
    rc_cpu *cpu;
    weight_plan plan;
    const rc_tensor *x;
    const rc_grad *dy;
    float *slots;    /* (slots, slot_floats) */
    double *bias;    /* (slots, 2, cp of dy): sums, and sums of squares that nobody wants */
    float *gradient; /* in the layout of the weights */
    float *folded;   /* (c_out, c_in, k + 1, k + 1) for an enlarged input */
    float *result;
    float *dbias;
} weight_job;

/* The images that are in the bands at a time. */
typedef struct weight_group {
    const weight_job *job;
    int images;
    int channel, channels; /* of small */
    value_source x[MAX_IMAGES];
    gradient_source dy[MAX_IMAGES];
    band big[MAX_IMAGES], small[MAX_IMAGES];
} weight_group;

static void start_group(weight_group *group, int first, float *scratch)
{
    const weight_job *job = group->job;
    const weight_plan *plan = &job->plan;
    bool x_is_big = !plan->taps.scatter;
    int x_cp = x_is_big ? plan->big_cp : plan->small_cp, dy_cp = x_is_big ? plan->small_cp : plan->big_cp;
    float *skip_row = scratch + (size_t)plan->images * (plan->big_floats + plan->small_floats);
    for (int i = 0; i < group->images; i++) {
        group->x[i] = RC_FAST(value_source)(job->x, x_cp, first + i, skip_row);
        group->x[i].store = NULL;
        group->dy[i] = RC_FAST(gradient_source)(job->dy, dy_cp, first + i, skip_row);
        band *big = &group->big[i], *small = &group->small[i];
        *big = (band){.memory = scratch + (size_t)i * plan->big_floats, .rows = plan->big_rows, .width = plan->width,
                      .left = plan->left, .channels = big_channels(plan), .block = plan->big_block,
                      .compact = plan->compact, .read_step = 1, .read_span = 1};
        big->top = big->next = smaller(-plan->taps.pad, 0);
        *small = (band){.memory = scratch + (size_t)plan->images * plan->big_floats + (size_t)i * plan->small_floats,
                        .rows = plan->rows, .width = plan->small_w, .channel = group->channel,
                        .channels = group->channels, .block = plan->small_block, .read_step = 1, .read_span = 1};
        *(x_is_big ? &big->values : &small->values) = &group->x[i];
        *(x_is_big ? &small->gradients : &big->gradients) = &group->dy[i];
    }
}

/* Loads the rows [first, last) of a band of dy's, or of x's, and adds up the new ones for the bias if `sums` is set. */
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

static void run_piece(const weight_group *group, const piece *p, int first, int last, float *slot)
{
    const weight_plan *plan = &group->job->plan;
    const band *big = &group->big[0], *small = &group->small[0];
    int stride = plan->taps.stride, in_group = p->s - group->channel, b = in_group / plan->small_block;
    int small_pixel = band_pixel(small, b), pixel = big_pixel(plan, p->b);
    const float *from_big = band_row(big, first * stride - plan->taps.pad + p->ky, p->b) +
                            (plan->left - plan->taps.pad) * pixel + p->f;
    const float *from_small = band_row(small, first, b) + (in_group - b * plan->small_block);
    tile_outer outer = {.a = from_big, .a_pixel = (ptrdiff_t)stride * pixel,
                        .a_row = (ptrdiff_t)stride * plan->width * pixel, .a_image = (ptrdiff_t)plan->big_floats,
                        .b = from_small, .b_pixel = small_pixel, .b_row = (ptrdiff_t)plan->small_w * small_pixel,
                        .b_image = (ptrdiff_t)plan->small_floats, .images = group->images, .rows = last - first,
                        .pixels = plan->small_w, .d = slot + p->at, .scalars = p->floats, .width = p->channels};
    if (plan->swap)
        outer = (tile_outer){.a = outer.b, .a_pixel = outer.b_pixel, .a_row = outer.b_row, .a_image = outer.b_image,
                             .b = outer.a, .b_pixel = outer.a_pixel, .b_row = outer.a_row, .b_image = outer.a_image,
                             .images = outer.images, .rows = outer.rows, .pixels = outer.pixels, .d = outer.d,
                             .scalars = p->channels, .width = p->floats};
    RC_FAST(tile_outer)(&outer);
}

static void weight_task(void *context, int task, int worker)
{
    const weight_job *job = context;
    const weight_plan *plan = &job->plan;
    int slot = task / plan->splits, split = task % plan->splits, n = job->x->n;
    int blocks = (plan->small_cp + plan->small_block - 1) / plan->small_block;
    weight_group group = {.job = job, .channel = blocks * split / plan->splits * plan->small_block};
    int end = smaller(blocks * (split + 1) / plan->splits * plan->small_block, plan->small_cp);
    group.channels = end - group.channel;

    piece begin = first_piece(plan);
    while (begin.s < group.channel)
        next_piece(plan, &begin);
    piece after = begin;
    while (after.s < end)
        next_piece(plan, &after);
    float *sums = job->slots + (size_t)slot * plan->slot_floats;
    memset(sums + begin.at, 0, (after.at - begin.at) * sizeof(float));
    int dy_cp = plan->taps.scatter ? plan->big_cp : plan->small_cp;
    double *bias = job->bias ? job->bias + (size_t)slot * (size_t)dy_cp : NULL;
    double *big_bias = plan->taps.scatter && split == 0 ? bias : NULL, *small_bias = plan->taps.scatter ? NULL : bias;

    int last_image = (int)((int64_t)n * (slot + 1) / plan->slots);
    for (int image = (int)((int64_t)n * slot / plan->slots); image < last_image; image += group.images) {
        group.images = smaller(plan->images, last_image - image);
        start_group(&group, image, rc_cpu_scratch(job->cpu, worker));
        for (int row = 0; row < plan->small_h; row += plan->rows) {
            int last = smaller(row + plan->rows, plan->small_h), big_row = row * plan->taps.stride - plan->taps.pad;
            for (int i = 0; i < group.images; i++) {
                if (big_bias)
                    sum_rows_until(&group.big[i], big_row, big_bias);
                load_and_sum(&group.big[i], big_row, big_row + (last - row - 1) * plan->taps.stride + plan->taps.k,
                             big_bias);
                load_and_sum(&group.small[i], row, last, small_bias);
            }
            for (piece p = begin; p.s < end; next_piece(plan, &p))
                run_piece(&group, &p, row, last, sums);
        }
        for (int i = 0; big_bias && i < group.images; i++)
            sum_rows_until(&group.big[i], plan->big_h, big_bias);
    }
}

/* ---- adding up ------------------------------------------------------------------------------------------------- */

/* One piece, all slots, to the layout of the weights. */
static void reduce_piece(const weight_job *job, const piece *p)
{
    const weight_plan *plan = &job->plan;
    enum { LARGEST = 16 * OUTER_WIDTH };
    float sum[LARGEST];
    int size = p->floats * p->channels, k = plan->taps.k, pixel = big_pixel(plan, p->b);
    memcpy(sum, job->slots + p->at, (size_t)size * sizeof(float));
    for (int slot = 1; slot < plan->slots; slot++) {
        const float *add = job->slots + (size_t)slot * plan->slot_floats + p->at;
        for (int i = 0; i < size; i++)
            sum[i] += add[i];
    }
    for (int f = 0; f < p->floats; f++) {
        int kx = (p->f + f) / pixel, in_block = (p->f + f) % pixel, big = p->b * plan->big_block + in_block;
        if (kx >= k || big >= plan->big_c)
            continue;
        float *to = job->gradient + (size_t)big * plan->big_stride + (size_t)(p->ky * k + kx);
        for (int s = 0; s < p->channels && p->s + s < plan->small_c; s++)
            to[(size_t)(p->s + s) * plan->small_stride] =
                sum[plan->swap ? s * p->floats + f : f * p->channels + s];
    }
}

/* A task takes the pieces of one block of small channels. */
static void reduce_task(void *context, int task, int worker)
{
    (void)worker;
    const weight_job *job = context;
    int number = -1, s = -1;
    for (piece p = first_piece(&job->plan); p.s < job->plan.small_cp && number <= task; next_piece(&job->plan, &p)) {
        if (p.s != s)
            number++;
        s = p.s;
        if (number == task)
            reduce_piece(job, &p);
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

static size_t folded_floats(const weight_plan *plan)
{
    if (!plan->taps.folded)
        return 0;
    return line_floats((size_t)plan->big_c * (size_t)plan->small_c * (size_t)(plan->taps.k * plan->taps.k));
}

workspace RC_FAST(weight_workspace)(const rc_conv *conv, int n)
{
    weight_plan plan = plan_weights(conv, n);
    int deepest = larger(plan.big_cp, plan.small_cp), widest = larger(plan.big_w, plan.small_w);
    workspace need = {.shared = (size_t)plan.slots * (plan.slot_floats + line_floats(2 * (size_t)deepest)) +
                                folded_floats(&plan),
                      .scratch = (size_t)plan.images * (plan.big_floats + plan.small_floats) +
                                 line_floats((size_t)deepest * (size_t)widest)};
    return need;
}

void RC_FAST(conv_backward_weight)(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    weight_job job = {.cpu = rc_cpu_of(table), .plan = plan_weights(conv, x->n), .x = x, .dy = dy, .result = dweight,
                      .dbias = dbias};
    const weight_plan *plan = &job.plan;
    int dy_cp = plan->taps.scatter ? plan->big_cp : plan->small_cp;
    job.slots = job.cpu->shared;
    job.folded = job.slots + (size_t)plan->slots * plan->slot_floats;
    job.gradient = plan->taps.folded ? job.folded : job.result;
    if (dbias) {
        job.bias = (double *)(void *)(job.folded + folded_floats(plan));
        memset(job.bias, 0, (size_t)plan->slots * (size_t)dy_cp * sizeof(double));
    }
    rc_pool_run(job.cpu->pool, plan->slots * plan->splits, weight_task, &job);

    int rows = 0;
    for (piece p = first_piece(plan); p.s < plan->small_cp; rows++)
        p.s += p.channels, size_piece(plan, &p);
    rc_pool_run(job.cpu->pool, rows, reduce_task, &job);
    if (plan->taps.folded)
        rc_pool_run(job.cpu->pool, conv->c_out, unfold_task, &job);
    for (int c = 0; dbias && c < conv->c_out; c++) {
        double sum = 0;
        for (int slot = 0; slot < plan->slots; slot++)
            sum += job.bias[(size_t)slot * (size_t)dy_cp + (size_t)c];
        ((float *)dbias)[c] = (float)sum;
    }
}
