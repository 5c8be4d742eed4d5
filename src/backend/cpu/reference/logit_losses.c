/* Losses on logits: cross entropy, LODE's decoupled pair, the distillations, diversity of dreams.
 *
 * Each adds weight * gradient to dlogits and overwrites its value slot. Sums are taken in double, whatever `real` is.
 */
#include <math.h>

#include "backend/cpu/reference/reference.h"

/* log sum_k exp(z_k / T), with the maximum taken out so that nothing overflows; -infinity for no classes. */
static double log_sum_exp(const real *z, int count, double temperature)
{
    if (count <= 0)
        return -HUGE_VAL;
    double largest = z[0];
    for (int k = 1; k < count; k++)
        largest = z[k] > largest ? z[k] : largest;
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += exp((z[k] - largest) / temperature);
    return largest / temperature + log(sum);
}

/* The weight of row b, and which part of it belongs to its first label. */
static double weigh_row(const rc_cross_entropy *loss, const int32_t *labels, const real *class_weights, int b,
                        double *own)
{
    double first = class_weights ? class_weights[labels[b]] : 1;
    *own = 1;
    if (loss->partner == NULL)
        return first;
    double share = ((const real *)loss->share)[b];
    first *= share;
    double weight = first + (1 - share) * (class_weights ? class_weights[loss->partner[b]] : 1);
    *own = weight > 0 ? first / weight : 0;
    return weight;
}

/* l_b = -sum_k q_bk log softmax(z_b / T)_k        dl_b/dz_bk = (softmax(z_b / T)_k - q_bk) / T
 * L = sum_b w_b l_b / D, where D = n (RC_MEAN) or sum_b w_b (RC_WEIGHTED_MEAN); w_b = class_weight[y_b] or 1 and
 * q_bk = [k = y_b], or as backend.h says where labels are smoothed or mixed. */
static void loss_cross_entropy(rc_backend *backend, const rc_cross_entropy *loss, const void *logits,
                               const int32_t *labels, const void *class_weight, const float *weight, void *value,
                               void *dlogits)
{
    (void)backend;
    const real *class_weights = class_weight;
    double divisor = loss->n, own, smoothing = (double)loss->smoothing;
    if (loss->reduction == RC_WEIGHTED_MEAN && class_weights) {
        divisor = 0;
        for (int b = 0; b < loss->n; b++)
            divisor += weigh_row(loss, labels, class_weights, b, &own);
    }
    double total = 0;
    for (int b = 0; b < loss->n; b++) {
        size_t row = (size_t)b * (size_t)loss->stride + (size_t)loss->first;
        const real *z = (const real *)logits + row;
        real *dz = (real *)dlogits + row;
        int label = labels[b] - loss->first, partner = loss->partner ? loss->partner[b] - loss->first : -1;
        double share = weigh_row(loss, labels, class_weights, b, &own) / divisor, matched = 0;
        double normaliser = log_sum_exp(z, loss->count, loss->temperature);
        for (int k = 0; k < loss->count; k++) {
            double p = exp(z[k] / (double)loss->temperature - normaliser);
            double target = smoothing / loss->count +
                            (1 - smoothing) * (own * (k == label) + (1 - own) * (k == partner));
            matched += target * z[k];
            dz[k] += (real)(*weight * share * (p - target) / loss->temperature);
        }
        total += share * (normaliser - matched / (double)loss->temperature);
    }
    *(real *)value = (real)total;
}

/* LODE's split of cross entropy over z[0, count) into "new or old?" and "which of the new?", N = [n_old, count):
 *     inter = mean_b ( LSE_all(z_b) - LSE_N(z_b) )        d/dz_k = softmax_all_k - [k in N] softmax_N_k
 *     intra = mean_b ( LSE_N(z_b) - z_b[y_b] )            d/dz_k = [k in N] softmax_N_k - [k = y_b]
 * inter is computed as log(1 + exp(LSE_old - LSE_N)), which keeps its digits when it is small. */
static void loss_decoupled(rc_backend *backend, int n, int stride, int n_old, int count, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    (void)backend;
    double inter = 0, intra = 0;
    for (int b = 0; b < n; b++) {
        const real *z = (const real *)logits + (size_t)b * (size_t)stride;
        real *dz = (real *)dlogits + (size_t)b * (size_t)stride;
        double of_old = log_sum_exp(z, n_old, 1), of_new = log_sum_exp(z + n_old, count - n_old, 1);
        double of_all = of_old > of_new ? of_old + log1p(exp(of_new - of_old)) : of_new + log1p(exp(of_old - of_new));
        inter += of_old > of_new ? of_all - of_new : log1p(exp(of_old - of_new));
        intra += of_new - z[labels[b]];
        for (int k = 0; k < count; k++) {
            double among_all = exp(z[k] - of_all), among_new = k >= n_old ? exp(z[k] - of_new) : 0;
            dz[k] += (real)((*inter_weight * (among_all - among_new) + *intra_weight * (among_new - (k == labels[b]))) /
                            n);
        }
    }
    *(real *)inter_value = (real)(inter / n);
    *(real *)intra_value = (real)(intra / n);
}

/* L = mean over (n, n_old) of |z - t|        dL/dz = sign(z - t) / (n n_old), 0 where they are equal */
static void loss_hkd(rc_backend *backend, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    (void)backend;
    double total = 0, count = (double)n * n_old;
    for (int b = 0; b < n; b++) {
        const real *z = (const real *)logits + (size_t)b * (size_t)stride;
        const real *t = (const real *)teacher + (size_t)b * (size_t)teacher_stride;
        real *dz = (real *)dlogits + (size_t)b * (size_t)stride;
        for (int k = 0; k < n_old; k++) {
            double difference = (double)z[k] - t[k];
            total += fabs(difference);
            dz[k] += (real)(*weight * ((difference > 0) - (difference < 0)) / count);
        }
    }
    *(real *)value = (real)(total / count);
}

/* With p = softmax(t / T) over the teacher's classes, 0 for the student's other classes, and q = softmax(z / T):
 *     L = mean_b sum_k -p_bk log q_bk   [ + p_bk log p_bk: kl ]   [ times T^2: t_squared ]
 *     dL/dz_bk = (q_bk - p_bk) / (T n)                            [ times T^2 ] */
static void loss_kd(rc_backend *backend, const rc_distillation *loss, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    (void)backend;
    double temperature = loss->temperature, total = 0;
    double factor = (loss->t_squared ? temperature * temperature : 1) / loss->n;
    for (int b = 0; b < loss->n; b++) {
        size_t row = (size_t)b * (size_t)loss->student_stride + (size_t)loss->first;
        const real *z = (const real *)logits + row;
        const real *t = (const real *)teacher + (size_t)b * (size_t)loss->teacher_stride + loss->teacher_first;
        real *dz = (real *)dlogits + row;
        double student_sum = log_sum_exp(z, loss->student_count, temperature);
        double teacher_sum = log_sum_exp(t, loss->teacher_count, temperature);
        for (int k = 0; k < loss->student_count; k++) {
            double log_q = z[k] / temperature - student_sum, p = 0;
            if (k < loss->teacher_count) {
                double log_p = t[k] / temperature - teacher_sum;
                p = exp(log_p);
                total -= p * (loss->kl ? log_q - log_p : log_q);
            }
            dz[k] += (real)(*weight * factor * (exp(log_q) - p) / temperature);
        }
    }
    *(real *)value = (real)(total * factor);
}

/* m_k = mean_b p_bk, p_b = softmax(z_b), K classes:
 *     L = 1 + sum_k m_k log(m_k + epsilon) / log K        0 if the dreams cover all classes alike, 1 for one class
 *     g_k = dL/dm_k = ( log(m_k + epsilon) + m_k / (m_k + epsilon) ) / log K
 *     dL/dz_bk = p_bk (g_k - sum_j g_j p_bj) / n
 * A class whose probability underflows to 0 adds nothing (x log x -> 0); a single class has nothing to vary: L = 0. */
static void loss_diversity(rc_backend *backend, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    rc_cpu *cpu = rc_cpu_of(backend);
    *(real *)value = 0;
    if (classes < 2)
        return;
    if (cpu->shared_bytes < (size_t)classes * sizeof(double)) {
        rc_cpu_set_error(cpu, RC_INTERNAL, "loss_diversity: reserve_losses() was not called for this many classes");
        return;
    }
    double *mean = cpu->shared; /* (classes), then the gradient g in its place */
    for (int k = 0; k < classes; k++)
        mean[k] = 0;
    for (int b = 0; b < n; b++) {
        const real *z = (const real *)logits + (size_t)b * (size_t)stride;
        double normaliser = log_sum_exp(z, classes, 1);
        for (int k = 0; k < classes; k++)
            mean[k] += exp(z[k] - normaliser) / n;
    }
    double total = 0, scale = log(classes);
    for (int k = 0; k < classes; k++) {
        double m = mean[k], shifted = m + epsilon;
        total += m > 0 ? m * log(shifted) : 0;
        mean[k] = m > 0 ? (log(shifted) + m / shifted) / scale : 0;
    }
    for (int b = 0; b < n; b++) {
        const real *z = (const real *)logits + (size_t)b * (size_t)stride;
        real *dz = (real *)dlogits + (size_t)b * (size_t)stride;
        double normaliser = log_sum_exp(z, classes, 1), along = 0;
        for (int k = 0; k < classes; k++)
            along += mean[k] * exp(z[k] - normaliser);
        for (int k = 0; k < classes; k++)
            dz[k] += (real)(*weight * exp(z[k] - normaliser) * (mean[k] - along) / n);
    }
    *(real *)value = (real)(1 + total / scale);
}

static rc_status reserve_losses(rc_backend *backend, int n, int classes, int h, int w, int c)
{
    (void)n;
    (void)h;
    (void)w;
    (void)c;
    return rc_cpu_reserve(rc_cpu_of(backend), (size_t)classes * sizeof(double), 0);
}

void RC_REFERENCE(fill_logit_losses)(rc_backend *table)
{
    table->reserve_losses = reserve_losses;
    table->loss_cross_entropy = loss_cross_entropy;
    table->loss_decoupled = loss_decoupled;
    table->loss_hkd = loss_hkd;
    table->loss_kd = loss_kd;
    table->loss_diversity = loss_diversity;
}
