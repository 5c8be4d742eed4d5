/* How large the bands, blocks and slots of a convolution are made: what the caches hold. All in one place, so that a
 * build with test hooks can make them tiny (RECOLLECT_SMALL_BANDS=1), and small tensors meet every seam that large ones
 * have in earnest. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_LIMITS_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_LIMITS_H

#include "backend/cpu/fast/isa.h"

typedef struct plan_limits {
    int block_channels;  /* input channels of 3 x 3 whose weights for one output block stay in the first cache */
    int band_bytes;      /* input rows, read once per tap row and output block; but at least ... */
    int band_pixels;     /* ... outputs to pay for fetching the weights */
    int group_pixels;    /* outputs of small images that are worked on together, for the same reason */
    int whole_bytes;     /* an image that fits stays in the band, and nothing has to be moved */
    int few_tiles;       /* Winograd's tiles with at most 32 channels, in the first cache; twice as many with more */
    int enlarged_floats; /* workspace of an enlarged input */
    int narrow_floats;   /* workspace of narrow outputs */
    int fewest_tasks;    /* small images are worked on together if at least this many groups of them remain */
    int fewest_together; /* images: both gradients of one come one after the other */
    bool uneven_tasks;   /* the last tasks of a thread are made shorter */

    int slot_bytes;   /* weight gradients: all private ones together */
    int spare_bytes;  /* and those of units that a task does for another */
    int slice_bytes;  /* what one piece reads of the bands, in the first cache */
    int planes_bytes; /* transformed bands, in the second */
    int fewest_tiles, most_tiles;
    int narrow_tiles; /* most of them with at most 32 channels: a row of elements and the bands, in the first */
    int fewest_units; /* units of a slot, if it has that many images: with more units other threads can help
                            more */
} plan_limits;

const plan_limits *RC_FAST(plan_limits)(void);

#endif
