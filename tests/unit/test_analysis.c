/* The estimators of the analyses: divergences against closed forms and scipy, and the sums that they are made of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/mixture.h"
#include "analysis/statistics.h"
#include "base/matrix.h"
#include "support/divergence.h"
#include "support/succeeds.h"
#include "unit/waves.h"

/* ---- divergence against closed forms ------------------------------------------------------------------------- */

enum { DRAWS = 40000 };

static rc_divergence diverge(const rc_mixture *p, const rc_mixture *q, uint64_t seed)
{
    rc_divergence d;
    SUCCEEDS(divergence_drawn(p, q, (rc_rng){seed, 5}, DRAWS, &d));
    assert_int_equal(d.samples, DRAWS);
    return d;
}

/* Is every estimate within four standard errors of what it estimates? */
static void check_estimates(const rc_divergence *d, double k1, double k2, double k3)
{
    const double expected[RC_DIVERGENCES] = {k1, k2, k3};
    for (int k = 0; k < RC_DIVERGENCES; k++) {
        assert_true(d->error[k] > 0);
        if (fabs(d->value[k] - expected[k]) > 4 * d->error[k])
            fail_msg("k%d is %g +- %g, expected %g", k + 1, d->value[k], d->error[k], expected[k]);
    }
}

/* With one covariance C: KL = m^T C^-1 m / 2 where m is the difference of the means, and -log r is normal with mean KL
 * and variance 2 KL. So k2 is (2 KL + KL^2) / 2, and the standard error of k1 is sqrt(2 KL / n). */
static void gaussians_of_one_covariance(void **state)
{
    (void)state;
    const double covariance[] = {2, 0.6, 0.6, 0.5}, mean_p[] = {1, -1}, mean_q[] = {0.4, -0.7}, one[] = {3};
    double determinant = 2 * 0.5 - 0.6 * 0.6, a = 0.6, b = -0.3;
    double exact = 0.5 * (0.5 * a * a - 2 * 0.6 * a * b + 2 * b * b) / determinant;
    rc_mixture p, q;
    SUCCEEDS(rc_mixture_create(2, 1, mean_p, one, covariance, &p));
    SUCCEEDS(rc_mixture_create(2, 1, mean_q, one, covariance, &q));
    assert_true(p.ridge == 0);
    rc_divergence d = diverge(&p, &q, 1);
    check_estimates(&d, exact, exact + exact * exact / 2, exact);
    NEAR(d.error[0], sqrt(2 * exact / DRAWS), 0.03 * d.error[0]); /* a deviation of 40000 draws: 0.4 % */
    d = diverge(&p, &p, 1);
    for (int k = 0; k < RC_DIVERGENCES; k++)
        assert_true(d.value[k] == 0 && d.error[k] == 0);
    rc_mixture_destroy(&p);
    rc_mixture_destroy(&q);
}

/* KL(N(m, A) || N(0, B)) = (trace(B^-1 A) + m^T B^-1 m - d + log(det B / det A)) / 2, which is not symmetric. */
static void gaussians_of_two_covariances(void **state)
{
    (void)state;
    const double a[] = {1, 0, 0, 0, 2.5, 0, 0, 0, 0.3}, b[] = {1.5, 0, 0, 0, 1, 0, 0, 0, 0.7}, one[] = {1};
    const double mean_p[] = {0.3, -0.2, 0.5}, mean_q[] = {0, 0, 0};
    double exact = 0, back = 0;
    for (int i = 0; i < 3; i++) {
        double u = a[4 * i], v = b[4 * i], m = mean_p[i] * mean_p[i];
        exact += 0.5 * (u / v + m / v - 1 + log(v / u));
        back += 0.5 * (v / u + m / u - 1 + log(u / v));
    }
    rc_mixture p, q;
    SUCCEEDS(rc_mixture_create(3, 1, mean_p, one, a, &p));
    SUCCEEDS(rc_mixture_create(3, 1, mean_q, one, b, &q));
    rc_divergence d = diverge(&p, &q, 2);
    check_estimates(&d, exact, d.value[1], exact);
    d = diverge(&q, &p, 2);
    check_estimates(&d, back, d.value[1], back);
    assert_true(fabs(exact - back) > 20 * d.error[0]); /* so that the two could not be taken for each other */
    rc_mixture_destroy(&p);
    rc_mixture_destroy(&q);
}

/* Components that are 50 deviations apart: the divergence is that of their weights. */
static void mixtures_that_do_not_overlap(void **state)
{
    (void)state;
    const double mean[] = {0, 0, 50, 0, 0, 50}, shuffled[] = {0, 50, 0, 0, 50, 0}, unit[] = {1, 0, 0, 1};
    const double weight_p[] = {0.2, 0.5, 0.3}, weight_q[] = {1, 4, 5}; /* in the order of the shuffled means */
    double exact = 0.2 * log(0.2 / 0.4) + 0.5 * log(0.5 / 0.5) + 0.3 * log(0.3 / 0.1);
    rc_mixture p, q;
    SUCCEEDS(rc_mixture_create(2, 3, mean, weight_p, unit, &p));
    SUCCEEDS(rc_mixture_create(2, 3, shuffled, weight_q, unit, &q));
    rc_divergence d = diverge(&p, &q, 3);
    double square = 0.2 * pow(log(2), 2) + 0.3 * pow(log(3), 2);
    check_estimates(&d, exact, square / 2, exact);
    NEAR(d.error[0], sqrt((square - exact * exact) / DRAWS), 0.02 * d.error[0]);
    rc_mixture_destroy(&p);
    rc_mixture_destroy(&q);
}

/* More components than a block holds, an odd number of points, several threads: the same bits. */
static void density_of_many_components(void **state)
{
    (void)state;
    enum { N = 131, D = 3, AT = 37 };
    static float samples[N * D], points[AT * D];
    static double at[AT * D], one[AT], several[AT];
    rc_mixture m;
    rc_pool *pool;
    make_wave(N, D, 0.2, samples);
    make_wave(AT, D, 1.2, points);
    for (int i = 0; i < AT * D; i++)
        at[i] = (double)points[i];
    SUCCEEDS(rc_pool_create(3, &pool));
    SUCCEEDS(rc_mixture_fit_kernels(pool, N, D, samples, RC_BANDWIDTH_ISOTROPIC, &m));
    SUCCEEDS(rc_mixture_log_density(NULL, &m, AT, at, false, one));
    SUCCEEDS(rc_mixture_log_density(pool, &m, AT, at, false, several));
    assert_memory_equal(one, several, sizeof one);
    double h2 = pow(N, -2.0 / (D + 4));
    for (int i = 0; i < AT; i++) {
        double sum = 0;
        for (int k = 0; k < N; k++) {
            double square = 0;
            for (int j = 0; j < D; j++)
                square += pow(at[i * D + j] - (double)samples[k * D + j], 2);
            sum += exp(-0.5 * square / h2) / N;
        }
        NEAR(one[i], log(sum) - 1.5 * log(2 * acos(-1) * h2), 1e-12);
    }
    rc_mixture_destroy(&m);
    rc_pool_destroy(pool);
}

/* Draws have the mean and the covariance of the mixture. */
static void draws_are_of_the_mixture(void **state)
{
    (void)state;
    const double mean[] = {1, 0, -1, 2}, weight[] = {1, 3}, covariance[] = {1, 0.5, 0.5, 2};
    static double draw[DRAWS * 2];
    rc_mixture m;
    SUCCEEDS(rc_mixture_create(2, 2, mean, weight, covariance, &m));
    rc_mixture_draw(&m, (rc_rng){7, 1}, DRAWS, draw);
    double sum[2] = {0}, product[3] = {0};
    for (int i = 0; i < DRAWS; i++) {
        double x = draw[2 * i] + 0.5, y = draw[2 * i + 1] - 1.5; /* less the mean of all: -0.5, 1.5 */
        sum[0] += x / DRAWS;
        sum[1] += y / DRAWS;
        product[0] += x * x / DRAWS;
        product[1] += x * y / DRAWS;
        product[2] += y * y / DRAWS;
    }
    /* Between the components: variance 4 w (1 - w) and covariance -4 w (1 - w), w = 0.25. A fourth moment of a variable
     * of variance 2 to 3 is below 40, so the standard errors are below sqrt(40 / 40000). */
    double error = sqrt(40.0 / DRAWS);
    NEAR(sum[0], 0, 4 * sqrt(1.75 / DRAWS));
    NEAR(sum[1], 0, 4 * sqrt(2.75 / DRAWS));
    NEAR(product[0], 1 + 0.75, 4 * error);
    NEAR(product[1], 0.5 - 0.75, 4 * error);
    NEAR(product[2], 2 + 0.75, 4 * error);
    rc_mixture_destroy(&m);
}

/* ---- fitting --------------------------------------------------------------------------------------------------- */

/* scipy 1.17, gaussian_kde(p).logpdf(at), and scikit-learn 1.9, KernelDensity(bandwidth="scott"); interop_analysis asks
 * those that are installed. */
static void kernels_are_scipys(void **state)
{
    (void)state;
    enum { P = 40, Q = 30, AT = 5, D = 3 };
    static const double p_at[AT] = {-3.02862085081, -2.8395698334, -2.91130144489, -2.86339697441, -2.74539968199};
    static const double q_at[AT] = {-3.67224592317, -2.69849980994, -4.52291536802, -3.03245301642, -3.6561129397};
    static const double plain_at[AT] = {-3.2541778199, -2.96583144226, -3.45261553449, -3.26088933786, -3.21191802145};
    float samples_p[P * D], samples_q[Q * D], points[AT * D];
    double at[AT * D], out[AT];
    rc_mixture p, q, plain;
    rc_divergence d;
    make_wave(P, D, 0, samples_p);
    make_wave(Q, D, 1, samples_q);
    make_wave(AT, D, 2, points);
    for (int i = 0; i < Q * D; i++)
        samples_q[i] = (float)(0.8 * (double)samples_q[i] + 0.1);
    for (int i = 0; i < AT * D; i++)
        at[i] = (double)points[i];
    SUCCEEDS(rc_mixture_fit_kernels(NULL, P, D, samples_p, RC_BANDWIDTH_SCOTT, &p));
    SUCCEEDS(rc_mixture_fit_kernels(NULL, Q, D, samples_q, RC_BANDWIDTH_SCOTT, &q));
    SUCCEEDS(rc_mixture_fit_kernels(NULL, P, D, samples_p, RC_BANDWIDTH_ISOTROPIC, &plain));
    SUCCEEDS(rc_mixture_log_density(NULL, &p, AT, at, false, out));
    for (int i = 0; i < AT; i++)
        NEAR(out[i], p_at[i], 1e-6); /* samples are floats: a last bit of sin() may differ */
    SUCCEEDS(rc_mixture_log_density(NULL, &q, AT, at, false, out));
    for (int i = 0; i < AT; i++)
        NEAR(out[i], q_at[i], 1e-6);
    SUCCEEDS(rc_mixture_log_density(NULL, &plain, AT, at, false, out));
    for (int i = 0; i < AT; i++)
        NEAR(out[i], plain_at[i], 1e-6);
    double at_p[P * D];
    for (int i = 0; i < P * D; i++)
        at_p[i] = (double)samples_p[i];
    SUCCEEDS(divergence_at(&p, &q, P, at_p, false, &d));
    const double value[] = {-0.0136247438066, 0.1676915425, 0.154397558835};
    const double error[] = {0.0927081789545, 0.0437185991976, 0.0304025338806};
    for (int k = 0; k < RC_DIVERGENCES; k++) {
        NEAR(d.value[k], value[k], 1e-6);
        NEAR(d.error[k], error[k], 1e-6);
    }
    SUCCEEDS(divergence_at(&p, &q, P, at_p, true, &d));
    NEAR(d.value[0], -0.453293242095, 1e-6);
    NEAR(d.error[0], 0.0914724112981, 1e-6);
    rc_mixture_destroy(&p);
    rc_mixture_destroy(&q);
    rc_mixture_destroy(&plain);
    assert_int_equal(rc_mixture_fit_kernels(NULL, 1, D, samples_p, RC_BANDWIDTH_SCOTT, &p), RC_INVALID_ARGUMENT);
}

/* Five points of classes 0 and 2 in the plane, the covariance by hand: divisor 5, less the class means. */
static void classes_make_a_tied_mixture(void **state)
{
    (void)state;
    const float samples[] = {1, 0, 3, 0, 0, 4, 1, 8, 2, 6};
    const int32_t labels[] = {0, 0, 2, 2, 2};
    rc_class_statistics s;
    rc_mixture m;
    SUCCEEDS(rc_class_statistics_create(NULL, 5, 2, samples, labels, 3, &s));
    const double covariance[] = {(1 + 1 + 1 + 0 + 1) / 5.0, 2 / 5.0, 2 / 5.0, (4 + 4) / 5.0};
    for (int i = 0; i < 4; i++)
        NEAR(s.covariance[i], covariance[i], 1e-7);
    NEAR(s.mean[0], 2, 0);
    NEAR(s.mean[1], 0, 0);
    assert_true(isnan(s.mean[2]) && isnan(s.mean[3]));
    NEAR(s.mean[4], 1, 0);
    NEAR(s.mean[5], 6, 0);
    assert_int_equal(s.count[1], 0);
    NEAR(s.weight[2], 0.6, 1e-15);
    SUCCEEDS(rc_mixture_fit_classes(NULL, 5, 2, samples, labels, 3, &m));
    assert_int_equal(m.components, 2);
    NEAR(m.mean[2], 1, 0);
    NEAR(m.mean[3], 6, 0);
    NEAR(m.log_weight[0], log(0.4), 1e-12);
    NEAR(m.log_weight[1], log(0.6), 1e-12);
    NEAR(m.lower[0] * m.lower[2], 0.4, 1e-7);
    double at[] = {1, 6}, out;
    double determinant = 0.8 * 1.6 - 0.16, away = (1.6 * 1 + 2 * 0.4 * 6 + 0.8 * 36) / determinant; /* to (2, 0) */
    SUCCEEDS(rc_mixture_log_density(NULL, &m, 1, at, false, &out));
    NEAR(out, log((0.6 + 0.4 * exp(-0.5 * away)) / (2 * acos(-1) * sqrt(determinant))), 1e-6);
    double same;
    SUCCEEDS(rc_mixture_log_density(NULL, &m, 1, at, true, &same)); /* a class is no kernel: it stays */
    assert_true(same == out);
    rc_mixture_destroy(&m);
    rc_class_statistics_destroy(&s);
    const int32_t alone[] = {0, 0, 0, 0, 1}; /* a class of one sample has its mean there */
    SUCCEEDS(rc_class_statistics_create(NULL, 5, 2, samples, alone, 2, &s));
    NEAR(s.mean[2], 2, 0);
    NEAR(s.mean[3], 6, 0);
    rc_class_statistics_destroy(&s);
}

/* More rows than a task takes, and another number of columns; what the result held before does not matter. */
static void cross_products_are_sums(void **state)
{
    (void)state;
    enum { ROWS = 21, A = 19, B = 5 };
    static float x[ROWS * A], y[ROWS * B];
    static double out[A * B], again[A * B];
    rc_pool *pool;
    make_wave(ROWS, A, 0.1, x);
    make_wave(ROWS, B, 0.9, y);
    for (int i = 0; i < A * B; i++)
        out[i] = again[i] = 7;
    SUCCEEDS(rc_pool_create(2, &pool));
    SUCCEEDS(rc_cross_products(NULL, ROWS, A, x, B, y, out));
    SUCCEEDS(rc_cross_products(pool, ROWS, A, x, B, y, again));
    rc_pool_destroy(pool);
    assert_memory_equal(out, again, sizeof out);
    for (int i = 0; i < A; i++)
        for (int j = 0; j < B; j++) {
            double sum = 0;
            for (int row = 0; row < ROWS; row++)
                sum += (double)x[row * A + i] * (double)y[row * B + j];
            assert_true(out[i * B + j] == sum);
        }
}

static void refused_with(const char *text, double *matrix)
{
    double ridge;
    assert_int_equal(rc_factorise(2, matrix, &ridge), RC_NUMERIC);
    if (strstr(rc_message(), text) == NULL)
        fail_msg("the message is '%s', expected '%s' in it", rc_message(), text);
}

static void singular_covariances_get_a_ridge(void **state)
{
    (void)state;
    /* A feature of tiny variance is not singular; one that never varies is. */
    double tiny[] = {1, 0, 0, 1e-20}, dead[] = {2, 0, 0, 0};
    double ridge, good[] = {4, 2, 2, 3}, flat[] = {1, 1, 1, 1}, zero[] = {0, 0, 0, 0}, wrong[] = {1, 0, 3, 1},
                  broken[] = {1, 0, (double)NAN, 1}, x[] = {2, 4};
    SUCCEEDS(rc_factorise(2, good, &ridge));
    assert_true(ridge == 0 && good[1] == 0);
    NEAR(good[0], 2, 0);
    NEAR(good[2], 1, 0);
    NEAR(good[3], sqrt(2), 1e-15);
    NEAR(rc_log_determinant(2, good), log(2 * sqrt(2)), 1e-15);
    rc_solve(2, good, x); /* (4 2; 2 3)^-1 (2, 4) */
    NEAR(x[0], -0.25, 1e-15);
    NEAR(x[1], 1.5, 1e-15);
    SUCCEEDS(rc_factorise(2, flat, &ridge));
    NEAR(ridge, RC_SMALLEST_RIDGE, 1e-24);
    assert_true(isfinite(flat[3]) && flat[3] > 0);
    SUCCEEDS(rc_factorise(2, tiny, &ridge));
    assert_true(ridge == 0);
    NEAR(tiny[3], 1e-10, 1e-24);
    SUCCEEDS(rc_factorise(2, dead, &ridge));
    NEAR(ridge, RC_SMALLEST_RIDGE, 1e-24);
    NEAR(dead[3], sqrt(RC_SMALLEST_RIDGE), 1e-15);
    refused_with("all 2 features are constant", zero);
    refused_with("has the entry nan, expected finite numbers", broken);
    refused_with("is no covariance", wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussians_of_one_covariance),      cmocka_unit_test(gaussians_of_two_covariances),
        cmocka_unit_test(mixtures_that_do_not_overlap),     cmocka_unit_test(density_of_many_components),
        cmocka_unit_test(draws_are_of_the_mixture),         cmocka_unit_test(kernels_are_scipys),
        cmocka_unit_test(classes_make_a_tied_mixture),      cmocka_unit_test(cross_products_are_sums),
        cmocka_unit_test(singular_covariances_get_a_ridge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
