/* What stages do with time: how many steps they take at once, when they call the hook, and which stage a second belongs
 * to. The clock is the test's own: it stands still but for the time that steps take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static _Atomic double now; /* workers read it, too */
static double step_seconds, hook_seconds;

double rc_now(void)
{
    return now;
}

static rc_backend plain; /* as it was opened */

static int open_and_keep(void **state)
{
    int failed = open_backend(state);
    plain = failed ? plain : *be;
    return failed;
}

/* ---- steps that only take time -------------------------------------------------------------------------------- */

enum { MOST = 512 };

static int chunk[MOST], chunks;
static uint32_t call_at[MOST];
static int calls;

static rc_status timed_repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    (void)b, (void)step, (void)context;
    assert_in_range(chunks, 0, MOST - 1);
    chunk[chunks++] = times;
    now = now + times * step_seconds;
    return RC_OK;
}

static rc_status no_wait(rc_backend *b)
{
    (void)b;
    return RC_OK;
}

static rc_status note_call(void *user, const rc_stage_report *report)
{
    (void)user;
    assert_in_range(calls, 0, MOST - 1);
    call_at[calls++] = report->step;
    now = now + hook_seconds;
    return RC_OK;
}

static void begin(double seconds, double of_hook)
{
    now = 100;
    step_seconds = seconds;
    hook_seconds = of_hook;
    chunks = calls = 0;
    be->repeat = timed_repeat;
    be->sync = no_wait;
}

static void repeat(double seconds, double interval, uint32_t steps)
{
    void *loss;
    rc_learner l = {.backend = be};
    rc_stage_hooks hooks = {.boundary = note_call, .interval = interval};
    SUCCEEDS(be->alloc(be, RC_LOSS_COUNT * be->real_bytes, &loss));
    begin(seconds, 0);
    rc_stage_run run = {.learner = &l, .hooks = &hooks, .loss = loss, .last_call = now, .report = {.steps = steps}};
    rc_status status = rc_stage_repeat(&run, 0, steps);
    *be = plain;
    SUCCEEDS(status);
    be->release(be, loss);
}

/* ---- chunks and calls ----------------------------------------------------------------------------------------- */

/* The first step is alone. Then as many come at once as fit into a quarter of the interval and half of the time to
 * stop, at least one, at most a thousand. */
static void chunks_fit_into_the_time_to_stop(void **state)
{
    (void)state;
    static const struct {
        double seconds, interval;
        int chunk;
    } cases[] = {
        {1.0 / 64, 4000, 16}, /* 0.25 s, half of the time to stop */
        {1.0 / 64, 0.5, 8},   /* a quarter of the interval */
        {1.0 / 64, 1, 16},
        {1.0 / 8192, 4000, 1000},
        {1.0 / 4000, 4000, 1000},
        {1.0 / 3996, 4000, 999},
        {0.25, 4000, 1},
        {0.125, 4000, 2},
        {1, 4000, 1},
        {1.0 / 64, 0, 1},
        {1.0 / 8192, 4 * 1001.0 / 8192, 1000},
        {1.0 / 8192, 4 * 1000.0 / 8192, 1000},
        {1.0 / 8192, 4 * 999.0 / 8192, 999},
    };
    assert_true(RC_STOP_GRACE == 0.5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int whole = cases[i].chunk;
        repeat(cases[i].seconds, cases[i].interval, (uint32_t)(3 * whole + 2)); /* one first, one left */
        assert_int_equal(chunks, whole > 1 ? 5 : 3 * whole + 2);
        for (int k = 1; k <= 3; k++)
            assert_int_equal(chunk[k], whole);
        assert_true(chunk[0] == 1 && chunk[chunks - 1] == 1);
    }
}

/* An interval after the call before, and at the end. Chunks of a quarter of it end exactly there. */
static void the_hook_rests_for_an_interval(void **state)
{
    (void)state;
    repeat(1.0 / 64, 1, 200); /* chunks of 16 steps after the first */
    assert_int_equal(calls, 4);
    static const uint32_t expected[] = {65, 129, 193, 200};
    assert_memory_equal(call_at, expected, sizeof expected);
    repeat(1.0 / 64, 4000, 200);
    assert_true(calls == 1 && call_at[0] == 200);
}

static bool stop_at_once(void *user)
{
    (void)user;
    return true;
}

/* Whoever is to stop is asked after every chunk. */
static void a_wish_to_stop_is_passed_on_at_once(void **state)
{
    (void)state;
    rc_stop before = rc_stop_swap((rc_stop){.wanted = stop_at_once});
    repeat(1.0 / 64, 4000, 40);
    rc_stop_swap(before);
    assert_int_equal(chunks, 4);
    assert_int_equal(calls, 4);
    static const uint32_t expected[] = {1, 17, 33, 40};
    assert_memory_equal(call_at, expected, sizeof expected);
}

static rc_status failing_repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    (void)timed_repeat(b, step, context, times);
    return chunks < 2 ? RC_OK : rc_fail(RC_DEVICE, "the device is gone");
}

static void steps_that_fail_are_the_last(void **state)
{
    (void)state;
    rc_learner l = {.backend = be};
    rc_stage_hooks hooks = {.boundary = note_call, .interval = 4000};
    begin(1.0 / 64, 0);
    be->repeat = failing_repeat;
    rc_stage_run run = {.learner = &l, .hooks = &hooks, .last_call = now, .report = {.steps = 40}};
    rc_status status = rc_stage_repeat(&run, 0, 40);
    *be = plain;
    assert_int_equal(status, RC_DEVICE);
    assert_true(chunks == 2 && calls == 0 && run.report.step == 1);
}

/* ---- estimation ----------------------------------------------------------------------------------------------- */

enum { CLASSES = 3, PER_CLASS = 112, STEPS = CLASSES * PER_CLASS / 8 };

static rc_status note_estimation(void *user, const rc_stage_report *report)
{
    const rc_learner *l = user;
    assert_int_equal(report->stage, RC_STAGE_ESTIMATION);
    assert_true(report->task == l->task && report->images_per_step == 8);
    assert_int_equal(report->steps, rc_stage_steps(l, RC_STAGE_ESTIMATION));
    assert_true(report->state == &l->state && report->epochs == 0);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        assert_true(isnan(report->loss[i]));
    return note_call(NULL, report);
}

/* A call after every `rest` steps, after each 16th, and after the last. */
static void check_calls(int steps, int rest)
{
    int k = 0;
    for (int step = 1, last = 0; step <= steps; step++)
        if (step - last == rest || step % 16 == 0 || step == steps) {
            assert_true(k < calls);
            assert_int_equal(call_at[k++], step);
            last = step;
        }
    assert_int_equal(calls, k);
}

/* Steps come one by one; the hook is called after each 16th, after the last, an interval after the call before, and
 * after each when there is a wish to stop. */
static void estimation_calls_between_steps(void **state)
{
    (void)state;
    static const struct {
        double seconds, interval;
        bool stops;
        int rest;
    } cases[] = {{0.5, 4000, false, 16}, {0.5, 2.5, false, 5},  {0.5, 1, false, 2},
                 {0.5, 0.5, false, 1},   {0.5, 0.25, false, 1}, {0.5, 4000, true, 1}};
    rc_settings s = learning_settings();
    rc_learner l;
    rc_stage_hooks hooks = {.boundary = note_estimation, .user = &l};
    size_t held = 0;
    learning_create(&l, be, "cwd", &s);
    learning_begin(&l, 0, CLASSES, PER_CLASS);
    assert_int_equal(s.batch, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hooks.interval = cases[i].interval;
        rc_stop before = rc_stop_swap((rc_stop){.wanted = cases[i].stops ? stop_at_once : NULL});
        begin(cases[i].seconds, 1000); /* which belong to no step */
        rc_status status = rc_stage_estimation(&l, &hooks);
        *be = plain;
        rc_stop_swap(before);
        SUCCEEDS(status);
        assert_true(i == 0 || rc_bytes_allocated() == held); /* but for the statistics nothing is left of it */
        held = rc_bytes_allocated();
        assert_int_equal(chunks, STEPS);
        for (int k = 0; k < chunks; k++)
            assert_int_equal(chunk[k], 1);
        check_calls(STEPS, cases[i].rest);
    }
    begin(0.5, 0);
    be->repeat = failing_repeat;
    hooks.interval = 1;
    rc_status status = rc_stage_estimation(&l, &hooks);
    *be = plain;
    assert_int_equal(status, RC_DEVICE);
    assert_true(chunks == 2 && calls == 0 && rc_bytes_allocated() == held);
    rc_learner_destroy(&l);
}

/* Steps with dreams come after those with images, and the rest goes on. */
static void estimation_rests_from_images_to_dreams(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_stage_hooks hooks = {.boundary = note_estimation, .user = &l, .interval = 1.5};
    learning_create(&l, be, "cwd", &s);
    learning_teach(&l, 0, 2, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 2, 20);
    int steps = (int)rc_stage_steps(&l, RC_STAGE_ESTIMATION);
    assert_true(l.batches % 3 != 0 && steps > l.batches + 3);
    begin(0.5, 1000);
    rc_status status = rc_stage_estimation(&l, &hooks);
    *be = plain;
    SUCCEEDS(status);
    check_calls(steps, 3);
    rc_learner_destroy(&l);
}

/* ---- seconds of stages ---------------------------------------------------------------------------------------- */

static rc_status real_repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    now = now + times * 0.25;
    return plain.repeat(b, step, context, times);
}

static rc_status look_on(void *user, const rc_stage_report *report)
{
    const double *wall = user; /* is up to date */
    assert_true(wall[report->stage] == report->step * 0.25 + (report->stage == RC_STAGE_ESTIMATION ? 1000 : 0));
    return RC_OK;
}

/* Whenever the hook looks, what has passed since belongs to the stage that calls, and is added to what it had. */
static void seconds_belong_to_the_stage_that_takes_them(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    for (int rests = 0; rests < 2; rests++) {
        rc_learner l;
        double wall[RC_STAGE_COUNT] = {0, 0, 0, 1000};
        rc_stage_hooks hooks = {.boundary = look_on, .user = wall, .interval = rests ? 1e9 : 0};
        learning_begin_second(&l, be, "cwd", &s);
        now = 100;
        be->repeat = real_repeat;
        rc_status status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, wall);
        *be = plain;
        SUCCEEDS(status);
        for (int stage = 0; stage < RC_STAGE_COUNT; stage++) {
            uint32_t steps = rc_stage_steps(&l, (rc_stage)stage);
            assert_true(steps > 0);
            assert_true(wall[stage] == steps * 0.25 + (stage == RC_STAGE_ESTIMATION ? 1000 : 0));
        }
        rc_learner_destroy(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_fit_into_the_time_to_stop),
        cmocka_unit_test(the_hook_rests_for_an_interval),
        cmocka_unit_test(a_wish_to_stop_is_passed_on_at_once),
        cmocka_unit_test(steps_that_fail_are_the_last),
        cmocka_unit_test(estimation_calls_between_steps),
        cmocka_unit_test(estimation_rests_from_images_to_dreams),
        cmocka_unit_test(seconds_belong_to_the_stage_that_takes_them),
    };
    return cmocka_run_group_tests(tests, open_and_keep, close_backend);
}
