/* The minimum of a smooth convex function of many numbers, by L-BFGS (Nocedal, Mathematics of Computation 35, 1980)
 * with backtracking steps. Every sum has one order: the same function gives the same bits. */
#ifndef RC_CIL_MINIMISE_H
#define RC_CIL_MINIMISE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Returns the value at x, and writes its gradient. A value that is not finite counts as too large. */
typedef double rc_function(void *user, const double *x, double *gradient);

/* Bytes that a search over n numbers holds. */
size_t rc_minimise_bytes(size_t n);

typedef struct rc_minimum {
    double value, gradient; /* there, and the norm of the gradient */
    int iterations;
    bool reached; /* the norm is at most what was asked for; else nothing lower was found within the iterations */
} rc_minimum;

/* Goes from x (n) down until the norm of the gradient is at most `gradient`, at most `iterations` times. x becomes the
 * lowest point that it has seen. RC_CANCELLED: the thread is to stop. RC_NUMERIC: the value at x is not finite. */
rc_status rc_minimise(rc_function *function, void *user, size_t n, double gradient, int iterations, double *x,
                      rc_minimum *minimum);

/* The sum of a[i] b[i], in one order that vectors can follow. */
double rc_dot(const double *a, const double *b, size_t n);

#endif
