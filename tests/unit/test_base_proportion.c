/* Intervals of shares and the sign test, against published and hand-computed numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/proportion.h"

/* Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, the score method: four digits.
 * The others: the formula in Python with the normal quantile of its library. */
static void intervals_are_wilsons(void **state)
{
    (void)state;
    static const struct {
        int right, count;
        double low, high, tolerance;
    } known[] = {
        {81, 263, 25.53, 36.62, 0.005},
        {15, 148, 6.24, 16.05, 0.005},
        {0, 20, 0, 16.11, 0.005},
        {1, 29, 0.61, 17.18, 0.005},
        {81, 263, 25.528851987827426, 36.62095769828001, 1e-11},
        {5, 10, 23.659309051256404, 76.3406909487436, 1e-11},
        {1, 1, 20.654931437723747, 100, 1e-11},
        {0, 10, 0, 27.753279986288916, 1e-11},
        {500, 1000, 46.90696003681042, 53.09303996318958, 1e-11},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double low, high;
        rc_wilson(100.0 * known[i].right / known[i].count, known[i].count, &low, &high);
        if (!(fabs(low - known[i].low) <= known[i].tolerance && fabs(high - known[i].high) <= known[i].tolerance))
            fail_msg("%d of %d: %.12f to %.12f", known[i].right, known[i].count, low, high);
    }
}

/* The ends are where the observed share is z standard deviations of that end away; and inside 0 .. 100. */
static void ends_solve_the_equation(void **state)
{
    (void)state;
    for (int count = 1; count < 60; count++)
        for (int right = 0; right <= count; right++) {
            double end[2], share = (double)right / count;
            rc_wilson(100 * share, count, &end[0], &end[1]);
            assert_true(end[0] >= 0 && end[0] <= 100 * share && end[1] >= 100 * share && end[1] <= 100);
            assert_true(right > 0 || end[0] == 0);
            assert_true(right < count || end[1] == 100);
            for (int i = 0; i < 2; i++) {
                double p = end[i] / 100, away = 1.959963984540054 * sqrt(p * (1 - p) / count);
                assert_true(fabs(fabs(share - p) - away) < 1e-9);
            }
        }
}

static void nothing_has_no_interval(void **state)
{
    (void)state;
    static const struct {
        double percent;
        int count;
    } none[] = {{50, 0}, {50, -1}, {NAN, 10}, {-1, 10}, {100.5, 10}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        double low = 1, high = 1;
        rc_wilson(none[i].percent, none[i].count, &low, &high);
        assert_true(isnan(low) && isnan(high) && !rc_interval_tells(low, high));
    }
}

/* 19 of 39: 29.94 points; 19 of 38: 30.30. */
static void wide_intervals_tell_nothing(void **state)
{
    (void)state;
    double low, high;
    assert_true(rc_interval_tells(10, 40) && !rc_interval_tells(10, 40.5));
    rc_wilson(100 * 19 / 39.0, 39, &low, &high);
    assert_true(rc_interval_tells(low, high));
    rc_wilson(50, 38, &low, &high);
    assert_false(rc_interval_tells(low, high));
}

/* Sums of binomial coefficients over 2^n, by Python's whole numbers. */
static void coins_fall_as_they_should(void **state)
{
    (void)state;
    static const struct {
        int heads, throws;
        double probability;
    } known[] = {{0, 0, 1},
                 {-1, 3, 1},
                 {1, 1, 0.5},
                 {5, 5, 0.03125},
                 {6, 6, 0.015625},
                 {8, 10, 0.0546875},
                 {0, 7, 1},
                 {30, 40, 0.0011107168866146822},
                 {1000, 2000, 0.5089195055729272},
                 {1050, 2000, 0.013412073120140347},
                 {3, 2, 0},
                 {5000, 5000, 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!(fabs(rc_coin_tail(known[i].heads, known[i].throws) - known[i].probability) < 1e-11))
            fail_msg("%d of %d: %.17g", known[i].heads, known[i].throws, rc_coin_tail(known[i].heads, known[i].throws));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_wilsons),     cmocka_unit_test(ends_solve_the_equation),
        cmocka_unit_test(nothing_has_no_interval),   cmocka_unit_test(wide_intervals_tell_nothing),
        cmocka_unit_test(coins_fall_as_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
