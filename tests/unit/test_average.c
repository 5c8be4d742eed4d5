/* Means of models: over the ends of epochs, and of an old model with a new one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/average.h"
#include "cil/stage.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { PARTS = RC_AVERAGE_PARTS };

static rc_net net;

/* A head of so many classes, with a bias. */
static void make(rc_classifier *c, int classes)
{
    SUCCEEDS(rc_net_resnet_small(&net, 3, 8, 8, 2, 1));
    SUCCEEDS(rc_classifier_create(c, &net, be, 4));
    SUCCEEDS(rc_head_grow(&c->head, classes, (rc_rng){3, 2}));
    SUCCEEDS(rc_head_add_bias(&c->head));
}

/* All numbers of a part become `value`, but the last, which becomes `last`. */
static void set(rc_classifier *c, float value, float last)
{
    void *part[PARTS] = {c->backbone.param, c->backbone.running, c->head.weight, c->head.bias};
    size_t count[PARTS] = {net.params, net.running, (size_t)(c->head.classes * c->head.d), (size_t)c->head.classes};
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; k < count[i]; k++)
            be->write_real(be, rc_real_at(be, part[i], k), k + 1 < count[i] ? &value : &last, 1);
}

static void expect(const rc_classifier *c, int rows, float value, float last)
{
    const void *part[PARTS] = {c->backbone.param, c->backbone.running, c->head.weight, c->head.bias};
    size_t count[PARTS] = {net.params, net.running, (size_t)(rows * c->head.d), (size_t)rows};
    for (int i = 0; i < PARTS; i++)
        for (size_t k = 0; k < count[i]; k++) {
            float found;
            be->read_real(be, &found, rc_real_at(be, part[i], k), 1);
            assert_true(found == (k + 1 < count[i] ? value : last));
        }
}

static void a_mean_is_taken_one_by_one(void **state)
{
    (void)state;
    rc_classifier c;
    rc_average a;
    rc_state names = {0};
    make(&c, 3);
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_average_create(&a, &c));
    SUCCEEDS(rc_average_register(&a, &names));
    assert_int_equal(names.entries, PARTS);
    static const float values[3][2] = {{1, -3}, {2, 3}, {6, 12}};
    for (int i = 0; i < 3; i++) {
        set(&c, values[i][0], values[i][1]);
        SUCCEEDS(rc_average_add(&a, i + 1));
    }
    expect(&c, 3, 6, 12); /* as it was set */
    rc_average_apply(&a);
    expect(&c, 3, 3, 4);
    set(&c, 8, 16); /* the first one of others */
    SUCCEEDS(rc_average_add(&a, 1));
    rc_average_apply(&a);
    expect(&c, 3, 8, 16);
    rc_average_destroy(&a);
    rc_average_destroy(&a);
    assert_int_equal(rc_bytes_allocated(), before);
    rc_classifier_destroy(&c);
}

static void rows_that_the_old_model_lacks_stay(void **state)
{
    (void)state;
    rc_classifier c, old;
    make(&old, 2);
    make(&c, 3);
    set(&old, 5, 9);
    set(&c, 1, 1);
    SUCCEEDS(rc_average_with(&c, &old, 0.25));
    expect(&c, 2, 2, 3);
    float last[2];
    be->read_real(be, &last[0], rc_real_at(be, c.head.weight, (size_t)(3 * c.head.d - 1)), 1);
    be->read_real(be, &last[1], rc_real_at(be, c.head.bias, 2), 1);
    assert_true(last[0] == 1 && last[1] == 1);
    rc_classifier_destroy(&c);
    rc_classifier_destroy(&old);
}

/* The mean of one epoch is that epoch; of more it is not. */
static void one_epoch_changes_nothing(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    learning_bits last = learning_two_tasks(be, "cwd", &s);
    s.average = 1;
    learning_bits one = learning_two_tasks(be, "cwd", &s);
    s.average = 2;
    learning_bits two = learning_two_tasks(be, "cwd", &s);
    assert_true(learning_same(last, one));
    assert_false(learning_same(last, two));
    learning_drop(last);
    learning_drop(one);
    learning_drop(two);
}

enum { AVERAGED = 3, MOST_PARAMS = 8192 };

typedef struct epochs_seen {
    const rc_learner *learner;
    int epochs;
    float param[AVERAGED + 1][MOST_PARAMS]; /* of epoch e at e % (AVERAGED + 1) */
} epochs_seen;

/* What the net is at the end of each epoch. */
static rc_status see_epoch(void *user, const rc_stage_report *report, rc_training *training)
{
    epochs_seen *seen = user;
    const rc_learner *l = seen->learner;
    uint32_t batches = report->steps / (uint32_t)report->epochs;
    assert_int_equal(report->stage, RC_STAGE_TRAINING);
    assert_true(report->epoch == seen->epochs && (int)rc_training_control(training)->epoch == seen->epochs);
    if (report->step % batches == 0)
        be->read_real(be, seen->param[seen->epochs++ % (AVERAGED + 1)], l->student.backbone.param, l->net.params);
    return be->sync(be);
}

static void the_mean_is_that_of_the_last_epochs(void **state)
{
    (void)state;
    static epochs_seen seen;
    static float mean[MOST_PARAMS];
    rc_stage_hooks hooks = learning_no_hooks;
    rc_settings s = learning_settings();
    rc_learner l;
    s.epochs = s.refine_epochs + AVERAGED + 1;
    s.average = AVERAGED;
    learning_create(&l, be, "finetune", &s);
    assert_in_range(l.net.params, 1, MOST_PARAMS);
    seen.learner = &l;
    hooks.step = see_epoch;
    hooks.user = &seen;
    learning_teach(&l, 0, 2, 12, &hooks);
    be->read_real(be, mean, l.student.backbone.param, l.net.params);
    SUCCEEDS(be->sync(be));
    assert_true(seen.epochs > AVERAGED);
    const float *before = seen.param[seen.epochs % (AVERAGED + 1)];
    const float *last = seen.param[(seen.epochs - 1) % (AVERAGED + 1)];
    for (size_t i = 0; i < l.net.params; i++) {
        double wanted = 0;
        for (int e = 0; e <= AVERAGED; e++)
            wanted += seen.param[e] != before ? (double)seen.param[e][i] / AVERAGED : 0;
        assert_true(fabs((double)mean[i] - wanted) <= 1e-6 * (1 + fabs(wanted)));
    }
    assert_memory_not_equal(before, last, l.net.params * sizeof *last);
    assert_memory_not_equal(mean, last, l.net.params * sizeof *last);
    rc_learner_destroy(&l);
}

static rc_status take_all_memory(void *user, const rc_stage_report *report)
{
    (void)user;
    if (report->stage == RC_STAGE_TRAINING && report->step == report->steps)
        rc_memory_set_budget(rc_bytes_allocated());
    return RC_OK;
}

static void a_mean_without_memory_is_no_mean(void **state)
{
    (void)state;
    const rc_stage_hooks hooks = {.boundary = take_all_memory, .interval = 1e9};
    rc_settings s = learning_settings();
    rc_learner l;
    s.average = 1;
    learning_create(&l, be, "finetune", &s);
    learning_begin(&l, 0, 2, 12);
    rc_status status = rc_stage_training(&l, RC_STAGE_TRAINING, 0, &hooks);
    rc_memory_set_budget(SIZE_MAX);
    assert_int_equal(status, RC_OUT_OF_MEMORY);
    rc_learner_destroy(&l);
}

/* With all of the old model the net is the old one. */
static void the_old_model_can_come_back(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.average_old = 1;
    learning_begin_second(&l, be, "cwd", &s);
    size_t bytes = l.net.params * be->real_bytes;
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
    assert_memory_equal(l.student.backbone.param, l.teacher.backbone.param, bytes);
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mean_is_taken_one_by_one),       cmocka_unit_test(rows_that_the_old_model_lacks_stay),
        cmocka_unit_test(one_epoch_changes_nothing),        cmocka_unit_test(the_mean_is_that_of_the_last_epochs),
        cmocka_unit_test(a_mean_without_memory_is_no_mean), cmocka_unit_test(the_old_model_can_come_back),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
