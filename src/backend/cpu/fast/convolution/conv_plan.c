#include "backend/cpu/fast/convolution/conv_plan.h"

#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/enlarged.h"
#include "backend/cpu/fast/convolution/limits.h"
#include "backend/cpu/fast/convolution/narrow.h"
#include "backend/cpu/fast/convolution/winograd.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/product.h"
#include "backend/cpu/fast/product/tile.h"

static int floor_div(int a, int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

tap_geometry RC_FAST(tap_geometry)(const rc_conv *conv, bool backward)
{
    tap_geometry taps = {.k = conv->k, .stride = conv->stride, .pad = conv->pad};
    taps.scatter = conv->transposed;
    if (conv->up == 2) {
        taps.k = conv->k + 1;
        taps.stride = 2;
        taps.pad = conv->k - 1 - conv->pad;
        taps.scatter = taps.folded = true;
    }
    if (backward)
        taps.scatter = !taps.scatter;
    taps.in_step = taps.scatter ? 1 : taps.stride;
    taps.out_step = taps.scatter ? taps.stride : 1;
    return taps;
}

tap_axis RC_FAST(tap_axis)(const tap_geometry *taps, int residue, int outputs)
{
    tap_axis axis = {.outputs = outputs, .first = -taps->pad, .taps = taps->k, .kernel_step = 1};
    if (!taps->scatter)
        return axis;
    /* t = residue + pad - stride * i for input offset i; the first input meets the last tap. */
    int at = residue + taps->pad, last = floor_div(at, taps->stride);
    axis.first = -floor_div(taps->k - 1 - at, taps->stride);
    axis.taps = larger(last - axis.first + 1, 0);
    axis.kernel_first = at - taps->stride * axis.first;
    axis.kernel_step = -taps->stride;
    axis.outputs = outputs > residue ? (outputs - residue + taps->stride - 1) / taps->stride : 0;
    return axis;
}

/* What all residues of an axis read: input `first` and the span - 1 after it, relative to unit * in_step. */
static void plan_span(const tap_axis *axis, int count, int *first, int *span)
{
    int low = 0, high = 0;
    bool any = false;
    for (int r = 0; r < count; r++) {
        if (axis[r].taps == 0)
            continue;
        low = any ? smaller(low, axis[r].first) : axis[r].first;
        high = any ? larger(high, axis[r].first + axis[r].taps) : axis[r].first + axis[r].taps;
        any = true;
    }
    *first = low;
    *span = high - low;
}

/* How many units a band should have. */
static int choose_units(const conv_plan *plan, int row_bytes, int most_tiles)
{
    const plan_limits *limits = RC_FAST(plan_limits)();
    int columns = plan->x[0].outputs, units = plan->units, across = (columns + 1) / 2;
    switch (plan->way) {
    case CONV_DIRECT:
        units = (limits->band_bytes / row_bytes - plan->span_y) / plan->taps.in_step + 1;
        return larger(units, (limits->band_pixels + columns - 1) / columns);
    case CONV_WINOGRAD: return 2 * ((most_tiles + across - 1) / across);
    case CONV_ENLARGED: /* whole images where possible: bands share rows of differences */
        while (units > 2 && RC_FAST(enlarged_floats)(plan, units) > (size_t)limits->enlarged_floats)
            units = (units + 1) / 2;
        return units;
    case CONV_NARROW: /* likewise, rows of products */
        while (units > 4 && RC_FAST(narrow_floats)(plan, units) > (size_t)limits->narrow_floats)
            units = (units + 1) / 2;
        return units;
    }
    return units;
}

static void plan_band(conv_plan *plan, int n)
{
    const tap_geometry *taps = &plan->taps;
    int columns = plan->x[0].outputs, first_x, span_x;
    plan_span(plan->y, taps->out_step, &plan->first_y, &plan->span_y);
    plan_span(plan->x, taps->out_step, &first_x, &span_x);
    plan->units = plan->y[0].outputs;
    int even = plan->way == CONV_WINOGRAD ? 2 : 1; /* its tiles may reach beyond the image */
    int last_x = larger((round_up(columns, even) - 1) * taps->in_step + first_x + span_x, plan->in_w);
    int last_y = (plan->units - 1) * taps->in_step + plan->first_y + plan->span_y;
    plan->borders = first_x < 0 || last_x > plan->in_w || plan->first_y < 0 || last_y > plan->in_h;
    plan->left = larger(-first_x, 0);
    plan->width = plan->left + last_x;

    int row_bytes = plan->width * plan->in_cp * (int)sizeof(float);
    const plan_limits *limits = RC_FAST(plan_limits)();
    int most_tiles = plan->in_cp + plan->out_cp > 32 ? 2 * limits->few_tiles : limits->few_tiles;
    int units = smaller(larger(choose_units(plan, row_bytes, most_tiles), 1), plan->units);
    int bands = (plan->units + units - 1) / units;
    plan->band = round_up((plan->units + bands - 1) / bands, even);
    int all_rows = (round_up(plan->units, even) - 1) * taps->in_step + plan->span_y;
    plan->rows = (plan->band - 1) * taps->in_step + plan->span_y;
    if ((size_t)all_rows * (size_t)row_bytes <= (size_t)limits->whole_bytes)
        plan->rows = all_rows;
    plan->rows = larger(plan->rows, 1);

    plan->images = 1;
    plan->tiles = (columns + 1) / 2 * (plan->band / 2);
    if (bands == 1 && (plan->way == CONV_WINOGRAD || plan->way == CONV_DIRECT)) {
        int fit = plan->way == CONV_WINOGRAD ? most_tiles / plan->tiles
                                             : limits->group_pixels / (columns * plan->units);
        plan->images = smaller(smaller(fit, MAX_PLAN_IMAGES), n / limits->fewest_tasks);
    }
    plan->images = larger(plan->images, 1);
    plan->tiles *= plan->images;
}

/* Cuts the input channels into equal blocks whose weights stay in the first cache. */
static void plan_blocks(conv_plan *plan)
{
    const tap_geometry *taps = &plan->taps;
    int most_taps = 1;
    for (int r = 0; r < taps->out_step * taps->out_step; r++)
        most_taps = larger(most_taps, plan->y[r / taps->out_step].taps * plan->x[r % taps->out_step].taps);
    int widest = larger(9 * RC_FAST(plan_limits)()->block_channels / most_taps / CHUNK * CHUNK, CHUNK);
    if (plan->way != CONV_DIRECT)
        widest = round_up(plan->in_cp, CHUNK);
    plan->blocks = (plan->in_cp + widest - 1) / widest;
    plan->block = round_up((plan->in_cp + plan->blocks - 1) / plan->blocks, CHUNK);
    plan->blocks = (plan->in_cp + plan->block - 1) / plan->block;
}

static void finish_plan(conv_plan *plan, bool enlarged, int n)
{
    const tap_geometry *taps = &plan->taps;
    plan->in_cp = round_up(plan->in_c, 4);
    plan->out_cp = round_up(plan->out_c, 4);
    for (int r = 0; r < taps->out_step; r++) {
        plan->y[r] = RC_FAST(tap_axis)(taps, r, plan->out_h);
        plan->x[r] = RC_FAST(tap_axis)(taps, r, plan->out_w);
    }
    plan->way = enlarged ? CONV_ENLARGED
                         : RC_FAST(winograd_fits)(taps, plan->in_cp, plan->out_cp)
                                   ? CONV_WINOGRAD
                                   : RC_FAST(narrow_fits)(taps, plan->in_cp, plan->out_c) ? CONV_NARROW : CONV_DIRECT;
    plan->compact = plan->in_cp == 4 && plan->in_c < 4;
    plan_blocks(plan);
    plan_band(plan, n);
    plan->band_floats = band_floats(plan->rows, plan->width, plan->in_cp);

    size_t kernel = (size_t)taps->k * (size_t)taps->k;
    size_t weights = (size_t)round_up(plan->out_cp, TILE_WIDTH) * (size_t)plan->in_cp;
    switch (plan->way) {
    case CONV_DIRECT:
        plan->packed_floats = weights * kernel;
        plan->folded_floats = taps->folded ? (size_t)plan->in_c * (size_t)plan->out_c * kernel : 0;
        break;
    case CONV_WINOGRAD:
        plan->packed_floats = weights * WINOGRAD_ELEMENTS;
        plan->workspace_floats = RC_FAST(winograd_floats)(plan);
        break;
    case CONV_ENLARGED:
        plan->packed_floats = weights * ENLARGED_KERNELS;
        plan->workspace_floats = RC_FAST(enlarged_floats)(plan, plan->band);
        break;
    case CONV_NARROW:
        plan->packed_floats = RC_FAST(narrow_packed_floats)(plan);
        plan->workspace_floats = RC_FAST(narrow_floats)(plan, plan->band);
        break;
    }
}

static weight_layout kernel_layout(const rc_conv *conv, const tap_geometry *taps, bool backward)
{
    size_t kernel = (size_t)taps->k * (size_t)taps->k;
    /* Rows of the weight matrix are c_out, of a transposed one c_in. */
    bool rows_are_outputs = conv->transposed == backward;
    int columns = conv->transposed ? conv->c_out : conv->c_in;
    size_t row = (size_t)columns * kernel;
    return (weight_layout){
        .out_stride = rows_are_outputs ? row : kernel, .in_stride = rows_are_outputs ? kernel : row, .k = taps->k};
}

conv_plan RC_FAST(plan_forward)(const rc_conv *conv, int n)
{
    conv_plan plan = {.in_h = conv->h,
                      .in_w = conv->w,
                      .in_c = conv->c_in,
                      .out_h = conv->oh,
                      .out_w = conv->ow,
                      .out_c = conv->c_out,
                      .kernel_c_out = conv->c_out,
                      .kernel_c_in = conv->c_in};
    plan.taps = RC_FAST(tap_geometry)(conv, false);
    plan.weights = kernel_layout(conv, &plan.taps, false);
    finish_plan(&plan, RC_FAST(enlarged_fits)(conv), n);
    return plan;
}

conv_plan RC_FAST(plan_backward_data)(const rc_conv *conv, int n)
{
    conv_plan plan = {.in_h = conv->oh,
                      .in_w = conv->ow,
                      .in_c = conv->c_out,
                      .out_h = conv->h,
                      .out_w = conv->w,
                      .out_c = conv->c_in,
                      .kernel_c_out = conv->c_out,
                      .kernel_c_in = conv->c_in};
    plan.taps = RC_FAST(tap_geometry)(conv, true);
    plan.weights = kernel_layout(conv, &plan.taps, true);
    finish_plan(&plan, RC_FAST(enlarged_fits)(conv), n);
    return plan;
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

size_t RC_FAST(packed_at)(const conv_plan *plan, int out, int b, int residue_y, int residue_x)
{
    size_t kernel = (size_t)plan->taps.k * (size_t)plan->taps.k;
    size_t channels = (size_t)(plan->compact ? plan->in_c : plan->in_cp);
    size_t width = (size_t)tile_width(plan->out_cp - out, TILE_WIDTH);
    int before = 0; /* taps of the residues that come first */
    for (int y = 0; y <= residue_y; y++)
        for (int x = 0; x < (y < residue_y ? plan->taps.out_step : residue_x); x++)
            before += plan->y[y].taps * plan->x[x].taps;
    return (size_t)out * channels * kernel +
           ((size_t)(b * plan->block) * kernel + (size_t)before * (size_t)plan_block_channels(plan, b)) * width;
}

/* Tap (i, j) of a residue, of one output block and one input block. */
static void pack_tap(const pack_job *job, int out, int b, int residue, int i, int j)
{
    const conv_plan *plan = job->plan;
    int step = plan->taps.out_step;
    const tap_axis *y = &plan->y[residue / step], *x = &plan->x[residue % step];
    const weight_layout *layout = &plan->weights;
    int width = tile_width(plan->out_cp - out, TILE_WIDTH), valid = smaller(width, plan->out_c - out);
    int channels = plan_block_channels(plan, b), first = b * plan->block;
    int tap = (y->kernel_first + i * y->kernel_step) * layout->k + x->kernel_first + j * x->kernel_step;
    float *to = job->packed + RC_FAST(packed_at)(plan, out, b, residue / step, residue % step) +
                                      (ptrdiff_t)(i * x->taps + j) * channels * width;
    if (layout->in_stride == 1 && first + channels <= plan->in_c) { /* one tap, its inputs side by side */
        RC_FAST(pack_transposed)(job->weight + (size_t)out * layout->out_stride + first, layout->out_stride, channels,
                                 valid, width, to);
        return;
    }
    for (int c = first; c < first + channels; c++, to += width) {
        const float *from = job->weight + (size_t)out * layout->out_stride + (size_t)c * layout->in_stride + tap;
        int known = c < plan->in_c ? valid : 0;
        for (int o = 0; o < known; o++)
            to[o] = from[(size_t)o * layout->out_stride];
        for (int o = known; o < width; o++)
            to[o] = 0;
    }
}

/* A task takes tap row i of every residue. */
static void pack_task(void *context, int task, int worker)
{
    (void)worker;
    const pack_job *job = context;
    const conv_plan *plan = job->plan;
    int step = plan->taps.out_step, i = task % plan->taps.k, rest = task / plan->taps.k;
    int out = rest / plan->blocks * TILE_WIDTH, b = rest % plan->blocks;
    for (int residue = 0; residue < step * step; residue++)
        for (int j = 0; i < plan->y[residue / step].taps && j < plan->x[residue % step].taps; j++)
            pack_tap(job, out, b, residue, i, j);
}

typedef struct fold_job {
    const conv_plan *plan;
    const float *weight; /* (c_out, c_in, k, k) */
    float *folded;       /* (c_out, c_in, k + 1, k + 1) */
} fold_job;

/* folded[q] = w[k - 1 - q] + w[k - q] along both axes, where they exist. */
static void fold_task(void *context, int out, int worker)
{
    (void)worker;
    const fold_job *job = context;
    int big = job->plan->taps.k, k = big - 1, c_in = job->plan->kernel_c_in;
    for (int in = 0; in < c_in; in++) {
        const float *w = job->weight + (size_t)(out * c_in + in) * (size_t)(k * k);
        float *to = job->folded + (size_t)(out * c_in + in) * (size_t)(big * big);
        for (int qy = 0; qy < big; qy++)
            for (int qx = 0; qx < big; qx++) {
                float sum = 0;
                for (int y = larger(k - 1 - qy, 0); y <= smaller(k - qy, k - 1); y++)
                    for (int x = larger(k - 1 - qx, 0); x <= smaller(k - qx, k - 1); x++)
                        sum += w[y * k + x];
                to[qy * big + qx] = sum;
            }
    }
}

void RC_FAST(fold_weights)(rc_cpu *cpu, pack_job *job, float *folded)
{
    fold_job fold = {job->plan, job->weight, folded};
    rc_pool_run(cpu->pool, job->plan->kernel_c_out, fold_task, &fold);
    job->weight = folded;
}

rc_phase RC_FAST(pack_weights)(pack_job *job)
{
    const conv_plan *plan = job->plan;
    int out_blocks = (plan->out_cp + TILE_WIDTH - 1) / TILE_WIDTH;
    return (rc_phase){out_blocks * plan->blocks * plan->taps.k, pack_task, job};
}
