#include "check/bench_steps.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "check/step_world.h"

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static rc_status measure(rc_step_world *w, int times, rc_step_time *time)
{
    int each = w->be->about.asynchronous ? RC_STEP_BATCHES : 1;
    double *taken = rc_alloc(NULL, (size_t)times * sizeof *taken);
    rc_status status = taken ? rc_step_world_run(w, 0, each) : RC_OUT_OF_MEMORY;
    for (int i = 0; i < times && status == RC_OK; i++) {
        double began = rc_now();
        status = rc_step_world_run(w, (i + 1) * each, each);
        taken[i] = (rc_now() - began) / each;
    }
    if (status == RC_OK) {
        qsort(taken, (size_t)times, sizeof *taken, by_size);
        time->median = taken[times / 2];
        time->least = taken[0];
    }
    rc_free(NULL, taken);
    return status;
}

rc_status rc_bench_step(rc_backend *backend, const char *name, int batch, int size, int times, rc_step_time *time)
{
    size_t before = rc_bytes_allocated();
    rc_step_world *w;
    RC_TRY(rc_step_world_create(backend, name, RC_START_PUBLISHED, batch, size, 1, &w));
    rc_status status = measure(w, times, time);
    time->bytes = backend->about.device_memory ? rc_step_world_bytes(w) : rc_bytes_allocated() - before;
    rc_step_world_destroy(w);
    return status;
}
