/* What a stage tells its hook, and that no failure on the way is lost: of the backend, of the hook that restores, and
 * of a source that prepares an epoch. test_stage_clock.c has when it calls. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cil/sources.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static rc_backend plain; /* as it was opened */

static int open_and_keep(void **state)
{
    int failed = open_backend(state);
    plain = failed ? plain : *be;
    return failed;
}

/* ---- reports -------------------------------------------------------------------------------------------------- */

static int visits[RC_STAGE_COUNT], images[RC_STAGE_COUNT];
static double rates[RC_STAGE_COUNT];

static rc_status note_report(void *user, const rc_stage_report *report)
{
    (void)user;
    visits[report->stage]++;
    images[report->stage] = report->images_per_step;
    rates[report->stage] = report->learning_rate;
    assert_int_equal(report->step, report->steps);
    return RC_OK;
}

/* With time enough a stage calls once, at its end. There are as many milestones as there can be, all far away. */
static void stages_report_their_end_images_and_rate(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.milestones = RC_MAX_MILESTONES;
    for (int i = 0; i < RC_MAX_MILESTONES; i++)
        s.milestone[i] = 1000 + i;
    learning_begin_second(&l, be, "cwd", &s);
    /* The clock has run for longer than that, but not since a stage began. */
    rc_stage_hooks hooks = {.boundary = note_report, .interval = rc_now() / 2};
    memset(visits, 0, sizeof visits);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL));
    for (int stage = 0; stage < RC_STAGE_COUNT; stage++) {
        bool halves = stage == RC_STAGE_TRAINING || stage == RC_STAGE_REFINEMENT;
        assert_int_equal(visits[stage], 1);
        assert_int_equal(images[stage], halves ? 2 * s.batch : s.batch);
    }
    assert_true(rates[RC_STAGE_INVERSION] == s.inversion_rate);
    assert_true(rates[RC_STAGE_TRAINING] == (double)(float)s.learning_rate);
    assert_true(rates[RC_STAGE_REFINEMENT] == (double)(float)s.refine_rate);
    rc_learner_destroy(&l);
}

/* ---- looking at every step ------------------------------------------------------------------------------------ */

static uint32_t looks[RC_STAGE_COUNT];

static rc_status note_step(void *user, const rc_stage_report *report, rc_training *training)
{
    const uint32_t *end = user;
    looks[report->stage]++;
    assert_int_equal(report->step, looks[report->stage]); /* one at a time, none left out */
    assert_non_null(rc_training_look(training).head_gradient);
    return looks[RC_STAGE_TRAINING] == *end ? rc_fail(RC_CANCELLED, "seen enough") : RC_OK;
}

static rc_status look_away(void *user, const rc_stage_report *report)
{
    (void)user, (void)report;
    return RC_OK;
}

/* The hook sees every step of training and refinement, no other, and changes no bit. It can stop a stage. */
static void a_hook_looks_at_every_step(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    uint32_t never = UINT32_MAX, second = 2;
    rc_stage_hooks hooks = {.boundary = look_away, .interval = 1e9};
    learning_bits bits[2];
    for (int watched = 0; watched < 2; watched++) {
        rc_learner l;
        learning_begin_second(&l, be, "cwd", &s);
        hooks.step = watched ? note_step : NULL;
        hooks.user = &never;
        memset(looks, 0, sizeof looks);
        SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL));
        for (int stage = 0; stage < RC_STAGE_COUNT; stage++) {
            bool trains = stage == RC_STAGE_TRAINING || stage == RC_STAGE_REFINEMENT;
            assert_int_equal(looks[stage], watched && trains ? rc_stage_steps(&l, (rc_stage)stage) : 0);
        }
        bits[watched] = learning_take(&l);
        rc_learner_destroy(&l);
    }
    assert_true(learning_same(bits[0], bits[1]));
    learning_drop(bits[0]);
    learning_drop(bits[1]);
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    hooks.user = &second;
    memset(looks, 0, sizeof looks);
    assert_int_equal(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL), RC_CANCELLED);
    assert_int_equal(looks[RC_STAGE_TRAINING], 2);
    assert_int_equal(looks[RC_STAGE_REFINEMENT], 0);
    rc_learner_destroy(&l);
}

/* ---- failures ------------------------------------------------------------------------------------------------- */

static int to_go;

static rc_status failing_sync(rc_backend *b)
{
    return --to_go == 0 ? rc_fail(RC_INTERNAL, "the device is gone") : plain.sync(b);
}

static rc_status failing_dense(rc_backend *b, int n, int in, int out)
{
    return --to_go == 0 ? rc_fail(RC_INTERNAL, "no room") : plain.reserve_dense(b, n, in, out);
}

static rc_status failing_losses(rc_backend *b, int n, int classes, int h, int w, int c)
{
    return --to_go == 0 ? rc_fail(RC_INTERNAL, "no room") : plain.reserve_losses(b, n, classes, h, w, c);
}

static rc_status failing_alloc(rc_backend *b, size_t bytes, void **memory)
{
    return --to_go == 0 ? rc_fail(RC_INTERNAL, "no room") : plain.alloc(b, bytes, memory);
}

/* Once, wherever it is: waiting, room for products, room for losses, memory. */
static void a_backend_that_fails_is_told(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "wa", "dgr", "deepinversion-pixels"};
    rc_settings s = learning_settings();
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 1;
    s.pixel_steps = 1;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int what = 0; what < 4; what++) {
            rc_learner l;
            int nth = 0;
            learning_begin_second(&l, be, methods[i], &s);
            for (bool failed = true; failed; nth++) {
                be->sync = what == 0 ? failing_sync : plain.sync;
                be->reserve_dense = what == 1 ? failing_dense : plain.reserve_dense;
                be->reserve_losses = what == 2 ? failing_losses : plain.reserve_losses;
                be->alloc = what == 3 ? failing_alloc : plain.alloc;
                to_go = nth + 1;
                rc_status status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL);
                *be = plain;
                failed = to_go <= 0;
                if (status != (failed ? RC_INTERNAL : RC_OK))
                    fail_msg("%s, operation %d, call %d: status %d", methods[i], what, nth, (int)status);
            }
            assert_true(nth > (what == 0 || what == 3 ? 4 : 1));
            rc_learner_destroy(&l);
        }
}

static rc_status repeat_nothing(rc_backend *b, void (*step)(void *), void *context, int times)
{
    (void)b, (void)step, (void)context, (void)times;
    return RC_OK;
}

/* Losses are looked at when the device is done with them. */
static void losses_that_cannot_be_read_are_told(void **state)
{
    (void)state;
    void *loss;
    rc_learner l = {.backend = be};
    rc_stage_hooks hooks = {.boundary = look_away};
    SUCCEEDS(be->alloc(be, RC_LOSS_COUNT * be->real_bytes, &loss));
    rc_stage_run run = {.learner = &l, .hooks = &hooks, .loss = loss, .report = {.steps = 1}};
    be->repeat = repeat_nothing;
    be->sync = failing_sync;
    to_go = 1;
    rc_status status = rc_stage_repeat(&run, 0, 1);
    *be = plain;
    assert_int_equal(status, RC_INTERNAL);
    be->release(be, loss);
}

static rc_status failing_restore(void *user, rc_state *entries)
{
    (void)user, (void)entries;
    return --to_go == 0 ? rc_fail(RC_INTERNAL, "no checkpoint") : RC_OK;
}

/* The task is restored first, then the stage that is taken up. */
static void what_cannot_be_restored_is_told(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_stage_hooks hooks = {.boundary = look_away, .restore = failing_restore, .interval = 1e9};
    for (int stage = RC_STAGE_INVERSION; stage <= RC_STAGE_REFINEMENT; stage++)
        for (int nth = 1; nth <= 3; nth++) {
            rc_learner l;
            learning_begin_second(&l, be, "cwd", &s);
            to_go = nth;
            rc_status status = rc_run_stages(&l, (rc_stage)stage, 1, &hooks, NULL); /* of nothing that was restored */
            assert_int_equal(status == RC_INTERNAL, nth < 3);
            rc_learner_destroy(&l);
        }
}

/* A buffer that has nothing to replay from its second epoch on. */
static rc_replay_table broken;
static rc_status (*plain_prepare)(rc_replay *, int);
static int last_epoch;

static rc_status failing_prepare(rc_replay *replay, int epoch)
{
    last_epoch = epoch;
    return epoch == 1 ? rc_fail(RC_INTERNAL, "nothing to replay") : plain_prepare(replay, epoch);
}

static rc_status open_broken(rc_source *source, const rc_learner *l, uint32_t stream, rc_replay **replay)
{
    RC_TRY(rc_source_buffer.open(source, l, stream, replay));
    broken = *(*replay)->table;
    plain_prepare = broken.prepare_epoch;
    broken.prepare_epoch = failing_prepare;
    (*replay)->table = &broken;
    return RC_OK;
}

static void an_epoch_that_cannot_be_prepared_does_not_run(void **state)
{
    (void)state;
    rc_source_kind kind = rc_source_buffer;
    kind.open = open_broken;
    const rc_method *er;
    SUCCEEDS(rc_method_find("er", &er));
    rc_method method = *er;
    method.replay = &kind;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create_row(&l, be, &method, &s);
    rc_status status = RC_OK;
    for (int task = 0; task < 2 && status == RC_OK; task++) { /* a buffer may be replayed in the first task already */
        learning_begin(&l, task, 2, 8);
        status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL);
        rc_learner_end_task(&l);
    }
    assert_int_equal(status, RC_INTERNAL);
    assert_int_equal(last_epoch, 1);
    rc_learner_destroy(&l);
}

/* ---- rows of the head ----------------------------------------------------------------------------------------- */

static double mean_norm(const float *weight, int rows, int d)
{
    double sum = 0;
    for (int row = 0; row < rows; row++) {
        double square = 0;
        for (int j = 0; j < d; j++)
            square += (double)weight[row * d + j] * (double)weight[row * d + j];
        sum += sqrt(square);
    }
    return sum / rows;
}

/* With all old classes, and one is enough; only where the row says so, whatever else it has. */
static void new_rows_are_aligned_with_old_ones(void **state)
{
    (void)state;
    const rc_method *wa;
    rc_settings s = learning_settings();
    SUCCEEDS(rc_method_find("wa", &wa));
    assert_true(wa->align_rows && wa->dce);
    for (int aligned = 0; aligned < 2; aligned++)
        for (int old_classes = 1; old_classes <= 2; old_classes++) {
            rc_method method = *wa;
            rc_learner l;
            float weight[4 * 64];
            method.align_rows = aligned;
            learning_create_row(&l, be, &method, &s);
            learning_teach(&l, 0, old_classes, 16, &learning_no_hooks);
            rc_learner_end_task(&l);
            learning_teach(&l, 1, 2, 8, &learning_no_hooks);
            int d = l.student.head.d;
            assert_in_range(d, 1, 64);
            be->read_real(be, weight, l.student.head.weight, (size_t)((old_classes + 2) * d));
            double old = mean_norm(weight, old_classes, d), new = mean_norm(weight + old_classes * d, 2, d);
            assert_int_equal(fabs(new / old - 1) < 1e-5, aligned);
            rc_learner_destroy(&l);
        }
}

/* ---- weights of losses ---------------------------------------------------------------------------------------- */

/* A row may have one of ABD's two losses. */
static void losses_are_active_each_for_itself(void **state)
{
    (void)state;
    static const rc_method rows[] = {{.replay = &rc_source_none, .main = {.real = RC_CE_NEW, .feature = true}},
                                     {.replay = &rc_source_none, .main = {.real = RC_CE_NEW, .head_ce = true}}};
    for (int i = 0; i < 2; i++) {
        rc_learner l = {.settings = rc_settings_default(),
                        .method = &rows[i],
                        .n_old = 2,
                        .n_new = 2,
                        .student = {.head = {.tasks = 2}}};
        float weight[RC_LOSS_COUNT];
        bool active[RC_LOSS_COUNT];
        rc_stage_weights(&l, RC_STAGE_TRAINING, weight, active);
        assert_int_equal(active[RC_LOSS_FEATURE], i == 0);
        assert_int_equal(active[RC_LOSS_HEAD], i == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_report_their_end_images_and_rate),
        cmocka_unit_test(a_hook_looks_at_every_step),
        cmocka_unit_test(a_backend_that_fails_is_told),
        cmocka_unit_test(losses_that_cannot_be_read_are_told),
        cmocka_unit_test(what_cannot_be_restored_is_told),
        cmocka_unit_test(an_epoch_that_cannot_be_prepared_does_not_run),
        cmocka_unit_test(new_rows_are_aligned_with_old_ones),
        cmocka_unit_test(losses_are_active_each_for_itself),
    };
    return cmocka_run_group_tests(tests, open_and_keep, close_backend);
}
