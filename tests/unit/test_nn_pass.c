/* Passes against one another: fast paths must compute what slow paths compute, and calls must leave alone what they do
 * not own. Gradients themselves are checked in test_nn_gradient.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "support/nn_fixture.h"
#include "support/nn_nets.h"

enum { LOSS = 21, RANDOM_NETS = 40 };

static rc_net net;

/* The test nets, then random ones. */
static bool next_net(int index)
{
    int tests = 0;
    static rc_net probe;
    while (nn_test_net(&probe, tests) != NULL)
        tests++;
    if (index < tests)
        return nn_test_net(&net, index) != NULL;
    if (index >= tests + RANDOM_NETS)
        return false;
    nn_random_net(&net, 500 + (uint64_t)index);
    return true;
}

static void expect_close(const char *what, const double *a, const double *b, size_t count, double tolerance)
{
    double size = 0;
    for (size_t i = 0; i < count; i++)
        size = fmax(size, fabs(b[i]));
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(a[i] - b[i]) <= tolerance * (1 + size)))
            fail_msg("net %s, %s: element %zu is %.17g, expected %.17g", net.name, what, i, a[i], b[i]);
    }
}

/* Values of output i (a map or features); the caller frees them. */
static double *read_output(nn_fixture *fixture, int i, size_t *count)
{
    const rc_tensor *out = rc_pass_finished_output(fixture->pass, i);
    if (out == NULL) {
        *count = (size_t)fixture->input.n * (size_t)net.layer[i].c_out;
        return nn_read(fixture, rc_pass_features(fixture->pass), *count);
    }
    *count = nn_map_count(out);
    return nn_read_map(fixture, out, out->raw);
}

static void expect_same_outputs(nn_fixture *a, nn_fixture *b, double tolerance)
{
    for (int i = 0; i < net.layers; i++) {
        if (!net.layer[i].output)
            continue;
        size_t count, other;
        double *x = read_output(a, i, &count), *y = read_output(b, i, &other);
        assert_int_equal(count, other);
        expect_close(net.layer[i].name, x, y, count, tolerance);
        free(x);
        free(y);
    }
}

static void expect_same_reals(nn_fixture *a, const void *of_a, nn_fixture *b, const void *of_b, size_t count,
                              const char *what, double tolerance)
{
    double *x = nn_read(a, of_a, count), *y = nn_read(b, of_b, count);
    expect_close(what, x, y, count, tolerance);
    free(x);
    free(y);
}

static const rc_pass_settings train = {.mode = RC_PASS_TRAIN, .n = 5, .input_gradient = true, .update_running = true};
static const rc_pass_settings grouped = {
    .mode = RC_PASS_TRAIN, .n = 5, .groups = 2, .group_end = {2, 5}, .input_gradient = true, .update_running = true};
static const rc_pass_settings frozen = {.mode = RC_PASS_FROZEN, .n = 5};
static const rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = 5};

/* ---- modes ------------------------------------------------------------------------------------------------------ */

/* EVAL finishes values in epilogues and reuses memory; FROZEN keeps everything and finishes when values are read. */
static void eval_equals_frozen(void **state)
{
    (void)state;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a, b;
        nn_open(&a, "reference64", 1, &net, &eval, 1);
        nn_open(&b, "reference64", 1, &net, &frozen, 1);
        rc_pass_forward(a.pass, &a.model, &a.input);
        rc_pass_forward(b.pass, &b.model, &b.input);
        expect_same_outputs(&a, &b, 1e-13);
        assert_true(rc_pass_bytes(a.pass) <= rc_pass_bytes(b.pass));
        rc_pass_forward(a.pass, &a.model, &a.input); /* memory that was reused must not matter the second time */
        expect_same_outputs(&a, &b, 1e-13);
        nn_close(&a);
        nn_close(&b);
    }
}

/* Running statistics set to those of the batch: then FROZEN computes what TRAIN computes. */
static void frozen_with_batch_statistics_equals_train(void **state)
{
    (void)state;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a, b;
        nn_open(&a, "reference64", 1, &net, &train, 1);
        nn_open(&b, "reference64", 1, &net, &frozen, 1);
        rc_pass_forward(a.pass, &a.model, &a.input);
        for (int layer = 0; layer < net.layers; layer++) { /* a layer's statistics change those of later ones */
            int count, stat = 0;
            rc_pass_forward(b.pass, &b.model, &b.input);
            const rc_bn_stat *stats = rc_pass_bn_statistics(b.pass, &count);
            assert_int_equal(count, net.bn_layers);
            for (int l = 0; l < layer; l++)
                stat += net.layer[l].bn.on;
            if (!net.layer[layer].bn.on)
                continue;
            size_t c = (size_t)stats[stat].c;
            double *mean = nn_read(&b, stats[stat].mean, c), *var = nn_read(&b, stats[stat].var, c);
            nn_write(&b, rc_real_at(b.backend, b.model.running, net.layer[layer].running_mean), mean, c);
            nn_write(&b, rc_real_at(b.backend, b.model.running, net.layer[layer].running_var), var, c);
            free(mean);
            free(var);
        }
        rc_pass_forward(b.pass, &b.model, &b.input);
        expect_same_outputs(&a, &b, 1e-11);
        nn_close(&a);
        nn_close(&b);
    }
}

static void frozen_and_eval_change_no_model(void **state)
{
    (void)state;
    const rc_pass_settings *modes[] = {&frozen, &eval};
    for (int i = 0; next_net(i); i++) {
        for (int mode = 0; mode < 2; mode++) {
            nn_fixture a, untouched;
            nn_open(&a, "cpu", 2, &net, modes[mode], 1);
            nn_open(&untouched, "cpu", 2, &net, modes[mode], 1);
            rc_pass_forward(a.pass, &a.model, &a.input);
            if (mode == 0)
                nn_random_output_gradients(&a, LOSS);
            rc_pass_backward(a.pass, &a.model, NULL);
            expect_same_reals(&a, a.model.running, &untouched, untouched.model.running, net.running, "running", 0);
            expect_same_reals(&a, a.model.param, &untouched, untouched.model.param, net.params, "parameters", 0);
            nn_close(&a);
            nn_close(&untouched);
        }
    }
}

static void running_statistics_are_updated_as_asked(void **state)
{
    (void)state;
    rc_pass_settings never = train, twice = train;
    never.update_running = false;
    twice.running_updates = 2;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a, b, c, untouched;
        nn_open(&a, "reference64", 1, &net, &train, 1);
        nn_open(&b, "reference64", 1, &net, &twice, 1);
        nn_open(&c, "reference64", 1, &net, &never, 1);
        nn_open(&untouched, "reference64", 1, &net, &train, 1);
        rc_pass_forward(a.pass, &a.model, &a.input);
        rc_pass_forward(a.pass, &a.model, &a.input);
        rc_pass_forward(b.pass, &b.model, &b.input);
        rc_pass_forward(c.pass, &c.model, &c.input);
        expect_same_outputs(&c, &a, 1e-12);
        expect_same_reals(&b, b.model.running, &a, a.model.running, net.running, "twice", 1e-7); /* float momentum */
        expect_same_reals(&c, c.model.running, &untouched, untouched.model.running, net.running, "never", 0);
        nn_close(&a);
        nn_close(&b);
        nn_close(&c);
        nn_close(&untouched);
    }
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

/* Copies images [first, first + count) of a batch of 5. */
static void write_images(nn_fixture *to, nn_fixture *from, int first)
{
    size_t image = nn_map_count(&from->input) / (size_t)from->input.n;
    double *all = nn_read_map(from, &from->input, from->input.raw);
    to->backend->write_act(to->backend, &to->input, all + (size_t)first * image);
    free(all);
}

/* One pass over two groups computes what two passes compute, one after the other. */
static void groups_equal_separate_passes(void **state)
{
    (void)state;
    const int begin[2] = {0, 2}, size[2] = {2, 3};
    for (int i = 0; next_net(i); i++) {
        nn_fixture both, one[2];
        nn_open(&both, "reference64", 1, &net, &grouped, 1);
        rc_pass_forward(both.pass, &both.model, &both.input);
        for (int g = 0; g < 2; g++) {
            rc_pass_settings alone = train;
            alone.n = size[g];
            nn_open(&one[g], "reference64", 1, &net, &alone, 1);
            write_images(&one[g], &both, begin[g]);
        }
        rc_pass_forward(one[0].pass, &one[0].model, &one[0].input);
        rc_model_copy(&one[1].model, &one[0].model);
        rc_pass_forward(one[1].pass, &one[1].model, &one[1].input);
        expect_same_reals(&both, both.model.running, &one[1], one[1].model.running, net.running, "running", 1e-12);
        for (int layer = 0; layer < net.layers; layer++) {
            if (!net.layer[layer].output)
                continue;
            size_t count, first, second;
            double *x = read_output(&both, layer, &count);
            double *a = read_output(&one[0], layer, &first), *b = read_output(&one[1], layer, &second);
            assert_int_equal(first + second, count);
            expect_close("first group", x, a, first, 1e-11);
            expect_close("second group", x + first, b, second, 1e-11);
            free(x);
            free(a);
            free(b);
        }
        nn_close(&both);
        nn_close(&one[0]);
        nn_close(&one[1]);
    }
}

/* A pass that was made for more images works on fewer. */
static void smaller_batches(void **state)
{
    (void)state;
    const rc_pass_settings *large[] = {&train, &frozen, &eval};
    for (int i = 0; next_net(i); i++) {
        for (int mode = 0; mode < 3; mode++) {
            rc_pass_settings small = *large[mode];
            small.n = 3;
            nn_fixture a, b;
            nn_open(&a, "reference64", 1, &net, large[mode], 1);
            nn_open(&b, "reference64", 1, &net, &small, 1);
            rc_pass_forward(a.pass, &a.model, &a.input); /* leaves traces of five images */
            rc_model_copy(&a.model, &b.model);
            write_images(&b, &a, 1);
            a.input.n = 3;
            a.input.group_end[0] = 3;
            double *images = nn_read_map(&b, &b.input, b.input.raw);
            a.backend->write_act(a.backend, &a.input, images);
            free(images);
            nn_must(rc_pass_set_batch(a.pass, 3, NULL));
            nn_step(&b, LOSS);
            nn_step(&a, LOSS);
            expect_same_outputs(&a, &b, 0);
            expect_same_reals(&a, a.gradient, &b, b.gradient, net.params, "gradient", 0);
            nn_close(&a);
            nn_close(&b);
        }
    }
}

/* ---- what a call may rely on and must leave alone --------------------------------------------------------------- */

static void gradients_are_overwritten(void **state)
{
    (void)state;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a;
        rc_pass_settings settings = train;
        settings.update_running = false;
        nn_open(&a, "cpu", 2, &net, &settings, 1);
        double *garbage = nn_random(1, 1, net.params);
        nn_step(&a, LOSS);
        double *first = nn_read(&a, a.gradient, net.params);
        nn_write(&a, a.gradient, garbage, net.params);
        nn_step(&a, LOSS); /* nor is anything else left of the first */
        double *second = nn_read(&a, a.gradient, net.params);
        expect_close("gradient", second, first, net.params, 0);
        for (int l = 0; l < net.layers; l++) {
            const rc_layer *layer = &net.layer[l];
            for (size_t c = 0; rc_layer_bias_cancels(layer) && c < (size_t)layer->c_out; c++)
                assert_true(second[layer->bias_at + c] == 0);
        }
        free(garbage);
        free(first);
        free(second);
        nn_close(&a);
    }
}

/* Gradients of outputs that no layer reads are the caller's: backward reads them and no more. */
static void output_gradients_are_left_alone(void **state)
{
    (void)state;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a;
        bool read[RC_MAX_LAYERS + 2] = {false};
        for (int l = 0; l < net.layers; l++)
            read[net.layer[l].in + 2] = read[net.layer[l].skip + 2] = true;
        nn_open(&a, "reference64", 1, &net, &train, 1);
        nn_step(&a, LOSS);
        for (int l = 0; l < net.layers; l++) {
            const rc_layer *layer = &net.layer[l];
            if (!layer->output || read[l + 2] || layer->kind == RC_LAYER_AVERAGE_POOL)
                continue;
            const rc_tensor *shape = rc_pass_output(a.pass, l);
            double *after = nn_read_map(&a, shape, rc_pass_output_gradient(a.pass, l));
            nn_random_output_gradients(&a, LOSS);
            double *given = nn_read_map(&a, shape, rc_pass_output_gradient(a.pass, l));
            expect_close("output gradient", after, given, nn_map_count(shape), 0);
            free(after);
            free(given);
        }
        nn_close(&a);
    }
}

static void no_allocation_in_a_step(void **state)
{
    (void)state;
    const rc_pass_settings *modes[] = {&train, &grouped, &frozen, &eval};
    for (int i = 0; next_net(i); i++) {
        for (int mode = 0; mode < 4; mode++) {
            nn_fixture a;
            nn_open(&a, "cpu", 2, &net, modes[mode], 1);
            uint64_t before = rc_allocation_count();
            rc_pass_forward(a.pass, &a.model, &a.input);
            rc_pass_zero_output_gradients(a.pass);
            rc_pass_backward(a.pass, &a.model, mode < 2 ? a.gradient : NULL);
            assert_int_equal(rc_allocation_count(), before);
            nn_close(&a);
        }
    }
}

static void zeroed_output_gradients_give_zero(void **state)
{
    (void)state;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a;
        nn_open(&a, "reference64", 1, &net, &train, 1);
        nn_step(&a, LOSS);
        rc_pass_zero_output_gradients(a.pass);
        rc_pass_backward(a.pass, &a.model, a.gradient);
        double *gradient = nn_read(&a, a.gradient, net.params);
        for (size_t p = 0; p < net.params; p++)
            assert_true(gradient[p] == 0);
        free(gradient);
        nn_close(&a);
    }
}

static void same_bits_for_any_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        if (i == 0)
            nn_must(rc_net_resnet_small(&net, 3, 17, 16, 16, 1));
        else if (i == 1)
            nn_must(rc_net_generator_small(&net, 3, 28, 10, 16));
        else
            nn_test_net(&net, i);
        nn_fixture one;
        rc_pass_settings settings = grouped;
        nn_open(&one, "cpu", 1, &net, &settings, 1);
        nn_step(&one, LOSS);
        for (int threads = 2; threads <= 3; threads++) {
            nn_fixture many;
            nn_open(&many, "cpu", threads, &net, &settings, 1);
            nn_step(&many, LOSS);
            expect_same_outputs(&many, &one, 0);
            expect_same_reals(&many, many.gradient, &one, one.gradient, net.params, "gradient", 0);
            expect_same_reals(&many, many.model.running, &one, one.model.running, net.running, "running", 0);
            nn_close(&many);
        }
        nn_close(&one);
    }
}

static void (*data_gradient)(rc_backend *, const rc_conv *, const rc_grad *, const void *, void *,
                             const rc_back_epilogue *);
static int data_gradients;

static void counted_data_gradient(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                                  const rc_back_epilogue *epilogue)
{
    data_gradient(be, conv, dy, weight, dx, epilogue);
    data_gradients++;
}

/* Both gradients of a convolution at once have the bits of one after the other. An entry that somebody has replaced,
 * before or after the pass was made, runs. */
static void gradients_at_once_change_no_bit(void **state)
{
    (void)state;
    rc_pass_settings many = {.mode = RC_PASS_TRAIN, .n = 33, .update_running = true};
    nn_must(rc_net_resnet_small(&net, 3, 17, 16, 16, 1));
    nn_fixture once, before, after;
    nn_open(&once, "cpu", 2, &net, &many, 1);
    nn_step(&once, LOSS);
    nn_open(&after, "cpu", 2, &net, &many, 1);
    data_gradient = after.backend->conv_backward_data;
    after.backend->conv_backward_data = counted_data_gradient;
    rc_backend *be;
    nn_must(rc_backend_open("cpu", 2, NULL, &be));
    be->conv_backward_data = counted_data_gradient;
    nn_open_on(&before, be, &net, &many, 1);
    nn_step(&after, LOSS);
    int counted = data_gradients;
    assert_true(counted > 0);
    nn_step(&before, LOSS);
    assert_int_equal(data_gradients, 2 * counted);
    expect_same_reals(&before, before.gradient, &once, once.gradient, net.params, "gradient", 0);
    expect_same_reals(&after, after.gradient, &once, once.gradient, net.params, "gradient", 0);
    nn_close(&once);
    nn_close(&before);
    nn_close(&after);
}

/* The kernels of the CPU backend, through whole nets. */
static void cpu_equals_double_reference(void **state)
{
    (void)state;
    for (int i = 0; next_net(i); i++) {
        nn_fixture a, b;
        nn_open(&a, "cpu", 2, &net, &grouped, 1);
        nn_open(&b, "reference64", 1, &net, &grouped, 1);
        nn_step(&a, LOSS);
        nn_step(&b, LOSS);
        expect_same_outputs(&a, &b, 1e-4);
        expect_same_reals(&a, a.gradient, &b, b.gradient, net.params, "gradient", 1e-4);
        nn_close(&a);
        nn_close(&b);
    }
}

/* The model may be prepared once; a changed one is noticed by those that prepare each time. */
static void constant_models_are_prepared_once(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        nn_test_net(&net, 0);
        rc_pass_settings settings = mode == 0 ? eval : frozen;
        settings.constant_model = true;
        nn_fixture constant, changing;
        nn_open(&constant, "reference64", 1, &net, &settings, 1);
        settings.constant_model = false;
        nn_open(&changing, "reference64", 1, &net, &settings, 1);
        rc_pass_prepare(constant.pass, &constant.model);
        for (int i = 0; i < 2; i++) {
            rc_pass_forward(constant.pass, &constant.model, &constant.input);
            rc_pass_forward(changing.pass, &changing.model, &changing.input);
            expect_same_outputs(&constant, &changing, 0);
        }
        double *gamma = nn_random(5, 5, (size_t)net.layer[0].c_out);
        nn_write(&constant, rc_real_at(constant.backend, constant.model.param, net.layer[0].gamma), gamma,
                 (size_t)net.layer[0].c_out);
        rc_pass_forward(constant.pass, &constant.model, &constant.input);
        expect_same_outputs(&constant, &changing, 0);
        free(gamma);
        nn_close(&constant);
        nn_close(&changing);
    }
}

/* A generator's lazy output as the input of another net: its first reader stores the value. */
static void lazy_inputs_are_stored_once(void **state)
{
    (void)state;
    static rc_net classifier;
    nn_must(rc_net_generator_small(&net, 3, 14, 5, 6));
    nn_must(rc_net_resnet_small(&classifier, 3, 14, 14, 4, 1));
    nn_fixture images;
    rc_pass_settings settings = train;
    settings.update_running = false; /* sums are centred at the running mean */
    nn_open(&images, "reference64", 1, &net, &settings, 1);
    rc_backend *be = images.backend;
    rc_model model;
    rc_pass *pass;
    nn_must(rc_model_create(&model, &classifier, be));
    nn_must(rc_model_init(&model, (rc_rng){4, 4}));
    nn_must(rc_pass_create(be, &classifier, &frozen, &pass));
    double *features[2];
    for (int lazy = 0; lazy < 2; lazy++) {
        rc_pass_forward(images.pass, &images.model, &images.input);
        rc_tensor *out = rc_pass_output(images.pass, RC_NO_LAYER);
        assert_false(out->stored);
        if (!lazy)
            out = rc_pass_finished_output(images.pass, RC_NO_LAYER);
        rc_pass_forward(pass, &model, out);
        assert_true(rc_pass_output(images.pass, RC_NO_LAYER)->stored);
        features[lazy] = nn_read(&images, rc_pass_features(pass), 5 * 16);
    }
    expect_close("features", features[1], features[0], 5 * 16, 0);
    free(features[0]);
    free(features[1]);
    rc_pass_destroy(pass);
    rc_model_destroy(&model);
    nn_close(&images);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* ResNet-32 at 32 pixels: maps of the first stage are the largest. */
static void memory_is_reused(void **state)
{
    (void)state;
    rc_backend *be;
    rc_pass *pass;
    nn_must(rc_backend_open("cpu", 1, NULL, &be));
    nn_must(rc_net_resnet32(&net, 3, 32, 32));
    rc_pass_settings settings = {.mode = RC_PASS_EVAL, .n = 16};
    double map = 16.0 * 32 * 32 * 16 * 4, all = 16.0 * 1184.2 * 1024;
    nn_must(rc_pass_create(be, &net, &settings, &pass));
    assert_true((double)rc_pass_bytes(pass) < 3.1 * map); /* input of the block, inside, result */
    rc_pass_destroy(pass);
    settings.mode = RC_PASS_TRAIN;
    nn_must(rc_pass_create(be, &net, &settings, &pass));
    /* raw results, the values of the stem and of all sums; gradients take the place of what is not needed any more */
    double values = all * 17 / 32 + map;
    assert_true((double)rc_pass_bytes(pass) > all);
    assert_true((double)rc_pass_bytes(pass) < all + values);
    rc_pass_destroy(pass);
    rc_backend_close(be);
}

static void compare_outputs(nn_fixture *a, rc_pass *one, rc_pass *two)
{
    for (int l = 0; l < net.layers; l++) {
        const rc_tensor *map = rc_pass_output(one, l);
        if (!net.layer[l].output)
            continue;
        size_t count = (size_t)a->input.n * (size_t)net.layer[l].c_out;
        double *x = map ? nn_read_map(a, map, map->raw) : nn_read(a, rc_pass_features(one), count);
        double *y = map ? nn_read_map(a, map, rc_pass_output(two, l)->raw) : nn_read(a, rc_pass_features(two), count);
        expect_close("output", y, x, map ? nn_map_count(map) : count, 0);
        free(x);
        free(y);
    }
}

/* A pass in the memory of another: the same bits as in its own, before every step of the lender; which goes on as if
 * nobody had been there. Where it does not pay it has memory of its own. */
static void passes_lend_memory(void **state)
{
    (void)state;
    size_t saved = 0;
    for (int i = 0; next_net(i); i++) {
        nn_fixture lender, other;
        rc_pass *own, *borrower, *beside;
        nn_open(&lender, "cpu", 2, &net, &train, 1);
        nn_open(&other, "cpu", 2, &net, &train, 1);
        rc_pass_settings settings = {.mode = RC_PASS_EVAL, .n = train.n};
        nn_must(rc_pass_create(lender.backend, &net, &settings, &own));
        settings.lender = lender.pass;
        nn_must(rc_pass_create(lender.backend, &net, &settings, &borrower));
        assert_true(rc_pass_borrows(borrower));
        assert_false(rc_pass_borrows(own));
        assert_true(rc_pass_bytes(borrower) <= rc_pass_bytes(own));
        saved += rc_pass_bytes(own) - rc_pass_bytes(borrower);
        lender.backend->busy_bytes = SIZE_MAX;
        nn_must(rc_pass_create(lender.backend, &net, &settings, &beside));
        assert_false(rc_pass_borrows(beside));
        assert_int_equal(rc_pass_bytes(beside), rc_pass_bytes(own));
        for (int step = 0; step < 2; step++) {
            rc_pass_forward(own, &lender.model, &lender.input);
            rc_pass_forward(borrower, &lender.model, &lender.input);
            nn_step(&lender, LOSS);
            nn_step(&other, LOSS);
            compare_outputs(&lender, own, borrower);
        }
        double *x = nn_read(&lender, lender.gradient, net.params), *y = nn_read(&other, other.gradient, net.params);
        expect_close("gradient", x, y, net.params, 0);
        free(x);
        free(y);
        rc_pass_destroy(own);
        rc_pass_destroy(borrower);
        rc_pass_destroy(beside);
        nn_close(&lender);
        nn_close(&other);
    }
    assert_true(saved > 0);
}

static void refused(rc_backend *be, rc_pass_settings settings, const char *words)
{
    rc_pass *pass = (rc_pass *)&settings;
    assert_int_equal(rc_pass_create(be, &net, &settings, &pass), RC_INVALID_ARGUMENT);
    assert_null(pass);
    if (strstr(rc_message(), words) == NULL)
        fail_msg("message is \"%s\", expected \"%s\"", rc_message(), words);
}

static void bad_settings(void **state)
{
    (void)state;
    rc_backend *be;
    rc_pass *pass;
    rc_tensor tensor;
    nn_must(rc_backend_open("cpu", 1, NULL, &be));
    nn_must(rc_net_resnet32(&net, 3, 4, 4));
    refused(be, (rc_pass_settings){.mode = (rc_pass_mode)3, .n = 1}, "mode is 3");
    refused(be, (rc_pass_settings){.n = 0}, "batch size is 0");
    refused(be, (rc_pass_settings){.n = -7}, "batch size is -7");
    refused(be, (rc_pass_settings){.n = 8, .groups = 5}, "groups is 5");
    refused(be, (rc_pass_settings){.n = 8, .groups = -1}, "groups is -1");
    refused(be, (rc_pass_settings){.n = 8, .groups = 2, .group_end = {4, 7}}, "group 1 ends at image 7");
    refused(be, (rc_pass_settings){.n = 8, .groups = 2, .group_end = {0, 8}}, "group 0 ends at image 0");
    refused(be, (rc_pass_settings){.n = 8, .groups = 2, .group_end = {9, 8}}, "group 0 ends at image 9");
    refused(be, (rc_pass_settings){.mode = RC_PASS_FROZEN, .n = 8, .groups = 2, .group_end = {4, 8}}, "groups is 2");
    refused(be, (rc_pass_settings){.n = 8, .running_updates = -1}, "running_updates is -1");
    refused(be, (rc_pass_settings){.n = INT32_MAX}, "elements for a batch of 2147483647");
    refused(be, (rc_pass_settings){.n = 1}, "'stage_3.blocks.0.conv_a' has one value per channel in group 0");
    nn_must(rc_pass_create(be, &net, &eval, &pass));
    assert_int_equal(rc_pass_set_batch(pass, 6, NULL), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_pass_set_batch(pass, 0, NULL), RC_INVALID_ARGUMENT);
    assert_null(rc_pass_output(pass, 3));
    assert_null(rc_pass_output(pass, 1000));
    assert_null(rc_pass_finished_output(pass, RC_NO_LAYER));
    assert_null(rc_pass_output_gradient(pass, 3));
    assert_null(rc_pass_input_gradient(pass));
    rc_pass_destroy(pass);
    rc_pass_destroy(NULL);
    nn_must(rc_pass_create(be, &net, &grouped, &pass));
    assert_int_equal(rc_pass_set_batch(pass, 4, NULL), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_pass_set_batch(pass, 4, (int[]){3, 4}), RC_INVALID_ARGUMENT); /* one value per channel */
    nn_must(rc_pass_set_batch(pass, 4, (int[]){2, 4}));
    rc_pass_destroy(pass);
    assert_int_equal(rc_tensor_create(be, 0, 1, 1, 1, &tensor), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_tensor_create(be, 1 << 16, 1 << 16, 1, 1, &tensor), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_tensor_create(be, 1, 1, 1, INT32_MAX, &tensor), RC_INVALID_ARGUMENT);
    assert_null(tensor.raw);
    rc_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eval_equals_frozen),
        cmocka_unit_test(frozen_with_batch_statistics_equals_train),
        cmocka_unit_test(frozen_and_eval_change_no_model),
        cmocka_unit_test(running_statistics_are_updated_as_asked),
        cmocka_unit_test(groups_equal_separate_passes),
        cmocka_unit_test(smaller_batches),
        cmocka_unit_test(gradients_are_overwritten),
        cmocka_unit_test(output_gradients_are_left_alone),
        cmocka_unit_test(no_allocation_in_a_step),
        cmocka_unit_test(zeroed_output_gradients_give_zero),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(gradients_at_once_change_no_bit),
        cmocka_unit_test(cpu_equals_double_reference),
        cmocka_unit_test(constant_models_are_prepared_once),
        cmocka_unit_test(lazy_inputs_are_stored_once),
        cmocka_unit_test(memory_is_reused),
        cmocka_unit_test(passes_lend_memory),
        cmocka_unit_test(bad_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
