/* How a convolution of a wide layer is cut (conv_wide.cuh). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_WIDE_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_WIDE_H

#include "backend/cuda/convolution/conv_plan.h"

enum {
    WIDE_THREADS = 128,
    WIDE_CHANNELS = 32,                                          /* result channels of a warp, */
    WIDE_N = 64,                                                 /* and of a block */
    WIDE_WARPS_M = WIDE_THREADS / 32 / (WIDE_N / WIDE_CHANNELS), /* warps that share the positions of a tile */
    WIDE_CHUNK = 32,                                             /* source channels at once */
    WIDE_STEP = WIDE_CHUNK * WIDE_N * 2,                         /* bytes of the weights of a tap */
    WIDE_STAGES = 4 /* taps whose weights are in shared memory or on their way */
};

/* Positions of a tile if a warp has so many operands of 16 positions. */
__host__ __device__ constexpr int wide_tile(int tiles_m)
{
    return WIDE_WARPS_M * tiles_m * 16;
}

/* The taps, part by part: parts are the phases of the result, or those of a source that is read at every second pixel
 * and has taps there. */
typedef struct wide_parts {
    int count;
    int y[4], x[4];              /* phase of the source */
    int steps[4], first_step[4]; /* taps of each part */
    int all_steps;
    int offset[CONV_TAPS];          /* of each tap in the tile, in bytes */
    unsigned char order[CONV_TAPS]; /* which it is among those of the phase of the result */
} wide_parts;

/* Lists the parts of tiles whose lines have so many columns of `pitch` bytes, and begin at offset `low`. */
void rc_cuda_list_parts(wide_parts *parts, const axis_taps *taps, int low, int columns, int pitch);

/* The axis as a part of the source sees it, for rc_cuda_cut_tiles. */
axis_taps rc_cuda_part_axis(const axis_taps *taps);

/* Have the maps been cut into tiles of `positions`, one image each, that are many (each is worked on `copies` times)
 * and mostly full? Otherwise smaller ones keep more of the card busy. */
bool rc_cuda_large_tiles_pay(const rc_cuda *cuda, const tile_cut *cut, int positions, int copies);

/* What the kernel needs of the plan. */
typedef struct wide_cut {
    tile_cut cut; /* source pixels are those of a part */
    int chunks, tile_bytes;
    int source_h, source_w, source_c, source_step; /* of the whole source */
    wide_parts parts;
} wide_cut;

typedef struct wide_plan {
    conv_form form;
    wide_cut wide;
    int tiles_m; /* operands of 16 positions of a warp: 8, 7 or 4 */
    int shared_bytes;
    dim3 grid;
} wide_plan;

/* As rc_cuda_plan_gather. Takes what is large, and what the kernels of conv_gather.cuh would load chunk by chunk, each
 * time with what is pending. */
bool rc_cuda_plan_wide(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch, wide_plan *plan);

/* n images; how many groups there are does not change whether a plan is made. */
rc_tensor rc_cuda_batch_of(int n);

/* Bytes for the source of either direction as a plain map, and for another beside it (rc_cuda_plan_beside). */
size_t rc_cuda_wide_workspace(const rc_cuda *cuda, const rc_conv *conv, int n);

/* Do both gradients read dL/draw from a plain map? */
bool rc_cuda_wide_gradients(const rc_cuda *cuda, const rc_conv *conv, int n);

/* The weight gradient (conv_wide_weight.cu). Bytes of workspace, and whether it has been enqueued. */
size_t rc_cuda_wide_weight_workspace(const rc_cuda *cuda, const rc_conv *conv, int n);
bool rc_cuda_wide_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const value_source &value,
                                  const rc_grad *dy, const gradient_source &gradient, float *dweight);

#endif
