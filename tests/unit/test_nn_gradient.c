/* Gradients of whole nets against central differences, in double. For each named slice of the parameters, and for the
 * input, one random direction: the derivative of the loss along it is compared with the scalar product of the gradient
 * and the direction. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/nn_fixture.h"
#include "support/nn_nets.h"

enum { LOSS = 11, DIRECTION = 9000 };

static double scalar_product(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

typedef void writer(nn_fixture *fixture, const rc_slice *slice, const double *values);

static void write_slice(nn_fixture *fixture, const rc_slice *slice, const double *values)
{
    nn_write(fixture, rc_real_at(fixture->backend, fixture->model.param, slice->offset), values, slice->count);
}

static void write_input(nn_fixture *fixture, const rc_slice *slice, const double *values)
{
    (void)slice;
    fixture->backend->write_act(fixture->backend, &fixture->input, values);
}

/* (loss(values + h direction) - loss(values - h direction)) / 2h */
static double difference(nn_fixture *fixture, writer *write, const rc_slice *slice, const double *values,
                         const double *direction, size_t count, double h)
{
    double loss[2], *moved = malloc((count + 1) * sizeof *moved);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            moved[i] = values[i] + (side == 0 ? h : -h) * direction[i];
        write(fixture, slice, moved);
        loss[side] = nn_loss(fixture, LOSS);
    }
    write(fixture, slice, values);
    free(moved);
    return (loss[0] - loss[1]) / (2 * h);
}

/* Takes `values`. A step over the kink of a ReLU or of a maximum is no derivative: then a shorter one decides. */
static void compare(nn_fixture *fixture, writer *write, const char *name, const rc_slice *slice, double *values,
                    const double *gradient, size_t count, uint64_t seed)
{
    double *direction = nn_random(seed, DIRECTION + (slice ? (uint64_t)slice->offset : 0), count);
    double computed = scalar_product(gradient, direction, count), measured = 0;
    double tolerance = 2e-6 * (1 + sqrt(scalar_product(gradient, gradient, count) * (double)count));
    static const double h[] = {1e-6, 1e-7};
    bool agree = false;
    for (int i = 0; i < 2 && !agree; i++) {
        measured = difference(fixture, write, slice, values, direction, count, h[i]);
        agree = fabs(measured - computed) <= tolerance;
    }
    if (!agree)
        fail_msg("net %s, seed %d, %s: the loss changes by %.10g, its gradient says %.10g", fixture->net->name,
                 (int)seed, name, measured, computed);
    free(direction);
    free(values);
}

static void check_gradients(const rc_net *net, const rc_pass_settings *settings, uint64_t seed)
{
    nn_fixture fixture;
    rc_slice slice;
    bool all = settings->mode == RC_PASS_TRAIN;
    nn_open(&fixture, "reference64", 1, net, settings, seed);
    nn_loss(&fixture, LOSS);
    nn_random_output_gradients(&fixture, LOSS);
    rc_pass_backward(fixture.pass, &fixture.model, all ? fixture.gradient : NULL);
    double *gradient = nn_read(&fixture, fixture.gradient, net->params);
    void *dx = rc_pass_input_gradient(fixture.pass);
    double *input_gradient = dx != NULL ? nn_read_map(&fixture, &fixture.input, dx) : NULL;
    for (int i = 0; all && rc_net_slice(net, i, &slice); i++) {
        void *at = rc_real_at(fixture.backend, fixture.model.param, slice.offset);
        if (!slice.running && slice.offset < rc_net_params_before(net, settings->frozen)) {
            for (size_t k = 0; k < slice.count; k++)
                assert_true(gradient[slice.offset + k] == 0);
            continue;
        }
        if (!slice.running)
            compare(&fixture, write_slice, slice.name, &slice, nn_read(&fixture, at, slice.count),
                    gradient + slice.offset, slice.count, seed);
    }
    if (input_gradient != NULL)
        compare(&fixture, write_input, "input", NULL, nn_read_map(&fixture, &fixture.input, fixture.input.raw),
                input_gradient, nn_map_count(&fixture.input), seed);
    free(gradient);
    free(input_gradient);
    nn_close(&fixture);
}

static const rc_pass_settings train = {.mode = RC_PASS_TRAIN, .n = 3, .input_gradient = true, .update_running = true};
static const rc_pass_settings train_no_input = {.mode = RC_PASS_TRAIN, .n = 3};
static const rc_pass_settings groups = {
    .mode = RC_PASS_TRAIN, .n = 5, .groups = 2, .group_end = {2, 5}, .input_gradient = true, .update_running = true};
static const rc_pass_settings frozen = {.mode = RC_PASS_FROZEN, .n = 3};

static void check_test_nets(const rc_pass_settings *settings)
{
    static rc_net net;
    for (int i = 0; nn_test_net(&net, i) != NULL; i++)
        check_gradients(&net, settings, 100 + (uint64_t)i);
}

static void training(void **state)
{
    (void)state;
    check_test_nets(&train);
    check_test_nets(&train_no_input);
}

static void training_in_two_groups(void **state)
{
    (void)state;
    check_test_nets(&groups);
}

static void frozen_with_statistics(void **state)
{
    (void)state;
    check_test_nets(&frozen);
}

/* Where the first layers stay, the others have the gradients of a net that normalises with running statistics first;
 * running statistics of the first stay, those of the others move. */
static void check_frozen(const rc_net *net, int first, uint64_t seed)
{
    rc_pass_settings settings = groups;
    settings.input_gradient = false;
    settings.frozen = first;
    check_gradients(net, &settings, seed);
    nn_fixture fixture;
    rc_slice slice;
    nn_open(&fixture, "reference64", 1, net, &settings, seed);
    double *before = nn_read(&fixture, fixture.model.running, net->running);
    nn_step(&fixture, LOSS);
    double *after = nn_read(&fixture, fixture.model.running, net->running);
    for (int i = 0; rc_net_slice(net, i, &slice); i++) {
        bool stays = false, same = true;
        for (int k = 0; k < first; k++)
            stays |= slice.offset == net->layer[k].running_mean || slice.offset == net->layer[k].running_var;
        for (size_t k = 0; slice.running && k < slice.count; k++)
            same &= before[slice.offset + k] == after[slice.offset + k];
        if (slice.running && same != stays)
            fail_msg("net %s, %d layers frozen: %s %s", net->name, first, slice.name, same ? "stays" : "moves");
    }
    free(before);
    free(after);
    nn_close(&fixture);
}

static void first_layers_may_stay(void **state)
{
    (void)state;
    static rc_net net;
    for (int i = 0; nn_test_net(&net, i) != NULL; i++)
        for (int first = 1; first < net.layers; first++)
            check_frozen(&net, first, 100 + (uint64_t)i);
}

static void random_nets(void **state)
{
    (void)state;
    static rc_net net;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        nn_random_net(&net, seed);
        check_gradients(&net, seed % 3 == 0 ? &frozen : seed % 3 == 1 ? &train : &groups, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training),
        cmocka_unit_test(training_in_two_groups),
        cmocka_unit_test(frozen_with_statistics),
        cmocka_unit_test(first_layers_may_stay),
        cmocka_unit_test(random_nets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
