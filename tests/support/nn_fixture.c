#include "support/nn_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

/* Streams of random numbers; outputs take OUTPUTS + layer, statistics STATISTICS + 2 * number. */
enum { INPUT = 1000, NORMALISATION = 2000, OUTPUTS = 3000, STATISTICS = 4000, WEIGHTS = 5000 };

void nn_must(rc_status status)
{
    if (status != RC_OK)
        fail_msg("%s: %s", recollect_status_text(status), rc_message());
}

double *nn_random(uint64_t seed, uint64_t stream, size_t count)
{
    double *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = rc_rng_normal((rc_rng){seed, stream}, i);
    return values;
}

double *nn_read(nn_fixture *fixture, const void *reals, size_t count)
{
    double *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    fixture->backend->read_real64(fixture->backend, values, reals, count);
    return values;
}

void nn_write(nn_fixture *fixture, void *reals, const double *from, size_t count)
{
    fixture->backend->write_real64(fixture->backend, reals, from, count);
}

size_t nn_map_count(const rc_tensor *tensor)
{
    return (size_t)tensor->n * (size_t)tensor->h * (size_t)tensor->w * (size_t)tensor->c;
}

double *nn_read_map(nn_fixture *fixture, const rc_tensor *shape, const void *map)
{
    double *values = malloc((nn_map_count(shape) + 1) * sizeof *values);
    assert_non_null(values);
    fixture->backend->read_act(fixture->backend, values, shape, map);
    return values;
}

/* gamma around 1, beta and running mean around 0, running variance around 1: all different, none of them special. */
static void randomise_normalisation(nn_fixture *fixture, uint64_t seed)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(fixture->net, i, &slice); i++) {
        const char *dot = strrchr(slice.name, '.');
        bool variance = strcmp(dot, ".running_var") == 0, gamma = false;
        bool vector = slice.dims == 1;
        for (int l = 0; l < fixture->net->layers; l++)
            gamma = gamma || (!slice.running && fixture->net->layer[l].gamma == slice.offset);
        if (!vector)
            continue;
        double *values = nn_random(seed, NORMALISATION + (uint64_t)i, slice.count);
        for (size_t j = 0; j < slice.count; j++) {
            values[j] = 0.3 * values[j] + (gamma || variance ? 1 : 0);
            if (variance && values[j] < 0.4)
                values[j] = 0.4;
        }
        void *base = slice.running ? fixture->model.running : fixture->model.param;
        nn_write(fixture, rc_real_at(fixture->backend, base, slice.offset), values, slice.count);
        free(values);
    }
}

void nn_open(nn_fixture *fixture, const char *backend, int threads, const rc_net *net, const rc_pass_settings *settings,
             uint64_t seed)
{
    rc_backend *opened;
    nn_must(rc_backend_open(backend, threads, NULL, &opened));
    nn_open_on(fixture, opened, net, settings, seed);
}

void nn_open_on(nn_fixture *fixture, rc_backend *backend, const rc_net *net, const rc_pass_settings *settings,
                uint64_t seed)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->net = net;
    fixture->backend = backend;
    nn_must(rc_model_create(&fixture->model, net, fixture->backend));
    nn_must(rc_model_init(&fixture->model, (rc_rng){seed, WEIGHTS}));
    randomise_normalisation(fixture, seed);
    nn_must(rc_tensor_create(fixture->backend, settings->n, net->h, net->w, net->c, &fixture->input));
    double *values = nn_random(seed, INPUT, nn_map_count(&fixture->input));
    fixture->backend->write_act(fixture->backend, &fixture->input, values);
    free(values);
    nn_must(fixture->backend->alloc(fixture->backend, net->params * fixture->backend->real_bytes, &fixture->gradient));
    nn_must(rc_pass_create(fixture->backend, net, settings, &fixture->pass));
}

void nn_close(nn_fixture *fixture)
{
    rc_pass_destroy(fixture->pass);
    fixture->backend->release(fixture->backend, fixture->gradient);
    rc_tensor_destroy(fixture->backend, &fixture->input);
    rc_model_destroy(&fixture->model);
    rc_backend_close(fixture->backend);
}

void nn_random_output_gradients(nn_fixture *fixture, uint64_t seed)
{
    int n = fixture->input.n, count;
    for (int i = 0; i < fixture->net->layers; i++) {
        const rc_layer *layer = &fixture->net->layer[i];
        if (rc_pass_output_gradient(fixture->pass, i) == NULL) /* no output, or EVAL */
            continue;
        rc_tensor shape = {.n = n, .h = layer->h, .w = layer->w, .c = layer->c_out};
        double *weights = nn_random(seed, OUTPUTS + (uint64_t)i, nn_map_count(&shape));
        shape.raw = rc_pass_output_gradient(fixture->pass, i);
        if (layer->kind == RC_LAYER_AVERAGE_POOL)
            nn_write(fixture, shape.raw, weights, nn_map_count(&shape));
        else
            fixture->backend->write_act(fixture->backend, &shape, weights);
        free(weights);
    }
    const rc_bn_stat *stat = rc_pass_bn_statistics(fixture->pass, &count);
    for (int i = 0; i < count; i++) {
        double *mean = nn_random(seed, STATISTICS + 2 * (uint64_t)i, (size_t)stat[i].c);
        double *var = nn_random(seed, STATISTICS + 2 * (uint64_t)i + 1, (size_t)stat[i].c);
        nn_write(fixture, stat[i].dmean, mean, (size_t)stat[i].c);
        nn_write(fixture, stat[i].dvar, var, (size_t)stat[i].c);
        free(mean);
        free(var);
    }
}

static double weighted_sum(double *values, double *weights, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * weights[i];
    free(values);
    free(weights);
    return sum;
}

double nn_loss(nn_fixture *fixture, uint64_t seed)
{
    int count;
    double loss = 0;
    rc_pass_forward(fixture->pass, &fixture->model, &fixture->input);
    for (int i = 0; i < fixture->net->layers; i++) {
        const rc_layer *layer = &fixture->net->layer[i];
        if (!layer->output)
            continue;
        size_t elements = (size_t)fixture->input.n * (size_t)layer->h * (size_t)layer->w * (size_t)layer->c_out;
        double *weights = nn_random(seed, OUTPUTS + (uint64_t)i, elements);
        const rc_tensor *out = rc_pass_finished_output(fixture->pass, i);
        double *values = out != NULL ? nn_read_map(fixture, out, out->raw)
                                     : nn_read(fixture, rc_pass_features(fixture->pass), elements);
        loss += weighted_sum(values, weights, elements);
    }
    const rc_bn_stat *stat = rc_pass_bn_statistics(fixture->pass, &count);
    for (int i = 0; i < count; i++) {
        size_t c = (size_t)stat[i].c;
        loss += weighted_sum(nn_read(fixture, stat[i].mean, c), nn_random(seed, STATISTICS + 2 * (uint64_t)i, c), c);
        loss += weighted_sum(nn_read(fixture, stat[i].var, c), nn_random(seed, STATISTICS + 2 * (uint64_t)i + 1, c), c);
    }
    nn_must(fixture->backend->sync(fixture->backend));
    return loss;
}

void nn_step(nn_fixture *fixture, uint64_t seed)
{
    rc_pass_forward(fixture->pass, &fixture->model, &fixture->input);
    nn_random_output_gradients(fixture, seed);
    rc_pass_backward(fixture->pass, &fixture->model, fixture->gradient);
    nn_must(fixture->backend->sync(fixture->backend));
}
