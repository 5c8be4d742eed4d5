/* What must hold between whole steps of one backend, whatever it computes with: no other backend is asked.
 *
 *   scaled    every weight of a loss twice as large: gradients of twice the size, to the bit, since powers of two do
 *             not round
 *   permuted  the images of a batch in another order: the same gradient, up to the order of sums
 *   split     a batch in two halves, where each image goes through a net whose statistics are fixed (refinement): the
 *             mean of both gradients of the head is that of the whole */
#ifndef RC_CHECK_RELATIONS_H
#define RC_CHECK_RELATIONS_H

#include "check/selftest_steps.h"

typedef enum rc_relation { RC_SCALED, RC_PERMUTED, RC_SPLIT, RC_RELATION_COUNT } rc_relation;

const char *rc_relation_name(rc_relation relation);
/* Does it hold for steps of that name? The generator makes the images of inversion itself, and only training has a
 * refinement; a step that draws for each place of a batch cannot be permuted. */
bool rc_relation_applies(rc_relation relation, const char *step);

/* |a - b| / |b| of the gradients of all parameters, the head's included, and how much it may be. One step of run. */
rc_status rc_relation_check(rc_backend *backend, rc_relation relation, const rc_step_run *run, double *error,
                            double *allowed);

#endif
