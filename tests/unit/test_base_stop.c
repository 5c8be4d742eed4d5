/* Stopping in the midst of work: who is asked, how often, when the answer is final, and that loops skip the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/stop.h"
#include "support/succeeds.h"

/* Somebody who is asked. */
typedef struct person {
    int asked;
    int yes_at; /* the question that is answered with yes, and no other; 0: none */
} person;

static bool answer(void *user)
{
    person *p = user;
    return ++p->asked == p->yes_at;
}

static rc_stop ask(person *p)
{
    return (rc_stop){.wanted = answer, .user = p};
}

static void wait_for(double seconds)
{
    double end = rc_now() + seconds;
    while (rc_now() < end)
        ;
}

/* Polls until it is final; returns how long that took. */
static double poll_to_the_end(void)
{
    double began = rc_now();
    while (!rc_stop_poll())
        assert_true(rc_now() - began < 30);
    return rc_now() - began;
}

static void nobody_stops_nothing(void **state)
{
    (void)state;
    assert_false(rc_stop_poll() || rc_stopped() || rc_stop_heard());
    person never = {0};
    rc_stop before = rc_stop_swap(ask(&never));
    double began = rc_now();
    for (int polls = 0; polls < 20000; polls++)
        assert_false(rc_stop_poll() || rc_stop_heard());
    /* It is not asked at every poll, and often enough. */
    assert_true(never.asked >= 1 && never.asked <= 2 + (rc_now() - began) / 0.015);
    began = rc_now();
    never.asked = 0;
    while (rc_now() - began < 0.3)
        rc_stop_poll();
    assert_true(never.asked >= 3);
    assert_true(rc_stop_swap(before).wanted == answer);
}

/* A single yes counts. It is heard at once, final after the time of grace, and forgotten with the one who said it. */
static void one_yes_becomes_final(void **state)
{
    (void)state;
    person p = {.yes_at = 1};
    rc_stop before = rc_stop_swap(ask(&p));
    assert_true(before.wanted == NULL);
    assert_true(rc_stop_heard() && !rc_stopped() && !rc_stop_poll());
    double took = poll_to_the_end();
    assert_true(took > RC_STOP_GRACE / 2);
    assert_true(rc_stopped() && rc_stop_heard() && p.asked == 1);
    person other = {0};
    rc_stop stopped = rc_stop_swap(ask(&other)); /* another call inside of this one */
    assert_false(rc_stopped() || rc_stop_heard());
    rc_stop_swap(stopped);
    assert_true(rc_stopped());
    rc_stop_swap(before);
    assert_false(rc_stopped() || rc_stop_poll());
}

/* One that others wait for hears the wish, and goes on. */
static void the_patient_go_on(void **state)
{
    (void)state;
    person p = {.yes_at = 1};
    rc_stop stop = ask(&p);
    stop.patient = true;
    rc_stop before = rc_stop_swap(stop);
    double began = rc_now();
    while (rc_now() - began < 1.5 * RC_STOP_GRACE)
        assert_false(rc_stop_poll());
    assert_true(rc_stop_heard() && !rc_stopped());
    rc_stop_swap(before);
}

typedef struct loop {
    _Atomic int done;
    double seconds; /* of each task */
} loop;

static void take_time(void *ctx, int task, int worker)
{
    loop *l = ctx;
    (void)task;
    (void)worker;
    wait_for(l->seconds);
    atomic_fetch_add(&l->done, 1);
}

/* The caller hears it between tasks; all threads skip what they have not begun, in this run and the next ones. */
static void loops_skip_what_is_left(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        enum { TASKS = 4000 };
        rc_pool *pool;
        SUCCEEDS(rc_pool_create(threads, &pool));
        person p = {.yes_at = 2};
        loop l = {.seconds = 0.005}; /* 20 seconds of work */
        rc_stop before = rc_stop_swap(ask(&p));
        double began = rc_now();
        rc_pool_run(pool, TASKS, take_time, &l);
        assert_true(rc_now() - began >= RC_STOP_GRACE);
        assert_true(rc_stopped() && l.done > 0 && l.done < TASKS);
        int done = l.done;
        rc_pool_run(pool, TASKS, take_time, &l);
        rc_pool_run(pool, 1, take_time, &l);
        rc_pool_run_two(pool, (rc_phase){3, take_time, &l}, (rc_phase){TASKS, take_time, &l});
        assert_int_equal(l.done, done);
        rc_stop_swap(before);
        l = (loop){0};
        rc_pool_run(pool, 100, take_time, &l);
        assert_int_equal(l.done, 100);
        rc_pool_destroy(pool);
    }
}

static void count_steps(void *context)
{
    ++*(int *)context;
}

/* A backend tells that it was stopped, takes no large memory any more, and is as good as new for the next call. */
static void backends_tell_that_they_were_stopped(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "reference"};
    for (int i = 0; i < 2; i++) {
        rc_backend *be;
        void *memory;
        int steps = 0;
        SUCCEEDS(rc_backend_open(names[i], 2, NULL, &be));
        person p = {.yes_at = 1};
        rc_stop before = rc_stop_swap(ask(&p));
        rc_stop_poll();
        SUCCEEDS(be->repeat(be, count_steps, &steps, 3)); /* heard, but not final */
        assert_int_equal(steps, 3);
        poll_to_the_end();
        size_t held = rc_bytes_allocated();
        assert_int_equal(be->sync(be), RC_CANCELLED);
        assert_int_equal(be->repeat(be, count_steps, &steps, 3), RC_CANCELLED);
        assert_int_equal(be->alloc(be, 1000, &memory), RC_CANCELLED);
        assert_true(steps == 3 && memory == NULL && rc_bytes_allocated() == held);
        rc_stop_swap(before);
        SUCCEEDS(be->sync(be));
        SUCCEEDS(be->repeat(be, count_steps, &steps, 3));
        SUCCEEDS(be->alloc(be, 1000, &memory));
        assert_int_equal(steps, 6);
        for (int k = 0; k < 1000; k++)
            assert_int_equal(((char *)memory)[k], 0);
        be->release(be, memory);
        rc_backend_close(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_stops_nothing),
        cmocka_unit_test(one_yes_becomes_final),
        cmocka_unit_test(the_patient_go_on),
        cmocka_unit_test(loops_skip_what_is_left),
        cmocka_unit_test(backends_tell_that_they_were_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
