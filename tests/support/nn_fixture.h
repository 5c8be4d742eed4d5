/* A net with random weights, an input and a linear loss, for tests of passes. */
#ifndef TESTS_SUPPORT_NN_FIXTURE_H
#define TESTS_SUPPORT_NN_FIXTURE_H

#include "nn/pass.h"

typedef struct nn_fixture {
    rc_backend *backend; /* closed by the fixture */
    const rc_net *net;
    rc_model model;
    rc_tensor input;
    rc_pass *pass;
    void *gradient; /* (params) real */
} nn_fixture;

/* Weights: rc_model_init, then random gamma, beta and running statistics. The test fails if anything does. */
void nn_open(nn_fixture *fixture, const char *backend, int threads, const rc_net *net, const rc_pass_settings *settings,
             uint64_t seed);
void nn_open_on(nn_fixture *fixture, rc_backend *backend, const rc_net *net, const rc_pass_settings *settings,
                uint64_t seed);
void nn_close(nn_fixture *fixture);

/* Random gradients of all outputs, and in FROZEN mode of all statistics: the weights of the linear loss. */
void nn_random_output_gradients(nn_fixture *fixture, uint64_t seed);
/* Forward, then sum of output * weight over all outputs (and statistics); the weights are those above for `seed`. */
double nn_loss(nn_fixture *fixture, uint64_t seed);

/* Parameters, running statistics, input, gradients as doubles. */
double *nn_read(nn_fixture *fixture, const void *reals, size_t count);
void nn_write(nn_fixture *fixture, void *reals, const double *from, size_t count);
double *nn_read_map(nn_fixture *fixture, const rc_tensor *shape, const void *map); /* (n, h, w, c) */
double *nn_random(uint64_t seed, uint64_t stream, size_t count);                   /* normal */

/* Forward and backward with random output gradients. */
void nn_step(nn_fixture *fixture, uint64_t seed);

void nn_must(rc_status status);               /* the test fails with the message unless it is RC_OK */
size_t nn_map_count(const rc_tensor *tensor); /* without pad channels */

#endif
