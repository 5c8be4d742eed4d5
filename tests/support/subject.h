/* A backend under test with one case of a fixture: makes the case's inputs in backend memory, compares results, and
 * gives all memory back at the end of the case. */
#ifndef RC_TESTS_SUPPORT_SUBJECT_H
#define RC_TESTS_SUPPORT_SUBJECT_H

#include "backend/backend.h"
#include "support/oracle.h"

enum { SUBJECT_BLOCKS = 512 };

typedef struct subject {
    rc_backend *be;
    const oracle_case *c;
    double tolerance;
    void *held[SUBJECT_BLOCKS];
    int blocks;
} subject;

/* Zeroed backend memory. */
void *subject_bytes(subject *s, size_t bytes);
/* Reals, NULL: zeros; the input `name` of the case; and one float that an operation reads through a pointer. */
void *subject_reals(subject *s, const double *values, size_t count);
void *subject_input(subject *s, const char *name, size_t count, double scale, double offset);
const float *subject_weight(subject *s, double value);
int32_t *subject_labels(subject *s, const int32_t *labels, size_t count);
/* A tensor of one group with nothing pending: zeros, or the input `name`. */
rc_tensor subject_map(subject *s, int n, int h, int w, int c);
rc_tensor subject_map_input(subject *s, const char *name, int n, int h, int w, int c, double scale, double offset);

/* Results; pad channels must be zero. */
void subject_expect(subject *s, const char *name, const void *reals, size_t count);
void subject_expect_map(subject *s, const char *name, const rc_tensor *shape, const void *memory);
void subject_expect_double(subject *s, const char *name, const double *values, size_t count);

/* Ends the case: no error may be pending. */
void subject_clear(subject *s);

/* Ends the test, naming backend and case, unless the status is RC_OK. */
void subject_must(const subject *s, rc_status status);

/* Runs `test` for every case that begins with `prefix` on every CPU backend: tolerance[0] where it computes in float,
 * tolerance[1] in double. Prints the worst error of each backend. RECOLLECT_TEST_BACKEND names one that runs alone. */
void subject_run(oracle *file, const char *prefix, const double tolerance[2], void (*test)(subject *));
/* The same on the fast backend alone; on the double reference alone. */
void subject_run_fast(oracle *file, const char *prefix, const double tolerance[2], void (*test)(subject *));
void subject_run_double(oracle *file, const char *prefix, const double tolerance[2], void (*test)(subject *));

#endif
