/* What steps hand to the operations of the backend, and what they hold: halves of a batch that differ in size, weights
 * and values of losses, labels, gradients, tensors of a checkpoint, memory for what an objective names and for nothing
 * else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/sources.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

static rc_backend plain; /* as it was opened */

static int open_and_keep(void **state)
{
    int failed = open_backend(state);
    plain = failed ? plain : *be;
    return failed;
}

/* ---- halves of a batch ---------------------------------------------------------------------------------------- */

enum { REPLAYED = 6 };

static const rc_step *seen_step;
static rc_training_view view;
static int rows_of[RC_LOSS_COUNT], classes_of[RC_LOSS_COUNT];
static const void *logits_of[RC_LOSS_COUNT];
static const void *summed[8];
static size_t summed_reals[8];
static int sums;
static char *real_images; /* as they were made */
static size_t real_bytes;

static void seen_augment(rc_backend *b, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                         const rc_step *step, rc_tensor *out)
{
    assert_true(out->n == n && out->groups == 1 && out->group_end[0] == n);
    seen_step = step;
    plain.augment(b, augment, images, order, n, step, out);
    real_bytes = rc_act_count(b, n, out->h, out->w, out->c) * b->act_bytes;
    free(real_images);
    real_images = malloc(real_bytes);
    assert_non_null(real_images);
    b->read_bytes(b, real_images, out->raw, real_bytes);
}

/* The loss that this weight belongs to. Its value goes to the place of the same loss. */
static rc_loss loss_of(const float *weight, const void *value, int n, int classes, const void *logits)
{
    ptrdiff_t loss = weight - seen_step->weight;
    assert_in_range(loss, 0, RC_LOSS_COUNT - 1);
    assert_ptr_equal(value, rc_real_at(be, view.loss, (size_t)loss));
    rows_of[loss] = n;
    classes_of[loss] = classes;
    logits_of[loss] = logits;
    return (rc_loss)loss;
}

static void seen_cross_entropy(rc_backend *b, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    loss_of(weight, value, ce->n, ce->count, rc_real_at(b, logits, (size_t)ce->first));
    plain.loss_cross_entropy(b, ce, logits, labels, class_weight, weight, value, dlogits);
}

static void seen_decoupled(rc_backend *b, int n, int stride, int n_old, int count, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    assert_int_equal(loss_of(inter_weight, inter_value, n, count, logits), RC_LOSS_INTER);
    assert_int_equal(loss_of(intra_weight, intra_value, n, count, logits), RC_LOSS_INTRA);
    plain.loss_decoupled(b, n, stride, n_old, count, logits, labels, inter_weight, intra_weight, inter_value,
                         intra_value, dlogits);
}

static void seen_hkd(rc_backend *b, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    assert_int_equal(loss_of(weight, value, n, n_old, logits), RC_LOSS_HKD);
    plain.loss_hkd(b, n, n_old, logits, stride, teacher, teacher_stride, weight, value, dlogits);
}

static void seen_kd(rc_backend *b, const rc_distillation *kd, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    loss_of(weight, value, kd->n, kd->student_count, logits);
    plain.loss_kd(b, kd, logits, teacher, weight, value, dlogits);
}

static void seen_sum(rc_backend *b, void *real, size_t count)
{
    assert_in_range(sums, 0, 7);
    summed[sums] = real;
    summed_reals[sums++] = count;
    plain.sum_workers(b, real, count);
}

static void watch_operations(void)
{
    *be = plain;
    be->augment = seen_augment;
    be->loss_cross_entropy = seen_cross_entropy;
    be->loss_decoupled = seen_decoupled;
    be->loss_hkd = seen_hkd;
    be->loss_kd = seen_kd;
    be->sum_workers = seen_sum;
    sums = 0;
    memset(rows_of, 0, sizeof rows_of);
    memset(classes_of, 0, sizeof classes_of);
}

/* The first batch of the order; each loss has a weight of its own. */
static void make_batch(rc_training *training)
{
    rc_step *control = rc_training_control(training);
    control->step = control->batch = 0;
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        control->weight[i] = 0.125f * (float)(i + 1);
    rc_training_send(training);
    rc_training_batch(training);
}

/* The batch of a step, with as many real images as there are features, and fewer dreams. */
static rc_training *unequal_step(rc_learner *l, const rc_objective *losses)
{
    rc_training_settings settings = {.batch = l->student.head.d, .n_old = 2, .losses = *losses, .kd_temperature = 2};
    rc_replay *dreams;
    rc_training *training;
    SUCCEEDS(rc_replay_dreams_create(be, learning_generator(l), 1, REPLAYED, RC_STREAM_DREAMS, &dreams));
    SUCCEEDS(rc_training_create(be, &settings, &l->student, &l->teacher, dreams, &l->data, &training));
    view = rc_training_look(training);
    make_batch(training);
    return training;
}

static void expect_loss(rc_loss loss, int rows, int first_row, int classes, int first_class, int all)
{
    assert_int_equal(rows_of[loss], rows);
    assert_int_equal(classes_of[loss], classes);
    assert_ptr_equal(logits_of[loss], rc_real_at(be, view.logits, (size_t)(first_row * all + first_class)));
}

static void each_half_has_its_own_losses(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    int d = l.student.head.d, batch = d;
    assert_in_range(batch, REPLAYED + 1, 16); /* the order of the epoch has 16 images */
    static const rc_objective first = {.real = RC_CE_DECOUPLED,
                                       .replay = RC_CE_ALL,
                                       .kd_real = RC_KD_ALL,
                                       .kd_replay = RC_KD_OLD,
                                       .hkd = true,
                                       .rkd = true};
    static const rc_objective second = {
        .real = RC_CE_NEW, .replay = RC_CE_OLD, .kd_real = RC_KD_OLD, .kd_replay = RC_KD_ALL};
    watch_operations();
    rc_training *training = unequal_step(&l, &first);
    size_t held = real_bytes;
    char *made = malloc(held);
    assert_non_null(made);
    be->read_bytes(be, made, view.input->raw, held);
    assert_memory_equal(made, real_images, held); /* dreams come behind the real images */
    free(made);
    rc_training_gradients(training);
    expect_loss(RC_LOSS_INTER, batch, 0, 4, 0, 4);
    expect_loss(RC_LOSS_INTRA, batch, 0, 4, 0, 4);
    expect_loss(RC_LOSS_REPLAY, REPLAYED, batch, 4, 0, 4);
    expect_loss(RC_LOSS_KD, batch, 0, 4, 0, 4);
    expect_loss(RC_LOSS_KD_REPLAY, REPLAYED, batch, 2, 0, 4);
    expect_loss(RC_LOSS_HKD, REPLAYED, batch, 2, 0, 4);
    assert_int_equal(sums, 3); /* each kind of gradient once, whole */
    size_t reals = (size_t)d * (size_t)d;
    assert_true(summed[0] == view.head_gradient && summed_reals[0] == (size_t)(4 * d));
    assert_true(summed[1] == view.projection_gradient && summed_reals[1] == 2 * (2 * reals + 2 * (size_t)d));
    assert_true(summed[2] == view.backbone_gradient && summed_reals[2] == l.net.params);
    rc_training_destroy(training);

    training = unequal_step(&l, &second);
    rc_training_gradients(training);
    expect_loss(RC_LOSS_CE, batch, 0, 2, 2, 4);
    expect_loss(RC_LOSS_REPLAY, REPLAYED, batch, 2, 0, 4);
    expect_loss(RC_LOSS_KD, batch, 0, 2, 0, 4);
    expect_loss(RC_LOSS_KD_REPLAY, REPLAYED, batch, 4, 0, 4);
    rc_training_destroy(training);
    *be = plain;
    rc_learner_destroy(&l);
}

/* The teacher's logits of the replayed half alone, where no loss looks at those of the real one. */
static void the_teacher_is_asked_for_what_is_needed(void **state)
{
    (void)state;
    static const rc_objective losses = {.real = RC_CE_NEW, .hkd = true};
    rc_settings s = learning_settings();
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    watch_operations();
    rc_training *training = unequal_step(&l, &losses);
    int rows = view.input->n, batch = rows - REPLAYED;
    float logits[2 * (16 + REPLAYED)];
    for (int i = 0; i < 2 * rows; i++)
        logits[i] = 77;
    be->write_real(be, view.teacher_logits, logits, (size_t)(2 * rows));
    rc_training_gradients(training);
    be->read_real(be, logits, view.teacher_logits, (size_t)(2 * rows));
    for (int i = 0; i < 2 * rows; i++)
        assert_int_equal(logits[i] == 77.0f, i < 2 * batch);
    rc_training_destroy(training);
    *be = plain;
    rc_learner_destroy(&l);
}

/* Images that were made for a label keep it, whatever the old model takes them for. */
static void labels_that_are_known_stay(void **state)
{
    (void)state;
    enum { BATCH = 8, OLD = 2 };
    rc_settings s = learning_settings();
    rc_learner l;
    rc_training *training;
    int32_t before[BATCH], after[BATCH];
    float logits[2 * BATCH * OLD];
    int others = 0;
    learning_begin_second(&l, be, "deepinversion-pixels", &s);
    rc_learner_send_order(&l, 0);
    SUCCEEDS(rc_stage_training_create(&l, &training));
    SUCCEEDS(rc_training_prepare_epoch(training, 0));
    rc_training_view look = rc_training_look(training);
    make_batch(training);
    be->read_bytes(be, before, look.labels + BATCH, sizeof before);
    rc_training_gradients(training);
    be->read_bytes(be, after, look.labels + BATCH, sizeof after);
    be->read_real(be, logits, look.teacher_logits, (size_t)(2 * BATCH * OLD));
    for (int i = 0; i < BATCH; i++) {
        const float *row = logits + (BATCH + i) * OLD;
        others += before[i] != (row[1] > row[0]);
    }
    assert_memory_equal(before, after, sizeof before);
    assert_true(others > 0); /* so it would show */
    rc_training_destroy(training);
    rc_learner_destroy(&l);
}

/* A method that looks at new classes alone has all of them to tell apart once old images are among the new. */
static void cross_entropy_covers_old_classes_that_come_again(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    for (int joins = 0; joins < 2; joins++) {
        rc_learner l;
        rc_training *training;
        int32_t *labels;
        uint8_t *images = learning_images(2, 2, 8, &labels);
        learning_create(&l, be, "rdfcil", &s);
        learning_teach(&l, 0, 2, 8, &learning_no_hooks);
        rc_learner_end_task(&l);
        labels[0] = joins ? 1 : labels[0];
        SUCCEEDS(rc_learner_begin_task(&l, 1, 2, images, labels, 16));
        rc_learner_send_order(&l, 0);
        watch_operations();
        SUCCEEDS(rc_stage_training_create(&l, &training));
        view = rc_training_look(training);
        make_batch(training);
        rc_training_gradients(training);
        expect_loss(RC_LOSS_CE, s.batch, 0, joins ? 4 : 2, joins ? 0 : 2, 4);
        *be = plain;
        rc_training_destroy(training);
        rc_learner_destroy(&l);
        rc_free(NULL, images);
        rc_free(NULL, labels);
    }
}

/* ---- the beginning -------------------------------------------------------------------------------------------- */

/* Whoever sends nothing begins with the first batch of the order, and with the first noise of the task. */
static void a_new_step_stands_before_the_first_batch(void **state)
{
    (void)state;
    enum { BATCH = 8, NOISE = 8 };
    rc_settings s = learning_settings();
    rc_learner l;
    rc_training *training;
    int32_t labels[16], order[16], found[BATCH];
    double noise[2][BATCH * NOISE];
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    SUCCEEDS(rc_stage_training_create(&l, &training));
    be->read_bytes(be, labels, l.data.labels, sizeof labels);
    be->read_bytes(be, order, l.data.order, sizeof order);
    rc_training_step(training);
    be->read_bytes(be, found, rc_training_look(training).labels, sizeof found);
    for (int i = 0; i < BATCH; i++)
        assert_int_equal(found[i], labels[order[i]]);
    rc_training_destroy(training);
    for (int sends = 0; sends < 2; sends++) {
        rc_inversion *inversion;
        SUCCEEDS(rc_stage_inversion_create(&l, &inversion));
        if (sends)
            rc_inversion_send(inversion);
        rc_inversion_step(inversion);
        const rc_tensor *made = rc_inversion_look(inversion).noise;
        be->read_act(be, noise[sends], made, made->raw);
        rc_inversion_destroy(inversion);
    }
    assert_memory_equal(noise[0], noise[1], sizeof noise[0]);
    rc_learner_destroy(&l);
}

/* One image is a batch; a covariance takes two dreams. */
static void the_smallest_batches_are_taken(void **state)
{
    (void)state;
    static const rc_objective losses = {.real = RC_CE_ALL};
    rc_settings s = learning_settings();
    rc_learner l;
    rc_training *training;
    rc_inversion *inversion;
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    rc_training_settings one = {.batch = 1, .n_old = 2, .losses = losses};
    SUCCEEDS(rc_training_create(be, &one, &l.student, NULL, NULL, &l.data, &training));
    assert_int_equal(rc_training_look(training).input->n, 1);
    rc_training_destroy(training);
    rc_inversion_settings two = {.batch = 2, .temperature = 1, .adam = {0.9f, 0.999f, 1e-8f}};
    SUCCEEDS(rc_inversion_create(be, &two, &l.teacher, learning_generator(&l), &inversion));
    rc_inversion_destroy(inversion);
    rc_learner_destroy(&l);
}

/* ---- what a checkpoint names ---------------------------------------------------------------------------------- */

static int named;

/* Numbers are floats but for counters; there are as many as the tensor has. */
static rc_status check_entries(void *user, const rc_stage_report *report)
{
    const rc_learner *l = user;
    size_t d = (size_t)l->student.head.d, old = (size_t)l->n_old, classes = (size_t)l->student.head.classes;
    const struct {
        const char *name;
        rc_state_type type;
        size_t count;
    } known[] = {
        {"student.param", RC_STATE_REAL, l->net.params},
        {"student.running", RC_STATE_REAL, l->net.running},
        {"student.head", RC_STATE_REAL, classes * d},
        {"generator.param", RC_STATE_REAL, learning_generator_net(l)->params},
        {"adam.first", RC_STATE_REAL, learning_generator_net(l)->params},
        {"adam.second", RC_STATE_REAL, learning_generator_net(l)->params},
        {"dce.running_mean", RC_STATE_REAL, old * d},
        {"dce.running_covariance", RC_STATE_REAL, d * d},
        {"dce.seen", RC_STATE_INT32, old},
        {"momentum.backbone", RC_STATE_REAL, l->net.params},
        {"momentum.head", RC_STATE_REAL, classes * d},
        {"projection", RC_STATE_REAL, 2 * (2 * d * d + 2 * d)},
        {"momentum.projection", RC_STATE_REAL, 2 * (2 * d * d + 2 * d)},
        {"class_weight", RC_STATE_REAL, classes},
        {"label_count", RC_STATE_INT32, classes},
    };
    for (int i = 0; i < report->state->entries; i++) {
        const rc_state_entry *entry = &report->state->entry[i];
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(entry->name, known[k].name) == 0) {
                assert_int_equal(entry->type, known[k].type);
                assert_int_equal(entry->count, known[k].count);
                named |= 1 << k;
            }
    }
    return RC_OK;
}

static void tensors_of_a_checkpoint_have_type_and_size(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    rc_stage_hooks hooks = {.boundary = check_entries, .user = &l, .interval = 1e9};
    named = 0;
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &hooks, NULL));
    assert_int_equal(named, (1 << 15) - 1);
    rc_learner_destroy(&l);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static size_t bytes_of(rc_learner *l, const rc_objective *losses, bool asks)
{
    rc_training_settings settings = {.batch = 8, .n_old = 2, .losses = *losses, .kd_temperature = 2};
    rc_training *training;
    SUCCEEDS(rc_training_create(be, &settings, &l->student, asks ? &l->teacher : NULL, NULL, &l->data, &training));
    rc_training_view look = rc_training_look(training);
    assert_int_equal(look.teacher_logits != NULL, asks);
    assert_int_equal(look.projection != NULL, losses->rkd);
    assert_int_equal(look.projection_gradient != NULL, losses->rkd);
    rc_training_destroy(training);
    return look.bytes;
}

static void nothing_is_held_for_losses_that_are_off(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    rc_objective alone = {.real = RC_CE_ALL}, asks = {.real = RC_CE_ALL, .kd_real = RC_KD_OLD};
    size_t least = bytes_of(&l, &alone, false), asked = bytes_of(&l, &asks, true);
    assert_true(least < asked);
    alone.head_ce = true; /* a second loss on the same logits */
    assert_int_equal(bytes_of(&l, &alone, false), least);
    asks.feature = true;
    assert_true(bytes_of(&l, &asks, true) > asked);
    asks.feature = false;
    asks.rkd = true;
    assert_true(bytes_of(&l, &asks, true) > asked);
    size_t held[2];
    for (int consistent = 0; consistent < 2; consistent++) {
        rc_inversion_settings settings = {.batch = 8,
                                          .temperature = 1,
                                          .consistency = consistent,
                                          .adam = {0.9f, 0.999f, 1e-8f},
                                          .class_mean = l.class_mean,
                                          .covariance = l.covariance};
        rc_inversion *inversion;
        SUCCEEDS(rc_inversion_create(be, &settings, &l.teacher, learning_generator(&l), &inversion));
        held[consistent] = rc_inversion_look(inversion).bytes;
        rc_inversion_destroy(inversion);
    }
    size_t d = (size_t)l.student.head.d;
    assert_true(held[1] >= held[0] + d * d * be->real_bytes);
    rc_learner_destroy(&l);
}

/* ---- inversion ------------------------------------------------------------------------------------------------ */

static int diversities, smoothings, consistencies, judged_classes;
static bool paper;

static void seen_diversity(rc_backend *b, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    diversities++;
    plain.loss_diversity(b, n, classes, stride, logits, epsilon, weight, value, dlogits);
}

static void seen_smoothing(rc_backend *b, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    smoothings++;
    plain.loss_smoothing(b, x, weight, value, dx);
}

static void seen_dce(rc_backend *b, const rc_dce *dce, const void *features, const int32_t *labels, const float *weight,
                     void *value, void *dfeatures)
{
    consistencies++;
    paper = dce->paper;
    plain.loss_dce(b, dce, features, labels, weight, value, dfeatures);
}

static void seen_content(rc_backend *b, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                         const void *class_weight, const float *weight, void *value, void *dlogits)
{
    judged_classes = ce->count;
    plain.loss_cross_entropy(b, ce, logits, labels, class_weight, weight, value, dlogits);
}

/* A weight of 0 turns a prior or DCE off. Targets of pixels are as diverse as they were drawn. */
static void inversion_has_the_terms_that_settings_name(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        double prior, dce;
        bool paper, paper_bn;
        int diversities, smoothings, consistencies;
    } cases[] = {
        {"cwd", 0.001, 5, true, false, 1, 1, 1},
        {"cwd", 0.001, 5, false, true, 1, 1, 1},
        {"cwd", 0, 5, false, false, 1, 0, 1},
        {"cwd", 0.001, 0, false, false, 1, 1, 0},
        {"deepinversion-pixels", 0.001, 5, false, false, 0, 0, 0},
    };
    *be = plain;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_settings s = learning_settings();
        rc_learner l;
        rc_inversion *inversion;
        float weight[RC_LOSS_COUNT];
        bool active[RC_LOSS_COUNT];
        s.weight_prior = cases[i].prior;
        s.lambda_dce = cases[i].dce;
        s.paper_dce = cases[i].paper;
        s.paper_bn_sum = cases[i].paper_bn;
        learning_begin_second(&l, be, cases[i].method, &s);
        rc_learner_send_order(&l, 0);
        be->loss_diversity = seen_diversity;
        be->loss_smoothing = seen_smoothing;
        be->loss_dce = seen_dce;
        be->loss_cross_entropy = seen_content;
        diversities = smoothings = consistencies = 0;
        SUCCEEDS(rc_stage_inversion_create(&l, &inversion));
        rc_inversion_step(inversion);
        *be = plain;
        rc_inversion_destroy(inversion);
        assert_int_equal(judged_classes, 2); /* the old model judges, which does not know the new ones */
        assert_int_equal(diversities, cases[i].diversities);
        assert_int_equal(smoothings, cases[i].smoothings);
        assert_int_equal(consistencies, cases[i].consistencies);
        assert_true(consistencies == 0 || paper == cases[i].paper);
        rc_inversion_weights(&l, weight, active);
        assert_int_equal(active[RC_LOSS_DCE], cases[i].consistencies);
        assert_int_equal(active[RC_LOSS_PRIOR], cases[i].prior > 0);
        rc_learner_destroy(&l);
    }
}

/* One old class cannot be more or less diverse, however many new ones there are. */
static void diversity_is_of_old_classes(void **state)
{
    (void)state;
    const rc_method *cwd;
    SUCCEEDS(rc_method_find("cwd", &cwd));
    for (int old = 1; old <= 2; old++) {
        rc_learner l = {.settings = rc_settings_default(), .method = cwd, .n_old = old, .n_new = 3 - old};
        float weight[RC_LOSS_COUNT];
        bool active[RC_LOSS_COUNT];
        rc_inversion_weights(&l, weight, active);
        assert_int_equal(active[RC_LOSS_DIVERSITY], old > 1);
    }
}

static int free_images(void **state)
{
    free(real_images);
    return close_backend(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_half_has_its_own_losses),
        cmocka_unit_test(the_teacher_is_asked_for_what_is_needed),
        cmocka_unit_test(labels_that_are_known_stay),
        cmocka_unit_test(cross_entropy_covers_old_classes_that_come_again),
        cmocka_unit_test(a_new_step_stands_before_the_first_batch),
        cmocka_unit_test(the_smallest_batches_are_taken),
        cmocka_unit_test(tensors_of_a_checkpoint_have_type_and_size),
        cmocka_unit_test(nothing_is_held_for_losses_that_are_off),
        cmocka_unit_test(inversion_has_the_terms_that_settings_name),
        cmocka_unit_test(diversity_is_of_old_classes),
    };
    return cmocka_run_group_tests(tests, open_and_keep, free_images);
}
