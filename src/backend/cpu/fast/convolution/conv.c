/* Convolution: forward and data gradient.
 *
 * Everything here is one loop. For an output pixel and a block of output channels
 *     out[pixel][:] = sum over tap rows, taps, input channels of in[pixel * step + tap][channel] * w[tap][channel][:]
 * and conv_plan.h turns every convolution, strided, transposed, enlarged, forward or backward, into one or several such
 * sums over a grid of pixels. In NHWC the taps of one tap row are neighbours in memory, so a tap row is one run of
 * taps * channels floats; the tile (tile.h) keeps a few pixels times a block of output channels in registers, walks
 * along the runs, and does nothing but fused multiply-adds on weights that were packed in exactly the order it reads.
 *
 * The tile has no edge cases because it never sees the image. A worker takes an image and goes down in bands of a few
 * output rows. It loads the input rows that the band needs into its scratch, with a border of zeros, and what is
 * pending on the tensor (normalisation, skip, activation; in backward the gradient of those) is done on the way:
 * the numbers pass through the registers anyway. Rows that the last band has loaded are kept. Then the tiles run over
 * the band, one block of output channels after the other, so that a block's weights stay in the first cache; more
 * input channels than fit there are cut into blocks, too, and the sums wait in the output. Last, while the band is
 * still in the cache, comes the epilogue: sums for batch normalisation, or the finished value in evaluation.
 *
 * A kernel as large as its map is a product of matrices and has nothing to do with all this (whole.h).
 *
 * Three forms have a way of their own from the band to the outputs, with fewer multiplications or fewer empty lanes, on
 * the same tiles: 3 x 3 kernels of step 1 (winograd.h), 3 x 3 kernels behind an enlargement (enlarged.h), and few
 * outputs (narrow.h).
 *
 * Same bits for any number of threads: what a task computes does not depend on who runs it, and the sums of an image,
 * or of each half of it, are added by one task, from top to bottom: a few pixels in float, the rest in double.
 *
 * Weights arrive in PyTorch's layout and are packed at every call. That is a pass over the weights against one over
 * weights times pixels times images, and leaves no state that could be out of date.
 */
#include "backend/cpu/fast/convolution/conv.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/both.h"
#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/enlarged.h"
#include "backend/cpu/fast/convolution/limits.h"
#include "backend/cpu/fast/convolution/narrow.h"
#include "backend/cpu/fast/convolution/weight_plan.h"
#include "backend/cpu/fast/convolution/whole.h"
#include "backend/cpu/fast/convolution/winograd.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

/* What one call does, for its tasks. */
typedef struct conv_job {
    rc_cpu *cpu;
    conv_plan plan;
    pack_job packing; /* tasks that come first */
    rc_phase pack;
    const float *packed;
    const float *start; /* (out_cp rounded up to whole vectors): bias, or zeros */
    float *out;         /* (n, out_h, out_w, out_cp) */
    bool add;
    int n, parts;            /* images, each of them cut into so many parts */
    int shares, share_tasks; /* tasks come in shares of so many; 0: one group or part is one task */
    bool reversed;
    double *part_sums;       /* (n, parts, 2, out_cp), where there are sums and parts */
    _Atomic int *parts_done; /* (n) */

    const rc_tensor *x; /* forward: the input, ... */
    const rc_tensor *y;
    const rc_epilogue *epilogue;
    bool finishes;       /* the tiles apply what is pending on y */
    const float *center; /* (out_cp) */
    const rc_grad *dy;   /* ... backward: the gradient that comes in */
    const rc_back_epilogue *back_epilogue;
} conv_job;

/* One image, or a part of it, on its way through a worker. */
typedef struct conv_image {
    const conv_job *job;
    int image;
    value_source x;     /* forward */
    gradient_source dy; /* backward */
    row_band band;
    const float *direct;        /* (in_h, in_w, in_cp): the tiles read the tensor itself; NULL: the band */
    float *out;                 /* (out_h, out_w, out_cp) */
    const float *scale, *shift; /* (out_cp): for the tiles that finish; NULL: none */
    double *sums;               /* (2, out_cp), of the part that is worked on */
    float *skip_row, *workspace;
} conv_image;

/* ---- multiplying ----------------------------------------------------------------------------------------------- */

static bool finishes_in_tiles(const conv_job *job)
{
    const rc_tensor *y = job->y;
    float low, high;
    return job->epilogue->apply && !y->skip.value && act_limits(y->act, &low, &high) && job->plan.way == CONV_DIRECT &&
           job->plan.taps.out_step == 1 && job->plan.out_cp % RC_LANES == 0;
}

static void finish_in_tiles(const conv_image *image, int out, tile_row *row)
{
    row->finish = act_limits(image->job->y->act, &row->low, &row->high);
    row->scale = image->scale ? image->scale + out : NULL;
    row->shift = image->scale ? image->shift + out : NULL;
}

/* The units [first, last) of one residue, one block of output channels, one block of input channels. */
static void run_block(const conv_image *image, int out, int b, int residue_y, int residue_x, int first, int last)
{
    const conv_job *job = image->job;
    const conv_plan *plan = &job->plan;
    const tap_axis *y = &plan->y[residue_y], *x = &plan->x[residue_x];
    int channels = band_pixel(&image->band, b), pixel = image->direct ? plan->in_cp : channels;
    int width = image->direct ? plan->in_w : plan->width, step = plan->taps.out_step;
    bool continues = b > 0 || job->add;
    tile_row row = {
        .x_pixel = (ptrdiff_t)plan->taps.in_step * pixel,
        .x_row = (ptrdiff_t)width * pixel,
        .rows = x->taps > 0 ? y->taps : 0,
        .run = x->taps * channels,
        .x_chunk = TILE_CHUNK,
        .w = job->packed + RC_FAST(packed_at)(plan, out, b, residue_y, residue_x),
                                   .start = continues ? NULL : job->start + out,
                                   .y_pixel = (ptrdiff_t)step * plan->out_cp, .pixels = x->outputs,
                                   .width = tile_width(plan->out_cp - out, TILE_WIDTH), .batch = 1,
             };
    row.channels = row.width < plan->out_cp - out ? row.width : plan->out_cp - out;
    if (row.rows == 0 && continues)
        return;
    if (job->finishes && b == plan->blocks - 1)
        finish_in_tiles(image, out, &row);
    int end = smaller(last, y->outputs);
    /* Where pixel meets pixel, rows follow each other without a gap, in x as in y. */
    bool together = plan->taps.k == 1 && plan->taps.in_step == 1 && step == 1 && width == x->outputs;
    int rows = together && end > first ? end - first : 1;
    row.pixels = rows * x->outputs;
    for (int unit = first; unit < end; unit += rows) {
        int in_row = unit * plan->taps.in_step + y->first;
        if (image->direct)
            row.x = image->direct + ((ptrdiff_t)in_row * width + x->first) * pixel + b * plan->block;
        else
            row.x = band_row(&image->band, row.rows ? in_row : image->band.top, b) + (x->first + plan->left) * pixel;
        row.y = image->out + ((ptrdiff_t)(unit * step + residue_y) * plan->out_w + residue_x) * plan->out_cp + out;
        RC_FAST(tile_row)(&row);
    }
}

/* ---- epilogue -------------------------------------------------------------------------------------------------- */

static void finish_band(const conv_image *image, int first_row, int rows)
{
    const conv_job *job = image->job;
    const conv_plan *plan = &job->plan;
    int cp = plan->out_cp;
    float *out = image->out + (size_t)first_row * (size_t)plan->out_w * (size_t)cp;
    if (job->dy) {
        if (!image->sums)
            return;
        rc_grad finished = {.y = job->back_epilogue->x, .g = job->out};
        gradient_source source = RC_FAST(gradient_source)(&finished, cp, image->image, image->skip_row);
        RC_FAST(sum_gradients)(&source, first_row, rows, 0, cp, image->sums);
        return;
    }
    if (image->sums)
        RC_FAST(sum_values)(out, cp, rows * plan->out_w, 0, cp, job->center, image->sums);
    if (job->epilogue->apply && !job->finishes) {
        rc_tensor pending = *job->y;
        pending.value = NULL;
        pending.stored = false;
        value_source source = RC_FAST(value_source)(&pending, cp, image->image, image->skip_row);
        RC_FAST(load_value_rows)(&source, first_row, rows, 0, cp, out, cp, (ptrdiff_t)plan->out_w * cp);
    }
}

/* ---- one image ------------------------------------------------------------------------------------------------- */

/* The tiles can read the tensor itself where nothing is pending, no border is needed, and a tap row is contiguous. */
static const float *read_directly(const conv_image *image)
{
    const conv_job *job = image->job;
    const conv_plan *plan = &job->plan;
    bool plain = job->dy ? image->dy.y.act == RC_ACT_NONE && !image->dy.a : image->x.value != NULL;
    bool contiguous = !plan->compact && (plan->blocks == 1 || plan->taps.k == 1);
    if (plan->way != CONV_DIRECT || !plain || plan->borders || !contiguous)
        return NULL;
    return job->dy ? image->dy.g : image->x.value;
}

/* `number`: of the images that are worked on together. */
static void start_image(conv_image *image, int number, int worker)
{
    const conv_job *job = image->job;
    const conv_plan *plan = &job->plan;
    float *scratch = rc_cpu_scratch(job->cpu, worker);
    image->workspace = scratch + (size_t)plan->images * line_floats(plan->band_floats);
    image->skip_row = image->workspace + line_floats(plan->workspace_floats);
    image->band = (row_band){.memory = scratch + (size_t)number * line_floats(plan->band_floats),
                             .rows = plan->rows,
                             .width = plan->width,
                             .left = plan->left,
                             .channels = plan->compact ? plan->in_c : plan->in_cp,
                             .block = plan->block,
                             .compact = plan->compact,
                             .read_first = plan->first_y,
                             .read_step = plan->taps.in_step,
                             .read_span = plan->span_y};
    if (job->dy) {
        image->dy = RC_FAST(gradient_source)(job->dy, plan->in_cp, image->image, image->skip_row);
        image->band.gradients = &image->dy;
    } else {
        image->x = RC_FAST(value_source)(job->x, plan->in_cp, image->image, image->skip_row);
        image->band.values = &image->x;
    }
    image->direct = read_directly(image);
    if (job->finishes && job->y->scale) {
        size_t vectors = (size_t)rc_group_of(job->y, image->image) * (size_t)plan->out_cp;
        image->scale = (const float *)job->y->scale + vectors;
        image->shift = (const float *)job->y->shift + vectors;
    }
    image->out = job->out + (size_t)image->image * (size_t)plan->out_h * (size_t)plan->out_w * (size_t)plan->out_cp;
}

/* Loads what the units [first, last) need. Winograd's tiles may reach below the last. */
static void load_band(conv_image *image, int first, int last)
{
    const conv_plan *plan = &image->job->plan;
    int step = plan->taps.in_step, rows = last - first;
    if (plan->way == CONV_WINOGRAD)
        rows = round_up(rows, 2);
    if (!image->direct)
        RC_FAST(band_load)(&image->band, first * step + plan->first_y,
                           (first + rows - 1) * step + plan->first_y + plan->span_y);
}

static void multiply_direct(const conv_image *image, int images, int first, int last)
{
    const conv_plan *plan = &image->job->plan;
    int step = plan->taps.out_step;
    for (int out = 0; out < plan->out_cp; out += TILE_WIDTH)
        for (int b = 0; b < plan->blocks; b++)
            for (int residue = 0; residue < step * step; residue++)
                for (int i = 0; i < images; i++)
                    run_block(&image[i], out, b, residue / step, residue % step, first, last);
}

static void multiply_winograd(const conv_image *image, int images, int first, int last)
{
    const conv_job *job = image->job;
    const conv_plan *plan = &job->plan;
    int tiles = (plan->out_w + 1) / 2 * ((last - first + 1) / 2);
    for (int row = 0; row < 4; row++) {
        for (int i = 0; i < images; i++)
            RC_FAST(winograd_inputs)(plan, &image[i].band, first, last, i * tiles, row, image->workspace);
        RC_FAST(winograd_multiply)(plan, job->packed, images * tiles, row, image->workspace);
    }
    for (int i = 0; i < images; i++)
        RC_FAST(winograd_outputs)(plan, job->add ? NULL : job->start, image[i].out, first, last, i * tiles,
                                  image->workspace);
}

/* The outputs of the units [first, last) of one image, or of several. */
static void multiply_band(const conv_image *image, int images, int first, int last)
{
    const conv_job *job = image->job;
    const conv_plan *plan = &job->plan;
    const float *start = job->add ? NULL : job->start;
    switch (plan->way) {
    case CONV_DIRECT: multiply_direct(image, images, first, last); break;
    case CONV_WINOGRAD: multiply_winograd(image, images, first, last); break;
    case CONV_ENLARGED:
        if (job->dy)
            RC_FAST(enlarged_backward)(plan, &image->band, job->packed, job->add, image->out, first, last,
                                       image->workspace);
        else
            RC_FAST(enlarged_forward)(plan, &image->band, job->packed, start, image->out, first, last,
                                      image->workspace);
        break;
    case CONV_NARROW:
        RC_FAST(run_narrow)(plan, &image->band, job->packed, start, image->out, first, last, image->workspace);
        break;
    }
}

/* ---- tasks ----------------------------------------------------------------------------------------------------- */

/* Images [image, image + images), of each the parts [part, part + parts). */
typedef struct conv_piece {
    int image, images, part, parts;
} conv_piece;

static int groups_of_share(const conv_job *job, int images)
{
    return images > 0 ? (images - 1) / job->plan.images : 0;
}

/* One image less may be more tasks: one group less, whose images are tasks of their own. */
static int tasks_of_share(const conv_job *job, int images)
{
    int groups = groups_of_share(job, images);
    return groups + images - groups * job->plan.images - 1 + job->parts;
}

/* A share ends with what is shorter: groups of images first, then images one by one, the last of them in its parts. A
 * core that is slower than the others is then waited for no longer than that takes. Every second operation goes through
 * the images of a share from the last to the first: it begins with those that are still in the cache. */
static conv_piece piece_of_share(const conv_job *job, int task)
{
    int share = task / job->share_tasks, index = task % job->share_tasks, group = job->plan.images;
    int first = (int)((int64_t)job->n * share / job->shares), end = (int)((int64_t)job->n * (share + 1) / job->shares);
    int count = end - first, groups = groups_of_share(job, count), single = groups * group + index - groups;
    conv_piece piece = {.image = single, .images = 1, .parts = job->parts};
    if (index < groups) {
        piece = (conv_piece){index * group, group, 0, job->parts};
    } else if (single >= count - 1) {
        piece = (conv_piece){count - 1, 1, single - (count - 1), 1};
        if (count == 0 || piece.part >= job->parts)
            return (conv_piece){0}; /* this share has fewer images than others */
    }
    piece.image = first + (job->reversed ? count - piece.image - piece.images : piece.image);
    return piece;
}

static conv_piece piece_of_task(const conv_job *job, int task)
{
    if (job->share_tasks > 0)
        return piece_of_share(job, task);
    int group = job->plan.images, first = task / job->parts * group;
    return (conv_piece){first, job->n - first < group ? job->n - first : group, task % job->parts, 1};
}

/* The unit that a part of an image begins with. */
static int part_begin(const conv_job *job, int part)
{
    int unit = job->plan.units * part / job->parts;
    return job->plan.way == CONV_WINOGRAD && part < job->parts ? unit / 2 * 2 : unit; /* its tiles are two rows high */
}

static double *sums_of_image(const conv_job *job, int image)
{
    void *partial = job->dy ? job->back_epilogue->partial : job->epilogue->partial;
    return partial ? rc_cpu_partial(partial, image, job->plan.out_cp) : NULL;
}

static void start_sums(conv_image *image, int part)
{
    const conv_job *job = image->job;
    size_t count = 2 * (size_t)job->plan.out_cp;
    image->sums = sums_of_image(job, image->image);
    if (image->sums && job->parts > 1)
        image->sums = job->part_sums + (size_t)(image->image * job->parts + part) * count;
    if (image->sums)
        memset(image->sums, 0, count * sizeof(double));
}

/* The task that completes the parts of an image adds up their sums. */
static void finish_parts(const conv_job *job, int image, int parts)
{
    double *sums = sums_of_image(job, image);
    if (!sums || job->parts == 1 || atomic_fetch_add(&job->parts_done[image], parts) + parts < job->parts)
        return;
    size_t count = 2 * (size_t)job->plan.out_cp;
    const double *part = job->part_sums + (size_t)(image * job->parts) * count;
    for (size_t i = 0; i < count; i++) {
        sums[i] = part[i];
        for (size_t p = 1; p < (size_t)job->parts; p++)
            sums[i] += part[p * count + i];
    }
}

/* The units [begin, end) of all images. */
static void run_units(conv_image *image, int images, int begin, int end)
{
    const conv_plan *plan = &image->job->plan;
    int step = plan->taps.out_step;
    for (int unit = begin, last; unit < end; unit = last) {
        last = unit + plan->band < end ? unit + plan->band : end;
        for (int i = 0; i < images; i++)
            load_band(&image[i], unit, last);
        multiply_band(image, images, unit, last);
        int last_row = last * step < plan->out_h ? last * step : plan->out_h;
        for (int i = 0; i < images; i++)
            finish_band(&image[i], unit * step, last_row - unit * step);
    }
}

static void run_piece(const conv_job *job, conv_piece piece, int worker)
{
    const conv_plan *plan = &job->plan;
    int begin = part_begin(job, piece.part), last_part = piece.part + piece.parts;
    conv_image image[MAX_PLAN_IMAGES];
    for (int i = 0; i < piece.images; i++) {
        image[i] = (conv_image){.job = job, .image = piece.image + i};
        start_image(&image[i], i, worker);
        row_band *band = &image[i].band;
        band->top = begin * plan->taps.in_step + plan->first_y;
        band->store_first = piece.part == 0 ? 0 : begin * plan->taps.in_step;
        band->store_end = last_part == job->parts ? plan->in_h : part_begin(job, last_part) * plan->taps.in_step;
        band->next = band->top > band->store_first ? band->store_first : band->top;
    }
    for (int part = piece.part; part < last_part; part++) {
        for (int i = 0; i < piece.images; i++)
            start_sums(&image[i], part);
        run_units(image, piece.images, part_begin(job, part), part_begin(job, part + 1));
    }
    for (int i = 0; i < piece.images; i++) {
        finish_parts(job, piece.image + i, piece.parts);
        /* Rows below all taps have values, too. */
        if (image[i].band.values && image[i].x.store)
            RC_FAST(band_load)(&image[i].band, image[i].band.store_end, image[i].band.store_end);
    }
}

static void conv_task(void *context, int task, int worker)
{
    conv_piece piece = piece_of_task(context, task);
    if (piece.images > 0)
        run_piece(context, piece, worker);
}

/* Of a weight_sequel. */
static void data_task(void *context, int image, int images, int worker)
{
    const conv_job *job = context;
    for (int last = image + images, group; image < last; image += group) {
        group = smaller(job->plan.images, last - image);
        run_piece(job, (conv_piece){image, group, 0, job->parts}, worker);
    }
}

/* ---- the operations -------------------------------------------------------------------------------------------- */

/* Images are done in halves where that leaves all bands as they are. */
static int plan_parts(const conv_plan *plan)
{
    return RC_FAST(plan_limits)()->uneven_tasks && plan->images == 1 && plan->units % (2 * plan->band) == 0 ? 2 : 1;
}

static void no_part_is_done(const conv_job *job)
{
    for (int image = 0; image < job->n; image++)
        atomic_init(&job->parts_done[image], 0);
}

/* With short vectors a batch takes so long that the last task does not matter. Few images are cut into more parts for
 * the threads, unless sums or stored values are wanted. */
static void run_job(conv_job *job, int n, bool with_sums)
{
    enum { TASKS = 32 };
    const conv_plan *plan = &job->plan;
    job->n = n;
    job->parts = 1;
    if (RC_FAST(plan_limits)()->uneven_tasks && (with_sums || n >= TASKS)) {
        job->parts = plan_parts(plan);
        job->shares = rc_pool_threads(job->cpu->pool);
        int fewest = n / job->shares, most = (n + job->shares - 1) / job->shares;
        job->share_tasks = larger(tasks_of_share(job, fewest), tasks_of_share(job, most));
        no_part_is_done(job);
        job->reversed = job->cpu->turn++ % 2 == 1;
        rc_pool_run_two(job->cpu->pool, job->pack, (rc_phase){job->shares * job->share_tasks, conv_task, job});
        return;
    }
    if (!with_sums && n < TASKS) {
        int parts = (TASKS + n - 1) / n, most = (plan->units + 3) / 4;
        job->parts = parts < most ? parts : most;
    }
    int tasks = (n + plan->images - 1) / plan->images * job->parts;
    rc_pool_run_two(job->cpu->pool, job->pack, (rc_phase){tasks, conv_task, job});
}

/* What the plan has no form for: enlarging before a strided or transposed convolution. No net does that. */
static bool plan_fits(const rc_conv *conv)
{
    return conv->stride <= MAX_STRIDE && (conv->up == 1 || (conv->up == 2 && conv->stride == 1 && !conv->transposed));
}

static rc_backend reference_operations(void)
{
    rc_backend table = {0};
    rc_reference_fill_float(&table);
    return table;
}

static size_t start_floats(const conv_plan *plan)
{
    return line_floats((size_t)plan->out_cp + TILE_WIDTH);
}

/* Sums of parts, and how many of them are done. */
static size_t sums_floats(const conv_plan *plan, int n)
{
    return line_floats(2 * (size_t)n * (size_t)plan_parts(plan) * 2 * (size_t)plan->out_cp);
}

static size_t done_floats(int n)
{
    return line_floats((size_t)n * (sizeof(_Atomic int) + sizeof(float) - 1) / sizeof(float));
}

/* Lays out the shared workspace (start, center, packed, folded, sums, done) and says how the weights are packed. */
static void prepare(conv_job *job, int n, const void *weight, const void *bias, const void *center)
{
    const conv_plan *plan = &job->plan;
    float *start = job->cpu->shared, *padded_center = start + start_floats(plan);
    float *packed = padded_center + start_floats(plan), *folded = packed + line_floats(plan->packed_floats);
    float *sums = folded + line_floats(plan->folded_floats);
    job->part_sums = (double *)(void *)sums;
    job->parts_done = (_Atomic int *)(void *)(sums + sums_floats(plan, n));
    memset(start, 0, 2 * start_floats(plan) * sizeof(float));
    if (bias)
        memcpy(start, bias, (size_t)plan->out_c * sizeof(float));
    if (center)
        memcpy(padded_center, center, (size_t)plan->out_c * sizeof(float));
    job->packing = (pack_job){.plan = plan, .weight = weight, .packed = packed};
    switch (plan->way) {
    case CONV_DIRECT:
        if (plan->taps.folded)
            RC_FAST(fold_weights)(job->cpu, &job->packing, folded);
        job->pack = RC_FAST(pack_weights)(&job->packing);
        break;
    case CONV_WINOGRAD: job->pack = RC_FAST(pack_winograd)(&job->packing); break;
    case CONV_ENLARGED: job->pack = RC_FAST(pack_enlarged)(&job->packing); break;
    case CONV_NARROW: RC_FAST(pack_narrow)(plan, weight, packed); break;
    }
    job->start = start;
    job->center = padded_center;
    job->packed = packed;
}

static void conv_forward(rc_backend *table, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    if (!plan_fits(conv)) {
        reference_operations().conv_forward(table, conv, x, weight, bias, y, epilogue);
        return;
    }
    if (RC_FAST(whole_fits)(conv)) {
        RC_FAST(whole_forward)(rc_cpu_of(table), conv, x, weight, bias, y, epilogue);
        return;
    }
    conv_job job = {.cpu = rc_cpu_of(table),
                    .plan = RC_FAST(plan_forward)(conv, x->n), .out = y->raw, .x = x, .y = y, .epilogue = epilogue};
    job.finishes = finishes_in_tiles(&job);
    prepare(&job, x->n, weight, bias, epilogue->center);
    run_job(&job, x->n, epilogue->partial || (x->value && !x->stored));
    x->stored = x->value != NULL;
}

static void conv_backward_data(rc_backend *table, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    if (!plan_fits(conv)) {
        reference_operations().conv_backward_data(table, conv, dy, weight, dx, epilogue);
        return;
    }
    if (RC_FAST(whole_fits)(conv)) {
        RC_FAST(whole_backward_data)(rc_cpu_of(table), conv, dy, weight, dx, epilogue);
        return;
    }
    conv_job job = {.cpu = rc_cpu_of(table),
                    .plan = RC_FAST(plan_backward_data)(conv, dy->y->n), .out = dx, .dy = dy, .back_epilogue = epilogue,
                                    .add = epilogue->add};
    prepare(&job, dy->y->n, weight, NULL, NULL);
    run_job(&job, dy->y->n, epilogue->partial != NULL);
}

static void conv_backward_weight(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    rc_cpu *cpu = rc_cpu_of(table);
    if (!plan_fits(conv))
        reference_operations().conv_backward_weight(table, conv, x, dy, dweight, dbias);
    else if (RC_FAST(whole_fits)(conv))
        RC_FAST(whole_backward_weight)(cpu, conv, x, dy, dweight, dbias);
    else
        RC_FAST(conv_backward_weight)(cpu, conv, x, dy, dweight, dbias, NULL, cpu->shared);
}

/* Both gradients of an image one after the other, so that the second finds dy and x in the cache? Few images are rather
 * cut into parts. */
static bool runs_together(const rc_conv *conv, int n)
{
    return n >= RC_FAST(plan_limits)()->fewest_together && plan_fits(conv) &&
                        !RC_FAST(whole_fits)(conv) && RC_FAST(weights_take_sequel)(conv, n);
}

static size_t shared_floats(const conv_plan *plan, int n)
{
    return 2 * start_floats(plan) + line_floats(plan->packed_floats) + line_floats(plan->folded_floats) +
           sums_floats(plan, n) + done_floats(n);
}

static void conv_both(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, const void *weight,
                      void *dweight, void *dbias, void *dx, const rc_back_epilogue *epilogue)
{
    if (!runs_together(conv, x->n)) {
        conv_backward_weight(table, conv, x, dy, dweight, dbias);
        conv_backward_data(table, conv, dy, weight, dx, epilogue);
        return;
    }
    rc_cpu *cpu = rc_cpu_of(table);
    conv_job job = {.cpu = cpu,
                    .plan = RC_FAST(plan_backward_data)(conv, x->n), .n = x->n, .out = dx, .dy = dy,
                                    .back_epilogue = epilogue, .add = epilogue->add};
    job.parts = plan_parts(&job.plan);
    prepare(&job, x->n, weight, NULL, NULL);
    no_part_is_done(&job);
    const weight_sequel sequel = {job.pack, data_task, &job};
    RC_FAST(conv_backward_weight)(cpu, conv, x, dy, dweight, dbias, &sequel,
                                  (float *)cpu->shared + shared_floats(&job.plan, x->n));
}

rc_conv_both *RC_FAST(conv_both)(const rc_backend *be)
{
    bool own = be->conv_backward_data == conv_backward_data && be->conv_backward_weight == conv_backward_weight;
    return own ? conv_both : NULL;
}

static rc_status reserve_conv(rc_backend *table, const rc_conv *conv, int n)
{
    if (!plan_fits(conv))
        return reference_operations().reserve_conv(table, conv, n);
    workspace need = {0};
    if (RC_FAST(whole_fits)(conv)) {
        need = RC_FAST(whole_workspace)(conv, n);
        return rc_cpu_reserve(rc_cpu_of(table), need.shared * sizeof(float), need.scratch * sizeof(float));
    }
    /* A smaller batch has fewer slots, which may need more scratch. */
    for (int batch = 1; batch <= n; batch = batch < SLOTS || batch == n ? batch + 1 : n) {
        workspace gradient = RC_FAST(weight_workspace)(conv, batch);
        need.shared = need.shared > gradient.shared ? need.shared : gradient.shared;
        need.scratch = need.scratch > gradient.scratch ? need.scratch : gradient.scratch;
    }
    const conv_plan plans[] = {RC_FAST(plan_forward)(conv, n), RC_FAST(plan_backward_data)(conv, n)};
    for (int i = 0; i < 2; i++) {
        const conv_plan *plan = &plans[i];
        int widest = plan->in_w > plan->out_w ? plan->in_w : plan->out_w;
        int deepest = plan->in_cp > plan->out_cp ? plan->in_cp : plan->out_cp;
        size_t shared = shared_floats(plan, n);
        if (i == 1 && runs_together(conv, n))
            shared += RC_FAST(weight_workspace)(conv, n).shared;
        size_t scratch = (size_t)plan->images * line_floats(plan->band_floats) + line_floats(plan->workspace_floats) +
                         line_floats((size_t)widest * (size_t)deepest);
        need.shared = need.shared > shared ? need.shared : shared;
        need.scratch = need.scratch > scratch ? need.scratch : scratch;
    }
    return rc_cpu_reserve(rc_cpu_of(table), need.shared * sizeof(float), need.scratch * sizeof(float));
}

void RC_FAST(fill_conv)(rc_backend *table)
{
    table->reserve_conv = reserve_conv;
    table->conv_forward = conv_forward;
    table->conv_backward_data = conv_backward_data;
    table->conv_backward_weight = conv_backward_weight;
    RC_FAST(fill_linear)(table);
}
