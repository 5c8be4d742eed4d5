/* How little an image looks like what a model has learnt: the Mahalanobis distance of its feature vector from
 * the nearest class mean, under the one covariance that the model stores for all classes.
 *
 * The covariance gets a ridge, a hundredth of its mean diagonal, because few images give a singular one. The
 * squared distance is divided by its expectation over the stored Gaussian and the root is taken, so that 1 is
 * what an average training image has, whatever the net's width; strangers lie higher. */
#ifndef RC_API_UNFAMILIARITY_H
#define RC_API_UNFAMILIARITY_H

#include "cil/learner.h"

typedef struct rc_unfamiliarity rc_unfamiliarity;

/* From this value on the program calls an image unfamiliar. */
#define RC_UNFAMILIAR 2.0

/* *out is NULL, without an error, for a model that has no statistics. RC_FORMAT: the stored numbers are not a
 * covariance. `backend` reads them: the learner's own, or another one that can read its memory. */
rc_status rc_unfamiliarity_create(const rc_learner *learner, rc_backend *backend, rc_unfamiliarity **out);
void rc_unfamiliarity_destroy(rc_unfamiliarity *unfamiliarity); /* NULL is fine */

/* feature: (d). *nearest is the class whose mean is nearest. NaN for a feature that is not finite. */
double rc_unfamiliarity_of(rc_unfamiliarity *unfamiliarity, const float *feature, int *nearest);

#endif
