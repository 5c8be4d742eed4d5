/*
 * A small thread pool for loops that take microseconds: a training step calls it some 200 times, so the
 * workers spin for a moment before they sleep. Running allocates nothing.
 */
#ifndef RC_BASE_POOL_H
#define RC_BASE_POOL_H

#include "base/status.h"

typedef struct rc_pool rc_pool;

/* `worker` is 0 .. rc_pool_threads()-1 and unique among the tasks that run at the same time. */
typedef void rc_task(void *ctx, int task, int worker);

/* A pool that works on `threads` threads, the caller of rc_pool_run included; 0: one for each core
   that this process may use.
   On failure *pool is NULL and no thread is left behind. */
rc_status rc_pool_create(int threads, rc_pool **pool);
/* Joins the threads; NULL is fine. No run may be in progress. In a child of fork() there are no threads to join. */
void rc_pool_destroy(rc_pool *pool);
/* 1 for NULL. */
int rc_pool_threads(const rc_pool *pool);

/*
 * Calls fn(ctx, task, worker) for each task 0 .. tasks-1, each exactly once, in no particular order, and returns when
 * all of them are done; what they wrote is then visible to the caller. The caller works along as worker 0. The tasks
 * run inline and in order with a NULL pool, with a pool of one thread, and with a pool that a child of fork() has
 * inherited. They also run inline if a task itself calls this function: as the same worker if it is the same pool, as
 * worker 0 otherwise. If several threads run one pool at the same time, they wait for each other.
 *
 * If the calling thread is to stop (rc_stop_poll), tasks that have not begun are skipped: after a run whose results
 * matter, look at rc_stopped().
 */
void rc_pool_run(rc_pool *pool, int tasks, rc_task *fn, void *ctx);

/* What one rc_pool_run() does. */
typedef struct rc_phase {
    int tasks;
    rc_task *fn;
    void *ctx;
} rc_phase;

/*
 * Two runs, the second after the first, but with one start and one end: the threads share out the tasks of the first
 * before they begin the second. For a short preparation, whose tasks may go to any thread.
 */
void rc_pool_run_two(rc_pool *pool, rc_phase first, rc_phase second);

#endif
