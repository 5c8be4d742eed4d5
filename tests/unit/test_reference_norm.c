/* Batch normalisation, skips and pooling by hand, on every CPU backend. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/tensors.h"

/* Everything that a normalisation of c channels writes. */
typedef struct normalisation {
    void *scale, *shift, *mean, *istd, *running_mean, *running_var, *partial;
} normalisation;

static normalisation new_normalisation(rc_backend *be, const rc_tensor *y, const double *running_mean,
                                       const double *running_var)
{
    size_t count = (size_t)y->groups * (size_t)rc_padded(be, y->c);
    normalisation norm = {.scale = new_reals(be, NULL, count),
                          .shift = new_reals(be, NULL, count),
                          .mean = new_reals(be, NULL, count),
                          .istd = new_reals(be, NULL, count),
                          .running_mean = new_reals(be, running_mean, (size_t)y->c),
                          .running_var = new_reals(be, running_var, (size_t)y->c)};
    assert_int_equal(be->alloc(be, be->partial_bytes(be, y->n, y->h, y->w, y->c), &norm.partial), RC_OK);
    return norm;
}

static void free_normalisation(rc_backend *be, normalisation *norm)
{
    void *all[] = {norm->scale,        norm->shift,       norm->mean,   norm->istd,
                   norm->running_mean, norm->running_var, norm->partial};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        be->release(be, all[i]);
}

/* y.raw = value of x with sums around the running mean, then statistics. */
static void normalise(rc_backend *be, rc_tensor *x, rc_tensor *y, normalisation *norm, const void *gamma,
                      const void *beta)
{
    const rc_bn bn = {.eps = 0.75f, .momentum = 0.25f};
    be->copy_forward(be, x, y, &(rc_epilogue){.partial = norm->partial, .center = norm->running_mean});
    const rc_bn_forward f = {.partial = norm->partial,
                             .center = norm->running_mean,
                             .gamma = gamma,
                             .beta = beta,
                             .running_mean = norm->running_mean,
                             .running_var = norm->running_var,
                             .scale = norm->scale,
                             .shift = norm->shift,
                             .mean = norm->mean,
                             .istd = norm->istd};
    be->bn_train(be, &bn, y, &f);
    y->scale = norm->scale;
    y->shift = norm->shift;
    y->mean = norm->mean;
    y->istd = norm->istd;
}

/* 1 2 3 4: mean 2.5, biased variance 1.25, unbiased 5/3; with eps 0.75 the divisor is sqrt(2). */
static void bn_train_by_hand(void **state)
{
    (void)state;
    const double values[4] = {1, 2, 3, 4}, root = sqrt(2);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_tensor x = new_tensor(be, 2, 1, 2, 1, values), y = new_tensor(be, 2, 1, 2, 1, NULL);
        void *gamma = new_reals(be, (const double[1]){3}, 1), *beta = new_reals(be, (const double[1]){-1}, 1);
        normalisation norm = new_normalisation(be, &y, (const double[1]){8}, (const double[1]){2});
        normalise(be, &x, &y, &norm, gamma, beta);
        expect_reals(be, norm.mean, (const double[4]){2.5}, 4);
        expect_reals(be, norm.istd, (const double[4]){1 / root}, 4);
        expect_reals(be, norm.scale, (const double[4]){3 / root}, 4);
        expect_reals(be, norm.shift, (const double[4]){-1 - 2.5 * 3 / root}, 4);
        expect_reals(be, norm.running_mean, (const double[1]){0.75 * 8 + 0.25 * 2.5}, 1);
        expect_reals(be, norm.running_var, (const double[1]){0.75 * 2 + 0.25 * 5 / 3}, 1);

        /* dz = 1 0 0 1: dbeta 2, sum dz (raw - mean) = 0, so dL/draw = scale * (dz - 1/2); dgamma 0 */
        rc_tensor g = new_tensor(be, 2, 1, 2, 1, (const double[4]){1, 0, 0, 1}), dx = new_tensor(be, 2, 1, 2, 1, NULL);
        void *a = new_reals(be, NULL, 4), *b = new_reals(be, NULL, 4), *c = new_reals(be, NULL, 4);
        void *dgamma = new_reals(be, NULL, 1), *dbeta = new_reals(be, NULL, 1);
        rc_grad dy = {.y = &y, .g = g.raw, .a = a, .b = b, .c = c};
        const rc_bn_backward back = {.partial = norm.partial, .dgamma = dgamma, .dbeta = dbeta, .a = a, .b = b, .c = c};
        be->bn_backward_sums(be, &dy, norm.partial);
        be->bn_backward(be, &y, true, &back);
        expect_reals(be, dgamma, (const double[1]){0}, 1);
        expect_reals(be, dbeta, (const double[1]){2}, 1);
        be->copy_backward(be, &dy, dx.raw, &(rc_back_epilogue){.x = &x});
        const double half = 1.5 / root;
        expect_act(be, &dx, dx.raw, (const double[4]){half, -half, -half, half});

        /* dz = 0 0 0 1: sum dz (raw - mean) = 1.5; dL/draw = scale (dz - 1/4 - (raw - 2.5) / 2 * 1.5 / 4) */
        be->write_act(be, &g, (const double[4]){0, 0, 0, 1});
        be->bn_backward_sums(be, &dy, norm.partial);
        be->bn_backward(be, &y, true, &back);
        expect_reals(be, dgamma, (const double[1]){1.5 / root}, 1);
        be->copy_backward(be, &dy, dx.raw, &(rc_back_epilogue){.x = &x, .add = true});
        double expected[4];
        for (int k = 0; k < 4; k++)
            expected[k] = (k % 3 ? -half : half) + 3 / root * ((k == 3) - 0.25 - (values[k] - 2.5) * 0.1875);
        expect_act(be, &dx, dx.raw, expected);

        /* eval with gradients of the statistics: a = scale, plus dmean / m + 2 dvar (raw - batch mean) / m */
        void *dmean = new_reals(be, (const double[4]){8}, 4), *dvar = new_reals(be, (const double[4]){6}, 4);
        be->bn_backward(be, &y, false,
                        &(rc_bn_backward){
                            .dmean = dmean, .dvar = dvar, .batch_mean = norm.mean, .a = a, .b = b, .c = c});
        be->copy_backward(be, &dy, dx.raw, &(rc_back_epilogue){.x = &x});
        for (int k = 0; k < 4; k++)
            expected[k] = 3 / root * (k == 3) + 2 + 3 * (values[k] - 2.5);
        expect_act(be, &dx, dx.raw, expected);

        free_normalisation(be, &norm);
        void *all[] = {gamma, beta, a, b, c, dgamma, dbeta, dmean, dvar};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            be->release(be, all[k]);
        free_tensor(be, &x);
        free_tensor(be, &y);
        free_tensor(be, &g);
        free_tensor(be, &dx);
        rc_backend_close(be);
    }
}

static void bn_eval_by_hand(void **state)
{
    (void)state;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_tensor y = new_tensor(be, 2, 1, 1, 1, NULL);
        y.groups = 2;
        y.group_end[0] = 1;
        y.group_end[1] = 2;
        normalisation norm = new_normalisation(be, &y, (const double[1]){5}, (const double[1]){3.25});
        const rc_bn_forward f = {.running_mean = norm.running_mean,
                                 .running_var = norm.running_var,
                                 .scale = norm.scale,
                                 .shift = norm.shift,
                                 .mean = norm.mean,
                                 .istd = norm.istd};
        be->bn_eval(be, &(rc_bn){.eps = 0.75f, .momentum = 0.5f}, &y, &f);
        expect_reals(be, norm.scale, (const double[8]){0.5, 0, 0, 0, 0.5}, 8);
        expect_reals(be, norm.shift, (const double[8]){-2.5, 0, 0, 0, -2.5}, 8);
        expect_reals(be, norm.mean, (const double[8]){5, 0, 0, 0, 5}, 8);
        expect_reals(be, norm.istd, (const double[8]){0.5, 0, 0, 0, 0.5}, 8);
        expect_reals(be, norm.running_mean, (const double[1]){5}, 1);
        free_normalisation(be, &norm);
        free_tensor(be, &y);
        rc_backend_close(be);
    }
}

/* One call with two groups of different size equals two calls, the second after the first, in everything: statistics,
 * running statistics, gradients. */
static void two_groups_are_two_calls(void **state)
{
    (void)state;
    enum { N = 5, FIRST = 2, H = 3, W = 2, C = 6, CP = 8, MAP = H * W * C };
    double values[N * MAP], gradients[N * MAP], gamma_values[C], beta_values[C], running[2 * C];
    fill_random(values, N * MAP, 1);
    fill_random(gradients, N * MAP, 2);
    fill_random(gamma_values, C, 3);
    fill_random(beta_values, C, 4);
    fill_random(running, C, 5);
    for (int c = 0; c < C; c++)
        running[C + c] = 1 + 0.1 * c;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        void *gamma = new_reals(be, gamma_values, C), *beta = new_reals(be, beta_values, C);
        double stats[4][2 * CP], dx_values[N * MAP], dgamma_sum[C] = {0}, dbeta_sum[C] = {0}, run_after[2 * C];
        memcpy(run_after, running, sizeof run_after);
        /* 0 and 1: the groups on their own; 2: together */
        for (int call = 0; call < 3; call++) {
            int begin = call == 1 ? FIRST : 0, end = call == 0 ? FIRST : N, n = end - begin;
            rc_tensor x = new_tensor(be, n, H, W, C, values + begin * MAP), y = new_tensor(be, n, H, W, C, NULL);
            rc_tensor g = new_tensor(be, n, H, W, C, gradients + begin * MAP), dx = new_tensor(be, n, H, W, C, NULL);
            if (call == 2) {
                x.groups = y.groups = 2;
                x.group_end[0] = y.group_end[0] = FIRST;
                x.group_end[1] = y.group_end[1] = N;
            }
            y.act = RC_ACT_RELU;
            size_t count = (size_t)y.groups * CP;
            const double *before = call == 2 ? running : run_after;
            normalisation norm = new_normalisation(be, &y, before, before + C);
            normalise(be, &x, &y, &norm, gamma, beta);
            void *a = new_reals(be, NULL, count), *b = new_reals(be, NULL, count), *c = new_reals(be, NULL, count);
            void *dgamma = new_reals(be, NULL, C), *dbeta = new_reals(be, NULL, C);
            rc_grad dy = {.y = &y, .g = g.raw, .a = a, .b = b, .c = c};
            const rc_bn_backward back = {
                .partial = norm.partial, .dgamma = dgamma, .dbeta = dbeta, .a = a, .b = b, .c = c};
            be->bn_backward_sums(be, &dy, norm.partial);
            be->bn_backward(be, &y, true, &back);
            be->copy_backward(be, &dy, dx.raw, &(rc_back_epilogue){.x = &x});
            const void *stat[4] = {norm.scale, norm.shift, norm.mean, norm.istd};
            if (call < 2) {
                for (int k = 0; k < 4; k++)
                    be->read_real64(be, stats[k] + call * CP, stat[k], CP);
                be->read_act(be, dx_values + begin * MAP, &dx, dx.raw);
                be->read_real64(be, run_after, norm.running_mean, C);
                be->read_real64(be, run_after + C, norm.running_var, C);
                for (size_t channel = 0; channel < C; channel++) {
                    double d;
                    be->read_real64(be, &d, rc_real_at(be, dgamma, channel), 1);
                    dgamma_sum[channel] += d;
                    be->read_real64(be, &d, rc_real_at(be, dbeta, channel), 1);
                    dbeta_sum[channel] += d;
                }
            } else {
                for (int k = 0; k < 4; k++)
                    expect_reals(be, stat[k], stats[k], 2 * CP);
                expect_act(be, &dx, dx.raw, dx_values);
                expect_reals(be, norm.running_mean, run_after, C);
                expect_reals(be, norm.running_var, run_after + C, C);
                expect_reals(be, dgamma, dgamma_sum, C);
                expect_reals(be, dbeta, dbeta_sum, C);
            }
            void *all[] = {a, b, c, dgamma, dbeta};
            for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
                be->release(be, all[k]);
            free_normalisation(be, &norm);
            free_tensor(be, &x);
            free_tensor(be, &y);
            free_tensor(be, &g);
            free_tensor(be, &dx);
        }
        be->release(be, gamma);
        be->release(be, beta);
        rc_backend_close(be);
    }
}

/* A widening shortcut: every second pixel, one channel placed at offset 1 of 3; and its gradient. */
static void strided_padded_skip(void **state)
{
    (void)state;
    const double earlier_values[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    double raw[12], value[12];
    for (int p = 0; p < 4; p++)
        for (int c = 0; c < 3; c++) {
            raw[p * 3 + c] = c - 1;
            double z = raw[p * 3 + c] + (c == 1 ? earlier_values[p / 2 * 6 + p % 2 * 2] - 5 : 0);
            value[p * 3 + c] = z > 0 ? z : 0;
        }
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        double shifted[9];
        for (int k = 0; k < 9; k++)
            shifted[k] = earlier_values[k] - 5;
        rc_tensor earlier = new_tensor(be, 1, 3, 3, 1, shifted), y = new_tensor(be, 1, 2, 2, 3, raw);
        rc_tensor memory = new_tensor(be, 1, 2, 2, 3, NULL);
        y.skip = (rc_skip){.value = earlier.raw, .h = 3, .w = 3, .c = 1, .stride = 2, .channel_offset = 1};
        y.act = RC_ACT_RELU;
        y.value = memory.raw;
        be->materialise(be, &y);
        assert_true(y.stored);
        expect_act(be, &y, y.value, value);

        /* channel 1 is alive at the last two pixels: value 2 and 4 */
        double g_values[12];
        for (int k = 0; k < 12; k++)
            g_values[k] = 10 + k;
        rc_tensor g = new_tensor(be, 1, 2, 2, 3, g_values), dskip = new_tensor(be, 1, 3, 3, 1, earlier_values);
        rc_grad dy = {.y = &y, .g = g.raw};
        be->skip_backward(be, &dy, dskip.raw, &(rc_back_epilogue){.x = &earlier, .add = true});
        expect_act(be, &dskip, dskip.raw, (const double[9]){1, 2, 3, 4, 5, 6, 7 + 17, 8, 9 + 20});
        be->skip_backward(be, &dy, dskip.raw, &(rc_back_epilogue){.x = &earlier});
        expect_act(be, &dskip, dskip.raw, (const double[9]){0, 0, 0, 0, 0, 0, 17, 0, 20});
        rc_tensor *all[] = {&earlier, &y, &memory, &g, &dskip};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            free_tensor(be, all[k]);
        rc_backend_close(be);
    }
}

/* Activations by value, and their slopes through copy_backward. */
static void activations(void **state)
{
    (void)state;
    const double raw[4] = {-2, -0.5, 0, 1.5};
    const struct {
        rc_act act;
        double value[4], slope[4];
    } cases[] = {
        {RC_ACT_NONE, {-2, -0.5, 0, 1.5}, {1, 1, 1, 1}},
        {RC_ACT_RELU, {0, 0, 0, 1.5}, {0, 0, 0, 1}},
        {RC_ACT_LEAKY_RELU, {-0.4, -0.1, 0, 1.5}, {0.2, 0.2, 0.2, 1}},
        {RC_ACT_TANH,
         {-0.964027580075817, -0.462117157260010, 0, 0.905148253644866},
         {0.070650824853164, 0.786447732965927, 1, 0.180706638923648}},
        {RC_ACT_SIGMOID,
         {0.119202922022118, 0.377540668798145, 0.5, 0.817574476193644},
         {0.104993585403507, 0.235003712201594, 0.25, 0.149146452070333}},
        {RC_ACT_RELU6, {0, 0, 0, 1.5}, {0, 0, 0, 1}},
        {RC_ACT_SILU,
         {-0.238405844044235, -0.188770334399073, 0, 1.226361714290465},
         {-0.090784248784895, 0.260038812697348, 0.500000000000000, 1.041294154299143}},
    };
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_tensor x = new_tensor(be, 1, 2, 2, 1, raw), y = new_tensor(be, 1, 2, 2, 1, NULL);
        rc_tensor g = new_tensor(be, 1, 2, 2, 1, (const double[4]){1, 1, 1, 1}), dx = new_tensor(be, 1, 2, 2, 1, NULL);
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            x.act = cases[k].act;
            be->copy_forward(be, &x, &y, &(rc_epilogue){0});
            expect_act(be, &y, y.raw, cases[k].value);
            be->copy_backward(be, &(rc_grad){.y = &x, .g = g.raw}, dx.raw, &(rc_back_epilogue){.x = &y});
            expect_act(be, &dx, dx.raw, cases[k].slope);
        }
        free_tensor(be, &x);
        free_tensor(be, &y);
        free_tensor(be, &g);
        free_tensor(be, &dx);
        rc_backend_close(be);
    }
}

/* ReLU6 is flat from 6 on; the slope of SiLU is found from raw, whatever value is stored: -0.278 is taken twice. */
static void saturated_activations(void **state)
{
    (void)state;
    const double raw[4] = {5.75, 6, 7, 100}, silu_raw[4] = {-20, -1.5, -1, 20};
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_tensor x = new_tensor(be, 1, 2, 2, 1, raw), z = new_tensor(be, 1, 2, 2, 1, silu_raw);
        rc_tensor y = new_tensor(be, 1, 2, 2, 1, NULL), dx = new_tensor(be, 1, 2, 2, 1, NULL);
        rc_tensor g = new_tensor(be, 1, 2, 2, 1, (const double[4]){1, 1, 1, 1});
        x.act = RC_ACT_RELU6;
        be->copy_forward(be, &x, &y, &(rc_epilogue){0});
        expect_act(be, &y, y.raw, (const double[4]){5.75, 6, 6, 6});
        be->copy_backward(be, &(rc_grad){.y = &x, .g = g.raw}, dx.raw, &(rc_back_epilogue){.x = &y});
        expect_act(be, &dx, dx.raw, (const double[4]){1, 0, 0, 0});
        z.act = RC_ACT_SILU;
        z.value = y.raw;
        be->materialise(be, &z);
        z.stored = true;
        expect_act(be, &y, y.raw,
                   (const double[4]){-4.122307236380407e-8, -0.273638285709534, -0.268941421369995,
                                     19.999999958776925});
        be->copy_backward(be, &(rc_grad){.y = &z, .g = g.raw}, dx.raw, &(rc_back_epilogue){.x = &y});
        expect_act(be, &dx, dx.raw,
                   (const double[4]){-3.9161918660646786e-8, -0.041294154299143, 0.072329488128513,
                                     1.0000000391619202});
        free_tensor(be, &x);
        free_tensor(be, &y);
        free_tensor(be, &z);
        free_tensor(be, &g);
        free_tensor(be, &dx);
        rc_backend_close(be);
    }
}

/* 3 x 3 windows, stride 2, one pad, over a 4 x 4 map with equal maxima: the first in row order gets the gradient, a
 * pixel in two windows gets both, and the padding never wins over negative pixels. */
static void max_pool_ties(void **state)
{
    (void)state;
    const double map[16] = {-1, -1, -2, -3, /**/ -1, 5, 5, -3, /**/ -2, 5, 5, 0, /**/ -4, -4, 0, 0};
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        const rc_pool2d pool = {.k = 3, .stride = 2, .pad = 1};
        rc_tensor x = new_tensor(be, 1, 4, 4, 1, map), y = new_tensor(be, 1, 2, 2, 1, NULL);
        be->max_pool_forward(be, &pool, &x, &y);
        expect_act(be, &y, y.raw, (const double[4]){5, 5, 5, 5});
        rc_tensor g = new_tensor(be, 1, 2, 2, 1, (const double[4]){1, 10, 100, 1000});
        rc_tensor dx = new_tensor(be, 1, 4, 4, 1, map);
        be->max_pool_backward(be, &pool, &x, &(rc_grad){.y = &y, .g = g.raw}, dx.raw, &(rc_back_epilogue){.x = &x});
        expect_act(be, &dx, dx.raw, (const double[16]){0, 0, 0, 0, 0, 1111, 0, 0});

        /* windows of two without overlap: ties inside a window, and all negative */
        const rc_pool2d tiles = {.k = 2, .stride = 2, .pad = 0};
        be->max_pool_forward(be, &tiles, &x, &y);
        expect_act(be, &y, y.raw, (const double[4]){5, 5, 5, 5});
        be->max_pool_backward(be, &tiles, &x, &(rc_grad){.y = &y, .g = g.raw}, dx.raw,
                              &(rc_back_epilogue){.x = &x, .add = false});
        expect_act(be, &dx, dx.raw, (const double[16]){0, 0, 0, 0, 0, 1, 10, 0, 0, 100, 1000, 0});
        double negative[16];
        for (int k = 0; k < 16; k++)
            negative[k] = -1 - k / 8;
        be->write_act(be, &x, negative);
        be->max_pool_forward(be, &pool, &x, &y);
        expect_act(be, &y, y.raw, (const double[4]){-1, -1, -1, -1});
        be->max_pool_backward(be, &pool, &x, &(rc_grad){.y = &y, .g = g.raw}, dx.raw,
                              &(rc_back_epilogue){.x = &x, .add = false});
        expect_act(be, &dx, dx.raw, (const double[16]){1, 10, 0, 0, 100, 1000});
        free_tensor(be, &x);
        free_tensor(be, &y);
        free_tensor(be, &g);
        free_tensor(be, &dx);
        rc_backend_close(be);
    }
}

static void average_pool_by_hand(void **state)
{
    (void)state;
    /* (2, 1, 2, 3) */
    const double values[12] = {1, 2, 3, 5, -6, 7, 0, 1, 0, 1, 1, 4};
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_tensor x = new_tensor(be, 2, 1, 2, 3, values), dx = new_tensor(be, 2, 1, 2, 3, values);
        void *features = new_reals(be, NULL, 6), *d = new_reals(be, (const double[6]){2, 4, 6, 8, 10, 12}, 6);
        be->average_pool_forward(be, &x, features);
        expect_reals(be, features, (const double[6]){3, -2, 5, 0.5, 1, 2}, 6);
        be->average_pool_backward(be, d, dx.raw, &(rc_back_epilogue){.x = &x, .add = true});
        expect_act(be, &dx, dx.raw, (const double[12]){2, 4, 6, 6, -4, 10, 4, 6, 6, 5, 6, 10});
        be->average_pool_backward(be, d, dx.raw, &(rc_back_epilogue){.x = &x});
        expect_act(be, &dx, dx.raw, (const double[12]){1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
        be->release(be, features);
        be->release(be, d);
        free_tensor(be, &x);
        free_tensor(be, &dx);
        rc_backend_close(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bn_train_by_hand),
        cmocka_unit_test(bn_eval_by_hand),
        cmocka_unit_test(two_groups_are_two_calls),
        cmocka_unit_test(strided_padded_skip),
        cmocka_unit_test(activations),
        cmocka_unit_test(saturated_activations),
        cmocka_unit_test(max_pool_ties),
        cmocka_unit_test(average_pool_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
