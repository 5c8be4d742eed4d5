/* Whole steps of a device against the CPU backend. */
#ifndef RC_CHECK_SELFTEST_STEPS_H
#define RC_CHECK_SELFTEST_STEPS_H

#include "backend/backend.h"

/* How far a backend is from the other, in norms: |a - b| / |b|. */
typedef struct rc_step_difference {
    double loss;          /* of the first step, the worst loss; one that should be near 0 by its nature is of size 1 */
    double growth;        /* the same over all steps */
    double gradient;      /* of the first step, all parameters together */
    double tensor;        /* of the first step, the worst tensor */
    double cosine;        /* of the first step, all parameters together */
    char worst[96];       /* name of that tensor */
    bool same_bits;       /* the gradient of the last step, when it is all done again */
} rc_step_difference;

/* `steps` steps of that name (see step_world.h) on both. */
rc_status rc_compare_steps(rc_backend *test, rc_backend *other, const char *name, int batch, int size, int steps,
                           rc_step_difference *difference);

/* What is allowed: of fp32 that it computes the same in another order, of bf16 that its gradient points the same
 * way. */
rc_step_difference rc_step_tolerance(const rc_backend *test);

#endif
