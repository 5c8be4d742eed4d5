/* Small tensors for tests of operations: written and read as doubles, whatever the backend computes in. A failure of
 * these ends the test. */
#ifndef RC_TESTS_SUPPORT_TENSORS_H
#define RC_TESTS_SUPPORT_TENSORS_H

#include "backend/backend.h"

/* The CPU backends, one after another: for (int i = 0; (be = nth_backend(i)); i++) { ...; rc_backend_close(be); } */
rc_backend *nth_backend(int i);

/* Rounding that a short sum may show in the backend's type, for values around 1. */
double rounding(const rc_backend *be);

/* Backend memory with these values; NULL: zeros. Give it back with be->release. */
void *new_reals(rc_backend *be, const double *values, size_t count);
/* A tensor of one group with nothing pending; values (n, h, w, c), NULL: zeros. Give it back with free_tensor. */
rc_tensor new_tensor(rc_backend *be, int n, int h, int w, int c, const double *values);
void free_tensor(rc_backend *be, rc_tensor *t);

/* Compares `count` reals, and (n, h, w, c) activations of t's shape; pad channels must be zero. */
void expect_reals(rc_backend *be, const void *memory, const double *expected, size_t count);
void expect_act(rc_backend *be, const rc_tensor *shape, const void *memory, const double *expected);

/* values[i] in (-1, 1), different for every seed. */
void fill_random(double *values, size_t count, uint64_t seed);

#endif
