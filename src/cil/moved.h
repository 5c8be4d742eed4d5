/* Class statistics that follow a net as it learns (docs/methods/cwd-plus.md). What is stored of the old classes are
 * means and one covariance of features of the old net. Features of the task's images by the old net and by the new one
 * tell how features move: a ridge regression fits an affine map from the first to the second. The map moves the stored
 * means and the stored covariance. The task's own classes have those of their images. No dream's label is asked.
 *
 * With plus_variances every class k has variances v of its own. Its covariance is S C S: C the shared one, S the
 * diagonal matrix that makes its diagonal v, so that correlations are shared. A first task has the statistics of its
 * images.
 *
 * The net must not change any more: main training is done. The same learner gives the same bits. */
#ifndef RC_CIL_MOVED_H
#define RC_CIL_MOVED_H

#include "cil/learner.h"

typedef struct rc_moved {
    int d, classes;
    double *mean;       /* (classes, d); NaN: nothing is known of the class. One block, which this begins */
    double *covariance; /* (d, d): moved and own one, weighted by their numbers of classes */
    double *lower;      /* (d, d): lower lower^T = covariance */
    double *variance;   /* (classes, d); NaN: likewise. NULL: that of the covariance */
    double *factor;     /* (classes, rc_factor_numbers(d)): of each class, in place of all of these; NULL: none */
} rc_moved;

/* Can the statistics of the task at hand be moved? Only if there are some of every old class, and an old net. */
bool rc_moved_possible(const rc_learner *learner);
/* Do the settings ask for dreams beside the images, and are there any? */
bool rc_moved_takes_dreams(const rc_learner *learner);
/* dreams: the map is fitted on as many dreams as images, too. On failure nothing is held. */
rc_status rc_moved_create(rc_learner *learner, bool dreams, rc_moved *moved);
/* *bytes: the most that rc_moved_create takes, passes included. Builds these and drops them. A backend that counts
 * memory counts all of it. */
rc_status rc_moved_count(rc_learner *learner, bool dreams, size_t *bytes);
/* What of it stays until rc_moved_destroy. */
size_t rc_moved_bytes(const rc_learner *learner);
/* As the learner stores them, of a net that stays as it is. On failure nothing is held. */
rc_status rc_moved_read(const rc_learner *learner, rc_moved *moved);
/* They become what the learner stores. */
rc_status rc_moved_keep(const rc_moved *moved, rc_learner *learner);
void rc_moved_destroy(rc_moved *moved); /* a zeroed one is fine */

/* How many features refinement draws of each of so many classes: 16, and fewer of more than 2048, because each of them
 * has a logit of every class. */
int rc_moved_each(int classes);

/* `each` features of every class, drawn from normal distributions: feature (classes * each, d), label (classes * each),
 * one of every class in turn, but for those without a mean: each is passed over. Other numbers in every epoch. */
void rc_moved_draw(const rc_moved *moved, rc_rng rng, int epoch, int each, float *feature, int32_t *label);

#endif
