/* Whole steps of the rows of the method table against PyTorch in float64 (tests/oracle/rows.py), each written there as
 * its source has it: labels, every loss that the row names, every gradient, running statistics, the update, and a step
 * of refinement where a loss takes the place of HKD. The case of cwd+ has all that settings add: to the method, and to
 * new images and their labels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cil/sources.h"
#include "cil/stage.h"
#include "support/oracle_step.h"

enum { DRAWN = 16 }; /* features of every class */

typedef struct session {
    subject *s;
    rc_net classifier_net, generator_net;
    rc_classifier student, teacher;
    rc_model generator;
    rc_resident_data data;
    rc_training *training;
    rc_training_view view;
    double *head; /* what it begins with */
    size_t head_count;
} session;

static const rc_method *method_of(const oracle_case *c)
{
    const rc_method *m;
    for (int i = 0; (m = rc_method_at(i)) != NULL; i++)
        if (oracle_is(c, "row", m->name))
            return m;
    fail_msg("%s names no row", c->name);
    return NULL;
}

/* Is the loss part of the case, in main training ("loss/") or in refinement ("refine/")? */
static bool has_loss(const oracle_case *c, const char *prefix, int loss)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s", prefix, rc_loss_key(loss));
    return oracle_has(c, name);
}

/* What add_plus of the stage adds, and what happens to new images. */
static void add_all(const oracle_case *c, rc_training_settings *settings)
{
    settings->losses.kd_real = settings->losses.kd_replay = RC_KD_OLD;
    settings->losses.replay = RC_CE_OLD;
    settings->losses.feature = true;
    settings->drawn = DRAWN * (settings->n_old + oracle_int(c, "n_new"));
    settings->trivial = settings->turns = true;
    settings->smoothing = (float)oracle_number(c, "smoothing");
    settings->mix = (rc_mix){.cutout = oracle_int(c, "cutout"),
                             .mixup = (float)oracle_number(c, "mixup"),
                             .cutmix = (float)oracle_number(c, "cutmix"),
                             .stream = RC_STREAM_MIX};
}

/* The settings of these weights. */
static void set_all(const oracle_case *c, rc_learner *l)
{
    double plus = log2(l->n_new / 2.0 + 1) * sqrt((double)l->n_old / l->n_new);
    l->settings.plus_kd_new = oracle_number(c, "kd") / plus;
    l->settings.plus_kd_dreams = oracle_number(c, "kd_replay") / plus;
    l->settings.plus_ce_dreams = oracle_number(c, "replay") / plus;
    l->settings.plus_feature = oracle_number(c, "feature") / plus;
    l->settings.plus_drawn = oracle_number(c, "drawn");
    l->has.teacher = true; /* and statistics to draw from */
    l->statistics_classes = l->n_old;
    l->batches = 1;
}

static void begin_session(session *t)
{
    subject *s = t->s;
    const oracle_case *c = s->c;
    const rc_method *m = method_of(c);
    int n_old = oracle_int(c, "n_old"), first = oracle_int(c, "first_task");
    oracle_step_nets(s, &t->classifier_net, &t->generator_net);
    oracle_step_classifier(s, &t->student, &t->classifier_net, "student/", n_old, oracle_int(c, "n_new"));
    oracle_step_classifier(s, &t->teacher, &t->classifier_net, "teacher/", first, n_old - first);
    subject_must(s, rc_model_create(&t->generator, &t->generator_net, s->be));
    oracle_net_fill(s, &t->generator, "generator/");
    t->data = oracle_step_data(s);
    bool strong = oracle_int(c, "strong") != 0;
    rc_training_settings settings = {
        .batch = oracle_int(c, "batch"),
        .n_old = n_old,
        .losses = m->main,
        .kd_temperature = 2,
        .sgd = {(float)oracle_number(c, "momentum"), (float)oracle_number(c, "weight_decay")},
        .seed = c->seed,
        .task = (uint32_t)oracle_int(c, "task")};
    if (strong)
        add_all(c, &settings);
    rc_replay *replay = NULL;
    if (m->replay != &rc_source_none) /* dreams, whatever else the row would replay */
        subject_must(s, rc_replay_dreams_create(s->be, &t->generator, 1, settings.batch, RC_STREAM_DREAMS, &replay));
    subject_must(s, rc_training_create(s->be, &settings, &t->student, &t->teacher, replay, &t->data, &t->training));
    t->view = rc_training_look(t->training);
    if (m->main.rkd)
        oracle_step_projections(s, t->student.head.d, t->view.projection);
    t->head_count = (size_t)t->student.head.classes * (size_t)t->student.head.d;
    t->head = oracle_step_copy(s, t->student.head.weight, t->head_count);
    rc_step *control = rc_training_control(t->training);
    control->learning_rate = (float)oracle_number(c, "lr");
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        control->weight[i] = has_loss(c, "loss/", i) ? (float)oracle_number(c, rc_loss_key(i)) : 0;
    rc_training_send(t->training);
}

/* The weights that the stage gives to the row's losses are those of the fixture. */
static void expect_weights(session *t, rc_stage stage, const char *prefix)
{
    const oracle_case *c = t->s->c;
    rc_learner l = {.settings = rc_settings_default(),
                    .method = method_of(c),
                    .n_old = oracle_int(c, "n_old"),
                    .n_new = oracle_int(c, "n_new"),
                    .student = {.head = {.tasks = 3}}};
    l.has.replay = rc_method_replays(l.method, l.n_old);
    l.student.head.classes = l.n_old + l.n_new;
    if (oracle_int(c, "strong"))
        set_all(c, &l);
    float weight[RC_LOSS_COUNT];
    bool active[RC_LOSS_COUNT];
    rc_stage_weights(&l, stage, weight, active);
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        if (i == RC_LOSS_RECONSTRUCTION || i == RC_LOSS_LATENT) /* of DGR's autoencoder, which is apart */
            continue;
        bool has = has_loss(c, prefix, i);
        assert_int_equal(active[i], has);
        float wanted = has ? rc_training_control(t->training)->weight[i] : 0;
        assert_true(fabsf(weight[i] - wanted) <=
                    (oracle_int(c, "strong") ? 1e-6f : 0)); /* there, by way of a quotient */
    }
}

/* After the first step: the gradients are still there, and so is the batch. */
static void expect_first_step(session *t)
{
    subject *s = t->s;
    const rc_training_view *view = &t->view;
    size_t rows = (size_t)view->input->n;
    oracle_step_expect_integers(s, "labels", view->labels, rows);
    if (!oracle_int(s->c, "strong"))
        subject_expect(s, "logits", view->logits, rows * (size_t)t->student.head.classes);
    else
        subject_expect(s, "turned/gradient", view->turned_gradient,
                       3 * (size_t)oracle_int(s->c, "n_new") * (size_t)t->student.head.d);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (has_loss(s->c, "loss/", i)) {
            char name[32];
            snprintf(name, sizeof name, "loss/%s", rc_loss_key(i));
            oracle_step_expect_loss(s, name, view->loss, (rc_loss)i, s->tolerance);
        }
    oracle_net_expect(s, &t->classifier_net, "student/gradient/", view->backbone_gradient, false, s->tolerance);
    subject_expect(s, "head/gradient", view->head_gradient, t->head_count);
}

static void draw(session *t)
{
    subject *s = t->s;
    int classes = t->student.head.classes, rows = DRAWN * classes;
    size_t count = (size_t)rows * (size_t)t->student.head.d;
    double *values = oracle_fill(s->c, "drawn", count, 1, 0);
    float *features = malloc(count * sizeof *features);
    int32_t *labels = malloc((size_t)rows * sizeof *labels);
    assert_true(features != NULL && labels != NULL);
    for (size_t i = 0; i < count; i++)
        features[i] = (float)values[i];
    for (int i = 0; i < rows; i++)
        labels[i] = i % classes;
    rc_training_give_drawn(t->training, features, labels);
    rc_training_control(t->training)->weight[RC_LOSS_DRAWN] = (float)oracle_number(s->c, "drawn");
    free(values);
    free(features);
    free(labels);
}

/* One step of refinement. */
static void refine(session *t)
{
    subject *s = t->s;
    rc_step *control = rc_training_control(t->training);
    s->be->read_real64(s->be, t->head, t->student.head.weight, t->head_count);
    rc_training_begin_epoch(t->training);
    subject_must(s, rc_training_begin_refinement(t->training));
    control->step = control->batch = (uint32_t)oracle_int(s->c, "steps") - 1;
    control->learning_rate = (float)oracle_number(s->c, "refine_lr");
    control->weight[RC_LOSS_CE] = (float)oracle_number(s->c, "refine_ce");
    if (oracle_int(s->c, "strong"))
        draw(t);
    expect_weights(t, RC_STAGE_REFINEMENT, "refine/");
    rc_training_send(t->training);
    subject_must(s, s->be->repeat(s->be, rc_training_refinement_step, t->training, 1));
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "refine/%s", rc_loss_key(i));
        if (oracle_has(s->c, name))
            oracle_step_expect_loss(s, name, t->view.loss, (rc_loss)i, oracle_net_moved(s));
    }
    oracle_step_expect_moved(s, "refine/moved", t->student.head.weight, t->head, t->head_count);
}

/* Two updates are one with the momentum 1 - (1 - 0.1)^2, a float on every backend. */
static double running_tolerance(const subject *s)
{
    bool rounded = method_of(s->c)->main.head_ce && s->be->real_bytes == sizeof(double);
    return rounded ? 1e-7 : oracle_net_moved(s);
}

static void run_row(subject *s)
{
    session t = {.s = s};
    begin_session(&t);
    expect_weights(&t, RC_STAGE_TRAINING, "loss/");
    for (int step = 0; step < oracle_int(s->c, "steps"); step++) {
        subject_must(s, s->be->repeat(s->be, rc_training_step, t.training, 1)); /* where it can, captured */
        if (step == 0)
            expect_first_step(&t);
        oracle_step_expect_total(s, rc_training_control(t.training), t.view.loss, step);
    }
    oracle_net_expect_moved(s, &t.student.backbone, "student/");
    oracle_net_expect(s, &t.classifier_net, "student/running/", t.student.backbone.running, true, running_tolerance(s));
    oracle_step_expect_moved(s, "head/moved", t.student.head.weight, t.head, t.head_count);
    if (oracle_int(s->c, "refined"))
        refine(&t);
    rc_training_destroy(t.training);
    rc_model_destroy(&t.generator);
    rc_classifier_destroy(&t.student);
    rc_classifier_destroy(&t.teacher);
    free(t.head);
}

static void rows(void **state)
{
    (void)state;
    oracle *file = oracle_open("rows.txt");
    subject_run(file, "row/", oracle_net_tolerance, run_row);
    oracle_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
