/* Methods that store: what ER, LODE and DGR replay, what they hold afterwards, and that it helps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/evaluation.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { PIXELS = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };

/* A learner after its first task, of 3 classes with 16 images each. */
static void create_taught(rc_learner *l, rc_backend *backend, const char *method, const rc_settings *s)
{
    learning_create(l, backend, method, s);
    learning_teach(l, 0, 3, 16, &learning_no_hooks);
    rc_learner_end_task(l);
}

static void all_can_be_resumed(void **state)
{
    (void)state;
    static const char *const names[] = {"er", "lode", "dgr", "real-hkd"};
    rc_settings s = learning_settings();
    s.refine_epochs = 1;
    s.epochs = 3;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int stages[RC_STAGE_COUNT];
        if (learning_resume_everywhere(be, names[i], &s, stages))
            assert_true(stages[RC_STAGE_TRAINING] > 2);
    }
}

/* ---- buffers -------------------------------------------------------------------------------------------------- */

static void expect_same_buffer(const rc_image_buffer *a, const rc_image_buffer *b)
{
    assert_int_equal(a->held, b->held);
    assert_int_equal(a->offered, b->offered);
    assert_memory_equal(a->images, b->images, (size_t)a->held * PIXELS);
    assert_memory_equal(a->labels, b->labels, (size_t)a->held * sizeof *a->labels);
}

/* Every image of the buffer is one that was shown, with its label. */
static void expect_shown(const rc_image_buffer *b, int classes, int per_class)
{
    int32_t *labels;
    uint8_t *images = learning_images(0, classes, per_class, &labels);
    for (int i = 0; i < b->held; i++) {
        bool found = false;
        for (int k = 0; k < classes * per_class && !found; k++)
            found = labels[k] == b->labels[i] && memcmp(b->images + i * PIXELS, images + k * PIXELS, PIXELS) == 0;
        assert_true(found);
    }
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* The buffer takes what a task showed when all its stages are done, however they were run, and nothing of one that was
 * left: 2 epochs of 48 images, then of 32. */
static void a_buffer_takes_what_a_task_has_shown(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner whole, resumed;
    create_taught(&whole, be, "er", &s);
    create_taught(&resumed, be, "er", &s);
    assert_int_equal(whole.source->images.held, 20);
    assert_int_equal(whole.source->images.offered, 96);
    expect_shown(&whole.source->images, 3, 16);
    expect_same_buffer(&whole.source->images, &resumed.source->images);

    learning_begin(&resumed, 1, 2, 16);
    rc_learner_end_task(&resumed); /* no stage was run */
    expect_same_buffer(&whole.source->images, &resumed.source->images);
    rc_learner_destroy(&resumed);

    create_taught(&resumed, be, "er", &s);
    learning_begin(&whole, 1, 2, 16);
    SUCCEEDS(rc_run_stages(&whole, RC_STAGE_TRAINING, 0, &learning_no_hooks, NULL));
    learning_begin(&resumed, 1, 2, 16);
    SUCCEEDS(rc_run_stages(&resumed, RC_STAGE_TRAINING, rc_stage_steps(&resumed, RC_STAGE_TRAINING), &learning_no_hooks,
                           NULL)); /* as after a kill behind the last step */
    rc_learner_end_task(&whole);
    rc_learner_end_task(&resumed);
    assert_int_equal(whole.source->images.offered, 160);
    expect_same_buffer(&whole.source->images, &resumed.source->images);
    int old = 0, new = 0;
    for (int i = 0; i < 20; i++) {
        old += whole.source->images.labels[i] < 3;
        new += whole.source->images.labels[i] >= 3;
    }
    assert_true(old > 0 && new > 0);
    rc_learner_destroy(&whole);
    rc_learner_destroy(&resumed);
}

/* The other method has no use for images: they are gone. */
static void a_data_free_method_keeps_no_buffer(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    const rc_method *cwd;
    rc_learner l;
    create_taught(&l, be, "lode", &s);
    assert_int_equal(rc_learner_stored(&l).images, 20 * (PIXELS + 4));
    SUCCEEDS(rc_method_find("cwd", &cwd));
    SUCCEEDS(rc_learner_set_method(&l, cwd));
    assert_int_equal(rc_learner_stored(&l).images, 0);
    assert_int_equal(l.source->images.capacity, 0);
    rc_learner_destroy(&l);
}

/* The pool has the new images and then the old ones, each in the order in which they were given, with their labels. */
static void expect_pool(const rc_learner *l, int classes, int per_class)
{
    int32_t *labels, label;
    uint8_t *images = learning_images(0, classes, per_class, &labels), image[PIXELS];
    int at[2] = {0, l->images};
    for (int i = 0; i < classes * per_class; i++) {
        int place = at[labels[i] < l->n_old]++;
        be->read_images(be, image, l->task_images, (size_t)place * PIXELS, PIXELS);
        be->read_bytes(be, &label, l->data.labels + place, sizeof label);
        assert_int_equal(label, labels[i]);
        assert_memory_equal(image, images + i * PIXELS, PIXELS);
    }
    assert_true(at[0] == l->images && at[1] == l->given);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* Real old images, for analysis: they are replayed, all of them, and not trained on beside the new ones. */
static void real_old_images_are_replayed(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    create_taught(&l, be, "real-lce", &s);
    learning_begin(&l, 1, 2, 16);
    assert_int_equal(l.images, 32);
    assert_int_equal(l.source->images.held, 48);
    assert_false(l.joins_old);
    expect_pool(&l, 5, 16);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_TRAINING, 0, &learning_no_hooks, NULL));
    rc_learner_end_task(&l);
    assert_int_equal(l.source->images.capacity, 0);
    assert_int_equal(rc_learner_stored(&l).images, 80 * (PIXELS + 4)); /* who gives them has kept them */

    int32_t *labels;
    uint8_t *images = learning_images(5, 1, 8, &labels);
    assert_int_equal(rc_learner_begin_task(&l, 2, 1, images, labels, 8), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "0 images of old classes"));
    rc_free(NULL, images);
    rc_free(NULL, labels);
    rc_learner_destroy(&l);
}

/* Rows that say how many images they keep, and what they weigh: a setting wins, also one that is another row's
 * number. */
static void rows_have_numbers_of_their_own_until_a_setting_says_others(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        int buffer_size, capacity;
        double lode_rho, inter; /* in the second task: half of it counts */
    } cases[] = {{"er", 0, 500, 0, 0},
                 {"er-5120", 0, 5120, 0, 0},
                 {"er-5120", 500, 500, 0, 0},
                 {"lode", 0, 500, 0, 0.025},
                 {"lode", 20, 20, 0.2, 0.1},
                 {"lode-5120", 0, 5120, 0, 0.005},
                 {"lode-5120", 500, 500, 0, 0.005},
                 {"lode-5120", 0, 5120, 0.05, 0.025}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_settings s = learning_settings();
        rc_learner l;
        s.buffer_size = cases[i].buffer_size;
        s.lode_rho = cases[i].lode_rho;
        learning_create(&l, be, cases[i].method, &s);
        assert_int_equal(l.source->images.capacity, cases[i].capacity);
        learning_begin(&l, 0, 3, 8);
        rc_learner_end_task(&l);
        learning_begin(&l, 0, 2, 8);
        float weight[RC_LOSS_COUNT];
        bool active[RC_LOSS_COUNT];
        rc_stage_weights(&l, RC_STAGE_TRAINING, weight, active);
        assert_int_equal(active[RC_LOSS_INTER], cases[i].inter > 0);
        assert_true(!active[RC_LOSS_INTER] || fabs((double)weight[RC_LOSS_INTER] - cases[i].inter) < 1e-8);
        rc_learner_destroy(&l);
    }
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

enum { CLASSES = 5, BATCH = 8 };

typedef struct outcome {
    float loss[RC_LOSS_COUNT];
    int32_t labels[2 * BATCH];
    float teacher_logits[2 * BATCH * 3];
    double input[2 * BATCH * PIXELS];
} outcome;

/* Some steps of a second task, of 2 classes, with the row's objective or another one. */
static void run_steps(rc_learner *l, const rc_objective *losses, int steps, outcome *o)
{
    rc_training *training;
    rc_replay *replay;
    rc_training_settings settings = {.batch = BATCH,
                                     .n_old = 3,
                                     .losses = losses ? *losses : l->method->main,
                                     .kd_temperature = 2,
                                     .seed = l->settings.seed,
                                     .task = 1};
    rc_learner_send_order(l, 0);
    SUCCEEDS(rc_learner_replay(l, RC_STREAM_DREAMS, &replay));
    SUCCEEDS(rc_training_create(l->backend, &settings, &l->student, l->has.teacher ? &l->teacher : NULL, replay,
                                &l->data, &training));
    SUCCEEDS(rc_training_prepare_epoch(training, 0));
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        rc_training_control(training)->weight[i] = 1;
    rc_training_control(training)->learning_rate = 0.01f;
    rc_training_send(training);
    SUCCEEDS(l->backend->repeat(l->backend, rc_training_step, training, steps));
    rc_training_view view = rc_training_look(training);
    l->backend->read_real(l->backend, o->loss, view.loss, RC_LOSS_COUNT);
    l->backend->read_bytes(l->backend, o->labels, view.labels, sizeof o->labels);
    l->backend->read_act(l->backend, o->input, view.input, view.input->raw);
    if (view.teacher_logits != NULL)
        l->backend->read_real(l->backend, o->teacher_logits, view.teacher_logits, 2 * BATCH * 3);
    rc_training_destroy(training);
}

/* Before they are weighted, LODE's two parts are the cross entropy over all classes. */
static void parts_of_lode_add_up_to_cross_entropy(void **state)
{
    (void)state;
    static const rc_objective plain = {.real = RC_CE_ALL, .replay = RC_CE_ALL};
    static outcome parts, whole;
    rc_settings s = learning_settings();
    for (int i = 0; i < 2; i++) {
        rc_learner l;
        create_taught(&l, be, "lode", &s);
        learning_begin(&l, 1, 2, 16);
        run_steps(&l, i == 0 ? NULL : &plain, 1, i == 0 ? &parts : &whole);
        rc_learner_destroy(&l);
    }
    double sum = (double)parts.loss[RC_LOSS_INTER] + (double)parts.loss[RC_LOSS_INTRA];
    assert_true(parts.loss[RC_LOSS_INTER] > 0 && parts.loss[RC_LOSS_INTRA] > 0);
    assert_true(fabs(sum - (double)whole.loss[RC_LOSS_CE]) < 1e-5);
    assert_true(parts.loss[RC_LOSS_REPLAY] == whole.loss[RC_LOSS_REPLAY]);
}

/* What is replayed does not depend on who computes: the same images and labels on every backend. */
static void every_backend_replays_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "reference", "reference64"};
    static outcome o[3];
    rc_settings s = learning_settings();
    for (int i = 0; i < 3; i++) {
        rc_backend *backend;
        rc_learner l;
        SUCCEEDS(rc_backend_open(names[i], 1, NULL, &backend));
        learning_create(&l, backend, "er", &s);
        learning_begin(&l, 0, 3, 16);
        l.learnt = true; /* as if its stages had run: the stream does not depend on what is learnt of it */
        rc_learner_end_task(&l);
        learning_begin(&l, 1, 2, 16);
        run_steps(&l, NULL, 3, &o[i]);
        rc_learner_destroy(&l);
        rc_backend_close(backend);
        assert_memory_equal(o[i].labels, o[0].labels, sizeof o[0].labels);
        for (int k = 0; k < 2 * BATCH * PIXELS; k++)
            assert_true(fabs(o[i].input[k] - o[0].input[k]) < 1e-5);
    }
    int old = 0;
    for (int b = 0; b < 2 * BATCH; b++) {
        assert_true(b >= BATCH || o[0].labels[b] >= 3);
        old += o[0].labels[b] < 3;
    }
    assert_true(old > 0);
}

/* A task of n_new classes whose images are all one picture. */
static void begin_one_picture(rc_learner *l, int task, int n_new, int count)
{
    int32_t *labels;
    uint8_t *images = learning_images(0, 1, count, &labels);
    for (int i = 0; i < count; i++) {
        memcpy(images + i * PIXELS, images, PIXELS);
        labels[i] = l->student.head.classes + i % n_new;
    }
    SUCCEEDS(rc_learner_begin_task(l, task, n_new, images, labels, count));
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* Augmentation is drawn anew whenever an image is replayed, and not as for the new image beside it. */
static void replayed_images_are_augmented_on_their_own(void **state)
{
    (void)state;
    static outcome o;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_create(&l, be, "er", &s);
    begin_one_picture(&l, 0, 3, 48);
    l.learnt = true;
    rc_learner_end_task(&l);
    begin_one_picture(&l, 1, 2, 32);
    run_steps(&l, NULL, 1, &o);
    int same = 0;
    for (int b = 0; b < BATCH; b++)
        same += memcmp(o.input + b * PIXELS, o.input + (BATCH + b) * PIXELS, PIXELS * sizeof *o.input) == 0;
    assert_in_range(same, 0, 1); /* of 162 crops and flips each */
    rc_learner_destroy(&l);
}

/* ---- DGR ------------------------------------------------------------------------------------------------------ */

/* Images of the old decoder, from 0 to 1, with the labels that the old classifier gives them; both stay as
 * they were while their successors learn. */
static void dgr_replays_what_the_old_models_say(void **state)
{
    (void)state;
    static outcome o;
    rc_settings s = learning_settings();
    rc_learner l;
    create_taught(&l, be, "dgr", &s);
    assert_true(l.augment.mean[0] == 0 && l.augment.std[0] == 1);
    learning_begin(&l, 1, 2, 16);
    size_t params = learning_vae(&l)->decoder.net->params;
    float *old = rc_alloc_zeroed(NULL, 3 * params, sizeof *old), *old_after = old + params, *now = old + 2 * params;
    be->read_real(be, old, learning_old_decoder(&l)->param, params);
    run_steps(&l, NULL, 2, &o);
    be->read_real(be, old_after, learning_old_decoder(&l)->param, params);
    be->read_real(be, now, learning_vae(&l)->decoder.param, params);
    assert_memory_equal(old, old_after, params * sizeof *old);
    assert_memory_not_equal(old, now, params * sizeof *old);
    assert_int_equal(rc_learner_stored(&l).model, (params + learning_vae(&l)->encoder.net->params) * sizeof *old);
    rc_free(NULL, old);
    for (int b = BATCH; b < 2 * BATCH; b++) {
        const float *z = o.teacher_logits + b * 3;
        int best = z[1] > z[0] ? 1 : 0;
        best = z[2] > z[best] ? 2 : best;
        assert_int_equal(o.labels[b], best);
    }
    double low = 1, high = 0;
    for (int i = BATCH * PIXELS; i < 2 * BATCH * PIXELS; i++) {
        low = fmin(low, o.input[i]);
        high = fmax(high, o.input[i]);
    }
    assert_true(low > 0 && high < 1 && high - low > 0.01);
    assert_true(o.loss[RC_LOSS_RECONSTRUCTION] > 0 && o.loss[RC_LOSS_LATENT] >= 0);
    rc_learner_destroy(&l);
}

/* The autoencoder on the backend in double, and the numbers of one of its steps. */
typedef struct bench {
    rc_backend *be;
    rc_replay *replay;
    rc_model *model[2]; /* encoder, decoder */
    rc_tensor input;
    rc_step *step;
} bench;

/* Its loss with the learning rate given: 0 leaves the parameters alone. */
static double loss_of(bench *b, float learning_rate)
{
    rc_step step = {.seed = 4, .step = 7, .learning_rate = learning_rate};
    double loss[RC_LOSS_COUNT];
    step.weight[RC_LOSS_RECONSTRUCTION] = step.weight[RC_LOSS_LATENT] = 1;
    b->be->write_bytes(b->be, b->step, &step, sizeof step);
    b->replay->table->learn(b->replay, b->step, &b->input, NULL);
    SUCCEEDS(b->be->sync(b->be));
    b->be->read_real64(b->be, loss, b->replay->loss, RC_LOSS_COUNT);
    return loss[RC_LOSS_RECONSTRUCTION] + loss[RC_LOSS_LATENT];
}

/* What a step of plain SGD takes from the parameters, over the learning rate, is the gradient; along it the loss must
 * change as finite differences say. */
static void check_slope(bench *b, int which)
{
    const rc_model *m = b->model[which], *other = b->model[1 - which];
    size_t count = m->net->params, others = other->net->params;
    double *x = malloc(count * sizeof *x), *moved = malloc(count * sizeof *moved), slope = 0, value[2];
    double *aside = malloc(others * sizeof *aside);
    const double rate = 0.0625, h = 1e-6;
    b->be->read_real64(b->be, x, m->param, count);
    b->be->read_real64(b->be, aside, other->param, others);
    loss_of(b, (float)rate);
    b->be->read_real64(b->be, moved, m->param, count);
    b->be->write_real64(b->be, other->param, aside, others);
    for (size_t i = 0; i < count; i++)
        slope += (x[i] - moved[i]) / rate * rc_rng_normal((rc_rng){8, 1}, i);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            moved[i] = x[i] + (side ? h : -h) * rc_rng_normal((rc_rng){8, 1}, i);
        b->be->write_real64(b->be, m->param, moved, count);
        value[side] = loss_of(b, 0);
    }
    b->be->write_real64(b->be, m->param, x, count);
    double measured = (value[1] - value[0]) / (2 * h);
    if (!(fabs(slope) > 1e-4 && fabs(measured - slope) < 1e-4 * fabs(slope) + 1e-7))
        fail_msg("%s: %.9g, finite differences %.9g", which ? "decoder" : "encoder", slope, measured);
    free(x);
    free(moved);
    free(aside);
}

static void gradients_of_the_autoencoder_are_those_of_its_loss(void **state)
{
    (void)state;
    bench b;
    rc_learner l;
    void *memory;
    rc_settings s = learning_settings();
    s.momentum = 0;
    s.vae_width = 8;
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &b.be));
    learning_create(&l, b.be, "dgr", &s);
    learning_begin(&l, 0, 3, 8);
    SUCCEEDS(rc_learner_replay(&l, RC_STREAM_DREAMS, &b.replay));
    assert_int_equal(b.replay->batch, 0); /* the first task has nothing to replay */
    SUCCEEDS(b.be->alloc(b.be, RC_LOSS_COUNT * b.be->real_bytes, &b.replay->loss));
    SUCCEEDS(b.be->alloc(b.be, sizeof *b.step, &memory));
    SUCCEEDS(rc_tensor_create(b.be, BATCH, LEARNING_SIZE, LEARNING_SIZE, LEARNING_CHANNELS, &b.input));
    double *pixels = malloc(BATCH * PIXELS * sizeof *pixels);
    for (int i = 0; i < BATCH * PIXELS; i++)
        pixels[i] = (double)rc_rng_uniform((rc_rng){2, 2}, (uint64_t)i);
    b.be->write_act(b.be, &b.input, pixels);
    free(pixels);
    b.step = memory;
    b.model[0] = &learning_vae(&l)->encoder;
    b.model[1] = &learning_vae(&l)->decoder;
    check_slope(&b, 0);
    check_slope(&b, 1);
    b.be->release(b.be, b.replay->loss);
    b.be->release(b.be, memory);
    rc_tensor_destroy(b.be, &b.input);
    rc_replay_destroy(b.replay);
    rc_learner_destroy(&l);
    rc_backend_close(b.be);
}

/* All biases of a layer. */
static void set_bias(const rc_model *m, int layer, double value)
{
    const rc_layer *at = &m->net->layer[layer];
    double *param = calloc(m->net->params, sizeof *param);
    m->backend->read_real64(m->backend, param, m->param, m->net->params);
    for (size_t i = 0; i < rc_layer_biases(at); i++)
        param[at->bias_at + i] = value;
    m->backend->write_real64(m->backend, m->param, param, m->net->params);
    free(param);
}

static void set_zero(const rc_model *m)
{
    double *zeros = calloc(m->net->params, sizeof *zeros);
    m->backend->write_real64(m->backend, m->param, zeros, m->net->params);
    free(zeros);
}

/* Where all is known: an encoder that says m and log s^2 of every image, a decoder that makes every pixel
 * sigmoid(1). New images have pixels 0.25, replayed ones 0.75, of 3 old classes and 2 new ones. */
static void losses_of_the_autoencoder_are_weighted(void **state)
{
    (void)state;
    bench b;
    rc_learner l;
    void *memory;
    rc_settings s = learning_settings();
    const double m = 0.5, log_variance = -0.4, p = 1 / (1 + exp(-1.0));
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &b.be));
    learning_create(&l, b.be, "dgr", &s);
    learning_begin(&l, 0, 3, 8);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 2, 8);
    SUCCEEDS(rc_learner_replay(&l, RC_STREAM_DREAMS, &b.replay));
    SUCCEEDS(b.be->alloc(b.be, RC_LOSS_COUNT * b.be->real_bytes, &b.replay->loss));
    SUCCEEDS(b.be->alloc(b.be, sizeof *b.step, &memory));
    SUCCEEDS(rc_tensor_create(b.be, 2 * BATCH, LEARNING_SIZE, LEARNING_SIZE, LEARNING_CHANNELS, &b.input));
    double *pixels = malloc(2 * BATCH * PIXELS * sizeof *pixels);
    for (int i = 0; i < 2 * BATCH * PIXELS; i++)
        pixels[i] = i < BATCH * PIXELS ? 0.25 : 0.75;
    b.be->write_act(b.be, &b.input, pixels);
    free(pixels);
    b.step = memory;
    const rc_net *encoder = learning_vae(&l)->encoder.net, *decoder = learning_vae(&l)->decoder.net;
    set_zero(&learning_vae(&l)->encoder);
    set_zero(&learning_vae(&l)->decoder);
    set_bias(&learning_vae(&l)->encoder, encoder->layers - 2, m);
    set_bias(&learning_vae(&l)->encoder, encoder->layers - 1, log_variance);
    set_bias(&learning_vae(&l)->decoder, decoder->layers - 1, 1);
    loss_of(&b, 0);
    double loss[RC_LOSS_COUNT];
    b.be->read_real64(b.be, loss, b.replay->loss, RC_LOSS_COUNT);
    double new_image = -(0.25 * log(p) + 0.75 * log(1 - p)), old_image = -(0.75 * log(p) + 0.25 * log(1 - p));
    double latent = -0.5 * decoder->c * (1 + log_variance - m * m - exp(log_variance)) / PIXELS;
    assert_true(fabs(loss[RC_LOSS_RECONSTRUCTION] - (0.4 * new_image + 0.6 * old_image) / 2) < 1e-7);
    assert_true(fabs(loss[RC_LOSS_LATENT] - latent) < 1e-7);
    b.be->release(b.be, b.replay->loss);
    b.be->release(b.be, memory);
    rc_tensor_destroy(b.be, &b.input);
    rc_replay_destroy(b.replay);
    rc_learner_destroy(&l);
    rc_backend_close(b.be);
}

typedef struct first_and_last {
    double first, last;
} first_and_last;

static rc_status note_reconstruction(void *user, const rc_stage_report *report)
{
    first_and_last *r = user;
    r->last = report->loss[RC_LOSS_RECONSTRUCTION];
    r->first = r->first > 0 ? r->first : r->last;
    return RC_OK;
}

static void the_autoencoder_learns(void **state)
{
    (void)state;
    if (getenv("RECOLLECT_TEST_LIGHT") != NULL)
        skip();
    rc_settings s = learning_settings();
    first_and_last r = {0};
    rc_stage_hooks hooks = {.boundary = note_reconstruction, .user = &r, .interval = 0};
    rc_learner l;
    s.epochs = 20;
    learning_create(&l, be, "dgr", &s);
    learning_teach(&l, 0, 3, 16, &hooks);
    assert_true(r.first > 0.65 && r.last < r.first - 0.05); /* log 2 where every pixel is taken for a half */
    rc_learner_destroy(&l);
}

/* The message names the method, which may be one of many, and the setting. */
static void dgr_says_which_images_it_takes(void **state)
{
    (void)state;
    rc_learner l;
    rc_augment image = {.h = 28, .w = 28, .c = 1, .std = {1}};
    const rc_settings s = learning_settings();
    const rc_method *dgr;
    SUCCEEDS(rc_method_find("dgr", &dgr));
    assert_int_equal(rc_learner_create(&l, be, &s, dgr, &image), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "DGR has no autoencoder for these images: net 'vae-encoder' cannot take images "
                                      "of 28 pixels: expected a multiple of 8, at most 4096. The setting 'size' makes "
                                      "them larger or smaller");
}

static void dgr_goes_on_from_its_own_models_alone(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    const rc_method *dgr;
    rc_learner l;
    create_taught(&l, be, "er", &s);
    SUCCEEDS(rc_method_find("dgr", &dgr));
    assert_int_equal(rc_learner_set_method(&l, dgr), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "ER makes none"));
    rc_learner_destroy(&l);
}

/* ---- that it helps -------------------------------------------------------------------------------------------- */

/* Percent of old classes, of images that were not trained on. */
static double old_accuracy(const char *method)
{
    rc_settings s = learning_settings();
    rc_learner l;
    rc_task_stream stream;
    rc_evaluation e;
    rc_task_split split = {.sizes = 2, .size = {3, 2}};
    s.net_width = 8;
    s.epochs = 14;
    s.milestone[0] = 10;
    s.buffer_size = 60;
    learning_create(&l, be, method, &s);
    for (int task = 0; task < 2; task++) {
        learning_teach(&l, task, task == 0 ? 3 : 2, 40, &learning_no_hooks);
        rc_learner_end_task(&l);
    }
    rc_split test = {.count = 5 * 60};
    test.images = learning_images(0, 5, 60, &test.labels); /* the last 20 of each class are new */
    memmove(test.images, test.images + 5 * 40 * PIXELS, 5 * 20 * PIXELS);
    test.count = 5 * 20;
    SUCCEEDS(rc_task_stream_create(&stream, 5, NULL, &split));
    SUCCEEDS(rc_evaluate(be, &l.student, &l.augment, &stream, &test, 50, NULL, &e));
    double accuracy = rc_accuracy(&e, 0, 3);
    rc_evaluation_destroy(&e);
    rc_task_stream_destroy(&stream);
    rc_free(NULL, test.images);
    rc_free(NULL, test.labels);
    rc_learner_destroy(&l);
    return accuracy;
}

static void buffers_keep_old_classes(void **state)
{
    (void)state;
    if (getenv("RECOLLECT_TEST_LIGHT") != NULL)
        skip();
    double finetune = old_accuracy("finetune"), er = old_accuracy("er"), lode = old_accuracy("lode");
    print_message("old classes: fine-tuning %.1f, ER %.1f, LODE %.1f %%\n", finetune, er, lode);
    assert_true(finetune < 20);
    assert_true(er > finetune + 30 && lode > finetune + 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_can_be_resumed),
        cmocka_unit_test(a_buffer_takes_what_a_task_has_shown),
        cmocka_unit_test(a_data_free_method_keeps_no_buffer),
        cmocka_unit_test(real_old_images_are_replayed),
        cmocka_unit_test(rows_have_numbers_of_their_own_until_a_setting_says_others),
        cmocka_unit_test(parts_of_lode_add_up_to_cross_entropy),
        cmocka_unit_test(every_backend_replays_the_same),
        cmocka_unit_test(replayed_images_are_augmented_on_their_own),
        cmocka_unit_test(dgr_replays_what_the_old_models_say),
        cmocka_unit_test(gradients_of_the_autoencoder_are_those_of_its_loss),
        cmocka_unit_test(losses_of_the_autoencoder_are_weighted),
        cmocka_unit_test(the_autoencoder_learns),
        cmocka_unit_test(dgr_says_which_images_it_takes),
        cmocka_unit_test(dgr_goes_on_from_its_own_models_alone),
        cmocka_unit_test(buffers_keep_old_classes),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
