/* What whole steps need of a fixture: nets, classifiers and training data of the case, and its results. */
#ifndef RC_TESTS_SUPPORT_ORACLE_STEP_H
#define RC_TESTS_SUPPORT_ORACLE_STEP_H

#include "cil/step_training.h"
#include "support/oracle_net.h"

void oracle_step_nets(subject *s, rc_net *classifier, rc_net *generator);
/* A classifier whose head has `old` rows of a first task and, if `new` > 0, a second one. */
void oracle_step_classifier(subject *s, rc_classifier *classifier, const rc_net *net, const char *prefix, int old,
                            int new);
rc_resident_data oracle_step_data(subject *s);
/* The two projections of RKD for d features: weight and bias of the student's, then of the teacher's. */
extern const char *const oracle_step_projection[4];
size_t oracle_step_projection_count(int d, int part);
void oracle_step_projections(subject *s, int d, void *reals);
/* A copy of `count` reals, to see later how far they have moved. The caller frees it. */
double *oracle_step_copy(subject *s, const void *reals, size_t count);

void oracle_step_expect_loss(subject *s, const char *name, const void *loss, rc_loss index, double tolerance);
void oracle_step_expect_integers(subject *s, const char *name, const int32_t *memory, size_t count);
/* How far `count` reals have moved from `begin`. */
void oracle_step_expect_moved(subject *s, const char *name, const void *reals, const double *begin, size_t count);
/* Sum of weight * loss of a step. */
void oracle_step_expect_total(subject *s, const rc_step *control, const void *loss, int step);

#endif
