/* Whole tasks of a small learner: what each stage may change and what not, tasks at the edges of the protocol, and
 * that a task can be stopped after any of its steps and resumed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/evaluation.h"
#include "model/checkpoint.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

/* Task 1 of 3 classes with these settings. */
static learning_bits first_task(const rc_settings *s)
{
    rc_learner l;
    learning_create(&l, be, "cwd", s);
    learning_teach(&l, 0, 3, 16, &learning_no_hooks);
    learning_bits b = learning_take(&l);
    rc_learner_destroy(&l);
    return b;
}

/* ---- what stages may change ----------------------------------------------------------------------------------- */

typedef struct observer {
    rc_learner *learner;
    learning_bits before_inversion, after_inversion, after_training, after_refinement;
} observer;

static rc_status keep_bits(void *user, const rc_stage_report *report)
{
    observer *o = user;
    if (report->step != report->steps)
        return RC_OK;
    learning_bits now = learning_take(o->learner);
    if (report->stage == RC_STAGE_INVERSION)
        o->after_inversion = now;
    else if (report->stage == RC_STAGE_TRAINING)
        o->after_training = now;
    else if (report->stage == RC_STAGE_REFINEMENT)
        o->after_refinement = now;
    else
        learning_drop(now);
    return RC_OK;
}

/* Refinement trains the head alone, every backbone tensor and running statistic keeps its bits;
 * inversion leaves the whole student alone; main training changes both. */
static void refinement_changes_the_head_alone(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "cwd", &s);
    learning_teach(&l, 0, 3, 16, &learning_no_hooks);
    rc_learner_end_task(&l);
    observer o = {.learner = &l};
    rc_stage_hooks hooks = {.boundary = keep_bits, .user = &o, .interval = 1e9};
    learning_begin(&l, 1, 2, 16);
    o.before_inversion = learning_take(&l);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL));
    assert_true(learning_same(o.before_inversion, o.after_inversion));
    size_t backbone = o.after_training.backbone * sizeof(float), d = (size_t)l.student.head.d;
    assert_memory_not_equal(o.after_inversion.value, o.after_training.value, backbone);
    assert_memory_equal(o.after_training.value, o.after_refinement.value, backbone);
    const float *head[2] = {o.after_training.value + o.after_training.backbone,
                            o.after_refinement.value + o.after_refinement.backbone};
    for (size_t row = 0; row < 5; row++) /* old rows and new ones */
        assert_memory_not_equal(head[0] + row * d, head[1] + row * d, d * sizeof(float));
    learning_bits end = learning_take(&l); /* estimation reads only */
    assert_memory_equal(o.after_refinement.value, end.value, backbone);
    learning_drop(end);
    learning_drop(o.before_inversion);
    learning_drop(o.after_inversion);
    learning_drop(o.after_training);
    learning_drop(o.after_refinement);
    rc_learner_destroy(&l);
}

/* In task 1 the last refine_epochs do nothing; a `paper` profile trains all epochs. */
static void last_epochs_of_the_first_task_do_nothing(void **state)
{
    (void)state;
    rc_settings with = learning_settings(), without = learning_settings(), paper = learning_settings();
    without.epochs = with.epochs - with.refine_epochs;
    without.refine_epochs = 0;
    rc_settings_paper_profile(&paper);
    learning_bits a = first_task(&with), b = first_task(&without), c = first_task(&paper);
    assert_true(learning_same(a, b));
    assert_false(learning_same(a, c));
    learning_drop(a);
    learning_drop(b);
    learning_drop(c);
}

typedef struct examiner {
    rc_learner *learner;
    rc_task_stream stream;
    rc_split test;
    int looked;
} examiner;

static rc_status examine(void *user, const rc_stage_report *report)
{
    (void)report;
    examiner *e = user;
    rc_evaluation evaluation;
    SUCCEEDS(rc_evaluate(be, &e->learner->student, &e->learner->augment, &e->stream, &e->test, 5, NULL, &evaluation));
    rc_evaluation_destroy(&evaluation);
    e->looked++;
    return RC_OK;
}

/* However often the model is evaluated while it trains, the trained tensors are the same. */
static void evaluation_changes_no_tensor(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    learning_bits end[2];
    for (int often = 0; often < 2; often++) {
        rc_learner l;
        examiner e = {.learner = &l};
        learning_create(&l, be, "cwd", &s);
        rc_task_split split = {.sizes = 2, .size = {3, 2}};
        SUCCEEDS(rc_task_stream_create(&e.stream, 5, NULL, &split));
        e.test.count = 25;
        e.test.images = learning_images(0, 5, 5, &e.test.labels);
        rc_stage_hooks hooks = {.boundary = examine, .user = &e, .interval = 0};
        learning_teach(&l, 0, 3, 16, often ? &hooks : &learning_no_hooks);
        rc_learner_end_task(&l);
        learning_teach(&l, 1, 2, 16, often ? &hooks : &learning_no_hooks);
        assert_true(often ? e.looked > 40 : e.looked == 0);
        end[often] = learning_take(&l);
        rc_learner_destroy(&l);
        rc_task_stream_destroy(&e.stream);
        rc_free(NULL, e.test.images);
        rc_free(NULL, e.test.labels);
    }
    assert_true(learning_same(end[0], end[1]));
    learning_drop(end[0]);
    learning_drop(end[1]);
}

/* DESIGN 3.12: a checkpoint after any step of any stage leads to the same bits. */
static void every_step_can_be_resumed(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    int stages[RC_STAGE_COUNT];
    s.zoom = s.colour = 0.25; /* more draws to take up where they were left */
    s.mixup = s.cutmix = 1;
    s.cutout = 3;
    s.trivial = true;
    s.smoothing = 0.125;
    s.average = 2; /* more to remember */
    s.generators = 2;
    s.average_old = 0.25;
    snprintf(s.rotations, sizeof s.rotations, "all");
    if (!learning_resume_everywhere(be, "cwd", &s, stages))
        return;
    assert_int_equal(stages[RC_STAGE_INVERSION], 5 * s.generators);
    assert_int_equal(stages[RC_STAGE_TRAINING], 6);
    assert_int_equal(stages[RC_STAGE_REFINEMENT], 6);
    assert_true(stages[RC_STAGE_ESTIMATION] > 0);
}

/* DESIGN 3.10: what is not finite is not saved, and a task does not end with it. */
static void numbers_that_are_not_finite_stop_a_task(void **state)
{
    (void)state;
    char path[] = "/tmp/recollect-test-checkpoint-XXXXXX";
    rc_settings s = learning_settings();
    rc_learner l;
    const float bad[2] = {1, NAN};
    rc_position position = {.task = 0, .stage = RC_STAGE_TRAINING, .step = 3}, found;
    rc_safetensors *file;
    close(mkstemp(path));
    learning_create(&l, be, "cwd", &s);
    learning_begin(&l, 0, 3, 8);
    SUCCEEDS(rc_checkpoint_save(path, be, &l.state, &position, "me"));
    be->write_real(be, rc_real_at(be, l.student.head.weight, 4097 % 30), bad, 2);
    position.step = 4;
    assert_int_equal(rc_checkpoint_save(path, be, &l.state, &position, "me"), RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "student.head is nan"));
    SUCCEEDS(rc_checkpoint_open(path, "me", &found, &file));
    assert_int_equal(found.step, 3); /* the last good one */
    rc_safetensors_close(file);
    assert_int_equal(rc_run_stages(&l, RC_STAGE_ESTIMATION, 0, &learning_no_hooks, NULL), RC_NUMERIC);
    assert_int_equal(rc_run_stages(&l, RC_STAGE_TRAINING, 0, &learning_no_hooks, NULL), RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "task 1, training, step 6 of 6: the cross entropy loss is"));
    assert_non_null(strstr(rc_message(), "lower learning_rate"));
    rc_learner_destroy(&l);
    unlink(path);
}

/* ---- edges ---------------------------------------------------------------------------------------------------- */

typedef struct recorder {
    int reports[RC_STAGE_COUNT];
    double first[RC_STAGE_COUNT][RC_LOSS_COUNT], last[RC_STAGE_COUNT][RC_LOSS_COUNT];
} recorder;

static rc_status record(void *user, const rc_stage_report *report)
{
    recorder *r = user;
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (!isnan(report->loss[i]))
            assert_true(isfinite(report->loss[i]));
    if (r->reports[report->stage]++ == 0)
        memcpy(r->first[report->stage], report->loss, sizeof report->loss);
    memcpy(r->last[report->stage], report->loss, sizeof report->loss);
    return RC_OK;
}

/* Local cross entropy over one logit is constant, so a task of one class takes it over all classes: the loss is not 0,
 * and goes down. Two new classes compare with each other alone. */
static void a_task_of_one_class_trains(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    s.epochs = 12;
    s.milestones = 0;
    for (int n_new = 1; n_new <= 2; n_new++) {
        rc_learner l;
        recorder r = {.reports = {0}};
        rc_stage_hooks hooks = {.boundary = record, .user = &r, .interval = 0};
        learning_create(&l, be, "rdfcil", &s);
        learning_teach(&l, 0, 3, 16, &learning_no_hooks);
        rc_learner_end_task(&l);
        learning_teach(&l, 1, n_new, 24, &hooks);
        double first = r.first[RC_STAGE_TRAINING][RC_LOSS_CE], last = r.last[RC_STAGE_TRAINING][RC_LOSS_CE];
        print_message("%d new class(es): cross entropy %.3f -> %.3f\n", n_new, first, last);
        if (n_new == 1)
            assert_true(first > 1 && last < 0.5 * first);
        else
            assert_true(fabs(first - log(2)) < 0.1); /* over five classes it would be near log(5) */
        rc_learner_destroy(&l);
    }
}

/* One old class cannot be more or less diverse: the term is 0 and no part of the stage. One new class after it. */
static void one_old_class_has_no_diversity(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "cwd", &s);
    for (int task = 0; task < 3; task++) { /* 1, then 1, then 2 classes */
        recorder r = {.reports = {0}};
        rc_stage_hooks hooks = {.boundary = record, .user = &r, .interval = 0};
        learning_teach(&l, task, task < 2 ? 1 : 2, 5, &hooks); /* fewer images than a batch */
        rc_learner_end_task(&l);
        assert_int_equal(r.reports[RC_STAGE_INVERSION], task == 0 ? 0 : s.inversion_steps);
        if (task == 0)
            continue;
        assert_false(isnan(r.last[RC_STAGE_INVERSION][RC_LOSS_CONTENT]));
        assert_true(isnan(r.last[RC_STAGE_INVERSION][RC_LOSS_DIVERSITY]) == (task == 1));
        assert_false(isnan(r.last[RC_STAGE_INVERSION][RC_LOSS_DCE]));
    }
    assert_int_equal(l.statistics_classes, 4);
    rc_learner_destroy(&l);
}

/* The published weights, of a generator's losses and of pixels', as the stage has them. */
static void inversion_has_the_published_weights(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        bool estimated;
        double weight[RC_LOSS_COUNT]; /* 0: no part of it */
    } forms[] = {
        {"cwd", true, {[RC_LOSS_CONTENT] = 1, [RC_LOSS_DIVERSITY] = 1, [RC_LOSS_BN] = 50, [RC_LOSS_DCE] = 0.05}},
        {"cwd", false, {[RC_LOSS_CONTENT] = 1, [RC_LOSS_DIVERSITY] = 1, [RC_LOSS_BN] = 50}},
        {"rdfcil", true, {[RC_LOSS_CONTENT] = 1, [RC_LOSS_DIVERSITY] = 1, [RC_LOSS_BN] = 50}},
        {"deepinversion-pixels",
         true,
         {[RC_LOSS_CONTENT] = 1, [RC_LOSS_BN] = 5, [RC_LOSS_PRIOR] = 2.5e-5, [RC_LOSS_NORM] = 3e-8}},
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        rc_learner l = {.settings = rc_settings_default(),
                        .n_old = 20,
                        .n_new = 20,
                        .statistics_classes = forms[f].estimated ? 20 : 0};
        float weight[RC_LOSS_COUNT];
        bool active[RC_LOSS_COUNT];
        SUCCEEDS(rc_method_find(forms[f].method, &l.method));
        l.has.replay = rc_method_replays(l.method, l.n_old);
        rc_inversion_weights(&l, weight, active);
        for (int i = 0; i < RC_LOSS_COUNT; i++) {
            assert_true(weight[i] == (float)forms[f].weight[i]);
            assert_int_equal(active[i], forms[f].weight[i] > 0);
        }
    }
}

/* Steps of a stage: max(1, n / B) batches an epoch, max(1, n_old / n_new) batches of dreams for each in estimation. */
static void stages_have_the_steps_of_the_protocol(void **state)
{
    (void)state;
    const rc_method *cwd, *finetune;
    SUCCEEDS(rc_method_find("cwd", &cwd));
    SUCCEEDS(rc_method_find("finetune", &finetune));
    rc_settings s = learning_settings();
    const struct {
        int n_old, n_new, batches, min_steps;
        uint32_t inversion, training, refinement, estimation;
    } rows[] = {
        {0, 3, 6, 0, 0, 12, 0, 6},      {20, 20, 10, 0, 5, 20, 20, 20}, {80, 20, 10, 0, 5, 20, 20, 50},
        {79, 20, 10, 0, 5, 20, 20, 40}, {2, 8, 3, 0, 5, 6, 6, 6},       {1, 1, 1, 0, 5, 2, 2, 2},
        {3, 1, 1, 7, 5, 7, 7, 4},       {3, 1, 2, 7, 5, 8, 8, 8},       {0, 3, 6, 100, 0, 102, 0, 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rc_learner l = {
            .settings = s, .method = cwd, .n_old = rows[i].n_old, .n_new = rows[i].n_new, .batches = rows[i].batches};
        l.settings.min_steps = rows[i].min_steps;
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_INVERSION), rows[i].inversion);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_TRAINING), rows[i].training);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_REFINEMENT), rows[i].refinement);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_ESTIMATION), rows[i].estimation);
        l.method = finetune;
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_REFINEMENT) + rc_stage_steps(&l, RC_STAGE_ESTIMATION), 0);
    }
}

/* Old classes get a mean from dreams, if they are dreamt of; every new one has its own; and statistics that a task has
 * outdated are not kept. */
static void statistics_are_of_the_model_they_are_stored_with(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    const rc_method *finetune;
    rc_learner l;
    SUCCEEDS(rc_method_find("finetune", &finetune));
    learning_create(&l, be, "cwd", &s);
    learning_teach(&l, 0, 2, 16, &learning_no_hooks);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 2);
    learning_teach(&l, 1, 3, 16, &learning_no_hooks); /* more new classes than old: dreams are drawn all the same */
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 5);
    size_t d = (size_t)l.student.head.d;
    float *mean = rc_alloc_zeroed(NULL, 5 * d, sizeof *mean);
    be->read_real(be, mean, l.class_mean, 5 * d);
    assert_true(isfinite(mean[0]) || isfinite(mean[d])); /* one of the old ones, at least, was dreamt of */
    for (size_t k = 2; k < 5; k++)
        assert_true(isfinite(mean[k * d]));
    rc_free(NULL, mean);
    assert_int_equal(rc_learner_stored(&l).statistics, (5 * d + d * d) * sizeof(float));
    SUCCEEDS(rc_learner_set_method(&l, finetune)); /* which has no use for them */
    assert_int_equal(rc_learner_stored(&l).statistics, 0);
    learning_teach(&l, 2, 1, 16, &learning_no_hooks);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 0);
    assert_null(l.class_mean);
    rc_learner_destroy(&l);
}

/* Times belong to the stage that takes them, whenever the hook looks. */
static void wall_times_add_up(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    double wall[RC_STAGE_COUNT] = {0, 0, 0, 1000};
    learning_create(&l, be, "cwd", &s);
    learning_begin(&l, 0, 3, 8);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, wall));
    assert_true(wall[RC_STAGE_INVERSION] == 0 && wall[RC_STAGE_TRAINING] > 0 && wall[RC_STAGE_REFINEMENT] == 0);
    assert_true(wall[RC_STAGE_ESTIMATION] > 1000 && wall[RC_STAGE_ESTIMATION] < 1100);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 2, 8);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, wall));
    assert_true(wall[RC_STAGE_INVERSION] > 0 && wall[RC_STAGE_REFINEMENT] > 0);
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refinement_changes_the_head_alone),
        cmocka_unit_test(last_epochs_of_the_first_task_do_nothing),
        cmocka_unit_test(evaluation_changes_no_tensor),
        cmocka_unit_test(every_step_can_be_resumed),
        cmocka_unit_test(numbers_that_are_not_finite_stop_a_task),
        cmocka_unit_test(a_task_of_one_class_trains),
        cmocka_unit_test(one_old_class_has_no_diversity),
        cmocka_unit_test(inversion_has_the_published_weights),
        cmocka_unit_test(stages_have_the_steps_of_the_protocol),
        cmocka_unit_test(statistics_are_of_the_model_they_are_stored_with),
        cmocka_unit_test(wall_times_add_up),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
