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

/* Cuts maps of height x width positions and pixels into as few strips as shared memory takes. */
static bool cut_strips(strip_cut *cut, int height, int width, int most_bytes)
{
    for (cut->strips = 1; cut->strips <= width; cut->strips++) {
        cut->strip_w = shares(width, cut->strips);
        rc_cuda_set_row(cut, height, cut->strip_w, cut->strips > 1);
        cut->pixels = shares(STRIP_POSITIONS + 2 * (cut->columns + 1), 4) * 4;
        cut->tile_bytes = cut->pixels * WGMMA_ROW;
        if (tiles_bytes(cut) <= most_bytes) {
            cut->by_strips = reciprocal(cut->strips);
            return true;
        }
    }
    return false;
}

/* Deals the tiles of each group to at most most_blocks blocks. Returns how many blocks there are. */
static int deal_tiles(strip_cut *cut, int most_blocks, int *tiles)
{
    int all = 0;
    *tiles = 0;
    for (int g = 0; g < cut->groups.count; g++) {
        int images = cut->groups.end[g] - group_begin(cut->groups, g), share = most_blocks / cut->groups.count;
        int row = images * cut->lines * cut->columns;
        cut->group_tiles[g] = shares(row, STRIP_POSITIONS) * cut->strips;
        cut->blocks[g] = cut->group_tiles[g] < share ? cut->group_tiles[g] : share;
        cut->most_blocks = greatest(cut->most_blocks, cut->blocks[g]);
        *tiles += cut->group_tiles[g];
        all += cut->blocks[g];
    }
    return all;
}

bool rc_cuda_plan_strip(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch,
                        strip_plan *plan)
{
    axis_taps taps;
    *plan = {};
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

    int most = STRIP_BLOCKS * cuda->multiprocessors / (form->tiles * phases), tiles;
    most = most < RC_CUDA_MAX_ROWS / phases ? most : RC_CUDA_MAX_ROWS / phases;
    int dealt = deal_tiles(cut, greatest(most, cut->groups.count), &tiles);
    plan->grid = dim3((unsigned)dealt, (unsigned)form->tiles, (unsigned)phases);
    return tiles * form->tiles * phases >= STRIP_BLOCKS * cuda->multiprocessors;
}
