/* What a convolution comes down to: the geometry of its passes over memory, worked out once per call.
 *
 * Along each axis there are two ways in which input and output positions meet through tap t of a kernel:
 *     gather   in  = out * stride - pad + t      convolution forward; data gradient of a transposed one
 *     scatter  out = in  * stride - pad + t      transposed convolution forward; data gradient of a plain one
 * A scatter is turned around: the outputs of one residue r = out mod stride read a contiguous range of inputs, each
 * through every stride-th tap, last tap first. So a scatter is stride x stride gathers of step 1, whose outputs
 * interleave, and both ways are the same loop: outputs `out_step` apart, inputs `in_step` apart, adjacent taps.
 *
 * Enlarging twice by nearest neighbour before a k x k convolution is a scatter of stride 2 with a kernel of k + 1:
 * output o reads enlarged pixel o + t - pad, which is input (o + t - pad) / 2, so input i reaches output 2 i + q - pad'
 * with pad' = k - 1 - pad through taps k - 1 - q and k - q together. Borders come out right because enlarged pixels
 * beyond the border belong to inputs beyond the border. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_PLAN_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_CONV_PLAN_H

#include "backend/cpu/fast/isa.h"

enum { MAX_STRIDE = 8 };

/* One residue along one axis: output j of it reads inputs j * in_step + first .. + taps - 1. */
typedef struct tap_axis {
    int outputs;                   /* how many output positions have this residue */
    int first, taps;               /* taps may be 0: such outputs read nothing */
    int kernel_first, kernel_step; /* tap number i is kernel position kernel_first + i * kernel_step */
} tap_axis;

typedef struct tap_geometry {
    bool scatter;
    int k, stride, pad; /* of the kernel that is run: k + 1, 2, k - 1 - pad for an enlarged input */
    bool folded;        /* that kernel is made of a smaller one */
    int in_step, out_step;
} tap_geometry;

/* Input channel `in` reaches output channel `out` through weight[out * out_stride + in * in_stride + tap]. */
typedef struct weight_layout {
    size_t out_stride, in_stride;
    int k;
} weight_layout;

/* How the sums are made of a band. */
typedef enum conv_way {
    CONV_DIRECT,   /* tap by tap */
    CONV_WINOGRAD, /* winograd.h: 3 x 3 of step 1 */
    CONV_ENLARGED, /* enlarged.h: 3 x 3 behind an enlargement */
    CONV_NARROW    /* narrow.h: few outputs */
} conv_way;

typedef struct conv_plan {
    conv_way way;
    int in_h, in_w, in_c, in_cp;
    int out_h, out_w, out_c, out_cp;
    tap_geometry taps;
    tap_axis y[MAX_STRIDE], x[MAX_STRIDE]; /* out_step of them */
    weight_layout weights;
    int kernel_c_out, kernel_c_in; /* as PyTorch counts them, for folding */

    /* The band of input rows: (blocks, rows, width, channels of the block). */
    bool compact;        /* 1 to 3 channels without their padding */
    int block, blocks;   /* input channels of a block: its weights stay in the first cache; direct only */
    int units, band;     /* rows of output positions of one residue, and how many of them a band makes */
    int first_y, span_y; /* unit u reads rows u * in_step + first_y and the span_y - 1 after it */
    int rows;            /* rows in the band */
    int width, left;     /* columns in the band, `left` of them border */
    bool borders;        /* the taps reach beyond the image */

    int images; /* that are worked on together: small ones, for the sake of enough tiles or pixels */
    int tiles;  /* Winograd: of them all, 2 x 2 outputs each */

    size_t packed_floats, folded_floats, band_floats, workspace_floats;
} conv_plan;

enum { MAX_PLAN_IMAGES = 4 };

conv_plan RC_FAST(plan_forward)(const rc_conv *conv, int n);
conv_plan RC_FAST(plan_backward_data)(const rc_conv *conv, int n);

/* How the kernel of a convolution meets the pixels: forward, or backward to its data. */
tap_geometry RC_FAST(tap_geometry)(const rc_conv *conv, bool backward);
/* Along one axis with `outputs` positions: those that are `residue` modulo out_step. */
tap_axis RC_FAST(tap_axis)(const tap_geometry *taps, int residue, int outputs);

/* Channels of the input that block number b holds. */
static inline int plan_block_channels(const conv_plan *plan, int b)
{
    int all = plan->compact ? plan->in_c : plan->in_cp, left = all - b * plan->block;
    return left < plan->block ? left : plan->block;
}

/* Weights (PyTorch's layout) on their way to where the tiles read them. */
typedef struct pack_job {
    const conv_plan *plan;
    const float *weight;
    float *packed;
    int parts; /* winograd.c: tasks that share the input channels of an output block */
} pack_job;

/* Folds the kernel of an enlarged input into `folded`; job->weight is that from then on. */
void RC_FAST(fold_weights)(rc_cpu *cpu, pack_job *job, float *folded);

/* What packs for the tiles: (output block, input block, residue, tap, in, out of the block). */
rc_phase RC_FAST(pack_weights)(pack_job *job);

/* Where the packed weights of an output block, an input block and a residue begin. */
size_t RC_FAST(packed_at)(const conv_plan *plan, int out, int b, int residue_y, int residue_x);

#endif
