/* Optimisers, with PyTorch's arithmetic. */
#include <math.h>

#include "backend/cpu/reference/reference.h"

/* g = grad + weight_decay * p;  v = momentum * v + g;  p -= lr * v. */
static void sgd(rc_backend *be, const rc_sgd *sgd, const rc_step *step, size_t count, void *param, const void *grad,
                void *momentum)
{
    (void)be;
    real *p = param, *v = momentum;
    real lr = (real)step->learning_rate, decay = (real)sgd->weight_decay, keep = (real)sgd->momentum;
    for (size_t i = 0; i < count; i++) {
        real g = ((const real *)grad)[i] + decay * p[i];
        v[i] = keep * v[i] + g;
        p[i] -= lr * v[i];
    }
}

/* m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  with t = step + 1
 * p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). */
static void adam(rc_backend *be, const rc_adam *adam, const rc_step *step, size_t count, void *param, const void *grad,
                 void *first, void *second)
{
    (void)be;
    real *p = param, *m = first, *v = second;
    double t = (double)step->step + 1;
    real rate = (real)((double)step->learning_rate / (1 - pow((double)adam->beta1, t)));
    real correction = (real)(1 / sqrt(1 - pow((double)adam->beta2, t)));
    real beta1 = (real)adam->beta1, beta2 = (real)adam->beta2, eps = (real)adam->eps;
    for (size_t i = 0; i < count; i++) {
        real g = ((const real *)grad)[i];
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        p[i] -= rate * m[i] / ((real)sqrt((double)v[i]) * correction + eps);
    }
}

void RC_REFERENCE(fill_optimiser)(rc_backend *table)
{
    table->sgd = sgd;
    table->adam = adam;
}
