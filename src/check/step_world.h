/* The three steps that an experiment spends its time in, as published for CIFAR-100 with five tasks: the first
 * task trains 20 classes on real images alone; the second trains 20 more with dreams beside (CwD); inversion teaches
 * the generator between them. A fourth is the first with everything that strong settings do to images and labels.
 * Net and generator are those published for the size of the images. Weights and images are random, of a seed, the same
 * on every backend.
 *
 * Where a step starts:
 *   published  with weights as an experiment draws them. Some of millions of activations lie on the kink of their ReLU,
 *              so that the gradient jumps where rounding turns a sign. The last normalisation of a residual block has
 *              gamma 0: no other weight of the block has a gradient yet. Heads are so small that almost all of the
 *              gradient of inversion is the BN loss's.
 *   smooth     where nothing jumps and everything counts. A normalisation before a ReLU gives mean 1 or -1, by the
 *              channel, and a deviation of an eighth: no activation is near its kink, and both sides of it are
 *              there. Blocks have gamma 1/8, heads are larger, and the losses of inversion have weights by which
 *              each has its share of the gradient. */
#ifndef RC_CHECK_STEP_WORLD_H
#define RC_CHECK_STEP_WORLD_H

#include "cil/step_inversion.h"

/* Batches of images in the data, and steps of one call at most, in which they come again and again. */
enum { RC_STEP_BATCHES = 4, RC_STEP_MOST = 64 };

typedef enum rc_step_start { RC_START_PUBLISHED, RC_START_SMOOTH, RC_START_COUNT } rc_step_start;

typedef struct rc_step_world {
    rc_backend *be;
    int batch, size;
    uint64_t seed;
    rc_step_start start;
    bool plain; /* images as they are, in their order: nothing is drawn for a place of a batch */
    rc_net net, dreams;
    rc_classifier student, teacher;
    rc_model generator;
    void *images, *labels, *order, *class_mean, *covariance;
    rc_resident_data data;
    rc_training *training; /* or */
    rc_inversion *inversion;
} rc_step_world;

/* Name of step `index`; NULL when there are no more. */
const char *rc_step_world_name(int index);

/* The net (nets.h) of images of `size` pixels: ResNet-18 at ImageNet's 224, otherwise ResNet-32. */
const char *rc_step_world_net(int size);

/* Builds the net and, where the step needs them, teacher and generator. On failure *world is NULL. */
rc_status rc_step_world_create(rc_backend *backend, const char *name, rc_step_start start, int batch, int size,
                               uint64_t seed, rc_step_world **world);
rc_status rc_step_world_create_plain(rc_backend *backend, const char *name, rc_step_start start, int batch, int size,
                                     uint64_t seed, rc_step_world **world);
void rc_step_world_destroy(rc_step_world *world); /* NULL is fine */

/* Multiplies the weights of all losses. */
void rc_step_world_scale(rc_step_world *world, float factor);
/* Turns the order of the images of every batch of a plain world around. */
rc_status rc_step_world_reverse(rc_step_world *world);
/* Step `number` of refinement, once; of a world of one task. */
rc_status rc_step_world_refine(rc_step_world *world, int number);

/* `count` steps from step `number` on, of which the host waits for the last; every batch of the data comes before the
 * first one comes again. */
rc_status rc_step_world_run(rc_step_world *world, int number, int count);

/* Losses (RC_LOSS_COUNT) of the last step, and the gradient that it took of the parameters of a net: the student's, or
 * in inversion the generator's. */
const void *rc_step_world_losses(const rc_step_world *world);
const void *rc_step_world_gradient(const rc_step_world *world, const rc_net **net);
/* The gradient (*count) of the student's head; NULL in inversion, which has none. */
const void *rc_step_world_head_gradient(const rc_step_world *world, size_t *count);

/* The logits (batch, classes) by which the last step of inversion has chosen its labels (batch); false: a step that has
 * chosen none. */
bool rc_step_world_labels(const rc_step_world *world, const void **logits, const int32_t **labels, int *classes);

/* Bytes of backend memory that the step holds, without models and data. */
size_t rc_step_world_bytes(const rc_step_world *world);

#endif
