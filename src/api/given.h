/* Images that a caller gives to a lesson: all of them in memory, or each when it is asked for. */
#ifndef RC_API_GIVEN_H
#define RC_API_GIVEN_H

#include "cil/learner.h"
#include "data/dataset.h"
#include "forecast/progress.h"

/* Only read. */
typedef struct rc_given {
    rc_dataset data; /* shape, names, and in `train` all images; train.images NULL: `read` gives them */
    rc_status (*read)(void *user, int index, uint8_t *pixels); /* (h, w, c) */
    void *user;
} rc_given;

/* What a lesson makes of them. Start with a cleared one. */
typedef struct rc_given_parts {
    const rc_given *given;
    int8_t *held_out;     /* (all images) */
    int32_t *labels;      /* (all images): those that are trained on, then those that are held out */
    uint8_t *test_images; /* (held out, h, w, c) */
    uint8_t *image;       /* (h, w, c): the one that was asked for last */
} rc_given_parts;

/* Parts the images. data: what the caller gave, with images to train on and images to score. data->train.images is NULL
 * unless all of them lie in memory and none is held out; and data->test.images is filled by rc_given_send. Closing
 * `data` is not for the caller. */
rc_status rc_given_part(rc_given_parts *parts, const rc_given *given, double hold_out, uint64_t seed, rc_dataset *data);
void rc_given_free(rc_given_parts *parts); /* a cleared one is fine */

/* Sets mean and deviation of `data` to those of the images to train on. Asks for these, in order. */
rc_status rc_given_measure(rc_given_parts *parts, const rc_watch *watch, rc_dataset *data);
/* Gives a learner, whose task has begun without images, the images to train on, and keeps those to score. Asks for all,
 * in order. */
rc_status rc_given_send(rc_given_parts *parts, const rc_watch *watch, rc_learner *learner);
/* The same to memory: images (those to train on, h, w, c). */
rc_status rc_given_collect(rc_given_parts *parts, const rc_watch *watch, uint8_t *images);

#endif
