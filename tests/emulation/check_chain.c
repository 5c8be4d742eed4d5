/* Chains of convolutions on the emulation of CUDA: a frozen net and a teacher go the same way with them as layer by
 * layer. usage: check_chain MODULE [IMAGES]
 * With the module for a card, IMAGES is more than its multiprocessors, so that images share blocks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "nn/nets.h"
#include "support/nn_fixture.h"

enum { SEED = 3, LOSS = 11 };

static rc_net net;
static int images_sharing = 3; /* on the emulation, which has one multiprocessor */

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static int links_taken, links_back;
static void (*chain_forward)(rc_backend *, const rc_conv *, rc_tensor *, const rc_link *, int);

static void count_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const rc_link *links, int count)
{
    links_taken += count;
    chain_forward(be, conv, x, links, count);
}

static void (*chain_backward)(rc_backend *, const rc_conv *, const rc_back_link *, int, void *, bool, void *, bool);

static void count_backward(rc_backend *be, const rc_conv *conv, const rc_back_link *links, int count, void *dx,
                           bool add, void *dskip, bool add_skip)
{
    links_back += count;
    chain_backward(be, conv, links, count, dx, add, dskip, add_skip);
}

static void open_both(nn_fixture *chains, nn_fixture *layers, const rc_pass_settings *settings)
{
    rc_backend *with, *without;
    nn_must(rc_backend_open("cuda:bf16", 1, NULL, &with));
    nn_must(rc_backend_open("cuda:bf16", 1, NULL, &without));
    chain_forward = with->chain_forward;
    with->chain_forward = count_forward;
    chain_backward = with->chain_backward;
    with->chain_backward = count_backward;
    without->takes_chain = NULL;
    nn_open_on(chains, with, &net, settings, SEED);
    nn_open_on(layers, without, &net, settings, SEED);
    links_taken = links_back = 0;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void expect_close(const char *what, const double *a, const double *b, size_t count, double tolerance)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    if (!(size > 0) || !(sqrt(error) <= tolerance * sqrt(size)))
        fail_msg("net %s, %s is off by %g of %g, expected %g of it", net.name, what, sqrt(error), sqrt(size),
                 tolerance);
}

static void expect_same_reals(const char *what, nn_fixture *a, const void *of_a, nn_fixture *b, const void *of_b,
                              size_t count, double tolerance)
{
    double *x = nn_read(a, of_a, count), *y = nn_read(b, of_b, count);
    expect_close(what, x, y, count, tolerance);
    free(x);
    free(y);
}

static void expect_same_input_gradient(nn_fixture *a, nn_fixture *b, double tolerance)
{
    double *x = nn_read_map(a, &a->input, rc_pass_input_gradient(a->pass));
    double *y = nn_read_map(b, &b->input, rc_pass_input_gradient(b->pass));
    expect_close("gradient of the input", x, y, nn_map_count(&a->input), tolerance);
    free(x);
    free(y);
}

/* Sums of products in another order: the bits are the same but for a few roundings to bf16, which later layers spread.
 * With 16 channels the order is the same. */
static void check(rc_pass_mode mode, int n, int links)
{
    const rc_pass_settings settings = {.mode = mode, .n = n};
    nn_fixture a, b;
    int layers;
    open_both(&a, &b, &settings);
    size_t features = (size_t)n * (size_t)net.layer[net.layers - 1].c_out;
    if (mode == RC_PASS_FROZEN) {
        nn_step(&a, LOSS);
        nn_step(&b, LOSS);
    } else {
        rc_pass_forward(a.pass, &a.model, &a.input);
        rc_pass_forward(b.pass, &b.model, &b.input);
    }
    nn_must(a.backend->sync(a.backend));
    nn_must(b.backend->sync(b.backend));
    assert_int_equal(links_taken, links);
    assert_int_equal(links_back, mode == RC_PASS_FROZEN ? links : 0);
    expect_same_reals("features", &a, rc_pass_features(a.pass), &b, rc_pass_features(b.pass), features, 0.01);
    const rc_bn_stat *of_a = rc_pass_bn_statistics(a.pass, &layers), *of_b = rc_pass_bn_statistics(b.pass, &layers);
    for (int i = 0; i < layers; i++) {
        double tolerance = of_a[i].c == 16 ? 1e-5 : 0.004;
        expect_same_reals("mean", &a, of_a[i].mean, &b, of_b[i].mean, (size_t)of_a[i].c, tolerance);
        expect_same_reals("variance", &a, of_a[i].var, &b, of_b[i].var, (size_t)of_a[i].c, tolerance);
    }
    if (mode == RC_PASS_FROZEN)
        expect_same_input_gradient(&a, &b, 0.02);
    nn_close(&a);
    nn_close(&b);
}

/* One image is a block's own; of several, two share one where maps are small. */
static void check_net(int links, int batches)
{
    const int images[] = {1, images_sharing};
    for (int i = 0; i < batches; i++) {
        check(RC_PASS_EVAL, images[i], links);
        check(RC_PASS_FROZEN, images[i], links);
    }
}

static void test_linear_sums(void **state)
{
    (void)state;
    nn_must(rc_net_resnet_small(&net, 3, 32, 32, 16, 2));
    check_net(4 + 3 + 3, 2);
}

static void rectify_sums(void)
{
    for (int i = 0; i < net.layers; i++) {
        if (net.layer[i].skip >= 0)
            net.layer[i].act = RC_ACT_RELU;
    }
}

/* As ABD's nets have them. */
static void test_rectified_sums(void **state)
{
    (void)state;
    nn_must(rc_net_resnet_small(&net, 3, 32, 32, 16, 2));
    rectify_sums();
    check_net(4 + 3 + 3, 2);
}

/* Maps of 16 channels are too large here. */
static void test_large_maps(void **state)
{
    (void)state;
    nn_must(rc_net_resnet_small(&net, 3, 64, 64, 16, 2));
    check_net(3 + 3, 1);
    rectify_sums();
    check_net(3 + 3, 1);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        images_sharing = atoi(argv[2]);
    if (argc < 2 || argc > 3 || images_sharing < 1 || setenv("RECOLLECT_CUDA_MODULE", argv[1], 1) != 0) {
        fprintf(stderr, "usage: check_chain MODULE [IMAGES]\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear_sums), cmocka_unit_test(test_rectified_sums),
                                       cmocka_unit_test(test_large_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
