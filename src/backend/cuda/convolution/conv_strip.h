/* How a convolution of a wide layer is cut for the tensor cores of sm_90 (conv_strip.cuh).
 *
 * All images of a group lie in one row of positions. A map that is too wide is cut into strips. A line of a strip has a
 * column between it and the next line, in which there is no pixel; a strip of several has one on both sides, with the
 * pixels of its neighbours. An image has one line more than the map, without pixels. So a tap is the same distance
 * everywhere, and a tile is neighbours in the row. Positions without a pixel are computed and thrown away.
 *
 * A tile has 256 positions, or fewer if all tiles are done sooner then: where some blocks have four tiles and others
 * three, or where there are fewer tiles than multiprocessors. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_H

#include "backend/cuda/convolution/conv_wide.h"

enum {
    STRIP_THREADS = 256,
    STRIP_WARPS = STRIP_THREADS / 32,
    STRIP_TEAMS = STRIP_WARPS / 4,          /* warps multiply together, four and four */
    STRIP_WIDTH = 128,                      /* positions of four warps, at most */
    STRIP_N = 64,                           /* result channels of a block */
    STRIP_CHUNK = 64,                       /* source channels at once */
    STRIP_STEP = STRIP_N * STRIP_CHUNK * 2, /* bytes of the weights of a tap */
    STRIP_STAGES = 3,                       /* taps whose weights are in shared memory or on their way */
    STRIP_BLOCKS = 2,                       /* of a multiprocessor: one multiplies while the other stores */
    STRIP_PHASES = RC_PHASES * RC_PHASES
};

static_assert(STRIP_TEAMS * STRIP_WIDTH == STRIP_THREADS, "each thread finds the place of a position");

/* The row of positions of a strip. */
typedef struct strip_row {
    int columns, lines, left; /* of a line, of an image, and before the first position */
    unsigned by_columns, by_lines;
} strip_row;

/* Of strips of height x width positions and pixels; left: that have a column on both sides. */
static inline void rc_cuda_set_row(strip_row *row, int height, int width, bool left)
{
    row->left = left;
    row->columns = width + 1 + left;
    row->lines = height + 1;
    row->by_columns = reciprocal(row->columns);
    row->by_lines = reciprocal(row->lines);
}

/* May so many images be in the row? quotient() takes so much. */
static inline bool rc_cuda_row_takes(const strip_row *row, int images)
{
    long longest = row->columns > row->lines ? row->columns : row->lines;
    return (long)images * row->lines * row->columns * longest <= 0xffffffffl;
}

typedef struct strip_cut : strip_row {
    group_view groups;
    int group_tiles[RC_MAX_GROUPS];
    int blocks[STRIP_PHASES][RC_MAX_GROUPS]; /* for each tile of channels, in this order */
    int most_blocks[STRIP_PHASES];           /* of any group: so many rows of `partial` */
    int rows_before[STRIP_PHASES], rows;     /* of the phases before, and of all */
    int strips, strip_w;                     /* of a map; positions of a strip along a line */
    int width;                               /* positions of four warps: 128, 112, 96 or 80 */
    int pixels, tile_bytes;                  /* source pixels of a tile, a multiple of 4 */
    int source_h, source_w, source_c, source_step;
    int out_h, out_w, out_step;
    int chunks;                     /* of 64 channels of the source, */
    int phase_chunks[STRIP_PHASES]; /* and in a phase: with those of the map beside it */
    unsigned by_strips;
    wide_parts parts;
} strip_cut;

/* Where the results of a tile go, in shared memory: their pixels in the map, -1 where there is none, and a bit for each
 * that there is. Pixels lie as the threads of conv_strip_sink.cuh copy them: every sixteenth of the positions of four
 * warps is neighbours. */
typedef struct strip_places {
    int pixel[STRIP_TEAMS][16][STRIP_WIDTH / 16];
    unsigned exist[STRIP_WARPS];
} strip_places;

typedef struct strip_plan {
    conv_form form;
    strip_cut cut;
    int shared_bytes;
    dim3 grid;
} strip_plan;

/* As rc_cuda_plan_wide, whose workspace it needs: what that takes, on cards that can. */
bool rc_cuda_plan_strip(const rc_cuda *cuda, const rc_conv *conv, bool forward, const rc_tensor *batch,
                        strip_plan *plan);

/* The data gradient of a convolution, and in the same launch that of another with the same input and a result of the
 * same shape, which has a single tap: `form` is that of its weights. A tap of the first phase then has the channels of
 * both sources, one after the other. */
bool rc_cuda_plan_beside(const rc_cuda *cuda, const rc_conv *conv, const rc_conv *beside, const rc_tensor *batch,
                         strip_plan *plan, conv_form *form);

/* Is it planned for n images? For fewer it may not be. */
bool rc_cuda_takes_beside(const rc_cuda *cuda, const rc_conv *conv, const rc_conv *beside, int n);

#endif
