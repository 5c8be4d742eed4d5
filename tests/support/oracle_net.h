/* Nets and their parameters against a fixture. */
#ifndef RC_TESTS_SUPPORT_ORACLE_NET_H
#define RC_TESTS_SUPPORT_ORACLE_NET_H

#include "nn/model.h"
#include "support/subject.h"

/* Float: a deep net amplifies the rounding of its first layers, to about 1e-6 of the values at the end of ResNet-32,
 * and gradients go through it twice. The fixtures' inputs keep every ReLU away from the value at which rounding would
 * decide it otherwise. Double: sums of some 1e5 terms. */
extern const double oracle_net_tolerance[2];

/* A fixture of that name and the large one, which is left out where tests are to be light; close after the tests. */
void oracle_net_open(const char *name);
void oracle_net_close(void);
/* Runs `test` for every case of both that begins with `prefix`, those of the large one on the fast backend alone. */
void oracle_net_run(const char *prefix, void (*test)(subject *));

/* Tolerance of what follows the first update: how far the parameters move, and the losses of later steps. Double:
 * nothing new. Float, one step: parameters are large beside their movement, and Adam divides by the size of gradients,
 * some of which are all rounding. Float, several steps: no longer kept away from kinks, a ReLU or two of a million
 * turn, and one pixel more or less is some percent of the gradient of a channel with a small map. */
double oracle_net_moved(const subject *s);

/* Parameters and running statistics: inputs of the case named prefix + slice name. */
void oracle_net_fill(subject *s, rc_model *model, const char *prefix);
/* Compares all slices of `reals` (parameters, or running statistics) with the results prefix + slice name. */
void oracle_net_expect(subject *s, const rc_net *net, const char *prefix, const void *reals, bool running,
                       double tolerance);
/* Compares the difference between the parameters and what oracle_net_fill gave them with prefix + "moved/" + name. */
void oracle_net_expect_moved(subject *s, const rc_model *model, const char *prefix);

#endif
