/* What can be told from features of labelled images: class means, one tied covariance, classifiers made of these. */
#ifndef RC_ANALYSIS_STATISTICS_H
#define RC_ANALYSIS_STATISTICS_H

#include <stdint.h>

#include "base/pool.h"
#include "base/status.h"

/* Of features (n, d) with labels (n). One block, which `mean` begins. */
typedef struct rc_class_statistics {
    int d, classes;
    double *mean;       /* (classes, d); a class without samples: NaN */
    double *covariance; /* (d, d): of the features less their class means, divisor n */
    double *weight;     /* (classes): share of the samples */
    int32_t *count;     /* (classes): samples */
} rc_class_statistics;

/* Memory for so many; all zeros. */
rc_status rc_class_statistics_allocate(int d, int classes, rc_class_statistics *statistics);
/* labels NULL: all of class 0. On failure nothing is held. */
rc_status rc_class_statistics_create(rc_pool *pool, int n, int d, const float *features, const int32_t *labels,
                                     int classes, rc_class_statistics *statistics);
void rc_class_statistics_destroy(rc_class_statistics *statistics); /* a zeroed one is fine */

/* How many of the features (n, d) get their label (n) as the class with the highest score, by class: right (classes) is
 * overwritten. Of equal scores the first counts. A class whose mean is NaN is never said.
 *     nearest   score_k = -|x - mean_k|^2
 *     linear    score_k = x^T C^-1 mean_k - mean_k^T C^-1 mean_k / 2: linear discriminant analysis, equal priors */
rc_status rc_nearest_mean(int n, int d, const float *features, const int32_t *labels, int classes, const double *mean,
                          int32_t *right);
rc_status rc_linear_discriminant(int n, int d, const float *features, const int32_t *labels, int classes,
                                 const double *mean, const double *covariance, int32_t *right);
/* The same with score_k = x . weight_k + shift_k, weight (classes, d), shift (classes). */
void rc_linear_rule(int n, int d, const float *features, const int32_t *labels, int classes, const double *weight,
                    const double *shift, int32_t *right);
/* The same with scores (n, classes) that somebody else has computed. */
void rc_highest_scores(int n, const float *scores, const int32_t *labels, int classes, int32_t *right);

/* Percent of the images whose class is in [first, end). *among: those whose own score is the highest of these classes;
 * *told: those whose highest score of all is that of one of these classes. NaN: no image is of them. */
void rc_scores_of_task(int n, const float *scores, const int32_t *labels, int classes, int first, int end,
                       double *among, double *told);

/* |mean - other| / |other|. */
double rc_relative_distance(int d, const double *mean, const double *other);

/* Gradient direction (the paper's R): how well the gradients of the batches of an epoch agree, class by class.
 *     R_k = |sum_m g_mk| / sum_m |g_mk|
 * 1: all point the same way. */
typedef struct rc_direction {
    int d, classes;
    double *sum;  /* (classes, d) */
    double *norm; /* (classes): sum of the norms */
} rc_direction;
rc_status rc_direction_create(int d, int classes, rc_direction *direction);
void rc_direction_destroy(rc_direction *direction); /* a zeroed one is fine */
void rc_direction_clear(rc_direction *direction);   /* for the next epoch */
void rc_direction_add(rc_direction *direction, const float *gradient /* (classes, d) */);
double rc_direction_of(const rc_direction *direction, int class); /* NaN: it had no gradient but 0 */
/* Mean over the classes [first, end) that had one; NaN: none had. */
double rc_direction_mean(const rc_direction *direction, int first, int end);

#endif
