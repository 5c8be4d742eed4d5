/* Convolutions and linear layers against hand-computed values and against their definitions. Runs on every CPU backend:
 * what is true by hand is true for the kernels too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/tensors.h"

static const rc_epilogue no_epilogue = {0};

static void reserve(rc_backend *be, const rc_conv *conv, int n)
{
    assert_int_equal(be->reserve_conv(be, conv, n), RC_OK);
}

/* 3 x 3 pixels 1 .. 9, a kernel that is no mirror image of itself, one pad. */
static void conv_3x3_by_hand(void **state)
{
    (void)state;
    const double x_values[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const double w_values[9] = {1, 0, -1, 2, 3, 0, 0, 1, 4};
    const double bias_value = 0.5;
    /* out(0,0) = 3*1 + 0*2 + 1*4 + 4*5, and so on */
    const double expected[9] = {27.5, 37.5, 19.5, 49.5, 65.5, 39.5, 16.5, 36.5, 48.5};
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_conv conv = {
            .c_in = 1, .c_out = 1, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = 3, .w = 3, .oh = 3, .ow = 3};
        reserve(be, &conv, 1);
        rc_tensor x = new_tensor(be, 1, 3, 3, 1, x_values), y = new_tensor(be, 1, 3, 3, 1, NULL);
        void *w = new_reals(be, w_values, 9), *bias = new_reals(be, &bias_value, 1);
        be->conv_forward(be, &conv, &x, w, bias, &y, &no_epilogue);
        expect_act(be, &y, y.raw, expected);
        assert_int_equal(be->sync(be), RC_OK);
        be->release(be, w);
        be->release(be, bias);
        free_tensor(be, &x);
        free_tensor(be, &y);
        rc_backend_close(be);
    }
}

/* Stride 2 takes the outputs of stride 1 at even places. */
static void stride_two_is_every_second(void **state)
{
    (void)state;
    enum { N = 2, H = 5, C_IN = 3, C_OUT = 5, OUT = 3 };
    double x_values[N * H * H * C_IN], w_values[C_OUT * C_IN * 9], full[N * H * H * C_OUT], half[N * OUT * OUT * C_OUT];
    fill_random(x_values, N * H * H * C_IN, 1);
    fill_random(w_values, C_OUT * C_IN * 9, 2);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_conv one = {
            .c_in = C_IN, .c_out = C_OUT, .k = 3, .stride = 1, .pad = 1, .up = 1, .h = H, .w = H, .oh = H, .ow = H};
        rc_conv two = one;
        two.stride = 2;
        two.oh = two.ow = OUT;
        reserve(be, &one, N);
        reserve(be, &two, N);
        rc_tensor x = new_tensor(be, N, H, H, C_IN, x_values);
        rc_tensor y_one = new_tensor(be, N, H, H, C_OUT, NULL), y_two = new_tensor(be, N, OUT, OUT, C_OUT, NULL);
        void *w = new_reals(be, w_values, C_OUT * C_IN * 9);
        be->conv_forward(be, &one, &x, w, NULL, &y_one, &no_epilogue);
        be->conv_forward(be, &two, &x, w, NULL, &y_two, &no_epilogue);
        be->read_act(be, full, &y_one, y_one.raw);
        for (int n = 0; n < N; n++)
            for (int y = 0; y < OUT; y++)
                for (int column = 0; column < OUT; column++)
                    memcpy(half + ((n * OUT + y) * OUT + column) * C_OUT,
                           full + ((n * H + 2 * y) * H + 2 * column) * C_OUT, C_OUT * sizeof *half);
        expect_act(be, &y_two, y_two.raw, half);
        be->release(be, w);
        free_tensor(be, &x);
        free_tensor(be, &y_one);
        free_tensor(be, &y_two);
        rc_backend_close(be);
    }
}

/* up = 2 equals nearest upsampling followed by the plain convolution, forward and in both gradients. */
static void up_equals_explicit_upsampling(void **state)
{
    (void)state;
    enum { N = 2, H = 3, W = 4, C_IN = 5, C_OUT = 3, H2 = 2 * H, W2 = 2 * W };
    double small[N * H * W * C_IN], large[N * H2 * W2 * C_IN], w_values[C_OUT * C_IN * 9],
        g_values[N * H2 * W2 * C_OUT];
    double out[N * H2 * W2 * C_OUT], dlarge[N * H2 * W2 * C_IN], dsmall[N * H * W * C_IN] = {0};
    double dweight[C_OUT * C_IN * 9], dbias[C_OUT];
    fill_random(small, N * H * W * C_IN, 3);
    fill_random(w_values, C_OUT * C_IN * 9, 4);
    fill_random(g_values, N * H2 * W2 * C_OUT, 5);
    for (int n = 0; n < N; n++)
        for (int y = 0; y < H2; y++)
            for (int x = 0; x < W2; x++)
                memcpy(large + ((n * H2 + y) * W2 + x) * C_IN, small + ((n * H + y / 2) * W + x / 2) * C_IN,
                       C_IN * sizeof *large);
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_conv up = {
            .c_in = C_IN, .c_out = C_OUT, .k = 3, .stride = 1, .pad = 1, .up = 2, .h = H, .w = W, .oh = H2, .ow = W2};
        rc_conv plain = up;
        plain.up = 1;
        plain.h = H2;
        plain.w = W2;
        reserve(be, &up, N);
        reserve(be, &plain, N);
        rc_tensor x_small = new_tensor(be, N, H, W, C_IN, small), x_large = new_tensor(be, N, H2, W2, C_IN, large);
        rc_tensor y = new_tensor(be, N, H2, W2, C_OUT, NULL), g = new_tensor(be, N, H2, W2, C_OUT, g_values);
        rc_tensor d_small = new_tensor(be, N, H, W, C_IN, NULL), d_large = new_tensor(be, N, H2, W2, C_IN, NULL);
        void *w = new_reals(be, w_values, C_OUT * C_IN * 9), *dw = new_reals(be, NULL, C_OUT * C_IN * 9);
        void *db = new_reals(be, NULL, C_OUT);

        be->conv_forward(be, &plain, &x_large, w, NULL, &y, &no_epilogue);
        be->read_act(be, out, &y, y.raw);
        be->conv_forward(be, &up, &x_small, w, NULL, &y, &no_epilogue);
        expect_act(be, &y, y.raw, out);

        rc_grad dy = {.y = &y, .g = g.raw};
        be->conv_backward_data(be, &plain, &dy, w, d_large.raw, &(rc_back_epilogue){.x = &x_large});
        be->read_act(be, dlarge, &d_large, d_large.raw);
        memset(dsmall, 0, sizeof dsmall);
        for (int n = 0; n < N; n++)
            for (int row = 0; row < H2; row++)
                for (int column = 0; column < W2; column++)
                    for (int c = 0; c < C_IN; c++)
                        dsmall[((n * H + row / 2) * W + column / 2) * C_IN + c] +=
                            dlarge[((n * H2 + row) * W2 + column) * C_IN + c];
        be->conv_backward_data(be, &up, &dy, w, d_small.raw, &(rc_back_epilogue){.x = &x_small});
        expect_act(be, &d_small, d_small.raw, dsmall);

        be->conv_backward_weight(be, &plain, &x_large, &dy, dw, db);
        be->read_real64(be, dweight, dw, C_OUT * C_IN * 9);
        be->read_real64(be, dbias, db, C_OUT);
        be->conv_backward_weight(be, &up, &x_small, &dy, dw, db);
        expect_reals(be, dw, dweight, C_OUT * C_IN * 9);
        expect_reals(be, db, dbias, C_OUT);

        be->release(be, w);
        be->release(be, dw);
        be->release(be, db);
        rc_tensor *all[] = {&x_small, &x_large, &y, &g, &d_small, &d_large};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            free_tensor(be, all[k]);
        rc_backend_close(be);
    }
}

/* A transposed convolution spreads every input pixel over the output: out(i * stride - pad + tap) += w * in(i). */
static void transposed_against_definition(void **state)
{
    (void)state;
    enum { N = 2, H = 3, C_IN = 5, C_OUT = 3, K = 4, OUT = 6 };
    double x_values[N * H * H * C_IN], w_values[C_IN * C_OUT * K * K], expected[N * OUT * OUT * C_OUT] = {0};
    fill_random(x_values, N * H * H * C_IN, 6);
    fill_random(w_values, C_IN * C_OUT * K * K, 7);
    for (int n = 0; n < N; n++)
        for (int pixel = 0; pixel < H * H; pixel++)
            for (int tap = 0; tap < K * K; tap++) {
                int y = pixel / H * 2 - 1 + tap / K, x = pixel % H * 2 - 1 + tap % K;
                if (y < 0 || y >= OUT || x < 0 || x >= OUT)
                    continue;
                for (int in = 0; in < C_IN; in++)
                    for (int out = 0; out < C_OUT; out++)
                        expected[((n * OUT + y) * OUT + x) * C_OUT + out] += x_values[(n * H * H + pixel) * C_IN + in] *
                                                                             w_values[(in * C_OUT + out) * K * K + tap];
            }
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_conv conv = {.c_in = C_IN,
                        .c_out = C_OUT,
                        .k = K,
                        .stride = 2,
                        .pad = 1,
                        .up = 1,
                        .transposed = true,
                        .h = H,
                        .w = H,
                        .oh = OUT,
                        .ow = OUT};
        reserve(be, &conv, N);
        rc_tensor x = new_tensor(be, N, H, H, C_IN, x_values), y = new_tensor(be, N, OUT, OUT, C_OUT, NULL);
        void *w = new_reals(be, w_values, C_IN * C_OUT * K * K);
        be->conv_forward(be, &conv, &x, w, NULL, &y, &no_epilogue);
        expect_act(be, &y, y.raw, expected);
        be->release(be, w);
        free_tensor(be, &x);
        free_tensor(be, &y);
        rc_backend_close(be);
    }
}

/* A 1 x 1 convolution of a lazy input, with every part of the contract by hand: input scale, shift and ReLU; in
 * training sums around the centre; in eval the finished value; backwards act', a, b, c, adding, sums of the input. */
static void lazy_input_and_epilogues(void **state)
{
    (void)state;
    const double x_values[2] = {1, -2}, scale = 2, shift = 1, w_value = 3, center = 4;
    const double raw[2] = {9, 0}; /* relu(3) * 3, relu(-3) * 3 */
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_conv conv = {
            .c_in = 1, .c_out = 1, .k = 1, .stride = 1, .pad = 0, .up = 1, .h = 1, .w = 2, .oh = 1, .ow = 2};
        reserve(be, &conv, 1);
        rc_tensor x = new_tensor(be, 1, 1, 2, 1, x_values), y = new_tensor(be, 1, 1, 2, 1, NULL);
        double vector[4] = {scale};
        x.scale = new_reals(be, vector, 4);
        vector[0] = shift;
        x.shift = new_reals(be, vector, 4);
        vector[0] = 0.5;
        x.mean = new_reals(be, vector, 4);
        x.act = RC_ACT_RELU;
        void *w = new_reals(be, &w_value, 1), *middle = new_reals(be, &center, 1), *partial;
        assert_int_equal(be->alloc(be, be->partial_bytes(be, 1, 1, 2, 1), &partial), RC_OK);
        void *mean = new_reals(be, NULL, 4), *var = new_reals(be, NULL, 4);

        be->conv_forward(be, &conv, &x, w, NULL, &y, &(rc_epilogue){.partial = partial, .center = middle});
        expect_act(be, &y, y.raw, raw);
        be->bn_statistics(be, &y, partial, middle, mean, var);
        expect_reals(be, mean, (const double[4]){4.5, 0, 0, 0}, 4);
        expect_reals(be, var, (const double[4]){20.25, 0, 0, 0}, 4);

        /* dz = g * act'; dL/draw = 2 dz + 0.1 raw + 1 with leaky ReLU on y: value (9, 0) -> act' (1, 0.2) */
        y.act = RC_ACT_LEAKY_RELU;
        rc_tensor g = new_tensor(be, 1, 1, 2, 1, (const double[2]){1, 10});
        rc_tensor dx = new_tensor(be, 1, 1, 2, 1, (const double[2]){100, 200});
        void *a = new_reals(be, (const double[4]){2}, 4), *b = new_reals(be, (const double[4]){0.1}, 4);
        void *c = new_reals(be, (const double[4]){1}, 4), *dw = new_reals(be, NULL, 1), *db = new_reals(be, NULL, 1);
        rc_grad dy = {.y = &y, .g = g.raw, .a = a, .b = b, .c = c};
        const double draw[2] = {2 * 1 + 0.9 + 1, 2 * 2 + 0 + 1}; /* 3.9, 5 */
        be->conv_backward_data(be, &conv, &dy, w, dx.raw,
                               &(rc_back_epilogue){.x = &x, .partial = partial, .add = true});
        const double dx_expected[2] = {100 + 3 * draw[0], 200 + 3 * draw[1]};
        expect_act(be, &dx, dx.raw, dx_expected);
        /* x is dead at the second pixel: the sums hold the first alone */
        void *dgamma = new_reals(be, NULL, 1), *dbeta = new_reals(be, NULL, 1);
        x.istd = new_reals(be, (const double[4]){1}, 4);
        void *xa = new_reals(be, NULL, 4), *xb = new_reals(be, NULL, 4), *xc = new_reals(be, NULL, 4);
        be->bn_backward(be, &x, false,
                        &(rc_bn_backward){
                            .partial = partial, .dgamma = dgamma, .dbeta = dbeta, .a = xa, .b = xb, .c = xc});
        expect_reals(be, dbeta, dx_expected, 1);
        expect_reals(be, dgamma, (const double[1]){dx_expected[0] * (1 - 0.5)}, 1);
        expect_reals(be, xa, (const double[4]){scale, 0, 0, 0}, 4);

        be->conv_backward_weight(be, &conv, &x, &dy, dw, db);
        expect_reals(be, dw, (const double[1]){3 * draw[0]}, 1);
        expect_reals(be, db, (const double[1]){draw[0] + draw[1]}, 1);

        /* eval: scale, shift, skip and activation of y at once */
        rc_tensor earlier = new_tensor(be, 1, 1, 2, 1, (const double[2]){-20, 7});
        y.scale = a;
        y.shift = c;
        y.skip = (rc_skip){.value = earlier.raw, .h = 1, .w = 2, .c = 1, .stride = 1};
        be->conv_forward(be, &conv, &x, w, NULL, &y, &(rc_epilogue){.apply = true});
        expect_act(be, &y, y.raw, (const double[2]){0.2 * (18 + 1 - 20), 8});

        const void *vectors[] = {x.scale, x.shift, x.mean, x.istd, w,      middle, partial, mean, var, a,
                                 b,       c,       dw,     db,     dgamma, dbeta,  xa,      xb,   xc};
        for (size_t k = 0; k < sizeof vectors / sizeof vectors[0]; k++)
            be->release(be, rc_without_const(vectors[k]));
        rc_tensor *all[] = {&x, &y, &g, &dx, &earlier};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            free_tensor(be, all[k]);
        rc_backend_close(be);
    }
}

/* A linear layer writes PyTorch's (c, h, w) order as NHWC: weight row r has r in its only column. */
static void linear_reshapes(void **state)
{
    (void)state;
    enum { C = 3, H = 2, W = 2 };
    double w_values[C * H * W], expected[C * H * W];
    for (int r = 0; r < C * H * W; r++) {
        w_values[r] = r;
        expected[r % (H * W) * C + r / (H * W)] = 2 * r;
    }
    const double x_value = 2;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        rc_linear linear = {.c_in = 1, .c = C, .h = H, .w = W};
        assert_int_equal(be->reserve_linear(be, &linear, 1), RC_OK);
        rc_tensor x = new_tensor(be, 1, 1, 1, 1, &x_value), y = new_tensor(be, 1, H, W, C, NULL);
        rc_tensor dx = new_tensor(be, 1, 1, 1, 1, NULL);
        void *w = new_reals(be, w_values, C * H * W), *dw = new_reals(be, NULL, C * H * W);
        be->linear_forward(be, &linear, &x, w, NULL, &y, &no_epilogue);
        expect_act(be, &y, y.raw, expected);
        /* with g = y: dw_r = 2 * (2 r), dx = sum_r r * (2 r) */
        rc_grad dy = {.y = &y, .g = y.raw};
        be->linear_backward_data(be, &linear, &dy, w, dx.raw, &(rc_back_epilogue){.x = &x});
        expect_act(be, &dx, dx.raw, (const double[1]){2 * 506});
        be->linear_backward_weight(be, &linear, &x, &dy, dw, NULL);
        for (int r = 0; r < C * H * W; r++)
            expect_reals(be, rc_real_at(be, dw, (size_t)r), (const double[1]){4 * r}, 1);
        be->release(be, w);
        be->release(be, dw);
        free_tensor(be, &x);
        free_tensor(be, &y);
        free_tensor(be, &dx);
        rc_backend_close(be);
    }
}

/* Two rows, two inputs, two outputs, rows of y three apart; what lies between the rows stays. */
static void dense_by_hand(void **state)
{
    (void)state;
    rc_backend *be;
    for (int i = 0; (be = nth_backend(i)); i++) {
        assert_int_equal(be->reserve_dense(be, 2, 2, 2), RC_OK);
        void *x = new_reals(be, (const double[4]){1, 2, 3, 4}, 4),
             *w = new_reals(be, (const double[4]){1, -1, 2, 1}, 4);
        void *b = new_reals(be, (const double[2]){10, 20}, 2),
             *y = new_reals(be, (const double[6]){0, 0, 7, 0, 0, 7}, 6);
        be->dense_forward(be, 2, 2, 2, x, w, b, y, 3);
        expect_reals(be, y, (const double[6]){9, 24, 7, 9, 30, 7}, 6);
        void *dy = new_reals(be, (const double[6]){1, 2, 99, 3, 4, 99}, 6), *dx = new_reals(be, NULL, 4);
        be->dense_backward_data(be, 2, 2, 2, dy, 3, w, dx, false);
        expect_reals(be, dx, (const double[4]){5, 1, 11, 1}, 4);
        be->dense_backward_data(be, 2, 2, 2, dy, 3, w, dx, true);
        expect_reals(be, dx, (const double[4]){10, 2, 22, 2}, 4);
        void *dw = new_reals(be, NULL, 4), *db = new_reals(be, NULL, 2);
        be->dense_backward_weight(be, 2, 2, 2, x, dy, 3, dw, db, false);
        expect_reals(be, dw, (const double[4]){10, 14, 14, 20}, 4);
        expect_reals(be, db, (const double[2]){4, 6}, 2);
        be->dense_backward_weight(be, 2, 2, 2, x, dy, 3, dw, db, true);
        expect_reals(be, dw, (const double[4]){20, 28, 28, 40}, 4);
        expect_reals(be, db, (const double[2]){8, 12}, 2);
        void *all[] = {x, w, b, y, dy, dx, dw, db};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            be->release(be, all[k]);
        rc_backend_close(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_3x3_by_hand),
        cmocka_unit_test(stride_two_is_every_second),
        cmocka_unit_test(up_equals_explicit_upsampling),
        cmocka_unit_test(transposed_against_definition),
        cmocka_unit_test(lazy_input_and_epilogues),
        cmocka_unit_test(linear_reshapes),
        cmocka_unit_test(dense_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
