#include "backend/cuda/convolution/conv_plan.h"

#include "backend/cuda/convolution/conv_gather.cuh"

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int greatest(int a, int b)
{
    return a > b ? a : b;
}

static int shares(int whole, int part)
{
    return (whole + part - 1) / part;
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

static int source_length(const tile_cut *cut, int high, int positions)
{
    return (positions - 1) * cut->source_step + high - cut->low + 1;
}

static void set_reciprocals(tile_cut *cut)
{
    cut->by_tiles_x = reciprocal(cut->tiles_x);
    cut->by_tiles_y = reciprocal(cut->tiles_y);
    cut->by_rows = reciprocal(cut->rows);
    cut->by_columns = reciprocal(cut->columns);
    cut->by_inside_height = reciprocal(inside_extent(*cut, 0, cut->rows, cut->source_h).count);
    for (int phase = 0; phase < cut->out_step; phase++)
        cut->by_height[phase] = reciprocal(position_extent(*cut, 0, cut->tile_h, cut->out_h, phase));
    for (int tile = 0; tile < cut->tiles_x; tile++) {
        int edge = (tile == 0) * EDGE_FIRST + (tile == cut->tiles_x - 1) * EDGE_LAST, base = tile * cut->tile_w;
        cut->by_inside_width[edge] = reciprocal(inside_extent(*cut, base, cut->columns, cut->source_w).count);
        for (int phase = 0; phase < cut->out_step; phase++)
            cut->by_width[phase][edge] = reciprocal(position_extent(*cut, base, cut->tile_w, cut->out_w, phase));
    }
}

void rc_cuda_set_maps(tile_cut *cut, const rc_conv *conv, bool forward, const axis_taps *taps, int part_step)
{
    cut->source_h = shares(forward ? conv->h : conv->oh, part_step);
    cut->source_w = shares(forward ? conv->w : conv->ow, part_step);
    cut->out_h = forward ? conv->oh : conv->h;
    cut->out_w = forward ? conv->ow : conv->w;
    cut->base_h = shares(cut->out_h, taps->out_step);
    cut->base_w = shares(cut->out_w, taps->out_step);
}

bool rc_cuda_cut_tiles(tile_cut *cut, const axis_taps *taps, int positions, int most, int pitch, int tile_bytes,
                       int widest)
{
    cut->source_step = taps->source_step;
    cut->out_step = taps->out_step;
    cut->low = taps->low;
    /* The last tile reaches to the end of the map, so that the kernel that fills the value of the source fills all of
     * it. */
    int high = greatest(taps->high, cut->source_step - 1);
    high = greatest(high, cut->source_h - 1 - (cut->base_h - 1) * cut->source_step);
    high = greatest(high, cut->source_w - 1 - (cut->base_w - 1) * cut->source_step);
    cut->tiles_x = shares(cut->base_w, widest);
    cut->tile_w = shares(cut->base_w, cut->tiles_x);
    cut->columns = source_length(cut, high, cut->tile_w);
    positions = least(positions, most);
    int rows = least(cut->base_h, greatest(1, positions / cut->tile_w));
    while (rows > 1 && source_length(cut, high, rows) * cut->columns * pitch > tile_bytes)
        rows--;
    cut->tiles_y = shares(cut->base_h, rows);
    cut->tile_h = shares(cut->base_h, cut->tiles_y);
    cut->rows = source_length(cut, high, cut->tile_h);
    cut->images = 1;
    if (cut->tiles_y == 1 && cut->tiles_x == 1) {
        cut->images = greatest(1, positions / (cut->base_h * cut->base_w));
        cut->images = least(cut->images, greatest(1, tile_bytes / (cut->rows * cut->columns * pitch)));
    }
    set_reciprocals(cut);
    return cut->tile_h * cut->tile_w <= most && cut->rows * cut->columns * pitch <= tile_bytes;
}

int rc_cuda_deal_tiles(tile_cut *cut, int most_blocks)
{
    int all = 0;
    cut->most_blocks = 0;
    for (int g = 0; g < cut->groups.count; g++) {
        int images = cut->groups.end[g] - group_begin(cut->groups, g);
        int tiles = shares(images, cut->images) * cut->tiles_y * cut->tiles_x;
        cut->group_tiles[g] = tiles;
        cut->blocks[g] = least(tiles, most_blocks / cut->groups.count);
        cut->most_blocks = greatest(cut->most_blocks, cut->blocks[g]);
        all += cut->blocks[g];
    }
    return all;
}

int rc_cuda_cut_lines(tile_cut *cut, const rc_conv *conv, bool forward, const axis_taps *taps, const rc_tensor *batch,
                      int columns, int most_blocks)
{
    cut->groups = view_groups(batch);
    rc_cuda_set_maps(cut, conv, forward, taps, 1);
    cut->images = 1;
    cut->tiles_y = cut->out_h;
    cut->tiles_x = shares(cut->out_w, columns);
    int most = least(most_blocks, rc_cuda_partial_rows(batch->n * cut->out_h * cut->out_w));
    return rc_cuda_deal_tiles(cut, greatest(most, cut->groups.count));
}

enum { WEIGHTS_MOST = CONV_SHARED_HALF * 3 / 4, WEIGHTS_LIGHT = 32 * 1024, HEAVY = 40 * 1024 };

/* ---- the kernel ------------------------------------------------------------------------------------------------ */

bool rc_cuda_heavy_weights(int taps, int source_c, int result_c)
{
    return source_c > 64 || taps * source_c * result_c * 2 > WEIGHTS_MOST;
}

/* Channels at once: 8, 16, 32, 64, or chunks of 16, 32 or 64. Result channels of a block: 8, 16, 32, 64. A block holds
 * the weights of all taps, or with chunks those of the phase that has most. */
static bool choose_channels(conv_form *form, int all_taps, int most_taps, bool *chunked)
{
    int source = rc_cuda_padded(form->source_c), result = rc_cuda_padded(form->result_c);
    form->tile_c = result == 8 || result == 16 ? result : result % 64 == 0 ? 64 : 32;
    if (result % form->tile_c != 0)
        return false;
    form->tiles = result / form->tile_c;
    form->chunk_c = source;
    form->chunks = 1;
    *chunked = rc_cuda_heavy_weights(all_taps, source, form->tile_c);
    if (!*chunked && form->tile_c == 64 && all_taps * source * 64 * 2 > HEAVY) {
        form->tile_c = 32; /* or they would leave no room for a tile of some size */
        form->tiles *= 2;
    }
    if (*chunked) {
        form->chunk_c = source % 64 == 0 ? 64 : 32;
        while (form->chunk_c > 16 && most_taps * form->chunk_c * form->tile_c * 2 > HEAVY)
            form->chunk_c /= 2;
        form->chunks = source / form->chunk_c;
        return source % 32 == 0 && form->tile_c >= 32;
    }
    return source == 8 || source == 16 || source == 32 || source == 64;
}

static bool list_offsets(gather_plan *plan, const axis_taps *taps)
{
    int pitch = pixel_pitch(plan->form.chunk_c), wide = plan->form.chunk_c == 8 ? 2 : 1, phases = taps->out_step;
    plan->all_steps = form_all_steps(plan->form);
    if (plan->all_steps * wide > CONV_TAPS)
        return false;
    for (int phase = 0, first = 0; phase < phases * phases; phase++) {
        int y = phases == 1 ? 0 : phase / 2, x = phases == 1 ? 0 : phase % 2;
        plan->steps[phase] = form_steps(plan->form, phase);
        plan->first_step[phase] = first;
        for (int i = 0; i < taps->count[y] * taps->count[x]; i++) {
            int row = taps->offset[y][i / taps->count[x]] - taps->low;
            int column = taps->offset[x][i % taps->count[x]] - taps->low;
            plan->offset[first * wide + i] = (row * plan->cut.columns + column) * pitch;
        }
        first += plan->steps[phase];
    }
    int row = plan->cut.columns * pitch;
    plan->square_row = phases == 1 && taps->count[0] == 3 ? row : 0;
    for (int i = 0; i < 9; i++)
        if (plan->offset[i] != i / 3 * row + i % 3 * pitch)
            plan->square_row = 0;
    return true;
}

/* Two blocks for each of some 132 multiprocessors. */
enum { BLOCKS = 256 };

bool rc_cuda_plan_gather(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch,
                         gather_plan *plan)
{
    axis_taps taps;
    *plan = {};
    if (!(forward ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return false;
    rc_cuda_set_form(conv, forward, &taps, &plan->form);
    int all_taps = 0, most_taps = 0, phases = taps.out_step * taps.out_step;
    for (int phase = 0; phase < phases; phase++) {
        int count = phases == 1 ? taps.count[0] * taps.count[0] : taps.count[phase / 2] * taps.count[phase % 2];
        all_taps += count;
        most_taps = greatest(most_taps, count);
    }
    if (!choose_channels(&plan->form, all_taps, most_taps, &plan->chunked))
        return false;

    tile_cut *cut = &plan->cut;
    cut->groups = view_groups(batch);
    rc_cuda_set_maps(cut, conv, forward, &taps, 1);
    int step_bytes = form_step_bytes(plan->form);
    plan->weight_bytes = (plan->chunked ? most_taps : form_all_steps(plan->form)) * step_bytes;
    int positions = shares(batch->n * cut->base_h * cut->base_w, BLOCKS);
    int most = 1024;
    if (plan->chunked) {
        most = plan->form.tile_c == 64 ? 128 : 256;
        positions *= plan->form.tiles * phases;
    }
    int pitch = pixel_pitch(plan->form.chunk_c);
    int source_rows = forward ? (int)value_source::ROWS : (int)gradient_source::ROWS;
    int table_bytes = (source_rows * rc_cuda_padded(plan->form.source_c) + SINK_ROWS * plan->form.tile_c) * 4;
    int rest = table_bytes + plan->weight_bytes;
    positions = greatest(positions, 64);
    if (!rc_cuda_cut_tiles(cut, &taps, positions, most, pitch, rc_cuda_shared(cuda, CONV_SHARED_HALF) - rest) &&
        !rc_cuda_cut_tiles(cut, &taps, positions, most, pitch, rc_cuda_shared(cuda, CONV_SHARED_MOST) - rest))
        return false;
    if (!list_offsets(plan, &taps))
        return false;
    plan->tile_bytes = greatest(cut->images * cut->rows * cut->columns * pitch, (int)FINISH_NORM_BYTES);
    plan->tile_bytes = (plan->tile_bytes + 15) / 16 * 16;
    plan->shared_bytes = plan->tile_bytes + rest;
    int rows = least(rc_cuda_partial_rows(batch->n * cut->out_h * cut->out_w), RC_CUDA_MAX_ROWS);
    int blocks = rows / (plan->chunked ? phases : 1), at_once = 2 * cuda->multiprocessors / plan->form.tiles;
    if (!plan->chunked && plan->weight_bytes > WEIGHTS_LIGHT) /* let a block that has read them keep them */
        blocks = least(blocks, at_once);
    int dealt = rc_cuda_deal_tiles(cut, greatest(cut->groups.count, blocks));
    plan->grid = dim3((unsigned)dealt, (unsigned)plan->form.tiles, plan->chunked ? (unsigned)phases : 1);
    return plan->shared_bytes <= cuda->shared_bytes;
}
