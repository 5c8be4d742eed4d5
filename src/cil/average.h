/* Means of models: of a classifier over the ends of epochs, and of two classifiers. */
#ifndef RC_CIL_AVERAGE_H
#define RC_CIL_AVERAGE_H

#include "cil/classifier.h"
#include "cil/state.h"

enum { RC_AVERAGE_PARTS = 4 }; /* weights and running statistics of the backbone, rows and bias of the head */

typedef struct rc_average {
    rc_backend *backend;
    struct {
        void *now, *mean; /* real; now NULL: the classifier has no such part */
        size_t count;
    } part[RC_AVERAGE_PARTS];
} rc_average;

/* Of this classifier, whose memory must stay where it is. On failure nothing is held. */
rc_status rc_average_create(rc_average *average, const rc_classifier *classifier);
void rc_average_destroy(rc_average *average); /* a zeroed one is fine */
/* Bytes of the backend that it holds; bytes of the host that rc_average_add and rc_average_with take for a moment. */
size_t rc_average_bytes(const rc_classifier *classifier);
size_t rc_average_scratch(const rc_classifier *classifier);
/* For checkpoints. */
rc_status rc_average_register(const rc_average *average, rc_state *state);
/* The classifier as it is now is number 1, 2, ... of those that count. */
rc_status rc_average_add(rc_average *average, int number);
/* The classifier becomes the mean. */
void rc_average_apply(const rc_average *average);

/* classifier = (1 - share) classifier + share old, but for the rows of the head that the old one lacks. */
rc_status rc_average_with(rc_classifier *classifier, const rc_classifier *old, double share);

#endif
