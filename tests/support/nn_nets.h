/* Small nets that together have every feature a net can have. */
#ifndef TESTS_SUPPORT_NN_NETS_H
#define TESTS_SUPPORT_NN_NETS_H

#include "nn/nets.h"

/* Builds number `index` and returns its name; NULL when there are no more. */
const char *nn_test_net(rc_net *net, int index);

/* A random net: random kinds, shapes, inputs, skips, activations and outputs. */
void nn_random_net(rc_net *net, uint64_t seed);

/* A random net of convolutions, many of which a backend may run at once. Most read the one before. Some add what that
 * reads, or a value from elsewhere; some are outputs, have a bias, or no normalisation. */
void nn_chain_net(rc_net *net, uint64_t seed);

#endif
