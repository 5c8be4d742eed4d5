#include "backend/cpu/fast/convolution/weight_plan.h"

#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/conv.h"
#include "backend/cpu/fast/convolution/enlarged.h"
#include "backend/cpu/fast/convolution/limits.h"
#include "backend/cpu/fast/convolution/winograd.h"
#include "backend/cpu/fast/product/tile.h"

/* ---- pieces ---------------------------------------------------------------------------------------------------- */

int RC_FAST(run_of_block)(const weight_plan *plan, int b)
{
    return (weights_are_transformed(plan) ? 1 : plan->taps.k) * big_pixel(plan, b);
}

void RC_FAST(size_piece)(const weight_plan *plan, weight_piece *p)
{
    int floats = RC_FAST(run_of_block)(plan, p->b) - p->f, channels = plan->small_cp - p->s;
    if (plan->swap) {
        p->floats = tile_width(floats, OUTER_WIDTH);
        p->channels = outer_scalars(channels, OUTER_WIDTH);
    } else {
        p->channels = tile_width(channels, OUTER_WIDTH);
        p->floats = outer_scalars(floats, p->channels);
    }
}

/* The run of a block as it is computed, in whole pieces of the channels that begin at s. */
static size_t whole_run(const weight_plan *plan, int s, int b)
{
    weight_piece p = {.s = s, .b = b};
    while (p.f < RC_FAST(run_of_block)(plan, b)) {
        RC_FAST(size_piece)(plan, &p);
        p.f += p.floats;
    }
    return (size_t)p.f;
}

/* One line of all blocks. */
static size_t whole_line(const weight_plan *plan, int s)
{
    return (size_t)(big_blocks(plan) - 1) * whole_run(plan, s, 0) + whole_run(plan, s, big_blocks(plan) - 1);
}

/* Floats of a slot, or of one line of it where lines come first. */
static void plan_pieces(weight_plan *plan)
{
    size_t lines = weights_are_transformed(plan) ? 1 : (size_t)plan->lines;
    weight_piece last = {0};
    RC_FAST(size_piece)(plan, &last);
    plan->row_floats = lines * whole_line(plan, 0);
    while (last.s + last.channels < plan->small_cp) {
        last.s += last.channels;
        RC_FAST(size_piece)(plan, &last);
    }
    plan->line_floats = (size_t)last.s * plan->row_floats + lines * whole_line(plan, last.s) * (size_t)last.channels;
    plan->slot_floats = line_floats((weights_are_transformed(plan) ? (size_t)plan->lines : 1) * plan->line_floats);
}

/* ---- bands ----------------------------------------------------------------------------------------------------- */

/* Direct: what one piece reads of the bands stays in the first cache. */
static void plan_bands(weight_plan *plan, int most_images)
{
    int k = plan->taps.k, stride = plan->taps.stride, most = RC_FAST(plan_limits)()->slice_bytes;
    int big_row = plan->width * smaller(plan->big_cp, plan->big_block) * (int)sizeof(float);
    int small_row = plan->small_width * smaller(plan->small_cp, plan->small_block) * (int)sizeof(float);
    int rows = (most - (k - stride) * big_row) / (stride * big_row + small_row);
    rows = smaller(larger(rows, 1), plan->small_h);
    int bands = (plan->small_h + rows - 1) / rows;
    plan->rows = (plan->small_h + bands - 1) / bands;
    plan->big_rows = (plan->rows - 1) * stride + k;
    plan->images = 1;
    if (bands == 1)
        plan->images = most / (plan->big_rows * big_row + plan->rows * small_row);
    plan->images = smaller(smaller(larger(plan->images, 1), MAX_IMAGES), most_images);
}

/* Transformed: as many tiles as keep a piece busy and the second cache not too full. */
static void plan_tiles(weight_plan *plan, int most_images)
{
    const plan_limits *limits = RC_FAST(plan_limits)();
    int across = plan->small_width / 2, down = (plan->small_h + 1) / 2;
    int channels = plan->big_cp + plan->small_cp / plan->splits;
    int tiles = limits->planes_bytes / (WINOGRAD_ELEMENTS * channels * (int)sizeof(float));
    tiles = smaller(larger(tiles, limits->fewest_tiles), channels > 32 ? limits->most_tiles : limits->narrow_tiles);
    int rows = smaller((tiles + across - 1) / across, down), bands = (down + rows - 1) / rows;
    rows = (down + bands - 1) / bands;
    plan->rows = 2 * rows;
    plan->big_rows = plan->rows + 2;
    plan->images = bands > 1 ? 1 : smaller(smaller(larger(tiles / (across * rows), 1), MAX_IMAGES), most_images);
    plan->tiles = plan->images * across * rows;
    plan->transformed_floats = element_floats(plan->tiles, plan->big_cp) + element_floats(plan->tiles, plan->small_cp);
}

/* Enlarged: planes of x and sums of dy in the second cache. Images are whole where that is possible, because the rows
 * of differences at the seams of bands belong to both. */
static void plan_planes(weight_plan *plan, int most_images)
{
    int w = plan->small_w, channels = plan->big_cp + plan->small_cp / plan->splits, rows = plan->small_h;
    int fit = RC_FAST(plan_limits)()->planes_bytes / (int)sizeof(float) / (4 * (w + 2) * channels);
    while (rows > 2 && rows > fit)
        rows = (rows + 1) / 2;
    plan->rows = rows;
    plan->big_rows = 2 * rows + 2;
    plan->images = rows < plan->small_h ? 1 : smaller(smaller(larger(fit / rows, 1), MAX_IMAGES), most_images);
    for (int plane = 0; plane < ENLARGED_PLANES; plane++) {
        plan->big_pixels += (size_t)enlarged_sum_pixels(plane, rows, w);
        plan->small_pixels += plane == 0 ? 0 : (size_t)enlarged_pixels(plane, rows, w);
    }
    plan->transformed_floats = (size_t)plan->images * (plan->big_pixels * (size_t)plan->big_cp +
                                                       plan->small_pixels * (size_t)plan->small_cp) +
                               2 * OUTER_WIDTH;
}

static void plan_slots(weight_plan *plan, int n)
{
    plan_pieces(plan);
    size_t most = (size_t)RC_FAST(plan_limits)()->slot_bytes / (plan->slot_floats * sizeof(float));
    plan->slots = smaller(smaller(n, SLOTS), most < 1 ? 1 : most > SLOTS ? SLOTS : (int)most);
    int blocks = (plan->small_cp + plan->small_block - 1) / plan->small_block;
    plan->splits = smaller((SLOTS + plan->slots - 1) / plan->slots, blocks);
    size_t spares = (size_t)RC_FAST(plan_limits)()->spare_bytes / (plan->slot_floats * sizeof(float));
    if (plan->splits == 1 && plan->slots > 1)
        plan->spares = spares > MOST_SPARES ? MOST_SPARES : (int)spares;
}

weight_plan RC_FAST(plan_weights)(const rc_conv *conv, int n)
{
    weight_plan plan = {.taps = RC_FAST(tap_geometry)(conv, false)};
    const tap_geometry *taps = &plan.taps;
    bool x_is_big = !taps->scatter;
    plan.big_h = x_is_big ? conv->h : conv->oh;
    plan.big_w = x_is_big ? conv->w : conv->ow;
    plan.big_c = x_is_big ? conv->c_in : conv->c_out;
    plan.small_h = x_is_big ? conv->oh : conv->h;
    plan.small_w = x_is_big ? conv->ow : conv->w;
    plan.small_c = x_is_big ? conv->c_out : conv->c_in;
    plan.big_cp = round_up(plan.big_c, 4);
    plan.small_cp = round_up(plan.small_c, 4);
    plan.enlarged = RC_FAST(enlarged_fits)(conv);
    plan.winograd = RC_FAST(winograd_fits)(taps, plan.big_cp, plan.small_cp);
    size_t kernel = (size_t)(plan.enlarged ? conv->k * conv->k : taps->k * taps->k);
    /* The rows of the weight matrix are c_out, of a transposed one c_in. */
    bool rows_are_big = conv->transposed == x_is_big;
    size_t row = (size_t)(conv->transposed ? conv->c_out : conv->c_in) * kernel;
    plan.big_stride = rows_are_big ? row : kernel;
    plan.small_stride = rows_are_big ? kernel : row;
    plan.compact = x_is_big && plan.big_c < 4;
    plan.swap = plan.small_cp < RC_LANES && plan.big_cp > plan.small_cp && !weights_are_transformed(&plan);
    plan.lines = plan.winograd ? WINOGRAD_ELEMENTS : plan.enlarged ? ENLARGED_KERNELS : taps->k;
    plan.big_block = CHUNK;
    plan.small_block = larger(CHUNK, OUTER_WIDTH);
    plan_slots(&plan, n);

    int images_per_slot = (n + plan.slots - 1) / plan.slots;
    int fewest_units = RC_FAST(plan_limits)()->fewest_units, most_images = larger(images_per_slot / fewest_units, 1);
    plan.small_left = plan.enlarged ? 1 : 0;
    plan.small_width = plan.winograd ? round_up(plan.small_w, 2) : plan.small_w + 2 * plan.small_left;
    plan.left = larger(taps->pad, 0);
    int last = (plan.winograd ? plan.small_width : plan.small_w) - 1;
    plan.width = plan.left + larger(last * taps->stride - taps->pad + taps->k, plan.big_w);
    if (plan.winograd)
        plan_tiles(&plan, most_images);
    else if (plan.enlarged)
        plan_planes(&plan, most_images);
    else
        plan_bands(&plan, most_images);
    plan.bands = (plan.small_h + plan.rows - 1) / plan.rows;
    plan.units = (images_per_slot + plan.images - 1) / plan.images * plan.bands;
    /* i images of a slot make units of max(i / fewest_units, 1) images, where those are not too large: with fewer
     * images than here there are at most i of them, and less than 2 * fewest_units, or no more than here. */
    plan.most_units = larger(plan.units, smaller(images_per_slot, 2 * fewest_units - 1) * plan.bands);
    plan.big_floats = line_floats(band_floats(plan.big_rows, plan.width, plan.big_cp));
    plan.small_floats = line_floats(band_floats(plan.rows + 2 * plan.small_left, plan.small_width, plan.small_cp));
    return plan;
}
