/* Whole steps of inversion, training and refinement against PyTorch in float64 (tests/oracle/steps.py): batches, every
 * loss, every gradient, and the parameters after the updates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cil/sources.h"
#include "cil/step_inversion.h"
#include "nn/losses.h"
#include "support/oracle_step.h"

/* ---- training ------------------------------------------------------------------------------------------------- */

typedef struct session {
    subject *s;
    rc_net classifier_net, generator_net;
    rc_classifier student, teacher;
    rc_model generator;
    rc_resident_data data;
    rc_training *training;
    rc_training_view view;
    double *projection, *head; /* what they begin with */
    size_t projection_count, head_count;
} session;

static void begin_session(session *t, subject *s)
{
    const oracle_case *c = s->c;
    int n_old = oracle_int(c, "n_old"), n_new = oracle_int(c, "n_new");
    t->s = s;
    oracle_step_nets(s, &t->classifier_net, &t->generator_net);
    oracle_step_classifier(s, &t->student, &t->classifier_net, "student/", n_old, n_new);
    oracle_step_classifier(s, &t->teacher, &t->classifier_net, "teacher/", n_old, 0);
    subject_must(s, rc_model_create(&t->generator, &t->generator_net, s->be));
    oracle_net_fill(s, &t->generator, "generator/");
    t->data = oracle_step_data(s);
    rc_training_settings settings = {
        .batch = oracle_int(c, "batch"),
        .n_old = n_old,
        .losses = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
        .sgd = {(float)oracle_number(c, "momentum"), (float)oracle_number(c, "weight_decay")},
        .seed = c->seed,
        .task = (uint32_t)oracle_int(c, "task")};
    rc_replay *replay;
    subject_must(s, rc_replay_dreams_create(s->be, &t->generator, 1, settings.batch, RC_STREAM_DREAMS, &replay));
    subject_must(s, rc_training_create(s->be, &settings, &t->student, &t->teacher, replay, &t->data, &t->training));
    t->view = rc_training_look(t->training);
    oracle_step_projections(s, t->student.head.d, t->view.projection);
    for (int i = 0; i < 4; i++)
        t->projection_count += oracle_step_projection_count(t->student.head.d, i);
    t->projection = oracle_step_copy(s, t->view.projection, t->projection_count);
    t->head_count = (size_t)(n_old + n_new) * (size_t)t->student.head.d;
    t->head = oracle_step_copy(s, t->student.head.weight, t->head_count);
    rc_step *control = rc_training_control(t->training);
    control->learning_rate = (float)oracle_number(c, "lr");
    rc_loss_scale scale = rc_adaptive_loss_scale(n_old, n_new);
    assert_true((float)(0.5 * scale.cross_entropy) == (float)oracle_number(c, "ce"));
    assert_true((float)(0.15 * scale.distillation) == (float)oracle_number(c, "hkd"));
    assert_true((float)(0.5 * scale.distillation) == (float)oracle_number(c, "rkd"));
    control->weight[RC_LOSS_CE] = (float)oracle_number(c, "ce");
    control->weight[RC_LOSS_HKD] = (float)oracle_number(c, "hkd");
    control->weight[RC_LOSS_RKD] = (float)oracle_number(c, "rkd");
    control->weight[RC_LOSS_WAR] = (float)oracle_number(c, "war");
    rc_training_send(t->training);
}

static void end_session(session *t)
{
    rc_training_destroy(t->training);
    rc_model_destroy(&t->generator);
    rc_classifier_destroy(&t->student);
    rc_classifier_destroy(&t->teacher);
    free(t->projection);
    free(t->head);
}

/* After the first step: the gradients are still there, and so is the batch. */
static void expect_first_step(session *t)
{
    subject *s = t->s;
    const rc_training_view *view = &t->view;
    int batch = oracle_int(s->c, "batch"), n_old = oracle_int(s->c, "n_old"), d = t->student.head.d;
    size_t rows = 2 * (size_t)batch, classes = (size_t)t->student.head.classes;
    rc_tensor dreams = *view->input;
    dreams.n = batch;
    size_t half = rc_act_count(s->be, batch, dreams.h, dreams.w, dreams.c);
    subject_expect_map(s, "dreams", &dreams, rc_act_at(s->be, view->input->raw, half));
    oracle_step_expect_integers(s, "labels", view->labels, rows);
    subject_expect(s, "features", view->features, rows * (size_t)d);
    subject_expect(s, "logits", view->logits, rows * classes);
    size_t targets = (size_t)batch * (size_t)n_old;
    subject_expect(s, "teacher_logits", rc_real_at(s->be, view->teacher_logits, targets), targets);
    oracle_step_expect_loss(s, "loss/ce", view->loss, RC_LOSS_CE, s->tolerance);
    oracle_step_expect_loss(s, "loss/hkd", view->loss, RC_LOSS_HKD, s->tolerance);
    oracle_step_expect_loss(s, "loss/rkd", view->loss, RC_LOSS_RKD, s->tolerance);
    oracle_step_expect_loss(s, "loss/war", view->loss, RC_LOSS_WAR, s->tolerance);
    oracle_net_expect(s, &t->classifier_net, "student/gradient/", view->backbone_gradient, false, s->tolerance);
    subject_expect(s, "head/gradient", view->head_gradient, t->head_count);
    size_t half_projection = t->projection_count / 2;
    subject_expect(s, "projection/gradient/student.weight", view->projection_gradient,
                   oracle_step_projection_count(d, 0));
    subject_expect(s, "projection/gradient/teacher.weight",
                   rc_real_at(s->be, view->projection_gradient, half_projection), oracle_step_projection_count(d, 2));
}

/* A bias that weight decay alone moves: by 1e-5 of its size each step, of which a float rounds off 6e-8. */
static void expect_decayed(subject *s, const char *name, const void *reals, size_t count)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    s->be->read_real64(s->be, values, reals, count);
    oracle_expect(s->c, s->be->about.name, name, values, count, s->be->real_bytes == sizeof(double) ? 1e-12 : 1e-6);
    free(values);
}

static void expect_trained(session *t)
{
    subject *s = t->s;
    size_t at = 0;
    oracle_net_expect_moved(s, &t->student.backbone, "student/");
    oracle_net_expect(s, &t->classifier_net, "student/running/", t->student.backbone.running, true,
                      oracle_int(s->c, "steps") == 1 ? s->tolerance : oracle_net_moved(s));
    oracle_step_expect_moved(s, "head/moved", t->student.head.weight, t->head, t->head_count);
    for (int i = 0; i < 4; at += oracle_step_projection_count(t->student.head.d, i++)) {
        char name[64];
        const void *part = rc_real_at(s->be, t->view.projection, at);
        size_t count = oracle_step_projection_count(t->student.head.d, i);
        if (i % 2 == 0) {
            snprintf(name, sizeof name, "projection/moved/%s", oracle_step_projection[i]);
            oracle_step_expect_moved(s, name, part, t->projection + at, count);
        } else {
            snprintf(name, sizeof name, "projection/after/%s", oracle_step_projection[i]);
            expect_decayed(s, name, part, count);
        }
    }
    oracle_step_expect_integers(s, "counts", t->view.label_count, (size_t)t->student.head.classes);
}

/* The backbone, running statistics included, and the projections must not move by a bit. */
static void refine(session *t)
{
    subject *s = t->s;
    rc_backend *be = s->be;
    const rc_model *backbone = &t->student.backbone;
    const void *frozen[3] = {backbone->param, backbone->running, t->view.projection};
    const size_t bytes[3] = {backbone->net->params * be->real_bytes, backbone->net->running * be->real_bytes,
                             t->projection_count * be->real_bytes};
    char *before[3], *after[3];
    for (int i = 0; i < 3; i++) {
        before[i] = malloc(bytes[i]);
        after[i] = malloc(bytes[i]);
        assert_non_null(before[i]);
        assert_non_null(after[i]);
        be->read_bytes(be, before[i], frozen[i], bytes[i]);
    }
    be->read_real64(be, t->head, t->student.head.weight, t->head_count);
    rc_training_begin_epoch(t->training);
    subject_must(s, rc_training_begin_refinement(t->training));
    int first = oracle_int(s->c, "steps"), steps = oracle_int(s->c, "refine_steps");
    rc_step *control = rc_training_control(t->training);
    control->step = control->batch = (uint32_t)(first - 1);
    control->learning_rate = (float)oracle_number(s->c, "refine_lr");
    control->weight[RC_LOSS_CE] = (float)oracle_number(s->c, "refine_ce");
    rc_training_send(t->training);
    for (int step = first; step < first + steps; step++) {
        static const struct {
            const char *name;
            rc_loss index;
        } losses[3] = {{"ce", RC_LOSS_CE}, {"hkd", RC_LOSS_HKD}, {"war", RC_LOSS_WAR}};
        rc_training_refinement_step(t->training);
        for (int i = 0; i < 3; i++) {
            char name[32];
            snprintf(name, sizeof name, "refine/%s-%d", losses[i].name, step);
            oracle_step_expect_loss(s, name, t->view.loss, losses[i].index, oracle_net_moved(s));
        }
    }
    oracle_step_expect_moved(s, "refine/moved", t->student.head.weight, t->head, t->head_count);
    oracle_step_expect_integers(s, "refine/counts", t->view.label_count, (size_t)t->student.head.classes);
    for (int i = 0; i < 3; i++) {
        be->read_bytes(be, after[i], frozen[i], bytes[i]);
        assert_memory_equal(before[i], after[i], bytes[i]);
        free(before[i]);
        free(after[i]);
    }
}

static void run_training(subject *s)
{
    session t = {.s = s};
    begin_session(&t, s);
    for (int step = 0; step < oracle_int(s->c, "steps"); step++) {
        rc_training_step(t.training);
        if (step == 0)
            expect_first_step(&t);
        oracle_step_expect_total(s, rc_training_control(t.training), t.view.loss, step);
    }
    expect_trained(&t);
    if (oracle_int(s->c, "refine_steps") > 0)
        refine(&t);
    end_session(&t);
}

static void training(void **state)
{
    (void)state;
    oracle_net_run("training/", run_training);
}

/* ---- inversion ------------------------------------------------------------------------------------------------ */

static rc_inversion_settings inversion_settings(subject *s, int d)
{
    const oracle_case *c = s->c;
    int classes = oracle_int(c, "classes");
    size_t width = (size_t)d;
    double *covariance = oracle_fill(c, "covariance", width * width, 0.25, 0);
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < i; j++)
            covariance[i * width + j] = covariance[j * width + i];
    rc_inversion_settings settings = {
        .batch = oracle_int(c, "batch"),
        .temperature = (float)oracle_number(c, "temperature"),
        .diversity_epsilon = (float)oracle_number(c, "epsilon"),
        .bn_form = RC_BN_KL,
        .prior = oracle_number(c, "prior") > 0,
        .consistency = true,
        .dce_momentum = (float)oracle_number(c, "dce_momentum"),
        .class_mean = subject_input(s, "class_mean", (size_t)classes * width, 1, 0),
        .covariance = subject_reals(s, covariance, width * width),
        .adam = {(float)oracle_number(c, "beta1"), (float)oracle_number(c, "beta2"), (float)oracle_number(c, "eps")},
        .seed = c->seed,
        .task = (uint32_t)oracle_int(c, "task"),
    };
    free(covariance);
    return settings;
}

static void expect_first_inversion(subject *s, rc_inversion *inversion, const rc_net *generator, int d)
{
    rc_inversion_view view = rc_inversion_look(inversion);
    size_t batch = (size_t)oracle_int(s->c, "batch"), classes = (size_t)oracle_int(s->c, "classes");
    assert_true(view.images->stored);
    subject_expect_map(s, "images", view.images, view.images->value);
    subject_expect(s, "features", view.features, batch * (size_t)d);
    subject_expect(s, "logits", view.logits, batch * classes);
    oracle_step_expect_integers(s, "labels", view.labels, batch);
    oracle_step_expect_loss(s, "loss/content", view.loss, RC_LOSS_CONTENT, s->tolerance);
    oracle_step_expect_loss(s, "loss/diversity", view.loss, RC_LOSS_DIVERSITY, s->tolerance);
    oracle_step_expect_loss(s, "loss/bn", view.loss, RC_LOSS_BN, s->tolerance);
    oracle_step_expect_loss(s, "loss/dce", view.loss, RC_LOSS_DCE, s->tolerance);
    if (oracle_number(s->c, "prior") > 0)
        oracle_step_expect_loss(s, "loss/prior", view.loss, RC_LOSS_PRIOR, s->tolerance);
    oracle_net_expect(s, generator, "generator/gradient/", view.generator_gradient, false, s->tolerance);
}

static void run_inversion(subject *s)
{
    const oracle_case *c = s->c;
    rc_net classifier_net, generator_net;
    rc_classifier classifier;
    rc_model generator;
    rc_inversion *inversion;
    oracle_step_nets(s, &classifier_net, &generator_net);
    oracle_step_classifier(s, &classifier, &classifier_net, "classifier/", oracle_int(c, "classes"), 0);
    subject_must(s, rc_model_create(&generator, &generator_net, s->be));
    oracle_net_fill(s, &generator, "generator/");
    rc_inversion_settings settings = inversion_settings(s, classifier.head.d);
    subject_must(s, rc_inversion_create(s->be, &settings, &classifier, &generator, &inversion));
    rc_step *control = rc_inversion_control(inversion);
    control->learning_rate = (float)oracle_number(c, "lr");
    control->weight[RC_LOSS_CONTENT] = (float)oracle_number(c, "content");
    control->weight[RC_LOSS_DIVERSITY] = (float)oracle_number(c, "diversity");
    control->weight[RC_LOSS_BN] = (float)oracle_number(c, "bn");
    control->weight[RC_LOSS_PRIOR] = (float)oracle_number(c, "prior");
    control->weight[RC_LOSS_DCE] = (float)oracle_number(c, "dce");
    rc_inversion_send(inversion);
    for (int step = 0; step < oracle_int(c, "steps"); step++) {
        rc_inversion_step(inversion);
        if (step == 0)
            expect_first_inversion(s, inversion, &generator_net, classifier.head.d);
        oracle_step_expect_total(s, control, rc_inversion_look(inversion).loss, step);
    }
    oracle_net_expect_moved(s, &generator, "generator/");
    oracle_net_expect(s, &generator_net, "generator/running/", generator.running, true,
                      oracle_int(c, "steps") == 1 ? s->tolerance : oracle_net_moved(s));
    rc_inversion_destroy(inversion);
    rc_model_destroy(&generator);
    rc_classifier_destroy(&classifier);
}

static void inversion(void **state)
{
    (void)state;
    oracle_net_run("inversion/", run_inversion);
}

int main(void)
{
    oracle_net_open("steps.txt");
    const struct CMUnitTest tests[] = {cmocka_unit_test(training), cmocka_unit_test(inversion)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    oracle_net_close();
    return failed;
}
