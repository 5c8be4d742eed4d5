/* Covariances of single classes (cil/scatter.h), by the formula and by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "cil/scatter.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

/* L L^T of a triangle. */
static double product(const float *lower, int i, int j)
{
    double sum = 0;
    for (int k = 0; k <= i && k <= j; k++)
        sum += (double)lower[i * (i + 1) / 2 + k] * (double)lower[j * (j + 1) / 2 + k];
    return sum;
}

/* Four images of a class at (3, 1) +- (2, 0) and +- (0, 1), one of another, none of a third. */
static void the_shared_covariance_counts_as_images(void **state)
{
    (void)state;
    enum { D = 2, NUMBERS = 3 };
    const double image[5][D] = {{5, 1}, {1, 1}, {3, 2}, {3, 0}, {7, 7}}, shared[D * D] = {4, -1, -1, 2};
    float factor[3 * NUMBERS];
    double covariance[D * D];
    rc_scatter s;
    assert_int_equal(rc_factor_numbers(D), NUMBERS);
    assert_int_equal(rc_factor_numbers(64), 2080);
    SUCCEEDS(rc_scatter_create(D, 3, &s));
    for (int i = 0; i < 5; i++)
        rc_scatter_add(&s, i / 4, image[i]);
    assert_true(s.count[0] == 4 && s.count[1] == 1 && s.count[2] == 0);
    rc_scatter_shared(&s, 5, covariance);
    assert_true(fabs(covariance[0] - 8.0 / 5) < 1e-12 && fabs(covariance[3] - 2.0 / 5) < 1e-12);
    assert_true(fabs(covariance[1]) < 1e-12 && fabs(covariance[2]) < 1e-12);
    SUCCEEDS(rc_scatter_factors(&s, shared, factor));
    const double wanted[3][NUMBERS] = {{(8 + 16 * 4) / 19.0, -16 / 19.0, (2 + 16 * 2) / 19.0}, {4, -1, 2}, {4, -1, 2}};
    for (int k = 0; k < 3; k++) {
        const float *own = factor + k * NUMBERS;
        assert_true(fabs(product(own, 0, 0) - wanted[k][0]) < 1e-6 && fabs(product(own, 1, 0) - wanted[k][1]) < 1e-6);
        assert_true(fabs(product(own, 1, 1) - wanted[k][2]) < 1e-6);
    }
    rc_scatter_destroy(&s);
}

/* Means far away from 0 do not matter, and with many images neither does the shared covariance. */
static void many_images_have_their_own_covariance(void **state)
{
    (void)state;
    enum { D = 3, IMAGES = 4000 };
    const double lower[D][D] = {{2, 0, 0}, {-1, 0.5, 0}, {0.25, 1, 3}};
    double shared[D * D] = {9, 0, 0, 0, 9, 0, 0, 0, 9}, x[D], noise[D];
    float factor[2 * 6];
    rc_scatter s;
    SUCCEEDS(rc_scatter_create(D, 2, &s));
    for (int n = 0; n < 2 * IMAGES; n++) {
        for (int i = 0; i < D; i++)
            noise[i] = rc_rng_normal((rc_rng){3, 1}, (uint64_t)(D * n + i));
        for (int i = 0; i < D; i++) {
            x[i] = 100 * (n % 2 + 1) + 10 * i;
            for (int j = 0; j <= i; j++)
                x[i] += (n % 2 + 1) * lower[i][j] * noise[j];
        }
        rc_scatter_add(&s, n % 2, x);
    }
    SUCCEEDS(rc_scatter_factors(&s, shared, factor));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < D; i++)
            for (int j = 0; j <= i; j++)
                assert_true(fabs((double)factor[k * 6 + i * (i + 1) / 2 + j] - (k + 1) * lower[i][j]) < 0.15 * (k + 1));
    rc_scatter_destroy(&s);
}

static void features_that_are_no_numbers_have_none(void **state)
{
    (void)state;
    const double nothing[4] = {0}, bad[2] = {1, NAN}, shared[4] = {1, 0, 0, 1};
    float factor[3];
    rc_scatter s;
    SUCCEEDS(rc_scatter_create(2, 1, &s));
    assert_int_equal(rc_scatter_factors(&s, nothing, factor), RC_NUMERIC);
    rc_scatter_add(&s, 0, bad);
    assert_int_equal(rc_scatter_factors(&s, shared, factor), RC_NUMERIC);
    rc_scatter_destroy(&s);
}

static void memory_that_runs_out_is_said(void **state)
{
    (void)state;
    const double shared[4] = {1, 0, 0, 1};
    float factor[3];
    int n = 1;
    for (bool failed = true; failed; n++) {
        size_t before = rc_bytes_allocated();
        rc_scatter s;
        allocation_to_fail = n;
        rc_status status = rc_scatter_create(2, 1, &s);
        if (status == RC_OK)
            status = rc_scatter_factors(&s, shared, factor);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        rc_scatter_destroy(&s);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    assert_int_equal(n, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shared_covariance_counts_as_images),
        cmocka_unit_test(many_images_have_their_own_covariance),
        cmocka_unit_test(features_that_are_no_numbers_have_none),
        cmocka_unit_test(memory_that_runs_out_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
