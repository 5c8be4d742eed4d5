/* How the parts of src/cil are connected: what each row keeps, which status is passed on, which values reach the
 * backend's operations, and what a message says when a task is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static void fails(rc_status found, rc_status expected, const char *message)
{
    assert_int_equal(found, expected);
    assert_string_equal(rc_message(), message);
}

static const rc_method *row(const char *name)
{
    const rc_method *method;
    SUCCEEDS(rc_method_find(name, &method));
    return method;
}

/* A learner that was taught its first task. */
static void create_taught(rc_learner *l, const char *method, const rc_settings *s)
{
    learning_create(l, be, method, s);
    learning_teach(l, 0, 2, 8, &learning_no_hooks);
    rc_learner_end_task(l);
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

/* A method that refines need not have statistics, and one that has them need not refine. */
static void statistics_stay_with_methods_that_use_them(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    create_taught(&l, "cwd", &s);
    SUCCEEDS(rc_learner_set_method(&l, row("cwd-abd")));
    assert_int_equal(l.statistics_classes, 2);
    SUCCEEDS(rc_learner_set_method(&l, row("rdfcil")));
    assert_true(l.statistics_classes == 0 && l.class_mean == NULL && l.covariance == NULL);
    fails(rc_learner_set_method(&l, row("dgr")), RC_INVALID_ARGUMENT,
          "DGR goes on from its own models alone: it needs a generative model that was trained from the first class "
          "on, and R-DFCIL makes none");
    rc_learner_destroy(&l);
}

/* Dreams are made of the old model, even where no loss asks it. */
static void dreams_need_a_teacher(void **state)
{
    (void)state;
    static const rc_method dreams = {.replay = &rc_source_dreams, .main = {.real = RC_CE_ALL}};
    static const rc_method pixels = {.replay = &rc_source_pixels, .main = {.real = RC_CE_ALL}};
    assert_true(rc_method_asks_teacher(&dreams, 2) && rc_method_asks_teacher(&pixels, 2));
    assert_false(rc_method_asks_teacher(&dreams, 0) || rc_method_asks_teacher(&pixels, 0));
}

/* With images of old classes among the new, cross entropy covers all classes: LODE has nothing to decouple. */
static void a_task_with_old_images_is_not_decoupled(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    for (int joins = 0; joins < 2; joins++) {
        rc_learner l;
        float weight[RC_LOSS_COUNT];
        bool active[RC_LOSS_COUNT];
        int32_t *labels;
        uint8_t *images = learning_images(2, 2, 4, &labels);
        create_taught(&l, "lode", &s);
        labels[5] = joins ? 1 : labels[5];
        SUCCEEDS(rc_learner_begin_task(&l, 1, 2, images, labels, 8));
        assert_int_equal(l.joins_old, joins);
        rc_stage_weights(&l, RC_STAGE_TRAINING, weight, active);
        assert_true(active[RC_LOSS_CE] == joins && active[RC_LOSS_INTER] != joins && active[RC_LOSS_INTRA] != joins);
        rc_learner_destroy(&l);
        rc_free(NULL, images);
        rc_free(NULL, labels);
    }
}

/* One old class is enough for the weights of a later task. A first task replays what its row replays, not what the row
 * does with real images. */
static void weights_are_those_of_the_row_and_the_task(void **state)
{
    (void)state;
    static const rc_method kept = {
        .replay = &rc_source_buffer, .main = {.real = RC_CE_ALL}, .weights = RC_WEIGHTS_HALVES};
    float weight[RC_LOSS_COUNT];
    bool active[RC_LOSS_COUNT];
    rc_learner later = {.settings = rc_settings_default(), .method = row("rdfcil"), .n_old = 1, .n_new = 4};
    rc_stage_weights(&later, RC_STAGE_TRAINING, weight, active);
    double alpha = log2(4 / 2.0 + 1), beta = sqrt(1 / 4.0);
    assert_true(fabs((double)weight[RC_LOSS_CE] - 0.5 * (1 + 1 / alpha) / beta) < 1e-6);
    assert_true(fabs((double)weight[RC_LOSS_HKD] - 0.15 * alpha * beta) < 1e-6);
    later.settings.paper_constant_scale = true;
    rc_stage_weights(&later, RC_STAGE_TRAINING, weight, active);
    assert_true(weight[RC_LOSS_CE] == 0.5f && fabs((double)weight[RC_LOSS_HKD] - 0.15) < 1e-6);
    rc_learner first = {.settings = rc_settings_default(), .method = &kept, .n_new = 4, .has = {.replay = true}};
    rc_stage_weights(&first, RC_STAGE_TRAINING, weight, active);
    assert_true(active[RC_LOSS_CE] && !active[RC_LOSS_REPLAY] && weight[RC_LOSS_REPLAY] == 0);
}

/* (RC_GENERATORS_MOST, parameters); no two are the same. */
static void take_generators(const rc_learner *l, float *value)
{
    const rc_model *generator = learning_generator(l);
    size_t count = generator->net->params;
    for (size_t i = 0; i < RC_GENERATORS_MOST; i++) {
        be->read_real(be, value + i * count, generator[i].param, count);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(value + i * count, value + k * count, count * sizeof *value);
    }
}

/* As many generators as there may be begin with weights of their own. Those that begin with the same ones become
 * different, by their noise. All are gone when the task ends. */
static void every_generator_is_inverted(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    s.generators = RC_GENERATORS_MOST;
    s.inversion_steps = 1;
    create_taught(&l, "cwd", &s);
    size_t held = 0;
    for (int again = 0; again < 2; again++) { /* at first workspace of the backend may grow, and stays */
        SUCCEEDS(rc_learner_begin_dreams(&l));
        const rc_model *generator = learning_generator(&l);
        size_t count = generator->net->params;
        float *value = rc_alloc_zeroed(NULL, (RC_GENERATORS_MOST + 1) * count, sizeof *value);
        float *begun = value + RC_GENERATORS_MOST * count;
        assert_non_null(value);
        take_generators(&l, value);
        memcpy(begun, value, count * sizeof *begun);
        for (int i = 1; i < RC_GENERATORS_MOST; i++)
            be->write_real(be, generator[i].param, begun, count);
        SUCCEEDS(rc_stage_inversion(&l, 0, &learning_no_hooks));
        take_generators(&l, value);
        for (size_t i = 0; i < RC_GENERATORS_MOST; i++)
            assert_memory_not_equal(value + i * count, begun, count * sizeof *value);
        rc_free(NULL, value);
        rc_learner_end_task(&l);
        assert_true(again == 0 || rc_bytes_allocated() == held);
        held = rc_bytes_allocated();
    }
    rc_learner_destroy(&l);
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static void images_of_other_shapes_are_refused(void **state)
{
    (void)state;
    static const struct {
        int h, w, c;
        const char *message;
    } shapes[] = {{16, 8, 3, "images have 8 x 16 pixels, expected squares of 1 to"},
                  {16, 16, 2, "images have 2 channels, expected 1 (grey) or 3 (colours)"}};
    rc_settings s = learning_settings();
    rc_learner l;
    for (int i = 0; i < 2; i++) {
        rc_augment image = {.h = shapes[i].h, .w = shapes[i].w, .c = shapes[i].c, .std = {1, 1, 1}};
        assert_int_equal(rc_learner_create(&l, be, &s, row("finetune"), &image), RC_INVALID_ARGUMENT);
        assert_non_null(strstr(rc_message(), shapes[i].message));
    }
    rc_augment image = {.h = 10, .w = 10, .c = 3, .std = {1, 1, 1}}; /* halved it would be too small to begin with */
    assert_int_equal(rc_learner_create(&l, be, &s, row("cwd"), &image), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "net 'generator-small' cannot make images of 10 pixels"));
    image.h = image.w = 1024;
    s.net_width = 4096;
    assert_int_equal(rc_learner_create(&l, be, &s, row("finetune"), &image), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "its result of 1024 x 1024 x 4096 has more than"));
    image.h = image.w = 16;
    s.net_width = 4;
    snprintf(s.net, sizeof s.net, "no such net");
    assert_int_equal(rc_learner_create(&l, be, &s, row("finetune"), &image), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "'no such net'"));
}

/* Whoever replays all old images needs some, and new ones. */
static void real_replay_needs_old_and_new_images(void **state)
{
    (void)state;
    static const char *const message[] = {
        "task 3 has 0 images of old classes and 8 of new ones, but Real HKD needs both",
        "task 3 has 8 images of old classes and 0 of new ones, but Real HKD needs both"};
    rc_settings s = learning_settings();
    for (int i = 0; i < 2; i++) {
        rc_learner l;
        int32_t *labels;
        uint8_t *images = learning_images(i == 0 ? 2 : 0, 2, 4, &labels);
        create_taught(&l, "real-hkd", &s);
        fails(rc_learner_begin_task(&l, 2, 2, images, labels, 8), RC_INVALID_ARGUMENT, message[i]);
        rc_learner_destroy(&l);
        rc_free(NULL, images);
        rc_free(NULL, labels);
    }
}

static void steps_refuse_what_they_cannot_do(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_training *training;
    create_taught(&l, "finetune", &s);
    learning_begin(&l, 1, 2, 8);
    rc_training_settings settings = {.batch = 8, .n_old = 9, .losses = {.real = RC_CE_ALL}};
    fails(rc_training_create(be, &settings, &l.student, NULL, NULL, &l.data, &training), RC_INVALID_ARGUMENT,
          "9 old classes, expected 0 to 3: the head has 4 rows");
    settings = (rc_training_settings){.batch = 8, .losses = {.real = RC_CE_DECOUPLED}};
    fails(rc_training_create(be, &settings, &l.student, NULL, NULL, &l.data, &training), RC_INVALID_ARGUMENT,
          "the first task has no old classes: distillation, WAR and weights of classes must be off");
    settings = (rc_training_settings){.batch = 1 << 24, .losses = {.real = RC_CE_ALL}};
    assert_int_equal(rc_training_create(be, &settings, &l.student, NULL, NULL, &l.data, &training),
                     RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "pass over net 'resnet-small'")); /* which comes before its input */
    rc_learner_destroy(&l);
    create_taught(&l, "cwd", &s);
    learning_begin(&l, 1, 2, 8);
    rc_inversion *inversion = (rc_inversion *)(void *)&l;
    fails(rc_inversion_create(be, &(rc_inversion_settings){.temperature = 1}, &l.teacher, learning_generator(&l),
                              &inversion),
          RC_INVALID_ARGUMENT, "batch is 0, expected 2 or more: a covariance of one dream is undefined");
    assert_null(inversion);
    for (int missing = 0; missing < 2; missing++) {
        rc_inversion_settings without = {.batch = 8,
                                         .temperature = 1,
                                         .consistency = true,
                                         .class_mean = missing == 0 ? NULL : l.class_mean,
                                         .covariance = missing == 1 ? NULL : l.covariance};
        fails(rc_inversion_create(be, &without, &l.teacher, learning_generator(&l), &inversion), RC_INVALID_ARGUMENT,
              "DCE is on, but the classifier has no class statistics");
    }
    SUCCEEDS(rc_stage_inversion_create(&l, &inversion));
    const rc_tensor *noise = rc_inversion_look(inversion).noise;
    assert_true(noise->n == 8 && noise->h == 1 && noise->w == 1 && noise->c == s.noise && noise->raw != NULL);
    rc_inversion_destroy(inversion);
    rc_learner_destroy(&l);
}

/* ---- statuses ------------------------------------------------------------------------------------------------- */

/* All names that a state has had. */
typedef struct names {
    char name[RC_STATE_MAX][RC_STATE_NAME];
    int count;
} names;

static rc_status note_names(void *user, const rc_stage_report *report)
{
    names *n = user;
    for (int i = 0; i < report->state->entries; i++) {
        bool known = false;
        for (int k = 0; k < n->count; k++)
            known = known || strcmp(n->name[k], report->state->entry[i].name) == 0;
        assert_true(known || n->count < RC_STATE_MAX);
        if (!known)
            snprintf(n->name[n->count++], RC_STATE_NAME, "%s", report->state->entry[i].name);
    }
    return RC_OK;
}

/* A tensor that cannot be registered would be missing in checkpoints: each one's name is taken once. */
static void a_state_that_is_not_whole_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        int names;
    } methods[] = {{"cwd", 16}, {"dgr", 11}, {"deepinversion-pixels", 10}};
    rc_settings s = learning_settings();
    s.epochs = 2;
    s.refine_epochs = 1;
    s.inversion_steps = 1;
    s.pixel_steps = 1;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        names found = {.count = 0};
        rc_stage_hooks hooks = {.boundary = note_names, .user = &found};
        rc_learner l;
        create_taught(&l, methods[i].method, &s);
        learning_teach(&l, 1, 2, 8, &hooks);
        rc_learner_destroy(&l);
        assert_int_equal(found.count, methods[i].names);
        int32_t *labels;
        uint8_t *images = learning_images(2, 2, 8, &labels);
        for (int k = 0; k < found.count; k++) {
            char expected[128];
            create_taught(&l, methods[i].method, &s);
            SUCCEEDS(rc_state_add(&l.state, found.name[k], RC_STATE_INT32, NULL, 0));
            rc_status status = rc_learner_begin_task(&l, 1, 2, images, labels, 16);
            if (status == RC_OK)
                status = rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL);
            snprintf(expected, sizeof expected, "the state has a tensor '%s' already", found.name[k]);
            fails(status, RC_INTERNAL, expected);
            rc_learner_destroy(&l);
        }
        rc_free(NULL, images);
        rc_free(NULL, labels);
    }
}

static void creators_that_fail_leave_nothing(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    size_t bytes;
    int something;
    create_taught(&l, "cwd", &s);
    learning_begin(&l, 1, 2, 8);
    rc_replay *replay = (rc_replay *)(void *)&something;
    rc_vae vae;
    rc_pixels pixels;
    static const rc_pixels nothing;
    memset(&vae, 0x55, sizeof vae);
    memset(&pixels, 0x55, sizeof pixels);
    rc_memory_set_budget(rc_bytes_allocated());
    assert_int_equal(rc_replay_dreams_create(be, learning_generator(&l), 1, 8, 1, &replay), RC_OUT_OF_MEMORY);
    assert_null(replay);
    assert_int_equal(rc_vae_create(&vae, be, 3, 16, 16, 5), RC_OUT_OF_MEMORY);
    assert_null(vae.net);
    assert_int_equal(rc_pixels_create(&pixels, be, 2, 8, &l.augment, 1, 0), RC_OUT_OF_MEMORY);
    assert_memory_equal(&pixels, &nothing, sizeof pixels);
    assert_int_equal(rc_stage_bytes(&l, RC_STAGE_INVERSION, &bytes), RC_OUT_OF_MEMORY);
    assert_int_equal(rc_stage_bytes(&l, RC_STAGE_TRAINING, &bytes), RC_OUT_OF_MEMORY);
    assert_int_equal(bytes, 0);
    rc_memory_set_budget(SIZE_MAX);
    for (int again = 0; again < 2; again++) { /* at first workspace of the backend may grow, and stays */
        size_t held = rc_bytes_allocated();
        SUCCEEDS(rc_stage_bytes(&l, RC_STAGE_INVERSION, &bytes));
        assert_true(bytes > 0);
        SUCCEEDS(rc_stage_bytes(&l, RC_STAGE_TRAINING, &bytes));
        assert_true(bytes > 0 && (!again || rc_bytes_allocated() == held));
    }
    rc_learner_destroy(&l);
    rc_inversion_destroy(NULL);
    rc_training_destroy(NULL);
}

static rc_status break_head(void *user, const rc_stage_report *report)
{
    rc_learner *l = user;
    const float bad = INFINITY;
    if (report->stage == RC_STAGE_TRAINING && report->step == report->steps)
        be->write_real(be, rc_real_at(be, l->student.head.weight, 5), &bad, 1);
    return RC_OK;
}

/* What the last step broke is told, with the number of the task; and no stage takes longer than all of them. */
static void the_result_is_looked_at(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    double wall[RC_STAGE_COUNT] = {0}, began = rc_now();
    rc_stage_hooks hooks = {.boundary = break_head, .user = &l, .interval = 0};
    create_taught(&l, "finetune", &s);
    learning_begin(&l, 1, 2, 8);
    fails(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, wall), RC_NUMERIC,
          "task 2, after its last step: number 5 of student.head is inf. Nothing of this is kept, what was saved "
          "before is intact; a lower learning_rate may help");
    assert_true(wall[RC_STAGE_TRAINING] > 0 && wall[RC_STAGE_TRAINING] <= rc_now() - began);
    rc_learner_destroy(&l);
}

/* ---- what tasks begin with ------------------------------------------------------------------------------------ */

static void only_sources_of_stored_images_have_a_buffer(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    create_taught(&l, "deepinversion-pixels", &s);
    learning_begin(&l, 1, 2, 8);
    const rc_image_buffer *set = &l.source->images;
    assert_true(set->capacity == 16 && set->held == 16 && set->offered == 16 && set->plan.images == 16);
    assert_true(set->image_bytes == 0 && set->images == NULL); /* they lie in the pool */
    rc_learner_end_task(&l);
    assert_int_equal(l.source->images.capacity, 0);
    rc_learner_destroy(&l);
    create_taught(&l, "lwf", &s);
    learning_begin(&l, 1, 2, 8);
    assert_int_equal(l.source->images.capacity, 0);
    rc_learner_destroy(&l);
}

/* ---- what reaches the backend --------------------------------------------------------------------------------- */

static rc_backend plain;
static const rc_tensor *sampled_mean, *sampled_variance;
static const int32_t *augmented_order;
static bool was_unbiased;
static int backward_calls, finish_calls;

static void seen_sample(rc_backend *b, const rc_tensor *mean, const rc_tensor *log_variance, const void *noise,
                        rc_tensor *z)
{
    sampled_mean = mean;
    sampled_variance = log_variance;
    plain.latent_sample(b, mean, log_variance, noise, z);
}

static void seen_sample_backward(rc_backend *b, const rc_tensor *mean, const rc_tensor *log_variance, const void *noise,
                                 const void *dz, void *dmean, void *dlog_variance)
{
    assert_ptr_equal(mean, sampled_mean);
    assert_ptr_equal(log_variance, sampled_variance);
    assert_ptr_not_equal(mean, log_variance);
    backward_calls++;
    plain.latent_sample_backward(b, mean, log_variance, noise, dz, dmean, dlog_variance);
}

static void seen_statistics(rc_backend *b, int n, int d, int classes, const void *features, const int32_t *labels,
                            const void *center, int32_t *count, double *sum, double *outer)
{
    assert_int_equal(classes, 2); /* those of the first task */
    plain.class_statistics(b, n, d, classes, features, labels, center, count, sum, outer);
}

static void seen_finish(rc_backend *b, int d, int classes, const void *center, const int32_t *count, const double *sum,
                        const double *outer, bool unbiased, void *class_mean, void *covariance)
{
    was_unbiased = unbiased;
    finish_calls++;
    plain.class_statistics_finish(b, d, classes, center, count, sum, outer, unbiased, class_mean, covariance);
}

static void seen_augment(rc_backend *b, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                         const rc_step *step, rc_tensor *out)
{
    assert_true(out->h == LEARNING_SIZE && out->w == LEARNING_SIZE && out->c == LEARNING_CHANNELS);
    augmented_order = order;
    plain.augment(b, augment, images, order, n, step, out);
}

/* The host's copy of an order would do where the backend's memory is the host's. */
static void seen_gather(rc_backend *b, const int32_t *labels, const int32_t *order, int n, const rc_step *step,
                        int32_t *out)
{
    assert_ptr_equal(order, augmented_order);
    plain.gather_labels(b, labels, order, n, step, out);
}

/* The divisor of the covariance belongs to the formula of DCE, not to that of the BN loss. */
static void operations_get_what_is_theirs(void **state)
{
    (void)state;
    plain = *be;
    be->latent_sample = seen_sample;
    be->latent_sample_backward = seen_sample_backward;
    be->class_statistics = seen_statistics;
    be->class_statistics_finish = seen_finish;
    be->augment = seen_augment;
    be->gather_labels = seen_gather;
    backward_calls = finish_calls = 0;
    for (int paper = 0; paper < 2; paper++) {
        rc_settings s = learning_settings();
        rc_learner l;
        s.paper_dce = paper;
        s.paper_bn_sum = !paper;
        create_taught(&l, "cwd", &s);
        assert_int_equal(was_unbiased, !paper);
        rc_learner_destroy(&l);
    }
    rc_settings s = learning_settings();
    rc_learner l;
    create_taught(&l, "dgr", &s);
    rc_learner_destroy(&l);
    create_taught(&l, "er", &s);
    rc_learner_destroy(&l);
    *be = plain;
    assert_true(finish_calls == 2 && backward_calls == 4); /* 2 epochs of 2 steps */
}

/* The decoder learns from the images alone; what is written where the losses are is told apart. */
static void an_autoencoder_has_two_losses(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    for (int images = 0; images < 2; images++) {
        rc_learner l;
        rc_training *training;
        float loss[RC_LOSS_COUNT], before[8], after[8];
        learning_create(&l, be, "dgr", &s);
        learning_begin(&l, 0, 2, 8);
        SUCCEEDS(rc_stage_training_create(&l, &training));
        rc_learner_send_order(&l, 0);
        rc_step *control = rc_training_control(training);
        control->learning_rate = 0.1f;
        control->weight[RC_LOSS_RECONSTRUCTION] = (float)images;
        control->weight[RC_LOSS_LATENT] = (float)!images;
        rc_training_send(training);
        be->read_real(be, before, learning_vae(&l)->decoder.param, 8);
        SUCCEEDS(be->repeat(be, rc_training_step, training, 1));
        be->read_real(be, after, learning_vae(&l)->decoder.param, 8);
        assert_int_equal(memcmp(before, after, sizeof before) != 0, images);
        be->read_real(be, loss, rc_training_look(training).loss, RC_LOSS_COUNT);
        assert_true(loss[RC_LOSS_RECONSTRUCTION] > 0.5 && loss[RC_LOSS_RECONSTRUCTION] < 1);
        assert_true(loss[RC_LOSS_LATENT] > 0 && loss[RC_LOSS_LATENT] < 0.1);
        rc_training_destroy(training);
        rc_learner_destroy(&l);
    }
}

static int entropies;

static void counted_entropy(rc_backend *b, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                            const void *class_weight, const float *weight, void *loss, void *dlogits)
{
    entropies++;
    plain.loss_cross_entropy(b, ce, logits, labels, class_weight, weight, loss, dlogits);
}

/* A half without cross entropy is not given one of weight 0. */
static void steps_compute_only_what_the_row_has(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        int entropies; /* of a step */
    } rows[] = {{"rdfcil", 1}, {"ace", 2}};
    rc_settings s = learning_settings();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rc_learner l;
        rc_training *training;
        learning_begin_second(&l, be, rows[i].method, &s);
        SUCCEEDS(rc_stage_training_create(&l, &training));
        rc_learner_send_order(&l, 0);
        rc_training_send(training);
        plain = *be;
        be->loss_cross_entropy = counted_entropy;
        entropies = 0;
        rc_status status = be->repeat(be, rc_training_step, training, 1);
        *be = plain;
        SUCCEEDS(status);
        assert_int_equal(entropies, rows[i].entropies);
        rc_training_destroy(training);
        rc_learner_destroy(&l);
    }
}

/* There may be more classes than rows of a batch: each has its weight, and a place for it. */
static void classes_may_outnumber_images(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    s.batch = 2;
    s.epochs = 1;
    s.refine_epochs = 0;
    rc_learner l;
    rc_training *training;
    learning_create(&l, be, "dgr", &s);
    learning_teach(&l, 0, 4, 1, &learning_no_hooks);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 20, 1);
    SUCCEEDS(rc_stage_training_create(&l, &training));
    assert_int_equal(rc_training_look(training).input->n, 4);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_stay_with_methods_that_use_them),
        cmocka_unit_test(dreams_need_a_teacher),
        cmocka_unit_test(a_task_with_old_images_is_not_decoupled),
        cmocka_unit_test(weights_are_those_of_the_row_and_the_task),
        cmocka_unit_test(every_generator_is_inverted),
        cmocka_unit_test(images_of_other_shapes_are_refused),
        cmocka_unit_test(real_replay_needs_old_and_new_images),
        cmocka_unit_test(steps_refuse_what_they_cannot_do),
        cmocka_unit_test(a_state_that_is_not_whole_is_told),
        cmocka_unit_test(creators_that_fail_leave_nothing),
        cmocka_unit_test(the_result_is_looked_at),
        cmocka_unit_test(only_sources_of_stored_images_have_a_buffer),
        cmocka_unit_test(operations_get_what_is_theirs),
        cmocka_unit_test(an_autoencoder_has_two_losses),
        cmocka_unit_test(steps_compute_only_what_the_row_has),
        cmocka_unit_test(classes_may_outnumber_images),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
