#include "support/oracle_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cil/evaluation.h"
#include "support/learning.h"
#include "support/subject.h"

enum { TASKS = 3 };

typedef struct session {
    subject *s;
    rc_learner l;
    int n_new[TASKS], count[TASKS], all; /* images */
    uint8_t *images;                     /* of all tasks */
    int32_t *labels;
} session;

/* As PyTorch's side has it: a setting is a float. */
static double number(const subject *s, const char *name)
{
    return (double)(float)oracle_number(s->c, name);
}

static rc_settings settings_of(const subject *s)
{
    const oracle_case *c = s->c;
    rc_settings r = rc_settings_default();
    snprintf(r.net, sizeof r.net, "resnet-small");
    snprintf(r.generator, sizeof r.generator, "generator-small");
    r.net_blocks = 1;
    r.milestones = 2;
    r.seed = c->seed;
    const struct {
        const char *name;
        int *value;
    } integers[] = {
        {"width", &r.net_width},
        {"generator_width", &r.generator_width},
        {"noise", &r.noise},
        {"vae_width", &r.vae_width},
        {"batch", &r.batch},
        {"crop_pad", &r.crop_pad},
        {"epochs", &r.epochs},
        {"refine_epochs", &r.refine_epochs},
        {"min_steps", &r.min_steps},
        {"milestone_0", &r.milestone[0]},
        {"milestone_1", &r.milestone[1]},
        {"buffer_size", &r.buffer_size},
        {"inversion_steps", &r.inversion_steps},
        {"pixel_batches", &r.pixel_batches},
        {"pixel_steps", &r.pixel_steps},
        {"pixel_jitter", &r.pixel_jitter},
    };
    const struct {
        const char *name;
        double *value;
    } reals[] = {
        {"learning_rate", &r.learning_rate},
        {"decay", &r.decay},
        {"refine_rate", &r.refine_rate},
        {"momentum", &r.momentum},
        {"weight_decay", &r.weight_decay},
        {"lambda_ce", &r.lambda_ce},
        {"lambda_hkd", &r.lambda_hkd},
        {"lambda_rkd", &r.lambda_rkd},
        {"lambda_war", &r.lambda_war},
        {"kd_temperature", &r.kd_temperature},
        {"kd_weight", &r.kd_weight},
        {"feature_weight", &r.feature_weight},
        {"lode_rho", &r.lode_rho},
        {"inversion_rate", &r.inversion_rate},
        {"temperature", &r.temperature},
        {"weight_content", &r.weight_content},
        {"weight_diversity", &r.weight_diversity},
        {"weight_bn", &r.weight_bn},
        {"weight_prior", &r.weight_prior},
        {"lambda_dce", &r.lambda_dce},
        {"dce_momentum", &r.dce_momentum},
        {"diversity_epsilon", &r.diversity_epsilon},
        {"pixel_rate", &r.pixel_rate},
        {"pixel_bn", &r.pixel_bn},
        {"pixel_variation", &r.pixel_variation},
        {"pixel_norm", &r.pixel_norm},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        *integers[i].value = oracle_int(c, integers[i].name);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        *reals[i].value = number(s, reals[i].name);
    if (oracle_int(c, "paper"))
        rc_settings_paper_profile(&r);
    return r;
}

static const rc_method *method_of(const oracle_case *c)
{
    const rc_method *m;
    for (int i = 0; (m = rc_method_at(i)) != NULL; i++)
        if (oracle_is(c, "row", m->name))
            return m;
    fail_msg("%s names no row", c->name);
    return NULL;
}

/* Noise over a colour that the class has. */
static void make_images(session *t)
{
    const oracle_case *c = t->s->c;
    static const char *const key[TASKS] = {"first", "second", "third"};
    int per_class = oracle_int(c, "per_class"), at = 0, known = 0;
    size_t pixels = (size_t)oracle_int(c, "size") * (size_t)oracle_int(c, "size"), bytes = pixels * 3;
    uint32_t *colours = oracle_bits(c, "colours", 3 * 64);
    for (int task = 0; task < TASKS; task++) {
        t->n_new[task] = oracle_int(c, key[task]);
        t->count[task] = t->n_new[task] * per_class;
        t->all += t->count[task];
    }
    t->images = malloc((size_t)t->all * bytes);
    t->labels = malloc((size_t)t->all * sizeof *t->labels);
    assert_true(t->images != NULL && t->labels != NULL);
    for (int task = 0; task < TASKS; known += t->n_new[task++]) {
        char name[32];
        snprintf(name, sizeof name, "images-%d", task);
        uint32_t *bits = oracle_bits(c, name, (size_t)t->count[task] * bytes);
        for (int i = 0; i < t->count[task]; i++, at++) {
            t->labels[at] = known + i % t->n_new[task];
            for (size_t k = 0; k < bytes; k++)
                t->images[(size_t)at * bytes + k] = (uint8_t)((bits[(size_t)i * bytes + k] >> 25) +
                                                              (colours[3 * t->labels[at] + (int)(k % 3)] >> 25));
        }
        free(bits);
    }
    free(colours);
}

static void create(session *t)
{
    subject *s = t->s;
    rc_augment image = {.h = oracle_int(s->c, "size"), .w = oracle_int(s->c, "size"), .c = oracle_int(s->c, "c")};
    double *mean = oracle_fill(s->c, "mean", 3, 0.25, 0.5), *std = oracle_fill(s->c, "std", 3, 0.125, 0.25);
    for (int i = 0; i < 3; i++) {
        image.mean[i] = (float)mean[i];
        image.std[i] = (float)std[i];
    }
    free(mean);
    free(std);
    rc_settings settings = settings_of(s);
    subject_must(s, rc_learner_create(&t->l, s->be, &settings, method_of(s->c), &image));
}

/* ---- what a task leaves --------------------------------------------------------------------------------------- */

static void expect_in(session *t, int task, const char *what, double *values, size_t count)
{
    char name[64];
    snprintf(name, sizeof name, "task-%d/%s", task, what);
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i]))
            values[i] = -7; /* a class without a mean */
    subject_expect_double(t->s, name, values, count);
}

static void expect_reals(session *t, int task, const char *what, const void *memory, size_t count)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    t->s->be->read_real64(t->s->be, values, memory, count);
    expect_in(t, task, what, values, count);
    free(values);
}

/* Parameters, or running statistics, in the order of the slices. */
static void expect_slices(session *t, int task, const char *what, const rc_model *model, bool running)
{
    rc_backend *be = t->s->be;
    size_t count = running ? model->net->running : model->net->params, at = 0;
    double *values = malloc(count * sizeof *values);
    rc_slice slice;
    assert_non_null(values);
    for (int i = 0; rc_net_slice(model->net, i, &slice); i++)
        if (slice.running == running) {
            be->read_real64(be, values + at, rc_real_at(be, running ? model->running : model->param, slice.offset),
                            slice.count);
            at += slice.count;
        }
    assert_int_equal(at, count);
    expect_in(t, task, what, values, count);
    free(values);
}

static void expect_buffer(session *t, int task)
{
    const rc_image_buffer *b = &t->l.source->images;
    size_t held = (size_t)b->held, bytes = held * b->image_bytes;
    double *values = malloc(bytes * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < held; i++)
        values[i] = b->labels[i];
    expect_in(t, task, "buffer.labels", values, held);
    for (size_t i = 0; i < bytes; i++)
        values[i] = b->images[i];
    expect_in(t, task, "buffer.images", values, bytes);
    free(values);
}

static void expect_task(session *t, int task)
{
    const rc_learner *l = &t->l;
    size_t d = (size_t)l->student.head.d, classes = (size_t)l->student.head.classes;
    expect_slices(t, task, "student.param", &l->student.backbone, false);
    expect_slices(t, task, "student.running", &l->student.backbone, true);
    expect_reals(t, task, "head", l->student.head.weight, classes * d);
    if (learning_generator(l) != NULL && learning_generator(l)->param != NULL) {
        expect_slices(t, task, "generator.param", learning_generator(l), false);
        expect_slices(t, task, "generator.running", learning_generator(l), true);
    }
    if (l->method->dce) {
        assert_int_equal(l->statistics_classes, classes);
        expect_reals(t, task, "class_mean", l->class_mean, classes * d);
        expect_reals(t, task, "covariance", l->covariance, d * d);
    }
    if (l->method->replay == &rc_source_generative) {
        expect_slices(t, task, "encoder.param", &learning_vae(l)->encoder, false);
        expect_slices(t, task, "decoder.param", &learning_vae(l)->decoder, false);
    }
}

/* Images of all classes as they are, the classes in another order than the data's. */
static void expect_evaluation(session *t)
{
    enum { MOST = 64 };
    rc_learner *l = &t->l;
    int classes = l->student.head.classes, order[MOST];
    size_t k = (size_t)classes;
    rc_split test = {.images = t->images, .labels = malloc((size_t)t->all * sizeof *test.labels), .count = t->all};
    rc_task_split split = {.sizes = 1, .size = {classes}};
    rc_task_stream stream;
    rc_evaluation e;
    rc_scorer *scorer;
    float *logits = malloc((size_t)t->all * k * sizeof *logits);
    double *values = malloc((size_t)t->all * k * sizeof *values);
    assert_true(test.labels != NULL && logits != NULL && values != NULL && classes <= MOST);
    for (int i = 0; i < classes; i++)
        order[i] = (i + 3) % classes;
    for (int i = 0; i < t->all; i++)
        test.labels[i] = order[t->labels[i]];
    subject_must(t->s, rc_task_stream_create(&stream, classes, order, &split));
    subject_must(t->s, rc_evaluate(t->s->be, &l->student, &l->augment, &stream, &test, 4, NULL, &e));
    for (size_t i = 0; i < k * k; i++)
        values[i] = e.confusion[i];
    subject_expect_double(t->s, "confusion", values, k * k);
    for (size_t i = 0; i < k; i++)
        values[i] = e.top5[i];
    subject_expect_double(t->s, "top5", values, k);
    subject_must(t->s, rc_scorer_create(t->s->be, &l->student, 7, &l->augment, &scorer));
    subject_must(t->s, rc_scorer_run(scorer, t->images, NULL, t->all, logits, NULL));
    for (size_t i = 0; i < (size_t)t->all * k; i++)
        values[i] = (double)logits[i];
    oracle_expect(t->s->c, t->s->be->about.name, "logits", values, (size_t)t->all * k, 1e-5); /* they are floats */
    rc_scorer_destroy(scorer);
    rc_evaluation_destroy(&e);
    rc_task_stream_destroy(&stream);
    free(test.labels);
    free(logits);
    free(values);
}

static void run(subject *s)
{
    session t = {.s = s};
    rc_learner *l = &t.l;
    make_images(&t);
    create(&t);
    size_t bytes = (size_t)l->augment.h * (size_t)l->augment.w * (size_t)l->augment.c;
    /* Weights of classes are floats, and two updates of running statistics are one, with a float for both. */
    if (l->method->main.class_weights)
        s->tolerance = 1e-5;
    for (int task = 0, given = 0; task < TASKS; given += t.count[task++]) {
        int from = rc_method_takes_old_images(l->method) ? 0 : given, count = given + t.count[task] - from;
        subject_must(s, rc_learner_begin_task(l, task, t.n_new[task], t.images + (size_t)from * bytes, t.labels + from,
                                              count));
        subject_must(s, rc_run_stages(l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
        expect_task(&t, task);
        rc_learner_end_task(l);
        if (l->method->replay == &rc_source_buffer)
            expect_buffer(&t, task);
    }
    expect_evaluation(&t);
    rc_learner_destroy(l);
    free(t.images);
    free(t.labels);
}

static void run_dreams(subject *s)
{
    if (method_of(s->c)->replay == &rc_source_dreams)
        run(s);
}

static void run_others(subject *s)
{
    if (method_of(s->c)->replay != &rc_source_dreams)
        run(s);
}

void oracle_run_all(bool dreams)
{
    static const double tolerance[2] = {0, 1e-8};
    oracle *file = oracle_open("runs.txt");
    const char *prefix = dreams && oracle_light() ? "run/cwd" : "run/";
    subject_run_double(file, prefix, tolerance, dreams ? run_dreams : run_others);
    oracle_close(file);
}
