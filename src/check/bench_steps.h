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

#endif
