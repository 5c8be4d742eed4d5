/* Weights: how they start, how they are copied; the growing head; optimisers over ranges; the schedule. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "nn/model.h"
#include "nn/nets.h"
#include "nn/optimiser.h"
#include "nn/schedule.h"
#include "support/nn_fixture.h"

static rc_net net;

static rc_backend *open_backend(void)
{
    rc_backend *be;
    nn_must(rc_backend_open("cpu", 2, NULL, &be));
    return be;
}

/* Mean, standard deviation and largest magnitude of a named slice. */
typedef struct moments {
    double mean, deviation, largest;
    size_t count;
} moments;

static moments slice_moments(const rc_model *model, const char *name)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(model->net, i, &slice); i++) {
        if (strcmp(slice.name, name) != 0)
            continue;
        double *values = malloc(slice.count * sizeof *values), sum = 0, squares = 0, largest = 0;
        const void *base = slice.running ? model->running : model->param;
        model->backend->read_real64(model->backend, values, rc_real_at(model->backend, base, slice.offset),
                                    slice.count);
        for (size_t j = 0; j < slice.count; j++) {
            sum += values[j];
            squares += values[j] * values[j];
            largest = fmax(largest, fabs(values[j]));
        }
        free(values);
        double n = (double)slice.count, mean = sum / n;
        return (moments){mean, sqrt(squares / n - mean * mean), largest, slice.count};
    }
    fail_msg("no slice %s", name);
    return (moments){0};
}

/* Within four standard errors, which a stream of this length misses once in 16000. */
static void assert_normal(moments m, double deviation)
{
    double n = (double)m.count;
    assert_true(fabs(m.mean) < 4 * deviation / sqrt(n));
    assert_true(fabs(m.deviation - deviation) < 4 * deviation / sqrt(2 * n));
}

static void assert_uniform(moments m, double bound)
{
    double n = (double)m.count;
    assert_true(m.largest <= bound);
    assert_true(m.largest > bound * (1 - 12 / n));
    assert_true(fabs(m.mean) < 4 * bound / sqrt(3 * n));
    assert_true(fabs(m.deviation - bound / sqrt(3)) < 4 * bound / sqrt(3) / sqrt(n));
}

static void assert_constant(moments m, double value)
{
    assert_true(m.mean == value && m.largest == fabs(value));
}

static void initial_values(void **state)
{
    (void)state;
    rc_backend *be = open_backend();
    rc_model model;
    rc_rng rng = {7, 100};
    nn_must(rc_net_resnet32(&net, 3, 32, 32));
    nn_must(rc_model_create(&model, &net, be));
    nn_must(rc_model_init(&model, rng));
    assert_normal(slice_moments(&model, "stage_4.conv_a.weight"), sqrt(2.0 / (64 * 9)));
    assert_normal(slice_moments(&model, "stage_2.blocks.0.conv_a.weight"), sqrt(2.0 / (32 * 9)));
    assert_constant(slice_moments(&model, "stage_1.blocks.2.bn_a.weight"), 1);
    assert_constant(slice_moments(&model, "stage_1.blocks.2.bn_b.weight"), 0);
    assert_constant(slice_moments(&model, "stage_1.blocks.2.bn_b.bias"), 0);
    assert_constant(slice_moments(&model, "bn_1.running_mean"), 0);
    assert_constant(slice_moments(&model, "bn_1.running_var"), 1);
    rc_model_destroy(&model);

    nn_must(rc_net_resnet32_abd(&net, 3, 32, 32));
    nn_must(rc_model_create(&model, &net, be));
    nn_must(rc_model_init(&model, rng));
    assert_normal(slice_moments(&model, "stage_2.0.conv_a.weight"), sqrt(2.0 / (16 * 9)));
    assert_constant(slice_moments(&model, "stage_2.0.bn_b.weight"), 1);
    rc_model_destroy(&model);

    nn_must(rc_net_generator(&net, 3, 32));
    nn_must(rc_model_create(&model, &net, be));
    nn_must(rc_model_init(&model, rng));
    assert_uniform(slice_moments(&model, "linear.weight"), 1 / sqrt(1000));
    assert_uniform(slice_moments(&model, "linear.bias"), 1 / sqrt(1000));
    assert_uniform(slice_moments(&model, "conv_2.weight"), 1 / sqrt(128 * 9));
    rc_model_destroy(&model);

    nn_must(rc_net_vae_decoder(&net, 3, 32, RC_VAE_WIDTH));
    nn_must(rc_model_create(&model, &net, be));
    nn_must(rc_model_init(&model, rng));
    assert_uniform(slice_moments(&model, "deconv_1.weight"), 1 / sqrt(256 * 16));
    rc_model_destroy(&model);
    rc_model_destroy(&model);
    rc_backend_close(be);
}

static bool same_bytes(rc_backend *be, const void *a, const void *b, size_t count)
{
    double *x = malloc((count + 1) * sizeof *x), *y = malloc((count + 1) * sizeof *y);
    be->read_real64(be, x, a, count);
    be->read_real64(be, y, b, count);
    bool same = memcmp(x, y, count * sizeof *x) == 0;
    free(x);
    free(y);
    return same;
}

static void models_are_reproducible_and_copied(void **state)
{
    (void)state;
    rc_backend *be = open_backend();
    rc_model a, b;
    nn_must(rc_net_resnet_small(&net, 3, 16, 16, 8, 1));
    nn_must(rc_model_create(&a, &net, be));
    nn_must(rc_model_create(&b, &net, be));
    nn_must(rc_model_init(&a, (rc_rng){1, 0}));
    nn_must(rc_model_init(&b, (rc_rng){1, 0}));
    assert_true(same_bytes(be, a.param, b.param, net.params));
    nn_must(rc_model_init(&b, (rc_rng){2, 0}));
    assert_false(same_bytes(be, a.param, b.param, net.params));
    be->write_real(be, b.running, (float[]){42}, 1);
    rc_model_copy(&a, &b);
    assert_true(same_bytes(be, a.param, b.param, net.params));
    assert_true(same_bytes(be, a.running, b.running, net.running));
    rc_model_destroy(&a);
    rc_model_destroy(&b);
    rc_backend_close(be);
}

static void head_grows_and_keeps_its_rows(void **state)
{
    (void)state;
    enum { D = 64 };
    rc_backend *be = open_backend();
    rc_head head, copy;
    float before[20 * D], after[70 * D];
    nn_must(rc_head_create(&head, be, D, 20));
    nn_must(rc_head_create(&copy, be, D, 1));
    nn_must(rc_head_grow(&head, 20, (rc_rng){3, 1}));
    be->read_real(be, before, head.weight, 20 * D);
    nn_must(rc_head_grow(&head, 50, (rc_rng){3, 2}));
    assert_int_equal(head.classes, 70);
    assert_int_equal(head.tasks, 2);
    assert_int_equal(head.task_end[0], 20);
    assert_int_equal(head.task_end[1], 70);
    assert_true(head.capacity >= 70);
    be->read_real(be, after, head.weight, 70 * D);
    assert_memory_equal(before, after, sizeof before);
    double squares = 0;
    for (int i = 0; i < 70 * D; i++)
        squares += (double)after[i] * (double)after[i];
    assert_true(fabs(sqrt(squares / (70 * D)) - 0.001) < 4 * 0.001 / sqrt(2 * 70 * D));
    nn_must(rc_head_copy(&copy, &head));
    assert_int_equal(copy.classes, 70);
    assert_int_equal(copy.task_end[1], 70);
    assert_true(same_bytes(be, copy.weight, head.weight, 70 * D));

    assert_int_equal(rc_head_grow(&head, 0, (rc_rng){3, 3}), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_head_grow(&head, INT32_MAX, (rc_rng){3, 3}), RC_INVALID_ARGUMENT);
    assert_int_equal(rc_head_grow(&head, INT32_MAX / 2, (rc_rng){3, 3}), RC_INVALID_ARGUMENT);
    assert_int_equal(head.classes, 70);
    head.tasks = RC_MAX_TASKS;
    assert_int_equal(rc_head_grow(&head, 1, (rc_rng){3, 3}), RC_INVALID_ARGUMENT);
    rc_head other;
    assert_int_equal(rc_head_create(&other, be, 0, 10), RC_INVALID_ARGUMENT);
    nn_must(rc_head_create(&other, be, D + 1, 10));
    assert_int_equal(rc_head_copy(&other, &head), RC_INVALID_ARGUMENT);
    rc_head_destroy(&other);
    rc_head_destroy(&copy);
    rc_head_destroy(&head);
    rc_head_destroy(&head);
    rc_backend_close(be);
}

/* ---- optimisers ------------------------------------------------------------------------------------------------- */

enum { COUNT = 5 };

static void *new_values(rc_backend *be, const double *values)
{
    void *memory;
    nn_must(be->alloc(be, COUNT * be->real_bytes, &memory));
    be->write_real64(be, memory, values, COUNT);
    return memory;
}

static void expect_values(rc_backend *be, const void *memory, const double *expected)
{
    double values[COUNT];
    be->read_real64(be, values, memory, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabs(values[i] - expected[i]) < 1e-12);
}

/* Two steps of PyTorch's SGD by hand; the second range is frozen in the second step and must not move at all. */
static void sgd_over_ranges(void **state)
{
    (void)state;
    const double start[COUNT] = {1, -2, 3, 0.5, 0}, slope[COUNT] = {0.1, 0.2, -0.3, 0, 5};
    rc_backend *be;
    nn_must(rc_backend_open("reference64", 1, NULL, &be));
    void *param[2] = {new_values(be, start), new_values(be, start)}, *grad = new_values(be, slope);
    const rc_sgd settings = {.momentum = 0.5f, .weight_decay = 0.25f};
    rc_step step = {.learning_rate = 0.125f};
    rc_optimiser *optimiser;
    nn_must(rc_optimiser_create_sgd(be, &settings, &optimiser));
    nn_must(rc_optimiser_add(optimiser, param[0], grad, COUNT));
    nn_must(rc_optimiser_add(optimiser, param[1], grad, COUNT));
    assert_int_equal(rc_optimiser_bytes(optimiser), 2 * COUNT * sizeof(double));
    uint64_t allocations = rc_allocation_count();
    rc_optimiser_step(optimiser, &step);
    rc_optimiser_freeze(optimiser, 1, true);
    rc_optimiser_step(optimiser, &step);
    assert_int_equal(rc_allocation_count(), allocations);
    double once[COUNT], twice[COUNT], momentum[COUNT];
    for (int i = 0; i < COUNT; i++) {
        double v = slope[i] + 0.25 * start[i];
        once[i] = start[i] - 0.125 * v;
        momentum[i] = v;
        v = 0.5 * v + slope[i] + 0.25 * once[i];
        twice[i] = once[i] - 0.125 * v;
    }
    expect_values(be, param[0], twice);
    expect_values(be, param[1], once);
    size_t count = 0;
    expect_values(be, rc_optimiser_state(optimiser, 1, 0, &count), momentum);
    assert_int_equal(count, COUNT);
    assert_null(rc_optimiser_state(optimiser, 1, 1, &count));
    assert_null(rc_optimiser_state(optimiser, 2, 0, &count));
    rc_optimiser_freeze(optimiser, 7, true);
    rc_optimiser_destroy(optimiser);
    be->release(be, param[0]);
    be->release(be, param[1]);
    be->release(be, grad);
    rc_backend_close(be);
}

/* The first step of Adam is the learning rate times the sign of the gradient, but for eps. */
static void adam_over_ranges(void **state)
{
    (void)state;
    const double start[COUNT] = {1, -2, 3, 0.5, 0}, slope[COUNT] = {0.1, 0.2, -0.3, 4, 5};
    rc_backend *be;
    nn_must(rc_backend_open("reference64", 1, NULL, &be));
    void *param = new_values(be, start), *grad = new_values(be, slope);
    const rc_adam settings = {.beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-30f};
    rc_step step = {.learning_rate = 0.125f, .step = 0};
    rc_optimiser *optimiser;
    nn_must(rc_optimiser_create_adam(be, &settings, &optimiser));
    nn_must(rc_optimiser_add(optimiser, param, grad, COUNT));
    assert_int_equal(rc_optimiser_bytes(optimiser), 2 * COUNT * sizeof(double));
    rc_optimiser_step(optimiser, &step);
    double expected[COUNT], first[COUNT], second[COUNT];
    for (int i = 0; i < COUNT; i++) {
        expected[i] = start[i] - 0.125 * (slope[i] > 0 ? 1 : -1);
        first[i] = 0.5 * slope[i];
        second[i] = 0.25 * slope[i] * slope[i];
    }
    size_t count;
    expect_values(be, param, expected);
    expect_values(be, rc_optimiser_state(optimiser, 0, 0, &count), first);
    expect_values(be, rc_optimiser_state(optimiser, 0, 1, &count), second);
    rc_optimiser_destroy(optimiser);
    be->release(be, param);
    be->release(be, grad);
    rc_backend_close(be);
}

static void refuses(rc_status status, const char *message)
{
    assert_int_equal(status, RC_INVALID_ARGUMENT);
    assert_string_equal(rc_message(), message);
}

static void bad_optimisers(void **state)
{
    (void)state;
    rc_backend *be = open_backend();
    rc_optimiser *optimiser;
    int memory = 0;
    refuses(rc_optimiser_create_sgd(be, &(rc_sgd){1, 0.5f}, &optimiser),
            "SGD with momentum 1 and weight decay 0.5, expected 0 to below 1 and 0 or more");
    refuses(rc_optimiser_create_sgd(be, &(rc_sgd){-0.5f, 0}, &optimiser),
            "SGD with momentum -0.5 and weight decay 0, expected 0 to below 1 and 0 or more");
    refuses(rc_optimiser_create_sgd(be, &(rc_sgd){0, -1}, &optimiser),
            "SGD with momentum 0 and weight decay -1, expected 0 to below 1 and 0 or more");
    static const struct {
        rc_adam settings;
        const char *numbers;
    } adam[] = {{{0.5f, 1, 0.125f}, "beta1 0.5, beta2 1 and eps 0.125"},
                {{0.5f, -0.25f, 0.125f}, "beta1 0.5, beta2 -0.25 and eps 0.125"},
                {{1, 0.25f, 0.125f}, "beta1 1, beta2 0.25 and eps 0.125"},
                {{-0.5f, 0.25f, 0.125f}, "beta1 -0.5, beta2 0.25 and eps 0.125"},
                {{0.5f, 0.25f, 0}, "beta1 0.5, beta2 0.25 and eps 0"}};
    for (size_t i = 0; i < sizeof adam / sizeof *adam; i++) {
        char message[160];
        snprintf(message, sizeof message, "Adam with %s, expected 0 to below 1, 0 to below 1 and more than 0",
                 adam[i].numbers);
        refuses(rc_optimiser_create_adam(be, &adam[i].settings, &optimiser), message);
        assert_null(optimiser);
    }
    rc_optimiser_destroy(optimiser);
    nn_must(rc_optimiser_create_adam(be, &(rc_adam){0, 0, 1}, &optimiser));
    rc_optimiser_destroy(optimiser);
    nn_must(rc_optimiser_create_sgd(be, &(rc_sgd){0}, &optimiser));
    refuses(rc_optimiser_add(optimiser, NULL, &memory, 1), "range 0 of an optimiser: no parameters, 1 parameters");
    nn_must(rc_optimiser_add(optimiser, &memory, &memory, 1));
    refuses(rc_optimiser_add(optimiser, &memory, NULL, 2), "range 1 of an optimiser: no gradient, 2 parameters");
    refuses(rc_optimiser_add(optimiser, &memory, &memory, 0), "range 1 of an optimiser: not a size, 0 parameters");
    assert_int_equal(rc_optimiser_add(optimiser, &memory, &memory, SIZE_MAX), RC_INVALID_ARGUMENT);
    for (int i = 1; i < 16; i++)
        nn_must(rc_optimiser_add(optimiser, &memory, &memory, 1));
    refuses(rc_optimiser_add(optimiser, &memory, &memory, 1), "an optimiser has at most 16 ranges");
    rc_optimiser_destroy(optimiser);
    rc_backend_close(be);
}

static void schedules_of_the_paper(void **state)
{
    (void)state;
    const rc_schedule cifar = {.base = 0.1,
                               .gamma = 0.1,
                               .milestones = 2,
                               .milestone = {80, 120},
                               .refinement_from = 160,
                               .refinement_rate = 0.005};
    const rc_schedule imagenet = {.base = 0.1,
                                  .gamma = 0.1,
                                  .milestones = 2,
                                  .milestone = {30, 60},
                                  .refinement_from = 90,
                                  .refinement_rate = 0.005};
    static const struct {
        int cifar, imagenet;
        float rate;
    } expected[] = {{0, 0, 0.1f},      {79, 29, 0.1f},    {80, 30, 0.01f},   {119, 59, 0.01f},
                    {120, 60, 0.001f}, {159, 89, 0.001f}, {160, 90, 0.005f}, {199, 119, 0.005f}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(rc_schedule_rate(&cifar, expected[i].cifar) == expected[i].rate);
        assert_true(rc_schedule_rate(&imagenet, expected[i].imagenet) == expected[i].rate);
    }
    rc_schedule cosine = cifar;
    cosine.cosine = true;
    assert_true(rc_schedule_rate(&cosine, 0) == 0.1f && rc_schedule_rate(&cosine, 160) == 0.005f);
    assert_true(fabs((double)rc_schedule_rate(&cosine, 80) - 0.05) < 1e-8);
    assert_true(fabs((double)rc_schedule_rate(&cosine, 40) - 0.05 * (1 + sqrt(0.5))) < 1e-8);
    const rc_schedule constant = {.base = 0.2};
    assert_true(rc_schedule_rate(&constant, 0) == 0.2f && rc_schedule_rate(&constant, 1000) == 0.2f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values),
        cmocka_unit_test(models_are_reproducible_and_copied),
        cmocka_unit_test(head_grows_and_keeps_its_rows),
        cmocka_unit_test(sgd_over_ranges),
        cmocka_unit_test(adam_over_ranges),
        cmocka_unit_test(bad_optimisers),
        cmocka_unit_test(schedules_of_the_paper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
