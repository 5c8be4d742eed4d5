/* New rows beside old ones (cil/head_fit.h), and the search that finds them (cil/minimise.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/stop.h"
#include "cil/head_fit.h"
#include "cil/minimise.h"
#include "support/failing_heap.h"
#include "support/succeeds.h"

enum { MOST = 60, D = 5, K = 3 };

static const rc_head_rule no_guard = {.penalty = 0.01, .margin = INFINITY};

static double draw(int index)
{
    return (double)rc_uniform_from_bits(rc_rng_block((rc_rng){7, 1}, (uint64_t)index).lane[0]) * 2 - 1;
}

/* Images of K classes, each around a corner of its own, and, if wanted, every fifth one of an old class. */
typedef struct set {
    double feature[MOST * D], old_sum[MOST], old_best[MOST], weight[MOST]; /* weights: for tests that want some */
    int32_t label[MOST];
    rc_head_examples e;
} set;

static void make(set *s, int images, bool old)
{
    for (int i = 0; i < images; i++) {
        int label = i % K;
        for (int j = 0; j < D; j++)
            s->feature[i * D + j] = 0.5 * draw(i * D + j) + (j == label);
        s->old_sum[i] = draw(1000 + i);
        s->old_best[i] = s->old_sum[i] - 0.5;
        s->label[i] = old && i % 5 == 4 ? -1 : label;
        s->weight[i] = (1 + i % 3) / 50.0;
    }
    s->e = (rc_head_examples){.images = images,
                              .d = D,
                              .classes = K,
                              .feature = s->feature,
                              .label = s->label,
                              .old_sum = s->old_sum,
                              .old_best = s->old_best};
}

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

/* As the header has it, with nothing rearranged. */
static double plain_loss(const rc_head_examples *e, double penalty, const double *row)
{
    double loss = 0, square = 0, norm = 0;
    int of_new = 0;
    for (int i = 0; i < e->images; i++) {
        double sum = exp(e->old_sum[i]), own = e->old_sum[i];
        for (int k = 0; k < e->classes; k++) {
            double logit = 0;
            for (int j = 0; j < e->d; j++)
                logit += row[k * e->d + j] * e->feature[i * e->d + j];
            sum += exp(logit);
            own = k == e->label[i] ? logit : own;
        }
        loss += (log(sum) - own) * (e->weight != NULL ? e->weight[i] : 1.0 / e->images);
        of_new += e->label[i] >= 0;
        for (int j = 0; j < e->d && e->label[i] >= 0; j++)
            square += e->feature[i * e->d + j] * e->feature[i * e->d + j];
    }
    for (int i = 0; i < e->classes * e->d; i++)
        norm += row[i] * row[i];
    return loss + penalty * square / of_new / (2 * e->classes) * norm;
}

static void the_loss_is_the_formula_and_its_gradient_the_derivative(void **state)
{
    (void)state;
    static set s;
    const int counts[] = {1, 3, 4, 6, 17};
    for (size_t c = 0; c < 2 * sizeof counts / sizeof *counts; c++) {
        double row[K * D], gradient[K * D], loss;
        make(&s, counts[c / 2], true);
        s.e.weight = c % 2 ? s.weight : NULL;
        for (int i = 0; i < K * D; i++)
            row[i] = 2 * draw(5000 + i);
        SUCCEEDS(rc_head_loss(&s.e, &no_guard, row, gradient, &loss));
        assert_true(fabs(loss - plain_loss(&s.e, no_guard.penalty, row)) < 1e-13);
        for (int i = 0; i < K * D; i++) {
            const double step = 1e-5, at = row[i];
            row[i] = at + step;
            double above = plain_loss(&s.e, no_guard.penalty, row);
            row[i] = at - step;
            double below = plain_loss(&s.e, no_guard.penalty, row);
            row[i] = at;
            assert_true(fabs(gradient[i] - (above - below) / (2 * step)) < 1e-9);
        }
    }
}

/* Logits of hundreds neither overflow nor lose the small ones. */
static void large_logits_are_no_problem(void **state)
{
    (void)state;
    double feature[] = {1}, old[] = {-900}, row[] = {800, -800}, gradient[2], loss;
    int32_t label[] = {1};
    rc_head_examples e = {1, 1, 2, feature, label, old, old, NULL, NULL};
    SUCCEEDS(rc_head_loss(&e, &(rc_head_rule){0, INFINITY}, row, gradient, &loss));
    assert_true(fabs(loss - 1600) < 1e-9);
    assert_true(fabs(gradient[0] - 1) < 1e-12 && fabs(gradient[1] + 1) < 1e-12);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Sum of scale_i (x_i - i)^2 / 2 + (x_i - i)^4: lowest at x_i = i, where it is 0. */
static double bowl(void *user, const double *x, double *gradient)
{
    double sum = 0;
    int *calls = user;
    ++*calls;
    for (int i = 0; i < 10; i++) {
        double scale = pow(2, i), off = x[i] - i;
        sum += scale * off * off / 2 + off * off * off * off;
        gradient[i] = scale * off + 4 * off * off * off;
    }
    return sum;
}

static void the_search_ends_at_the_minimum(void **state)
{
    (void)state;
    double x[10] = {0};
    int calls = 0;
    rc_minimum m;
    SUCCEEDS(rc_minimise(bowl, &calls, 10, 1e-9, 500, x, &m));
    assert_true(m.reached && m.gradient <= 1e-9 && m.value < 1e-18);
    for (int i = 0; i < 10; i++)
        assert_true(fabs(x[i] - i) < 1e-9);
    assert_in_range(m.iterations, 5, 120);
    assert_in_range(calls, m.iterations + 1, 2 * m.iterations + 20); /* most first steps are taken */
}

static void the_search_stops_where_it_is_told(void **state)
{
    (void)state;
    double x[10] = {0}, before = 0, gradient[10];
    int calls = 0;
    rc_minimum m;
    before = bowl(&calls, x, gradient);
    SUCCEEDS(rc_minimise(bowl, &calls, 10, 1e-9, 2, x, &m));
    assert_int_equal(m.iterations, 2);
    assert_false(m.reached);
    assert_true(m.value < before);
    assert_true(m.value == bowl(&calls, x, gradient));
    /* Where nothing is left to gain, it takes no step. */
    for (int i = 0; i < 10; i++)
        x[i] = i;
    SUCCEEDS(rc_minimise(bowl, &calls, 10, 0, 100, x, &m));
    assert_int_equal(m.iterations, 0);
    assert_true(m.reached);
    for (int i = 0; i < 10; i++)
        assert_true(x[i] == i);
    x[0] = NAN;
    assert_int_equal(rc_minimise(bowl, &calls, 10, 0, 100, x, &m), RC_NUMERIC);
}

/* -log(x) + x, which is no number at x <= 0: steps that go there are made shorter. */
static double barrier(void *user, const double *x, double *gradient)
{
    (void)user;
    gradient[0] = 1 - 1 / x[0];
    return x[0] - log(x[0]);
}

static void values_that_are_no_number_are_too_large(void **state)
{
    (void)state;
    double x = 30;
    rc_minimum m;
    SUCCEEDS(rc_minimise(barrier, NULL, 1, 1e-9, 100, &x, &m));
    assert_true(m.reached && fabs(x - 1) < 1e-8);
}

/* 50 x^2. */
static double steep(void *user, const double *x, double *gradient)
{
    int *calls = user;
    ++*calls;
    gradient[0] = 100 * x[0];
    return 50 * x[0] * x[0];
}

/* From 1/4 the first step, of length 1, leads up to -3/4; the parabola through what is known then has its lowest point
 * where the function has it. */
static void a_step_too_long_tells_where_the_minimum_is(void **state)
{
    (void)state;
    double x = 0.25;
    int calls = 0;
    rc_minimum m;
    SUCCEEDS(rc_minimise(steep, &calls, 1, 1e-9, 100, &x, &m));
    assert_true(m.reached && fabs(x) < 1e-12);
    assert_int_equal(m.iterations, 1);
    assert_int_equal(calls, 3);
}

static bool says_yes(void *user)
{
    (void)user;
    return true;
}

static void the_search_can_be_stopped(void **state)
{
    (void)state;
    double x[10] = {0};
    int calls = 0;
    rc_minimum m;
    rc_stop before = rc_stop_swap((rc_stop){.wanted = says_yes});
    rc_status status = rc_minimise(bowl, &calls, 10, 1e-9, 500, x, &m);
    rc_stop_swap(before);
    assert_int_equal(status, RC_CANCELLED);
    assert_in_range(calls, 1, 5);
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

/* One image, one class, one feature f: the row w is where w penalty f^2 = f / (1 + exp(w f - old)). */
static void one_image_of_one_class(void **state)
{
    (void)state;
    double f = 1.7, old = 0.4, row, low = 0, high = 100;
    int32_t label = 0;
    rc_head_examples e = {1, 1, 1, &f, &label, &old, &old, NULL, NULL};
    rc_head_fitted fitted;
    SUCCEEDS(rc_head_fit(&e, &(rc_head_rule){.penalty = 0.05, .margin = 3}, &row, &fitted));
    for (int i = 0; i < 100; i++) {
        double w = (low + high) / 2;
        *(w * 0.05 * f * f < f / (1 + exp(w * f - old)) ? &low : &high) = w;
    }
    assert_true(fabs(row - low) < 1e-4 * low);
    assert_true(isnan(fitted.median)); /* one image cannot be left out */
    assert_true(fitted.shift == 0);
}

static void the_rows_are_where_the_gradient_is_nothing(void **state)
{
    (void)state;
    static set s;
    double row[K * D], nothing[K * D] = {0}, gradient[K * D], start[K * D], loss;
    rc_head_fitted fitted;
    make(&s, 31, true);
    SUCCEEDS(rc_head_fit(&s.e, &no_guard, row, &fitted));
    SUCCEEDS(rc_head_loss(&s.e, &no_guard, row, gradient, &loss));
    assert_true(fitted.loss == loss);
    SUCCEEDS(rc_head_loss(&s.e, &no_guard, nothing, start, &loss));
    assert_true(fitted.loss < loss);
    double here = sqrt(rc_dot(gradient, gradient, K * D)), there = sqrt(rc_dot(start, start, K * D));
    assert_true(here <= 1e-5 * there);
    assert_true(isnan(fitted.median) && fitted.shift == 0);
}

static void the_scale_of_features_does_not_matter(void **state)
{
    (void)state;
    static set s, t;
    double row[K * D], other[K * D];
    rc_head_fitted fitted, same;
    make(&s, 24, false);
    make(&t, 24, false);
    for (int i = 0; i < 24 * D; i++)
        t.feature[i] *= 64;
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){0.01, 1}, row, &fitted));
    SUCCEEDS(rc_head_fit(&t.e, &(rc_head_rule){0.01, 1}, other, &same));
    for (int i = 0; i < K * D; i++)
        assert_true(fabs(row[i] - 64 * other[i]) < 1e-3);
    assert_true(fabs(fitted.shift - same.shift) < 1e-3 && fitted.shift < 0);
}

/* Images of an old class hold new rows down where they are. */
static void old_images_are_left_to_the_old_classes(void **state)
{
    (void)state;
    static set s;
    double row[K * D], held[K * D], with = 0, without = 0;
    rc_head_fitted fitted;
    make(&s, 30, false);
    SUCCEEDS(rc_head_fit(&s.e, &no_guard, row, &fitted));
    for (int i = 0; i < 30; i += 3) /* what looks like class 0 is said to be old */
        s.label[i] = i > 14 ? -1 : 0;
    SUCCEEDS(rc_head_fit(&s.e, &no_guard, held, &fitted));
    for (int i = 15; i < 30; i += 3) {
        without += rc_dot(row, s.feature + (size_t)i * D, D);
        with += rc_dot(held, s.feature + (size_t)i * D, D);
    }
    assert_true(with < without - 5);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The guard by hand: fits without every fourth image of each class, and the median of the margins of these. All images
 * have a length of 1, so that a part of them has the mean square of all. */
static void the_guard_lowers_the_median_to_its_margin(void **state)
{
    (void)state;
    static set s, part;
    enum { IMAGES = 27 };
    double margin[IMAGES], row[K * D];
    rc_head_fitted fitted;
    int margins = 0;
    double whole = 0;
    make(&s, IMAGES, false);
    s.e.weight = s.weight;
    for (int i = 0; i < IMAGES; i++) {
        whole += s.weight[i];
        double length = sqrt(rc_dot(s.feature + i * D, s.feature + i * D, D));
        for (int j = 0; j < D; j++)
            s.feature[i * D + j] /= length;
    }
    for (int fold = 0; fold < 4; fold++) {
        double used = 0;
        make(&part, IMAGES, false);
        part.e.images = 0;
        part.e.weight = part.weight;
        for (int i = 0; i < IMAGES; i++) {
            int to = part.e.images;
            if (i / K % 4 == fold)
                continue;
            memcpy(part.feature + to * D, s.feature + i * D, D * sizeof *s.feature);
            part.old_sum[to] = s.old_sum[i];
            part.label[to] = s.label[i];
            part.weight[to] = s.weight[i];
            used += s.weight[i];
            part.e.images++;
        }
        for (int i = 0; i < part.e.images; i++)
            part.weight[i] *= whole / used; /* what is left weighs as much as all did */
        SUCCEEDS(rc_head_fit(&part.e, &no_guard, row, &fitted));
        for (int i = 0; i < IMAGES; i++)
            if (i / K % 4 == fold)
                margin[margins++] = rc_dot(row + s.label[i] * D, s.feature + i * D, D) - s.old_best[i];
    }
    qsort(margin, (size_t)margins, sizeof *margin, ascending);
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){no_guard.penalty, 0.5}, row, &fitted));
    assert_int_equal(margins, IMAGES);
    assert_true(fabs(fitted.median - margin[IMAGES / 2]) < 0.01); /* folds are fitted less exactly */
    assert_true(fitted.median > 1);
    assert_in_range(fitted.iterations, 5, 200);
    assert_true(fitted.shift == 0.5 - fitted.median);
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){no_guard.penalty, 50}, row, &fitted));
    assert_true(fitted.shift == 0); /* never up */
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static set s;
    double row[K * D], other[K * D];
    rc_head_fitted fitted, same;
    rc_pool *pool;
    make(&s, 41, true);
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){0.001, 1}, row, &fitted));
    SUCCEEDS(rc_pool_create(3, &pool));
    s.e.pool = pool;
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){0.001, 1}, other, &same));
    rc_pool_destroy(pool);
    assert_memory_equal(row, other, sizeof row);
    assert_memory_equal(&fitted.shift, &same.shift, sizeof fitted.shift);
}

/* The same image again and again, features that are all 0, a class for each image. */
static void odd_images_have_rows(void **state)
{
    (void)state;
    static set s;
    double row[MOST * D];
    rc_head_fitted fitted;
    make(&s, 12, false);
    for (int i = 1; i < 12; i++)
        memcpy(s.feature + i * D, s.feature, D * sizeof *s.feature);
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){1e-6, 3}, row, &fitted));
    for (int i = 0; i < K * D; i++)
        assert_true(isfinite(row[i]));
    memset(s.feature, 0, sizeof s.feature);
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){1e-6, 3}, row, &fitted));
    for (int i = 0; i < K * D; i++)
        assert_true(row[i] == 0);
    make(&s, MOST, false);
    s.e.classes = MOST;
    for (int i = 0; i < MOST; i++)
        s.label[i] = i;
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){1e-6, 3}, row, &fitted));
    assert_true(isfinite(fitted.loss) && isnan(fitted.median)); /* whichever is left out, its class is */
}

static void a_thousand_classes_have_rows(void **state)
{
    (void)state;
    enum { MANY = 1000, FEW = 2 };
    double *feature = calloc(MANY * FEW, sizeof *feature), *row = calloc(MANY * FEW, sizeof *row);
    double *old = calloc(MANY, sizeof *old);
    int32_t *label = calloc(MANY, sizeof *label);
    rc_head_fitted fitted;
    for (int i = 0; i < MANY; i++) {
        feature[i * FEW] = cos(i);
        feature[i * FEW + 1] = sin(i);
        label[i] = i;
    }
    rc_head_examples e = {MANY, FEW, MANY, feature, label, old, old, NULL, NULL};
    SUCCEEDS(rc_head_fit(&e, &(rc_head_rule){0.1, INFINITY}, row, &fitted));
    for (int k = 0; k < MANY; k++) /* a row points to its image */
        assert_true(rc_dot(row + k * FEW, feature + k * FEW, FEW) > 0);
    free(feature);
    free(row);
    free(old);
    free(label);
}

static void what_cannot_be_fitted_is_refused(void **state)
{
    (void)state;
    static set s;
    double row[K * D];
    rc_head_fitted fitted;
    make(&s, 9, false);
    s.feature[17] = NAN;
    assert_int_equal(rc_head_fit(&s.e, &no_guard, row, &fitted), RC_NUMERIC);
    s.feature[17] = INFINITY;
    assert_int_equal(rc_head_fit(&s.e, &no_guard, row, &fitted), RC_NUMERIC);
    make(&s, 9, false);
    s.old_sum[3] = NAN;
    assert_int_equal(rc_head_fit(&s.e, &no_guard, row, &fitted), RC_NUMERIC);
    make(&s, 0, false);
    assert_int_equal(rc_head_fit(&s.e, &no_guard, row, &fitted), RC_INVALID_ARGUMENT);
    make(&s, 9, false);
    s.e.d = 0;
    assert_int_equal(rc_head_fit(&s.e, &no_guard, row, &fitted), RC_INVALID_ARGUMENT);
    make(&s, 9, false);
    s.e.classes = 0;
    assert_int_equal(rc_head_fit(&s.e, &no_guard, row, &fitted), RC_INVALID_ARGUMENT);
}

static void memory_that_runs_out_is_said(void **state)
{
    (void)state;
    static set s;
    double row[K * D];
    rc_head_fitted fitted;
    size_t before = rc_bytes_allocated();
    make(&s, 12, false);
    int n = 1;
    for (bool failed = true; failed; n++) {
        allocation_to_fail = n;
        rc_status status = rc_head_fit(&s.e, &(rc_head_rule){0.01, 3}, row, &fitted);
        failed = allocation_failed();
        assert_int_equal(status, failed ? RC_OUT_OF_MEMORY : RC_OK);
        assert_int_equal(rc_bytes_allocated(), before);
    }
    assert_true(n > 8);
}

/* What the forecast says is enough, and a byte less is not. */
static void the_forecast_of_memory_is_right(void **state)
{
    (void)state;
    static set s;
    double row[K * D];
    rc_head_fitted fitted;
    make(&s, MOST, false);
    size_t said = rc_head_fit_bytes(MOST, D, K);
    rc_memory_set_budget(rc_bytes_allocated() + said + 1024); /* blocks begin on round addresses */
    SUCCEEDS(rc_head_fit(&s.e, &(rc_head_rule){0.01, 3}, row, &fitted));
    rc_memory_set_budget(rc_bytes_allocated() + said - 1);
    assert_int_equal(rc_head_fit(&s.e, &(rc_head_rule){0.01, 3}, row, &fitted), RC_OUT_OF_MEMORY);
    rc_memory_set_budget(SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_formula_and_its_gradient_the_derivative),
        cmocka_unit_test(large_logits_are_no_problem),
        cmocka_unit_test(the_search_ends_at_the_minimum),
        cmocka_unit_test(the_search_stops_where_it_is_told),
        cmocka_unit_test(values_that_are_no_number_are_too_large),
        cmocka_unit_test(a_step_too_long_tells_where_the_minimum_is),
        cmocka_unit_test(the_search_can_be_stopped),
        cmocka_unit_test(one_image_of_one_class),
        cmocka_unit_test(the_rows_are_where_the_gradient_is_nothing),
        cmocka_unit_test(the_scale_of_features_does_not_matter),
        cmocka_unit_test(old_images_are_left_to_the_old_classes),
        cmocka_unit_test(the_guard_lowers_the_median_to_its_margin),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(odd_images_have_rows),
        cmocka_unit_test(a_thousand_classes_have_rows),
        cmocka_unit_test(what_cannot_be_fitted_is_refused),
        cmocka_unit_test(memory_that_runs_out_is_said),
        cmocka_unit_test(the_forecast_of_memory_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
