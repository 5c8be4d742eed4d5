/* Breaks one operation on purpose, to show that the tests notice: makes the element of the result with the largest
 * magnitude one percent larger. Compiled into test builds only. */
#include "backend/open.h"

#if RC_TEST_HOOKS

#include <math.h>
#include <stdlib.h>
#include <string.h>

static rc_backend original; /* the entries as they were */

/* The CPU backend's memory is host memory, float. */
static void disturb(void *memory, size_t count)
{
    float *element = memory;
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (fabsf(element[i]) > fabsf(element[largest]))
            largest = i;
    if (count)
        element[largest] *= 1.01f;
}

static void broken_conv_forward(rc_backend *be, const rc_conv *conv, rc_tensor *x, const void *weight, const void *bias,
                                rc_tensor *y, const rc_epilogue *epilogue)
{
    original.conv_forward(be, conv, x, weight, bias, y, epilogue);
    disturb(y->raw, rc_act_count(be, y->n, y->h, y->w, y->c));
}

static void broken_conv_backward_data(rc_backend *be, const rc_conv *conv, const rc_grad *dy, const void *weight,
                                      void *dx, const rc_back_epilogue *epilogue)
{
    original.conv_backward_data(be, conv, dy, weight, dx, epilogue);
    disturb(dx, rc_act_count(be, dy->y->n, conv->h, conv->w, conv->c_in));
}

static void broken_conv_backward_weight(rc_backend *be, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                        void *dweight, void *dbias)
{
    original.conv_backward_weight(be, conv, x, dy, dweight, dbias);
    disturb(dweight, (size_t)conv->c_out * (size_t)conv->c_in * (size_t)conv->k * (size_t)conv->k);
}

static void broken_bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    original.bn_train(be, bn, y, f);
    disturb(f->scale, (size_t)y->groups * (size_t)rc_padded(be, y->c));
}

static void broken_loss_cross_entropy(rc_backend *be, const rc_cross_entropy *loss, const void *logits,
                                      const int32_t *labels, const void *class_weight, const float *weight, void *value,
                                      void *dlogits)
{
    original.loss_cross_entropy(be, loss, logits, labels, class_weight, weight, value, dlogits);
    disturb(value, 1);
}

static void broken_loss_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                            const float *weight, void *value, void *dstudent, void *dteacher)
{
    original.loss_rkd(be, n, d, student, teacher, workspace, weight, value, dstudent, dteacher);
    disturb(dstudent, (size_t)n * (size_t)d);
}

static void broken_sgd(rc_backend *be, const rc_sgd *sgd, const rc_step *step, size_t count, void *param,
                       const void *grad, void *momentum)
{
    original.sgd(be, sgd, step, count, param, grad, momentum);
    disturb(param, count);
}

static void broken_dense_forward(rc_backend *be, int n, int in, int out, const void *x, const void *weight,
                                 const void *bias, void *y, int y_stride)
{
    original.dense_forward(be, n, in, out, x, weight, bias, y, y_stride);
    disturb(y, (size_t)out);
}

rc_status rc_break_operation(rc_backend *be)
{
    const char *name = getenv("RECOLLECT_BREAK_OP");
    if (!name || !name[0])
        return RC_OK;
    original = *be;
    if (strcmp(name, "conv_forward") == 0)
        be->conv_forward = broken_conv_forward;
    else if (strcmp(name, "conv_backward_data") == 0)
        be->conv_backward_data = broken_conv_backward_data;
    else if (strcmp(name, "conv_backward_weight") == 0)
        be->conv_backward_weight = broken_conv_backward_weight;
    else if (strcmp(name, "bn_train") == 0)
        be->bn_train = broken_bn_train;
    else if (strcmp(name, "loss_cross_entropy") == 0)
        be->loss_cross_entropy = broken_loss_cross_entropy;
    else if (strcmp(name, "loss_rkd") == 0)
        be->loss_rkd = broken_loss_rkd;
    else if (strcmp(name, "sgd") == 0)
        be->sgd = broken_sgd;
    else if (strcmp(name, "dense_forward") == 0)
        be->dense_forward = broken_dense_forward;
    else
        return rc_fail(RC_INVALID_ARGUMENT,
                       "RECOLLECT_BREAK_OP is '%s', expected conv_forward, conv_backward_data, conv_backward_weight, "
                       "bn_train, loss_cross_entropy, loss_rkd, sgd or dense_forward",
                       name);
    return RC_OK;
}

#endif
