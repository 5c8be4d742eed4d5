#include "check/bench_steps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "check/step_world.h"

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `taken`: (times), which it sorts. */
static void summarise(double *taken, int times, rc_step_time *time)
{
    qsort(taken, (size_t)times, sizeof *taken, by_size);
    time->median = taken[times / 2];
    time->least = taken[0];
}

/* How many steps a turn has. Where they are asynchronous, the host waits as seldom as in training: a turn takes a
 * quarter of a second, as those of the peers in bench/ do, or has RC_STEP_MOST of them. */
static rc_status choose_steps(rc_step_world *w, int *each)
{
    *each = w->be->about.asynchronous ? RC_STEP_BATCHES : 1;
    RC_TRY(rc_step_world_run(w, 0, *each)); /* which also gets ready */
    if (!w->be->about.asynchronous)
        return RC_OK;
    double began = rc_now();
    RC_TRY(rc_step_world_run(w, 0, *each));
    double steps = 0.25 * *each / (rc_now() - began);
    *each = steps > RC_STEP_MOST ? RC_STEP_MOST : steps > *each ? (int)steps : *each;
    return RC_OK;
}

static rc_status measure(rc_step_world *w, int times, rc_step_time *time)
{
    int each;
    double *taken = rc_alloc(NULL, (size_t)times * sizeof *taken);
    rc_status status = taken ? choose_steps(w, &each) : RC_OUT_OF_MEMORY;
    for (int i = 0; i < times && status == RC_OK; i++) {
        double began = rc_now();
        status = rc_step_world_run(w, (i + 1) * each, each);
        taken[i] = (rc_now() - began) / each;
    }
    if (status == RC_OK)
        summarise(taken, times, time);
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

/* ---- side by side --------------------------------------------------------------------------------------------- */

/* Steps of a round: so many that who is done first waits little for the others. */
enum { ROUND = 8, ROUND_ASYNCHRONOUS = 32 };

typedef struct job {
    struct jobs *all;
    size_t bytes;
    rc_status status;
    char message[RC_MESSAGE_SIZE];
} job;

typedef struct jobs {
    const char *backend, *name;
    int threads, batch, size, times, count;
    pthread_mutex_t gate;      /* held until all threads are there; nobody begins before */
    bool complete;             /* they are */
    pthread_barrier_t barrier; /* of the threads: before and after each round */
    double *taken;             /* (times) of a round; written by the first job */
    job *job;                  /* (count) */
} jobs;

static bool all_well(const jobs *all)
{
    for (int i = 0; i < all->count; i++)
        if (all->job[i].status != RC_OK)
            return false;
    return true;
}

/* Rounds go on as long as nobody has failed: then everybody leaves at the same one. */
static void run_rounds(job *j, rc_step_world *w)
{
    jobs *all = j->all;
    int steps = j->status == RC_OK && w->be->about.asynchronous ? ROUND_ASYNCHRONOUS : ROUND;
    for (int i = 0; i < all->times; i++) {
        pthread_barrier_wait(&all->barrier);
        bool well = all_well(all);
        pthread_barrier_wait(&all->barrier);
        if (!well)
            break;
        double began = rc_now();
        if (j->status == RC_OK)
            j->status = rc_step_world_run(w, (i + 1) * steps, steps);
        pthread_barrier_wait(&all->barrier);
        if (j == all->job)
            all->taken[i] = (rc_now() - began) / (steps * all->count);
    }
    pthread_barrier_wait(&all->barrier); /* nothing is torn down beside a step that is timed */
}

static void *work(void *argument)
{
    job *j = argument;
    jobs *all = j->all;
    rc_backend *backend = NULL;
    rc_step_world *world = NULL;
    pthread_mutex_lock(&all->gate);
    pthread_mutex_unlock(&all->gate);
    if (!all->complete)
        return NULL;
    j->status = rc_backend_open(all->backend, all->threads, NULL, &backend);
    if (j->status == RC_OK)
        j->status = rc_step_world_create(backend, all->name, RC_START_PUBLISHED, all->batch, all->size, 1, &world);
    if (j->status == RC_OK) {
        j->status = rc_step_world_run(world, 0, RC_STEP_BATCHES);
        j->bytes = rc_step_world_bytes(world);
    }
    run_rounds(j, world);
    if (j->status != RC_OK)
        snprintf(j->message, sizeof j->message, "%s", rc_message());
    rc_step_world_destroy(world);
    rc_backend_close(backend);
    return NULL;
}

/* False: there were not enough threads. */
static bool run_threads(jobs *all, pthread_t *thread)
{
    int started = 0;
    pthread_mutex_lock(&all->gate);
    while (started < all->count && pthread_create(&thread[started], NULL, work, &all->job[started]) == 0)
        started++;
    all->complete = started == all->count;
    pthread_mutex_unlock(&all->gate);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return all->complete;
}

static rc_status run_jobs(jobs *all, pthread_t *thread, rc_step_time *time)
{
    for (int i = 0; i < all->count; i++)
        all->job[i].all = all;
    bool started = false, gated = pthread_mutex_init(&all->gate, NULL) == 0;
    if (gated && pthread_barrier_init(&all->barrier, NULL, (unsigned)all->count) == 0) {
        started = run_threads(all, thread);
        pthread_barrier_destroy(&all->barrier);
    }
    if (gated)
        pthread_mutex_destroy(&all->gate);
    if (!started)
        return rc_fail(RC_OUT_OF_MEMORY, "the system gives no %d threads", all->count);
    for (int i = 0; i < all->count; i++)
        if (all->job[i].status != RC_OK)
            return rc_fail(all->job[i].status, "%s", all->job[i].message);
    summarise(all->taken, all->times, time);
    time->bytes = all->job[0].bytes;
    return RC_OK;
}

rc_status rc_bench_step_at_once(const char *backend, int threads, const char *name, int batch, int size, int times,
                                int count, rc_step_time *time)
{
    pthread_t *thread = rc_alloc(NULL, (size_t)count * sizeof *thread);
    jobs all = {.backend = backend,
                .name = name,
                .threads = threads,
                .batch = batch,
                .size = size,
                .times = times,
                .count = count,
                .taken = rc_alloc(NULL, (size_t)times * sizeof(double)),
                .job = rc_alloc_zeroed(NULL, (size_t)count, sizeof(job))};
    rc_status status = thread && all.taken && all.job ? run_jobs(&all, thread, time) : RC_OUT_OF_MEMORY;
    rc_free(NULL, all.taken);
    rc_free(NULL, all.job);
    rc_free(NULL, thread);
    return status;
}
