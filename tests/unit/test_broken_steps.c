/* Whole steps of a backend in which one operation is wrong: the comparison must notice it, whichever operation it is.
 * A fault makes the largest element of a result one percent larger, in every call, and changes nothing else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "check/selftest_steps.h"

enum { BATCH = 4, SIZE = 32 };

static rc_backend *broken, *other;
static rc_backend right;  /* the entries of `broken` as they were */
static const char *fault; /* which result is wrong */
static int faults;        /* how often it was */

/* The CPU backend's memory is host memory, float. */
static void spoil(const char *name, void *memory, size_t count)
{
    float *element = memory;
    size_t largest = 0;
    if (!fault || strcmp(name, fault) != 0 || !memory || !count)
        return;
    for (size_t i = 1; i < count; i++)
        if (fabsf(element[i]) > fabsf(element[largest]))
            largest = i;
    element[largest] *= 1.01f;
    faults++;
}

static size_t act_count(const rc_tensor *t)
{
    return rc_act_count(broken, t->n, t->h, t->w, t->c);
}

static size_t channel_count(const rc_tensor *t)
{
    return (size_t)t->groups * (size_t)rc_padded(broken, t->c);
}

/* ---- nets ------------------------------------------------------------------------------------------------------- */

static void conv_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                         rc_tensor *y, const rc_epilogue *epilogue)
{
    right.conv_forward(be, conv, x, weight, bias, y, epilogue);
    spoil("conv_forward", y->raw, act_count(y));
}

static void conv_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight, void *dx,
                               const rc_back_epilogue *epilogue)
{
    right.conv_backward_data(be, conv, dy, weight, dx, epilogue);
    spoil("conv_backward_data", dx, rc_act_count(be, dy->y->n, conv->h, conv->w, conv->c_in));
}

static void conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 void *dweight, void *dbias)
{
    right.conv_backward_weight(be, conv, x, dy, dweight, dbias);
    size_t taps = (size_t)conv->k * (size_t)conv->k;
    spoil("conv_backward_weight", dweight, (size_t)conv->c_out * (size_t)conv->c_in * taps);
}

static void linear_forward(rc_backend *be, const rc_linear *linear, rc_tensor *x, const void *weight, const void *bias,
                           rc_tensor *y, const rc_epilogue *epilogue)
{
    right.linear_forward(be, linear, x, weight, bias, y, epilogue);
    spoil("linear_forward", y->raw, act_count(y));
}

static void linear_backward_weight(rc_backend *be, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    right.linear_backward_weight(be, linear, x, dy, dweight, dbias);
    spoil("linear_backward_weight", dweight, (size_t)x->c * (size_t)dy->y->h * (size_t)dy->y->w * (size_t)dy->y->c);
}

static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    right.bn_train(be, bn, y, f);
    spoil("bn_train: scale", f->scale, channel_count(y));
    spoil("bn_train: shift", f->shift, channel_count(y));
    spoil("bn_train: mean", f->mean, channel_count(y));
    spoil("bn_train: istd", f->istd, channel_count(y));
}

static void bn_eval(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    right.bn_eval(be, bn, y, f);
    spoil("bn_eval: scale", f->scale, channel_count(y));
    spoil("bn_eval: shift", f->shift, channel_count(y));
}

static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    right.bn_statistics(be, y, partial, center, mean, var);
    spoil("bn_statistics: mean", mean, channel_count(y));
    spoil("bn_statistics: var", var, channel_count(y));
}

static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    right.bn_backward(be, y, train, back);
    spoil("bn_backward: dgamma", back->dgamma, (size_t)y->c);
    spoil("bn_backward: dbeta", back->dbeta, (size_t)y->c);
    spoil("bn_backward: a", back->a, channel_count(y));
    spoil("bn_backward: b", back->b, channel_count(y));
    spoil("bn_backward: c", back->c, channel_count(y));
}

static void copy_forward(rc_backend *be, rc_tensor *x, rc_tensor *y, const rc_epilogue *epilogue)
{
    right.copy_forward(be, x, y, epilogue);
    spoil("copy_forward", y->raw, act_count(y));
}

static void copy_backward(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    right.copy_backward(be, dy, dx, epilogue);
    spoil("copy_backward", dx, act_count(dy->y));
}

static void skip_backward(rc_backend *be, const rc_grad *dy, void *dskip, const rc_back_epilogue *epilogue)
{
    const rc_skip *skip = &dy->y->skip;
    right.skip_backward(be, dy, dskip, epilogue);
    spoil("skip_backward", dskip, rc_act_count(be, dy->y->n, skip->h, skip->w, skip->c));
}

static void average_pool_forward(rc_backend *be, rc_tensor *x, void *features)
{
    right.average_pool_forward(be, x, features);
    spoil("average_pool_forward", features, (size_t)x->n * (size_t)x->c);
}

static void average_pool_backward(rc_backend *be, const void *dfeatures, void *dx, const rc_back_epilogue *epilogue)
{
    right.average_pool_backward(be, dfeatures, dx, epilogue);
    spoil("average_pool_backward", dx, act_count(epilogue->x));
}

static void dense_forward(rc_backend *be, int n, int in, int out, const void *x, const void *weight, const void *bias,
                          void *y, int y_stride)
{
    right.dense_forward(be, n, in, out, x, weight, bias, y, y_stride);
    spoil("dense_forward", y, (size_t)out);
}

static void dense_backward_data(rc_backend *be, int n, int in, int out, const void *dy, int dy_stride,
                                const void *weight, void *dx, bool add)
{
    right.dense_backward_data(be, n, in, out, dy, dy_stride, weight, dx, add);
    spoil("dense_backward_data", dx, (size_t)n * (size_t)in);
}

static void dense_backward_weight(rc_backend *be, int n, int in, int out, const void *x, const void *dy, int dy_stride,
                                  void *dweight, void *dbias, bool add)
{
    right.dense_backward_weight(be, n, in, out, x, dy, dy_stride, dweight, dbias, add);
    spoil("dense_backward_weight", dweight, (size_t)out * (size_t)in);
}

/* ---- losses ----------------------------------------------------------------------------------------------------- */

static void loss_cross_entropy(rc_backend *be, const rc_cross_entropy *e, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    right.loss_cross_entropy(be, e, logits, labels, class_weight, weight, value, dlogits);
    spoil("loss_cross_entropy: value", value, 1);
    spoil("loss_cross_entropy: dlogits", dlogits, (size_t)e->n * (size_t)e->stride);
}

static void loss_diversity(rc_backend *be, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    right.loss_diversity(be, n, classes, stride, logits, epsilon, weight, value, dlogits);
    spoil("loss_diversity: value", value, 1);
    spoil("loss_diversity: dlogits", dlogits, (size_t)n * (size_t)stride);
}

static void loss_bn(rc_backend *be, rc_bn_loss_form form, const rc_bn_stat *layers, int count, const float *weight,
                    void *value)
{
    right.loss_bn(be, form, layers, count, weight, value);
    spoil("loss_bn: value", value, 1);
    for (int i = 0; i < count; i++) {
        /* All of them: the generator normalises its images, so that it can hardly move the means behind them. */
        for (int c = 0; c < layers[i].c; c++)
            spoil("loss_bn: dmean", (float *)layers[i].dmean + c, 1);
        spoil("loss_bn: dvar", layers[i].dvar, (size_t)layers[i].c);
    }
}

static void loss_dce(rc_backend *be, const rc_dce *dce, const void *features, const int32_t *labels,
                     const float *weight, void *value, void *dfeatures)
{
    right.loss_dce(be, dce, features, labels, weight, value, dfeatures);
    spoil("loss_dce: value", value, 1);
    spoil("loss_dce: dfeatures", dfeatures, (size_t)dce->n * (size_t)dce->d);
}

static void loss_hkd(rc_backend *be, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    right.loss_hkd(be, n, n_old, logits, stride, teacher, teacher_stride, weight, value, dlogits);
    spoil("loss_hkd: value", value, 1);
    spoil("loss_hkd: dlogits", dlogits, (size_t)n * (size_t)stride);
}

static void loss_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    right.loss_rkd(be, n, d, student, teacher, workspace, weight, value, dstudent, dteacher);
    spoil("loss_rkd: value", value, 1);
    spoil("loss_rkd: dstudent", dstudent, (size_t)n * (size_t)d);
}

static void loss_war(rc_backend *be, int classes, int n_old, int d, bool paper, const void *head, const float *weight,
                     void *value, void *dhead)
{
    right.loss_war(be, classes, n_old, d, paper, head, weight, value, dhead);
    spoil("loss_war: value", value, 1);
    spoil("loss_war: dhead", dhead, (size_t)classes * (size_t)d);
}

/* ---- data and optimisers ---------------------------------------------------------------------------------------- */

static void random_normal(rc_backend *be, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    right.random_normal(be, stream, step, out);
    spoil("random_normal", out->raw, act_count(out));
}

static void augment(rc_backend *be, const rc_augment *a, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *step, rc_tensor *out)
{
    right.augment(be, a, images, order, n, step, out);
    spoil("augment", out->raw, act_count(out));
}

/* Of the optimisers the rate, by one percent: one weight of millions is too small a part of what a step computes. */
static rc_step with_wrong_rate(const char *name, const rc_step *step)
{
    rc_step wrong = *step;
    if (fault && strcmp(name, fault) == 0) {
        wrong.learning_rate *= 1.01f;
        faults++;
    }
    return wrong;
}

static void sgd(rc_backend *be, const rc_sgd *rule, const rc_step *step, size_t count, void *param, const void *grad,
                void *momentum)
{
    rc_step wrong = with_wrong_rate("sgd", step);
    right.sgd(be, rule, &wrong, count, param, grad, momentum);
}

static void adam(rc_backend *be, const rc_adam *rule, const rc_step *step, size_t count, void *param, const void *grad,
                 void *first, void *second)
{
    rc_step wrong = with_wrong_rate("adam", step);
    right.adam(be, rule, &wrong, count, param, grad, first, second);
}

/* ---- the tests -------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    if (rc_backend_open("cpu", 1, NULL, &broken) != RC_OK || rc_backend_open("cpu", 2, NULL, &other) != RC_OK)
        return -1;
    right = *broken;
    broken->conv_forward = conv_forward;
    broken->conv_backward_data = conv_backward_data;
    broken->conv_backward_weight = conv_backward_weight;
    broken->linear_forward = linear_forward;
    broken->linear_backward_weight = linear_backward_weight;
    broken->bn_train = bn_train;
    broken->bn_eval = bn_eval;
    broken->bn_statistics = bn_statistics;
    broken->bn_backward = bn_backward;
    broken->copy_forward = copy_forward;
    broken->copy_backward = copy_backward;
    broken->skip_backward = skip_backward;
    broken->average_pool_forward = average_pool_forward;
    broken->average_pool_backward = average_pool_backward;
    broken->dense_forward = dense_forward;
    broken->dense_backward_data = dense_backward_data;
    broken->dense_backward_weight = dense_backward_weight;
    broken->loss_cross_entropy = loss_cross_entropy;
    broken->loss_diversity = loss_diversity;
    broken->loss_bn = loss_bn;
    broken->loss_dce = loss_dce;
    broken->loss_hkd = loss_hkd;
    broken->loss_rkd = loss_rkd;
    broken->loss_war = loss_war;
    broken->random_normal = random_normal;
    broken->augment = augment;
    broken->sgd = sgd;
    broken->adam = adam;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rc_backend_close(broken);
    rc_backend_close(other);
    return 0;
}

/* Is the backend with this fault (NULL: none) found to agree? What an optimiser does shows in the steps after. */
static bool agrees(const char *name, const char *operation)
{
    bool optimiser = operation && (strcmp(operation, "sgd") == 0 || strcmp(operation, "adam") == 0);
    const rc_step_run run = {
        .name = name, .start = RC_START_SMOOTH, .batch = BATCH, .size = SIZE, .steps = optimiser ? 6 : 1, .seed = 1};
    rc_step_limits limits = rc_step_tolerance(broken, &run);
    rc_step_difference d;
    fault = operation;
    faults = 0;
    if (rc_compare_steps(broken, other, &run, &d) != RC_OK)
        fail_msg("%s", rc_message());
    bool agree = rc_step_agrees(&d, &limits);
    rc_step_difference_free(&d);
    return agree;
}

static void expect_seen(const char *name, const char *const *operation, int count)
{
    int stride = getenv("RECOLLECT_TEST_ALL") != NULL ? 1 : getenv("RECOLLECT_TEST_LIGHT") != NULL ? 7 : 2;
    int unseen = 0;
    assert_true(agrees(name, NULL));
    for (int i = 0; i < count; i += stride) {
        bool agree = agrees(name, operation[i]);
        if (faults == 0 || agree)
            print_message("step %s with a fault of %s: %s\n", name, operation[i], faults ? "not seen" : "not used");
        unseen += faults == 0 || agree;
    }
    assert_int_equal(unseen, 0);
}

static void faults_in_inversion_are_seen(void **state)
{
    (void)state;
    static const char *const operation[] = {"random_normal",
                                            "linear_forward",
                                            "conv_forward",
                                            "bn_train: scale",
                                            "bn_train: shift",
                                            "bn_train: mean",
                                            "bn_train: istd",
                                            "bn_eval: scale",
                                            "bn_eval: shift",
                                            "bn_statistics: mean",
                                            "bn_statistics: var",
                                            "copy_forward",
                                            "average_pool_forward",
                                            "dense_forward",
                                            "loss_cross_entropy: value",
                                            "loss_cross_entropy: dlogits",
                                            "loss_diversity: value",
                                            "loss_diversity: dlogits",
                                            "loss_bn: value",
                                            "loss_bn: dmean",
                                            "loss_bn: dvar",
                                            "loss_dce: value",
                                            "loss_dce: dfeatures",
                                            "dense_backward_data",
                                            "average_pool_backward",
                                            "bn_backward: a",
                                            "bn_backward: b",
                                            "bn_backward: c",
                                            "bn_backward: dgamma",
                                            "bn_backward: dbeta",
                                            "skip_backward",
                                            "copy_backward",
                                            "conv_backward_data",
                                            "conv_backward_weight",
                                            "linear_backward_weight",
                                            "adam"};
    expect_seen("inversion", operation, (int)(sizeof operation / sizeof *operation));
}

static void faults_in_training_are_seen(void **state)
{
    (void)state;
    static const char *const operation[] = {"augment",
                                            "conv_forward",
                                            "bn_train: scale",
                                            "bn_train: shift",
                                            "bn_train: mean",
                                            "bn_train: istd",
                                            "bn_eval: scale",
                                            "bn_eval: shift",
                                            "average_pool_forward",
                                            "dense_forward",
                                            "loss_cross_entropy: value",
                                            "loss_cross_entropy: dlogits",
                                            "loss_hkd: value",
                                            "loss_hkd: dlogits",
                                            "loss_rkd: value",
                                            "loss_rkd: dstudent",
                                            "loss_war: value",
                                            "loss_war: dhead",
                                            "dense_backward_data",
                                            "dense_backward_weight",
                                            "average_pool_backward",
                                            "bn_backward: a",
                                            "bn_backward: b",
                                            "bn_backward: c",
                                            "bn_backward: dgamma",
                                            "bn_backward: dbeta",
                                            "skip_backward",
                                            "conv_backward_data",
                                            "conv_backward_weight",
                                            "sgd"};
    expect_seen("train_next", operation, (int)(sizeof operation / sizeof *operation));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_in_inversion_are_seen),
        cmocka_unit_test(faults_in_training_are_seen),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
