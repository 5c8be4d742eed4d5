/* From the images that a lesson holds out to the rate of a prediction: every step is what its parts say, and a model
 * that cannot tell says so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/calibrate.h"
#include "api/unfamiliarity.h"
#include "base/memory.h"
#include "data/hold_out.h"
#include "support/api_checks.h"
#include "support/api_data.h"

enum { CLASSES = 3, IMAGES = 90, HELD_OUT = 30 };

static api_data data, more;
static recollect_context *context;
static recollect_model *model;
static char noted[600];

static void on_log(void *user, recollect_log_level level, const char *text)
{
    (void)user;
    (void)level;
    if (strstr(text, "strange") != NULL)
        snprintf(noted, sizeof noted, "%s", text);
}

static recollect_model *learn(const char *hold_out, const char *method)
{
    recollect_model *m;
    SUCCEEDS(recollect_model_create(context, &m));
    api_set_quick(m, 4);
    SUCCEEDS(recollect_model_set(m, "method", method));
    SUCCEEDS(recollect_model_set(m, "test_batch", "7")); /* several batches are held out */
    SUCCEEDS(recollect_model_set(m, "hold_out", hold_out));
    SUCCEEDS(recollect_learn(m, &data.images, data.labels, data.names, CLASSES, NULL));
    return m;
}

static int set_up(void **state)
{
    (void)state;
    recollect_settings settings;
    recollect_settings_default(&settings, sizeof settings);
    settings.threads = 1;
    settings.log = on_log;
    SUCCEEDS(recollect_context_create(&settings, &context));
    api_data_make(&data, 0, CLASSES, IMAGES / CLASSES, 1);
    api_data_make(&more, 3, 2, 20, 2);
    model = learn("0.3333", "cwd");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    recollect_model_destroy(&model);
    recollect_context_destroy(&context);
    api_data_free(&data);
    api_data_free(&more);
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

/* What a predictor says about the images of `data`. */
typedef struct answers {
    float unfamiliarity[IMAGES], stranger[IMAGES];
    double score[IMAGES]; /* from the model's own parts */
} answers;

static void ask(recollect_model *m, answers *a)
{
    recollect_predictor *predictor;
    recollect_outputs outputs = {.size = sizeof outputs, .stranger = a->stranger};
    SUCCEEDS(recollect_predictor_create(m, 1, &predictor));
    SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
    outputs = (recollect_outputs){.size = sizeof outputs, .unfamiliarity = a->unfamiliarity};
    SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
    float features[IMAGES * 64], logits[8];
    int d = recollect_model_features(m), nearest, classes = recollect_model_classes(m);
    outputs = (recollect_outputs){.size = sizeof outputs, .features = features};
    SUCCEEDS(recollect_predictor_images(predictor, &data.images, &outputs));
    recollect_predictor_destroy(&predictor);
    rc_learner *l = &m->saved.learner;
    rc_unfamiliarity *u;
    const float *weight = l->student.head.weight;
    assert_int_equal(rc_unfamiliarity_create(l, l->backend, &u), RC_OK);
    for (int i = 0; i < IMAGES; i++) {
        for (int k = 0; k < classes; k++) {
            double logit = 0;
            for (int j = 0; j < d; j++)
                logit += (double)weight[k * d + j] * (double)features[i * d + j];
            logits[k] = (float)logit;
        }
        a->score[i] = rc_unfamiliarity_score(u, logits, features + i * d, &nearest);
        assert_true(fabs((double)a->unfamiliarity[i] - rc_unfamiliarity_shown(a->score[i])) < 1e-4);
    }
    rc_unfamiliarity_destroy(u);
}

/* The scores that the model keeps are those of the images that were held out, and rates come from them. */
static void rates_are_measured_on_held_out_images(void **state)
{
    (void)state;
    static answers a;
    int8_t held_out[IMAGES] = {0};
    const rc_calibration *c = &model->saved.calibration;
    ask(model, &a);
    assert_int_equal(rc_hold_out(data.labels, IMAGES, CLASSES, 0.3333, model->saved.config.settings.seed, held_out),
                     RC_OK);
    assert_true(c->lessons == 1 && c->kind == RC_SCORE_DISTANCE_AND_ENTROPY);
    assert_true(c->lesson[0].classes == CLASSES && c->lesson[0].images == HELD_OUT && c->lesson[0].scores == HELD_OUT);
    int strange = 0;
    for (int i = 0; i < IMAGES; i++) {
        int as_strange = 0;
        for (int k = 0; k < IMAGES; k++)
            as_strange += held_out[k] && (k == i || a.score[k] > a.score[i]);
        double expected = (1.0 + as_strange) / (HELD_OUT + 1);
        if (fabs((double)a.stranger[i] - expected) > 1e-6)
            fail_msg("image %d: %g, expected %g", i, (double)a.stranger[i], expected);
        strange += held_out[i] && (double)a.stranger[i] < 0.1;
    }
    assert_int_equal(strange, 2); /* 2 / 31 and 3 / 31 */
}

static void the_rate_is_kept_in_the_file(void **state)
{
    (void)state;
    static answers before, after;
    void *bytes;
    size_t size;
    recollect_model *loaded;
    ask(model, &before);
    SUCCEEDS(recollect_model_save_memory(model, &bytes, &size));
    SUCCEEDS(recollect_model_load_memory(context, bytes, size, &loaded));
    recollect_free(bytes);
    ask(loaded, &after);
    assert_memory_equal(&before, &after, sizeof before);
    recollect_model_destroy(&loaded);
}

/* ---- none of these ----------------------------------------------------------------------------------------------- */

typedef struct told {
    double reject;
    int count, none;
    char json[400];
} told;

static void on_line(void *user, const char *text)
{
    told *t = user;
    snprintf(t->json, sizeof t->json, "%s", text);
}

static void on_prediction(void *user, const recollect_prediction *p)
{
    told *t = user;
    char expected[80];
    t->count++;
    t->none += p->none_of_these;
    SUCCEEDS(recollect_describe_prediction(model, p, on_line, t));
    if (p->status != RECOLLECT_OK) {
        assert_true(isnan(p->stranger) && p->none_of_these == 0);
        return;
    }
    assert_int_equal(p->none_of_these, p->stranger < t->reject);
    snprintf(expected, sizeof expected, "\"none_of_these\":%s}", p->none_of_these ? "true" : "false");
    assert_non_null(strstr(t->json, p->stranger < 1 ? "\"stranger\":0." : "\"stranger\":1"));
    assert_non_null(strstr(t->json, expected));
}

static void strangers_are_rejected_below_a_rate(void **state)
{
    (void)state;
    static uint8_t file[IMAGES][16 + API_IMAGE];
    static answers a;
    recollect_picture pictures[IMAGES + 1] = {{.bytes = "no picture", .size = 10}};
    recollect_predictor *predictor;
    int size = 0;
    ask(model, &a);
    for (int i = 0; i < IMAGES; i++) {
        size = snprintf((char *)file[i], sizeof file[i], "P5 16 16 255\n");
        memcpy(file[i] + size, data.pixels + (size_t)i * API_IMAGE, API_IMAGE);
        pictures[i + 1] = (recollect_picture){.bytes = file[i], .size = (size_t)size + API_IMAGE};
    }
    SUCCEEDS(recollect_predictor_create(model, 1, &predictor));
    static const double rate[] = {0, 0.2, 1, 0};
    for (int i = 0; i < 4; i++) {
        told t = {.reject = rate[i]};
        if (i > 0)
            SUCCEEDS(recollect_predictor_reject(predictor, rate[i]));
        SUCCEEDS(recollect_predictor_each(predictor, pictures, IMAGES + 1, 1, on_prediction, &t));
        int expected = 0;
        for (int k = 0; k < IMAGES; k++)
            expected += (double)a.stranger[k] < rate[i];
        assert_true(t.count == IMAGES + 1 && t.none == expected);
        assert_true(i % 3 == 0 ? expected == 0 : expected > 2);
    }
    REFUSED(recollect_predictor_reject(predictor, -0.01), "the rate is -0.01, expected 0 (never) to 1");
    REFUSED(recollect_predictor_reject(predictor, 1.01), "the rate is 1.01");
    REFUSED(recollect_predictor_reject(predictor, NAN), "the rate is nan");
    REFUSED(recollect_predictor_reject(NULL, 0.1), "predictor");
    recollect_predictor_destroy(&predictor);
}

/* ---- models that cannot tell ------------------------------------------------------------------------------------- */

/* No rates; whoever asks for them is told why. */
static void check_cannot_tell(recollect_model *m, const char *why)
{
    static answers a;
    recollect_predictor *predictor;
    noted[0] = '\0';
    ask(m, &a);
    assert_non_null(strstr(noted, why));
    for (int i = 0; i < IMAGES; i++)
        assert_true(isnan(a.stranger[i]) && a.unfamiliarity[i] > 0);
    SUCCEEDS(recollect_predictor_create(m, 1, &predictor));
    REFUSED(recollect_predictor_reject(predictor, 0.05), why);
    SUCCEEDS(recollect_predictor_reject(predictor, 0));
    recollect_predictor_destroy(&predictor);
}

static void a_model_without_held_out_images_says_so(void **state)
{
    (void)state;
    recollect_model *none = learn("0", "cwd"), *few = learn("0.2", "cwd");
    check_cannot_tell(none, "it has not measured that");
    check_cannot_tell(few, "it has not measured that");
    recollect_model_destroy(&none);
    recollect_model_destroy(&few);
}

/* That is a sound model: nothing warns of damage. */
static void a_model_of_one_image_a_class_says_so(void **state)
{
    (void)state;
    api_data one;
    recollect_model *m;
    api_data_make(&one, 0, CLASSES, 1, 3);
    SUCCEEDS(recollect_model_create(context, &m));
    api_set_quick(m, 4);
    SUCCEEDS(recollect_model_set(m, "method", "cwd"));
    SUCCEEDS(recollect_learn(m, &one.images, one.labels, one.names, CLASSES, NULL));
    check_cannot_tell(m, "it learnt every class from one image, or from equal ones; learn from more of them");
    assert_null(strstr(noted, "warning"));
    assert_null(strstr(noted, "damaged"));
    recollect_model_destroy(&m);
    api_data_free(&one);
}

/* Entropy needs no statistics. */
static void models_without_statistics_have_rates(void **state)
{
    (void)state;
    static answers a;
    recollect_model *plain = learn("0.3333", "finetune");
    assert_int_equal(plain->saved.calibration.kind, RC_SCORE_ENTROPY);
    ask(plain, &a);
    for (int i = 0; i < IMAGES; i++)
        assert_true((double)a.stranger[i] > 0.99 / (HELD_OUT + 1) && a.stranger[i] <= 1);
    /* Scores of one kind say nothing about those of another. */
    plain->saved.calibration.kind = RC_SCORE_DISTANCE_AND_ENTROPY;
    check_cannot_tell(plain, "some lessons held out fewer than 20 images");
    recollect_model_destroy(&plain);
}

/* The old scores stay, the new classes add theirs; with too few of them the model cannot tell any more. */
static void later_lessons_add_their_own(void **state)
{
    (void)state;
    static answers a;
    recollect_model *taught = learn("0.3333", "cwd"), *few = learn("0.3333", "cwd");
    float before[HELD_OUT];
    const rc_calibration *c = &taught->saved.calibration;
    memcpy(before, c->lesson[0].score, sizeof before);
    SUCCEEDS(recollect_model_set(taught, "hold_out", "0.5"));
    SUCCEEDS(recollect_learn(taught, &more.images, more.labels, more.names, 2, NULL));
    assert_true(c->lessons == 2 && rc_calibration_covers(c, CLASSES + 2) && c->kind == RC_SCORE_DISTANCE_AND_ENTROPY);
    assert_memory_equal(c->lesson[0].score, before, sizeof before);
    assert_true(c->lesson[1].classes == 2 && c->lesson[1].images == 20 && c->lesson[1].scores == 20);
    noted[0] = '\0';
    ask(taught, &a);
    assert_non_null(strstr(noted, "was measured before the last lesson"));
    for (int i = 0; i < IMAGES; i++)
        assert_true(fabs((double)a.stranger[i] - rc_calibration_rate(c, a.score[i])) < 1e-6);
    SUCCEEDS(recollect_learn(few, &more.images, more.labels, more.names, 2, NULL));
    assert_true(few->saved.calibration.lesson[1].scores == 0);
    check_cannot_tell(few, "some lessons held out fewer than 20 images");
    recollect_model_destroy(&taught);
    recollect_model_destroy(&few);
}

/* Entropies of old classes change too much from lesson to lesson. */
static void later_lessons_of_other_scores_cannot_tell(void **state)
{
    (void)state;
    recollect_model *plain = learn("0.3333", "finetune"), *mixed = learn("0.3333", "finetune");
    SUCCEEDS(recollect_model_set(plain, "hold_out", "0.5"));
    SUCCEEDS(recollect_learn(plain, &more.images, more.labels, more.names, 2, NULL));
    assert_true(plain->saved.calibration.lessons == 2 && plain->saved.calibration.lesson[0].scores == 0);
    check_cannot_tell(plain, "some lessons held out fewer than 20 images");
    SUCCEEDS(recollect_model_set(mixed, "hold_out", "0.5"));
    SUCCEEDS(recollect_model_set(mixed, "method", "cwd"));
    SUCCEEDS(recollect_learn(mixed, &more.images, more.labels, more.names, 2, NULL));
    assert_true(mixed->saved.calibration.kind == RC_SCORE_DISTANCE_AND_ENTROPY);
    check_cannot_tell(mixed, "some lessons held out fewer than 20 images");
    recollect_model_destroy(&plain);
    recollect_model_destroy(&mixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_measured_on_held_out_images),
        cmocka_unit_test(the_rate_is_kept_in_the_file),
        cmocka_unit_test(strangers_are_rejected_below_a_rate),
        cmocka_unit_test(a_model_without_held_out_images_says_so),
        cmocka_unit_test(a_model_of_one_image_a_class_says_so),
        cmocka_unit_test(models_without_statistics_have_rates),
        cmocka_unit_test(later_lessons_add_their_own),
        cmocka_unit_test(later_lessons_of_other_scores_cannot_tell),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
