/* How the weight gradient of a wide layer is cut for the tensor cores of sm_90 (conv_strip_weight.cu). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_WEIGHT_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_WEIGHT_H

#include "backend/cuda/convolution/conv_strip.h"

enum {
    STRIP_SIDE = 64, /* channels of a block along each side */
    STRIP_FOURS = 4, /* of warps, at most */
    STRIP_RUN = 64,  /* positions that are multiplied at once */
    STRIP_AHEAD = 2, /* runs that are on their way */
    STRIP_UNDER = 2, /* runs whose products may be under way */
    STRIP_LEAST = 4  /* runs of a block, where there are so many */
};

/* How the taps of four warps lie: three neighbours, two and one elsewhere, two. */
typedef enum strip_line { LINE_THREE, LINE_TWO_AND_ONE, LINE_TWO } strip_line;

/* In bytes: a ring among those of its map, and the place of position 0 in it. */
typedef struct strip_four {
    unsigned draw;
    struct {
        unsigned ring, offset;
        int tap;
    } tap[3]; /* neighbours first */
} strip_four;

typedef struct strip_weight_arguments {
    strip_row row;
    const bf16 *x, *dy; /* (images, source_h, source_w, ci), (images, out_h, out_w, co) */
    float *sums;        /* (blocks, taps, co, ci) */
    int images, co, ci, source_h, source_w, source_step, out_h, out_w, out_step, taps;
    int runs;                         /* of all blocks */
    int more;                         /* runs of the source that a run of positions needs behind the one like it */
    int draws;                        /* rings of dL/draw: its phases along a line */
    int parts, part_y[4], part_x[4];  /* phases of the source that have taps */
    strip_four fours[2][STRIP_FOURS]; /* for each phase of dL/draw from line to line */
} strip_weight_arguments;

typedef struct strip_weight_plan {
    strip_weight_arguments arguments;
    strip_line line;
    int shared_bytes;
    dim3 grid;
} strip_weight_plan;

/* For n images; a block for each multiprocessor. Takes nine taps, and two by two of each of four phases of the result.
 * False: others, what does not fit, or the card has no such products. */
bool rc_cuda_plan_strip_weight(const rc_cuda *cuda, const rc_conv *conv, const axis_taps *taps, int n,
                               strip_weight_plan *plan);

/* x, dy and sums have been set. */
void rc_cuda_launch_strip_weight(rc_cuda *cuda, const char *operation, const strip_weight_plan *plan);

#endif
