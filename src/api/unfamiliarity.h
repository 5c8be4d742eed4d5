/* How strange an image is to a model: one number, the larger the stranger, whose order alone means something. It needs
 * no image, only what the model stores.
 *
 * With class statistics (means m_k of the features and their one covariance S):
 *
 *     score = min_k |f - m_k|^2_S  -  |f - m|^2_T  +  4 entropy
 *
 * The first two terms are the relative Mahalanobis distance: how far the image's features f lie from the nearest class,
 * less how far they lie from everything that the model has seen (m is the mean of the class means, T is S plus the
 * covariance of the class means). Both covariances are shrunk towards a multiple of the identity, because few images
 * give a bad one. The third is the entropy of the probabilities: strangers of the same kind lie near, but between the
 * classes. The distance alone misses these, and the entropy alone misses what lies far from every class.
 *
 * Without class statistics, and where S is 0, because every class was learnt from one image: the entropy alone.
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
 * nearest; -1: the score is the entropy alone. NaN where the score is not finite. */
double rc_unfamiliarity_score(rc_unfamiliarity *unfamiliarity, const float *logits, const float *feature, int *nearest);

/* The score as callers get it: log(1 + exp(score)), which has the same order and is above 0. */
double rc_unfamiliarity_shown(double score);

#endif
