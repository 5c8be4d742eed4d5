/* Estimation: class means and the tied covariance of a task, computed again by other code from the learner's own
 * images and dreams. This test makes the order of the epoch, crop, flip, noise, the old model's labels, means and
 * covariance itself, by the formulas of docs/methods/cwd.md; only the nets' forward passes are the library's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/learning.h"
#include "support/succeeds.h"

enum {
    SIZE = LEARNING_SIZE,
    CHANNELS = LEARNING_CHANNELS,
    IMAGE = SIZE * SIZE * CHANNELS,
    BATCH = 8,
    MOST_SAMPLES = 1024,
    MOST_CLASSES = 16,
    MOST_FEATURES = 64,
    /* streams: augmentation and dreams of estimation, order of an epoch */
    AUGMENTATION = 4,
    DREAMS = 5,
    ORDER = 16
};

static rc_backend *be;

static int open_backend(void **state)
{
    (void)state;
    return rc_backend_open("reference64", 2, NULL, &be) == RC_OK ? 0 : -1;
}

static int close_backend(void **state)
{
    (void)state;
    rc_backend_close(be);
    return 0;
}

/* What estimation looks at: features with labels. */
typedef struct sample {
    int count;
    double feature[MOST_SAMPLES][MOST_FEATURES];
    int label[MOST_SAMPLES];
} sample;

/* A net in eval mode over a batch. */
static rc_pass *new_pass(const rc_model *model)
{
    rc_pass *pass;
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = BATCH, .constant_model = true};
    SUCCEEDS(rc_pass_create(be, model->net, &eval, &pass));
    rc_pass_prepare(pass, model);
    return pass;
}

static void see(rc_pass *pass, const rc_model *model, double *images)
{
    rc_tensor input;
    const rc_net *net = model->net;
    SUCCEEDS(rc_tensor_create(be, BATCH, net->h, net->w, net->c, &input));
    be->write_act(be, &input, images);
    rc_pass_forward(pass, model, &input);
    SUCCEEDS(be->sync(be));
    rc_tensor_destroy(be, &input);
}

static void add_features(sample *s, rc_pass *pass, int d, const int *label)
{
    double feature[BATCH * MOST_FEATURES];
    be->read_real64(be, feature, rc_pass_features(pass), (size_t)(BATCH * d));
    for (int b = 0; b < BATCH; b++, s->count++) {
        assert_in_range(s->count, 0, MOST_SAMPLES - 1);
        memcpy(s->feature[s->count], feature + b * d, (size_t)d * sizeof *feature);
        s->label[s->count] = label[b];
    }
}

/* (byte / 255 - mean) / std inside, 0 outside; moved by the crop, then mirrored. */
static void augment(const rc_learner *l, const uint8_t *image, uint64_t step, int b, double *out)
{
    rc_rng rng = {l->settings.seed, (uint64_t)l->task << 32 | AUGMENTATION};
    uint64_t first = (step << 32) + 4 * (uint64_t)b;
    int pad = l->settings.crop_pad, row = (int)rc_rng_below(rng, first, 2 * (uint32_t)pad + 1) - pad;
    int column = (int)rc_rng_below(rng, first + 1, 2 * (uint32_t)pad + 1) - pad;
    bool mirrored = l->settings.flip && rc_rng_bits(rng, first + 2) >> 31;
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++)
            for (int c = 0; c < CHANNELS; c++) {
                int from_y = y + row, from_x = (mirrored ? SIZE - 1 - x : x) + column;
                bool inside = from_y >= 0 && from_y < SIZE && from_x >= 0 && from_x < SIZE;
                double byte = inside ? image[(from_y * SIZE + from_x) * CHANNELS + c] : 0;
                out[(y * SIZE + x) * CHANNELS + c] = inside ? (byte / 255 - (double)l->augment.mean[c]) /
                                                                  (double)l->augment.std[c]
                                                            : 0;
            }
}

/* One pass over the task's images in an epoch of its own, incomplete batch dropped. all: every image once. */
static void look_at_images(const rc_learner *l, int epoch, int first, int n_new, int per_class, bool all, sample *s)
{
    int32_t *labels;
    int count = n_new * per_class, batches = all ? (count + BATCH - 1) / BATCH : count < BATCH ? 1 : count / BATCH;
    uint8_t *images = learning_images(first, n_new, per_class, &labels);
    uint32_t *order = malloc((size_t)count * sizeof *order);
    double *batch = malloc(BATCH * IMAGE * sizeof *batch);
    assert_true(order != NULL && batch != NULL);
    rc_rng_permutation((rc_rng){l->settings.seed, (uint64_t)l->task << 48 | (uint64_t)epoch << 16 | ORDER},
                       (uint32_t)count, order);
    rc_pass *pass = new_pass(&l->student.backbone);
    for (int step = 0; step < batches; step++) {
        int label[BATCH];
        for (int b = 0; b < BATCH; b++) {
            uint32_t image = order[(step * BATCH + b) % count];
            augment(l, images + image * IMAGE, (uint64_t)step, b, batch + b * IMAGE);
            label[b] = labels[image];
        }
        see(pass, &l->student.backbone, batch);
        add_features(s, pass, l->student.head.d, label);
    }
    if (all)
        s->count = count;
    rc_pass_destroy(pass);
    free(batch);
    free(order);
    rc_free(NULL, images);
    rc_free(NULL, labels);
}

/* What the old model takes a batch for. */
static void old_labels(const rc_learner *l, rc_pass *teacher, double *images, int *label)
{
    int d = l->teacher.head.d, classes = l->teacher.head.classes;
    double feature[BATCH * MOST_FEATURES], head[MOST_CLASSES * MOST_FEATURES];
    see(teacher, &l->teacher.backbone, images);
    be->read_real64(be, feature, rc_pass_features(teacher), (size_t)(BATCH * d));
    be->read_real64(be, head, l->teacher.head.weight, (size_t)(classes * d));
    for (int b = 0; b < BATCH; b++) {
        double best = -INFINITY;
        for (int k = 0; k < classes; k++) {
            double logit = 0;
            for (int i = 0; i < d; i++)
                logit += feature[b * d + i] * head[k * d + i];
            if (logit > best) {
                best = logit;
                label[b] = k;
            }
        }
    }
}

static void look_at_dreams(const rc_learner *l, int steps, sample *s)
{
    int noise = l->settings.noise, label[BATCH];
    double *values = malloc((size_t)(BATCH * noise) * sizeof *values), *images = malloc(BATCH * IMAGE * sizeof *images);
    assert_true(values != NULL && images != NULL);
    rc_pass *generator = new_pass(learning_generator(l)), *teacher = new_pass(&l->teacher.backbone);
    rc_pass *student = new_pass(&l->student.backbone);
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < BATCH * noise; i++)
            values[i] = rc_rng_normal((rc_rng){l->settings.seed, (uint64_t)l->task << 32 | DREAMS},
                                      ((uint64_t)step << 32) + (uint64_t)i);
        see(generator, learning_generator(l), values);
        const rc_tensor *made = rc_pass_output(generator, RC_NO_LAYER);
        be->read_act(be, images, made, made->raw);
        old_labels(l, teacher, images, label);
        see(student, &l->student.backbone, images);
        add_features(s, student, l->student.head.d, label);
    }
    rc_pass_destroy(generator);
    rc_pass_destroy(teacher);
    rc_pass_destroy(student);
    free(values);
    free(images);
}

/* Means by class, NaN without a sample; residuals of all, centred once more, over n - 1 (printed: n). */
static void expect_statistics(const rc_learner *l, const sample *s, int classes)
{
    static double mean[MOST_CLASSES][MOST_FEATURES], found[MOST_FEATURES * MOST_FEATURES];
    int d = l->student.head.d, count[MOST_CLASSES] = {0};
    double divisor = l->settings.paper_dce ? s->count : s->count - 1;
    memset(mean, 0, sizeof mean);
    assert_int_equal(l->statistics_classes, classes);
    for (int n = 0; n < s->count; n++) {
        count[s->label[n]]++;
        for (int i = 0; i < d; i++)
            mean[s->label[n]][i] += s->feature[n][i];
    }
    be->read_real64(be, found, l->class_mean, (size_t)(classes * d));
    for (int k = 0; k < classes; k++)
        for (int i = 0; i < d; i++) {
            mean[k][i] = count[k] > 0 ? mean[k][i] / count[k] : NAN;
            if (isnan(mean[k][i]) ? !isnan(found[k * d + i]) : !(fabs(mean[k][i] - found[k * d + i]) < 1e-10))
                fail_msg("mean %d of class %d is %.12g, expected %.12g", i, k, found[k * d + i], mean[k][i]);
        }
    be->read_real64(be, found, l->covariance, (size_t)(d * d));
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++) {
            double expected = 0;
            for (int n = 0; n < s->count; n++)
                expected += (s->feature[n][i] - mean[s->label[n]][i]) * (s->feature[n][j] - mean[s->label[n]][j]);
            expected /= divisor;
            if (!(fabs(expected - found[i * d + j]) < 1e-10))
                fail_msg("covariance %d, %d is %.12g, expected %.12g", i, j, found[i * d + j], expected);
        }
}

/* Factors of the sample's classes: of their own scatter and of what they share, which counts as 16 images. */
static void expect_factors(const rc_learner *l, const sample *s, int classes)
{
    static double shared[MOST_FEATURES * MOST_FEATURES], found[MOST_CLASSES * MOST_FEATURES * (MOST_FEATURES + 1) / 2];
    static double mean[MOST_CLASSES * MOST_FEATURES];
    size_t d = (size_t)l->student.head.d, numbers = d * (d + 1) / 2;
    assert_non_null(l->class_factor);
    be->read_real64(be, shared, l->covariance, d * d);
    be->read_real64(be, mean, l->class_mean, (size_t)classes * d);
    be->read_real64(be, found, l->class_factor, (size_t)classes * numbers);
    for (size_t k = 0; k < (size_t)classes; k++)
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j <= i; j++) {
                double scatter = 16 * shared[i * d + j], product = 0, images = 15;
                for (int n = 0; n < s->count; n++)
                    if (s->label[n] == (int)k) {
                        images++;
                        scatter += (s->feature[n][i] - mean[k * d + i]) * (s->feature[n][j] - mean[k * d + j]);
                    }
                const double *a = found + k * numbers + i * (i + 1) / 2, *b = found + k * numbers + j * (j + 1) / 2;
                for (size_t m = 0; m <= j; m++)
                    product += a[m] * b[m];
                double scale = sqrt(shared[i * d + i] * shared[j * d + j]);
                if (!(fabs(product - scatter / images) < 1e-6 * scale + 1e-12))
                    fail_msg("covariance %zu, %zu of class %zu is %g, expected %g", i, j, k, product, scatter / images);
            }
}

/* Tasks of these many classes: the first has no dreams; dreams come n_old / n_new times as often as images, rounded
 * down, and once at least; a task may be smaller than a batch. */
static void run_tasks(const char *method, bool paper, bool factors, const int *n_new, int tasks, int per_class)
{
    static sample s;
    rc_settings settings = learning_settings();
    rc_learner l;
    settings.seed = 11;
    settings.crop_pad = 3;
    settings.zoom = 0.5; /* is for training alone */
    settings.colour = 0.5;
    settings.noise = 6;
    settings.inversion_steps = 2;
    settings.net_width = 2;
    settings.epochs = 3;
    settings.refine_epochs = 1;
    if (paper)
        rc_settings_paper_profile(&settings);
    settings.class_covariances = factors;
    assert_int_equal(settings.batch, BATCH);
    learning_create(&l, be, method, &settings);
    for (int task = 0, known = 0; task < tasks; known += n_new[task++]) {
        learning_teach(&l, task, n_new[task], per_class, &learning_no_hooks);
        int images = n_new[task] * per_class, batches = images < BATCH ? 1 : images / BATCH;
        bool refined = task > 0 && strcmp(method, "cwd-abd") != 0;
        int epochs = paper || refined ? 3 : 2;
        s.count = 0;
        bool all = factors && task == 0;
        look_at_images(&l, epochs, known, n_new[task], per_class, all, &s);
        if (task > 0)
            look_at_dreams(&l, batches * (known > n_new[task] ? known / n_new[task] : 1), &s);
        expect_statistics(&l, &s, known + n_new[task]);
        if (all)
            expect_factors(&l, &s, n_new[task]);
        else
            assert_null(l.class_factor); /* the net has moved */
        rc_learner_end_task(&l);
    }
    rc_learner_destroy(&l);
}

static void statistics_are_those_of_images_and_dreams(void **state)
{
    (void)state;
    run_tasks("cwd", false, false, (const int[]){2, 3, 1, 2}, 4, 9);
}

static void printed_statistics_have_another_divisor(void **state)
{
    (void)state;
    run_tasks("cwd-without-war", true, false, (const int[]){3, 2}, 2, 6);
}

static void a_task_smaller_than_a_batch_repeats_its_images(void **state)
{
    (void)state;
    run_tasks("cwd-abd", false, false, (const int[]){2, 1}, 2, 3);
}

/* Every image counts once, whether it fills a batch or not. Later tasks, which move the net, are as ever. */
static void a_first_task_keeps_a_covariance_of_every_class(void **state)
{
    (void)state;
    run_tasks("cwd", false, true, (const int[]){3, 2}, 2, 9);
    run_tasks("cwd", true, true, (const int[]){2}, 1, 8);
    run_tasks("cwd", false, true, (const int[]){2}, 1, 3);
}

/* Where all images are the same, so are their features. */
static void features_that_do_not_vary_give_no_factors(void **state)
{
    (void)state;
    enum { IMAGES = 8 };
    static const uint8_t black[IMAGES * IMAGE];
    const int32_t labels[IMAGES] = {0, 1, 0, 1, 0, 1, 0, 1};
    double wall[RC_STAGE_COUNT] = {0};
    rc_settings settings = learning_settings();
    rc_learner l;
    settings.class_covariances = settings.plain_statistics = true;
    settings.crop_pad = 0;
    learning_create(&l, be, "cwd", &settings);
    SUCCEEDS(rc_learner_begin_task(&l, 0, 2, black, labels, IMAGES));
    SUCCEEDS(rc_run_stages(&l, RC_STAGE_TRAINING, 0, &learning_no_hooks, wall));
    assert_true(l.class_mean != NULL && l.class_factor == NULL);
    rc_learner_destroy(&l);
}

/* Where there are many features, a covariance of every class would take too much. */
static void wide_nets_keep_the_shared_covariance(void **state)
{
    (void)state;
    for (int width = 32; width <= 33; width++) {
        rc_settings settings = learning_settings();
        rc_backend *fast;
        rc_learner l;
        SUCCEEDS(rc_backend_open("cpu", 1, NULL, &fast));
        settings.class_covariances = true;
        settings.net_width = width;
        settings.epochs = 1;
        settings.refine_epochs = 0;
        learning_create(&l, fast, "cwd", &settings);
        learning_teach(&l, 0, 2, 4, &learning_no_hooks);
        rc_learner_end_task(&l);
        assert_int_equal(l.student.head.d, 4 * width);
        assert_non_null(l.class_mean);
        assert_true((l.class_factor != NULL) == (l.student.head.d <= 128));
        rc_learner_destroy(&l);
        rc_backend_close(fast);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_images_and_dreams),
        cmocka_unit_test(printed_statistics_have_another_divisor),
        cmocka_unit_test(a_task_smaller_than_a_batch_repeats_its_images),
        cmocka_unit_test(a_first_task_keeps_a_covariance_of_every_class),
        cmocka_unit_test(features_that_do_not_vary_give_no_factors),
        cmocka_unit_test(wide_nets_keep_the_shared_covariance),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
