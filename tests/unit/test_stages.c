/* Whole tasks of a small learner: what each stage may change and what not, tasks at the edges of the protocol, and that
 * a task can be left and taken up again after any of its steps. */
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
#include "cil/stage.h"
#include "data/procedural.h"
#include "run/checkpoint.h"
#include "support/succeeds.h"

enum { SIZE = 16, CHANNELS = 3, PIXELS = SIZE * SIZE * CHANNELS, MOST_STEPS = 64 };

static rc_backend *be;

static int open_backend(void **state)
{
    (void)state;
    return rc_backend_open("cpu", 2, NULL, &be) == RC_OK ? 0 : -1;
}

static int close_backend(void **state)
{
    (void)state;
    rc_backend_close(be);
    return 0;
}

/* ---- a learner and its tasks ---------------------------------------------------------------------------------- */

static rc_settings small_settings(void)
{
    rc_settings s = rc_settings_default();
    snprintf(s.net, sizeof s.net, "resnet-small");
    snprintf(s.generator, sizeof s.generator, "generator-small");
    s.net_width = 4;
    s.net_blocks = 1;
    s.generator_width = 8;
    s.noise = 8;
    s.batch = 8;
    s.epochs = 4;
    s.refine_epochs = 2;
    s.milestones = 1;
    s.milestone[0] = 1;
    s.inversion_steps = 5;
    return s;
}

static void create(rc_learner *l, const char *method_name, const rc_settings *settings)
{
    const rc_method *method;
    rc_augment image = {.h = SIZE, .w = SIZE, .c = CHANNELS, .mean = {0.5f, 0.5f, 0.5f}, .std = {0.3f, 0.3f, 0.3f}};
    SUCCEEDS(rc_method_find(method_name, &method));
    SUCCEEDS(rc_learner_create(l, be, settings, method, &image));
}

/* Images (classes * per_class) of classes from `first` on, in turn. */
static uint8_t *draw_images(int first, int classes, int per_class, int32_t **labels)
{
    int count = classes * per_class;
    uint8_t *images = rc_alloc_zeroed(NULL, (size_t)count, PIXELS);
    *labels = rc_alloc_zeroed(NULL, (size_t)count, sizeof **labels);
    assert_true(images != NULL && *labels != NULL);
    for (int i = 0; i < count; i++) {
        (*labels)[i] = first + i % classes;
        uint8_t *image = images + (size_t)i * PIXELS;
        rc_procedural_draw(5, (*labels)[i] * 7, (uint32_t)(i / classes), 0, SIZE, CHANNELS, image);
    }
    return images;
}

static void begin(rc_learner *l, int task, int n_new, int per_class)
{
    int32_t *labels;
    uint8_t *images = draw_images(l->student.head.classes, n_new, per_class, &labels);
    SUCCEEDS(rc_learner_begin_task(l, task, n_new, images, labels, n_new * per_class));
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

static rc_status look_away(void *user, const rc_stage_report *report)
{
    (void)user;
    (void)report;
    return RC_OK;
}

static const rc_stage_hooks no_hooks = {.boundary = look_away, .interval = 1e9};

static void teach(rc_learner *l, int task, int n_new, int per_class, const rc_stage_hooks *hooks)
{
    begin(l, task, n_new, per_class);
    SUCCEEDS(rc_run_stages(l, RC_STAGE_INVERSION, 0, hooks, NULL));
}

/* ---- bits ----------------------------------------------------------------------------------------------------- */

typedef struct bits {
    float *value;
    size_t count, backbone; /* of which the first belong to the backbone, running statistics included */
} bits;

/* All that a task leaves: backbone, head, class statistics. */
static bits take_bits(const rc_learner *l)
{
    size_t params = l->net.params, running = l->net.running, d = (size_t)l->student.head.d;
    size_t head = (size_t)l->student.head.classes * d, means = (size_t)l->statistics_classes * d;
    size_t covariance = l->covariance != NULL ? d * d : 0;
    bits b = {.count = params + running + head + means + covariance, .backbone = params + running};
    b.value = rc_alloc_zeroed(NULL, b.count, sizeof *b.value);
    assert_non_null(b.value);
    assert_int_equal(be->sync(be), RC_OK);
    be->read_real(be, b.value, l->student.backbone.param, params);
    be->read_real(be, b.value + params, l->student.backbone.running, running);
    be->read_real(be, b.value + b.backbone, l->student.head.weight, head);
    if (means > 0) {
        be->read_real(be, b.value + b.backbone + head, l->class_mean, means);
        be->read_real(be, b.value + b.backbone + head + means, l->covariance, covariance);
    }
    return b;
}

static bool same_bits(bits a, bits b)
{
    return a.count == b.count && memcmp(a.value, b.value, a.count * sizeof *a.value) == 0;
}

static void drop(bits b)
{
    rc_free(NULL, b.value);
}

/* Task 1 of 3 classes with these settings. */
static bits first_task(const rc_settings *s)
{
    rc_learner l;
    create(&l, "cwd", s);
    teach(&l, 0, 3, 16, &no_hooks);
    bits b = take_bits(&l);
    rc_learner_destroy(&l);
    return b;
}

/* ---- what stages may change ----------------------------------------------------------------------------------- */

typedef struct observer {
    rc_learner *learner;
    bits before_inversion, after_inversion, after_training, after_refinement;
} observer;

static rc_status keep_bits(void *user, const rc_stage_report *report)
{
    observer *o = user;
    if (report->step != report->steps)
        return RC_OK;
    bits now = take_bits(o->learner);
    if (report->stage == RC_STAGE_INVERSION)
        o->after_inversion = now;
    else if (report->stage == RC_STAGE_TRAINING)
        o->after_training = now;
    else if (report->stage == RC_STAGE_REFINEMENT)
        o->after_refinement = now;
    else
        drop(now);
    return RC_OK;
}

/* METHODS 3.1, 7, 21: refinement trains the head alone, every backbone tensor and running statistic keeps its bits;
 * inversion leaves the whole student alone; main training changes both. */
static void refinement_changes_the_head_alone(void **state)
{
    (void)state;
    rc_settings s = small_settings();
    rc_learner l;
    create(&l, "cwd", &s);
    teach(&l, 0, 3, 16, &no_hooks);
    rc_learner_end_task(&l);
    observer o = {.learner = &l};
    rc_stage_hooks hooks = {.boundary = keep_bits, .user = &o, .interval = 1e9};
    begin(&l, 1, 2, 16);
    o.before_inversion = take_bits(&l);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL));
    assert_true(same_bits(o.before_inversion, o.after_inversion));
    size_t backbone = o.after_training.backbone * sizeof(float), d = (size_t)l.student.head.d;
    assert_memory_not_equal(o.after_inversion.value, o.after_training.value, backbone);
    assert_memory_equal(o.after_training.value, o.after_refinement.value, backbone);
    const float *head[2] = {o.after_training.value + o.after_training.backbone,
                            o.after_refinement.value + o.after_refinement.backbone};
    for (size_t row = 0; row < 5; row++) /* old rows and new ones */
        assert_memory_not_equal(head[0] + row * d, head[1] + row * d, d * sizeof(float));
    bits end = take_bits(&l); /* estimation reads only */
    assert_memory_equal(o.after_refinement.value, end.value, backbone);
    drop(end);
    drop(o.before_inversion);
    drop(o.after_inversion);
    drop(o.after_training);
    drop(o.after_refinement);
    rc_learner_destroy(&l);
}

/* METHODS 3, 21: in task 1 the last refine_epochs do nothing; a `paper` profile trains all epochs. */
static void last_epochs_of_the_first_task_do_nothing(void **state)
{
    (void)state;
    rc_settings with = small_settings(), without = small_settings(), paper = small_settings();
    without.epochs = with.epochs - with.refine_epochs;
    without.refine_epochs = 0;
    rc_settings_paper_profile(&paper);
    bits a = first_task(&with), b = first_task(&without), c = first_task(&paper);
    assert_true(same_bits(a, b));
    assert_false(same_bits(a, c));
    drop(a);
    drop(b);
    drop(c);
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
    SUCCEEDS(rc_evaluate(be, &e->learner->student, &e->learner->augment, &e->stream, &e->test, 5, &evaluation));
    rc_evaluation_destroy(&evaluation);
    e->looked++;
    return RC_OK;
}

/* METHODS 3.1 (D16), 21: however often the model is evaluated while it trains, the trained tensors are the same. */
static void evaluation_changes_no_tensor(void **state)
{
    (void)state;
    rc_settings s = small_settings();
    bits end[2];
    for (int often = 0; often < 2; often++) {
        rc_learner l;
        examiner e = {.learner = &l};
        create(&l, "cwd", &s);
        rc_task_split split = {.sizes = 2, .size = {3, 2}};
        SUCCEEDS(rc_task_stream_create(&e.stream, 5, NULL, &split));
        e.test.count = 25;
        e.test.images = draw_images(0, 5, 5, &e.test.labels);
        rc_stage_hooks hooks = {.boundary = examine, .user = &e, .interval = 0};
        teach(&l, 0, 3, 16, often ? &hooks : &no_hooks);
        rc_learner_end_task(&l);
        teach(&l, 1, 2, 16, often ? &hooks : &no_hooks);
        assert_true(often ? e.looked > 40 : e.looked == 0);
        end[often] = take_bits(&l);
        rc_learner_destroy(&l);
        rc_task_stream_destroy(&e.stream);
        rc_free(NULL, e.test.images);
        rc_free(NULL, e.test.labels);
    }
    assert_true(same_bits(end[0], end[1]));
    drop(end[0]);
    drop(end[1]);
}

/* ---- left and taken up again ---------------------------------------------------------------------------------- */

static char folder[] = "/tmp/recollect-test-XXXXXX";

typedef struct saver {
    rc_position at[MOST_STEPS];
    int saved;
} saver;

static void checkpoint_path(int number, char path[64])
{
    snprintf(path, 64, "%s/%d.safetensors", folder, number);
}

static rc_status save_each(void *user, const rc_stage_report *report)
{
    saver *s = user;
    char path[64];
    assert_in_range(s->saved, 0, MOST_STEPS - 1);
    rc_position position = {.task = report->task, .stage = report->stage, .step = report->step};
    if (report->stage == RC_STAGE_ESTIMATION)
        position.step = 0;
    checkpoint_path(s->saved, path);
    s->at[s->saved++] = position;
    return rc_checkpoint_save(path, be, report->state, &position, "me");
}

typedef struct resumer {
    rc_safetensors *file;
} resumer;

static rc_status restore(void *user, rc_state *state)
{
    resumer *r = user;
    return rc_checkpoint_restore(r->file, be, state);
}

/* DESIGN 3.12: a checkpoint after any step of any stage leads to the same bits. */
static void every_step_can_be_resumed(void **state)
{
    (void)state;
    rc_settings s = small_settings();
    rc_learner l;
    saver saves = {.saved = 0};
    rc_stage_hooks hooks = {.boundary = save_each, .user = &saves, .interval = 0};
    assert_non_null(mkdtemp(folder));
    create(&l, "cwd", &s);
    teach(&l, 0, 3, 8, &no_hooks);
    rc_learner_end_task(&l);
    teach(&l, 1, 2, 12, &hooks);
    bits end = take_bits(&l);
    rc_learner_destroy(&l);
    int stages[RC_STAGE_COUNT] = {0};
    for (int i = 0; i < saves.saved; i++) {
        char path[64];
        rc_position position;
        resumer r;
        checkpoint_path(i, path);
        if (i % 5 != 2 && getenv("RECOLLECT_TEST_LIGHT") != NULL) {
            unlink(path);
            continue;
        }
        SUCCEEDS(rc_checkpoint_open(path, "me", &position, &r.file));
        assert_true(position.stage == saves.at[i].stage && position.step == saves.at[i].step);
        stages[position.stage]++;
        rc_stage_hooks resuming = {.boundary = look_away, .restore = restore, .user = &r, .interval = 1e9};
        create(&l, "cwd", &s);
        teach(&l, 0, 3, 8, &no_hooks);
        rc_learner_end_task(&l);
        begin(&l, 1, 2, 12);
        SUCCEEDS(rc_run_stages(&l, position.stage, position.step, &resuming, NULL));
        bits again = take_bits(&l);
        if (!same_bits(end, again))
            fail_msg("resumed after step %u of %s, the task ends with other bits", position.step,
                     rc_stage_name(position.stage));
        drop(again);
        rc_learner_destroy(&l);
        rc_safetensors_close(r.file);
        unlink(path);
    }
    drop(end);
    rmdir(folder);
    if (getenv("RECOLLECT_TEST_LIGHT") != NULL)
        return;
    assert_int_equal(stages[RC_STAGE_INVERSION], 5);
    assert_int_equal(stages[RC_STAGE_TRAINING], 6);
    assert_int_equal(stages[RC_STAGE_REFINEMENT], 6);
    assert_true(stages[RC_STAGE_ESTIMATION] > 0);
}

/* DESIGN 3.10: what is not finite is not saved, and a task does not end with it. */
static void numbers_that_are_not_finite_stop_a_task(void **state)
{
    (void)state;
    char path[] = "/tmp/recollect-test-checkpoint-XXXXXX";
    rc_settings s = small_settings();
    rc_learner l;
    const float bad[2] = {1, NAN};
    rc_position position = {.task = 0, .stage = RC_STAGE_TRAINING, .step = 3}, found;
    rc_safetensors *file;
    close(mkstemp(path));
    create(&l, "cwd", &s);
    begin(&l, 0, 3, 8);
    SUCCEEDS(rc_checkpoint_save(path, be, &l.state, &position, "me"));
    be->write_real(be, rc_real_at(be, l.student.head.weight, 4097 % 30), bad, 2);
    position.step = 4;
    assert_int_equal(rc_checkpoint_save(path, be, &l.state, &position, "me"), RC_NUMERIC);
    assert_non_null(strstr(rc_message(), "student.head is nan"));
    SUCCEEDS(rc_checkpoint_open(path, "me", &found, &file));
    assert_int_equal(found.step, 3); /* the last good one */
    rc_safetensors_close(file);
    assert_int_equal(rc_run_stages(&l, RC_STAGE_ESTIMATION, 0, &no_hooks, NULL), RC_NUMERIC);
    assert_int_equal(rc_run_stages(&l, RC_STAGE_TRAINING, 0, &no_hooks, NULL), RC_NUMERIC);
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
    rc_settings s = small_settings();
    s.epochs = 12;
    s.milestones = 0;
    for (int n_new = 1; n_new <= 2; n_new++) {
        rc_learner l;
        recorder r = {.reports = {0}};
        rc_stage_hooks hooks = {.boundary = record, .user = &r, .interval = 0};
        create(&l, "rdfcil", &s);
        teach(&l, 0, 3, 16, &no_hooks);
        rc_learner_end_task(&l);
        teach(&l, 1, n_new, 24, &hooks);
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
    rc_settings s = small_settings();
    rc_learner l;
    create(&l, "cwd", &s);
    for (int task = 0; task < 3; task++) { /* 1, then 1, then 2 classes */
        recorder r = {.reports = {0}};
        rc_stage_hooks hooks = {.boundary = record, .user = &r, .interval = 0};
        teach(&l, task, task < 2 ? 1 : 2, 5, &hooks); /* fewer images than a batch */
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

/* Steps of a stage: max(1, n / B) batches an epoch, max(1, n_old / n_new) batches of dreams for each in estimation. */
static void stages_have_the_steps_of_the_protocol(void **state)
{
    (void)state;
    const rc_method *cwd, *finetune;
    SUCCEEDS(rc_method_find("cwd", &cwd));
    SUCCEEDS(rc_method_find("finetune", &finetune));
    rc_settings s = small_settings();
    const struct {
        int n_old, n_new, batches, min_steps;
        uint32_t inversion, training, refinement, estimation;
    } rows[] = {
        {0, 3, 6, 0, 0, 12, 0, 6},    {20, 20, 10, 0, 5, 20, 20, 20}, {80, 20, 10, 0, 5, 20, 20, 50},
        {79, 20, 10, 0, 5, 20, 20, 40}, {2, 8, 3, 0, 5, 6, 6, 6},       {1, 1, 1, 0, 5, 2, 2, 2},
        {3, 1, 1, 7, 5, 7, 7, 4},     {3, 1, 2, 7, 5, 8, 8, 8},       {0, 3, 6, 100, 0, 102, 0, 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rc_learner l = {.settings = s, .method = cwd, .n_old = rows[i].n_old, .n_new = rows[i].n_new,
                        .batches = rows[i].batches};
        rc_learner_set_sources(&l, l.n_old);
        l.settings.min_steps = rows[i].min_steps;
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_INVERSION), rows[i].inversion);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_TRAINING), rows[i].training);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_REFINEMENT), rows[i].refinement);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_ESTIMATION), rows[i].estimation);
        l.method = finetune;
        rc_learner_set_sources(&l, l.n_old);
        assert_int_equal(rc_stage_steps(&l, RC_STAGE_REFINEMENT) + rc_stage_steps(&l, RC_STAGE_ESTIMATION), 0);
    }
}

/* Old classes get a mean from dreams, if they are dreamt of; every new one has its own; and statistics that a task has
 * outdated are not kept. */
static void statistics_are_of_the_model_they_are_stored_with(void **state)
{
    (void)state;
    rc_settings s = small_settings();
    const rc_method *finetune;
    rc_learner l;
    SUCCEEDS(rc_method_find("finetune", &finetune));
    create(&l, "cwd", &s);
    teach(&l, 0, 2, 16, &no_hooks);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 2);
    teach(&l, 1, 3, 16, &no_hooks); /* more new classes than old: dreams are drawn all the same */
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 5);
    size_t d = (size_t)l.student.head.d;
    float *mean = rc_alloc_zeroed(NULL, 5 * d, sizeof *mean);
    be->read_real(be, mean, l.class_mean, 5 * d);
    assert_true(isfinite(mean[0]) || isfinite(mean[d])); /* one of the old ones, at least, was dreamt of */
    for (size_t k = 2; k < 5; k++)
        assert_true(isfinite(mean[k * d]));
    rc_free(NULL, mean);
    SUCCEEDS(rc_learner_set_method(&l, finetune));
    teach(&l, 2, 1, 16, &no_hooks);
    rc_learner_end_task(&l);
    assert_int_equal(l.statistics_classes, 0);
    assert_null(l.class_mean);
    rc_learner_destroy(&l);
}

/* Times belong to the stage that takes them, whenever the hook looks. */
static void wall_times_add_up(void **state)
{
    (void)state;
    rc_settings s = small_settings();
    rc_learner l;
    double wall[RC_STAGE_COUNT] = {0, 0, 0, 1000};
    create(&l, "cwd", &s);
    begin(&l, 0, 3, 8);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &no_hooks, wall));
    assert_true(wall[RC_STAGE_INVERSION] == 0 && wall[RC_STAGE_TRAINING] > 0 && wall[RC_STAGE_REFINEMENT] == 0);
    assert_true(wall[RC_STAGE_ESTIMATION] > 1000 && wall[RC_STAGE_ESTIMATION] < 1100);
    rc_learner_end_task(&l);
    begin(&l, 1, 2, 8);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &no_hooks, wall));
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
        cmocka_unit_test(stages_have_the_steps_of_the_protocol),
        cmocka_unit_test(statistics_are_of_the_model_they_are_stored_with),
        cmocka_unit_test(wall_times_add_up),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
