/* Checks every operation of a backend on this machine. */
#ifndef RC_CHECK_SELFTEST_H
#define RC_CHECK_SELFTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "check/compare.h"

/* What runs a case that missed once more. */
typedef struct rc_selftest_miss {
    const char *backend, *precision, *operation;
    int threads;
    uint64_t seed;
    uint32_t number; /* of the case */
    bool quick;
} rc_selftest_miss;

typedef struct rc_selftest_settings {
    const char *backend; /* under test; NULL: "cpu" */
    int threads;         /* 0: all cores */
    uint64_t seed;
    bool quick, verbose;   /* verbose: a line for every case */
    const char *operation; /* its name or that of an entry of the table; NULL: all */
    int only;              /* the case of that number alone; negative: all */
    int steps;             /* run this many whole steps and nothing else; 0: operations, and on a device whole steps,
                              too */
    int every;             /* run every n-th case of each list; 0 or 1: all */

    void (*line)(void *user, const char *text);               /* results, one line each */
    void (*progress)(void *user, const char *text);           /* what is going on; may be NULL */
    void (*missed)(void *user, const rc_selftest_miss *miss); /* after the lines of a case that missed; may be NULL */
    void *user;
} rc_selftest_settings;

typedef struct rc_selftest_result {
    int operations;
    long cases, misses;
    long redrawn; /* cases that depended on the last bit of their input, and were replaced by others */
} rc_selftest_result;

/* Misses are counted in the result. The status says only whether the selftest could run. */
rc_status rc_selftest(const rc_selftest_settings *settings, rc_selftest_result *result);

/* Runs one operation and adds to the result. */
rc_status rc_selftest_count(const rc_selftest_settings *settings, const rc_judges *judges,
                            const rc_operation *operation, rc_selftest_result *result);

/* How many of `cases` cases of an operation, or of the whole list, may be redrawn. docs/notes/gpu-checks.md has the
 * counts that were measured. */
int rc_redraw_budget(bool whole_list, int cases);

/* Compares all operations together with their budget, then prints the last line. */
void rc_selftest_conclude(const rc_selftest_settings *settings, double seconds, rc_selftest_result *result);

/* Names of the operations that can be asked for; NULL when there are no more. */
const char *rc_selftest_operation(int index);
/* Is that the name of an operation or of an entry of the table? */
bool rc_selftest_knows(const char *name);

#endif
