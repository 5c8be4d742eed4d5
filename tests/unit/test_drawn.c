/* Features that refinement draws, where a class has no statistics, as no dream was told to be of it, or those of a
 * single image. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "cil/moved.h"
#include "cil/scorer.h"
#include "support/cpu_backend.h"
#include "support/learning.h"
#include "support/succeeds.h"

/* Their turn is that of the next class which has a mean. */
static void classes_without_a_mean_are_passed_over(void **state)
{
    (void)state;
    enum { CLASSES = 4, D = 2, EACH = 3, ROWS = EACH * CLASSES };
    static const int32_t wanted[ROWS] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2};
    double mean[CLASSES * D] = {NAN, NAN, 10, 20, 30, 40, NAN, NAN}, lower[D * D] = {1, 0, 0.5, 2};
    const rc_moved moved = {.d = D, .classes = CLASSES, .mean = mean, .lower = lower};
    float feature[ROWS * D];
    int32_t label[ROWS];
    rc_moved_draw(&moved, (rc_rng){1, 2}, 0, EACH, feature, label);
    assert_memory_equal(label, wanted, sizeof wanted);
    for (int i = 0; i < ROWS * D; i++)
        assert_true(fabs((double)feature[i] - mean[label[i / D] * D + i % D]) < 9);
    for (int i = 0; i < CLASSES * D; i++)
        mean[i] = i;
    rc_moved_draw(&moved, (rc_rng){1, 2}, 0, EACH, feature, label);
    for (int row = 0; row < ROWS; row++)
        assert_int_equal(label[row], row % CLASSES);
}

/* No more than 2^26 logits, as 2048 classes have with 16 features each, but at least a feature of every class. */
static void many_classes_have_few_features_each(void **state)
{
    (void)state;
    static const int cases[][2] = {{1, 16},   {2, 16},   {2048, 16}, {2049, 15}, {2365, 11}, {2900, 7},
                                   {4096, 4}, {5000, 2}, {8192, 1},  {8193, 1},  {30000, 1}, {2000000000, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(rc_moved_each(cases[i][0]), cases[i][1]);
}

static void a_task_after_a_class_without_dreams_is_learnt(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    const float unknown = NAN;
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "dreams");
    learning_begin_second(&l, be, "cwd+", &s);
    for (int j = 0; j < l.student.head.d; j++)
        be->write_real(be, rc_real_at(be, l.class_mean, (size_t)j), &unknown, 1);
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_INVERSION, 0, &learning_no_hooks, NULL));
    rc_learner_destroy(&l);
}

/* An old class that comes again has the statistics of what is shown of it, be it one image, which does not vary. */
static void a_class_of_one_image_does_not_vary(void **state)
{
    (void)state;
    enum { IMAGES = 16, IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    int32_t *labels, *old;
    double stored;
    s.plus_variances = true;
    learning_create(&l, be, "cwd+", &s);
    learning_teach(&l, 0, 2, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    uint8_t *images = learning_images(2, 2, IMAGES / 2, &labels), *again = learning_images(0, 1, 1, &old);
    memcpy(images, again, IMAGE);
    labels[0] = old[0];
    SUCCEEDS(rc_learner_begin_task(&l, 1, 2, images, labels, IMAGES));
    assert_int_equal(l.batches * s.batch, IMAGES);
    SUCCEEDS(rc_moved_create(&l, false, &m));
    be->read_real64(be, &stored, l.class_variance, 1);
    assert_true(stored > 0);
    for (int j = 0; j < m.d; j++) {
        assert_true(fabs(m.variance[j]) < 1e-9);
        assert_true(m.variance[m.d + j] >= 0);
    }
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
    rc_free(NULL, images);
    rc_free(NULL, labels);
    rc_free(NULL, again);
    rc_free(NULL, old);
}

/* Where nothing varies, as in a first lesson of one image a class, a feature that is drawn of a class is its mean. */
static void features_that_do_not_vary_are_means(void **state)
{
    (void)state;
    enum { CLASSES = 2, EACH = 3, MOST = 64 };
    double zeros[MOST * MOST] = {0}, mean[CLASSES * MOST];
    const double broken = NAN;
    float feature[EACH * CLASSES * MOST];
    int32_t label[EACH * CLASSES];
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    learning_create(&l, be, "cwd", &s);
    learning_teach(&l, 0, CLASSES, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    size_t d = (size_t)l.student.head.d;
    be->read_real64(be, mean, l.class_mean, CLASSES * d);
    be->write_real64(be, l.covariance, zeros, d * d);
    SUCCEEDS(rc_moved_read(&l, &m));
    rc_moved_draw(&m, (rc_rng){1, 2}, 0, EACH, feature, label);
    for (size_t i = 0; i < EACH * CLASSES * d; i++)
        assert_true((double)feature[i] == mean[(size_t)label[i / d] * d + i % d]);
    rc_moved_destroy(&m);
    be->write_real64(be, l.covariance, &broken, 1);
    assert_int_equal(rc_moved_read(&l, &m), RC_NUMERIC);
    rc_learner_destroy(&l);
}

/* The features of images are those that a scorer sees, which does not look at the rest of the batch. */
static void means_are_of_features_as_they_are_scored(void **state)
{
    (void)state;
    enum { IMAGES = 16, NEW = 2 };
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    rc_scorer *scorer;
    int32_t *labels;
    s.plain_statistics = true;
    learning_begin_second(&l, be, "cwd+", &s);
    uint8_t *images = learning_images(2, NEW, IMAGES / NEW, &labels);
    int d = l.student.head.d;
    float *feature = rc_alloc_zeroed(NULL, IMAGES, (size_t)d * sizeof *feature);
    assert_non_null(feature);
    SUCCEEDS(rc_moved_create(&l, false, &m));
    SUCCEEDS(rc_scorer_create(be, &l.student, IMAGES, &l.augment, &scorer));
    SUCCEEDS(rc_scorer_run(scorer, images, NULL, IMAGES, NULL, feature));
    for (int k = 2; k < 2 + NEW; k++)
        for (int j = 0; j < d; j++) {
            double mean = 0;
            for (int i = 0; i < IMAGES; i++)
                mean += labels[i] == k ? (double)feature[i * d + j] / (IMAGES / NEW) : 0;
            assert_true(fabs(m.mean[k * d + j] - mean) <= 1e-5 * (1 + fabs(mean)));
        }
    rc_scorer_destroy(scorer);
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
    rc_free(NULL, feature);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

static rc_backend plain;
static float *given; /* what refinement was last given to learn from */
static size_t given_count;

static void note_given(rc_backend *b, void *to, const float *from, size_t count)
{
    if (count == given_count)
        memcpy(given, from, count * sizeof *from);
    plain.write_real(b, to, from, count);
}

static rc_status look_at_rate(void *user, const rc_stage_report *report)
{
    const rc_settings *s = user;
    bool refines = report->stage == RC_STAGE_REFINEMENT;
    assert_int_equal(report->learning_rate == (double)(float)s->refine_rate, refines);
    return RC_OK;
}

/* Its features are those of the statistics that have followed the net, and its learning rate is its own. */
static void refinement_draws_from_moved_statistics(void **state)
{
    (void)state;
    enum { EACH = 16, CLASSES = 4 };
    rc_settings s = learning_settings();
    const rc_stage_hooks hooks = {.boundary = look_at_rate, .user = &s, .interval = 0};
    rc_learner l;
    rc_moved m;
    s.refine_epochs = 1; /* of four */
    learning_begin_second(&l, be, "cwd+", &s);
    size_t d = (size_t)l.student.head.d;
    given_count = EACH * CLASSES * d;
    given = rc_alloc_zeroed(NULL, 2 * given_count, sizeof *given);
    int32_t label[EACH * CLASSES];
    assert_non_null(given);
    plain = *be;
    be->write_real = note_given;
    rc_status status = rc_stage_training(&l, RC_STAGE_TRAINING, 0, &hooks);
    *be = plain;
    SUCCEEDS(status);
    SUCCEEDS(rc_moved_create(&l, false, &m));
    rc_rng rng = {s.seed, (uint64_t)1 << 32 | RC_STREAM_DRAWN};
    rc_moved_draw(&m, rng, s.epochs - 1, EACH, given + given_count, label); /* in the last epoch */
    assert_memory_equal(given, given + given_count, given_count * sizeof *given);
    rc_moved_destroy(&m);
    rc_free(NULL, given);
    rc_learner_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_without_a_mean_are_passed_over),
        cmocka_unit_test(many_classes_have_few_features_each),
        cmocka_unit_test(a_task_after_a_class_without_dreams_is_learnt),
        cmocka_unit_test(a_class_of_one_image_does_not_vary),
        cmocka_unit_test(features_that_do_not_vary_are_means),
        cmocka_unit_test(means_are_of_features_as_they_are_scored),
        cmocka_unit_test(refinement_draws_from_moved_statistics),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
