/* Everything around the steps of a stage: names, how many steps run between two calls of the hook, what is reported
 * and when, the message when a stage stops, how much memory it takes; and which operations run beside which. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

/* ---- names ---------------------------------------------------------------------------------------------------- */

static void stages_and_losses_have_names(void **state)
{
    (void)state;
    static const char *const stage[] = {"inversion", "training", "refinement", "estimation", "unknown"};
    static const struct {
        rc_loss loss;
        const char *key, *name;
    } losses[] = {
        {RC_LOSS_CE, "ce", "cross entropy"},
        {RC_LOSS_INTER, "inter", "inter"},
        {RC_LOSS_INTRA, "intra", "intra"},
        {RC_LOSS_REPLAY, "replay", "replay"},
        {RC_LOSS_HEAD, "head", "head"},
        {RC_LOSS_DRAWN, "drawn", "drawn features"},
        {RC_LOSS_HKD, "hkd", "HKD"},
        {RC_LOSS_KD, "kd", "KD"},
        {RC_LOSS_KD_REPLAY, "kd_replay", "KD of replay"},
        {RC_LOSS_FEATURE, "feature", "feature"},
        {RC_LOSS_RKD, "rkd", "RKD"},
        {RC_LOSS_WAR, "war", "WAR"},
        {RC_LOSS_CONTENT, "content", "content"},
        {RC_LOSS_DIVERSITY, "diversity", "diversity"},
        {RC_LOSS_BN, "bn", "BN statistics"},
        {RC_LOSS_PRIOR, "prior", "image prior"},
        {RC_LOSS_NORM, "norm", "image norm"},
        {RC_LOSS_DCE, "dce", "DCE"},
        {RC_LOSS_RECONSTRUCTION, "reconstruction", "reconstruction"},
        {RC_LOSS_LATENT, "latent", "latent"},
    };
    for (int i = 0; i <= RC_STAGE_COUNT; i++)
        assert_string_equal(rc_stage_name((rc_stage)i), stage[i]);
    assert_string_equal(rc_stage_name((rc_stage)-1), "unknown");
    assert_int_equal(sizeof losses / sizeof *losses, RC_LOSS_COUNT);
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        assert_string_equal(rc_loss_key(losses[i].loss), losses[i].key);
        assert_string_equal(rc_loss_name(losses[i].loss), losses[i].name);
    }
}

static void losses_that_are_off_weigh_nothing(void **state)
{
    (void)state;
    static const rc_stage_loss losses[] = {{RC_LOSS_HKD, true, 0.25}, {RC_LOSS_RKD, false, 3}, {RC_LOSS_WAR, true, 0}};
    float weight[RC_LOSS_COUNT];
    bool active[RC_LOSS_COUNT];
    memset(weight, 0x55, sizeof weight);
    memset(active, 1, sizeof active);
    rc_stage_set_losses(losses, 3, weight, active);
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        assert_true(weight[i] == (i == RC_LOSS_HKD ? 0.25f : 0));
        assert_int_equal(active[i], i == RC_LOSS_HKD || i == RC_LOSS_WAR);
    }
}

/* ---- steps between two calls of the hook ---------------------------------------------------------------------- */

typedef struct counter {
    int steps, calls;
    uint32_t at[64];
    double loss[RC_LOSS_COUNT];
    rc_status status;
} counter;

static void count_step(void *context)
{
    ((counter *)context)->steps++;
}

static rc_status count_call(void *user, const rc_stage_report *report)
{
    counter *c = user;
    assert_in_range(c->calls, 0, 63);
    c->at[c->calls++] = report->step;
    memcpy(c->loss, report->loss, sizeof c->loss);
    return c->status;
}

/* A stage of steps that count alone. */
static rc_stage_run bare_run(rc_learner *l, rc_stage_hooks *hooks, counter *c, const void *loss, double interval)
{
    *l = (rc_learner){.backend = be};
    *hooks = (rc_stage_hooks){.boundary = count_call, .user = c, .interval = interval};
    return (rc_stage_run){.learner = l,
                          .hooks = hooks,
                          .step = count_step,
                          .context = c,
                          .loss = loss,
                          .report = {.stage = RC_STAGE_INVERSION, .task = 2, .steps = 5000}};
}

static void *new_losses(void)
{
    float values[RC_LOSS_COUNT];
    void *memory;
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        values[i] = (float)i + 0.5f;
    assert_int_equal(be->alloc(be, RC_LOSS_COUNT * be->real_bytes, &memory), RC_OK);
    be->write_real(be, memory, values, RC_LOSS_COUNT);
    return memory;
}

static int repeats, most_repeats;
static rc_status (*plain_repeat)(rc_backend *, void (*)(void *), void *, int);

static rc_status counted_repeat(rc_backend *b, void (*step)(void *), void *context, int times)
{
    repeats++;
    most_repeats = times > most_repeats ? times : most_repeats;
    return plain_repeat(b, step, context, times);
}

static void the_hook_is_called_as_often_as_it_wants(void **state)
{
    (void)state;
    rc_learner l;
    rc_stage_hooks hooks;
    counter every = {0}, last = {0};
    void *loss = new_losses();
    plain_repeat = be->repeat;
    be->repeat = counted_repeat;

    rc_stage_run run = bare_run(&l, &hooks, &every, loss, 0); /* after every step */
    SUCCEEDS(rc_stage_repeat(&run, 7, 12));
    assert_int_equal(every.steps, 5);
    assert_int_equal(every.calls, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(every.at[i], 8 + i);

    run = bare_run(&l, &hooks, &last, loss, 1e9); /* at the end of the stage alone; a thousand steps at most at once */
    run.last_call = 1e18;
    repeats = most_repeats = 0;
    SUCCEEDS(rc_stage_repeat(&run, 0, 2500));
    assert_int_equal(last.steps, 2500);
    assert_int_equal(last.calls, 0);
    assert_int_equal(most_repeats, 1000);
    assert_int_equal(repeats, 4); /* 1 to see how long it takes, 1000, 1000, the rest */
    SUCCEEDS(rc_stage_repeat(&run, 2500, 5000));
    assert_int_equal(last.steps, 5000);
    assert_int_equal(last.calls, 1);
    assert_int_equal(last.at[0], 5000);

    last = (counter){.status = RC_CANCELLED};
    run = bare_run(&l, &hooks, &last, loss, 0);
    assert_int_equal(rc_stage_repeat(&run, 0, 10), RC_CANCELLED);
    assert_int_equal(last.steps, 1);
    be->repeat = plain_repeat;
    be->release(be, loss);
}

/* A quarter of the interval is filled: with 2 ms a step and 40 ms between calls, 5 steps at a time. */
static void slow_steps_come_a_few_at_a_time(void **state)
{
    (void)state;
    rc_learner l;
    rc_stage_hooks hooks;
    counter c = {0};
    void *loss = new_losses();
    plain_repeat = be->repeat;
    be->repeat = counted_repeat;
    rc_stage_run run = bare_run(&l, &hooks, &c, loss, 40);
    run.last_call = 1e18;
    run.seconds_per_step = 2; /* of its first chunk; then it is measured */
    most_repeats = 0;
    SUCCEEDS(rc_stage_repeat(&run, 0, 6));
    assert_int_equal(most_repeats, 5);
    run.seconds_per_step = 100;
    repeats = most_repeats = 0;
    SUCCEEDS(rc_stage_repeat(&run, 6, 8));
    assert_int_equal(most_repeats, 1);
    be->repeat = plain_repeat;
    be->release(be, loss);
}

/* Losses of the stage are reported, others are not looked at; one that is no number stops it. */
static void losses_are_read_and_checked(void **state)
{
    (void)state;
    static const char *const advice[] = {"a lower inversion_rate may help", "a lower learning_rate may help",
                                         "a lower refine_rate may help"};
    rc_learner l;
    rc_stage_hooks hooks;
    counter c = {0};
    void *loss = new_losses();
    rc_stage_run run = bare_run(&l, &hooks, &c, loss, 0);
    const float bad = INFINITY, good = 1;
    run.active[RC_LOSS_BN] = run.active[RC_LOSS_CONTENT] = true;
    be->write_real(be, rc_real_at(be, loss, RC_LOSS_WAR), &bad, 1);
    SUCCEEDS(rc_stage_repeat(&run, 0, 1));
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (run.active[i])
            assert_true(c.loss[i] == i + 0.5);
        else
            assert_true(isnan(c.loss[i]));
    be->write_real(be, rc_real_at(be, loss, RC_LOSS_BN), &bad, 1);
    for (int stage = 0; stage < 3; stage++) {
        char expected[256];
        run.report.stage = (rc_stage)stage;
        assert_int_equal(rc_stage_repeat(&run, 1, 2), RC_NUMERIC);
        snprintf(expected, sizeof expected,
                 "task 3, %s, step 2 of 5000: the BN statistics loss is inf. Nothing of this is kept, what was saved "
                 "before is intact; %s",
                 rc_stage_name((rc_stage)stage), advice[stage]);
        assert_string_equal(rc_message(), expected);
    }
    be->write_real(be, rc_real_at(be, loss, RC_LOSS_BN), &good, 1);
    assert_int_equal(c.calls, 1);
    be->release(be, loss);
}

/* Refinement takes something to balance with: a second half of the batches, whoever labels it. */
static void rows_without_replay_are_not_refined(void **state)
{
    (void)state;
    static const rc_method buffer = {.replay = &rc_source_buffer, .refine = true, .main = {.real = RC_CE_ALL}};
    static const rc_method teacher = {
        .replay = &rc_source_none, .refine = true, .main = {.real = RC_CE_ALL, .kd_real = RC_KD_OLD}};
    rc_settings s = learning_settings();
    rc_task_size size = {&s, &buffer, 2, 2, 3};
    assert_int_equal(rc_task_steps(&size, RC_STAGE_REFINEMENT), 3 * s.refine_epochs);
    size.method = &teacher;
    assert_int_equal(rc_task_steps(&size, RC_STAGE_REFINEMENT), 0);
    assert_int_equal(rc_task_steps(&size, RC_STAGE_TRAINING), 3 * (s.epochs - s.refine_epochs));
    assert_int_equal(rc_task_steps(&size, RC_STAGE_COUNT), 0);
}

/* ---- stages of a learner -------------------------------------------------------------------------------------- */

typedef struct visitor {
    int calls[RC_STAGE_COUNT];
    uint32_t at[8]; /* steps of estimation */
    rc_stage stop;
    uint32_t step; /* stops there */
} visitor;

static rc_status visit(void *user, const rc_stage_report *report)
{
    visitor *v = user;
    if (report->stage == RC_STAGE_ESTIMATION && v->calls[report->stage] < 8)
        v->at[v->calls[report->stage]] = report->step;
    v->calls[report->stage]++;
    return report->stage == v->stop && report->step == v->step ? RC_CANCELLED : RC_OK;
}

/* 4 classes of 20 images in batches of 4: 20 real batches and, in the second task, 20 of dreams. */
static void estimation_calls_the_hook_now_and_then(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.batch = 4;
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 1;
    learning_create(&l, be, "cwd", &s);
    for (int task = 0; task < 2; task++) {
        visitor v = {.stop = RC_STAGE_COUNT};
        rc_stage_hooks hooks = {.boundary = visit, .user = &v, .interval = 60}; /* seconds, of one step */
        learning_begin(&l, task, 4, 20);
        SUCCEEDS(rc_run_stages(&l, RC_STAGE_ESTIMATION, 0, &hooks, NULL));
        assert_int_equal(v.calls[RC_STAGE_ESTIMATION], task == 0 ? 2 : 3);
        assert_true(v.at[0] == 16 && v.at[1] == (task == 0 ? 20 : 32) && v.at[2] == (task == 0 ? 0 : 40));
        rc_learner_end_task(&l);
    }
    rc_learner_destroy(&l);
}

/* Whoever stops a task has not learnt it; wherever it is stopped. */
static void a_task_can_be_stopped_in_every_stage(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "cwd", &s);
    learning_teach(&l, 0, 2, 8, &learning_no_hooks);
    assert_true(l.learnt);
    rc_learner_end_task(&l);
    assert_false(l.learnt);
    learning_begin(&l, 1, 2, 8);
    for (int stage = 0; stage < RC_STAGE_COUNT; stage++) {
        visitor v = {.stop = (rc_stage)stage, .step = 1};
        rc_stage_hooks hooks = {.boundary = visit, .user = &v, .interval = 0};
        int entries = l.state.entries;
        double wall[RC_STAGE_COUNT] = {0};
        assert_int_equal(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, wall), RC_CANCELLED);
        assert_int_equal(v.calls[stage], 1);
        for (int i = 0; i < RC_STAGE_COUNT; i++) {
            assert_int_equal(v.calls[i] > 0, i <= stage);
            assert_true((wall[i] > 0) == (i <= stage));
        }
        assert_false(l.learnt);
        assert_int_equal(l.state.entries, entries); /* stages take what they registered with them */
    }
    rc_learner_destroy(&l);
}

static uint64_t allocated;
static rc_status (*plain_alloc)(rc_backend *, size_t, void **);

static rc_status counted_alloc(rc_backend *b, size_t bytes, void **memory)
{
    allocated += bytes;
    return plain_alloc(b, bytes, memory);
}

static size_t acts(int n, int h, int c)
{
    return rc_act_count(be, n, h, h, c) * be->act_bytes;
}

/* Batches and noise, which are no part of what a stage says that it takes. */
static size_t batches_of(const rc_learner *l, rc_stage stage)
{
    const rc_settings *s = &l->settings;
    int batch = s->batch, latent = 2 * s->vae_width, halves = l->has.replay ? 2 : 1;
    if (stage == RC_STAGE_INVERSION)
        return learning_pixels(l) != NULL ? acts(batch, 1, batch) + acts(batch, LEARNING_SIZE, LEARNING_CHANNELS)
                                          : acts(batch, 1, s->noise);
    size_t bytes = acts(halves * batch, LEARNING_SIZE, LEARNING_CHANNELS);
    if (learning_generator(l) != NULL && l->has.replay)
        bytes += acts(batch, 1, s->noise);
    if (l->method->replay == &rc_source_generative) /* noise and code of the whole batch; noise of the replayed one */
        bytes += 2 * acts(halves * batch, 1, latent) + (halves - 1) * acts(batch, 1, latent);
    return bytes;
}

/* What a stage says that it takes is what it takes, to the byte. */
static void stages_know_what_they_take(void **state)
{
    (void)state;
    static const char *const methods[] = {"cwd", "dgr", "er", "deepinversion-pixels", "finetune", "abd", "ssil"};
    rc_settings s = learning_settings();
    s.batch = 32;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        rc_learner l;
        learning_create(&l, be, methods[i], &s);
        for (int task = 0; task < 2; task++) {
            learning_begin(&l, task, 2, 32);
            for (int stage = 0; stage < RC_STAGE_COUNT; stage++) {
                size_t bytes;
                plain_alloc = be->alloc;
                be->alloc = counted_alloc;
                allocated = 0;
                SUCCEEDS(rc_stage_bytes(&l, (rc_stage)stage, &bytes));
                be->alloc = plain_alloc;
                bool inverts = l.n_old > 0 && (learning_generator(&l) != NULL || learning_pixels(&l) != NULL);
                bool has = stage == RC_STAGE_TRAINING || (stage == RC_STAGE_INVERSION && inverts);
                assert_int_equal(bytes, has ? allocated - batches_of(&l, (rc_stage)stage) : 0);
                assert_int_equal(bytes > 0, has);
            }
            rc_learner_end_task(&l);
        }
        rc_learner_destroy(&l);
    }
}

/* ---- lanes ---------------------------------------------------------------------------------------------------- */

/* The operations of a step as letters, a number for the lane that is forked to, j for a join. */
static char trace[4096];
static rc_backend plain;

static void note(char letter)
{
    size_t used = strlen(trace);
    assert_true(used + 1 < sizeof trace);
    trace[used] = letter;
    trace[used + 1] = '\0';
}

static void noted_fork(rc_backend *b, int lane)
{
    note((char)('0' + lane));
    plain.fork(b, lane);
}

static void noted_join(rc_backend *b, int lane)
{
    note('j');
    note((char)('0' + lane));
    plain.join(b, lane);
}

static size_t summed; /* gradients */

static void noted_sum(rc_backend *b, void *real, size_t count)
{
    float last;
    note('S');
    summed += count;
    b->read_real(b, &last, rc_real_at(b, real, count - 1), 1); /* they are there */
    plain.sum_workers(b, real, count);
}

static void noted_pool(rc_backend *b, rc_tensor *x, void *features)
{
    note('f'); /* features: the end of a forward pass */
    plain.average_pool_forward(b, x, features);
}

static void noted_pool_back(rc_backend *b, const void *dfeatures, void *dx, const rc_back_epilogue *epilogue)
{
    note('b'); /* a backward pass begins */
    plain.average_pool_backward(b, dfeatures, dx, epilogue);
}

static void noted_dense(rc_backend *b, int n, int in, int out, const void *x, const void *weight, const void *bias,
                        void *y, int y_stride)
{
    note('d');
    plain.dense_forward(b, n, in, out, x, weight, bias, y, y_stride);
}

static void noted_dense_data(rc_backend *b, int n, int in, int out, const void *dy, int dy_stride, const void *weight,
                             void *dx, bool add)
{
    note('x');
    plain.dense_backward_data(b, n, in, out, dy, dy_stride, weight, dx, add);
}

static void noted_dense_weight(rc_backend *b, int n, int in, int out, const void *x, const void *dy, int dy_stride,
                               void *dweight, void *dbias, bool add)
{
    note('w');
    plain.dense_backward_weight(b, n, in, out, x, dy, dy_stride, dweight, dbias, add);
}

static void noted_zero(rc_backend *b, void *memory, size_t bytes)
{
    note('z');
    plain.zero(b, memory, bytes);
}

static void noted_sgd(rc_backend *b, const rc_sgd *sgd, const rc_step *step, size_t count, void *param,
                      const void *grad, void *momentum)
{
    note('G');
    plain.sgd(b, sgd, step, count, param, grad, momentum);
}

static void noted_adam(rc_backend *b, const rc_adam *adam, const rc_step *step, size_t count, void *param,
                       const void *grad, void *first, void *second)
{
    note('A');
    plain.adam(b, adam, step, count, param, grad, first, second);
}

/* What the operations of the first step of a stage are, and how many gradients it sums. */
typedef struct first_steps {
    char operations[RC_STAGE_COUNT][sizeof trace];
    size_t summed[RC_STAGE_COUNT];
} first_steps;

static rc_status first_step(void *user, const rc_stage_report *report)
{
    first_steps *first = user;
    if (report->step == 1) {
        memcpy(first->operations[report->stage], trace, sizeof trace);
        first->summed[report->stage] = summed;
    }
    trace[0] = '\0';
    summed = 0;
    return RC_OK;
}

static void expect_sums(const rc_learner *l, const size_t found[RC_STAGE_COUNT])
{
    size_t d = (size_t)l->student.head.d, head = (size_t)l->student.head.classes * d;
    size_t training = l->net.params + head;
    if (l->method->main.rkd)
        training += 2 * (2 * d * d + 2 * d);
    if (l->method->replay == &rc_source_generative)
        training += learning_vae(l)->encoder.net->params + learning_vae(l)->decoder.net->params;
    const rc_net *inverted = learning_pixels(l) != NULL ? learning_pixels(l)->net : learning_generator_net(l);
    assert_int_equal(found[RC_STAGE_INVERSION], l->n_old > 0 && inverted != NULL ? inverted->params : 0);
    assert_int_equal(found[RC_STAGE_TRAINING], training);
    assert_int_equal(found[RC_STAGE_REFINEMENT], l->method->refine ? head : 0);
    assert_int_equal(found[RC_STAGE_ESTIMATION], 0);
}

/* Sizes that nothing shows: what lies behind the arrays is zeros, or free. */
static const rc_learner *watched;

static void noted_balance(rc_backend *b, int classes, const int32_t *count, void *class_weight)
{
    assert_int_equal(classes, watched->student.head.classes);
    plain.balance_weights(b, classes, count, class_weight);
}

static void noted_count(rc_backend *b, int n, const int32_t *labels, int classes, int32_t *count)
{
    assert_int_equal(n, watched->settings.batch * (watched->has.replay ? 2 : 1));
    assert_int_equal(classes, watched->student.head.classes);
    plain.count_labels(b, n, labels, classes, count);
}

static size_t noted_rkd_workspace(rc_backend *b, int n, int d)
{
    assert_int_equal(n, watched->settings.batch);
    assert_int_equal(d, 2 * watched->student.head.d);
    return plain.rkd_workspace(b, n, d);
}

static size_t noted_dce_workspace(rc_backend *b, int n, int d, int classes)
{
    assert_int_equal(n, watched->settings.batch);
    assert_int_equal(d, watched->student.head.d);
    assert_int_equal(classes, watched->n_old);
    return plain.dce_workspace(b, n, d, classes);
}

static void note_operations(const rc_learner *l)
{
    watched = l;
    plain = *be;
    be->balance_weights = noted_balance;
    be->count_labels = noted_count;
    be->rkd_workspace = noted_rkd_workspace;
    be->dce_workspace = noted_dce_workspace;
    be->fork = noted_fork;
    be->join = noted_join;
    be->sum_workers = noted_sum;
    be->average_pool_forward = noted_pool;
    be->average_pool_backward = noted_pool_back;
    be->dense_forward = noted_dense;
    be->dense_backward_data = noted_dense_data;
    be->dense_backward_weight = noted_dense_weight;
    be->zero = noted_zero;
    be->sgd = noted_sgd;
    be->adam = noted_adam;
}

/* Lane 2 is the side lane. In training the teacher (its features, logits and, for relations, embedding) runs beside the
 * student's forward pass, relations beside the losses on logits, gradients of head and projections beside the backward
 * pass; in inversion the BN loss beside the logits, DCE beside the other losses. Gradients of all parameters are summed
 * over processes, once, before an optimiser looks at them. Where nothing is gained beside the student, the teacher runs
 * before it, in its memory. */
static void expect_steps(bool beside)
{
    static const struct {
        const char *method, *steps[RC_STAGE_COUNT];
    } rows[] = {
        {"cwd",
         {"2zz0fj2"
          "20d20j2xb"
          "zSA",
          "2zfdzzd0fj2"
          "2d0dxj2"
          "2wSwwS0xbSj2"
          "GGG",
          "fdfdzwSG", "f"}},
        {"lwf",
         {"",
          "2zfd0fj2"
          "20dxj2"
          "2wS0bSj2"
          "GG",
          "", ""}},
        {"finetune",
         {"",
          "z0fj2"
          "20dxj2"
          "2wS0bSj2"
          "GG",
          "", ""}},
        {"dgr",
         {"",
          "2zfd0fj2"
          "20dxj2"
          "2wS0bSj2"
          "GG"
          "zzzSSGG",
          "", ""}},
        {"deepinversion-pixels",
         {"2zz0fj2"
          "20dj2xb"
          "SA",
          "2zfd0fj2"
          "20dxj2"
          "2wS0bSj2"
          "GG",
          "", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static first_steps first;
        rc_settings s = learning_settings();
        rc_learner l;
        memset(&first, 0, sizeof first);
        learning_create(&l, be, rows[i].method, &s);
        learning_teach(&l, 0, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        learning_begin(&l, 1, 2, 8);
        rc_stage_hooks hooks = {.boundary = first_step, .user = &first, .interval = 0};
        trace[0] = '\0';
        summed = 0;
        note_operations(&l);
        be->busy_bytes = beside ? SIZE_MAX : 0;
        rc_status status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL);
        *be = plain;
        assert_int_equal(status, RC_OK);
        for (int k = 0; k < RC_STAGE_COUNT; k++) {
            bool before = !beside && k == RC_STAGE_TRAINING && rows[i].steps[k][0] == '2';
            assert_string_equal(first.operations[k], rows[i].steps[k] + before);
        }
        expect_sums(&l, first.summed);
        rc_learner_destroy(&l);
    }
}

static void steps_run_beside_each_other(void **state)
{
    (void)state;
    expect_steps(true);
    expect_steps(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_and_losses_have_names),
        cmocka_unit_test(losses_that_are_off_weigh_nothing),
        cmocka_unit_test(the_hook_is_called_as_often_as_it_wants),
        cmocka_unit_test(slow_steps_come_a_few_at_a_time),
        cmocka_unit_test(losses_are_read_and_checked),
        cmocka_unit_test(rows_without_replay_are_not_refined),
        cmocka_unit_test(estimation_calls_the_hook_now_and_then),
        cmocka_unit_test(a_task_can_be_stopped_in_every_stage),
        cmocka_unit_test(stages_know_what_they_take),
        cmocka_unit_test(steps_run_beside_each_other),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
