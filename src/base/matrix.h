/* The little linear algebra that statistics of features need, in double: covariances, one factorisation, one
 * regression.
 *
 * Matrices are row by row. Sums are cut by shape, so any number of threads gives the same bits. A pool of NULL is one
 * thread. Where the calling thread is to stop (base/stop.h), what is computed is worth nothing and the status is
 * RC_CANCELLED. */
#ifndef RC_BASE_MATRIX_H
#define RC_BASE_MATRIX_H

#include <stdbool.h>

#include "base/pool.h"
#include "base/status.h"

/* out (a, b) = sum over the n rows of x_i y_j; x (n, a), y (n, b). */
rc_status rc_cross_products(rc_pool *pool, int n, int a, const float *x, int b, const float *y, double *out);

/* L L^T = symmetric matrix (d, d), of which the lower triangle is read; L takes its place, with zeros above the
 * diagonal. Features can be constant or depend on each other. A pivot is what a feature varies beyond those before it;
 * where one is below RC_SMALLEST_PIVOT times its entry of the diagonal, the matrix counts as singular. Then *ridge
 * times this entry (times the mean of the diagonal, if it is 0) is added to every entry of the diagonal:
 * RC_SMALLEST_RIDGE, or ten times, a hundred times... that, until it is enough. 0: nothing was added. RC_NUMERIC: the
 * matrix has a number that is not finite, is zero, or no covariance. */
#define RC_SMALLEST_PIVOT 1e-12
#define RC_SMALLEST_RIDGE 1e-9
rc_status rc_factorise(int d, double *matrix, double *ridge);

/* With L of rc_factorise. solve_lower: x becomes L^-1 x. solve: x becomes (L L^T)^-1 x. log_determinant: of L. */
void rc_solve_lower(int d, const double *lower, double *x);
void rc_solve(int d, const double *lower, double *x);
double rc_log_determinant(int d, const double *lower);

/* Does the covariance (d, d) say how far images of a class lie from each other? That of equal images, or of one image
 * a class, is what rounding leaves of the squares of the class means (classes, d), NaN where a class has none. A
 * covariance that is not finite varies. */
bool rc_covariance_varies(int d, const double *covariance, int classes, const double *mean);

/* The affine map y = A x + b that minimises sum |y - A x - b|^2 + n ridge |A|^2 over n pairs of rows x (n, d), y (n,
 * d). `ridge` is RC_MAP_RIDGE times the mean variance of x. Where x does not vary, as of one row, A is the identity:
 * all that is known is how far x has moved. residual (d, d): covariance of what the map leaves, divisor n. */
#define RC_MAP_RIDGE 1e-3
typedef struct rc_affine_map {
    int d;
    double *matrix, *shift, *residual; /* (d, d), (d), (d, d): one block, which `matrix` begins */
} rc_affine_map;
rc_status rc_affine_map_fit(rc_pool *pool, int n, int d, const float *x, const float *y, rc_affine_map *map);
void rc_affine_map_destroy(rc_affine_map *map); /* a zeroed one is fine */
/* mean (d) becomes A mean + b; covariance (d, d) becomes A covariance A^T + residual. RC_OUT_OF_MEMORY or RC_OK. */
rc_status rc_affine_map_mean(const rc_affine_map *map, double *mean);
rc_status rc_affine_map_covariance(const rc_affine_map *map, double *covariance);

#endif
