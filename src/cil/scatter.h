/* How the features of single classes scatter: out of their images come means, the covariance that they share, and a
 * covariance of every class. That of a class with n images is
 *
 *   C_k = (S_k + RC_SHARED_IMAGES C) / (n - 1 + RC_SHARED_IMAGES)
 *
 * S_k: the sum of (x - mean_k)(x - mean_k)^T over its images, C: the shared covariance. So C counts as much as that
 * many images, and is all that a class of one image has. A class keeps the lower triangle of L with L L^T = C_k, row by
 * row: whatever its numbers are, L L^T is a covariance. */
#ifndef RC_CIL_SCATTER_H
#define RC_CIL_SCATTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    RC_SHARED_IMAGES = 16,   /* docs/notes/lessons-of-the-head.md has what was measured */
    RC_FACTOR_FEATURES = 128 /* nets with more keep the shared covariance alone */
};

typedef struct rc_scatter {
    int d, classes;
    double *sum, *outer; /* (classes, d), (classes, numbers): of x, of x x^T; one block, which sum begins */
    int32_t *count;      /* (classes) */
} rc_scatter;

size_t rc_factor_numbers(int d); /* of a triangle */
rc_status rc_scatter_create(int d, int classes, rc_scatter *scatter);
void rc_scatter_destroy(rc_scatter *scatter); /* a zeroed one is fine */
void rc_scatter_add(rc_scatter *scatter, int class, const double *feature);
/* What all images have beyond the means of their classes: covariance (d, d), divided by `divisor`. */
void rc_scatter_shared(const rc_scatter *scatter, double divisor, double *covariance);
/* factor (classes, numbers). RC_NUMERIC: features do not vary, or are no numbers. */
rc_status rc_scatter_factors(const rc_scatter *scatter, const double *shared, float *factor);

#endif
