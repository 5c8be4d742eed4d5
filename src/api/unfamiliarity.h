/* How strange an image is to a model: one number, the larger the stranger, whose order alone means something. It needs
 * no image, only what the model stores.
 *
 * With class statistics (means m_k of the features and their one covariance S):
 *
 *     score = sqrt(2 / d) min_k |f - m_k|^2_S  -  log sum_k exp(logit_k)
 *
 * The first term is the squared Mahalanobis distance of the image's features f (d) from the nearest class. S is shrunk
 * towards a multiple of the identity, because few images give a bad one. Over a Gaussian the distance has the deviation
 * sqrt(2 d), so the factor brings it to 2, whatever the net's width: about the deviation of the second term over images
 * of known classes. That is the energy of the logits: how much evidence there is for any class. Neither term alone does
 * well. Strangers of the same kind give little evidence; noise gives much, but lies far from every class.
 *
 * Without class statistics: the entropy of the probabilities.
 *
 * docs/unfamiliarity.md compares this with other scores. model/calibration.h makes a false-alarm rate of it. */
#ifndef RC_API_UNFAMILIARITY_H
#define RC_API_UNFAMILIARITY_H

#include "cil/learner.h"
#include "model/calibration.h"

typedef struct rc_unfamiliarity rc_unfamiliarity;

/* RC_FORMAT: the stored numbers are not a covariance. `backend` reads them: the learner's own, or another one that can
 * read its memory. */
rc_status rc_unfamiliarity_create(const rc_learner *learner, rc_backend *backend, rc_unfamiliarity **out);
void rc_unfamiliarity_destroy(rc_unfamiliarity *unfamiliarity); /* NULL is fine */

/* Which of the two scores this model has. */
rc_score_kind rc_unfamiliarity_kind(const rc_unfamiliarity *unfamiliarity);

/* The score of an image with these logits (classes of the head) and features (d). *nearest is the class whose mean is
 * nearest; -1: the model has no class statistics. NaN where the score is not finite. */
double rc_unfamiliarity_score(rc_unfamiliarity *unfamiliarity, const float *logits, const float *feature, int *nearest);

/* The score as callers get it: log(1 + exp(score)), which has the same order and is above 0. */
double rc_unfamiliarity_shown(double score);

#endif
