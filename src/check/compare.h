/* Judges one case: the same numbers on another backend, the same bits again, and gradients that are derivatives. */
#ifndef RC_CHECK_COMPARE_H
#define RC_CHECK_COMPARE_H

#include "check/case.h"

enum { RC_CHECK_THREADS = 3 };

/* The backend under test and what it is measured by. */
typedef struct rc_judges {
    rc_backend *test;
    rc_backend *narrow;                    /* "reference"; NULL: a large case, `wide` alone judges it */
    rc_backend *wide;                      /* "reference64"; of a large case a backend that is fast */
    rc_backend *threads[RC_CHECK_THREADS]; /* the one under test with 1, 2 and 3 threads; NULL: not asked */
} rc_judges;

typedef struct rc_verdict {
    bool missed;
    char text[2 * RC_CASE_TEXT]; /* what was missed */
    double error, tolerance;     /* the worst output, measured by error / tolerance */
    double slope_error;          /* the worst gradient of `wide` against finite differences; 0: no gradient */
    bool shaky;                  /* a miss that an ulp in the input explains: draw another case */
} rc_verdict;

/* |gradient of the double reference - finite differences|, relative, that counts as a miss. */
#define RC_SLOPE_TOLERANCE 1e-6

/* A failure to run at all (memory, sticky errors) is the status; a miss is in the verdict. */
rc_status rc_judge(const rc_judges *judges, const rc_case *c, rc_verdict *verdict);

/* Allowed |a - b| / (rms(b) + |b|) for an output on a backend: from the length of its sums. */
double rc_tolerance(const rc_backend *be, const rc_buffer *b);
/* The same between two backends, both of which may be off the truth: for any element, or for the usual error of all of
 * them. In bf16 an element is a sum of factors that the test has rounded, which alone moves it by 0.6 * 2^-8 of its
 * size; of thousands of elements the largest error is five times the usual one, and more where a few large terms
 * cancel. So any may be off by more, and where there are few, all of them. */
double rc_allowed(const rc_backend *test, const rc_backend *reference, const rc_buffer *b, bool any);
/* The largest such error; *where is its index. NaN or the same infinity in both counts as equal, in one as an infinite
 * error. */
double rc_error(const rc_buffer *b, const double *a, const double *reference, size_t *where);

/* Checks every gradient of the case by finite differences on the backend of `wide`; `wide` and `test` have run it. */
rc_status rc_judge_gradients(const rc_case *c, const rc_run *wide, const rc_run *test, rc_verdict *verdict);

#endif
