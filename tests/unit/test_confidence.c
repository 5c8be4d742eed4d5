/* The temperature of a model's probabilities: beside the formula written down once more, on images whose temperature is
 * known, and from the images that a lesson holds out to the probabilities of `predict` and of exported models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/hold_out.h"
#include "export/exported.h"
#include "model/confidence.h"
#include "support/api_checks.h"
#include "support/api_data.h"

/* ---- the formula ------------------------------------------------------------------------------------------------- */

static double cross_entropy(const float *logits, int classes, double temperature, int label)
{
    double sum = 0;
    for (int j = 0; j < classes; j++)
        sum += exp((double)logits[j] / temperature);
    return log(sum) - (double)logits[label] / temperature;
}

/* logits (count, classes) */
static double wanted_temperature(const float *logits, const int *label, int count, int classes)
{
    double least = INFINITY, best = 0;
    for (int k = -8; k <= 40; k++) {
        double temperature = pow(2, k / 8.0), loss = 4 * pow(log(temperature) - log(2), 2);
        for (int i = 0; i < count; i++)
            loss += cross_entropy(logits + i * classes, classes, temperature, label[i]);
        best = loss < least ? temperature : best;
        least = fmin(loss, least);
    }
    return best;
}

static double found_temperature(const float *logits, const int *label, int count, int classes)
{
    rc_confidence c = {0};
    for (int i = 0; i < count; i++)
        rc_confidence_add(&c, logits + i * classes, classes, label[i]);
    assert_int_equal(c.images, count);
    return rc_confidence_temperature(&c);
}

static void losses_are_cross_entropies(void **state)
{
    (void)state;
    static const float logits[2][3] = {{3, -2, 2.5f}, {-30, 4, 1}};
    static const int label[2] = {2, 0};
    rc_confidence c = {0};
    for (int i = 0; i < 2; i++)
        rc_confidence_add(&c, logits[i], 3, label[i]);
    assert_true(rc_confidence_at(0) == 0.5 && rc_confidence_at(RC_TEMPERATURE_ONE) == 1 &&
                rc_confidence_at(RC_TEMPERATURES - 1) == 32);
    for (int k = 0; k < RC_TEMPERATURES; k++) {
        double wanted = cross_entropy(logits[0], 3, rc_confidence_at(k), label[0]) +
                        cross_entropy(logits[1], 3, rc_confidence_at(k), label[1]);
        assert_true(fabs(c.loss[k] - wanted) < 1e-9 * wanted);
    }
}

/* An exponential of them would be infinite. */
static void large_logits_are_no_trouble(void **state)
{
    (void)state;
    static const float logits[2] = {3e4f, -3e4f};
    rc_confidence c = {0};
    rc_confidence_add(&c, logits, 2, 1);
    assert_true(c.loss[RC_TEMPERATURE_ONE] == 6e4);
    assert_true(rc_confidence_temperature(&c) == 32);
}

/* A handful is held by what is usual: 2 of right and of wrong answers is only moved. */
static void few_images_say_little(void **state)
{
    (void)state;
    static const float logits[4][3] = {{5, 0, 1}, {6, 2, 0}, {0, 4, 1}, {1, 2, 7}};
    static const int right[4] = {0, 0, 1, 2}, wrong[4] = {1, 2, 0, 1};
    const rc_confidence none = {0};
    assert_true(rc_confidence_temperature(&none) == 0);
    for (int count = 1; count <= 4; count++) {
        double sure = found_temperature(logits[0], right, count, 3),
               unsure = found_temperature(logits[0], wrong, count, 3);
        assert_true(sure == wanted_temperature(logits[0], right, count, 3));
        assert_true(unsure == wanted_temperature(logits[0], wrong, count, 3));
        assert_true(sure > 1.2 && sure < 2 && unsure > 2 && unsure < 8);
    }
}

/* Logits that are three times too large. */
static void a_temperature_that_is_known_is_found(void **state)
{
    (void)state;
    enum { IMAGES = 3000, CLASSES = 5 };
    static float logits[IMAGES][CLASSES];
    static int label[IMAGES];
    const rc_rng rng = {7, 1};
    for (int i = 0; i < IMAGES; i++) {
        double sum = 0, below = 0, drawn = (double)rc_rng_uniform((rc_rng){7, 2}, (uint64_t)i);
        rc_rng_fill_normal(rng, (uint64_t)(i * 8), logits[i], CLASSES);
        for (int j = 0; j < CLASSES; j++)
            sum += exp((double)logits[i][j]);
        for (label[i] = 0; label[i] < CLASSES - 1; label[i]++)
            if ((below += exp((double)logits[i][label[i]]) / sum) > drawn)
                break;
        for (int j = 0; j < CLASSES; j++)
            logits[i][j] *= 3;
    }
    double found = found_temperature(logits[0], label, IMAGES, CLASSES);
    assert_true(fabs(log(found / 3)) < log(2) / 8);
}

/* ---- from a lesson to its answers -------------------------------------------------------------------------------- */

enum { FIRST = 3, SECOND = 2, EACH = 20, IMAGES = FIRST * EACH, MOST_D = 64 };

static api_data data, more;
static recollect_context *context;

static int set_up(void **state)
{
    (void)state;
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    SUCCEEDS(recollect_context_create(&settings, &context));
    api_data_make(&data, 0, FIRST, EACH, 1);
    api_data_make(&more, FIRST, SECOND, EACH, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    recollect_context_destroy(&context);
    api_data_free(&data);
    api_data_free(&more);
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

static recollect_model *learn(const char *hold_out)
{
    recollect_model *m;
    SUCCEEDS(recollect_model_create(context, &m));
    api_set_quick(m, 4);
    SUCCEEDS(recollect_model_set(m, "test_batch", "7")); /* several batches are held out */
    SUCCEEDS(recollect_model_set(m, "hold_out", hold_out));
    SUCCEEDS(recollect_learn(m, &data.images, data.labels, data.names, FIRST, NULL));
    return m;
}

/* logits (images, classes): from features and rows, as stored */
static void find_logits(recollect_model *m, const api_data *of, float *logits)
{
    static float features[IMAGES * MOST_D];
    recollect_predictor *predictor;
    recollect_outputs outputs = {.size = sizeof outputs, .features = features};
    int d = recollect_model_features(m), classes = recollect_model_classes(m);
    const rc_head *head = &m->saved.learner.student.head;
    const float *weight = head->weight, *bias = head->bias;
    SUCCEEDS(recollect_predictor_create(m, 1, &predictor));
    SUCCEEDS(recollect_predictor_images(predictor, &of->images, &outputs));
    recollect_predictor_destroy(&predictor);
    for (int i = 0; i < of->images.count; i++)
        for (int k = 0; k < classes; k++) {
            double logit = bias != NULL ? (double)bias[k] : 0;
            for (int j = 0; j < d; j++)
                logit += (double)weight[k * d + j] * (double)features[i * d + j];
            logits[i * classes + k] = (float)logit;
        }
}

/* What the held-out images of a lesson say; `first`: the label of its first class. */
static double told_by(recollect_model *m, const api_data *of, int first, int n_new, double part)
{
    static float logits[IMAGES * (FIRST + SECOND)], held[IMAGES * (FIRST + SECOND)];
    int classes = recollect_model_classes(m), label[IMAGES], count = 0;
    int8_t held_out[IMAGES] = {0};
    find_logits(m, of, logits);
    assert_int_equal(rc_hold_out(of->labels, of->images.count, n_new, part, m->saved.config.settings.seed, held_out),
                     RC_OK);
    for (int i = 0; i < of->images.count; i++)
        if (held_out[i]) {
            memcpy(held + count * classes, logits + i * classes, (size_t)classes * sizeof *held);
            label[count++] = first + of->labels[i];
        }
    assert_true(count >= 5);
    return wanted_temperature(held, label, count, classes);
}

static void probabilities_are_at_the_temperature(recollect_model *m)
{
    static float logits[IMAGES * (FIRST + SECOND)], probability[IMAGES * (FIRST + SECOND)];
    static int32_t label[IMAGES * (FIRST + SECOND)];
    int classes = recollect_model_classes(m);
    double temperature = rc_calibration_temperature(&m->saved.calibration);
    find_logits(m, &data, logits);
    SUCCEEDS(recollect_predict(m, &data.images, classes, label, probability, NULL));
    for (int i = 0; i < IMAGES; i++)
        for (int place = 0; place < classes; place++) {
            double wanted = exp(-cross_entropy(logits + i * classes, classes, temperature, label[i * classes + place]));
            assert_true(fabs((double)probability[i * classes + place] - wanted) < 1e-5);
        }
}

static void exported_rows_are_at_the_temperature(recollect_model *m)
{
    rc_exported e;
    const rc_head *head = &m->saved.learner.student.head;
    const float *weight = head->weight, *bias = head->bias;
    double temperature = rc_calibration_temperature(&m->saved.calibration);
    assert_int_equal(rc_exported_take(&m->saved, &e), RC_OK);
    assert_true(e.temperature == temperature);
    for (int i = 0; i < head->classes * head->d; i++)
        assert_true(e.head[i] == (float)((double)weight[i] / temperature));
    assert_true((bias != NULL) == (e.head_bias != NULL));
    for (int k = 0; bias != NULL && k < head->classes; k++)
        assert_true(e.head_bias[k] == (float)((double)bias[k] / temperature));
    rc_exported_drop(&e);
}

static void a_lesson_measures_what_answers_have(void **state)
{
    (void)state;
    recollect_model *m = learn("0.3333"), *loaded;
    void *bytes;
    size_t size;
    double first = m->saved.calibration.temperature;
    assert_true(first != 1 && first == told_by(m, &data, 0, FIRST, 0.3333));
    probabilities_are_at_the_temperature(m);
    exported_rows_are_at_the_temperature(m);
    SUCCEEDS(recollect_model_save_memory(m, &bytes, &size));
    SUCCEEDS(recollect_model_load_memory(context, bytes, size, &loaded));
    recollect_free(bytes);
    assert_true(loaded->saved.calibration.temperature == first);
    recollect_model_destroy(&loaded);

    /* The images of the second lesson alone say how sure the model is after it; its head has biases. */
    SUCCEEDS(recollect_model_set(m, "adapt", "head"));
    SUCCEEDS(recollect_model_set(m, "hold_out", "0.5"));
    SUCCEEDS(recollect_learn(m, &more.images, more.labels, more.names, SECOND, NULL));
    assert_non_null(m->saved.learner.student.head.bias);
    assert_true(m->saved.calibration.temperature == told_by(m, &more, FIRST, SECOND, 0.5));
    probabilities_are_at_the_temperature(m);
    exported_rows_are_at_the_temperature(m);
    recollect_model_destroy(&m);
}

/* Nothing held out: the first lesson leaves answers as they are, a later one what was measured. Where the first classes
 * were not measured, later ones are not asked. */
static void what_is_not_measured_stays(void **state)
{
    (void)state;
    recollect_model *m = learn("0.3333"), *none = learn("0");
    double first = m->saved.calibration.temperature;
    assert_true(none->saved.calibration.temperature == 0);
    probabilities_are_at_the_temperature(none);
    exported_rows_are_at_the_temperature(none);
    SUCCEEDS(recollect_model_set(m, "hold_out", "0"));
    SUCCEEDS(recollect_model_set(none, "hold_out", "0.5"));
    SUCCEEDS(recollect_learn(m, &more.images, more.labels, more.names, SECOND, NULL));
    SUCCEEDS(recollect_learn(none, &more.images, more.labels, more.names, SECOND, NULL));
    assert_true(m->saved.calibration.temperature == first);
    assert_true(none->saved.calibration.temperature == 0 && none->saved.calibration.lesson[1].images == 20);
    recollect_model_destroy(&m);
    recollect_model_destroy(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_cross_entropies),
        cmocka_unit_test(large_logits_are_no_trouble),
        cmocka_unit_test(few_images_say_little),
        cmocka_unit_test(a_temperature_that_is_known_is_found),
        cmocka_unit_test(a_lesson_measures_what_answers_have),
        cmocka_unit_test(what_is_not_measured_stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
