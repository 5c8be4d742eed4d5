/* Passes over a backend that runs several layers at once, reads gradients from maps and has a lane for weight gradients
 * (support/fused_backend.h) make the bits of a pass over the reference: outputs, statistics, gradients. Before each
 * step the memory of both passes is filled with what is not a number, so that nobody reads what nobody wrote. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/pass_steps.h"
#include "support/fused_backend.h"
#include "support/nn_fixture.h"
#include "support/nn_nets.h"

enum { LOSS = 31, CHAIN_NETS = 32, STEPS = 2 };

static fused_counts total;

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static void same(const char *what, const rc_net *net, const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 || isnan(a[i]))
            fail_msg("net %s: %s %zu is %g at once, %g alone", net->name, what, i, b[i], a[i]);
}

static void same_reals(const char *what, nn_fixture *a, const void *of_a, nn_fixture *b, const void *of_b, size_t count)
{
    double *x = nn_read(a, of_a, count), *y = nn_read(b, of_b, count);
    same(what, a->net, x, y, count);
    free(x);
    free(y);
}

static void same_map(const char *what, nn_fixture *a, const void *of_a, nn_fixture *b, const void *of_b,
                     const rc_tensor *shape)
{
    double *x = nn_read_map(a, shape, of_a), *y = nn_read_map(b, shape, of_b);
    same(what, a->net, x, y, nn_map_count(shape));
    free(x);
    free(y);
}

static void same_outputs(nn_fixture *a, nn_fixture *b)
{
    for (int i = 0; i < a->net->layers; i++) {
        const rc_layer *layer = &a->net->layer[i];
        if (!layer->output)
            continue;
        if (layer->kind == RC_LAYER_AVERAGE_POOL) {
            same_reals("feature", a, rc_pass_features(a->pass), b, rc_pass_features(b->pass),
                       (size_t)a->input.n * (size_t)layer->c_out);
            continue;
        }
        const rc_tensor *x = rc_pass_finished_output(a->pass, i), *y = rc_pass_finished_output(b->pass, i);
        same_map("output", a, x->raw, b, y->raw, x);
    }
}

static void forward(nn_fixture *f)
{
    memset(f->pass->block, 0xff, f->pass->bytes);
    memset(f->gradient, 0xff, f->net->params * f->backend->real_bytes);
    rc_pass_forward(f->pass, &f->model, &f->input);
}

static void same_step(nn_fixture *a, nn_fixture *b, const rc_pass_settings *settings)
{
    int count;
    forward(a);
    forward(b);
    same_outputs(a, b);
    same_reals("running statistic", a, a->model.running, b, b->model.running, a->net->running);
    if (settings->mode == RC_PASS_EVAL)
        return;
    nn_random_output_gradients(a, LOSS);
    nn_random_output_gradients(b, LOSS);
    const rc_bn_stat *x = rc_pass_bn_statistics(a->pass, &count), *y = rc_pass_bn_statistics(b->pass, &count);
    for (int i = 0; i < count; i++) {
        same_reals("batch mean", a, x[i].mean, b, y[i].mean, (size_t)x[i].c);
        same_reals("batch variance", a, x[i].var, b, y[i].var, (size_t)x[i].c);
    }
    rc_pass_backward(a->pass, &a->model, settings->mode == RC_PASS_TRAIN ? a->gradient : NULL);
    rc_pass_backward(b->pass, &b->model, settings->mode == RC_PASS_TRAIN ? b->gradient : NULL);
    size_t frozen = settings->mode == RC_PASS_TRAIN ? rc_net_params_before(a->net, settings->frozen) : a->net->params;
    same_reals("gradient", a, (char *)a->gradient + frozen * a->backend->real_bytes, b,
               (char *)b->gradient + frozen * b->backend->real_bytes, a->net->params - frozen);
    if (rc_pass_input_gradient(a->pass) != NULL)
        same_map("input gradient", a, rc_pass_input_gradient(a->pass), b, rc_pass_input_gradient(b->pass), &a->input);
    same_outputs(a, b); /* which stay */
}

static void compare(const rc_net *net, const rc_pass_settings *settings, const fused_kind *kind)
{
    nn_fixture a, b;
    nn_open(&a, "reference", 1, net, settings, 1);
    nn_open_on(&b, fused_backend_open(kind), net, settings, 1);
    for (int i = 0; i < STEPS; i++)
        same_step(&a, &b, settings);
    const fused_counts now = fused_backend_counts();
    if (settings->frozen == 0)
        assert_int_equal(now.summed, settings->mode == RC_PASS_TRAIN ? STEPS * net->params : 0);
    total.forward += now.forward;
    total.backward += now.backward;
    total.train += now.train;
    total.train_backward += now.train_backward;
    total.weight += now.weight;
    total.joins += now.joins;
    total.pooled += now.pooled;
    total.pooled_train += now.pooled_train;
    nn_close(&a);
    nn_close(&b);
}

static const fused_kind kinds[] = {{4, false, false, false, false}, {4, true, false, false, false},
                                   {3, true, true, false, false},   {RC_MAX_FUSED, true, false, true, false},
                                   {3, true, false, true, true},    {4, true, true, true, false},
                                   {2, false, true, true, true},    {0, false, true, true, false}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const rc_pass_settings settings[] = {
    {.mode = RC_PASS_TRAIN, .n = 3, .update_running = true},
    {.mode = RC_PASS_TRAIN, .n = 5, .groups = 2, .group_end = {2, 5}, .input_gradient = true, .running_updates = 2},
    {.mode = RC_PASS_TRAIN, .n = 3, .update_running = true, .frozen = 3},
    {.mode = RC_PASS_FROZEN, .n = 2},
    {.mode = RC_PASS_EVAL, .n = 2}};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void chains(void **state)
{
    (void)state;
    static rc_net net;
    bool light = getenv("RECOLLECT_TEST_LIGHT") != NULL;
    total = (fused_counts){0};
    for (int seed = 0; seed < CHAIN_NETS; seed += light ? 3 : 1) {
        nn_chain_net(&net, (uint64_t)seed);
        for (int i = 0; i < SETTINGS; i++)
            compare(&net, &settings[i], &kinds[(seed + i) % KINDS]);
    }
    assert_true(total.forward >= 20 && total.backward >= 20 && total.train >= 20);
    assert_true(total.train_backward >= 20 && total.joins >= 20);
    assert_true(total.weight >= total.train_backward + (light ? 6 : 20)); /* those without a chain */
}

static void test_nets(void **state)
{
    (void)state;
    static rc_net net;
    bool light = getenv("RECOLLECT_TEST_LIGHT") != NULL;
    for (int i = 0; nn_test_net(&net, i) != NULL; i++)
        for (int k = 0; k < KINDS; k++) {
            if (light && (k + 2) % 3 != i % 3) /* nets that pool meet the first settings */
                continue;
            compare(&net, &settings[k % 3], &kinds[k]);
            compare(&net, &settings[3 + k % 2], &kinds[k]);
        }
    assert_true(total.pooled > 0 && total.pooled_train > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),
        cmocka_unit_test(test_nets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
