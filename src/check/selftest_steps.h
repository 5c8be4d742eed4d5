/* Whole steps of a backend against another one.
 *
 * The comparison must not depend on rounding that may fall either way, so:
 * - The label of a dream is the class of its greatest logit. Where two logits are nearly equal, backends may choose
 *   differently, and the losses that group dreams by label (DCE) jump in that step, and in that step alone. Labels are
 *   compared by how far apart the logits are that have changed places; the DCE of a step whose labels differ is not
 *   compared. A random teacher gives nearly all dreams to two classes, so this happens in most runs of ten steps in
 *   bf16: one dream of 16 that moved changed DCE by a fifth, while every other loss stayed within half a percent.
 * - If rounding changes the sign of an activation, the gradient changes by the whole share of that activation. In a
 *   published start (step_world.h) of inversion, batch 16, 32 pixels, this happened to one to three of four million
 *   activations in 17 of 30 draws of weights: the gradient is off by 1e-6 in fp32 without one, and by up to 2e-3 with
 *   one. Over ten steps the losses drifted apart by 2e-4 to 3e-3, from a smooth start by 2e-7: so the signs are the
 *   cause, and not Adam. From a published start fp32 is therefore judged by the losses of the first step, which signs
 *   cannot change, and by those of ten steps of training; gradients are held to the limits of bf16.
 * - In a smooth start there is no such sign. All gradients and losses of fp32 are judged there, by limits that
 *   rounding keeps away from: with every weight up to 6e-8 of itself aside, over 30 seeds, the worst tensor of a step
 *   of inversion is 8e-6 off (2e-5 are allowed), of a step of training 5e-5 (2e-4), and losses 6e-5 after ten steps of
 *   it (1e-3). One element of a result that is one percent too large is seen, whichever operation of a step it is of
 *   (test_broken_steps). */
#ifndef RC_CHECK_SELFTEST_STEPS_H
#define RC_CHECK_SELFTEST_STEPS_H

#include "check/step_world.h"

enum {
    RC_STEP_CHECKED = 10 /* steps in which losses are judged; later ones are only printed */
};

typedef struct rc_step_run {
    const char *name; /* see step_world.h */
    rc_step_start start;
    int batch, size, steps;
    uint64_t seed;
} rc_step_run;

typedef struct rc_tensor_difference {
    char name[2 * RC_NAME_MAX];
    double norm; /* of the other's gradient */
    double distance, cosine;
} rc_tensor_difference;

/* How far a backend is from the other, in norms: |a - b| / |b|. */
typedef struct rc_step_difference {
    double loss;        /* of the first step, the worst loss; one that should be near 0 by its nature is of size 1 */
    double growth;      /* the same over the first RC_STEP_CHECKED steps, */
    int growth_loss;    /* and which loss it is */
    double label;       /* of logits that have changed places in these steps, the widest gap, by the greatest logit */
    int labels;         /* how many labels differ */
    double gradient;    /* of the first step, all parameters together */
    double cosine;      /* of the first step, all parameters together */
    bool same_bits;     /* the gradients of the first and the last step, when it is all done again */
    int tensors, worst; /* of the first step: tensors of parameters, and which of them is farthest */
    rc_tensor_difference *tensor;
    double *after; /* (steps): the worst loss in any step up to this one */
} rc_step_difference;

/* Runs these steps on both backends. Call rc_step_difference_free() in any outcome. */
rc_status rc_compare_steps(rc_backend *test, rc_backend *other, const rc_step_run *run, rc_step_difference *difference);
void rc_step_difference_free(rc_step_difference *difference);

/* The limits. In a smooth start fp32 must compute the same up to the order of sums; bf16 must have a gradient that
 * points the same way. */
typedef struct rc_step_limits {
    double loss, growth /* of labels too */, gradient, tensor, cosine;
} rc_step_limits;

rc_step_limits rc_step_tolerance(const rc_backend *test, const rc_step_run *run);
bool rc_step_agrees(const rc_step_difference *difference, const rc_step_limits *limits);

#endif
