/* Whole steps of two backends side by side: the basis of a device's selftest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "check/selftest_steps.h"
#include "check/step_world.h"

enum { BATCH = 4, SIZE = 32, STEPS = 4 };

static rc_backend *one, *other;
static void (*true_loss)(rc_backend *, const rc_cross_entropy *, const void *, const int32_t *, const void *,
                         const float *, void *, void *);
static void (*true_dce)(rc_backend *, const rc_dce *, const void *, const int32_t *, const float *, void *, void *);
static void (*true_argmax)(rc_backend *, int, int, int, const void *, int32_t *);
static void (*true_dense_weight)(rc_backend *, int, int, int, const void *, const void *, int, void *, void *, bool);
static void (*true_write)(rc_backend *, void *, const float *, size_t);
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

/* What a comparison found, by value. */
typedef struct found {
    rc_step_difference d; /* without its arrays */
    double tensor;
    double least; /* norm of the gradient of a tensor */
    bool agrees;
} found;

static found compare_run(rc_step_run run)
{
    rc_step_limits limits = rc_step_tolerance(one, &run);
    found f = {0};
    if (rc_compare_steps(one, other, &run, &f.d) != RC_OK)
        fail_msg("%s", rc_message());
    f.tensor = f.d.tensor[f.d.worst].distance;
    f.least = f.d.tensor[0].norm;
    for (int i = 1; i < f.d.tensors; i++)
        f.least = fmin(f.least, f.d.tensor[i].norm);
    f.agrees = rc_step_agrees(&f.d, &limits);
    rc_step_difference_free(&(rc_step_difference){.tensor = f.d.tensor, .after = f.d.after});
    return f;
}

static found compare(const char *name)
{
    return compare_run((rc_step_run){.name = name, .batch = BATCH, .size = SIZE, .steps = STEPS, .seed = 1});
}

static void equal_backends_do_not_differ(void **state)
{
    (void)state;
    static const char *const name[] = {"train_first", "inversion"};
    for (int i = 0; i < 2; i++) {
        found f = compare(name[i]);
        assert_true(f.agrees);
        assert_true(f.d.loss == 0 && f.d.growth == 0 && f.d.gradient == 0 && f.tensor == 0);
        assert_true(f.d.labels == 0 && f.d.label == 0);
        assert_true(f.d.cosine > 1 - 1e-9);
        assert_true(f.d.same_bits);
    }
}

static void loss_with_a_fault(rc_backend *be, const rc_cross_entropy *e, const void *logits, const int32_t *labels,
                              const void *class_weight, const float *weight, void *value, void *dlogits)
{
    true_loss(be, e, logits, labels, class_weight, weight, value, dlogits);
    if (calls++ == wrong_call)
        be->write_real(be, value, &wrong_value, 1);
}

static found compare_with_a_fault(int call, float value)
{
    true_loss = one->loss_cross_entropy;
    calls = 0;
    wrong_call = call;
    wrong_value = value;
    one->loss_cross_entropy = loss_with_a_fault;
    found f = compare("train_first");
    one->loss_cross_entropy = true_loss;
    assert_true(calls > call);
    assert_false(f.agrees);
    return f;
}

/* Steps that are right again must not hide one that was not. */
static void a_wrong_loss_is_seen(void **state)
{
    (void)state;
    rc_step_difference d = compare_with_a_fault(0, 1e6f).d;
    assert_true(d.loss > 1 && d.growth > 1);
    d = compare_with_a_fault(1, 1e6f).d;
    assert_true(d.loss == 0 && d.growth > 1);
    assert_int_equal(d.growth_loss, RC_LOSS_CE);
    d = compare_with_a_fault(0, NAN).d;
    assert_true(isnan(d.loss) && isnan(d.growth));
    d = compare_with_a_fault(1, NAN).d;
    assert_true(d.loss == 0 && isnan(d.growth));
}

static void head_without_a_gradient(rc_backend *be, int n, int in, int out, const void *x, const void *dy, int stride,
                                    void *dweight, void *dbias, bool add)
{
    const float nothing = NAN;
    true_dense_weight(be, n, in, out, x, dy, stride, dweight, dbias, add);
    be->write_real(be, dweight, &nothing, 1);
}

/* The head's gradient is compared by itself, and in one step no loss tells of it. */
static void a_gradient_of_the_head_that_is_no_number_is_seen(void **state)
{
    (void)state;
    true_dense_weight = one->dense_backward_weight;
    one->dense_backward_weight = head_without_a_gradient;
    found f = compare_run((rc_step_run){
        .name = "train_first", .start = RC_START_SMOOTH, .batch = BATCH, .size = SIZE, .steps = 1, .seed = 1});
    one->dense_backward_weight = true_dense_weight;
    assert_true(f.d.loss == 0 && f.d.gradient == 0);
    assert_true(isnan(f.tensor));
    assert_false(f.agrees);
}

static void dce_with_a_fault(rc_backend *be, const rc_dce *dce, const void *features, const int32_t *labels,
                             const float *weight, void *value, void *dfeatures)
{
    true_dce(be, dce, features, labels, weight, value, dfeatures);
    if (calls++ == wrong_call)
        be->write_real(be, value, &wrong_value, 1);
}

static void argmax_with_a_fault(rc_backend *be, int n, int classes, int stride, const void *logits, int32_t *labels)
{
    true_argmax(be, n, classes, stride, logits, labels);
    if (calls++ == wrong_call) {
        int32_t first;
        be->read_bytes(be, &first, labels, sizeof first);
        first = (first + 1) % classes;
        be->write_bytes(be, labels, &first, sizeof first);
    }
}

/* A label that differs takes DCE out of the comparison, and is itself compared: it is no excuse for one that was not
 * nearly another. A wrong DCE between equal labels has no excuse. */
static void labels_are_compared_by_their_logits(void **state)
{
    (void)state;
    true_argmax = one->argmax;
    calls = 0;
    wrong_call = STEPS - 1; /* the last: what comes after it would differ, too */
    one->argmax = argmax_with_a_fault;
    found f = compare("inversion");
    one->argmax = true_argmax;
    assert_true(f.d.labels >= 1 && f.d.label > 1e-3);
    assert_true(f.d.loss == 0 && f.d.growth < 1e-5); /* the content loss has it, divided by its temperature */
    assert_false(f.agrees);

    true_dce = one->loss_dce;
    calls = 0;
    wrong_value = 1.01f;
    one->loss_dce = dce_with_a_fault;
    f = compare("inversion");
    one->loss_dce = true_dce;
    assert_int_equal(f.d.labels, 0);
    assert_int_equal(f.d.growth_loss, RC_LOSS_DCE);
    assert_true(f.d.loss == 0 && f.d.growth > 1e-3);
    assert_false(f.agrees);
}

/* Every weight an ulp or so aside, which is what another order of additions does to the numbers. */
static void write_with_rounding(rc_backend *be, void *to, const float *from, size_t count)
{
    float *moved = malloc(count * sizeof *moved);
    assert_non_null(moved);
    for (size_t i = 0; i < count; i++)
        moved[i] = from[i] * (1 + (float)(i * 7 % 5) * 0x1p-24f);
    true_write(be, to, moved, count);
    free(moved);
}

/* Rounding must not upset a smooth start, whatever the seed, and nothing may be out of the comparison's reach: every
 * tensor has a gradient. */
static void a_smooth_start_does_not_hang_on_rounding(void **state)
{
    (void)state;
    static const char *const name[] = {"train_first", "train_next", "inversion"};
    true_write = one->write_real;
    one->write_real = write_with_rounding;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        for (int i = 0; i < 3; i++) {
            found f = compare_run((rc_step_run){
                .name = name[i], .start = RC_START_SMOOTH, .batch = BATCH, .size = SIZE, .steps = 1, .seed = seed});
            if (!f.agrees)
                fail_msg("step %s, seed %d: loss %.1e, gradient %.1e, tensor %.1e", name[i], (int)seed, f.d.loss,
                         f.d.gradient, f.tensor);
            assert_true(f.d.gradient > 0 && f.least > 0);
        }
    }
    one->write_real = true_write;
}

/* What is measured at a size must be what was published for it. */
static void the_net_belongs_to_the_size(void **state)
{
    (void)state;
    static const struct {
        int size, features, generator;
    } wanted[] = {{32, 64, 8423939}, {64, 64, 8571779}, {224, 512, 3326275}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        rc_step_world *w;
        if (rc_step_world_create(one, "inversion", RC_START_PUBLISHED, 2, wanted[i].size, 1, &w) != RC_OK)
            fail_msg("%s", rc_message());
        assert_int_equal(rc_net_features(&w->net), wanted[i].features);
        assert_int_equal(w->dreams.params, wanted[i].generator);
        rc_step_world_destroy(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_net_belongs_to_the_size),
        cmocka_unit_test(equal_backends_do_not_differ),
        cmocka_unit_test(a_smooth_start_does_not_hang_on_rounding),
        cmocka_unit_test(a_wrong_loss_is_seen),
        cmocka_unit_test(a_gradient_of_the_head_that_is_no_number_is_seen),
        cmocka_unit_test(labels_are_compared_by_their_logits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
