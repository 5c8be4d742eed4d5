/*
 * How a run works. The tasks are cut into shares, one for each thread: a worker begins with its own and helps the
 * others when that is done. So task number t goes to the same thread in nearly every run of a size, and finds in that
 * core's cache what the last operation left there, and no thread waits for one that is late.
 *
 * The caller writes the job (fn, ctx), sets `unfinished` to the number of tasks, fills the tickets of all shares and
 * then publishes the number of the run. A ticket is one word that holds the number of the run and how many tasks of the
 * share are not taken yet. A task is taken by a compare-and-swap that counts the ticket down. When a thread finds no
 * more tasks it subtracts what it finished from `unfinished`; the run is over at zero.
 *
 * No worker has to take part: one that wakes up late finds either the next run or tickets at zero, so a small run
 * never waits for a sleeping thread. A worker may read the job of a run that is over, or half of the next one, but then
 * the number of the run in the ticket has changed, and its compare-and-swap fails.
 *
 * Spinning and sleeping. A thread that waits spins for a moment, then announces itself in `sleeping` and looks
 * once more before it waits on the condition; the other side changes the word first and looks at `sleeping`
 * after. All four accesses are sequentially consistent, so at least one side sees the other: no wake-up is lost.
 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/stop.h"

/* Most gaps between the operations of a training step are shorter than SPIN_SECONDS, and nearly all are shorter than
   YIELD_SECONDS; waking a dozen sleeping threads, one after the other, takes as long as a convolution. After
   SPIN_SECONDS a waiting thread offers its core to other threads. */
#define SPIN_SECONDS  50e-6
#define YIELD_SECONDS 2e-3
#define MAX_THREADS   1024

typedef struct sleeping_place {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    _Atomic int sleeping;
} sleeping_place;

/* A thread and its share of the tasks. Each word that several threads write has a cache line of its own. */
typedef struct worker_thread {
    _Alignas(RC_ALIGNMENT) _Atomic uint64_t ticket; /* run number << 32 | tasks not taken yet */
    _Alignas(RC_ALIGNMENT) rc_pool *pool;
    int index;
    uint32_t seen; /* the last run that it took part in */
    pthread_t thread;
} worker_thread;

struct rc_pool {
    _Alignas(RC_ALIGNMENT) _Atomic uint32_t run; /* its number; waiting workers read this cache line alone */
    _Atomic bool quit;
    _Alignas(RC_ALIGNMENT) _Atomic int unfinished;
    _Alignas(RC_ALIGNMENT) _Atomic(rc_task *) fn;
    _Atomic(void *) ctx;
    _Atomic int tasks, shares;
    _Atomic bool skip; /* the tasks that are left: the caller is to stop */
    double spin_seconds;
    int threads;             /* the caller included */
    int started;             /* threads that run, without the caller */
    uint32_t process;        /* where they run */
    pthread_mutex_t outer;   /* held by the thread that runs the pool */
    sleeping_place idle;     /* workers wait here for a run */
    sleeping_place done;     /* the caller waits here for `unfinished` to reach zero */
    worker_thread workers[]; /* threads; the first is the caller */
};

/* The pool whose task this thread is in, and as which worker. */
static _Thread_local struct {
    const rc_pool *pool;
    int worker;
} inside;

static void relax(void)
{
#if defined(__aarch64__)
    __asm__ volatile("isb");
#elif defined(__x86_64__)
    __asm__ volatile("pause");
#endif
}

static bool has_work(const worker_thread *self)
{
    return atomic_load(&self->pool->run) != self->seen || atomic_load(&self->pool->quit);
}

static bool is_finished(const worker_thread *self)
{
    return atomic_load(&self->pool->unfinished) == 0;
}

static void wait_until(const worker_thread *self, sleeping_place *place, bool condition(const worker_thread *))
{
    if (condition(self))
        return;
    if (self->pool->spin_seconds > 0) {
        double began = rc_now(), waited;
        do {
            for (int i = 0; i < 32; i++) {
                if (condition(self))
                    return;
                relax();
            }
            waited = rc_now() - began;
            if (waited > self->pool->spin_seconds)
                sched_yield();
        } while (waited < YIELD_SECONDS);
    }
    pthread_mutex_lock(&place->mutex);
    atomic_fetch_add(&place->sleeping, 1);
    while (!condition(self))
        pthread_cond_wait(&place->changed, &place->mutex);
    atomic_fetch_sub(&place->sleeping, 1);
    pthread_mutex_unlock(&place->mutex);
}

/* Wakes up to `wanted` of the threads that sleep there. Passing through the mutex makes sure that a thread that
   has announced itself is either waiting already or has yet to look at the condition. */
static void wake(sleeping_place *place, int wanted)
{
    if (atomic_load(&place->sleeping) == 0)
        return;
    pthread_mutex_lock(&place->mutex);
    int sleeping = atomic_load(&place->sleeping);
    pthread_mutex_unlock(&place->mutex);
    if (wanted >= sleeping)
        pthread_cond_broadcast(&place->changed);
    else
        for (int i = 0; i < wanted; i++)
            pthread_cond_signal(&place->changed);
}

static int share_begin(int tasks, int shares, int share)
{
    return (int)((int64_t)tasks * share / shares);
}

/* Is the next task to be left out? The caller asks whether to stop, the others look at what it heard. */
static bool skips(rc_pool *pool, int worker)
{
    if (worker == 0 && rc_stop_poll())
        atomic_store_explicit(&pool->skip, true, memory_order_relaxed);
    return atomic_load_explicit(&pool->skip, memory_order_relaxed);
}

/* Takes and does the tasks of a share until there are none. Returns how many it did. */
static int work_on_share(rc_pool *pool, int share, int worker)
{
    _Atomic uint64_t *place = &pool->workers[share].ticket;
    int finished = 0;
    uint64_t ticket = atomic_load_explicit(place, memory_order_acquire);
    while ((uint32_t)ticket > 0) {
        rc_task *fn = atomic_load_explicit(&pool->fn, memory_order_acquire);
        void *ctx = atomic_load_explicit(&pool->ctx, memory_order_acquire);
        int tasks = atomic_load_explicit(&pool->tasks, memory_order_acquire);
        int shares = atomic_load_explicit(&pool->shares, memory_order_acquire);
        if (!atomic_compare_exchange_weak_explicit(place, &ticket, ticket - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        if (!skips(pool, worker))
            fn(ctx, share_begin(tasks, shares, share + 1) - (int)(uint32_t)ticket, worker);
        finished++;
        ticket = atomic_load_explicit(place, memory_order_acquire);
    }
    return finished;
}

/* Does its own share first, then tasks of other shares that are not taken. Returns at once if there is nothing to
 * do. */
static void work(rc_pool *pool, int worker)
{
    int finished = 0;
    for (int i = 0; i < pool->threads; i++)
        finished += work_on_share(pool, (worker + i) % pool->threads, worker);
    if (finished > 0 && atomic_fetch_sub(&pool->unfinished, finished) == finished)
        wake(&pool->done, 1);
}

static void *worker_main(void *argument)
{
    worker_thread *self = argument;
    rc_pool *pool = self->pool;
    inside.pool = pool;
    inside.worker = self->index;
    for (;;) {
        wait_until(self, &pool->idle, has_work);
        if (atomic_load(&pool->quit))
            return NULL;
        self->seen = atomic_load(&pool->run);
        work(pool, self->index);
    }
}

static void run_inline(int tasks, rc_task *fn, void *ctx, int worker)
{
    for (int task = 0; task < tasks && !rc_stop_poll(); task++)
        fn(ctx, task, worker);
}

void rc_pool_run(rc_pool *pool, int tasks, rc_task *fn, void *ctx)
{
    if (pool == NULL || pool->threads == 1 || inside.pool != NULL || !rc_process_is(pool->process)) {
        run_inline(tasks, fn, ctx, pool != NULL && inside.pool == pool ? inside.worker : 0);
        return;
    }
    if (tasks <= 0 || rc_stop_poll())
        return;
    pthread_mutex_lock(&pool->outer);
    inside.pool = pool;
    inside.worker = 0;
    if (tasks == 1) {
        fn(ctx, 0, 0);
    } else {
        uint32_t run = atomic_load_explicit(&pool->run, memory_order_relaxed) + 1;
        int shares = tasks < pool->threads ? tasks : pool->threads;
        atomic_store_explicit(&pool->fn, fn, memory_order_release);
        atomic_store_explicit(&pool->ctx, ctx, memory_order_release);
        atomic_store_explicit(&pool->tasks, tasks, memory_order_release);
        atomic_store_explicit(&pool->shares, shares, memory_order_release);
        atomic_store_explicit(&pool->skip, false, memory_order_relaxed);
        atomic_store_explicit(&pool->unfinished, tasks, memory_order_release);
        for (int i = 0; i < shares; i++) {
            uint32_t count = (uint32_t)(share_begin(tasks, shares, i + 1) - share_begin(tasks, shares, i));
            atomic_store_explicit(&pool->workers[i].ticket, (uint64_t)run << 32 | count, memory_order_release);
        }
        atomic_store(&pool->run, run);
        wake(&pool->idle, tasks - 1);
        work(pool, 0);
        wait_until(&pool->workers[0], &pool->done, is_finished);
    }
    inside.pool = NULL;
    pthread_mutex_unlock(&pool->outer);
}

/* ---- two phases ------------------------------------------------------------------------------------------------ */

typedef struct two_phases {
    rc_phase first, second;
    _Atomic int taken;
    _Alignas(RC_ALIGNMENT) _Atomic int done; /* waiting threads read this cache line alone */
} two_phases;

/* Takes tasks of the first phase while there are any, then waits for those that other threads have taken. */
static void finish_first(two_phases *p, int worker)
{
    while (atomic_load_explicit(&p->taken, memory_order_relaxed) < p->first.tasks) {
        int task = atomic_fetch_add(&p->taken, 1);
        if (task < p->first.tasks) {
            p->first.fn(p->first.ctx, task, worker);
            atomic_fetch_add_explicit(&p->done, 1, memory_order_acq_rel);
        }
    }
    for (int spins = 0; atomic_load_explicit(&p->done, memory_order_acquire) < p->first.tasks; spins++) {
        relax();
        if (spins % 1024 == 1023)
            sched_yield(); /* there may be more threads than cores */
    }
}

static void run_phases(void *context, int task, int worker)
{
    two_phases *p = context;
    if (atomic_load_explicit(&p->done, memory_order_acquire) < p->first.tasks)
        finish_first(p, worker);
    p->second.fn(p->second.ctx, task, worker);
}

void rc_pool_run_two(rc_pool *pool, rc_phase first, rc_phase second)
{
    if (second.tasks < rc_pool_threads(pool)) { /* the first may have work for more threads */
        rc_pool_run(pool, first.tasks, first.fn, first.ctx);
        rc_pool_run(pool, second.tasks, second.fn, second.ctx);
        return;
    }
    two_phases p = {.first = first, .second = second};
    rc_pool_run(pool, second.tasks, run_phases, &p);
}

/* ---- the pool -------------------------------------------------------------------------------------------------- */

static void place_init(sleeping_place *place)
{
    pthread_mutex_init(&place->mutex, NULL);
    pthread_cond_init(&place->changed, NULL);
}

static void place_destroy(sleeping_place *place)
{
    pthread_cond_destroy(&place->changed);
    pthread_mutex_destroy(&place->mutex);
}

/* Starts the workers with all signals blocked: signals belong to the threads of the program. */
static rc_status start_workers(rc_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (error == 0 && pool->started < pool->threads - 1) {
        worker_thread *next = &pool->workers[pool->started + 1];
        error = pthread_create(&next->thread, NULL, worker_main, next);
        if (error == 0)
            pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return rc_fail(RC_OUT_OF_MEMORY, "cannot start thread %d of %d: %s", pool->started + 2, pool->threads,
                       strerror(error));
    return RC_OK;
}

rc_status rc_pool_create(int threads, rc_pool **pool)
{
    *pool = NULL;
    if (threads < 0 || threads > MAX_THREADS)
        return rc_fail(RC_INVALID_ARGUMENT, "threads is %d, expected 0 (all cores) to %d", threads, MAX_THREADS);
    int cores = rc_machine_cores();
    if (threads == 0)
        threads = cores < MAX_THREADS ? cores : MAX_THREADS;
    rc_pool *made = rc_alloc_zeroed(NULL, 1, sizeof *made + sizeof(worker_thread) * (size_t)threads);
    if (made == NULL)
        return RC_OUT_OF_MEMORY;
    made->threads = threads;
    for (int i = 0; i < threads; i++) {
        made->workers[i].pool = made;
        made->workers[i].index = i;
    }
    made->spin_seconds = threads > cores ? 0.0 : SPIN_SECONDS; /* spinning must not take the core of a worker */
    pthread_mutex_init(&made->outer, NULL);
    place_init(&made->idle);
    place_init(&made->done);
    rc_status status = rc_process_mark(&made->process);
    if (status == RC_OK)
        status = start_workers(made);
    if (status != RC_OK) {
        rc_pool_destroy(made);
        return status;
    }
    *pool = made;
    return RC_OK;
}

void rc_pool_destroy(rc_pool *pool)
{
    if (pool == NULL)
        return;
    if (!rc_process_is(pool->process)) { /* a child of fork(): there are no threads to wait for, and locks may stay
                                            locked forever */
        rc_free(NULL, pool);
        return;
    }
    atomic_store(&pool->quit, true);
    wake(&pool->idle, pool->started);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i + 1].thread, NULL);
    place_destroy(&pool->done);
    place_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->outer);
    rc_free(NULL, pool);
}

int rc_pool_threads(const rc_pool *pool)
{
    return pool == NULL ? 1 : pool->threads;
}
