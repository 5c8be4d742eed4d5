/* What cwd+ adds to CwD: statistics that follow the net, features drawn from them, and the step that learns from these.
 */
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

#include "base/half.h"
#include "base/memory.h"
#include "cil/moved.h"
#include "cil/task_stream.h"
#include "model/model_file.h"
#include "support/cpu_backend.h"
#include "support/craft.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum { MOST_FEATURES = 64, OLD = 2, NEW = 2 };

/* ---- statistics ------------------------------------------------------------------------------------------------ */

/* The mean over the classes of the task, which have as many images each. */
static void mean_of_new(const rc_moved *m, double *mean)
{
    for (int j = 0; j < m->d; j++)
        mean[j] = (m->mean[OLD * m->d + j] + m->mean[(OLD + 1) * m->d + j]) / NEW;
}

static double distance(int d, const double *a, const double *b)
{
    double sum = 0;
    for (int j = 0; j < d; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sqrt(sum);
}

/* Where the new net is the old one, statistics stay. */
static void statistics_stay_where_the_net_does(void **state)
{
    (void)state;
    static const double zero[MOST_FEATURES];
    double stored[OLD * MOST_FEATURES], covariance[MOST_FEATURES * MOST_FEATURES];
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    learning_begin_second(&l, be, "cwd+", &s);
    assert_true(rc_moved_possible(&l));
    int d = l.student.head.d;
    assert_in_range(d, 1, MOST_FEATURES);
    be->read_real64(be, stored, l.class_mean, (size_t)(OLD * d));
    be->read_real64(be, covariance, l.covariance, (size_t)(d * d));
    SUCCEEDS(rc_moved_create(&l, false, &m));
    assert_int_equal(m.classes, OLD + NEW);
    for (int k = 0; k < OLD; k++)
        assert_true(distance(d, m.mean + k * d, stored + k * d) < 0.1 * distance(d, stored + k * d, zero));
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++) { /* L L^T is the covariance, or a little more on its diagonal */
            double sum = 0;
            for (int k = 0; k < d; k++)
                sum += m.lower[i * d + k] * m.lower[j * d + k];
            assert_true(fabs(sum - m.covariance[i * d + j]) <= 1e-6 * m.covariance[i * d + i] + 1e-9);
        }
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
}

/* The student is no longer the teacher. */
static void change_student(rc_learner *l)
{
    size_t count = l->net.params;
    float *param = malloc(count * sizeof *param);
    assert_non_null(param);
    be->read_real(be, param, l->student.backbone.param, count);
    for (size_t i = 0; i < count; i++)
        param[i] *= i % 3 == 0 ? 1.2f : 0.9f;
    be->write_real(be, l->student.backbone.param, param, count);
    free(param);
}

/* A regression takes the mean of what it was fitted on to the mean of what it should be, whatever the ridge. So if the
 * mean feature of the images, by the old net, is stored as a class's, it becomes their mean feature by the new one. */
static void a_mean_moves_as_the_features_of_the_images_do(void **state)
{
    (void)state;
    double before[MOST_FEATURES], after[MOST_FEATURES];
    rc_settings s = learning_settings();
    s.batch = 8; /* every image once */
    rc_learner l;
    rc_moved m;
    learning_begin_second(&l, be, "cwd+", &s);
    int d = l.student.head.d;
    assert_int_equal(l.images % s.batch, 0);
    SUCCEEDS(rc_moved_create(&l, false, &m));
    mean_of_new(&m, before);
    rc_moved_destroy(&m);
    be->write_real64(be, l.class_mean, before, (size_t)d);
    change_student(&l);
    SUCCEEDS(rc_moved_create(&l, false, &m));
    mean_of_new(&m, after);
    assert_true(distance(d, before, after) > 0.01);
    assert_true(distance(d, m.mean, after) < 1e-3 * distance(d, before, after));
    rc_moved dreamt; /* dreams take part in the fit */
    SUCCEEDS(rc_moved_create(&l, true, &dreamt));
    assert_true(distance(d, dreamt.mean + d, m.mean + d) > 1e-6);
    assert_memory_equal(dreamt.mean + OLD * d, m.mean + OLD * d, (size_t)(NEW * d) * sizeof *m.mean);
    rc_moved_destroy(&dreamt);
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
}

/* Every class has variances of its own: those of its images, of 16 bits once they are stored. Where the net stays, so
 * do they, but for what the map leaves. */
static void classes_have_variances_of_their_own(void **state)
{
    (void)state;
    float kept[2 * OLD * MOST_FEATURES];
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    s.batch = 8; /* every image once */
    s.plus_variances = true;
    learning_begin_second(&l, be, "cwd+", &s);
    int d = l.student.head.d, differ = 0;
    assert_non_null(l.class_variance);
    assert_int_equal(rc_learner_stored(&l).statistics, (size_t)(OLD * d + d * d) * sizeof(float));
    be->read_real(be, kept, l.class_mean, (size_t)(OLD * d));
    be->read_real(be, kept + OLD * d, l.class_variance, (size_t)(OLD * d));
    for (int i = 0; i < 2 * OLD * d; i++)
        assert_true(kept[i] == rc_half_to_float(rc_half_from_float(kept[i])));
    SUCCEEDS(rc_moved_create(&l, false, &m));
    assert_non_null(m.variance);
    for (int j = 0; j < d; j++) {
        double mean = 0; /* the shared covariance is the mean over classes */
        for (int k = 0; k < OLD + NEW; k++) {
            assert_true(m.variance[k * d + j] >= 0);
            mean += m.variance[k * d + j] / (OLD + NEW);
        }
        assert_true(fabs(mean - m.covariance[j * d + j]) < 0.02 * m.covariance[j * d + j] + 1e-6);
        differ += fabs(m.variance[(OLD + 1) * d + j] - m.variance[OLD * d + j]) > 0.1 * mean;
        for (int k = 0; k < OLD; k++)
            assert_true(fabs(m.variance[k * d + j] - (double)kept[(OLD + k) * d + j]) <
                        0.25 * (double)kept[(OLD + k) * d + j] + 0.1 * mean + 1e-6);
    }
    assert_true(differ > d / 2);
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
}

static rc_backend plain;
static const rc_learner *watched;
static int seen, orders;

static void watch_augment(rc_backend *b, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                          const rc_step *step, rc_tensor *out)
{
    assert_int_equal(step->seed, watched->settings.seed);
    assert_int_equal(step->task, watched->task);
    assert_int_equal(step->step, seen);
    assert_int_equal(step->batch, seen);
    seen++;
    plain.augment(b, augment, images, order, n, step, out);
}

static rc_status watch_order(rc_backend *b, const void *images, const int32_t *order, size_t count,
                             const rc_image_view *view)
{
    int32_t wanted[16];
    uint32_t scratch[16];
    assert_int_equal(count, 16);
    rc_epoch_order(watched->settings.seed, watched->task, watched->settings.epochs, 16, watched->settings.batch, wanted,
                   scratch);
    assert_memory_equal(order, wanted, sizeof wanted);
    assert_null(view);
    orders++;
    return plain.expect_images(b, images, order, count, view);
}

/* Their epoch follows those of training and of refinement, and its batches draw by the task's numbers. */
static void statistics_have_an_epoch_of_their_own(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    learning_begin_second(&l, be, "cwd+", &s);
    assert_true(rc_stage_steps(&l, RC_STAGE_REFINEMENT) > 0);
    watched = &l;
    seen = orders = 0;
    plain = *be;
    be->augment = watch_augment;
    be->expect_images = watch_order;
    rc_status status = rc_moved_create(&l, false, &m);
    *be = plain;
    SUCCEEDS(status);
    assert_int_equal(seen, l.batches);
    assert_int_equal(orders, 1);
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
}

/* A class that varies as all do moves as all do; so does one of which no variances are known. */
static void variances_move_as_the_covariance_does(void **state)
{
    (void)state;
    double covariance[MOST_FEATURES * MOST_FEATURES], variance[OLD * MOST_FEATURES];
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    s.plus_variances = true;
    learning_begin_second(&l, be, "cwd+", &s);
    int d = l.student.head.d, differ = 0;
    be->read_real64(be, covariance, l.covariance, (size_t)(d * d));
    for (int i = 0; i < OLD * d; i++)
        variance[i] = covariance[i % d * (d + 1)];
    be->write_real64(be, l.class_variance, variance, (size_t)(OLD * d));
    change_student(&l);
    for (int known = 1; known >= 0; known--) {
        void *kept = l.class_variance;
        l.class_variance = known ? kept : NULL;
        rc_status status = rc_moved_create(&l, false, &m);
        l.class_variance = kept;
        SUCCEEDS(status);
        for (int j = 0; j < d; j++) { /* half of the covariance is that of the task's own classes */
            double own = (m.variance[OLD * d + j] + m.variance[(OLD + 1) * d + j]) / NEW;
            double moved = 2 * m.covariance[j * (d + 1)] - own;
            for (int k = 0; k < OLD; k++)
                assert_true(fabs(m.variance[k * d + j] - moved) < 1e-5 * (moved + own) + 1e-9);
            differ += fabs(moved - variance[j]) > 0.05 * variance[j];
        }
        rc_moved_destroy(&m);
    }
    assert_true(differ > d);
    rc_learner_destroy(&l);
}

/* One class is enough, and the task may have more. */
static void a_single_class_moves(void **state)
{
    (void)state;
    double stored[MOST_FEATURES];
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    learning_create(&l, be, "cwd+", &s);
    learning_teach(&l, 0, 1, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    learning_begin(&l, 1, 3, 8);
    assert_true(rc_moved_possible(&l));
    int d = l.student.head.d;
    be->read_real64(be, stored, l.class_mean, (size_t)d);
    SUCCEEDS(rc_moved_create(&l, false, &m)); /* by a net that stays */
    assert_true(distance(d, m.mean, stored) < 0.1 * distance(d, stored, (const double[MOST_FEATURES]){0}));
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
}

static const char saved[] = "/tmp/recollect-test-XXXXXX";

static void name_classes(rc_saved_model *model, int classes)
{
    for (int i = 0; model->class_name != NULL && i < OLD; i++)
        rc_free(NULL, model->class_name[i]);
    rc_free(NULL, model->class_name);
    model->class_name = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *model->class_name);
    for (int i = 0; i < classes; i++) {
        model->class_name[i] = rc_alloc_zeroed(NULL, 2, 1);
        model->class_name[i][0] = (char)('a' + i);
    }
}

/* A model of OLD classes, and a file for it. */
static void teach_and_name(rc_saved_model *model, const char *method, char *path)
{
    memcpy(path, saved, sizeof saved);
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    learning_create(&model->learner, be, method, &model->config.settings);
    learning_teach(&model->learner, 0, OLD, 8, &learning_no_hooks);
    rc_learner_end_task(&model->learner);
    name_classes(model, OLD);
}

/* Of a class of the task that no image has shown nothing is known: it has neither mean nor variances, what refinement
 * draws passes it over, and files say so. */
static void classes_without_images_have_no_statistics(void **state)
{
    (void)state;
    int32_t *labels;
    enum { ALL = OLD + NEW + 1, EACH = 4 };
    char path[sizeof saved];
    rc_saved_model model = {.config = rc_config_default()}, loaded;
    rc_learner *l = &model.learner;
    rc_moved m;
    model.config.settings = learning_settings();
    model.config.settings.plus_variances = true;
    teach_and_name(&model, "cwd+", path);
    uint8_t *images = learning_images(OLD + 1, NEW, 8, &labels); /* all but the first class of the task */
    SUCCEEDS(rc_learner_begin_task(l, 1, NEW + 1, images, labels, 8 * NEW));
    change_student(l);
    SUCCEEDS(rc_moved_create(l, false, &m));
    for (int k = 0; k < ALL; k++)
        for (int j = 0; j < m.d; j++) {
            assert_int_equal(isnan(m.mean[k * m.d + j]), k == OLD);
            assert_int_equal(isnan(m.variance[k * m.d + j]), k == OLD);
        }
    float feature[EACH * ALL * MOST_FEATURES];
    int32_t label[EACH * ALL];
    rc_moved_draw(&m, (rc_rng){1, 2}, 0, EACH, feature, label);
    for (int i = 0; i < EACH * ALL; i++)
        assert_int_not_equal(label[i], OLD);
    SUCCEEDS(rc_moved_keep(&m, l));
    rc_moved_destroy(&m);
    rc_learner_end_task(l);
    name_classes(&model, ALL);
    size_t bytes = (size_t)(ALL * l->student.head.d) * be->real_bytes;
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    assert_memory_equal(loaded.learner.class_mean, l->class_mean, bytes);
    assert_memory_equal(loaded.learner.class_variance, l->class_variance, bytes);
    rc_saved_model_destroy(&loaded);
    rc_saved_model_destroy(&model);
    unlink(path);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* Images that are all the same tell no map: statistics of old classes stay beside each other as they were, and go where
 * the features of the image have gone. */
static void a_single_image_moves_statistics(void **state)
{
    (void)state;
    enum { IMAGE = LEARNING_SIZE * LEARNING_SIZE * LEARNING_CHANNELS };
    double stored[OLD * MOST_FEATURES], covariance[MOST_FEATURES * MOST_FEATURES], before[MOST_FEATURES];
    int32_t *labels;
    rc_settings s = learning_settings();
    rc_learner l;
    rc_moved m;
    s.plain_statistics = true;
    learning_create(&l, be, "cwd+", &s);
    learning_teach(&l, 0, OLD, 8, &learning_no_hooks);
    rc_learner_end_task(&l);
    uint8_t *image = learning_images(OLD, 1, 1, &labels);
    SUCCEEDS(rc_learner_begin_task(&l, 1, 1, image, labels, 1));
    int d = l.student.head.d;
    be->read_real64(be, stored, l.class_mean, (size_t)(OLD * d));
    be->read_real64(be, covariance, l.covariance, (size_t)(d * d));
    SUCCEEDS(rc_moved_create(&l, false, &m));
    memcpy(before, m.mean + OLD * d, sizeof *before * (size_t)d);
    rc_moved_destroy(&m);
    change_student(&l);
    SUCCEEDS(rc_moved_create(&l, false, &m));
    assert_true(distance(d, before, m.mean + OLD * d) > 0.01);
    for (int j = 0; j < d; j++) {
        double way = m.mean[OLD * d + j] - before[j];
        for (int k = 0; k < OLD; k++)
            assert_true(fabs(m.mean[k * d + j] - stored[k * d + j] - way) < 1e-5);
        for (int i = 0; i < d; i++) /* the image has none of its own, and is one class of three */
            assert_true(fabs(m.covariance[i * d + j] - covariance[i * d + j] * OLD / (OLD + 1)) < 1e-9);
    }
    rc_moved_destroy(&m);
    rc_learner_destroy(&l);
    rc_free(NULL, image);
    rc_free(NULL, labels);
}

/* Estimation keeps what was moved; of the dreams it takes what the setting says. */
static void estimation_keeps_what_was_moved(void **state)
{
    (void)state;
    static const char *const settings[] = {"moved", "moved-dreams"};
    enum { ALL = OLD + NEW };
    for (int dreams = 0; dreams < 2; dreams++) {
        double kept[ALL * MOST_FEATURES];
        rc_settings s = learning_settings();
        rc_learner l;
        rc_moved m, other;
        snprintf(s.plus_statistics, sizeof s.plus_statistics, "%s", settings[dreams]);
        learning_begin_second(&l, be, "cwd+", &s);
        int d = l.student.head.d;
        change_student(&l);
        SUCCEEDS(rc_moved_create(&l, dreams, &m));
        SUCCEEDS(rc_moved_create(&l, !dreams, &other));
        SUCCEEDS(rc_stage_estimation(&l, &learning_no_hooks));
        be->read_real64(be, kept, l.class_mean, (size_t)(ALL * d));
        for (int k = 0; k < ALL; k++)
            assert_true(distance(d, kept + k * d, m.mean + k * d) < 1e-5);
        assert_true(distance(OLD * d, kept, other.mean) > 1e-3);
        rc_moved_destroy(&other);
        rc_moved_destroy(&m);
        rc_learner_destroy(&l);
    }
}

static void expect_refusal(const craft *changed, const char *path, const char *message)
{
    char bad[sizeof saved + 4];
    rc_saved_model loaded;
    snprintf(bad, sizeof bad, "%s.bad", path);
    craft_write(changed, bad);
    assert_int_equal(rc_model_file_load(bad, be, &loaded), RC_FORMAT);
    if (strstr(rc_message(), message) == NULL)
        fail_msg("the message is: %s", rc_message());
    unlink(bad);
}

static char *find_tensor(const craft *changed, const char *tensor)
{
    char key[64];
    long long first = 0;
    snprintf(key, sizeof key, "\"%s\":", tensor);
    const char *at = strstr(changed->header, key);
    assert_non_null(at);
    at = strstr(at, "\"data_offsets\":[");
    assert_true(at != NULL && sscanf(at, "\"data_offsets\":[%lld", &first) == 1);
    return (char *)changed->data + (size_t)first;
}

/* The file with another element 2 of a tensor. */
static void refuses(const char *path, const char *tensor, const void *element, size_t bytes, const char *message)
{
    craft changed;
    craft_read(path, &changed);
    memcpy(find_tensor(&changed, tensor) + 2 * bytes, element, bytes);
    expect_refusal(&changed, path, message);
    craft_free(&changed);
}

/* A class has a mean and variances, or neither of them. */
static void half_known_classes_are_refused(const char *path, int d)
{
    static const char *const tensors[] = {"statistics.class_mean", "statistics.class_variance"};
    static const uint16_t not_a_number = 0x7E00;
    rc_saved_model loaded;
    craft changed;
    for (int of = 0; of < 2; of++) {
        craft_read(path, &changed);
        for (int i = 0; i < d; i++)
            memcpy(find_tensor(&changed, tensors[of]) + (d + i) * 2, &not_a_number, sizeof not_a_number);
        expect_refusal(&changed, path, "class 1 has a mean without variances, or variances without a mean");
        if (of == 1) { /* and now neither */
            for (int i = 0; i < d; i++)
                memcpy(find_tensor(&changed, tensors[0]) + (d + i) * 2, &not_a_number, sizeof not_a_number);
            craft_write(&changed, path);
            SUCCEEDS(rc_model_file_load(path, be, &loaded));
            rc_saved_model_destroy(&loaded);
        }
        craft_free(&changed);
    }
}

/* Variances of a file: numbers of 16 bits that are not negative. */
static void files_have_the_variances(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        uint16_t half;
        const char *message;
    } wrong[] = {
        {"statistics.class_variance", 0xB800,
         "element 2 of tensor 'statistics.class_variance' is -0.5, expected a finite number that is not negative, or "
         "rows of NaN"},
        {"statistics.class_variance", 0x7C00, "element 2 of tensor 'statistics.class_variance' is inf"},
        {"statistics.class_variance", 0x7E00, "element 2 of tensor 'statistics.class_variance' is nan"},
        {"statistics.class_mean", 0x7E00,
         "element 2 of tensor 'statistics.class_mean' is nan, expected a finite number, or rows of NaN"},
    };
    rc_saved_model model = {.config = rc_config_default()}, loaded;
    char path[sizeof saved];
    model.config.settings = learning_settings();
    model.config.settings.plus_variances = true;
    teach_and_name(&model, "cwd+", path);
    const rc_learner *l = &model.learner;
    size_t bytes = (size_t)(OLD * l->student.head.d) * be->real_bytes;
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    assert_int_equal(loaded.unknown_bytes, 0);
    assert_memory_equal(loaded.learner.class_mean, l->class_mean, bytes);
    assert_memory_equal(loaded.learner.class_variance, l->class_variance, bytes);
    rc_learner copy;
    SUCCEEDS(rc_learner_clone(&copy, l));
    assert_memory_equal(copy.class_variance, l->class_variance, bytes);
    rc_learner_destroy(&copy);
    rc_saved_model_destroy(&loaded);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuses(path, wrong[i].tensor, &wrong[i].half, sizeof wrong[i].half, wrong[i].message);
    half_known_classes_are_refused(path, l->student.head.d);
    rc_saved_model_destroy(&model);
    unlink(path);
}

/* Factors of single classes: a triangle of numbers for each, or none at all. */
static void files_have_the_factors(void **state)
{
    (void)state;
    static const char tensor[] = "statistics.class_factor";
    const float bad[] = {NAN, INFINITY};
    rc_saved_model model = {.config = rc_config_default()}, loaded;
    char path[sizeof saved];
    model.config.settings = learning_settings();
    model.config.settings.class_covariances = true;
    teach_and_name(&model, "cwd", path);
    rc_learner *l = &model.learner;
    int d = l->student.head.d, numbers = d * (d + 1) / 2;
    size_t bytes = (size_t)(OLD * numbers) * be->real_bytes;
    assert_non_null(l->class_factor);
    assert_int_equal(rc_learner_stored(l).statistics, (size_t)(OLD * d + d * d + OLD * numbers) * sizeof(float));
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    assert_int_equal(loaded.unknown_bytes, 0);
    assert_memory_equal(loaded.learner.class_factor, l->class_factor, bytes);
    rc_saved_model_destroy(&loaded);
    rc_learner copy;
    SUCCEEDS(rc_learner_clone(&copy, l));
    assert_memory_equal(copy.class_factor, l->class_factor, bytes);
    rc_learner_destroy(&copy);
    refuses(path, tensor, &bad[0], sizeof *bad, "element 2 of tensor 'statistics.class_factor' is nan, expected");
    refuses(path, tensor, &bad[1], sizeof *bad, "element 2 of tensor 'statistics.class_factor' is inf, expected");
    craft changed;
    craft_read(path, &changed);
    assert_true(craft_tensor(&changed, tensor, "dtype", "\"I32\""));
    expect_refusal(&changed, path, "'statistics.class_factor'");
    craft_free(&changed);
    craft_read(path, &changed);
    assert_true(craft_resize(&changed, tensor, "[2,3]", 6));
    expect_refusal(&changed, path, "'statistics.class_factor'");
    craft_free(&changed);
    be->release(be, l->class_factor); /* as files were before there were any */
    l->class_factor = NULL;
    SUCCEEDS(rc_model_file_save(path, &model, true));
    SUCCEEDS(rc_model_file_load(path, be, &loaded));
    assert_true(loaded.learner.class_factor == NULL && loaded.learner.class_mean != NULL && loaded.unknown_bytes == 0);
    rc_saved_model_destroy(&loaded);
    rc_saved_model_destroy(&model);
    unlink(path);
}

/* ---- draws ----------------------------------------------------------------------------------------------------- */

static void draws_have_the_moments_that_were_asked_for(void **state)
{
    (void)state;
    enum { D = 2, CLASSES = 3, EACH = 20000 };
    double mean[CLASSES * D] = {0, 1, 5, -5, 2, 2}, covariance[D * D] = {4, 1, 1, 1.25}, lower[D * D] = {2, 0, 0.5, 1};
    const rc_moved m = {.d = D, .classes = CLASSES, .mean = mean, .covariance = covariance, .lower = lower};
    const rc_rng rng = {7, 23};
    float *x = malloc(2 * sizeof *x * EACH * CLASSES * D), *again = x + EACH * CLASSES * D;
    int32_t *label = malloc(sizeof *label * EACH * CLASSES);
    assert_true(x != NULL && label != NULL);
    rc_moved_draw(&m, rng, 3, EACH, x, label);
    rc_moved_draw(&m, rng, 3, EACH, again, label);
    assert_memory_equal(x, again, sizeof *x * EACH * CLASSES * D);
    rc_moved_draw(&m, rng, 4, EACH, again, label);
    double sum[CLASSES][D] = {{0}}, product[D][D] = {{0}};
    for (int row = 0; row < EACH * CLASSES; row++) {
        int k = row % CLASSES;
        assert_int_equal(label[row], k);
        assert_true(x[row * D] != again[row * D]);
        for (int i = 0; i < D; i++) {
            double away = (double)x[row * D + i] - mean[k * D + i];
            sum[k][i] += away / EACH;
            for (int j = 0; j < D; j++)
                product[i][j] += away * ((double)x[row * D + j] - mean[k * D + j]) / (EACH * CLASSES);
        }
    }
    for (int i = 0; i < D; i++) {
        for (int k = 0; k < CLASSES; k++)
            assert_true(fabs(sum[k][i]) < 0.06);
        for (int j = 0; j < D; j++)
            assert_true(fabs(product[i][j] - covariance[i * D + j]) < 0.06);
    }
    free(x);
    free(label);
}

enum { KINDS = 2, SAMPLES = 20000 };

/* product (KINDS, d, d): of what features drawn of a class have beyond its mean, means over SAMPLES of them. */
static void draw_products(const rc_moved *m, double *product)
{
    int d = m->d;
    float *x = malloc(sizeof *x * SAMPLES * KINDS * (size_t)d);
    int32_t *label = malloc(sizeof *label * SAMPLES * KINDS);
    assert_true(x != NULL && label != NULL);
    memset(product, 0, sizeof *product * KINDS * (size_t)(d * d));
    rc_moved_draw(m, (rc_rng){7, 23}, 3, SAMPLES, x, label);
    for (int row = 0; row < SAMPLES * KINDS; row++)
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++)
                product[(label[row] * d + i) * d + j] += ((double)x[row * d + i] - m->mean[label[row] * d + i]) *
                                                         ((double)x[row * d + j] - m->mean[label[row] * d + j]) /
                                                         SAMPLES;
    free(x);
    free(label);
}

/* A class with variances of its own keeps the correlations of all. */
static void draws_have_variances_of_their_own(void **state)
{
    (void)state;
    double mean[] = {0, 1, 5, -5}, variance[] = {1, 5, 16, 0}, covariance[] = {4, 1, 1, 1.25}, lower[] = {2, 0, 0.5, 1};
    double product[KINDS][2][2];
    const rc_moved m = {
        .d = 2, .classes = KINDS, .mean = mean, .covariance = covariance, .lower = lower, .variance = variance};
    draw_products(&m, product[0][0]);
    assert_true(fabs(product[0][0][0] - 1) < 0.03 && fabs(product[0][1][1] - 5) < 0.15);
    assert_true(fabs(product[0][0][1] - 1) < 0.06); /* 1 / sqrt(4 * 1.25) of sqrt(1 * 5) */
    assert_true(fabs(product[1][0][0] - 16) < 0.5 && product[1][1][1] <= 0 && product[1][0][1] <= 0);
}

/* A class with a factor has its own correlations, too. */
static void draws_have_covariances_of_their_own(void **state)
{
    (void)state;
    enum { D = 3 };
    double mean[KINDS * D] = {0, 1, 2, 5, -5, 3}, variance[KINDS * D] = {9, 9, 9};
    double covariance[D * D] = {4, 0, 0, 0, 4, 0, 0, 0, 4}, lower[D * D] = {2, 0, 0, 0, 2, 0, 0, 0, 2};
    double factor[] = {2, -1, 1, 0.5, 2, 1.5, 0.5, 3, 0, 1, -1, 2}, product[KINDS][D][D];
    const double wanted[KINDS][D][D] = {{{4, -2, 1}, {-2, 2, 1.5}, {1, 1.5, 6.5}},
                                        {{0.25, 1.5, 0.5}, {1.5, 9, 3}, {0.5, 3, 6}}};
    const rc_moved m = {.d = D,
                        .classes = KINDS,
                        .mean = mean,
                        .covariance = covariance,
                        .lower = lower,
                        .variance = variance,
                        .factor = factor};
    draw_products(&m, product[0][0]);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++)
                assert_true(fabs(product[k][i][j] - wanted[k][i][j]) < 0.03 * (wanted[k][i][i] + wanted[k][j][j]));
}

/* ---- the step -------------------------------------------------------------------------------------------------- */

/* Mean cross entropy of the drawn features, and its gradient by the head, from the definition. */
static double drawn_loss(const float *x, const int32_t *label, int n, int d, int classes, const double *head,
                         double *gradient)
{
    double loss = 0, logit[16];
    memset(gradient, 0, (size_t)(classes * d) * sizeof *gradient);
    for (int row = 0; row < n; row++) {
        double sum = 0;
        for (int k = 0; k < classes; k++) {
            logit[k] = 0;
            for (int j = 0; j < d; j++)
                logit[k] += head[k * d + j] * (double)x[row * d + j];
            sum += exp(logit[k]);
        }
        loss += (log(sum) - logit[label[row]]) / n;
        for (int k = 0; k < classes; k++)
            for (int j = 0; j < d; j++)
                gradient[k * d + j] += (exp(logit[k]) / sum - (k == label[row])) * (double)x[row * d + j] / n;
    }
    return loss;
}

static void refinement_learns_from_drawn_features(void **state)
{
    (void)state;
    enum { CLASSES = OLD + NEW, DRAWN = 16 * CLASSES };
    rc_settings s = learning_settings();
    s.plus_drawn = 1;
    rc_learner l;
    rc_training *t;
    float x[DRAWN * MOST_FEATURES], weight[RC_LOSS_COUNT];
    int32_t label[DRAWN];
    bool active[RC_LOSS_COUNT];
    double head[CLASSES * MOST_FEATURES], wanted[CLASSES * MOST_FEATURES], found[CLASSES * MOST_FEATURES], value;
    learning_begin_second(&l, be, "cwd+", &s);
    int d = l.student.head.d;
    rc_stage_weights(&l, RC_STAGE_REFINEMENT, weight, active);
    assert_true(active[RC_LOSS_DRAWN] && weight[RC_LOSS_DRAWN] == 1);
    rc_stage_weights(&l, RC_STAGE_TRAINING, weight, active);
    assert_false(active[RC_LOSS_DRAWN]);
    SUCCEEDS(rc_stage_training_create(&l, &t));
    SUCCEEDS(rc_training_begin_refinement(t));
    rc_rng_fill_normal((rc_rng){1, 1}, 0, x, (size_t)(DRAWN * d));
    for (int i = 0; i < DRAWN; i++)
        label[i] = i * 7 % CLASSES;
    rc_training_give_drawn(t, x, label);
    rc_step *control = rc_training_control(t);
    memset(control->weight, 0, sizeof control->weight);
    control->weight[RC_LOSS_DRAWN] = 0.5f; /* alone */
    rc_training_begin_epoch(t);
    rc_training_send(t);
    be->read_real64(be, head, l.student.head.weight, (size_t)(CLASSES * d));
    SUCCEEDS(be->repeat(be, rc_training_refinement_step, t, 1));
    const rc_training_view view = rc_training_look(t);
    be->read_real64(be, found, view.head_gradient, (size_t)(CLASSES * d));
    be->read_real64(be, &value, rc_real_at(be, view.loss, RC_LOSS_DRAWN), 1);
    double loss = drawn_loss(x, label, DRAWN, d, CLASSES, head, wanted);
    assert_true(fabs(loss - value) < 1e-5 * loss);
    for (int i = 0; i < CLASSES * d; i++)
        assert_true(fabs(0.5 * wanted[i] - found[i]) < 1e-6);
    rc_training_destroy(t);
    rc_learner_destroy(&l);
}

/* ---- the row --------------------------------------------------------------------------------------------------- */

static learning_bits teach(const char *method, const rc_settings *s)
{
    rc_learner l;
    learning_create(&l, be, method, s);
    for (int task = 0; task < 3; task++) {
        learning_teach(&l, task, 2, 12, &learning_no_hooks);
        rc_learner_end_task(&l);
    }
    learning_bits bits = learning_take(&l);
    rc_learner_destroy(&l);
    return bits;
}

static void without_additions_it_is_cwd(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    s.plus_drawn = 0;
    s.generators = 1;
    snprintf(s.rotations, sizeof s.rotations, "off");
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "dreams");
    learning_bits cwd = teach("cwd", &s), plus = teach("cwd+", &s);
    assert_true(learning_same(cwd, plus));
    learning_drop(cwd);
    learning_drop(plus);
}

/* The losses that settings add have their weight times alpha beta, in the stages that have them. */
static void settings_weigh_what_they_add(void **state)
{
    (void)state;
    rc_settings s = learning_settings();
    s.plus_kd_new = 2;
    s.plus_kd_dreams = 3;
    s.plus_ce_dreams = 5;
    s.plus_feature = 7;
    rc_learner l;
    float weight[RC_LOSS_COUNT];
    bool active[RC_LOSS_COUNT];
    learning_begin_second(&l, be, "cwd+", &s);
    double scale = log2(NEW / 2.0 + 1) * sqrt((double)OLD / NEW);
    rc_stage_weights(&l, RC_STAGE_TRAINING, weight, active);
    assert_true(active[RC_LOSS_KD] && fabs((double)weight[RC_LOSS_KD] - 2 * scale) < 1e-5);
    assert_true(active[RC_LOSS_KD_REPLAY] && fabs((double)weight[RC_LOSS_KD_REPLAY] - 3 * scale) < 1e-5);
    assert_true(active[RC_LOSS_REPLAY] && fabs((double)weight[RC_LOSS_REPLAY] - 5 * scale) < 1e-5);
    assert_true(active[RC_LOSS_FEATURE] && fabs((double)weight[RC_LOSS_FEATURE] - 7 * scale) < 1e-5);
    rc_stage_weights(&l, RC_STAGE_REFINEMENT, weight, active);
    assert_true(!active[RC_LOSS_KD] && active[RC_LOSS_KD_REPLAY] && active[RC_LOSS_REPLAY] && !active[RC_LOSS_FEATURE]);
    rc_learner_destroy(&l);
}

static void it_can_be_resumed_anywhere(void **state)
{
    (void)state;
    int stages[RC_STAGE_COUNT];
    rc_settings s = learning_settings();
    s.epochs = 3;
    s.refine_epochs = 2;
    s.inversion_steps = 2;
    s.plus_kd_new = s.plus_feature = s.plus_drawn = 1;
    s.plus_variances = true;
    snprintf(s.plus_statistics, sizeof s.plus_statistics, "moved-dreams");
    if (learning_resume_everywhere(be, "cwd+", &s, stages))
        assert_true(stages[RC_STAGE_REFINEMENT] > 1 && stages[RC_STAGE_ESTIMATION] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_stay_where_the_net_does),
        cmocka_unit_test(a_mean_moves_as_the_features_of_the_images_do),
        cmocka_unit_test(draws_have_the_moments_that_were_asked_for),
        cmocka_unit_test(classes_have_variances_of_their_own),
        cmocka_unit_test(statistics_have_an_epoch_of_their_own),
        cmocka_unit_test(variances_move_as_the_covariance_does),
        cmocka_unit_test(a_single_class_moves),
        cmocka_unit_test(classes_without_images_have_no_statistics),
        cmocka_unit_test(a_single_image_moves_statistics),
        cmocka_unit_test(estimation_keeps_what_was_moved),
        cmocka_unit_test(draws_have_variances_of_their_own),
        cmocka_unit_test(draws_have_covariances_of_their_own),
        cmocka_unit_test(files_have_the_variances),
        cmocka_unit_test(files_have_the_factors),
        cmocka_unit_test(refinement_learns_from_drawn_features),
        cmocka_unit_test(without_additions_it_is_cwd),
        cmocka_unit_test(settings_weigh_what_they_add),
        cmocka_unit_test(it_can_be_resumed_anywhere),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
