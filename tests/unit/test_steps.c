/* Whole steps: they learn, they allocate nothing, and the number of threads changes no bit. Their gradients are
 * compared with PyTorch's in test_oracle_*. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/sources.h"
#include "cil/step_inversion.h"
#include "nn/nets.h"

enum { SIZE = 14, CHANNELS = 3, IMAGES = 64, BATCH = 8, OLD = 3, NEW = 2, NOISE = 16, STEPS = 5, EPOCHS = 12 };

typedef struct world {
    rc_backend *backend;
    rc_net net, dreaming;
    rc_classifier student, teacher;
    rc_model generator;
    void *memory; /* images, labels, order */
    rc_resident_data data;
    void *class_mean, *covariance;
} world;

/* Images of class k are bright in a column that k chooses. */
static void make_data(world *w)
{
    size_t pixels = (size_t)IMAGES * SIZE * SIZE * CHANNELS, labels = IMAGES * sizeof(int32_t);
    uint8_t images[IMAGES * SIZE * SIZE * CHANNELS];
    int32_t label[IMAGES], order[IMAGES];
    for (int i = 0; i < IMAGES; i++) {
        label[i] = OLD + i % NEW;
        order[i] = (i * 5) % IMAGES;
        for (int p = 0; p < SIZE * SIZE * CHANNELS; p++)
            images[i * SIZE * SIZE * CHANNELS + p] = (uint8_t)((p / CHANNELS % SIZE == 2 * (i % NEW) + 1 ? 200 : 40) +
                                                               (p * 7 + i * 13) % 31);
    }
    assert_int_equal(w->backend->alloc(w->backend, pixels + 2 * labels, &w->memory), RC_OK);
    char *base = w->memory;
    w->backend->write_bytes(w->backend, base, label, labels);
    w->backend->write_bytes(w->backend, base + labels, order, labels);
    w->backend->write_bytes(w->backend, base + 2 * labels, images, pixels);
    w->data = (rc_resident_data){.images = (const uint8_t *)base + 2 * labels,
                                 .labels = (const int32_t *)(const void *)base,
                                 .order = (const int32_t *)(const void *)(base + labels),
                                 .augment = {.h = SIZE,
                                             .w = SIZE,
                                             .c = CHANNELS,
                                             .pad = 1,
                                             .flip = false,
                                             .zoom = 0x20000000,
                                             .colour = 0.125f,
                                             .mean = {0.4f, 0.4f, 0.4f},
                                             .std = {0.3f, 0.3f, 0.3f},
                                             .stream = RC_STREAM_AUGMENT}};
}

static void open_world(world *w, const char *backend, int threads)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(rc_backend_open(backend, threads, NULL, &w->backend), RC_OK);
    assert_int_equal(rc_net_resnet_small(&w->net, CHANNELS, SIZE, SIZE, 4, 1), RC_OK);
    assert_int_equal(rc_net_generator_small(&w->dreaming, CHANNELS, SIZE, NOISE, 8), RC_OK);
    assert_int_equal(rc_classifier_create(&w->teacher, &w->net, w->backend, OLD), RC_OK);
    assert_int_equal(rc_model_init(&w->teacher.backbone, (rc_rng){1, 0}), RC_OK);
    assert_int_equal(rc_head_grow(&w->teacher.head, OLD, (rc_rng){1, 500}), RC_OK);
    assert_int_equal(rc_classifier_clone(&w->student, &w->teacher), RC_OK);
    assert_int_equal(rc_head_grow(&w->student.head, NEW, (rc_rng){1, 501}), RC_OK);
    assert_int_equal(rc_model_create(&w->generator, &w->dreaming, w->backend), RC_OK);
    assert_int_equal(rc_model_init(&w->generator, (rc_rng){1, 1000}), RC_OK);
    size_t d = (size_t)rc_net_features(&w->net);
    assert_int_equal(w->backend->alloc(w->backend, OLD * d * w->backend->real_bytes, &w->class_mean), RC_OK);
    assert_int_equal(w->backend->alloc(w->backend, d * d * w->backend->real_bytes, &w->covariance), RC_OK);
    make_data(w);
}

static void close_world(world *w)
{
    w->backend->release(w->backend, w->memory);
    w->backend->release(w->backend, w->class_mean);
    w->backend->release(w->backend, w->covariance);
    rc_classifier_destroy(&w->student);
    rc_classifier_destroy(&w->teacher);
    rc_model_destroy(&w->generator);
    rc_backend_close(w->backend);
}

static rc_replay *make_dreams(world *w)
{
    rc_replay *replay;
    assert_int_equal(rc_replay_dreams_create(w->backend, &w->generator, 1, BATCH, RC_STREAM_DREAMS, &replay), RC_OK);
    return replay;
}

static rc_training *make_training(world *w)
{
    rc_training_settings settings = {.batch = BATCH,
                                     .n_old = OLD,
                                     .losses = {.real = RC_CE_NEW, .hkd = true, .rkd = true, .war = true},
                                     .sgd = {.momentum = 0.9f, .weight_decay = 5e-4f},
                                     .seed = 3,
                                     .task = 1};
    rc_training *training;
    assert_int_equal(rc_training_create(w->backend, &settings, &w->student, &w->teacher, make_dreams(w), &w->data,
                                        &training),
                     RC_OK);
    rc_step *control = rc_training_control(training);
    control->learning_rate = 0.05f;
    control->weight[RC_LOSS_CE] = 1;
    control->weight[RC_LOSS_HKD] = 0.5f;
    control->weight[RC_LOSS_RKD] = 0.5f;
    control->weight[RC_LOSS_WAR] = 0.1f;
    rc_training_send(training);
    return training;
}

static rc_inversion *make_inversion(world *w)
{
    rc_inversion_settings settings = {.batch = BATCH,
                                      .temperature = 1000,
                                      .diversity_epsilon = 1e-6f,
                                      .prior = true,
                                      .bn_form = RC_BN_KL,
                                      .consistency = true,
                                      .dce_momentum = 0.9f,
                                      .class_mean = w->class_mean,
                                      .covariance = w->covariance,
                                      .adam = {0.9f, 0.999f, 1e-8f},
                                      .seed = 4,
                                      .task = 1};
    rc_inversion *inversion;
    assert_int_equal(rc_inversion_create(w->backend, &settings, &w->teacher, &w->generator, &inversion), RC_OK);
    rc_step *control = rc_inversion_control(inversion);
    control->learning_rate = 1e-3f;
    control->weight[RC_LOSS_CONTENT] = 1;
    control->weight[RC_LOSS_DIVERSITY] = 1;
    control->weight[RC_LOSS_BN] = 50;
    control->weight[RC_LOSS_PRIOR] = 1e-3f;
    control->weight[RC_LOSS_DCE] = 0.05f;
    rc_inversion_send(inversion);
    return inversion;
}

static float loss_of(world *w, const void *losses, rc_loss loss)
{
    float value;
    w->backend->read_real(w->backend, &value, rc_real_at(w->backend, losses, loss), 1);
    return value;
}

/* n steps of inversion, then n of training; the parameters of student and generator afterwards. */
static float *run_both(const char *backend, int threads, int steps, size_t *count)
{
    world w;
    open_world(&w, backend, threads);
    rc_inversion *inversion = make_inversion(&w);
    assert_int_equal(w.backend->repeat(w.backend, rc_inversion_step, inversion, steps), RC_OK);
    rc_training *training = make_training(&w);
    assert_int_equal(w.backend->repeat(w.backend, rc_training_step, training, steps), RC_OK);
    size_t student = w.net.params, dreams = w.dreaming.params;
    *count = student + dreams;
    float *all = rc_alloc_zeroed(NULL, *count, sizeof *all);
    w.backend->read_real(w.backend, all, w.student.backbone.param, student);
    w.backend->read_real(w.backend, all + student, w.generator.param, dreams);
    rc_inversion_destroy(inversion);
    rc_training_destroy(training);
    close_world(&w);
    return all;
}

static void same_bits_for_any_number_of_threads(void **state)
{
    (void)state;
    size_t count;
    float *one = run_both("cpu", 1, STEPS, &count);
    for (int threads = 2; threads <= 5; threads++) {
        float *other = run_both("cpu", threads, STEPS, &count);
        assert_memory_equal(one, other, count * sizeof *one);
        rc_free(NULL, other);
    }
    rc_free(NULL, one);
}

/* Five steps in single precision stay near the same steps in double. */
static void follows_the_double_reference(void **state)
{
    (void)state;
    size_t count;
    float *fast = run_both("cpu", 2, STEPS, &count), *reference = run_both("reference64", 1, STEPS, &count);
    double worst = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        worst += pow((double)fast[i] - (double)reference[i], 2);
        norm += pow((double)reference[i], 2);
    }
    print_message("relative distance after %d steps: %.2e\n", STEPS, sqrt(worst / norm));
    assert_true(sqrt(worst / norm) < 1e-5); /* rounding of five steps; Adam divides by small moments */
    rc_free(NULL, fast);
    rc_free(NULL, reference);
}

static void steps_learn_and_allocate_nothing(void **state)
{
    (void)state;
    world w;
    open_world(&w, "cpu", 2);
    rc_inversion *inversion = make_inversion(&w);
    rc_training *training = make_training(&w);
    rc_inversion_step(inversion);
    float bn_before = loss_of(&w, rc_inversion_look(inversion).loss, RC_LOSS_BN);
    rc_training_step(training);
    float ce_before = loss_of(&w, rc_training_look(training).loss, RC_LOSS_CE);
    uint64_t allocations = rc_allocation_count();
    assert_int_equal(w.backend->repeat(w.backend, rc_inversion_step, inversion, 40), RC_OK);
    /* Seven batches are an epoch: the order has room for eight. */
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        rc_training_control(training)->batch = UINT32_MAX;
        rc_training_control(training)->step = (uint32_t)epoch * 7 + UINT32_MAX;
        rc_training_send(training);
        assert_int_equal(w.backend->repeat(w.backend, rc_training_step, training, 7), RC_OK);
    }
    assert_int_equal(rc_allocation_count(), allocations);
    float bn_after = loss_of(&w, rc_inversion_look(inversion).loss, RC_LOSS_BN);
    float ce_after = loss_of(&w, rc_training_look(training).loss, RC_LOSS_CE);
    print_message("BN loss %.3f -> %.3f, cross entropy %.3f -> %.3f\n", (double)bn_before, (double)bn_after,
                  (double)ce_before, (double)ce_after);
    assert_true(bn_after < 0.8f * bn_before);
    assert_true(ce_after < 0.5f * ce_before);
    int32_t count[OLD + NEW], total = 0;
    w.backend->read_bytes(w.backend, count, rc_training_look(training).label_count, sizeof count);
    for (int k = 0; k < OLD + NEW; k++)
        total += count[k];
    assert_int_equal(total, (1 + 7 * EPOCHS) * 2 * BATCH);
    assert_int_equal(count[OLD] + count[OLD + 1], (1 + 7 * EPOCHS) * BATCH);
    rc_inversion_destroy(inversion);
    rc_training_destroy(training);
    close_world(&w);
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const char *const no_teacher = "losses or replay need the old model, but there is no teacher";
    static const char *const no_replay = "there are losses on replayed samples, but there is no replay";
    static const char
        *const no_old = "the first task has no old classes: distillation, WAR and weights of classes must be off";
    world w;
    open_world(&w, "cpu", 1);
    const struct {
        rc_training_settings settings;
        bool teacher, dreams;
        const char *message;
    } bad[] = {
        {{.batch = 0, .n_old = OLD, .losses = {.hkd = true}}, true, true, "batch is 0, expected 1 or more"},
        {{.batch = BATCH, .n_old = OLD + NEW, .losses = {.hkd = true}},
         true,
         true,
         "5 old classes, expected 0 to 4: the head has 5 rows"},
        {{.batch = BATCH, .n_old = -1, .losses = {.real = RC_CE_ALL}},
         true,
         true,
         "-1 old classes, expected 0 to 4: the head has 5 rows"},
        {{.batch = BATCH, .n_old = OLD - 1, .losses = {.hkd = true}},
         true,
         true,
         "the teacher knows 3 classes, expected 2"},
        {{.batch = BATCH, .n_old = OLD, .losses = {.hkd = true}}, false, true, no_teacher},
        {{.batch = BATCH, .n_old = OLD, .losses = {.rkd = true}}, false, false, no_teacher},
        {{.batch = BATCH, .n_old = OLD, .losses = {.real = RC_CE_ALL}}, false, true, no_teacher},
        {{.batch = BATCH, .n_old = OLD, .losses = {.hkd = true}}, true, false, no_replay},
        {{.batch = BATCH, .n_old = OLD, .losses = {.replay = RC_CE_OLD}}, true, false, no_replay},
        {{.batch = BATCH, .n_old = OLD, .losses = {.kd_replay = RC_KD_OLD}}, true, false, no_replay},
        {{.batch = BATCH, .losses = {.rkd = true}}, false, false, no_old},
        {{.batch = BATCH, .losses = {.war = true}}, false, false, no_old},
        {{.batch = BATCH, .losses = {.class_weights = true}}, false, false, no_old},
        {{.batch = BATCH, .losses = {.real = RC_CE_DECOUPLED}}, false, false, no_old},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rc_training *training;
        assert_int_equal(rc_training_create(w.backend, &bad[i].settings, &w.student, bad[i].teacher ? &w.teacher : NULL,
                                            bad[i].dreams ? make_dreams(&w) : NULL, &w.data, &training),
                         RC_INVALID_ARGUMENT);
        assert_null(training);
        assert_string_equal(rc_message(), bad[i].message);
    }
    rc_net other;
    assert_int_equal(rc_net_generator_small(&other, CHANNELS, 2 * SIZE, NOISE, 8), RC_OK);
    assert_int_equal(rc_check_dreams(&other, &w.net), RC_INVALID_ARGUMENT);
    rc_inversion *inversion = (rc_inversion *)&w;
    rc_inversion_settings v = {.batch = 0};
    assert_int_equal(rc_inversion_create(w.backend, &v, &w.teacher, &w.generator, &inversion), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "batch is 0, expected 2 or more: a covariance of one dream is undefined");
    assert_null(inversion);
    v.batch = 1;
    assert_int_equal(rc_inversion_create(w.backend, &v, &w.teacher, &w.generator, &inversion), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "batch is 1, expected 2 or more: a covariance of one dream is undefined");
    for (int half = 0; half < 3; half++) {
        v = (rc_inversion_settings){
            .batch = 2, .consistency = true, .class_mean = half == 1 ? &w : NULL, .covariance = half == 2 ? &w : NULL};
        assert_int_equal(rc_inversion_create(w.backend, &v, &w.teacher, &w.generator, &inversion), RC_INVALID_ARGUMENT);
        assert_string_equal(rc_message(), "DCE is on, but the classifier has no class statistics");
        assert_null(inversion);
    }
    rc_classifier empty;
    v = (rc_inversion_settings){.batch = BATCH};
    assert_int_equal(rc_classifier_create(&empty, &w.net, w.backend, 2), RC_OK);
    assert_int_equal(rc_inversion_create(w.backend, &v, &empty, &w.generator, &inversion), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "the classifier knows no class to dream of");
    rc_classifier_destroy(&empty);
    close_world(&w);
}

/* What a replay of these generators draws of a step, finished (BATCH, SIZE, SIZE, CHANNELS). */
static float *draw_dreams(world *w, const rc_model *generator, int generators, int batch)
{
    rc_backend *be = w->backend;
    size_t count = rc_act_count(be, batch, SIZE, SIZE, CHANNELS);
    float *drawn = rc_alloc_zeroed(NULL, count, sizeof *drawn);
    rc_step *step;
    rc_tensor images;
    rc_replay *replay;
    void *memory;
    const rc_step third = {.seed = 5, .task = 1, .step = 3};
    assert_int_equal(be->alloc(be, sizeof *step, &memory), RC_OK);
    step = memory;
    be->write_bytes(be, step, &third, sizeof third);
    assert_int_equal(rc_tensor_create(be, batch, SIZE, SIZE, CHANNELS, &images), RC_OK);
    assert_int_equal(rc_replay_dreams_create(be, generator, generators, batch, RC_STREAM_DREAMS, &replay), RC_OK);
    assert_int_equal(replay->batch, batch);
    assert_true(replay->bytes > 0);
    replay->table->draw(replay, step, &images, NULL);
    be->read_real(be, drawn, images.raw, count);
    replay->table->destroy(replay);
    rc_tensor_destroy(be, &images);
    be->release(be, memory);
    return drawn;
}

/* Row r of b is what generator r g / b alone would make of it, even if some of the g have no row. */
static void each_generator_makes_its_rows(void **state)
{
    (void)state;
    enum { MOST = 5 };
    static const int batches[] = {BATCH, 3, 1};
    world w;
    rc_model generator[MOST];
    open_world(&w, "reference64", 1);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(rc_model_create(&generator[i], &w.dreaming, w.backend), RC_OK);
        assert_int_equal(rc_model_init(&generator[i], (rc_rng){1, 2000 + (uint64_t)i}), RC_OK);
    }
    for (int b = 0; b < 3; b++) {
        int batch = batches[b];
        size_t image = rc_act_count(w.backend, 1, SIZE, SIZE, CHANNELS);
        float *alone[MOST];
        for (int i = 0; i < MOST; i++)
            alone[i] = draw_dreams(&w, &generator[i], 1, batch);
        assert_memory_not_equal(alone[0], alone[1], image * sizeof(float));
        for (int generators = 1; generators <= MOST; generators++) {
            float *all = draw_dreams(&w, generator, generators, batch);
            for (int row = 0; row < batch; row++)
                assert_memory_equal(all + (size_t)row * image, alone[row * generators / batch] + (size_t)row * image,
                                    image * sizeof(float));
            rc_free(NULL, all);
        }
        for (int i = 0; i < MOST; i++)
            rc_free(NULL, alone[i]);
    }
    for (int i = 0; i < MOST; i++)
        rc_model_destroy(&generator[i]);
    close_world(&w);
}

/* Generators of one task learn from noise of their own. */
static void each_generator_has_noise_of_its_own(void **state)
{
    (void)state;
    world w;
    float noise[3][BATCH * NOISE];
    open_world(&w, "reference64", 1);
    for (int i = 0; i < 3; i++) {
        rc_inversion_settings settings = {
            .batch = BATCH, .temperature = 1, .diversity_epsilon = 1, .generator = i / 2, .adam = rc_adam_default};
        rc_inversion *inversion;
        assert_int_equal(rc_inversion_create(w.backend, &settings, &w.teacher, &w.generator, &inversion), RC_OK);
        rc_inversion_control(inversion)->step = 0;
        rc_inversion_send(inversion);
        rc_inversion_noise(inversion);
        w.backend->read_real(w.backend, noise[i], rc_inversion_look(inversion).noise->raw, BATCH * NOISE);
        rc_inversion_destroy(inversion);
    }
    assert_memory_equal(noise[0], noise[1], sizeof noise[0]);
    assert_memory_not_equal(noise[0], noise[2], sizeof noise[0]);
    close_world(&w);
}

static void destroying_nothing_is_fine(void **state)
{
    (void)state;
    rc_inversion_destroy(NULL);
    rc_training_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroying_nothing_is_fine),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(follows_the_double_reference),
        cmocka_unit_test(steps_learn_and_allocate_nothing),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(each_generator_makes_its_rows),
        cmocka_unit_test(each_generator_has_noise_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
