/* The features that are to be expected of a net by its normalisations (nn/expected.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "nn/expected.h"
#include "nn/nets.h"
#include "support/cpu_backend.h"
#include "support/succeeds.h"

/* The closed form beside a sum over a fine grid: of 12 deviations on both sides, in steps of a thousandth. */
static void a_clipped_normal_number(void **state)
{
    (void)state;
    static const struct {
        double mean, deviation, low, high;
    } of[] = {{0, 1, 0, INFINITY},    {0.3, 2, 0, 6},        {-2, 0.5, 0, 6}, {9, 1.5, 0, 6},
              {3, 4, -INFINITY, 0},   {-7, 1, 0, INFINITY},  {5, 0.01, 0, 6}, {1, 3, -INFINITY, INFINITY},
              {-3, 2.5, 0, INFINITY}, {40, 3, -INFINITY, 41}};
    for (size_t c = 0; c < sizeof of / sizeof *of; c++) {
        double sum = 0, first = 0, second = 0;
        for (int i = -12000; i <= 12000; i++) {
            double z = i / 1000.0, weight = exp(-z * z / 2);
            double x = fmin(fmax(of[c].mean + of[c].deviation * z, of[c].low), of[c].high) - of[c].mean;
            sum += weight;
            first += weight * x;
            second += weight * x * x;
        }
        first /= sum;
        second = second / sum - first * first;
        rc_moments m = rc_moments_clipped((rc_moments){of[c].mean, of[c].deviation * of[c].deviation}, of[c].low,
                                          of[c].high);
        assert_true(fabs(m.mean - of[c].mean - first) < 1e-6 * of[c].deviation);
        assert_true(fabs(m.variance - second) < 1e-6 * of[c].deviation * of[c].deviation);
    }
}

/* The same beside samples: within five standard errors of their mean, deviation / sqrt(samples). */
static void samples_agree(void **state)
{
    (void)state;
    enum { SAMPLES = 40000 };
    double sum = 0;
    for (int i = 0; i < SAMPLES; i++)
        sum += fmin(fmax(0.7 + 1.3 * rc_rng_normal((rc_rng){3, 4}, (uint64_t)i), 0), 6);
    rc_moments m = rc_moments_clipped((rc_moments){0.7, 1.3 * 1.3}, 0, 6);
    assert_true(fabs(sum / SAMPLES - m.mean) < 5 * sqrt(m.variance / SAMPLES));
    assert_true(m.mean > 0.9 && m.mean < 1);
}

static void a_constant_is_clipped(void **state)
{
    (void)state;
    rc_moments m = rc_moments_clipped((rc_moments){7, 0}, 0, 6);
    assert_true(m.mean == 6 && m.variance == 0);
    m = rc_moments_clipped((rc_moments){-7, 0}, 0, INFINITY);
    assert_true(m.mean == 0 && m.variance == 0);
    m = rc_moments_clipped((rc_moments){NAN, NAN}, 0, 6);
    assert_true(isnan(m.mean) && isnan(m.variance));
}

/* ---- nets -------------------------------------------------------------------------------------------------------- */

static rc_layer conv(int in, int c_out, int stride, rc_act act)
{
    rc_layer layer = {.kind = RC_LAYER_CONV,
                      .in = in,
                      .skip = RC_NO_LAYER,
                      .k = 3,
                      .stride = stride,
                      .pad = 1,
                      .c_out = c_out,
                      .act = act,
                      .bn = {.on = true, .affine = true, .eps = 0.5F, .momentum = 0.1F}};
    snprintf(layer.name, sizeof layer.name, "conv_%d", in + 1);
    snprintf(layer.bn_name, sizeof layer.bn_name, "bn_%d", in + 1);
    return layer;
}

/* Two convolutions, the second with a shortcut to the first, and pooling. */
static void build(rc_net *net, rc_act first_act, rc_shortcut shortcut, rc_act act)
{
    rc_net_builder b = rc_net_start(net, "two", 3, 8, 8);
    rc_layer first = conv(RC_NET_INPUT, 2, 1, first_act), second = conv(0, 4, 2, act);
    second.shortcut = shortcut;
    second.skip = 0;
    rc_net_add(&b, &first);
    rc_net_add(&b, &second);
    rc_net_add(&b, &(rc_layer){.name = "pool", .kind = RC_LAYER_AVERAGE_POOL, .in = 1, .skip = RC_NO_LAYER});
    SUCCEEDS(rc_net_finish(&b));
}

/* gamma 2, -3, 0.5, 1 and beta 0.25, -1, 4, 0 of every layer; all variances 1.5, so 1.5 / (1.5 + 0.5) of them count. */
static rc_moments normalised(int channel)
{
    static const double gamma[] = {2, -3, 0.5, 1}, beta[] = {0.25, -1, 4, 0};
    return (rc_moments){beta[channel], 0.75 * gamma[channel] * gamma[channel]};
}

static void fill(rc_model *model)
{
    float host[4], variance[] = {1.5F, 1.5F, 1.5F, 1.5F};
    for (int i = 0; i < 2; i++) {
        const rc_layer *layer = &model->net->layer[i];
        for (int c = 0; c < layer->c_out; c++)
            host[c] = (float)normalised(c).mean;
        be->write_real(be, rc_real_at(be, model->param, layer->beta), host, (size_t)layer->c_out);
        for (int c = 0; c < layer->c_out; c++)
            host[c] = (float)((c == 1 ? -1 : 1) * sqrt(normalised(c).variance / 0.75));
        be->write_real(be, rc_real_at(be, model->param, layer->gamma), host, (size_t)layer->c_out);
        be->write_real(be, rc_real_at(be, model->running, layer->running_var), variance, (size_t)layer->c_out);
    }
}

static void expect_after(rc_act first_act, rc_shortcut shortcut, rc_act act, double *mean)
{
    rc_net net;
    rc_model model;
    build(&net, first_act, shortcut, act);
    SUCCEEDS(rc_model_create(&model, &net, be));
    fill(&model);
    SUCCEEDS(rc_expected_features(&model, mean));
    rc_model_destroy(&model);
}

static void expect(rc_shortcut shortcut, rc_act act, double *mean)
{
    expect_after(RC_ACT_RELU, shortcut, act, mean);
}

static rc_moments sum(rc_moments a, rc_moments b)
{
    return (rc_moments){a.mean + b.mean, a.variance + b.variance};
}

static rc_moments relu(rc_moments x)
{
    return rc_moments_clipped(x, 0, INFINITY);
}

static void a_net_without_shortcut_ends_in_its_last_normalisation(void **state)
{
    (void)state;
    double mean[4];
    expect(RC_SHORTCUT_NONE, RC_ACT_RELU, mean);
    for (int c = 0; c < 4; c++)
        assert_true(fabs(mean[c] - relu(normalised(c)).mean) < 1e-6);
    expect(RC_SHORTCUT_NONE, RC_ACT_NONE, mean);
    for (int c = 0; c < 4; c++)
        assert_true(fabs(mean[c] - normalised(c).mean) < 1e-6);
}

static void shortcuts_add_what_they_bring_where_they_bring_it(void **state)
{
    (void)state;
    double mean[4];
    expect(RC_SHORTCUT_PAD_END, RC_ACT_RELU, mean);
    for (int c = 0; c < 4; c++) {
        rc_moments x = c < 2 ? sum(normalised(c), relu(normalised(c))) : normalised(c);
        assert_true(fabs(mean[c] - relu(x).mean) < 1e-6);
    }
    expect(RC_SHORTCUT_PAD_BOTH, RC_ACT_RELU, mean);
    for (int c = 0; c < 4; c++) {
        rc_moments x = c == 1 || c == 2 ? sum(normalised(c), relu(normalised(c - 1))) : normalised(c);
        assert_true(fabs(mean[c] - relu(x).mean) < 1e-6);
    }
}

/* x above 0, a fifth of it below, by a sum over the density. */
static rc_moments leaky(rc_moments x)
{
    double weights = 0, first = 0, second = 0;
    for (int i = -12000; i <= 12000; i++) {
        double z = i / 1000.0, weight = exp(-z * z / 2), y = x.mean + sqrt(x.variance) * z;
        y = y > 0 ? y : 0.2 * y;
        weights += weight;
        first += weight * y;
        second += weight * y * y;
    }
    first /= weights;
    return (rc_moments){first, second / weights - first * first};
}

/* Its variance shows where it is added and the sum is clipped. */
static void a_shortcut_brings_the_variance_of_a_leaky_activation(void **state)
{
    (void)state;
    double mean[4];
    expect_after(RC_ACT_LEAKY_RELU, RC_SHORTCUT_PAD_END, RC_ACT_RELU, mean);
    for (int c = 0; c < 2; c++)
        assert_true(fabs(mean[c] - relu(sum(normalised(c), leaky(normalised(c)))).mean) < 1e-6);
}

/* x above 0, a fifth of it below: samples of it, within five standard errors. */
static void a_leaky_activation(void **state)
{
    (void)state;
    enum { SAMPLES = 40000 };
    double mean[4];
    expect(RC_SHORTCUT_NONE, RC_ACT_LEAKY_RELU, mean);
    for (int c = 0; c < 4; c++) {
        rc_moments m = normalised(c);
        double total = 0;
        for (int i = 0; i < SAMPLES; i++) {
            double x = m.mean + sqrt(m.variance) * rc_rng_normal((rc_rng){5, (uint64_t)c}, (uint64_t)i);
            total += x > 0 ? x : 0.2 * x;
        }
        assert_true(fabs(mean[c] - total / SAMPLES) < 5 * sqrt(m.variance / SAMPLES));
    }
}

static void what_no_normalisation_tells_of_is_no_number(void **state)
{
    (void)state;
    rc_net net;
    rc_model model;
    double mean[2];
    rc_net_builder b = rc_net_start(&net, "bare", 3, 8, 8);
    rc_layer bare = conv(RC_NET_INPUT, 2, 1, RC_ACT_RELU);
    bare.bn.on = false;
    rc_net_add(&b, &bare);
    rc_net_add(&b, &(rc_layer){.name = "pool", .kind = RC_LAYER_AVERAGE_POOL, .in = 0, .skip = RC_NO_LAYER});
    SUCCEEDS(rc_net_finish(&b));
    SUCCEEDS(rc_model_create(&model, &net, be));
    SUCCEEDS(rc_expected_features(&model, mean));
    assert_true(isnan(mean[0]) && isnan(mean[1]));
    rc_model_destroy(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clipped_normal_number),
        cmocka_unit_test(samples_agree),
        cmocka_unit_test(a_constant_is_clipped),
        cmocka_unit_test(a_net_without_shortcut_ends_in_its_last_normalisation),
        cmocka_unit_test(shortcuts_add_what_they_bring_where_they_bring_it),
        cmocka_unit_test(a_shortcut_brings_the_variance_of_a_leaky_activation),
        cmocka_unit_test(a_leaky_activation),
        cmocka_unit_test(what_no_normalisation_tells_of_is_no_number),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
