/* How a convolution is cut for the tensor cores: which kernel, which tiles, how much shared memory. By shape and card
 * alone. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_PLAN_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_PLAN_H

#include "backend/cuda/convolution/conv_tile.cuh"
#include "backend/cuda/convolution/pack.h"

/* Shared memory of a multiprocessor, and of one of the two blocks that it should hold: 228 kB less 1 kB for each. */
enum { CONV_SHARED_MOST = 227 * 1024, CONV_SHARED_HALF = 113 * 1024 };

/* The same where a block of the device can have less. */
static inline int rc_cuda_shared(const rc_cuda *cuda, int bytes)
{
    return bytes < cuda->shared_bytes ? bytes : cuda->shared_bytes;
}

typedef struct gather_plan {
    conv_form form;
    tile_cut cut;
    bool chunked;
    int steps[4], first_step[4], all_steps;
    int offset[CONV_TAPS + 4], square_row;
    int weight_bytes, tile_bytes, shared_bytes;
    dim3 grid;
} gather_plan;

/* Forward, or the data gradient; n, groups and group_end are those of `batch`. False: another kind's work. */
bool rc_cuda_plan_gather(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch,
                         gather_plan *plan);

/* Are the weights of all taps, of so many channels, too much for one block of two? */
bool rc_cuda_heavy_weights(int taps, int source_c, int result_c);

/* The sizes of the maps. part_step: every so manieth pixel of the source, along both axes, is a part that the tiles are
 * cut from; 1: they are cut from all of it. */
void rc_cuda_set_maps(tile_cut *cut, const rc_conv *conv, bool forward, const axis_taps *taps, int part_step);

/* Cuts base_h x base_w positions of every image into tiles of about `positions`, at most `most` and at most
 * `tile_bytes` of pixels of `pitch` bytes. The other fields of the cut have been set. Maps wider than `widest` are cut
 * into columns of tiles. */
bool rc_cuda_cut_tiles(tile_cut *cut, const axis_taps *taps, int positions, int most, int pitch, int tile_bytes,
                       int widest = 64);

/* Deals the tiles of each group to at most most_blocks blocks, all groups together. Returns how many there are. */
int rc_cuda_deal_tiles(tile_cut *cut, int most_blocks);

/* Cuts the maps of a convolution with stride 1 into strips of so many columns, whose tiles are lines, and deals these
 * to at most most_blocks blocks, or to one for each group. Returns how many there are: no more than sums have rows. */
int rc_cuda_cut_lines(tile_cut *cut, const rc_conv *conv, bool forward, const axis_taps *taps, const rc_tensor *batch,
                      int columns, int most_blocks);

/* What a kernel needs of the plan. */
template <typename Arguments> static void rc_cuda_set_gather(const gather_plan &plan, Arguments *a)
{
    a->tickets = NULL;
    a->cut = plan.cut;
    a->chunks = plan.form.chunks;
    a->tile_bytes = plan.tile_bytes;
    a->weight_bytes = plan.weight_bytes;
    a->all_steps = plan.all_steps;
    a->square_row = plan.square_row;
    for (int phase = 0; phase < 4; phase++) {
        a->steps[phase] = plan.steps[phase];
        a->first_step[phase] = plan.first_step[phase];
    }
    for (int i = 0; i < CONV_TAPS + 4; i++)
        a->offset[i] = plan.offset[i];
}

/* Lets a kernel have all the shared memory that its own variables leave. The limit belongs to the kernel, not to a
 * launch: threads that set it to what each needs would undo each other's. */
template <typename Kernel> static void rc_cuda_allow_shared(rc_cuda *cuda, Kernel *kernel, const char *operation)
{
    cudaFuncAttributes has;
    if (rc_cuda_check(cuda, cudaFuncGetAttributes(&has, kernel), operation))
        rc_cuda_check(cuda,
                      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           cuda->shared_bytes - (int)has.sharedSizeBytes),
                      operation);
}

#endif
