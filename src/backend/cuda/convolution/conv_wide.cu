#include "backend/cuda/convolution/conv_wide.h"

#include "backend/cuda/convolution/conv_gather.cuh"
#include "backend/cuda/convolution/conv_plain.h"

/* Half of it, rounded down, of numbers that may be negative; and the rest. */
static int halved(int x)
{
    return x >= 0 ? x / 2 : -((1 - x) / 2);
}

static int odd(int x)
{
    return x - 2 * halved(x);
}

axis_taps rc_cuda_part_axis(const axis_taps *taps)
{
    axis_taps axis = *taps;
    if (taps->source_step == 2) {
        axis.source_step = 1;
        axis.low = halved(taps->low);
        axis.high = halved(taps->high);
    }
    return axis;
}

/* Lists the taps (y, x) of a phase of the result that fall on the phase (odd_y, odd_x) of the source. */
static void list_part(wide_parts *parts, const axis_taps *taps, int low, int columns, int pitch, int phase, int odd_y,
                      int odd_x)
{
    int part = parts->count++;
    int phase_y = taps->out_step == 1 ? 0 : phase / 2, phase_x = taps->out_step == 1 ? 0 : phase % 2;
    bool divided = taps->source_step == 2;
    parts->y[part] = odd_y;
    parts->x[part] = odd_x;
    parts->first_step[part] = parts->all_steps;
    for (int i = 0; i < taps->count[phase_y] * taps->count[phase_x]; i++) {
        int y = taps->offset[phase_y][i / taps->count[phase_x]], x = taps->offset[phase_x][i % taps->count[phase_x]];
        if (divided && (odd(y) != odd_y || odd(x) != odd_x))
            continue;
        int row = (divided ? halved(y) : y) - low, column = (divided ? halved(x) : x) - low;
        parts->offset[parts->all_steps] = (row * columns + column) * pitch;
        parts->order[parts->all_steps++] = (unsigned char)i;
    }
    parts->steps[part] = parts->all_steps - parts->first_step[part];
}

void rc_cuda_list_parts(wide_parts *parts, const axis_taps *taps, int low, int columns, int pitch)
{
    int phases = taps->out_step * taps->out_step;
    for (int phase = 0; phase < phases && taps->source_step == 1; phase++)
        list_part(parts, taps, low, columns, pitch, phase, 0, 0);
    for (int phase = 0; phase < 4 && taps->source_step == 2; phase++) {
        list_part(parts, taps, low, columns, pitch, 0, phase / 2, phase % 2);
        parts->count -= parts->steps[parts->count - 1] == 0;
    }
}

bool rc_cuda_large_tiles_pay(const rc_cuda *cuda, const tile_cut *cut, int positions, int copies)
{
    int tiles = 0, images = cut->groups.end[cut->groups.count - 1];
    for (int g = 0; g < cut->groups.count; g++)
        tiles += cut->group_tiles[g];
    bool many = tiles * copies >= cuda->multiprocessors && cut->images == 1;
    bool full = images * cut->base_h * cut->base_w * 4 >= tiles * positions * 3;
    return many && full;
}

/* Cuts the maps for warps of tiles_m operands of positions. */
static bool cut_maps(const rc_cuda *cuda, const axis_taps *taps, int tiles_m, wide_plan *plan)
{
    const conv_form *form = &plan->form;
    wide_cut *wide = &plan->wide;
    tile_cut *cut = &wide->cut;
    int rest = WIDE_STAGES * WIDE_STEP + SINK_ROWS * WIDE_N * 4, pitch = pixel_pitch(WIDE_CHUNK);
    axis_taps axis = rc_cuda_part_axis(taps);
    plan->tiles_m = tiles_m;
    if (!rc_cuda_cut_tiles(cut, &axis, wide_tile(tiles_m), wide_tile(tiles_m), pitch, (CONV_SHARED_HALF - rest) / 2))
        return false;
    rc_cuda_list_parts(&wide->parts, taps, cut->low, cut->columns, pitch);
    wide->tile_bytes = cut->images * cut->rows * cut->columns * pitch;
    if (wide->tile_bytes < FINISH_NORM_BYTES / 2)
        wide->tile_bytes = FINISH_NORM_BYTES / 2;
    plan->shared_bytes = 2 * wide->tile_bytes + rest;

    int phases = taps->out_step * taps->out_step, blocks = 2 * cuda->multiprocessors / (form->tiles * phases);
    blocks = blocks < RC_CUDA_MAX_ROWS / phases ? blocks : RC_CUDA_MAX_ROWS / phases;
    blocks = blocks > cut->groups.count ? blocks : cut->groups.count;
    plan->grid = dim3((unsigned)rc_cuda_deal_tiles(cut, blocks), (unsigned)form->tiles, (unsigned)phases);
    return plan->shared_bytes <= cuda->shared_bytes;
}

/* How long a plan takes, in the time of a tap of 32 channels at one operand of positions for each warp of a block. A
 * multiprocessor multiplies for one of its two blocks at a time; for each it fetches weights, which takes as long as
 * FETCH operands, and a block waits between taps, as long as WAIT. */
static int time_of(const rc_cuda *cuda, const wide_plan *plan)
{
    enum { WAIT = 3, FETCH = 5 };
    const tile_cut *cut = &plan->wide.cut;
    int tiles = 0, busy = plan->tiles_m > FETCH ? plan->tiles_m : FETCH;
    for (int g = 0; g < cut->groups.count; g++)
        tiles += cut->group_tiles[g];
    tiles *= (int)(plan->grid.y * plan->grid.z);
    int rounds = (tiles + 2 * cuda->multiprocessors - 1) / (2 * cuda->multiprocessors);
    if (tiles > cuda->multiprocessors)
        busy *= 2;
    return rounds * (busy > WAIT + plan->tiles_m ? busy : WAIT + plan->tiles_m);
}

bool rc_cuda_plan_wide(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch, wide_plan *plan)
{
    static const int choices[] = {7, 8, 4};
    axis_taps taps;
    wide_plan shape = {};
    if (!(forward ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return false;
    conv_form *form = &shape.form;
    wide_cut *wide = &shape.wide;
    rc_cuda_set_form(conv, forward, &taps, form);
    if (form->source_c % 64 != 0 || form->result_c % WIDE_N != 0)
        return false;
    form->tile_c = WIDE_N;
    form->tiles = form->result_c / WIDE_N;
    form->chunk_c = WIDE_CHUNK;
    form->chunks = wide->chunks = form->source_c / WIDE_CHUNK;
    int pixels = batch->n * (forward ? conv->oh * conv->ow : conv->h * conv->w);
    if (form_all_steps(*form) > CONV_TAPS || batch->groups * taps.out_step * taps.out_step > pixels)
        return false;

    wide->cut.groups = view_groups(batch);
    wide->source_step = taps.source_step;
    wide->source_h = forward ? conv->h : conv->oh;
    wide->source_w = forward ? conv->w : conv->ow;
    wide->source_c = form->source_c;
    rc_cuda_set_maps(&wide->cut, conv, forward, &taps, taps.source_step);
    bool heavy = rc_cuda_heavy_weights(form_all_steps(*form), form->source_c, WIDE_N), found = false;
    for (int choice : choices) {
        wide_plan next = shape;
        if (!cut_maps(cuda, &taps, choice, &next))
            continue;
        bool large = choice == choices[0] &&
                     rc_cuda_large_tiles_pay(cuda, &next.wide.cut, wide_tile(choice), (int)(next.grid.y * next.grid.z));
        if ((heavy || large) && (!found || time_of(cuda, &next) < time_of(cuda, plan))) {
            *plan = next;
            found = true;
        }
    }
    return found;
}

rc_tensor rc_cuda_batch_of(int n)
{
    rc_tensor batch = {};
    batch.n = batch.group_end[0] = n;
    batch.groups = 1;
    return batch;
}

bool rc_cuda_wide_gradients(const rc_cuda *cuda, const rc_conv *conv, int n)
{
    wide_plan plan;
    rc_tensor batch = rc_cuda_batch_of(n);
    return cuda->bf16 && rc_cuda_plan_wide(cuda, conv, false, &batch, &plan) &&
           rc_cuda_wide_weight_workspace(cuda, conv, n) > 0;
}

size_t rc_cuda_wide_workspace(const rc_cuda *cuda, const rc_conv *conv, int n)
{
    size_t most = 0;
    rc_tensor batch = rc_cuda_batch_of(n);
    for (int forward = 0; forward < 2; forward++) {
        wide_plan plan;
        if (!rc_cuda_plan_wide(cuda, conv, forward, &batch, &plan))
            continue;
        size_t bytes = rc_cuda_plain_bytes(n, plan.wide.source_h, plan.wide.source_w, plan.wide.source_c);
        bytes *= cuda->wgmma && !forward && conv->stride == 2 ? 2 : 1;
        most = bytes > most ? bytes : most;
    }
    return most;
}
