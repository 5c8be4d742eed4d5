#include "backend/cuda/convolution/conv_strip.h"

#include "backend/cuda/convolution/conv_gather.cuh"
#include "backend/cuda/product/bulk.cuh"
#include "backend/cuda/product/wgmma.cuh"

static int shares(int whole, int part)
{
    return (whole + part - 1) / part;
}

static int greatest(int a, int b)
{
    return a > b ? a : b;
}

/* Bytes of shared memory for two tiles, and the list of the pixels of one. */
static int tiles_bytes(const strip_cut *cut)
{
    return 2 * cut->tile_bytes + cut->pixels * (int)sizeof(int);
}

/* Of a tile. */
static int positions_of(const strip_cut *cut)
{
    return STRIP_TEAMS * cut->width;
}

/* Cuts maps of height x width positions and pixels into as few strips as shared memory takes. */
static bool cut_strips(strip_cut *cut, int height, int width, int most_bytes)
{
    for (cut->strips = 1; cut->strips <= width; cut->strips++) {
        cut->strip_w = shares(width, cut->strips);
        rc_cuda_set_row(cut, height, cut->strip_w, cut->strips > 1);
        cut->pixels = shares(positions_of(cut) + 2 * (cut->columns + 1), 4) * 4;
        cut->tile_bytes = cut->pixels * WGMMA_ROW;
        if (tiles_bytes(cut) <= most_bytes) {
            cut->by_strips = reciprocal(cut->strips);
            return true;
        }
    }
    return false;
}

static void count_tiles(strip_cut *cut)
{
    for (int g = 0; g < cut->groups.count; g++) {
        int images = cut->groups.end[g] - group_begin(cut->groups, g);
        int row = images * cut->lines * cut->columns;
        cut->group_tiles[g] = shares(row, positions_of(cut)) * cut->strips;
    }
}

/* How long a tile of a phase takes, in the time of a tap of 64 channels at its positions. A stage waits for its pixels,
 * at least as long as WAIT taps; results take as long as RESULTS. */
static long time_of_tile(const strip_cut *cut, int phase)
{
    enum { WAIT = 2, RESULTS = 4 };
    int taps = cut->source_step == 2 ? cut->parts.all_steps : cut->parts.steps[phase];
    return (taps > 0 ? (long)cut->phase_chunks[phase] * greatest(taps, WAIT) : 0) + RESULTS;
}

/* Deals the blocks that the card has at once to the phases and groups, so that all have about the same to do. Each gets
 * one at least. */
static void deal_tiles(const rc_cuda *cuda, strip_plan *plan)
{
    strip_cut *cut = &plan->cut;
    int phases = cut->out_step * cut->out_step, all = phases * cut->groups.count, dealt = all;
    int most = STRIP_BLOCKS * cuda->multiprocessors / plan->form.tiles;
    most = most < RC_CUDA_MAX_ROWS ? most : RC_CUDA_MAX_ROWS;
    for (int i = 0; i < all; i++)
        cut->blocks[i / cut->groups.count][i % cut->groups.count] = 1;
    for (bool more = true; more && dealt < most; dealt += more) {
        int *next = NULL;
        double longest = 0;
        for (int i = 0; i < all; i++) {
            int phase = i / cut->groups.count, g = i % cut->groups.count, *blocks = &cut->blocks[phase][g];
            double work = (double)cut->group_tiles[g] * (double)time_of_tile(cut, phase) / *blocks;
            if (*blocks < cut->group_tiles[g] && work > longest) {
                longest = work;
                next = blocks;
            }
        }
        more = next != NULL;
        if (more)
            ++*next;
    }
    cut->rows = 0;
    for (int phase = 0; phase < phases; phase++) {
        cut->rows_before[phase] = cut->rows;
        cut->most_blocks[phase] = 0;
        for (int g = 0; g < cut->groups.count; g++)
            cut->most_blocks[phase] = greatest(cut->most_blocks[phase], cut->blocks[phase][g]);
        cut->rows += cut->most_blocks[phase];
    }
    plan->grid = dim3((unsigned)dealt, (unsigned)plan->form.tiles);
}

/* How long four warps take for a tap of so many positions, in the time that tensor cores take for one: for few, they
 * wait for shared memory. It gives 128 bytes a clock. A tap reads 8 kB of weights and 128 bytes of each position, and 4
 * kB of weights and some 14 bytes of each position are written meanwhile, where tensor cores take two clocks. */
static double time_of_positions(int width)
{
    double wait = 48 + width * 5 / 9.0;
    return width > wait ? width : wait;
}

/* How long a plan takes, in the time of a tap of 64 channels at 128 positions of four warps: as long as the block that
 * has most to do. A tile takes as long as TILE of them beside what its positions take. Two blocks of a multiprocessor
 * share its tensor cores. */
static double time_of_plan(const rc_cuda *cuda, const strip_plan *plan)
{
    enum { TILE = 1 };
    const strip_cut *cut = &plan->cut;
    double longest = 0;
    for (int phase = 0; phase < cut->out_step * cut->out_step; phase++)
        for (int g = 0; g < cut->groups.count; g++) {
            double tile = (double)time_of_tile(cut, phase) * time_of_positions(cut->width) / STRIP_WIDTH + TILE;
            double time = shares(cut->group_tiles[g], cut->blocks[phase][g]) * tile;
            longest = time > longest ? time : longest;
        }
    return (int)(plan->grid.x * plan->grid.y) > cuda->multiprocessors ? 2 * longest : longest;
}

/* Plans tiles of so many positions of four warps. */
static bool plan_of_width(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch, int positions,
                          strip_plan *plan)
{
    axis_taps taps;
    *plan = {};
    plan->cut.width = positions;
    if (!cuda->wgmma || !(forward ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return false;
    conv_form *form = &plan->form;
    strip_cut *cut = &plan->cut;
    axis_taps axis = rc_cuda_part_axis(&taps);
    rc_cuda_set_form(conv, forward, &taps, form);
    if (form->source_c % STRIP_CHUNK != 0 || form->result_c % STRIP_N != 0 || axis.low < -1 || axis.high > 1)
        return false;
    form->rows = true;
    form->tile_c = STRIP_N;
    form->tiles = form->result_c / STRIP_N;
    form->chunk_c = STRIP_CHUNK;
    form->chunks = cut->chunks = form->source_c / STRIP_CHUNK;

    int step = taps.source_step, phases = taps.out_step * taps.out_step;
    cut->groups = view_groups(batch);
    cut->source_h = forward ? conv->h : conv->oh;
    cut->source_w = forward ? conv->w : conv->ow;
    cut->source_c = form->source_c;
    cut->source_step = step;
    cut->out_h = forward ? conv->oh : conv->h;
    cut->out_w = forward ? conv->ow : conv->w;
    cut->out_step = taps.out_step;
    int height = greatest(shares(cut->out_h, taps.out_step), shares(cut->source_h, step));
    int width = greatest(shares(cut->out_w, taps.out_step), shares(cut->source_w, step));
    int rest = WGMMA_ALIGN + STRIP_STAGES * STRIP_STEP + 2 * STRIP_STAGES * BULK_BARRIER +
               SINK_ROWS * STRIP_N * (int)sizeof(float) + 2 * (int)sizeof(strip_places);
    if (!cut_strips(cut, height, width, rc_cuda_shared(cuda, CONV_SHARED_HALF) - rest))
        return false;
    rc_cuda_list_parts(&cut->parts, &taps, -1, cut->columns, WGMMA_ROW);
    plan->shared_bytes = rest + tiles_bytes(cut);
    if (!rc_cuda_row_takes(cut, batch->n))
        return false;

    for (int phase = 0; phase < phases; phase++)
        cut->phase_chunks[phase] = cut->chunks;
    count_tiles(cut);
    deal_tiles(cuda, plan);
    return true;
}

/* Takes the plan of the width by which it is done soonest: plan_of(width, plan) makes one. Narrow tiles are to gain
 * more than the reckoning may miss. */
template <typename Plan> static bool choose_width(const rc_cuda *cuda, strip_plan *plan, Plan plan_of)
{
    static const int widths[] = {STRIP_WIDTH, 112, 96, 80};
    const double gain = 1.04;
    strip_plan next;
    bool found = false;
    for (int width : widths) {
        if (!plan_of(width, &next) || (found && time_of_plan(cuda, &next) * gain > time_of_plan(cuda, plan)))
            continue;
        *plan = next;
        found = true;
    }
    return found;
}

bool rc_cuda_plan_strip(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch,
                        strip_plan *plan)
{
    return choose_width(cuda, plan, [&](int width, strip_plan *next) {
        return plan_of_width(cuda, conv, forward, batch, width, next);
    });
}

bool rc_cuda_plan_beside(const rc_cuda *cuda, const rc_conv *conv, const rc_conv *beside, const rc_tensor *batch,
                         strip_plan *plan, conv_form *form)
{
    bool alike = conv->c_in == beside->c_in && conv->c_out == beside->c_out && conv->h == beside->h &&
                 conv->w == beside->w && conv->oh == beside->oh && conv->ow == beside->ow;
    return alike && choose_width(cuda, plan, [&](int width, strip_plan *next) {
               strip_plan other;
               if (!plan_of_width(cuda, conv, false, batch, width, next) ||
                   !plan_of_width(cuda, beside, false, batch, width, &other))
                   return false;
               const wide_parts *parts = &next->cut.parts, *single = &other.cut.parts;
               *form = other.form;
               next->cut.phase_chunks[0] += other.cut.chunks;
               deal_tiles(cuda, next);
               return next->cut.source_step == 1 && other.cut.source_step == 1 &&
                      next->cut.out_step == other.cut.out_step && parts->steps[0] == 1 && single->steps[0] == 1 &&
                      single->all_steps == 1 && parts->offset[0] == single->offset[0];
           });
}

bool rc_cuda_takes_beside(const rc_cuda *cuda, const rc_conv *conv, const rc_conv *beside, int n)
{
    wide_plan wide;
    strip_plan plan;
    conv_form form;
    rc_tensor batch = rc_cuda_batch_of(n);
    return cuda->bf16 && rc_cuda_plan_wide(cuda, conv, false, &batch, &wide) &&
           rc_cuda_plan_beside(cuda, conv, beside, &batch, &plan, &form);
}
