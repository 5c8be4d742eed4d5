/* False-alarm rates: their values by hand, how often they are wrong on generated scores, files, and damaged files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "model/calibration.h"

enum { MOST = 5000 };

static int nothing_is_left(void **state)
{
    (void)state;
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

/* A lesson with the scores 1, 2, ..., images, given in another order. */
static void add_count(rc_calibration *c, int classes, int images)
{
    double scores[MOST];
    for (int i = 0; i < images; i++)
        scores[i] = (i * 13 + 3) % images + 1;
    assert_int_equal(rc_calibration_add(c, classes, scores, images), RC_OK);
}

#define NEAR(found, expected) assert_true(fabs((found) - (expected)) < 1e-12)

static void a_rate_counts_scores_that_are_as_strange(void **state)
{
    (void)state;
    rc_calibration c = {0};
    assert_true(isnan(rc_calibration_rate(&c, 0)) && !rc_calibration_covers(&c, 0));
    add_count(&c, 3, 24);
    assert_true(rc_calibration_covers(&c, 3) && !rc_calibration_covers(&c, 4));
    NEAR(rc_calibration_rate(&c, -1e9), 1);
    NEAR(rc_calibration_rate(&c, 1), 1);
    NEAR(rc_calibration_rate(&c, 1.5), 24 / 25.0);
    NEAR(rc_calibration_rate(&c, 23), 3 / 25.0); /* 23 and 24 are as strange */
    NEAR(rc_calibration_rate(&c, 24), 2 / 25.0);
    NEAR(rc_calibration_rate(&c, 24.5), 1 / 25.0);
    NEAR(rc_calibration_rate(&c, INFINITY), 1 / 25.0);
    assert_true(isnan(rc_calibration_rate(&c, NAN)));
    rc_calibration_destroy(&c);
    assert_int_equal(c.lessons, 0);
}

static void ties_count_as_strange(void **state)
{
    (void)state;
    double scores[40];
    rc_calibration c = {0};
    for (int i = 0; i < 40; i++)
        scores[i] = i < 10 ? 5 : 2;
    assert_int_equal(rc_calibration_add(&c, 1, scores, 40), RC_OK);
    NEAR(rc_calibration_rate(&c, 5), 11 / 41.0);
    NEAR(rc_calibration_rate(&c, 5.0001), 1 / 41.0);
    NEAR(rc_calibration_rate(&c, 2), 1);
    rc_calibration_destroy(&c);
}

/* Six classes with 24 images, two with 49: (6 p + 2 q) / 8. */
static void lessons_count_by_their_classes(void **state)
{
    (void)state;
    rc_calibration c = {0};
    add_count(&c, 6, 24);
    add_count(&c, 2, 49);
    assert_true(rc_calibration_covers(&c, 8) && !rc_calibration_covers(&c, 6));
    NEAR(rc_calibration_rate(&c, 24), (6 * 2 / 25.0 + 2 * 27 / 50.0) / 8);
    NEAR(rc_calibration_rate(&c, 1000), (6 / 25.0 + 2 / 50.0) / 8);
    rc_calibration_destroy(&c);
}

static void too_few_images_give_no_rate(void **state)
{
    (void)state;
    rc_calibration c = {0};
    add_count(&c, 2, RC_CALIBRATION_LEAST - 1);
    assert_true(c.lesson[0].scores == 0 && c.lesson[0].images == RC_CALIBRATION_LEAST - 1);
    assert_true(isnan(rc_calibration_rate(&c, 1)) && !rc_calibration_covers(&c, 2));
    add_count(&c, 2, RC_CALIBRATION_LEAST);
    assert_true(c.lesson[1].scores == RC_CALIBRATION_LEAST);
    assert_true(isnan(rc_calibration_rate(&c, 1)) && !rc_calibration_covers(&c, 4)); /* of one lesson is not enough */
    rc_calibration_destroy(&c);
    assert_int_equal(rc_calibration_add(&c, 2, NULL, 0), RC_OK);
    assert_false(rc_calibration_covers(&c, 2));
    rc_calibration_destroy(&c);
}

/* Of 5000 scores 200 are kept, and the rates stay what they were. */
static void many_scores_are_thinned(void **state)
{
    (void)state;
    rc_calibration c = {0};
    add_count(&c, 2, MOST);
    assert_true(c.lesson[0].scores == RC_CALIBRATION_MOST && c.lesson[0].images == MOST);
    for (int i = 0; i < RC_CALIBRATION_MOST; i++) /* the middle of each of 200 parts of 25 scores */
        assert_true(c.lesson[0].score[i] == (float)(25 * i + 13));
    for (int part = 1; part < 100; part++)
        assert_true(fabs(rc_calibration_rate(&c, MOST * (1 - part / 100.0)) - part / 100.0) <
                    0.51 / RC_CALIBRATION_MOST);
    rc_calibration_destroy(&c);
}

static void a_score_that_is_no_number_is_the_strangest(void **state)
{
    (void)state;
    double scores[20] = {NAN, INFINITY, -INFINITY, 1e300};
    rc_calibration c = {0};
    assert_int_equal(rc_calibration_add(&c, 1, scores, 20), RC_OK);
    NEAR(rc_calibration_rate(&c, 1e6), 5 / 21.0);
    rc_calibration_destroy(&c);
}

/* Whoever rejects below r rejects r of the images of known classes: over many models of 120 held-out images, with
 * scores that are as skew as real ones. */
static void false_alarms_are_as_many_as_printed(void **state)
{
    (void)state;
    enum { MODELS = 400, HELD_OUT = 120, TESTS = 100 };
    static const double rate[] = {0.05, 0.1, 0.5};
    int alarms[3] = {0};
    uint32_t next = 0;
    for (int model = 0; model < MODELS; model++) {
        double scores[HELD_OUT];
        rc_calibration c = {0};
        for (int i = 0; i < HELD_OUT; i++)
            scores[i] = -log((double)rc_rng_uniform((rc_rng){5, 1}, next++) + 1e-9);
        assert_int_equal(rc_calibration_add(&c, 6, scores, HELD_OUT), RC_OK);
        for (int i = 0; i < TESTS; i++) {
            double found = rc_calibration_rate(&c, -log((double)rc_rng_uniform((rc_rng){5, 1}, next++) + 1e-9));
            for (int k = 0; k < 3; k++)
                alarms[k] += found < rate[k];
        }
        rc_calibration_destroy(&c);
    }
    for (int k = 0; k < 3; k++) {
        double found = alarms[k] / (double)(MODELS * TESTS);
        if (!(found <= rate[k] + 0.004 && found >= rate[k] - 1.0 / (HELD_OUT + 1) - 0.004))
            fail_msg("%g of the known images are below %g", found, rate[k]);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* What is put into the metadata under "calibration". */
static char *text_of(const rc_calibration *c)
{
    rc_json_writer w = {0};
    rc_json *json;
    char *text, *copy;
    rc_json_begin_object(&w, NULL);
    rc_calibration_put(c, &w);
    rc_json_end(&w);
    assert_int_equal(rc_json_finish(&w, &text, NULL), RC_OK);
    assert_int_equal(rc_json_parse("text", text, strlen(text), &json), RC_OK);
    const char *inner = rc_json_string(rc_json_member(json, "calibration"));
    assert_non_null(inner);
    copy = rc_alloc(NULL, strlen(inner) + 1);
    memcpy(copy, inner, strlen(inner) + 1);
    rc_json_free(json);
    rc_free(NULL, text);
    return copy;
}

static void what_is_put_comes_back(void **state)
{
    (void)state;
    rc_calibration c = {.kind = RC_SCORE_ENTROPY, .temperature = 2.25}, back, copy;
    double scores[20] = {0.1, -3, 1e-7, 3e38};
    assert_int_equal(rc_calibration_add(&c, 2, scores, 20), RC_OK);
    add_count(&c, 3, 7);
    add_count(&c, 1, 600);
    char *text = text_of(&c);
    assert_int_equal(rc_calibration_get(text, 6, &back), RC_OK);
    assert_int_equal(rc_calibration_copy(&copy, &back), RC_OK);
    rc_calibration_destroy(&back);
    assert_true(copy.kind == RC_SCORE_ENTROPY && copy.lessons == 3 && copy.temperature == 2.25);
    for (int i = 0; i < 3; i++) {
        const rc_calibrated_lesson *a = &c.lesson[i], *b = &copy.lesson[i];
        assert_true(a->classes == b->classes && a->images == b->images && a->scores == b->scores);
        assert_true(a->scores == 0 || memcmp(a->score, b->score, (size_t)a->scores * sizeof(float)) == 0);
    }
    rc_free(NULL, text);
    rc_calibration_destroy(&c);
    rc_calibration_destroy(&copy);
}

#define SCORES      "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19"
#define OF(lessons) "{\"score\":\"entropy\",\"lessons\":[" lessons "]}"
#define AT(value) \
    "{\"score\":\"entropy\",\"temperature\":" value ",\"lessons\":[{\"classes\":2,\"images\":0,\"scores\":[]}]}"

static void hostile_texts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "calibration"},
        {"[]", "score"},
        {"{\"lessons\":[]}", "'score'"},
        {"{\"score\":\"other\",\"lessons\":[]}", "of the score 'other', expected 'distance-and-entropy' or 'entropy'"},
        {"{\"score\":\"entropy\"}", "'lessons'"},
        {OF(""), "0 lessons for 2 classes"},
        {AT("0.49"), "the temperature of the calibration is 0.49, expected 0.5 to 32"},
        {AT("32.1"), "is 32.1, expected"},
        {AT("0"), "is 0, expected"},
        {AT("-1"), "is -1, expected"},
        {AT("null"), "is nan, expected"},
        {AT("\"2\""), "is nan, expected"},
        {OF("{\"classes\":1,\"images\":0,\"scores\":[]},{\"classes\":1,\"images\":0,\"scores\":[]},"
            "{\"classes\":1,\"images\":0,\"scores\":[]}"),
         "3 lessons for 2 classes"},
        {OF("{\"images\":0,\"scores\":[]}"), "'classes'"},
        {OF("{\"classes\":2,\"scores\":[]}"), "'images'"},
        {OF("{\"classes\":2,\"images\":0}"), "'scores'"},
        {OF("{\"classes\":0,\"images\":0,\"scores\":[]}"), "0 classes and 0 images"},
        {OF("{\"classes\":2,\"images\":-1,\"scores\":[]}"), "2 classes and -1 images"},
        {OF("{\"classes\":2,\"images\":1e9,\"scores\":[]}"), "'images'"},
        {OF("{\"classes\":2,\"images\":2147483647,\"scores\":[]}"), "0 scores of 2147483647 images, expected 200"},
        {OF("{\"classes\":2,\"images\":19,\"scores\":[" SCORES "]}"), "19 scores of 19 images, expected 0"},
        {OF("{\"classes\":2,\"images\":20,\"scores\":[" SCORES "]}"), "19 scores of 20 images, expected 20"},
        {OF("{\"classes\":2,\"images\":20,\"scores\":[" SCORES ",18]}"),
         "score 19 of lesson 0 of the calibration is 18"},
        {OF("{\"classes\":2,\"images\":20,\"scores\":[" SCORES ",null]}"), "score 19 of lesson 0"},
        {OF("{\"classes\":2,\"images\":20,\"scores\":[" SCORES ",1e39]}"), "is 1e+39, expected a number in order"},
        {OF("{\"classes\":1,\"images\":20,\"scores\":[" SCORES ",20]}"), "of 1 classes, but the model has 2"},
        {OF("{\"classes\":2147483647,\"images\":0,\"scores\":[]},{\"classes\":2147483647,\"images\":0,\"scores\":[]}"),
         "of 4294967294 classes, but the model has 2"},
    };
    rc_calibration c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rc_calibration_get(cases[i].text, 2, &c), RC_FORMAT);
        assert_true(c.lessons == 0 && c.lesson == NULL);
        if (strstr(rc_message(), cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].text, rc_message());
    }
    assert_int_equal(rc_calibration_get(OF("{\"classes\":2,\"images\":20,\"scores\":[" SCORES ",19]}"), 2, &c), RC_OK);
    assert_true(c.temperature == 0 && rc_calibration_temperature(&c) == 1);
    rc_calibration_destroy(&c);
    assert_int_equal(rc_calibration_get(AT("32"), 2, &c), RC_OK);
    assert_true(rc_calibration_temperature(&c) == 32);
    rc_calibration_destroy(&c);
    assert_int_equal(rc_calibration_get(AT("0.5"), 2, &c), RC_OK);
    assert_true(rc_calibration_temperature(&c) == 0.5);
    rc_calibration_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_counts_scores_that_are_as_strange),
        cmocka_unit_test(ties_count_as_strange),
        cmocka_unit_test(lessons_count_by_their_classes),
        cmocka_unit_test(too_few_images_give_no_rate),
        cmocka_unit_test(many_scores_are_thinned),
        cmocka_unit_test(a_score_that_is_no_number_is_the_strangest),
        cmocka_unit_test(false_alarms_are_as_many_as_printed),
        cmocka_unit_test(what_is_put_comes_back),
        cmocka_unit_test(hostile_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_left);
}
