/* Images that are optimised pixel by pixel (docs/methods/deepinversion-pixels.md), in batches. A batch is a net of
 * one linear layer without bias, which takes row b of the identity to image b: so its weights are the pixels, and
 * whatever trains a generator trains it. */
#ifndef RC_CIL_PIXELS_H
#define RC_CIL_PIXELS_H

#include "nn/model.h"

typedef struct rc_pixels {
    rc_net *net;     /* of one batch; shared by all */
    rc_model *model; /* (batches): parts of the block */
    void *memory;    /* (batches, c, h, w, batch) real, backend memory */
    int batches, batch;
} rc_pixels;

/* All ~ N(0, 1), from streams of the task. */
rc_status rc_pixels_create(rc_pixels *pixels, rc_backend *backend, int batches, int batch, const rc_augment *image,
                           uint64_t seed, uint32_t task);
void rc_pixels_destroy(rc_pixels *pixels); /* a zeroed or destroyed one is fine */

/* (batch, h, w, c) bytes of batch number k: mean and std of `image` undone, rounded, clipped to 0 and 255. */
rc_status rc_pixels_read(const rc_pixels *pixels, int k, const rc_augment *image, uint8_t *bytes);

/* Label number i of those that the images are made for: uniform in 0..classes-1. */
int32_t rc_pixels_target(uint64_t seed, uint32_t task, uint64_t i, int classes);

#endif
