/* What the stages hand to the operations, row by row. The test wraps the operations that take numbers (optimisers,
 * batches, noise, the step's own counters, rates and weights), and compares every call of three tasks, in order, with
 * what the methods say. The numbers are the published ones, written here once more; formulas are those of
 * docs/methods. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/learning.h"
#include "support/succeeds.h"

enum {
    SEED = 77,
    BATCH = 4,
    NOISE_WIDTH = 6,
    PER_CLASS = 5,
    TASKS = 3,
    INVERSION_STEPS = 3,
    PIXEL_BATCHES = 2,
    PIXEL_STEPS = 2,
    MAIN_EPOCHS = 4,
    REFINE_EPOCHS = 2,
    VAE_WIDTH = 8,
    FEATURES = 16
};
static const int n_new_of[TASKS] = {2, 3, 2};

/* ---- the trace ------------------------------------------------------------------------------------------------ */

typedef enum record_kind { STEP, SGD, ADAM, AUGMENT, NOISE, ROLL, FINISH, END } record_kind;

typedef struct record {
    record_kind kind;
    rc_step step;        /* STEP */
    int64_t count;       /* SGD, ADAM: parameters; others: samples */
    int64_t stream, pad; /* AUGMENT, NOISE, ROLL (range) */
    double number[5];    /* SGD: momentum, decay; ADAM: betas, eps; FINISH: unbiased */
} record;

enum { MOST_RECORDS = 4096 };
static record records[MOST_RECORDS];
static int recorded, looked_at;
static rc_backend *be, plain; /* with wrapped entries; as it was */

static record *keep(record_kind kind)
{
    assert_in_range(recorded, 0, MOST_RECORDS - 1);
    record *r = &records[recorded++];
    *r = (record){.kind = kind};
    return r;
}

static void traced_step_begin(rc_backend *b, rc_step *step)
{
    plain.step_begin(b, step);
    b->read_bytes(b, &keep(STEP)->step, step, sizeof *step);
}

static void traced_sgd(rc_backend *b, const rc_sgd *sgd, const rc_step *step, size_t count, void *param,
                       const void *grad, void *momentum)
{
    record *r = keep(SGD);
    r->count = (int64_t)count;
    r->number[0] = (double)sgd->momentum;
    r->number[1] = (double)sgd->weight_decay;
    plain.sgd(b, sgd, step, count, param, grad, momentum);
}

static void traced_adam(rc_backend *b, const rc_adam *adam, const rc_step *step, size_t count, void *param,
                        const void *grad, void *first, void *second)
{
    record *r = keep(ADAM);
    r->count = (int64_t)count;
    r->number[0] = (double)adam->beta1;
    r->number[1] = (double)adam->beta2;
    r->number[2] = (double)adam->eps;
    plain.adam(b, adam, step, count, param, grad, first, second);
}

static void traced_augment(rc_backend *b, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                           const rc_step *step, rc_tensor *out)
{
    record *r = keep(AUGMENT);
    r->count = n;
    r->stream = augment->stream;
    r->pad = augment->pad;
    r->number[0] = (double)augment->mean[1];
    r->number[1] = (double)augment->std[2];
    r->number[2] = augment->flip;
    r->number[3] = augment->zoom;
    r->number[4] = (double)augment->colour;
    plain.augment(b, augment, images, order, n, step, out);
}

static void traced_noise(rc_backend *b, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    record *r = keep(NOISE);
    r->count = (int64_t)out->n * out->c;
    r->stream = stream;
    plain.random_normal(b, stream, step, out);
}

static void traced_roll(rc_backend *b, uint32_t stream, int range, bool back, const rc_step *step, const rc_tensor *x,
                        void *y)
{
    record *r = keep(ROLL);
    r->count = x->n;
    r->stream = stream;
    r->pad = range;
    r->number[0] = back;
    plain.roll(b, stream, range, back, step, x, y);
}

static void traced_finish(rc_backend *b, int d, int classes, const void *center, const int32_t *count,
                          const double *sum, const double *outer, bool unbiased, void *class_mean, void *covariance)
{
    record *r = keep(FINISH);
    r->count = classes;
    r->number[0] = unbiased;
    plain.class_statistics_finish(b, d, classes, center, count, sum, outer, unbiased, class_mean, covariance);
}

static int open_backend(void **state)
{
    (void)state;
    if (rc_backend_open("cpu", 1, NULL, &be) != RC_OK)
        return -1;
    plain = *be;
    be->step_begin = traced_step_begin;
    be->sgd = traced_sgd;
    be->adam = traced_adam;
    be->augment = traced_augment;
    be->random_normal = traced_noise;
    be->roll = traced_roll;
    be->class_statistics_finish = traced_finish;
    return 0;
}

static int close_backend(void **state)
{
    (void)state;
    *be = plain;
    rc_backend_close(be);
    return 0;
}

/* ---- the rows, as docs/methods has them ----------------------------------------------------------------------- */

typedef enum source { NOTHING, DREAMS, PIXELS, BUFFER, AUTOENCODER, OLD_IMAGES } source;

/* Weights, by what they are made of: alpha = log2(n_new / 2 + 1), beta = sqrt(n_old / n_new). */
typedef enum weight {
    NONE,
    ONE,
    HALF,
    LOCAL,       /* 0.5 (1 + 1 / alpha) / beta */
    DISTILLED,   /* 0.15 alpha beta */
    RELATED,     /* 0.5 alpha beta */
    ALIGNED,     /* 0.1 */
    FEATURE,     /* 0.1 */
    INTER,       /* 0.5 * 0.05 / old tasks */
    INTER_LARGE, /* 0.5 * 0.01 / old tasks */
    PRINTED      /* 0.15 */
} weight;

typedef struct plan {
    const char *name;
    source source;
    bool refined, estimated;
    weight later[RC_LOSS_COUNT]; /* main training of tasks after the first */
} plan;

static const plan plans[] = {
    {"finetune", NOTHING, false, false, {[RC_LOSS_CE] = ONE}},
    {"joint", NOTHING, false, false, {[RC_LOSS_CE] = ONE}},
    {"er", BUFFER, false, false, {[RC_LOSS_CE] = HALF, [RC_LOSS_REPLAY] = HALF}},
    {"er-5120", BUFFER, false, false, {[RC_LOSS_CE] = HALF, [RC_LOSS_REPLAY] = HALF}},
    {"lode", BUFFER, false, false, {[RC_LOSS_INTER] = INTER, [RC_LOSS_INTRA] = HALF, [RC_LOSS_REPLAY] = HALF}},
    {"lode-5120",
     BUFFER,
     false,
     false,
     {[RC_LOSS_INTER] = INTER_LARGE, [RC_LOSS_INTRA] = HALF, [RC_LOSS_REPLAY] = HALF}},
    {"dgr",
     AUTOENCODER,
     false,
     false,
     {[RC_LOSS_CE] = HALF,
      [RC_LOSS_REPLAY] = HALF,
      [RC_LOSS_KD_REPLAY] = ONE,
      [RC_LOSS_RECONSTRUCTION] = ONE,
      [RC_LOSS_LATENT] = ONE}},
    {"lwf", NOTHING, false, false, {[RC_LOSS_CE] = ONE, [RC_LOSS_KD] = ONE}},
    {"deepinversion", DREAMS, false, false, {[RC_LOSS_CE] = ONE, [RC_LOSS_KD] = ONE, [RC_LOSS_KD_REPLAY] = ONE}},
    {"deepinversion-pixels", PIXELS, false, false, {[RC_LOSS_CE] = ONE, [RC_LOSS_KD] = ONE, [RC_LOSS_KD_REPLAY] = ONE}},
    {"abd", DREAMS, false, false, {[RC_LOSS_CE] = ONE, [RC_LOSS_HEAD] = ONE, [RC_LOSS_FEATURE] = FEATURE}},
    {"rdfcil", DREAMS, true, false, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED}},
    {"cwd",
     DREAMS,
     true,
     true,
     {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED, [RC_LOSS_WAR] = ALIGNED}},
    {"cwd+",
     DREAMS,
     true,
     true,
     {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED, [RC_LOSS_WAR] = ALIGNED}},
    {"cwd-abd",
     DREAMS,
     false,
     true,
     {[RC_LOSS_CE] = ONE, [RC_LOSS_HEAD] = ONE, [RC_LOSS_FEATURE] = FEATURE, [RC_LOSS_WAR] = ALIGNED}},
    {"cwd-without-dce",
     DREAMS,
     true,
     false,
     {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED, [RC_LOSS_WAR] = ALIGNED}},
    {"cwd-without-war", DREAMS, true, true, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED}},
    {"sce", DREAMS, true, true, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_REPLAY] = DISTILLED, [RC_LOSS_RKD] = RELATED}},
    {"ace", DREAMS, true, true, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_REPLAY] = DISTILLED, [RC_LOSS_RKD] = RELATED}},
    {"ssil",
     DREAMS,
     true,
     true,
     {[RC_LOSS_CE] = LOCAL, [RC_LOSS_REPLAY] = DISTILLED, [RC_LOSS_KD_REPLAY] = DISTILLED, [RC_LOSS_RKD] = RELATED}},
    {"wa", DREAMS, true, true, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED}},
    {"real-hkd", OLD_IMAGES, false, false, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED}},
    {"real-cwd",
     OLD_IMAGES,
     true,
     false,
     {[RC_LOSS_CE] = LOCAL, [RC_LOSS_HKD] = DISTILLED, [RC_LOSS_RKD] = RELATED, [RC_LOSS_WAR] = ALIGNED}},
    {"real-lce", OLD_IMAGES, false, false, {[RC_LOSS_CE] = LOCAL, [RC_LOSS_REPLAY] = DISTILLED}},
};

static double value_of(weight w, int n_old, int n_new, int old_tasks)
{
    double alpha = log2(n_new / 2.0 + 1), beta = sqrt((double)n_old / n_new);
    switch (w) {
    case ONE: return 1;
    case HALF: return 0.5;
    case LOCAL: return 0.5 * (1 + 1 / alpha) / beta;
    case DISTILLED: return 0.15 * alpha * beta;
    case RELATED: return 0.5 * alpha * beta;
    case ALIGNED: return 0.1;
    case FEATURE: return 0.1;
    case INTER: return 0.5 * 0.05 / old_tasks;
    case INTER_LARGE: return 0.5 * 0.01 / old_tasks;
    case PRINTED: return 0.15;
    case NONE: break;
    }
    return 0;
}

/* ---- what has to come ----------------------------------------------------------------------------------------- */

typedef struct task {
    const plan *plan;
    const rc_learner *learner;
    int number, n_old, n_new, batches, main_epochs, refine_epochs;
    bool replays; /* batches have a second half */
} task;

static task task_of(const plan *p, const rc_learner *l, int number, bool printed)
{
    task t = {.plan = p, .learner = l, .number = number, .n_new = n_new_of[number]};
    for (int i = 0; i < number; i++)
        t.n_old += n_new_of[i];
    t.batches = t.n_new * PER_CLASS / BATCH;
    t.replays = p->source == BUFFER || (p->source != NOTHING && number > 0);
    t.main_epochs = printed ? MAIN_EPOCHS + REFINE_EPOCHS : MAIN_EPOCHS;
    t.refine_epochs = p->refined && number > 0 && !printed ? REFINE_EPOCHS : 0;
    return t;
}

static const record *next(const task *t, record_kind kind)
{
    static const char *const name[] = {"STEP", "SGD", "ADAM", "AUGMENT", "NOISE", "ROLL", "FINISH", "the end"};
    const record *r = &records[looked_at++];
    if (looked_at > recorded || r->kind != kind)
        fail_msg("%s, task %d, call %d is %s, expected %s", t->plan->name, t->number, looked_at - 1,
                 name[looked_at > recorded ? END : r->kind], name[kind]);
    return r;
}

static void same(const task *t, const char *what, double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%s, task %d, call %d: %s is %.9g, expected %.9g", t->plan->name, t->number, looked_at - 1, what,
                 found, expected);
}

static void expect_step(const task *t, int epoch, int batch, int step, double rate, const double weights[RC_LOSS_COUNT])
{
    const rc_step *s = &next(t, STEP)->step;
    same(t, "seed", (double)s->seed, SEED);
    same(t, "task", s->task, t->number);
    same(t, "epoch", s->epoch, epoch);
    same(t, "batch", s->batch, batch);
    same(t, "step", s->step, step);
    same(t, "rate", (double)s->learning_rate, rate);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        same(t, rc_loss_name(i), (double)s->weight[i], weights[i]);
}

static void expect_sgd(const task *t, int64_t count, double decay)
{
    const record *r = next(t, SGD);
    same(t, "parameters", (double)r->count, (double)count);
    same(t, "momentum", r->number[0], 0.9);
    same(t, "weight decay", r->number[1], decay);
}

static void expect_adam(const task *t, int64_t count)
{
    const record *r = next(t, ADAM);
    same(t, "parameters", (double)r->count, (double)count);
    same(t, "beta 1", r->number[0], 0.9);
    same(t, "beta 2", r->number[1], 0.999);
    same(t, "epsilon", r->number[2], 1e-8);
}

static void expect_augment(const task *t, int stream)
{
    const record *r = next(t, AUGMENT);
    bool zero_to_one = t->plan->source == AUTOENCODER;
    same(t, "images", (double)r->count, BATCH);
    same(t, "stream", (double)r->stream, stream);
    same(t, "padding", (double)r->pad, 4);
    same(t, "mean", r->number[0], zero_to_one ? 0 : 0.5);
    same(t, "std", r->number[1], zero_to_one ? 1 : 0.3);
    same(t, "flip", r->number[2], 1);
    bool estimation = stream == 4; /* does not zoom or colour */
    same(t, "zoom", r->number[3], estimation ? 0 : 0x1p30);
    same(t, "colour", r->number[4], estimation ? 0 : 0.5);
}

static void expect_noise(const task *t, int stream, int count)
{
    const record *r = next(t, NOISE);
    same(t, "stream", (double)r->stream, stream);
    same(t, "numbers", (double)r->count, count);
}

/* A generator: Adam at 1e-3 on content, diversity, 50 BN, 0.05 DCE; steps count from 0. */
static void expect_inversion(const task *t)
{
    double weights[RC_LOSS_COUNT] = {[RC_LOSS_CONTENT] = 1, [RC_LOSS_DIVERSITY] = 1, [RC_LOSS_BN] = 50};
    if (t->plan->estimated)
        weights[RC_LOSS_DCE] = 0.05;
    for (int step = 0; step < INVERSION_STEPS; step++) {
        expect_step(t, 0, step, step, 1e-3, weights);
        expect_noise(t, 3, BATCH * NOISE_WIDTH);
        expect_adam(t, (int64_t)learning_generator_net(t->learner)->params);
    }
}

/* Pixels, batch after batch, each with an Adam of its own at 0.05, moved by 2 pixels at most and back. */
static void expect_pixels(const task *t)
{
    static const double weights[RC_LOSS_COUNT] = {
        [RC_LOSS_CONTENT] = 1, [RC_LOSS_BN] = 5, [RC_LOSS_PRIOR] = 2.5e-5, [RC_LOSS_NORM] = 3e-8};
    for (int batch = 0; batch < PIXEL_BATCHES; batch++)
        for (int step = 0; step < PIXEL_STEPS; step++) {
            expect_step(t, 0, step, step, 0.05, weights);
            for (int back = 0; back < 2; back++) {
                const record *r = next(t, ROLL);
                same(t, "images", (double)r->count, BATCH);
                same(t, "stream", (double)r->stream, 0x8000 + batch);
                same(t, "range", (double)r->pad, 2);
                same(t, "back", r->number[0], back);
            }
            expect_adam(t, BATCH * LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS);
        }
}

static void main_weights(const task *t, double weights[RC_LOSS_COUNT])
{
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        weights[i] = t->n_old > 0 ? value_of(t->plan->later[i], t->n_old, t->n_new, t->number) : 0;
    if (t->n_old > 0)
        return;
    weights[RC_LOSS_CE] = t->replays ? 0.5 : 1;
    weights[RC_LOSS_REPLAY] = t->replays ? 0.5 : 0;
    if (t->plan->source == AUTOENCODER)
        weights[RC_LOSS_RECONSTRUCTION] = weights[RC_LOSS_LATENT] = 1;
}

/* Cross entropy 0.5, unscaled; losses of dreams and WAR as in main training. */
static void refinement_weights(const task *t, double weights[RC_LOSS_COUNT])
{
    static const rc_loss goes_on[] = {RC_LOSS_REPLAY, RC_LOSS_HKD, RC_LOSS_KD_REPLAY, RC_LOSS_WAR};
    double trained[RC_LOSS_COUNT];
    main_weights(t, trained);
    memset(weights, 0, RC_LOSS_COUNT * sizeof *weights);
    for (size_t i = 0; i < sizeof goes_on / sizeof *goes_on; i++)
        weights[goes_on[i]] = trained[goes_on[i]];
    weights[RC_LOSS_CE] = 0.5;
}

static void expect_batch(const task *t)
{
    expect_augment(t, 1);
    if (!t->replays)
        return;
    if (t->plan->source == DREAMS)
        expect_noise(t, 2, BATCH * NOISE_WIDTH);
    else if (t->plan->source == AUTOENCODER)
        expect_noise(t, 2, BATCH * 2 * VAE_WIDTH);
    else
        expect_augment(t, 6);
}

static void expect_updates(const task *t, bool refines)
{
    const rc_learner *l = t->learner;
    if (!refines)
        expect_sgd(t, (int64_t)l->net.params, 5e-4);
    expect_sgd(t, (t->n_old + t->n_new) * FEATURES, 5e-4);
    if (!refines && t->n_old > 0 && t->plan->later[RC_LOSS_RKD] != NONE) /* two maps from d to 2 d, with bias */
        expect_sgd(t, 2 * (2 * FEATURES * FEATURES + 2 * FEATURES), 5e-4);
    if (t->plan->source == AUTOENCODER) {
        expect_noise(t, 7, (t->replays ? 2 : 1) * BATCH * 2 * VAE_WIDTH);
        expect_sgd(t, (int64_t)learning_vae(l)->encoder.net->params, 0);
        expect_sgd(t, (int64_t)learning_vae(l)->decoder.net->params, 0);
    }
}

/* 0.1, a tenth of it from epoch 2 on and of that from 3 on; 0.005 in refinement. Steps count through both. */
static void expect_training(const task *t)
{
    double weights[RC_LOSS_COUNT];
    main_weights(t, weights);
    for (int epoch = 0, step = 0; epoch < t->main_epochs + t->refine_epochs; epoch++) {
        bool refines = epoch >= t->main_epochs;
        double rate = refines ? 0.005 : epoch >= 3 ? 0.001 : epoch >= 2 ? 0.01 : 0.1;
        if (refines)
            refinement_weights(t, weights);
        for (int batch = 0; batch < t->batches; batch++, step++) {
            expect_step(t, epoch, batch, step, rate, weights);
            expect_batch(t);
            expect_updates(t, refines);
        }
    }
}

static void expect_estimation(const task *t, bool printed)
{
    static const double none[RC_LOSS_COUNT];
    int dreams = t->n_old == 0 ? 0 : t->n_old / t->n_new > 1 ? t->n_old / t->n_new : 1;
    for (int step = 0; step < t->batches; step++) {
        expect_step(t, 0, step, step, 0, none);
        expect_augment(t, 4);
    }
    for (int step = 0; step < t->batches * dreams; step++) {
        expect_step(t, 0, step, step, 0, none);
        expect_noise(t, 5, BATCH * NOISE_WIDTH);
    }
    const record *r = next(t, FINISH);
    same(t, "classes", (double)r->count, t->n_old + t->n_new);
    same(t, "n - 1", r->number[0], !printed);
}

/* ---- reports -------------------------------------------------------------------------------------------------- */

typedef struct watch {
    const task *task;
    int reports[RC_STAGE_COUNT];
} watch;

static void expect_report_of_training(const task *t, const rc_stage_report *r, bool refines)
{
    double weights[RC_LOSS_COUNT];
    int epochs = refines ? t->refine_epochs : t->main_epochs;
    assert_int_equal(r->steps, epochs * t->batches);
    assert_int_equal(r->epochs, epochs);
    assert_int_equal(r->epoch, (int)(r->step - 1) / t->batches);
    assert_int_equal(r->images_per_step, t->replays ? 2 * BATCH : BATCH);
    (refines ? refinement_weights : main_weights)(t, weights);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        assert_int_equal(!isnan(r->loss[i]), weights[i] > 0);
    double rate = refines ? 0.005 : r->epoch >= 3 ? 0.001 : r->epoch >= 2 ? 0.01 : 0.1;
    same(t, "reported rate", r->learning_rate, rate);
}

static rc_status report(void *user, const rc_stage_report *r)
{
    watch *w = user;
    const task *t = w->task;
    assert_int_equal(r->task, t->number);
    assert_int_equal(r->step, ++w->reports[r->stage]); /* every step */
    assert_ptr_equal(r->state, &t->learner->state);
    if (r->stage == RC_STAGE_TRAINING || r->stage == RC_STAGE_REFINEMENT) {
        expect_report_of_training(t, r, r->stage == RC_STAGE_REFINEMENT);
        return RC_OK;
    }
    assert_int_equal(r->epochs, 0);
    assert_int_equal(r->epoch, 0);
    assert_int_equal(r->images_per_step, BATCH);
    if (r->stage == RC_STAGE_ESTIMATION) {
        for (int i = 0; i < RC_LOSS_COUNT; i++)
            assert_true(isnan(r->loss[i]));
        return RC_OK;
    }
    bool pixels = t->plan->source == PIXELS;
    assert_int_equal(r->steps, pixels ? PIXEL_BATCHES * PIXEL_STEPS : INVERSION_STEPS);
    same(t, "reported rate", r->learning_rate, pixels ? 0.05 : 1e-3);
    assert_int_equal(!isnan(r->loss[RC_LOSS_PRIOR]), pixels);
    assert_int_equal(!isnan(r->loss[RC_LOSS_DIVERSITY]), !pixels);
    assert_int_equal(!isnan(r->loss[RC_LOSS_DCE]), t->plan->estimated);
    return RC_OK;
}

/* ---- tests ---------------------------------------------------------------------------------------------------- */

static rc_settings settings(bool printed)
{
    rc_settings s = learning_settings();
    s.seed = SEED;
    s.batch = BATCH;
    s.noise = NOISE_WIDTH;
    s.vae_width = VAE_WIDTH;
    s.zoom = 0.25;
    s.colour = 0.5;
    s.epochs = MAIN_EPOCHS + REFINE_EPOCHS;
    s.refine_epochs = REFINE_EPOCHS;
    s.milestones = 2;
    s.milestone[0] = 2;
    s.milestone[1] = 3;
    s.inversion_steps = INVERSION_STEPS;
    s.generators = 1; /* unit/moved knows what cwd+ adds to the stages of CwD */
    snprintf(s.rotations, sizeof s.rotations, "off");
    s.plus_drawn = 0;
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "dreams");
    s.pixel_batches = PIXEL_BATCHES;
    s.pixel_steps = PIXEL_STEPS;
    if (printed)
        rc_settings_paper_profile(&s);
    return s;
}

static void expect_row(const plan *p, bool printed)
{
    rc_settings s = settings(printed);
    rc_learner l;
    learning_create(&l, be, p->name, &s);
    assert_int_equal(l.student.head.d, FEATURES);
    for (int number = 0; number < TASKS; number++) {
        task t = task_of(p, &l, number, printed);
        watch w = {.task = &t};
        rc_stage_hooks hooks = {.boundary = report, .user = &w, .interval = 0};
        recorded = looked_at = 0;
        learning_begin(&l, number, t.n_new, PER_CLASS);
        SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL));
        if (p->source == DREAMS && number > 0)
            expect_inversion(&t);
        if (p->source == PIXELS && number > 0)
            expect_pixels(&t);
        expect_training(&t);
        if (p->estimated)
            expect_estimation(&t, printed);
        assert_int_equal(looked_at, recorded);
        rc_learner_end_task(&l);
    }
    rc_learner_destroy(&l);
}

static void every_row_hands_down_what_its_page_says(void **state)
{
    (void)state;
    size_t rows = sizeof plans / sizeof *plans;
    for (size_t i = 0; i < rows; i++) {
        assert_string_equal(rc_method_at((int)i)->name, plans[i].name);
        expect_row(&plans[i], false);
    }
    assert_null(rc_method_at((int)rows));
}

/* The printed formulas: constant weights, no refinement, divisor n. */
static void the_paper_profile_has_constant_weights(void **state)
{
    (void)state;
    static const plan printed = {
        "cwd",
        DREAMS,
        true,
        true,
        {[RC_LOSS_CE] = HALF, [RC_LOSS_HKD] = PRINTED, [RC_LOSS_RKD] = HALF, [RC_LOSS_WAR] = ALIGNED}};
    expect_row(&printed, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_hands_down_what_its_page_says),
        cmocka_unit_test(the_paper_profile_has_constant_weights),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
