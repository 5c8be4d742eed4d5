/* A head with a bias, as published nets have it: every place that computes logits adds it, a step differentiates it,
 * the optimiser moves it, and copies, checkpoints and files keep it. A head without one stays without. */
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

#include "api/describe_model.h"
#include "base/memory.h"
#include "cil/dream_batch.h"
#include "cil/scorer.h"
#include "cil/sources.h"
#include "forecast/forecast.h"
#include "model/model_file.h"
#include "support/api_data.h"
#include "support/cpu_backend.h"
#include "support/craft.h"
#include "support/learning.h"
#include "support/page.h"
#include "support/succeeds.h"

static rc_backend plain; /* as it was opened */

static int open_and_keep(void **state)
{
    int failed = open_backend(state);
    plain = failed ? plain : *be;
    return failed;
}

/* ---- the head ------------------------------------------------------------------------------------------------- */

static int allocations_to_go;

static rc_status failing_alloc(rc_backend *b, size_t bytes, void **memory)
{
    return --allocations_to_go == 0 ? rc_fail(RC_OUT_OF_MEMORY, "no memory") : plain.alloc(b, bytes, memory);
}

static void expect_bias(const rc_head *head, const double *expected, int count)
{
    double found[64];
    assert_non_null(head->bias);
    assert_in_range(count, 1, 64);
    head->backend->read_real64(head->backend, found, head->bias, (size_t)count);
    for (int i = 0; i < count; i++)
        assert_true(found[i] == expected[i]);
}

static void rows_keep_their_bias_when_the_head_grows(void **state)
{
    (void)state;
    static const double three[] = {0.5, -2, 8}, then[] = {0.5, -2, 8, 0, 0, 0, 0};
    rc_head head;
    SUCCEEDS(rc_head_create(&head, be, 4, 3));
    SUCCEEDS(rc_head_grow(&head, 3, (rc_rng){1, 1}));
    assert_null(head.bias);
    assert_int_equal(rc_head_parameters(&head), 12);
    SUCCEEDS(rc_head_add_bias(&head));
    expect_bias(&head, (const double[]){0, 0, 0}, 3);
    assert_int_equal(rc_head_parameters(&head), 15);
    be->write_real64(be, head.bias, three, 3);
    SUCCEEDS(rc_head_add_bias(&head)); /* it has one, and keeps it */
    expect_bias(&head, three, 3);
    size_t before = rc_bytes_allocated();
    be->alloc = failing_alloc;
    for (int nth = 1; nth <= 2; nth++) { /* of the rows, of the bias */
        allocations_to_go = nth;
        assert_int_equal(rc_head_grow(&head, 4, (rc_rng){1, 2}), RC_OUT_OF_MEMORY);
        assert_true(head.classes == 3 && head.capacity == 3 && head.tasks == 1);
        assert_int_equal(rc_bytes_allocated(), before);
        expect_bias(&head, three, 3);
    }
    *be = plain;
    SUCCEEDS(rc_head_grow(&head, 4, (rc_rng){1, 2}));
    expect_bias(&head, then, 7);
    rc_head_destroy(&head);
}

static void copies_have_the_same_bias_or_none(void **state)
{
    (void)state;
    static const double two[] = {3, -4}, more[] = {1, 2, 3, 4, 5}, two_of_five[] = {3, -4, 0, 0, 0};
    rc_head with, without, to;
    SUCCEEDS(rc_head_create(&with, be, 4, 2));
    SUCCEEDS(rc_head_grow(&with, 2, (rc_rng){1, 1}));
    SUCCEEDS(rc_head_create(&without, be, 4, 2));
    SUCCEEDS(rc_head_grow(&without, 2, (rc_rng){1, 1}));
    SUCCEEDS(rc_head_add_bias(&with));
    be->write_real64(be, with.bias, two, 2);
    SUCCEEDS(rc_head_create(&to, be, 4, 1));
    SUCCEEDS(rc_head_copy(&to, &with)); /* has none, and no room */
    expect_bias(&to, two, 2);
    assert_ptr_not_equal(to.bias, with.bias);
    rc_head_destroy(&to);
    SUCCEEDS(rc_head_create(&to, be, 4, 5));
    SUCCEEDS(rc_head_add_bias(&to));
    be->write_real64(be, to.bias, more, 5);
    SUCCEEDS(rc_head_copy(&to, &with)); /* what it had is gone */
    expect_bias(&to, two_of_five, 5);
    SUCCEEDS(rc_head_copy(&to, &without));
    assert_null(to.bias);
    rc_head_destroy(&to);
    rc_head_destroy(&with);
    rc_head_destroy(&without);
}

/* ---- a learner with a bias ------------------------------------------------------------------------------------ */

static const double old_bias[] = {0.75, -1.5};

/* As learning_begin_second, but its head got a bias between the tasks. */
static void begin_second(rc_learner *l, rc_backend *backend, const char *method, const double *bias)
{
    rc_settings s = learning_settings();
    learning_create(l, backend, method, &s);
    learning_teach(l, 0, 2, 8, &learning_no_hooks);
    rc_learner_end_task(l);
    SUCCEEDS(rc_head_add_bias(&l->student.head));
    backend->write_real64(backend, l->student.head.bias, bias, 2);
    learning_begin(l, 1, 2, 8);
}

/* logits (n, head->classes) of features (n, d), by hand. */
static void expect_logits(const rc_head *head, const void *features, const void *logits, int n)
{
    rc_backend *b = head->backend;
    size_t d = (size_t)head->d, classes = (size_t)head->classes;
    double *f = malloc((size_t)n * d * sizeof *f), *y = malloc((size_t)n * classes * sizeof *y);
    double *w = malloc(classes * d * sizeof *w), *bias = malloc(classes * sizeof *bias);
    assert_true(f != NULL && y != NULL && w != NULL && bias != NULL);
    SUCCEEDS(b->sync(b));
    b->read_real64(b, f, features, (size_t)n * d);
    b->read_real64(b, y, logits, (size_t)n * classes);
    b->read_real64(b, w, head->weight, classes * d);
    b->read_real64(b, bias, head->bias, classes);
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t k = 0; k < classes; k++) {
            double sum = bias[k], size = fabs(bias[k]);
            for (size_t j = 0; j < d; j++) {
                sum += f[i * d + j] * w[k * d + j];
                size += fabs(f[i * d + j] * w[k * d + j]);
            }
            assert_true(fabs(y[i * classes + k] - sum) <= (double)(d + 2) * 0x1p-24 * size);
        }
    free(f);
    free(y);
    free(w);
    free(bias);
}

static void a_scorer_adds_the_bias(void **state)
{
    (void)state;
    enum { N = 6 };
    rc_learner l;
    rc_scorer *scorer;
    float logits[N * 4], features[N * 16];
    int32_t *labels;
    uint8_t *images = learning_images(0, 2, N / 2, &labels);
    begin_second(&l, be, "cwd", old_bias);
    assert_in_range(l.student.head.d, 1, 16);
    SUCCEEDS(rc_scorer_create(be, &l.student, 4, &l.augment, &scorer));
    SUCCEEDS(rc_scorer_run(scorer, images, NULL, N, logits, features));
    expect_logits(&l.student.head, features, logits, N); /* of this backend, host memory is memory */
    expect_bias(&l.student.head, (const double[]){0.75, -1.5, 0, 0}, 4);
    expect_bias(&l.teacher.head, old_bias, 2);
    rc_scorer_destroy(scorer);
    rc_learner_destroy(&l);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* ---- a training step ------------------------------------------------------------------------------------------ */

static const rc_objective all_losses = {.real = RC_CE_ALL,
                                        .replay = RC_CE_OLD,
                                        .kd_real = RC_KD_ALL,
                                        .kd_replay = RC_KD_OLD,
                                        .hkd = true,
                                        .rkd = true,
                                        .war = true};

/* Two maps of d features to 2 d numbers each. */
static size_t projection_reals(const rc_learner *l)
{
    size_t d = (size_t)l->student.head.d;
    return 2 * (2 * d * d + 2 * d);
}

static rc_training *make_step(rc_learner *l, const rc_objective *losses)
{
    rc_training_settings settings = {.batch = 8,
                                     .n_old = 2,
                                     .losses = *losses,
                                     .sgd = {.momentum = 0.9f, .weight_decay = 0.125f},
                                     .kd_temperature = 2};
    rc_replay *dreams;
    rc_training *training;
    rc_learner_send_order(l, 0);
    SUCCEEDS(rc_replay_dreams_create(l->backend, learning_generator(l), 1, 6, RC_STREAM_DREAMS, &dreams));
    SUCCEEDS(rc_training_create(l->backend, &settings, &l->student, &l->teacher, dreams, &l->data, &training));
    rc_step *control = rc_training_control(training);
    control->step = control->batch = 0;
    control->learning_rate = 0.0625f;
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        control->weight[i] = 0.125f * (float)(i + 1);
    rc_training_send(training);
    rc_training_batch(training);
    return training;
}

static double total_loss(rc_training *training)
{
    double value[RC_LOSS_COUNT], sum = 0;
    rc_training_gradients(training);
    memcpy(value, rc_training_look(training).loss, sizeof value);
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        sum += (double)rc_training_control(training)->weight[i] * value[i];
    return sum;
}

/* Derivatives of the whole step by some of the numbers at `param`, whose gradient is `gradient`. */
static void expect_derivatives(rc_training *training, double *param, const double *gradient, size_t count, int some)
{
    const double h = 1e-6;
    double expected[16];
    assert_in_range(some, 1, 16);
    total_loss(training);
    for (int i = 0; i < some; i++)
        expected[i] = gradient[(size_t)i * (count - 1) / (size_t)some];
    for (int i = 0; i < some; i++) {
        double *at = param + (size_t)i * (count - 1) / (size_t)some, was = *at;
        *at = was + h;
        double up = total_loss(training);
        *at = was - h;
        double down = total_loss(training);
        *at = was;
        double found = (up - down) / (2 * h); /* of values of about 10: errors of 1e-9 and of h * h */
        if (!(fabs(found - expected[i]) < 1e-6 * (1 + fabs(expected[i]))))
            fail_msg("derivative %d is %.9g, the gradient says %.9g", i, found, expected[i]);
    }
}

static void a_step_differentiates_the_bias(void **state)
{
    (void)state;
    rc_backend *doubles;
    rc_learner l;
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &doubles));
    begin_second(&l, doubles, "cwd", old_bias);
    rc_training *training = make_step(&l, &all_losses);
    rc_training_view view = rc_training_look(training);
    double *bias = l.student.head.bias;
    bias[2] = 0.25;
    bias[3] = -0.5;
    total_loss(training);
    const double *gradient = view.bias_gradient;
    assert_non_null(gradient);
    expect_logits(&l.student.head, view.features, view.logits, 14);
    double copy[4];
    memcpy(copy, gradient, sizeof copy);
    total_loss(training);
    for (int k = 0; k < 4; k++) /* overwritten, not added to, which would show */
        assert_true(fabs(gradient[k] - copy[k]) < 1e-12 && fabs(copy[k]) > 1e-3);
    for (int k = 0; k < 4; k++)
        expect_derivatives(training, bias + k, gradient + k, 1, 1);
    expect_derivatives(training, l.student.head.weight, view.head_gradient, 4 * (size_t)l.student.head.d, 8);
    expect_derivatives(training, l.student.backbone.param, view.backbone_gradient, l.net.params, 8);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
    rc_backend_close(doubles);
}

/* The old model's own, both where it is asked about real images and where about dreams alone. */
static void the_teacher_adds_its_own_bias(void **state)
{
    (void)state;
    rc_backend *doubles;
    rc_learner l;
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &doubles));
    begin_second(&l, doubles, "cwd", old_bias);
    rc_training *training = make_step(&l, &all_losses);
    double with[2 * 14], without[2 * 14], *bias = l.teacher.head.bias;
    total_loss(training);
    memcpy(with, rc_training_look(training).teacher_logits, sizeof with);
    bias[0] = bias[1] = 0;
    total_loss(training);
    memcpy(without, rc_training_look(training).teacher_logits, sizeof without);
    for (int i = 0; i < 2 * 14; i++)
        assert_true(fabs(with[i] - without[i] - old_bias[i % 2]) < 1e-12);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
    rc_backend_close(doubles);
}

/* b' = b - rate (g + decay b), as any parameter; with projections beside it and without, in refinement too. */
static void steps_move_the_bias(void **state)
{
    (void)state;
    rc_backend *doubles;
    SUCCEEDS(rc_backend_open("reference64", 1, NULL, &doubles));
    for (int relations = 0; relations < 2; relations++) {
        rc_learner l;
        rc_objective losses = all_losses;
        losses.rkd = relations;
        begin_second(&l, doubles, "cwd", old_bias);
        rc_training *training = make_step(&l, &losses);
        rc_training_view view = rc_training_look(training);
        double before[4], *bias = l.student.head.bias;
        memcpy(before, bias, sizeof before);
        rc_training_gradients(training);
        rc_training_update(training);
        const double *gradient = view.bias_gradient;
        for (int k = 0; k < 4; k++)
            assert_true(fabs(bias[k] - (before[k] - 0.0625 * (gradient[k] + 0.125 * before[k]))) < 1e-14);
        size_t reals = projection_reals(&l), params = l.net.params * sizeof(double);
        double *projections = malloc(reals * sizeof *projections), *backbone = malloc(params);
        assert_true(projections != NULL && backbone != NULL);
        if (relations)
            memcpy(projections, view.projection, reals * sizeof *projections);
        memcpy(backbone, l.student.backbone.param, params);
        memcpy(before, bias, sizeof before);
        rc_training_begin_epoch(training);
        SUCCEEDS(rc_training_begin_refinement(training));
        rc_training_control(training)->batch = UINT32_MAX;
        rc_training_send(training);
        rc_training_refinement_step(training);
        for (int k = 0; k < 4; k++)
            assert_true(bias[k] != before[k]);
        assert_memory_equal(backbone, l.student.backbone.param, params);
        assert_true(!relations || memcmp(projections, view.projection, reals * sizeof *projections) == 0);
        free(projections);
        free(backbone);
        rc_training_destroy(training);
        rc_learner_destroy(&l);
    }
    rc_backend_close(doubles);
}

static const void *summed; /* over processes: four numbers, as many as there are classes */

static void see_sum(rc_backend *b, void *real, size_t count)
{
    (void)b;
    summed = count == 4 ? real : summed;
}

static void processes_add_their_gradients_of_the_bias(void **state)
{
    (void)state;
    rc_learner l;
    begin_second(&l, be, "cwd", old_bias);
    rc_training *training = make_step(&l, &all_losses);
    be->sum_workers = see_sum;
    rc_training_gradients(training);
    *be = plain;
    assert_true(summed != NULL && summed == rc_training_look(training).bias_gradient);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
}

static const rc_state_entry *entry_of(const rc_state *state, const char *name)
{
    for (int i = 0; i < state->entries; i++)
        if (strcmp(state->entry[i].name, name) == 0)
            return &state->entry[i];
    return NULL;
}

static void checkpoints_hold_the_bias(void **state)
{
    (void)state;
    for (int relations = 0; relations < 2; relations++) {
        rc_learner l;
        rc_objective losses = all_losses;
        losses.rkd = relations;
        begin_second(&l, be, "cwd", old_bias);
        rc_training *training = make_step(&l, &losses);
        SUCCEEDS(rc_training_register(training, &l.state));
        const rc_state_entry *bias = entry_of(&l.state, "student.head.bias"),
                             *momentum = entry_of(&l.state, "momentum.bias");
        assert_true(bias != NULL && bias->memory == l.student.head.bias && bias->count == 4);
        assert_true(momentum != NULL && momentum->count == 4);
        const rc_state_entry *projection = entry_of(&l.state, "momentum.projection");
        assert_int_equal(projection != NULL, relations);
        assert_true(projection == NULL || projection->count == projection_reals(&l));
        rc_training_destroy(training);
        rc_learner_destroy(&l);
    }
}

/* ---- dreams --------------------------------------------------------------------------------------------------- */

static void inversion_adds_the_bias(void **state)
{
    (void)state;
    rc_learner l;
    rc_inversion *inversion;
    begin_second(&l, be, "cwd", old_bias);
    SUCCEEDS(rc_stage_inversion_create(&l, &inversion));
    rc_inversion_step(inversion);
    rc_inversion_view view = rc_inversion_look(inversion);
    expect_logits(&l.teacher.head, view.features, view.logits, l.settings.batch);
    rc_inversion_destroy(inversion);
    rc_learner_destroy(&l);
}

static void dreams_are_labelled_with_the_bias(void **state)
{
    (void)state;
    static const double second[] = {-1000, 1000};
    rc_learner l;
    rc_dream_batch batch;
    int32_t labels[8];
    begin_second(&l, be, "cwd", second);
    SUCCEEDS(rc_dream_batch_create(&l, &batch));
    rc_dream_batch_draw(&batch, 0);
    be->read_bytes(be, labels, batch.labels, sizeof labels);
    for (int i = 0; i < 8; i++)
        assert_int_equal(labels[i], 1);
    expect_logits(&l.teacher.head, rc_pass_features(batch.pass), batch.logits, 8);
    rc_dream_batch_destroy(&batch);
    SUCCEEDS(rc_stage_estimation(&l, &learning_no_hooks));
    const float *mean = l.class_mean;
    int d = l.student.head.d;
    for (int i = 0; i < 4 * d; i++) /* no dream is of the first class; the others have dreams or images */
        assert_int_equal(isnan(mean[i]), i < d);
    rc_learner_destroy(&l);
}

/* ---- copies, files, sizes ------------------------------------------------------------------------------------- */

static void a_copy_has_a_bias_of_its_own(void **state)
{
    (void)state;
    rc_learner l, copy;
    begin_second(&l, be, "cwd", old_bias);
    rc_learner_end_task(&l);
    SUCCEEDS(rc_learner_clone(&copy, &l));
    expect_bias(&copy.student.head, (const double[]){0.75, -1.5, 0, 0}, 4);
    assert_ptr_not_equal(copy.student.head.bias, l.student.head.bias);
    rc_learner_destroy(&copy);
    rc_learner_destroy(&l);
}

static void make_saved(rc_saved_model *model, bool bias)
{
    static const double three[] = {0.5, -0.25, 1024};
    memset(model, 0, sizeof *model);
    model->config = rc_config_default();
    model->config.settings = learning_settings();
    learning_create(&model->learner, be, "cwd", &model->config.settings);
    SUCCEEDS(rc_head_grow(&model->learner.student.head, 3, (rc_rng){9, 1}));
    if (bias) {
        SUCCEEDS(rc_head_add_bias(&model->learner.student.head));
        be->write_real64(be, model->learner.student.head.bias, three, 3);
    }
    model->class_name = rc_alloc_zeroed(NULL, 3, sizeof *model->class_name);
    for (int i = 0; i < 3; i++) {
        model->class_name[i] = rc_alloc_zeroed(NULL, 2, 1);
        model->class_name[i][0] = (char)('a' + i);
    }
}

static void files_have_the_bias(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value, *message;
    } wrong[] = {{"shape", "[2]", "head.bias"},
                 {"shape", "[]", "head.bias"},
                 {"shape", "[1,3]", "tensor 'head.bias' has 2 dimensions, expected 1"},
                 {"dtype", "\"I32\"", "tensor 'head.bias' holds 3 of I32, expected 3 of F32"}};
    char path[] = "/tmp/recollect-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    rc_saved_model model, loaded;
    craft good, changed;
    make_saved(&model, true);
    size_t d = (size_t)model.learner.student.head.d;
    assert_int_equal(rc_model_parameters(&model), model.learner.net.params + 3 * d + 3);
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    expect_bias(&loaded.learner.student.head, (const double[]){0.5, -0.25, 1024}, 3);
    assert_int_equal(loaded.unknown_bytes, 0);
    rc_saved_model_destroy(&loaded);
    craft_read(path, &good);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        changed = craft_copy(&good);
        assert_true(craft_tensor(&changed, "head.bias", wrong[i].field, wrong[i].value));
        craft_write(&changed, path);
        craft_free(&changed);
        assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
        if (strstr(rc_message(), wrong[i].message) == NULL)
            fail_msg("the message is: %s", rc_message());
    }
    changed = craft_copy(&good);
    assert_true(craft_resize(&changed, "head.bias", "[4]", 4));
    craft_write(&changed, path);
    craft_free(&changed);
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "tensor 'head.bias' holds 4 of F32, expected 3 of F32"));
    ((float *)model.learner.student.head.bias)[1] = NAN;
    SUCCEEDS(rc_model_file_save(path, &model, true));
    assert_int_equal(rc_model_file_load(path, be, &loaded), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "element 1 of tensor 'head.bias' is nan"));
    craft_free(&good);
    rc_saved_model_destroy(&model);
    make_saved(&model, false);
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    assert_null(loaded.learner.student.head.bias);
    assert_int_equal(loaded.unknown_bytes, 0);
    rc_saved_model_destroy(&loaded);
    rc_saved_model_destroy(&model);
    unlink(path);
}

static void information_says_so(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        rc_saved_model model;
        page text = {.used = 0}, json = {.used = 0};
        make_saved(&model, bias);
        SUCCEEDS(rc_describe_model(&model, false, page_add_line, &text));
        SUCCEEDS(rc_describe_model(&model, true, page_add_line, &json));
        assert_int_equal(strstr(text.text, " with bias; ") != NULL, bias);
        assert_non_null(strstr(json.text, bias ? "\"head_bias\":true" : "\"head_bias\":false"));
        rc_saved_model_destroy(&model);
    }
}

/* The rows of student and teacher, gradient and momentum: more than nothing, and not much. */
static void the_bias_is_counted(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_augment image = {.h = LEARNING_SIZE, .w = LEARNING_SIZE, .c = LEARNING_CHANNELS, .std = {1, 1, 1}};
    static uint8_t images[8 * LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS];
    rc_task_claim claim = {.settings = &s, .image = &image, .n_old = 5000, .n_new = 2, .images = images, .count = 8};
    size_t without, with;
    SUCCEEDS(rc_method_find("cwd", &claim.method));
    SUCCEEDS(rc_forecast_bytes(be, &claim, &without));
    claim.head_bias = true;
    SUCCEEDS(rc_forecast_bytes(be, &claim, &with));
    size_t vector = 5002 * sizeof(float);
    assert_in_range(with - without, 4 * vector, 4 * vector + vector + 4096);
    claim.n_new = 0;
    SUCCEEDS(rc_forecast_bytes(be, &claim, &with));
    claim.head_bias = false;
    SUCCEEDS(rc_forecast_bytes(be, &claim, &without));
    assert_in_range(with - without, 2 * vector - 64, 2 * vector + 4096); /* student and teacher */
}

/* ---- a lesson ------------------------------------------------------------------------------------------------- */

static char told[4096];

static void keep_log(void *user, recollect_log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s\n", text);
}

/* As an imported model is: with a bias, without class statistics. Its first lesson estimates them from dreams, the next
 * one uses them. */
static void a_model_without_statistics_gets_them_from_its_dreams(void **state)
{
    (void)state;
    static const char note[] = "the model has no class statistics (it was imported), so its dreams are not held to "
                               "them this time; this lesson estimates them";
    rc_saved_model saved;
    void *bytes;
    size_t size;
    recollect_context *context;
    recollect_model *model;
    recollect_settings settings;
    recollect_model_info info = {.size = sizeof info};
    make_saved(&saved, true);
    SUCCEEDS(rc_model_file_pack(&saved, &bytes, &size));
    rc_saved_model_destroy(&saved);
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.log = keep_log;
    SUCCEEDS(recollect_context_create(&settings, &context));
    SUCCEEDS(recollect_model_load_memory(context, bytes, size, &model));
    rc_free(NULL, bytes);
    api_set_quick(model, 2);
    for (int lesson = 0; lesson < 2; lesson++) {
        int32_t *labels;
        uint8_t *images = learning_images(3 + lesson, 1, 8, &labels);
        recollect_images given = {images, 8, LEARNING_SIZE, LEARNING_SIZE, LEARNING_CHANNELS};
        memset(labels, 0, 8 * sizeof *labels);
        told[0] = '\0';
        SUCCEEDS(recollect_learn(model, &given, labels, (const char *const[]){lesson ? "e" : "d"}, 1, NULL));
        assert_int_equal(strstr(told, note) != NULL, lesson == 0);
        SUCCEEDS(recollect_model_get_info(model, &info));
        assert_int_equal(info.class_means, (size_t)(4 + lesson) * (size_t)recollect_model_features(model) * 4);
        rc_free(NULL, images);
        rc_free(NULL, labels);
    }
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_keep_their_bias_when_the_head_grows),
        cmocka_unit_test(copies_have_the_same_bias_or_none),
        cmocka_unit_test(a_scorer_adds_the_bias),
        cmocka_unit_test(a_step_differentiates_the_bias),
        cmocka_unit_test(the_teacher_adds_its_own_bias),
        cmocka_unit_test(steps_move_the_bias),
        cmocka_unit_test(processes_add_their_gradients_of_the_bias),
        cmocka_unit_test(checkpoints_hold_the_bias),
        cmocka_unit_test(inversion_adds_the_bias),
        cmocka_unit_test(dreams_are_labelled_with_the_bias),
        cmocka_unit_test(a_copy_has_a_bias_of_its_own),
        cmocka_unit_test(files_have_the_bias),
        cmocka_unit_test(information_says_so),
        cmocka_unit_test(the_bias_is_counted),
        cmocka_unit_test(a_model_without_statistics_gets_them_from_its_dreams),
    };
    return cmocka_run_group_tests(tests, open_and_keep, close_backend);
}
