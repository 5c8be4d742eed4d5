/* What analyses compute of features: maps between two nets, classifiers against scikit-learn, the direction of
 * gradients against a stream made by hand; and memory that runs out anywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/mixture.h"
#include "analysis/probe.h"
#include "analysis/statistics.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "support/cpu_backend.h"
#include "support/divergence.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"
#include "unit/waves.h"

/* ---- maps ------------------------------------------------------------------------------------------------------ */

/* y = M x + t + e: the map is found, and it takes means and covariances along as it does samples. */
static void a_linear_map_moves_statistics(void **state)
{
    (void)state;
    enum { N = 400, D = 3 };
    static const double m[D * D] = {1.5, -0.3, 0.2, 0.1, 0.8, 0, -0.4, 0.6, 1.1}, t[D] = {0.5, -1, 2};
    static float x[N * D], y[N * D];
    make_wave(N, D, 0.3, x);
    make_wave(N, D, 2.1, y); /* a wave of its own: what the map cannot explain */
    for (int i = 0; i < N; i++)
        for (int r = 0; r < D; r++) {
            double value = 0.05 * (double)y[i * D + r] + t[r];
            for (int k = 0; k < D; k++)
                value += m[r * D + k] * (double)x[i * D + k];
            y[i * D + r] = (float)value;
        }
    rc_affine_map map;
    rc_class_statistics from, to;
    SUCCEEDS(rc_affine_map_fit(NULL, N, D, x, y, &map));
    for (int i = 0; i < D * D; i++)
        NEAR(map.matrix[i], m[i], 0.05); /* the ridge and the second wave */
    SUCCEEDS(rc_class_statistics_create(NULL, N, D, x, NULL, 1, &from));
    SUCCEEDS(rc_class_statistics_create(NULL, N, D, y, NULL, 1, &to));
    assert_true(rc_relative_distance(D, from.mean, to.mean) > 0.5);
    SUCCEEDS(rc_affine_map_mean(&map, from.mean));
    SUCCEEDS(rc_affine_map_covariance(&map, from.covariance));
    for (int i = 0; i < D; i++)
        NEAR(from.mean[i], to.mean[i], 1e-6); /* exact for the images that it was fitted on */
    /* A S A^T + residual is the covariance of y less twice what the ridge keeps from the fit, a thousandth of it. */
    for (int i = 0; i < D * D; i++)
        NEAR(from.covariance[i], to.covariance[i], 4 * RC_MAP_RIDGE * to.covariance[0]);
    for (int i = 0; i < D; i++)
        assert_true(map.residual[i * D + i] > 0.3 * 0.05 * 0.05 && map.residual[i * D + i] < 0.6 * 0.05 * 0.05);
    rc_affine_map_destroy(&map);
    rc_class_statistics_destroy(&from);
    rc_class_statistics_destroy(&to);
}

/* Rows that are all the same say how far they have moved, and nothing of directions. */
static void a_map_of_one_point_shifts(void **state)
{
    (void)state;
    enum { N = 2, D = 3 };
    const float x[N * D] = {3, 4, 5, 3, 4, 5}, y[N * D] = {1, 1, 2, 3, 1, 6};
    rc_affine_map map;
    size_t before = rc_bytes_allocated();
    SUCCEEDS(rc_affine_map_fit(NULL, N, D, x, y, &map));
    double mean[D] = {5, 7, 9}, covariance[D * D] = {2, 1, 0, 1, 3, 0, 0, 0, 5};
    /* y has variances of 1 and 4 that nothing explains */
    const double moved[D] = {4, 4, 8}, wider[D * D] = {3, 1, 2, 1, 3, 0, 2, 0, 9};
    SUCCEEDS(rc_affine_map_mean(&map, mean));
    SUCCEEDS(rc_affine_map_covariance(&map, covariance));
    for (int i = 0; i < D; i++)
        NEAR(mean[i], moved[i], 1e-12);
    for (int i = 0; i < D * D; i++)
        NEAR(covariance[i], wider[i], 1e-12);
    rc_affine_map_destroy(&map);
    assert_int_equal(rc_bytes_allocated(), before);
    const float broken[N * D] = {3, NAN, 5, 3, 4, 5};
    assert_int_equal(rc_affine_map_fit(NULL, N, D, broken, y, &map), RC_NUMERIC);
}

/* One feature: A = S_xy / (S_xx + n ridge), with ridge = RC_MAP_RIDGE variance, and the residual by hand. */
static void the_ridge_of_a_map(void **state)
{
    (void)state;
    const float x[] = {-1, 0, 0, 1}, y[] = {-3, 1, 1, 5};
    rc_affine_map map;
    SUCCEEDS(rc_affine_map_fit(NULL, 4, 1, x, y, &map));
    double a = 8 / (2 * (1 + RC_MAP_RIDGE));
    NEAR(map.matrix[0], a, 1e-12);
    NEAR(map.shift[0], 1, 1e-12);
    NEAR(map.residual[0], (32 - 2 * a * 8 + a * a * 2) / 4, 1e-9);
    double mean = 0.5, variance = 3;
    SUCCEEDS(rc_affine_map_mean(&map, &mean));
    SUCCEEDS(rc_affine_map_covariance(&map, &variance));
    NEAR(mean, 0.5 * a + 1, 1e-12);
    NEAR(variance, 3 * a * a + map.residual[0], 1e-9);
    rc_affine_map_destroy(&map);
}

/* ---- classifiers ----------------------------------------------------------------------------------------------- */

enum { N = 60, D = 4, K = 3 };

typedef struct labelled {
    float train[N * D], test[N * D];
    int32_t label[N];
} labelled;

/* Three classes whose features depend on each other, as the fixture's Python has them. */
static void make_classes(labelled *l)
{
    static const double centre[K][D] = {{1, 0, 0.3, 0}, {0, 1, -0.2, 0.1}, {-0.5, -0.4, 0.1, 0.6}};
    static const double mix[D][D] = {{1, 0.8, 0, 0}, {0, 0.4, 0, 0}, {0.3, 0, 0.7, 0}, {0, 0.2, 0, 0.5}};
    float wave[N * D];
    for (int test = 0; test < 2; test++) {
        float *out = test ? l->test : l->train;
        make_wave(N, D, test ? 3.5 : 0.5, wave);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < D; j++) {
                double value = 0;
                l->label[i] = i % K;
                for (int k = 0; k < D; k++)
                    value += (double)wave[i * D + k] * mix[k][j];
                out[i * D + j] = (float)(value + 0.7 * centre[i % K][j]);
            }
    }
}

/* scikit-learn 1.9: NearestCentroid, LinearDiscriminantAnalysis(solver="lsqr", equal priors). */
static void classifiers_are_scikit_learns(void **state)
{
    (void)state;
    static labelled l;
    static const int32_t nearest[K] = {11, 10, 13}, linear[K] = {20, 17, 17};
    int32_t right[K];
    rc_class_statistics s;
    make_classes(&l);
    SUCCEEDS(rc_class_statistics_create(NULL, N, D, l.train, l.label, K, &s));
    SUCCEEDS(rc_nearest_mean(N, D, l.test, l.label, K, s.mean, right));
    assert_memory_equal(right, nearest, sizeof right);
    SUCCEEDS(rc_linear_discriminant(N, D, l.test, l.label, K, s.mean, s.covariance, right));
    assert_memory_equal(right, linear, sizeof right);
    s.mean[0] = (double)NAN; /* class 0 is not known: never said, and the others are found more often, not less */
    SUCCEEDS(rc_linear_discriminant(N, D, l.test, l.label, K, s.mean, s.covariance, right));
    assert_true(right[0] == 0 && right[1] >= linear[1] && right[2] >= linear[2]);
    for (int i = 0; i < K * D; i++) /* none is known: nothing is said, nothing is right */
        s.mean[i] = (double)NAN;
    SUCCEEDS(rc_nearest_mean(N, D, l.test, l.label, K, s.mean, right));
    assert_true(right[0] + right[1] + right[2] == 0);
    for (int i = 0; i < K * D; i++) /* all are the same: the first is said */
        s.mean[i] = i % D;
    SUCCEEDS(rc_nearest_mean(N, D, l.test, l.label, K, s.mean, right));
    assert_true(right[0] == N / K && right[1] + right[2] == 0);
    const float scores[] = {1, 2, 2, 0, 0, 0, 5, 1, 7};
    const int32_t labels[] = {1, 0, 2}; /* of equal scores the first counts */
    static const int32_t all[K] = {1, 1, 1};
    rc_highest_scores(3, scores, labels, K, right);
    assert_memory_equal(right, all, sizeof right);
    rc_class_statistics_destroy(&s);
}

static void a_task_is_forgotten_or_taken_for_another(void **state)
{
    (void)state;
    /* Classes 0 and 1 are a task, 2 to 4 another. */
    static const float scores[6][5] = {{1, 2, 0, 0, 0}, {3, 2, 4, 0, 0}, {1, 2, 9, 0, 0},
                                       {5, 0, 3, 4, 2}, {0, 1, 2, 3, 2}, {0, 0, 1, 1, 1}};
    static const int32_t labels[6] = {1, 0, 0, 3, 2, 2}; /* of the last three scores are equal: the first counts */
    double among, told;
    rc_scores_of_task(6, scores[0], labels, 5, 0, 2, &among, &told);
    NEAR(among, 200 / 3.0, 1e-12);
    NEAR(told, 100 / 3.0, 1e-12);
    rc_scores_of_task(6, scores[0], labels, 5, 2, 5, &among, &told);
    NEAR(among, 200 / 3.0, 1e-12);
    NEAR(told, 200 / 3.0, 1e-12);
    rc_scores_of_task(6, scores[0], labels, 5, 4, 5, &among, &told);
    assert_true(isnan(among) && isnan(told));
}

/* scikit-learn 1.9: LogisticRegression(C=1) on standardised features. Its biases are determined up to a constant. */
static void the_probe_is_scikit_learns(void **state)
{
    (void)state;
    static labelled l;
    static const double weight[K * D] = {2.03590653039,   -1.56964412649,  -0.408787755185,  -1.05658393786,
                                         -1.8890442158,   2.5549298827,    0.419730485231,   -1.11100938207,
                                         -0.146862314591, -0.985285756215, -0.0109427300458, 2.16759331994};
    static const double shift[K] = {-0.0211500440635, -0.0398135420448, 0.0609635861082};
    static const int32_t expected[K] = {20, 15, 14};
    int32_t right[K];
    rc_probe probe;
    make_classes(&l);
    SUCCEEDS(rc_probe_fit(be, N, D, l.train, l.label, K, &probe));
    NEAR(probe.loss, 0.518493638665, 1e-6);
    assert_true(probe.steps > 3 && probe.steps < RC_PROBE_STEPS);
    /* The gradient is below 1e-5; the smallest curvature is that of the penalty, 1 / n. */
    for (int i = 0; i < K * D; i++)
        NEAR(probe.weight[i], weight[i], 20 * RC_PROBE_TOLERANCE * N);
    double mean = (probe.shift[0] + probe.shift[1] + probe.shift[2]) / 3;
    for (int k = 0; k < K; k++)
        NEAR(probe.shift[k] - mean, shift[k], 20 * RC_PROBE_TOLERANCE * N);
    rc_linear_rule(N, D, l.test, l.label, K, probe.weight, probe.shift, right);
    assert_memory_equal(right, expected, sizeof right);
    rc_probe_destroy(&probe);
}

/* 0.1 N times over N is not 0.1 in double: what is left is no deviation by which anything could be divided. */
static void the_probe_leaves_out_what_never_varies(void **state)
{
    (void)state;
    static labelled l;
    rc_probe probe;
    make_classes(&l);
    for (int i = 0; i < N; i++)
        l.train[i * D + 1] = 0.1F;
    SUCCEEDS(rc_probe_fit(be, N, D, l.train, l.label, K, &probe));
    for (int k = 0; k < K; k++)
        NEAR(probe.weight[k * D + 1], 0, 20 * RC_PROBE_TOLERANCE * N);
    rc_probe_destroy(&probe);
}

/* More images than go through the backend at a time, the last part smaller: every image counts the same. The first 60
 * rows again and again have the same mean cross entropy; the penalty gets smaller. */
static void the_probe_takes_many_images(void **state)
{
    (void)state;
    enum { TIMES = 40 };
    static labelled l;
    static float many[TIMES * N * D];
    static int32_t labels[TIMES * N];
    rc_probe few, probe;
    make_classes(&l);
    for (int i = 0; i < TIMES * N; i++) {
        memcpy(many + i * D, l.train + i % N * D, D * sizeof *many);
        labels[i] = l.label[i % N];
    }
    SUCCEEDS(rc_probe_fit(be, N, D, l.train, l.label, K, &few));
    SUCCEEDS(rc_probe_fit(be, TIMES * N, D, many, labels, K, &probe));
    assert_true(probe.loss < few.loss - 0.01);
    double loss = 0, penalty = 0;
    for (int i = 0; i < N; i++) {
        double score[K], sum = 0;
        for (int k = 0; k < K; k++) {
            score[k] = probe.shift[k];
            for (int j = 0; j < D; j++)
                score[k] += probe.weight[k * D + j] * (double)l.train[i * D + j];
            sum += exp(score[k]);
        }
        loss += (log(sum) - score[l.label[i]]) / N;
    }
    for (int j = 0; j < D; j++) {
        double sum = 0, square = 0;
        for (int i = 0; i < N; i++) {
            sum += (double)l.train[i * D + j] / N;
            square += pow((double)l.train[i * D + j], 2) / N;
        }
        for (int k = 0; k < K; k++)
            penalty += pow(probe.weight[k * D + j], 2) * (square - sum * sum) / (2.0 * TIMES * N);
    }
    NEAR(probe.loss, loss + penalty, 1e-5);
    rc_probe_destroy(&few);
    rc_probe_destroy(&probe);
}

/* ---- direction of gradients ---------------------------------------------------------------------------------- */

/* Three batches. Class 0 always goes the same way; class 1 goes 3 along, 4 across, 3 along, which is |(6, 4)| of 10;
 * class 2 comes back; class 3 has no gradient. */
static void direction_of_a_stream_made_by_hand(void **state)
{
    (void)state;
    const float batch[3][8] = {{1, 1, 3, 0, 1, 2, 0, 0}, {2, 2, 0, 4, -1, -2, 0, 0}, {0.5f, 0.5f, 3, 0, 0, 0, 0, 0}};
    rc_direction r;
    SUCCEEDS(rc_direction_create(2, 4, &r));
    for (int epoch = 0; epoch < 2; epoch++) {
        rc_direction_clear(&r);
        for (int m = 0; m < 3; m++)
            rc_direction_add(&r, batch[m]);
        NEAR(rc_direction_of(&r, 0), 1, 1e-15);
        NEAR(rc_direction_of(&r, 1), sqrt(52) / 10, 1e-15);
        NEAR(rc_direction_of(&r, 2), 0, 0);
        assert_true(isnan(rc_direction_of(&r, 3)));
        NEAR(rc_direction_mean(&r, 0, 2), (1 + sqrt(52) / 10) / 2, 1e-15);
        NEAR(rc_direction_mean(&r, 1, 4), sqrt(52) / 20, 1e-15); /* the class without gradients does not count */
        assert_true(isnan(rc_direction_mean(&r, 3, 4)));
    }
    rc_direction_destroy(&r);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static labelled data;

static rc_status make_statistics(void)
{
    rc_class_statistics s;
    RC_TRY(rc_class_statistics_create(NULL, N, D, data.train, data.label, K, &s));
    int32_t right[K];
    rc_status status = rc_nearest_mean(N, D, data.test, data.label, K, s.mean, right);
    if (status == RC_OK)
        status = rc_linear_discriminant(N, D, data.test, data.label, K, s.mean, s.covariance, right);
    rc_class_statistics_destroy(&s);
    rc_class_statistics_destroy(&s); /* a destroyed one is fine */
    return status;
}

static rc_status make_mixtures(void)
{
    rc_mixture p, q;
    rc_divergence d;
    RC_TRY(rc_mixture_fit_classes(NULL, N, D, data.train, data.label, K, &p));
    rc_status status = rc_mixture_fit_kernels(NULL, N, D, data.test, RC_BANDWIDTH_SCOTT, &q);
    if (status == RC_OK)
        status = divergence_drawn(&p, &q, (rc_rng){1, 1}, 10, &d);
    rc_mixture_destroy(&p);
    rc_mixture_destroy(&q);
    rc_mixture_destroy(&q);
    return status;
}

static rc_status make_map(void)
{
    rc_affine_map map;
    double mean[D] = {0}, covariance[D * D] = {0};
    RC_TRY(rc_affine_map_fit(NULL, N, D, data.train, data.test, &map));
    rc_status status = rc_affine_map_mean(&map, mean);
    if (status == RC_OK)
        status = rc_affine_map_covariance(&map, covariance);
    rc_affine_map_destroy(&map);
    rc_affine_map_destroy(&map);
    return status;
}

static rc_status make_probe(void)
{
    rc_probe probe;
    RC_TRY(rc_probe_fit(be, N, D, data.train, data.label, K, &probe));
    rc_probe_destroy(&probe);
    rc_probe_destroy(&probe);
    return RC_OK;
}

static rc_status make_direction(void)
{
    rc_direction direction;
    RC_TRY(rc_direction_create(D, K, &direction));
    rc_direction_destroy(&direction);
    rc_direction_destroy(&direction);
    return RC_OK;
}

/* Whichever allocation fails, that is told, and nothing is held afterwards. */
static void memory_that_runs_out_is_told(void **state)
{
    (void)state;
    static rc_status (*const makers[])(void) = {make_statistics, make_mixtures, make_map, make_probe, make_direction};
    make_classes(&data);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        SUCCEEDS(makers[i]()); /* what the backend reserves stays */
        size_t held = rc_bytes_allocated();
        bool failed = true;
        for (int nth = 1; failed; nth++) {
            allocation_to_fail = nth;
            rc_status status = makers[i]();
            failed = allocation_failed();
            assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
            assert_true(rc_bytes_allocated() == held);
            assert_true(nth > 1 || failed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_linear_map_moves_statistics),
        cmocka_unit_test(a_map_of_one_point_shifts),
        cmocka_unit_test(the_ridge_of_a_map),
        cmocka_unit_test(classifiers_are_scikit_learns),
        cmocka_unit_test(a_task_is_forgotten_or_taken_for_another),
        cmocka_unit_test(the_probe_is_scikit_learns),
        cmocka_unit_test(the_probe_leaves_out_what_never_varies),
        cmocka_unit_test(the_probe_takes_many_images),
        cmocka_unit_test(direction_of_a_stream_made_by_hand),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
