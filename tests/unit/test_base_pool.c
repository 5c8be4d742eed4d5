/* The thread pool: every task runs exactly once, whatever the sizes, the nesting and the load. */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/pool.h"

enum { MAX_TASKS = 1000, MAX_THREADS = 8 };

typedef struct tally {
    int threads;
    _Atomic int times[MAX_TASKS];  /* how often each task ran */
    _Atomic int busy[MAX_THREADS]; /* tasks that run as that worker now */
    _Atomic int bad_worker;        /* worker out of range, or two tasks at once on one worker */
    int plain[MAX_TASKS];          /* written by the task, read by the caller: must be visible to it */
} tally;

static void count(void *ctx, int task, int worker)
{
    tally *to = ctx;
    if (worker < 0 || worker >= to->threads || atomic_fetch_add(&to->busy[worker], 1) != 0)
        atomic_store(&to->bad_worker, 1);
    atomic_fetch_add(&to->times[task], 1);
    to->plain[task] += task + 1;
    atomic_fetch_sub(&to->busy[worker], 1);
}

static void check_tally(tally *counted, int tasks, int runs)
{
    assert_int_equal(counted->bad_worker, 0);
    for (int i = 0; i < MAX_TASKS; i++) {
        assert_int_equal(counted->times[i], i < tasks ? runs : 0);
        assert_int_equal(counted->plain[i], i < tasks ? runs * (i + 1) : 0);
    }
}

static void every_task_runs_once(void **state)
{
    (void)state;
    static const int sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 200, MAX_TASKS};
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        rc_pool *pool;
        assert_int_equal(rc_pool_create(threads, &pool), RC_OK);
        assert_int_equal(rc_pool_threads(pool), threads);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            tally counted = {.threads = threads};
            rc_pool_run(pool, sizes[i], count, &counted);
            check_tally(&counted, sizes[i], 1);
        }
        rc_pool_destroy(pool);
    }
}

/* Runs back to back, as in a training step, with a pause now and then so that the workers fall asleep. */
static void many_runs(void **state)
{
    (void)state;
    enum { RUNS = 3000 };
    for (int threads = 2; threads <= MAX_THREADS; threads += 3) {
        rc_pool *pool;
        assert_int_equal(rc_pool_create(threads, &pool), RC_OK);
        uint64_t allocations = rc_allocation_count();
        static tally counted;
        memset(&counted, 0, sizeof counted);
        counted.threads = threads;
        for (int run = 0; run < RUNS; run++) {
            rc_pool_run(pool, 6, count, &counted);
            if (run % 100 == 0)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        check_tally(&counted, 6, RUNS);
        assert_int_equal(rc_allocation_count(), allocations);
        rc_pool_destroy(pool);
    }
}

static void null_and_single_pools_run_inline_in_order(void **state)
{
    (void)state;
    rc_pool *single;
    assert_int_equal(rc_pool_create(1, &single), RC_OK);
    rc_pool *pools[] = {NULL, single};
    for (int i = 0; i < 2; i++) {
        tally counted = {.threads = 1};
        assert_int_equal(rc_pool_threads(pools[i]), 1);
        rc_pool_run(pools[i], 10, count, &counted);
        check_tally(&counted, 10, 1);
        rc_pool_run(pools[i], -5, count, &counted);
        check_tally(&counted, 10, 1);
    }
    rc_pool_destroy(single);
    rc_pool_destroy(NULL);
}

typedef struct two_runs {
    tally prepared, used;
    int preparations;
    _Atomic int early; /* tasks of the second run that did not find all of the first done */
} two_runs;

static void use(void *ctx, int task, int worker)
{
    two_runs *runs = ctx;
    for (int i = 0; i < runs->preparations; i++)
        if (runs->prepared.plain[i] != i + 1)
            atomic_store(&runs->early, 1);
    count(&runs->used, task, worker);
}

static void a_second_run_finds_the_first_done(void **state)
{
    (void)state;
    static const int sizes[] = {0, 1, 3, 8, 40};
    for (int threads = 1; threads <= MAX_THREADS; threads += 1 + threads / 3) {
        rc_pool *pool;
        assert_int_equal(rc_pool_create(threads, &pool), RC_OK);
        for (int i = 0; i < 25 * 20; i++) {
            static two_runs runs;
            memset(&runs, 0, sizeof runs);
            runs.prepared.threads = runs.used.threads = threads;
            runs.preparations = sizes[i % 5];
            int uses = sizes[i / 5 % 5];
            rc_pool_run_two(pool, (rc_phase){runs.preparations, count, &runs.prepared}, (rc_phase){uses, use, &runs});
            check_tally(&runs.prepared, runs.preparations, 1);
            check_tally(&runs.used, uses, 1);
            assert_int_equal(runs.early, 0);
        }
        rc_pool_destroy(pool);
    }
}

typedef struct meeting {
    _Atomic int present;
    int expected;
    _Atomic int met;
} meeting;

/* Waits, for a few seconds at most, until as many tasks as expected have come here. */
static void meet(void *ctx, int task, int worker)
{
    (void)task, (void)worker;
    meeting *place = ctx;
    atomic_fetch_add(&place->present, 1);
    for (double end = rc_now() + 10; rc_now() < end && atomic_load(&place->present) < place->expected;)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    if (atomic_load(&place->present) >= place->expected)
        atomic_fetch_add(&place->met, 1);
}

typedef struct nest {
    rc_pool *pool, *inner;
    meeting workers; /* makes sure that the tasks are not all done by one thread */
    pthread_t thread[MAX_TASKS];
    _Atomic int inner_runs, wrong;
    int expected_worker[MAX_TASKS];
} nest;

typedef struct inner_call {
    nest *outer;
    int task;
    int expected_next;
} inner_call;

static void inner(void *ctx, int task, int worker)
{
    inner_call *call = ctx;
    nest *outer = call->outer;
    if (task != call->expected_next++ || worker != outer->expected_worker[call->task] ||
        !pthread_equal(outer->thread[call->task], pthread_self()))
        atomic_store(&outer->wrong, 1);
    atomic_fetch_add(&outer->inner_runs, 1);
}

static void outer(void *ctx, int task, int worker)
{
    nest *in = ctx;
    meet(&in->workers, task, worker);
    in->thread[task] = pthread_self();
    in->expected_worker[task] = in->inner == in->pool ? worker : 0;
    rc_pool_run(in->inner, 5, inner, &(inner_call){in, task, 0});
}

/* An inner run stays on its thread, in order: as the same worker in the same pool, as worker 0 of any other. */
static void nested_runs_are_inline(void **state)
{
    (void)state;
    rc_pool *pool, *other;
    assert_int_equal(rc_pool_create(4, &pool), RC_OK);
    assert_int_equal(rc_pool_create(3, &other), RC_OK);
    rc_pool *inners[] = {pool, other, NULL};
    for (int i = 0; i < 3; i++) {
        for (int tasks = 1; tasks <= 40; tasks += 13) {
            static nest in;
            memset(&in, 0, sizeof in);
            in.pool = pool;
            in.inner = inners[i];
            in.workers.expected = tasks < 4 ? tasks : 4;
            rc_pool_run(pool, tasks, outer, &in);
            assert_int_equal(in.wrong, 0);
            assert_int_equal(in.inner_runs, 5 * tasks);
        }
    }
    tally counted = {.threads = 4}; /* and afterwards the pool runs as before */
    rc_pool_run(pool, 50, count, &counted);
    check_tally(&counted, 50, 1);
    rc_pool_destroy(other);
    rc_pool_destroy(pool);
}

/* All threads take part, also after they have been asleep. */
static void tasks_run_at_the_same_time(void **state)
{
    (void)state;
    rc_pool *pool;
    assert_int_equal(rc_pool_create(5, &pool), RC_OK);
    for (int run = 0; run < 3; run++) {
        meeting place = {.expected = 5};
        rc_pool_run(pool, 5, meet, &place);
        assert_int_equal(place.met, 5);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    rc_pool_destroy(pool);
}

/* The caller is out of tasks long before the others: it must sleep and be woken. */
static void sleep_unless_caller(void *ctx, int task, int worker)
{
    (void)task;
    meeting *place = ctx;
    atomic_fetch_add(&place->present, 1);
    if (worker == 0)
        while (atomic_load(&place->present) < place->expected)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    else
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    atomic_fetch_add(&place->met, 1);
}

static void caller_waits_for_slow_workers(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 4; threads++) {
        rc_pool *pool;
        assert_int_equal(rc_pool_create(threads, &pool), RC_OK);
        meeting place = {.expected = threads};
        rc_pool_run(pool, threads, sleep_unless_caller, &place);
        assert_int_equal(place.met, threads);
        rc_pool_destroy(pool);
    }
}

typedef struct visitor {
    rc_pool *pool;
    tally *counted;
} visitor;

static void *visit(void *argument)
{
    visitor *self = argument;
    for (int run = 0; run < 200; run++)
        rc_pool_run(self->pool, 5, count, self->counted);
    return NULL;
}

static void runs_from_several_threads_take_turns(void **state)
{
    (void)state;
    enum { VISITORS = 3 };
    rc_pool *pool;
    assert_int_equal(rc_pool_create(3, &pool), RC_OK);
    tally counted = {.threads = 3};
    visitor self = {pool, &counted};
    pthread_t threads[VISITORS];
    for (int i = 0; i < VISITORS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &self), 0);
    for (int i = 0; i < VISITORS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    check_tally(&counted, 5, 200 * VISITORS);
    rc_pool_destroy(pool);
}

/* As in a container or a batch job. */
static void all_cores_are_those_it_is_bound_to(void **state)
{
    (void)state;
#if defined(__linux__)
    cpu_set_t before, one;
    int core = 0, all = rc_machine_cores();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_in_range(all, 1, CPU_COUNT(&before));
    while (!CPU_ISSET(core, &before))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    rc_pool *pool;
    assert_int_equal(rc_machine_cores(), 1);
    assert_int_equal(rc_pool_create(0, &pool), RC_OK);
    assert_int_equal(rc_pool_threads(pool), 1);
    rc_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(rc_machine_cores(), all);
#endif
}

static void creation_checks_its_argument(void **state)
{
    (void)state;
    rc_pool *pool = (rc_pool *)&pool;
    assert_int_equal(rc_pool_create(-2, &pool), RC_INVALID_ARGUMENT);
    assert_null(pool);
    assert_string_equal(rc_message(), "threads is -2, expected 0 (all cores) to 1024");
    assert_int_equal(rc_pool_create(1025, &pool), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_pool_create(0, &pool), RC_OK);
    assert_in_range(rc_pool_threads(pool), 1, sysconf(_SC_NPROCESSORS_ONLN));
    rc_pool_destroy(pool);
}

static void pools_come_and_go(void **state)
{
    (void)state;
    size_t before = rc_bytes_allocated();
    for (int i = 0; i < 100; i++) {
        rc_pool *pool;
        assert_int_equal(rc_pool_create(4, &pool), RC_OK);
        tally counted = {.threads = 4};
        rc_pool_run(pool, i % 7, count, &counted);
        rc_pool_destroy(pool);
    }
    assert_int_equal(rc_bytes_allocated(), before);
}

static void the_clock_goes_forward(void **state)
{
    (void)state;
    double before = rc_now();
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    double passed = rc_now() - before;
    assert_true(passed >= 0.002 && passed < 60);
}

/* In a child the threads of the pool do not exist: it works alone, and has nobody to wait for. */
static void a_child_of_fork_runs_inline(void **state)
{
    (void)state;
    enum { TASKS = 100 };
    rc_pool *pool;
    assert_int_equal(rc_pool_create(4, &pool), RC_OK);
    tally before = {.threads = 4};
    rc_pool_run(pool, TASKS, count, &before);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        tally counted = {.threads = 1};
        rc_pool_run(pool, TASKS, count, &counted);
        int done = counted.bad_worker == 0;
        for (int i = 0; i < TASKS; i++)
            done = done && counted.times[i] == 1;
        rc_pool_destroy(pool);
        _exit(done ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rc_pool_run(pool, TASKS, count, &before);
    check_tally(&before, TASKS, 2);
    rc_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(many_runs),
        cmocka_unit_test(null_and_single_pools_run_inline_in_order),
        cmocka_unit_test(a_second_run_finds_the_first_done),
        cmocka_unit_test(nested_runs_are_inline),
        cmocka_unit_test(tasks_run_at_the_same_time),
        cmocka_unit_test(caller_waits_for_slow_workers),
        cmocka_unit_test(runs_from_several_threads_take_turns),
        cmocka_unit_test(all_cores_are_those_it_is_bound_to),
        cmocka_unit_test(creation_checks_its_argument),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(a_child_of_fork_runs_inline),
        cmocka_unit_test(the_clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
