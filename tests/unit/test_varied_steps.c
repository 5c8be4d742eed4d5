/* What a step does to images and labels: where settings ask for it new images are varied, turned and mixed, and
 * refinement has them as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { BATCH = 8, OLD = 2, NEW = 2, TURNED = 3 * NEW };

static rc_backend plain;
static rc_training_settings settings;
static const rc_training_view *view;
static const int32_t *turned_labels, *labels_of_loss; /* what operations were given */
static bool refines;
static int varied, mixed, of_turned; /* calls; of_turned: products of the rows for turned images */

static void seen_vary(rc_backend *b, const rc_vary *vary, const uint8_t *images, const int32_t *order, int n,
                      const rc_step *step, const int32_t *labels, uint8_t *out, int32_t *turned)
{
    varied++;
    assert_int_equal(vary->trivial, settings.trivial);
    assert_int_equal(vary->turns, settings.turns && !refines);
    assert_true(vary->h == LEARNING_SIZE && vary->w == LEARNING_SIZE && vary->c == LEARNING_CHANNELS);
    assert_true(vary->n_old == OLD && vary->classes == OLD + NEW && vary->stream == RC_STREAM_VARY && n == BATCH);
    assert_int_equal(turned != NULL, settings.turns && !refines);
    turned_labels = turned;
    plain.vary(b, vary, images, order, n, step, labels, out, turned);
}

static void seen_mix(rc_backend *b, const rc_mix *mix, const int32_t *labels, const rc_step *step, rc_tensor *images,
                     int32_t *partner, void *share)
{
    bool mixes = settings.mix.mixup > 0 && !refines;
    mixed++;
    assert_memory_equal(mix, &settings.mix, sizeof *mix);
    assert_int_equal(images->n, BATCH);
    assert_true((partner != NULL) == mixes && (share != NULL) == mixes);
    if (!refines)
        assert_ptr_equal(labels, settings.turns ? turned_labels : view->labels);
    plain.mix(b, mix, labels, step, images, partner, share);
}

static void seen_dense(rc_backend *b, int n, int in, int out, const void *x, const void *weight, const void *bias,
                       void *y, int stride)
{
    of_turned += out == TURNED;
    assert_true(out != TURNED || (n == BATCH && stride == OLD + NEW + TURNED));
    plain.dense_forward(b, n, in, out, x, weight, bias, y, stride);
}

static void seen_cross_entropy(rc_backend *b, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    labels_of_loss = labels;
    assert_int_equal(ce->stride, OLD + NEW + (settings.turns ? TURNED : 0));
    assert_int_equal(ce->count, OLD + NEW + (settings.turns && !refines ? TURNED : 0));
    assert_int_equal(ce->partner != NULL, settings.mix.mixup > 0 && !refines);
    plain.loss_cross_entropy(b, ce, logits, labels, class_weight, weight, value, dlogits);
}

static void expect_step(rc_training *training)
{
    varied = mixed = of_turned = 0;
    turned_labels = labels_of_loss = NULL;
    if (refines)
        rc_training_refinement_step(training);
    else
        rc_training_step(training);
    SUCCEEDS(be->sync(be));
    assert_int_equal(varied, settings.trivial || settings.turns);
    assert_int_equal(mixed, settings.mix.cutout > 0 || (settings.mix.mixup > 0 && !refines));
    assert_int_equal(of_turned, settings.turns && !refines);
    assert_ptr_equal(labels_of_loss, settings.turns && !refines ? turned_labels : view->labels);
}

static void steps_do_what_settings_ask_for(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_training *training;
    learning_begin_second(&l, be, "finetune", &s);
    rc_learner_send_order(&l, 0);
    for (int set = 0; set < 16; set++) {
        settings = (rc_training_settings){
            .batch = BATCH,
            .n_old = OLD,
            .losses = {.real = RC_CE_ALL},
            .trivial = set & 1,
            .turns = set & 2,
            .mix = {.cutout = set & 4 ? 1 : 0, .mixup = set & 8, .stream = RC_STREAM_MIX}};
        SUCCEEDS(rc_training_create(be, &settings, &l.student, NULL, NULL, &l.data, &training));
        const rc_training_view all = rc_training_look(training);
        view = &all;
        plain = *be;
        be->vary = seen_vary;
        be->mix = seen_mix;
        be->dense_forward = seen_dense;
        be->loss_cross_entropy = seen_cross_entropy;
        for (refines = false;; refines = true) {
            expect_step(training);
            if (refines)
                break;
            SUCCEEDS(rc_training_begin_refinement(training));
        }
        *be = plain;
        rc_training_destroy(training);
    }
    rc_learner_destroy(&l);
}

static rc_mix told;
static float smoothing;
static uint32_t noise;

static void note_mix(rc_backend *b, const rc_mix *mix, const int32_t *labels, const rc_step *step, rc_tensor *images,
                     int32_t *partner, void *share)
{
    told = *mix;
    plain.mix(b, mix, labels, step, images, partner, share);
}

static void note_cross_entropy(rc_backend *b, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    smoothing = ce->smoothing;
    plain.loss_cross_entropy(b, ce, logits, labels, class_weight, weight, value, dlogits);
}

static void note_noise(rc_backend *b, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    noise = stream;
    plain.random_normal(b, stream, step, out);
}

/* A learner's settings reach the step, each in its place, and dreams have noise of their own. */
static void settings_of_a_learner_reach_its_steps(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_training *training;
    s.cutout = 3;
    s.mixup = 0.5;
    s.cutmix = 0.25;
    s.smoothing = 0.125;
    learning_begin_second(&l, be, "cwd", &s);
    rc_learner_send_order(&l, 0);
    SUCCEEDS(rc_stage_training_create(&l, &training));
    plain = *be;
    be->random_normal = note_noise;
    be->mix = note_mix;
    be->loss_cross_entropy = note_cross_entropy;
    rc_training_step(training);
    *be = plain;
    assert_true(told.cutout == 3 && told.mixup == 0.5f && told.cutmix == 0.25f && told.stream == RC_STREAM_MIX);
    assert_true(smoothing == 0.125f && noise == RC_STREAM_DREAMS);
    rc_training_destroy(training);
    rc_learner_destroy(&l);
}

/* What a loss of later tasks does not go with happens in the first one all the same. */
static void methods_turn_where_they_can(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        bool first, later;
    } cases[] = {{"cwd", true, true}, {"lode", true, false}, {"abd", true, false}, {"dgr", false, false}};
    rc_settings s = learning_settings();
    snprintf(s.rotations, sizeof s.rotations, "all");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_learner l;
        rc_training *training;
        learning_create(&l, be, cases[i].method, &s);
        learning_begin(&l, 0, 2, 8);
        SUCCEEDS(rc_stage_training_create(&l, &training));
        assert_int_equal(rc_training_look(training).turned_gradient != NULL, cases[i].first);
        rc_training_destroy(training);
        rc_learner_destroy(&l);
        learning_begin_second(&l, be, cases[i].method, &s);
        SUCCEEDS(rc_stage_training_create(&l, &training));
        assert_int_equal(rc_training_look(training).turned_gradient != NULL, cases[i].later);
        rc_training_destroy(training);
        rc_learner_destroy(&l);
    }
}

static void images_that_are_not_square_are_not_turned(void **state)
{
    (void)state;
    const rc_training_settings turning = {.batch = BATCH, .losses = {.real = RC_CE_ALL}, .turns = true};
    const rc_resident_data none = {.images = NULL};
    rc_training *training;
    rc_classifier c;
    rc_net net;
    SUCCEEDS(rc_net_resnet_small(&net, 3, 16, 20, 4, 1));
    SUCCEEDS(rc_classifier_create(&c, &net, be, 2));
    SUCCEEDS(rc_head_grow(&c.head, 2, (rc_rng){1, 2}));
    assert_int_equal(rc_training_create(be, &turning, &c, NULL, NULL, &none, &training), RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), "rotations turn square images alone, and these have 16 x 20 pixels");
    rc_classifier_destroy(&c);
}

static int reservations, fails_at;

static rc_status failing_reserve(rc_backend *b, int n, int in, int out)
{
    return ++reservations == fails_at ? rc_fail(RC_OUT_OF_MEMORY, "reservation %d", fails_at)
                                      : plain.reserve_dense(b, n, in, out);
}

/* Whichever product there is no workspace for, that of the rows for turned images among them. */
static void a_step_without_workspace_is_refused(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    int all = 0;
    learning_begin_second(&l, be, "cwd+", &s);
    plain = *be;
    be->reserve_dense = failing_reserve;
    for (fails_at = 0; fails_at <= all; fails_at++) {
        rc_training *training;
        reservations = 0;
        rc_status status = rc_stage_training_create(&l, &training);
        all = fails_at == 0 ? reservations : all;
        assert_int_equal(status, fails_at == 0 ? RC_OK : RC_OUT_OF_MEMORY);
        rc_training_destroy(training);
    }
    *be = plain;
    assert_true(all >= 3); /* the head, the rows for turned images, and embeddings */
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_do_what_settings_ask_for),
        cmocka_unit_test(settings_of_a_learner_reach_its_steps),
        cmocka_unit_test(methods_turn_where_they_can),
        cmocka_unit_test(images_that_are_not_square_are_not_turned),
        cmocka_unit_test(a_step_without_workspace_is_refused),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
