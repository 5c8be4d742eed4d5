/* What must hold between whole steps of one backend (check/relations.h): on the CPU it does, and a fault of each kind
 * is seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "check/relations.h"

static rc_backend *be;
static rc_backend whole; /* the table as it was */

/* RECOLLECT_TEST_BACKEND names another backend than the CPU's, cuda:bf16 for one. */
static int set_up(void **state)
{
    (void)state;
    const char *name = getenv("RECOLLECT_TEST_BACKEND");
    if (rc_backend_open(name ? name : "cpu", name ? 0 : 2, NULL, &be) != RC_OK)
        return -1;
    whole = *be;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rc_backend_close(be);
    return 0;
}

static double error_of(rc_relation relation, const char *step, double *allowed)
{
    rc_step_run run = {.name = step, .start = RC_START_SMOOTH, .batch = 4, .size = 16, .steps = 1, .seed = 1};
    double error = NAN;
    if (rc_relation_check(be, relation, &run, &error, allowed) != RC_OK)
        fail_msg("%s", rc_message());
    return error;
}

static void relations_hold(void **state)
{
    (void)state;
    const char *step;
    int checked = 0;
    for (int i = 0; (step = rc_step_world_name(i)) != NULL; i++)
        for (rc_relation relation = 0; relation < RC_RELATION_COUNT; relation++) {
            double allowed = -1, error;
            if (!rc_relation_applies(relation, step))
                continue;
            error = error_of(relation, step, &allowed);
            if (!(error <= allowed))
                fail_msg("%s %s: off by %.2e, allowed %.2e", step, rc_relation_name(relation), error, allowed);
            checked++;
        }
    assert_int_equal(checked, 7); /* scaled of four steps, permuted of two, split of one */
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

/* A loss whose gradient forgets its weight. */
static void loss_without_weight(rc_backend *b, const rc_cross_entropy *l, const void *logits, const int32_t *labels,
                                const void *class_weight, const float *weight, void *value, void *dlogits)
{
    const float one = 1;
    (void)weight;
    whole.loss_cross_entropy(b, l, logits, labels, class_weight, &one, value, dlogits);
}

/* Labels that come by the place in the batch. */
static void gather_by_place(rc_backend *b, const int32_t *labels, const int32_t *order, int n, const rc_step *step,
                            int32_t *to)
{
    whole.gather_labels(b, labels, order, n, step, to);
    for (int i = 0; i < n; i++)
        to[i] = i;
}

/* A mean that is a sum. */
static void loss_that_sums(rc_backend *b, const rc_cross_entropy *l, const void *logits, const int32_t *labels,
                           const void *class_weight, const float *weight, void *value, void *dlogits)
{
    const float times = *weight * (float)l->n;
    whole.loss_cross_entropy(b, l, logits, labels, class_weight, &times, value, dlogits);
}

static void faults_are_seen(void **state)
{
    (void)state;
    double allowed;
    if (be->about.device_memory)
        skip(); /* the faults are written in C */
    be->loss_cross_entropy = loss_without_weight;
    assert_true(error_of(RC_SCALED, "train_first", &allowed) > allowed);
    be->loss_cross_entropy = loss_that_sums;
    assert_true(error_of(RC_SPLIT, "train_first", &allowed) > allowed);
    be->loss_cross_entropy = whole.loss_cross_entropy;
    be->gather_labels = gather_by_place;
    assert_true(error_of(RC_PERMUTED, "train_first", &allowed) > allowed);
    be->gather_labels = whole.gather_labels;
    assert_true(error_of(RC_PERMUTED, "train_first", &allowed) <= allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(relations_hold), cmocka_unit_test(faults_are_seen)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
