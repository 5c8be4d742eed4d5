/* Whole steps of two backends beside each other: what the selftest of a device stands on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "check/selftest_steps.h"

enum { BATCH = 4, SIZE = 32, STEPS = 4 };

static rc_backend *one, *other;
static void (*true_loss)(rc_backend *, const rc_cross_entropy *, const void *, const int32_t *, const void *,
                         const float *, void *, void *);
static int calls, wrong_call;
static float wrong_value;

static int set_up(void **state)
{
    (void)state;
    return rc_backend_open("cpu", 1, NULL, &one) == RC_OK && rc_backend_open("cpu", 2, NULL, &other) == RC_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rc_backend_close(one);
    rc_backend_close(other);
    return 0;
}

static rc_step_difference compare(void)
{
    rc_step_difference d;
    if (rc_compare_steps(one, other, "train_first", BATCH, SIZE, STEPS, &d) != RC_OK)
        fail_msg("%s", rc_message());
    return d;
}

static void equal_backends_do_not_differ(void **state)
{
    (void)state;
    rc_step_difference d = compare();
    assert_true(d.loss == 0 && d.growth == 0 && d.gradient == 0 && d.tensor == 0);
    assert_true(d.cosine > 1 - 1e-9);
    assert_true(d.same_bits);
}

static void loss_with_a_fault(rc_backend *be, const rc_cross_entropy *e, const void *logits, const int32_t *labels,
                              const void *class_weight, const float *weight, void *value, void *dlogits)
{
    true_loss(be, e, logits, labels, class_weight, weight, value, dlogits);
    if (calls++ == wrong_call)
        be->write_real(be, value, &wrong_value, 1);
}

static rc_step_difference compare_with_a_fault(int call, float value)
{
    true_loss = one->loss_cross_entropy;
    calls = 0;
    wrong_call = call;
    wrong_value = value;
    one->loss_cross_entropy = loss_with_a_fault;
    rc_step_difference d = compare();
    one->loss_cross_entropy = true_loss;
    assert_true(calls > call);
    return d;
}

/* Steps that are right again must not hide one that was not. */
static void a_wrong_loss_is_seen(void **state)
{
    (void)state;
    rc_step_difference d = compare_with_a_fault(0, 1e6f);
    assert_true(d.loss > 1 && d.growth > 1);
    d = compare_with_a_fault(1, 1e6f);
    assert_true(d.loss == 0 && d.growth > 1);
    d = compare_with_a_fault(0, NAN);
    assert_true(isnan(d.loss) && isnan(d.growth));
    d = compare_with_a_fault(1, NAN);
    assert_true(d.loss == 0 && isnan(d.growth));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_backends_do_not_differ),
        cmocka_unit_test(a_wrong_loss_is_seen),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
