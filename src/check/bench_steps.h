/* Whole steps for the bench. */
#ifndef RC_CHECK_BENCH_STEPS_H
#define RC_CHECK_BENCH_STEPS_H

#include "backend/backend.h"

typedef struct rc_step_time {
    double median, least; /* seconds */
    size_t bytes;         /* of memory held during the step: models, activations, optimiser, data (cuda: without the
                             first and the last) */
} rc_step_time;

/* Measures `times` steps of that name (see step_world.h), after some to warm up. */
rc_status rc_bench_step(rc_backend *backend, const char *name, int batch, int size, int times, rc_step_time *time);

/* The same by `jobs` threads side by side, each with a backend of its own, as the cells of an experiment run. The time
 * is that in which one step more is done, whoever does it: what runs side by side does more work than one after the
 * other if it is less than the time of a step alone. Bytes are those of one job. `backend` and `threads` (of each) are
 * as rc_backend_open() takes them. */
rc_status rc_bench_step_at_once(const char *backend, int threads, const char *name, int batch, int size, int times,
                                int jobs, rc_step_time *time);

#endif
