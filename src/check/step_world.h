/* The three steps that an experiment spends its time in, as METHODS has them for CIFAR-100 with five tasks: the first
 * task trains 20 classes on real images alone; the second trains 20 more with dreams beside (CwD); inversion teaches
 * the generator between them. Net and generator are those published for the size of the images. Weights and images are
 * random, of a seed, the same on every backend. */
#ifndef RC_CHECK_STEP_WORLD_H
#define RC_CHECK_STEP_WORLD_H

#include "cil/step_inversion.h"

enum { RC_STEP_BATCHES = 4 }; /* of images that there are */

typedef struct rc_step_world {
    rc_backend *be;
    int batch, size;
    uint64_t seed;
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
rc_status rc_step_world_create(rc_backend *backend, const char *name, int batch, int size, uint64_t seed,
                               rc_step_world **world);
void rc_step_world_destroy(rc_step_world *world); /* NULL is fine */

/* `count` steps from step `number` on; every batch of the data comes before the first one comes again. */
rc_status rc_step_world_run(rc_step_world *world, int number, int count);

/* Losses (RC_LOSS_COUNT) of the last step, and the gradient that it took of the parameters of a net: the student's, or
 * in inversion the generator's. */
const void *rc_step_world_losses(const rc_step_world *world);
const void *rc_step_world_gradient(const rc_step_world *world, const rc_net **net);

/* The logits (batch, classes) by which the last step of inversion has chosen its labels (batch); false: a step that has
 * chosen none. */
bool rc_step_world_labels(const rc_step_world *world, const void **logits, const int32_t **labels, int *classes);

/* Bytes of backend memory that the step holds, without models and data. */
size_t rc_step_world_bytes(const rc_step_world *world);

#endif
