/* What the equations promise of losses on images: known values, zeros, limits. */
#include "unit/losses.h"

/* ---- images --------------------------------------------------------------------------------------------------- */

static rc_tensor image(int n, int h, int w, int c, const double *from)
{
    rc_tensor t = {.n = n, .h = h, .w = w, .c = c, .groups = 1, .group_end = {n}};
    t.raw = take(rc_act_count(be, n, h, w, c) * be->act_bytes);
    be->write_act(be, &t, from);
    return t;
}

typedef void image_loss(rc_backend *, const rc_tensor *, const float *, void *, void *);

static double image_value(image_loss *loss, const rc_tensor *x, double *gradient)
{
    void *slot = zeros(1), *dx = take(rc_act_count(be, x->n, x->h, x->w, x->c) * be->act_bytes);
    assert_int_equal(be->reserve_losses(be, x->n, 1, x->h, x->w, x->c), RC_OK);
    loss(be, x, factor(1), slot, dx);
    assert_int_equal(be->sync(be), RC_OK);
    be->read_act(be, gradient, x, dx);
    return number(slot);
}

static void smoothing_kernel_sums_to_1(void **state)
{
    (void)state;
    enum { H = 9, W = 11, C = 3, COUNT = 2 * H * W * C };
    const double tap[5] = {0.11170, 0.23648, 0.30364, 0.23648, 0.11170};
    double x[COUNT], gradient[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = 1 + i % C;
    rc_tensor t = image(2, H, W, C, x);
    assert_near(image_value(be->loss_smoothing, &t, gradient), 0, 1);
    for (int i = 0; i < COUNT; i++)
        assert_near(gradient[i], 0, 1);
    /* One bright pixel: the residual is the pixel minus the kernel. */
    memset(x, 0, sizeof x);
    x[(4 * W + 5) * C + 1] = 1;
    double expected = 0;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            double residual = (i == 2 && j == 2) - tap[i] * tap[j];
            expected += residual * residual / COUNT;
        }
    t = image(2, H, W, C, x);
    assert_true(fabs(image_value(be->loss_smoothing, &t, gradient) - expected) < 2e-5 * expected);
    /* In the corner it is reflected: weights fold onto the pixels inside. */
    memset(x, 0, sizeof x);
    x[0] = 1;
    expected = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double residual = (i == 0 && j == 0) - tap[2 - i] * tap[2 - j];
            expected += residual * residual / COUNT;
        }
    t = image(2, H, W, C, x);
    assert_true(fabs(image_value(be->loss_smoothing, &t, gradient) - expected) < 2e-5 * expected);
    x[0] = 0;
    x[COUNT - C] = 1; /* the corner opposite */
    t = image(2, H, W, C, x);
    assert_true(fabs(image_value(be->loss_smoothing, &t, gradient) - expected) < 2e-5 * expected);
}

/* The loss is a square, so <x, gradient> = 2 L; it does not see what is constant, so the gradient sums to 0. Both need
 * the right transpose of the reflected border. */
static void smoothing_gradient_is_that_of_a_square(void **state)
{
    (void)state;
    const int sizes[][2] = {{3, 3}, {3, 8}, {7, 4}, {12, 11}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        enum { C = 3, MOST = 2 * 12 * 11 * C };
        double x[MOST], gradient[MOST], product = 0, sum[C] = {0};
        int h = sizes[s][0], w = sizes[s][1], count = 2 * h * w * C;
        draw(x, (size_t)count, 1);
        rc_tensor t = image(2, h, w, C, x);
        double value = image_value(be->loss_smoothing, &t, gradient);
        for (int i = 0; i < count; i++) {
            product += x[i] * gradient[i];
            sum[i % C] += gradient[i];
        }
        assert_near(product, 2 * value, 10);
        for (int c = 0; c < C; c++)
            assert_near(sum[c], 0, 1);
    }
}

static void total_variation_sums_four_norms(void **state)
{
    (void)state;
    enum { H = 3, W = 4 };
    const double x[H * W] = {0, 1, 0, 2, 0, 0, 5, 0, 1, 0, 0, 0};
    double gradient[H * W], squares[4] = {0};
    for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++) {
            double v = x[i * W + j];
            squares[0] += j + 1 < W ? pow(v - x[i * W + j + 1], 2) : 0;
            squares[1] += i + 1 < H ? pow(v - x[(i + 1) * W + j], 2) : 0;
            squares[2] += i + 1 < H && j + 1 < W ? pow(v - x[(i + 1) * W + j + 1], 2) : 0;
            squares[3] += i + 1 < H && j > 0 ? pow(v - x[(i + 1) * W + j - 1], 2) : 0;
        }
    rc_tensor t = image(1, H, W, 1, x);
    assert_near(image_value(be->loss_total_variation, &t, gradient),
                sqrt(squares[0]) + sqrt(squares[1]) + sqrt(squares[2]) + sqrt(squares[3]), 100);
    const double flat[H * W] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    t = image(1, H, W, 1, flat);
    assert_true(image_value(be->loss_total_variation, &t, gradient) == 0);
    for (int i = 0; i < H * W; i++)
        assert_true(gradient[i] == 0);
    assert_near(image_value(be->loss_image_norm, &t, gradient), sqrt(H * W * 9), 100);
    const double black[H * W] = {0};
    t = image(1, H, W, 1, black);
    assert_true(image_value(be->loss_image_norm, &t, gradient) == 0 && gradient[0] == 0);
}

static void reconstruction_of_black_and_white_is_finite(void **state)
{
    (void)state;
    const double x[4] = {0, 1, 0, 1}, target[4] = {0, 1, 1, 0};
    double gradient[4];
    rc_tensor a = image(1, 2, 2, 1, x), b = image(1, 2, 2, 1, target);
    void *slot = zeros(1), *dx = take(rc_act_count(be, 1, 2, 2, 1) * be->act_bytes);
    be->loss_reconstruction(be, &a, &b, NULL, factor(1), slot, dx);
    assert_near(number(slot), 50, 100); /* two of four pixels cost 100 each */
    be->read_act(be, gradient, &a, dx);
    for (int i = 0; i < 4; i++)
        assert_true(isfinite(gradient[i]));
    assert_true(gradient[0] == 0 && gradient[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(smoothing_kernel_sums_to_1),
        TEST(smoothing_gradient_is_that_of_a_square),
        TEST(total_variation_sums_four_norms),
        TEST(reconstruction_of_black_and_white_is_finite),
    };
    return RUN_ON_BOTH(tests);
}
