/* Scores of strangeness, beside numbers that numpy computed from the formula in api/unfamiliarity.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "api/unfamiliarity.h"
#include "base/memory.h"

static rc_backend *be;

static int set_up(void **state)
{
    (void)state;
    return rc_backend_open("cpu", 1, NULL, &be) == RC_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rc_backend_close(be);
    return rc_bytes_allocated() == 0 ? 0 : -1;
}

/* As much of a learner as scores need. */
static rc_learner learner_of(int d, int logits, float *mean, int means, float *covariance)
{
    rc_learner l = {.class_mean = mean, .covariance = covariance, .statistics_classes = means};
    l.student.head.d = d;
    l.student.head.classes = logits;
    return l;
}

/*  shrunk = lambda S: .95 * S + .05 * trace(S) / len(S) * eye(len(S))
 *  S = [[2, .5], [.5, 1]]; mu = [[0, 0], [4, -1]]; g = mu.mean(0); T = S + (mu - g).T @ (mu - g) / 2
 *  P = inv(shrunk(S)); Q = inv(shrunk(T)); p = exp(l) / exp(l).sum()
 *  min((f - m) @ P @ (f - m) for m in mu) - (f - g) @ Q @ (f - g) - 4 * (p * log(p)).sum() */
static void distance_and_entropy_are_those_of_numpy(void **state)
{
    (void)state;
    static float mean[] = {0, 0, 4, -1}, covariance[] = {2, 0.5f, 0.5f, 1};
    static const struct {
        float feature[2], logits[2];
        int nearest;
        double score;
    } cases[] = {{{1, 2}, {1.5f, -0.5f}, 0, 0.7975477993868054},
                 {{3.5f, -2}, {0, 2}, 1, 0.6260525590817047},
                 {{-100, 50}, {3, 3}, 0, 7975.325332815981}};
    rc_learner l = learner_of(2, 2, mean, 2, covariance);
    rc_unfamiliarity *u;
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
    assert_int_equal(rc_unfamiliarity_kind(u), RC_SCORE_DISTANCE_AND_ENTROPY);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int nearest = -7;
        double score = rc_unfamiliarity_score(u, cases[i].logits, cases[i].feature, &nearest);
        assert_true(fabs(score - cases[i].score) < 1e-9 * fabs(cases[i].score));
        assert_int_equal(nearest, cases[i].nearest);
    }
    rc_unfamiliarity_destroy(u);
}

/* Three features, and a row of a class that was never estimated. With one class the distances cancel each other. */
static void classes_without_images_are_left_out(void **state)
{
    (void)state;
    static float mean[] = {-1, 0, 2, NAN, NAN, NAN, 0.5f, 1, 0}, covariance[] = {1, 0, 0.3f, 0, 4, 0, 0.3f, 0, 0.25f};
    static const float feature[] = {1, -1, 0.5f}, logits[] = {1, 2, 3, -1};
    rc_learner l = learner_of(3, 4, mean, 3, covariance);
    rc_unfamiliarity *u;
    int nearest;
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
    assert_true(fabs(rc_unfamiliarity_score(u, logits, feature, &nearest) - 3.5068323394747623) < 1e-9);
    assert_int_equal(nearest, 2);
    rc_unfamiliarity_destroy(u);
    l = learner_of(3, 4, mean + 3, 2, covariance);
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
    assert_true(fabs(rc_unfamiliarity_score(u, logits, feature, &nearest) - 4 * 0.8875433689167067) < 1e-9);
    assert_int_equal(nearest, 1);
    rc_unfamiliarity_destroy(u);
}

static void without_statistics_it_is_the_entropy(void **state)
{
    (void)state;
    static const float logits[] = {1, 2, 3, -1}, same[] = {700, 700, 700, 700}, sure[] = {-900, 900, 0, 0};
    rc_learner l = learner_of(3, 4, NULL, 0, NULL);
    rc_unfamiliarity *u;
    int nearest = 3;
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
    assert_int_equal(rc_unfamiliarity_kind(u), RC_SCORE_ENTROPY);
    assert_true(fabs(rc_unfamiliarity_score(u, logits, NULL, &nearest) - 0.8875433689167067) < 1e-9);
    assert_int_equal(nearest, -1);
    assert_true(fabs(rc_unfamiliarity_score(u, same, NULL, &nearest) - log(4)) < 1e-12);
    assert_true(rc_unfamiliarity_score(u, sure, NULL, &nearest) == 0);
    rc_unfamiliarity_destroy(u);
}

/* One image a class: nothing says how far images of a class lie from each other. */
static void without_spread_it_is_the_entropy(void **state)
{
    (void)state;
    static float mean[] = {0, 0, 1, -2}, covariance[] = {0, 0, 0, 0};
    static const float logits[] = {1, 1}, feature[] = {5, -3};
    static const float rounded[] = {0, 2e-17F, -2.4e-12F};
    rc_learner l = learner_of(2, 2, mean, 2, covariance);
    rc_unfamiliarity *u;
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++) {
        int nearest = 3;
        covariance[0] = rounded[i];
        covariance[1] = covariance[2] = -rounded[i] / 2;
        assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
        assert_int_equal(rc_unfamiliarity_kind(u), RC_SCORE_ENTROPY);
        assert_true(fabs(rc_unfamiliarity_score(u, logits, feature, &nearest) - log(2)) < 1e-12);
        assert_int_equal(nearest, -1);
        rc_unfamiliarity_destroy(u);
    }
    covariance[0] = covariance[3] = 1.3e-12F; /* which is no rounding */
    covariance[1] = covariance[2] = 0;
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
    assert_int_equal(rc_unfamiliarity_kind(u), RC_SCORE_DISTANCE_AND_ENTROPY);
    rc_unfamiliarity_destroy(u);
    covariance[0] = NAN; /* which is a damage */
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_FORMAT);
}

static void what_is_not_finite_has_no_score(void **state)
{
    (void)state;
    static float mean[] = {0, 0}, covariance[] = {1, 0, 0, 1};
    static const float bad[][2] = {{NAN, 0}, {0, INFINITY}}, good[] = {0, 0};
    rc_learner l = learner_of(2, 2, mean, 1, covariance);
    rc_unfamiliarity *u;
    int nearest;
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(isnan(rc_unfamiliarity_score(u, good, bad[i], &nearest)));
        assert_true(isnan(rc_unfamiliarity_score(u, bad[i], good, &nearest)));
    }
    assert_true(isnan(rc_unfamiliarity_shown(NAN)));
    rc_unfamiliarity_destroy(u);
}

/* Statistics from a damaged file. */
static void what_is_no_covariance_is_refused(void **state)
{
    (void)state;
    static float mean[] = {0, 0}, none[] = {NAN, 0};
    static float covariance[][4] = {{-1, 0, 0, -1}, {1, 3, 3, 1}, {NAN, 0, 0, 1}, {1, 0, 0, INFINITY}};
    rc_unfamiliarity *u;
    for (size_t i = 0; i < sizeof covariance / sizeof *covariance; i++) {
        rc_learner l = learner_of(2, 2, mean, 1, covariance[i]);
        assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_FORMAT);
        assert_null(u);
        assert_non_null(strstr(rc_message(), "covariance of the features is not positive"));
    }
    float good[] = {1, 0, 0, 1};
    rc_learner l = learner_of(2, 2, none, 1, good);
    assert_int_equal(rc_unfamiliarity_create(&l, be, &u), RC_FORMAT);
    assert_non_null(strstr(rc_message(), "hold no class"));
}

static void what_is_shown_is_positive_and_keeps_the_order(void **state)
{
    (void)state;
    static const double score[] = {-80, -20, -1, -1e-9, 0, 1e-9, 1, 50, 1e6};
    for (size_t i = 0; i < sizeof score / sizeof *score; i++) {
        double shown = rc_unfamiliarity_shown(score[i]);
        assert_true((float)shown > 0);
        assert_true(i == 0 || shown > rc_unfamiliarity_shown(score[i - 1]));
    }
    assert_true((float)rc_unfamiliarity_shown(-1e300) > 0);
    assert_true(fabs(rc_unfamiliarity_shown(0) - log(2)) < 1e-15);
    assert_true(fabs(rc_unfamiliarity_shown(1) - log(1 + exp(1))) < 1e-15);
    assert_true(fabs(rc_unfamiliarity_shown(-1) - log(1 + exp(-1))) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_and_entropy_are_those_of_numpy),
        cmocka_unit_test(classes_without_images_are_left_out),
        cmocka_unit_test(without_statistics_it_is_the_entropy),
        cmocka_unit_test(without_spread_it_is_the_entropy),
        cmocka_unit_test(what_is_not_finite_has_no_score),
        cmocka_unit_test(what_is_no_covariance_is_refused),
        cmocka_unit_test(what_is_shown_is_positive_and_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
