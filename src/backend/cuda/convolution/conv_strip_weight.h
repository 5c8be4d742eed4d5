/* How the weight gradient of a wide layer is cut for the tensor cores of sm_90 (conv_strip_weight.cu). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_WEIGHT_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_WEIGHT_H

#include "backend/cuda/convolution/conv_strip.h"

enum {
    STRIP_SIDE = 64, /* channels of a block along each side */
    STRIP_FOURS = 3, /* four warps for each line of taps */
    STRIP_RUN = 64,  /* positions that are multiplied at once */
    STRIP_AHEAD = 2, /* runs that are on their way */
    STRIP_UNDER = 2  /* runs whose products may be under way */
};

typedef struct strip_weight_arguments {
    strip_row row;
    const bf16 *x, *dy; /* (images, source_h, source_w, ci), (images, out_h, out_w, co) */
    float *sums;        /* (blocks, taps, co, ci) */
    int images, co, ci, source_h, source_w, source_step, out_h, out_w;
    int runs;                        /* of all blocks */
    int more;                        /* runs of the source that a run of positions needs behind the one like it */
    int parts, part_y[4], part_x[4]; /* phases of the source that have taps */
    struct {
        unsigned ring, offset; /* of position 0, in bytes: the part's ring, and the place in it */
        int tap;
    } taps[STRIP_FOURS][3]; /* of each four warps; the second is a row behind the first */
} strip_weight_arguments;

typedef struct strip_weight_plan {
    strip_weight_arguments arguments;
    bool joined; /* the third tap is a row behind the second */
    int blocks, tiles, shared_bytes;
} strip_weight_plan;

/* For n images; a block for each multiprocessor. False: the layer has no nine taps, does not fit, or the card has no
 * such products. */
bool rc_cuda_plan_strip_weight(const rc_cuda *cuda, const rc_conv *conv, const axis_taps *taps, int n,
                               strip_weight_plan *plan);

/* x, dy and sums have been set. */
void rc_cuda_launch_strip_weight(rc_cuda *cuda, const char *operation, const strip_weight_plan *plan);

#endif
