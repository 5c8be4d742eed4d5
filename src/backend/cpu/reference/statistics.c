/* Labels and statistics: softmax and argmax of logits, label counts and class weights, class means and the tied
 * covariance. */
#include <math.h>

#include "backend/cpu/reference/reference.h"

/* p_bk = exp(z_bk) / sum_j exp(z_bj) */
static void softmax(rc_backend *backend, int n, int classes, int stride, const void *logits, void *probabilities)
{
    (void)backend;
    for (int b = 0; b < n; b++) {
        const real *z = (const real *)logits + (size_t)b * (size_t)stride;
        real *p = (real *)probabilities + (size_t)b * (size_t)classes;
        double largest = z[0], sum = 0;
        for (int k = 1; k < classes; k++)
            largest = z[k] > largest ? z[k] : largest;
        for (int k = 0; k < classes; k++)
            sum += exp(z[k] - largest);
        for (int k = 0; k < classes; k++)
            p[k] = (real)(exp(z[k] - largest) / sum);
    }
}

/* The first of equal maxima. */
static void argmax(rc_backend *backend, int n, int classes, int stride, const void *logits, int32_t *labels)
{
    (void)backend;
    for (int b = 0; b < n; b++) {
        const real *z = (const real *)logits + (size_t)b * (size_t)stride;
        int best = 0;
        for (int k = 1; k < classes; k++)
            best = z[k] > z[best] ? k : best;
        labels[b] = best;
    }
}

static void count_labels(rc_backend *backend, int n, const int32_t *labels, int classes, int32_t *count)
{
    (void)backend;
    for (int b = 0; b < n; b++)
        if (labels[b] >= 0 && labels[b] < classes)
            count[labels[b]]++;
}

/* w_k = total / max(count_k, 1), divided by the smallest of them: the most frequent class has weight 1. The total
 * cancels. */
static void balance_weights(rc_backend *backend, int classes, const int32_t *count, void *class_weight)
{
    (void)backend;
    int32_t most = 1;
    for (int k = 0; k < classes; k++)
        most = count[k] > most ? count[k] : most;
    for (int k = 0; k < classes; k++)
        ((real *)class_weight)[k] = (real)((double)most / (count[k] > 1 ? count[k] : 1));
}

/* With r = feature - center:  count_k += 1,  sum_k += r,  outer += r r^T. Subtracting a center near the mean of all
 * features keeps the digits that class_statistics_finish would cancel. */
static void class_statistics(rc_backend *backend, int n, int d, int classes, const void *features,
                             const int32_t *labels, const void *center, int32_t *count, double *sum, double *outer)
{
    (void)backend;
    (void)classes;
    const real *from = center;
    for (int b = 0; b < n; b++) {
        const real *feature = (const real *)features + (size_t)b * (size_t)d;
        double *class_sum = sum + (size_t)labels[b] * (size_t)d;
        count[labels[b]]++;
        for (int i = 0; i < d; i++) {
            double r = (double)feature[i] - (from ? from[i] : 0);
            class_sum[i] += r;
            for (int j = i; j < d; j++)
                outer[(size_t)i * (size_t)d + (size_t)j] += r * ((double)feature[j] - (from ? from[j] : 0));
        }
    }
}

/* u_k = center + sum_k / count_k
 * covariance = ( outer - sum_k sum_k sum_k^T / count_k ) / (total - unbiased): the scatter of every feature around its
 * own class mean. */
static void class_statistics_finish(rc_backend *backend, int d, int classes, const void *center, const int32_t *count,
                                    const double *sum, const double *outer, bool unbiased, void *class_mean,
                                    void *covariance)
{
    (void)backend;
    const real *from = center;
    double total = 0;
    for (int k = 0; k < classes; k++) {
        real *mean = (real *)class_mean + (size_t)k * (size_t)d;
        total += count[k];
        for (int i = 0; i < d; i++) {
            double r = sum[(size_t)k * (size_t)d + (size_t)i] / count[k];
            mean[i] = count[k] > 0 ? (real)((from ? from[i] : 0) + r) : (real)NAN;
        }
    }
    double divisor = unbiased ? total - 1 : total;
    for (int i = 0; i < d; i++) {
        for (int j = i; j < d; j++) {
            double scatter = outer[(size_t)i * (size_t)d + (size_t)j];
            for (int k = 0; k < classes; k++) {
                const double *s = sum + (size_t)k * (size_t)d;
                scatter -= count[k] > 0 ? s[i] * s[j] / count[k] : 0;
            }
            real entry = (real)(divisor > 0 ? scatter / divisor : 0);
            ((real *)covariance)[(size_t)i * (size_t)d + (size_t)j] = entry;
            ((real *)covariance)[(size_t)j * (size_t)d + (size_t)i] = entry;
        }
    }
}

void RC_REFERENCE(fill_statistics)(rc_backend *table)
{
    table->softmax = softmax;
    table->argmax = argmax;
    table->count_labels = count_labels;
    table->balance_weights = balance_weights;
    table->class_statistics = class_statistics;
    table->class_statistics_finish = class_statistics_finish;
}
