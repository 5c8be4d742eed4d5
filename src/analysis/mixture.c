#include "analysis/mixture.h"

#include <math.h>
#include <string.h>

#include "analysis/statistics.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "base/stop.h"

/* Whitened means lie in blocks of BLOCK components: (d, BLOCK) each, so that distances to a whole block are vectors. */
enum { BLOCK = 64, POINTS = 16 }; /* points that a task takes */

/* ---- making one ----------------------------------------------------------------------------------------------- */

static rc_status allocate(rc_mixture *m, int d, int components)
{
    size_t D = (size_t)d, count = (size_t)components, blocks = (count + BLOCK - 1) / BLOCK;
    *m = (rc_mixture){.d = d, .components = components};
    m->mean = rc_alloc_zeroed(NULL, count, D * sizeof *m->mean);
    m->log_weight = rc_alloc_zeroed(NULL, count, sizeof *m->log_weight);
    m->cumulated = rc_alloc_zeroed(NULL, count, sizeof *m->cumulated);
    m->lower = rc_alloc_zeroed(NULL, D, D * sizeof *m->lower);
    m->white = rc_alloc_zeroed(NULL, blocks * BLOCK, D * sizeof *m->white);
    return m->mean != NULL && m->log_weight != NULL && m->cumulated != NULL && m->lower != NULL && m->white != NULL
               ? RC_OK
               : RC_OUT_OF_MEMORY;
}

void rc_mixture_destroy(rc_mixture *m)
{
    rc_free(NULL, m->mean);
    rc_free(NULL, m->log_weight);
    rc_free(NULL, m->cumulated);
    rc_free(NULL, m->lower);
    rc_free(NULL, m->white);
    *m = (rc_mixture){0};
}

static rc_status finish(rc_mixture *m, const double *weight, const double *covariance)
{
    size_t d = (size_t)m->d;
    double total = 0, *point = rc_alloc(NULL, d * sizeof *point);
    if (point == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(m->lower, covariance, d * d * sizeof *m->lower);
    rc_status status = rc_factorise(m->d, m->lower, &m->ridge);
    for (int i = 0; i < m->components; i++)
        total += weight[i];
    double sum = 0;
    for (size_t i = 0; status == RC_OK && i < (size_t)m->components; i++) {
        sum += weight[i];
        m->cumulated[i] = sum / total;
        m->log_weight[i] = log(weight[i] / total);
        memcpy(point, m->mean + i * d, d * sizeof *point);
        rc_solve_lower(m->d, m->lower, point);
        for (size_t k = 0; k < d; k++)
            m->white[(i / BLOCK * d + k) * BLOCK + i % BLOCK] = point[k];
    }
    m->log_scale = -0.5 * m->d * log(2 * acos(-1)) - rc_log_determinant(m->d, m->lower);
    rc_free(NULL, point);
    return status;
}

rc_status rc_mixture_create(int d, int components, const double *mean, const double *weight, const double *covariance,
                            rc_mixture *mixture)
{
    rc_status status = allocate(mixture, d, components);
    if (status == RC_OK) {
        memcpy(mixture->mean, mean, (size_t)components * (size_t)d * sizeof *mean);
        status = finish(mixture, weight, covariance);
    }
    if (status != RC_OK)
        rc_mixture_destroy(mixture);
    return status;
}

rc_status rc_mixture_fit_classes(rc_pool *pool, int n, int d, const float *samples, const int32_t *labels, int classes,
                                 rc_mixture *mixture)
{
    rc_class_statistics s;
    *mixture = (rc_mixture){0};
    RC_TRY(rc_class_statistics_create(pool, n, d, samples, labels, classes, &s));
    int used = 0;
    for (int k = 0; k < classes; k++) { /* those that have samples, one after the other */
        if (s.count[k] == 0)
            continue;
        memmove(s.mean + (size_t)used * (size_t)d, s.mean + (size_t)k * (size_t)d, (size_t)d * sizeof *s.mean);
        s.weight[used++] = s.weight[k];
    }
    rc_status status = rc_mixture_create(d, used, s.mean, s.weight, s.covariance, mixture);
    rc_class_statistics_destroy(&s);
    return status;
}

rc_status rc_mixture_fit_kernels(rc_pool *pool, int n, int d, const float *samples, rc_bandwidth bandwidth,
                                 rc_mixture *mixture)
{
    rc_class_statistics s;
    *mixture = (rc_mixture){0};
    if (n < 2)
        return rc_fail(RC_INVALID_ARGUMENT, "a kernel density of %d samples, expected 2 or more", n);
    RC_TRY(rc_class_statistics_create(pool, n, d, samples, NULL, 1, &s));
    double factor = pow(n, -2.0 / (d + 4)), *weight = rc_alloc(NULL, (size_t)n * sizeof *weight);
    rc_status status = weight != NULL ? allocate(mixture, d, n) : RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < (size_t)d * (size_t)d; i++) {
        bool diagonal = i % ((size_t)d + 1) == 0;
        s.covariance[i] = factor * (bandwidth == RC_BANDWIDTH_SCOTT ? s.covariance[i] * n / (n - 1) : diagonal);
    }
    for (size_t i = 0; status == RC_OK && i < (size_t)n * (size_t)d; i++)
        mixture->mean[i] = (double)samples[i];
    for (int i = 0; status == RC_OK && i < n; i++)
        weight[i] = 1;
    mixture->kernels = true;
    if (status == RC_OK)
        status = finish(mixture, weight, s.covariance);
    rc_free(NULL, weight);
    rc_class_statistics_destroy(&s);
    if (status != RC_OK)
        rc_mixture_destroy(mixture);
    return status;
}

/* ---- density and samples ---------------------------------------------------------------------------------------- */

typedef struct densities {
    const rc_mixture *mixture;
    int n;
    const double *points;
    bool leave_out;
    double *white; /* (workers, d) */
    double *out;
} densities;

/* A sum of exponentials as it grows: sum * exp(most). */
typedef struct growing_sum {
    double most, sum;
} growing_sum;

static void add_terms(growing_sum *total, const double *term, int count)
{
    enum { NOTHING = -40 }; /* exp(-40) is less than the last bit of 1 */
    for (int i = 0; i < count; i++) {
        if (term[i] > total->most) {
            total->sum = total->sum * exp(total->most - term[i]) + 1;
            total->most = term[i];
        } else if (term[i] - total->most > NOTHING) {
            total->sum += exp(term[i] - total->most);
        }
    }
}

/* log of sum_m w_m exp(-|white - white mean_m|^2 / 2); without: a component that does not count, -1: none. */
static double log_sum(const rc_mixture *m, const double *white, int without)
{
    growing_sum total = {-INFINITY, 0};
    for (int first = 0; first < m->components; first += BLOCK) {
        double term[BLOCK] = {0};
        int count = m->components - first < BLOCK ? m->components - first : BLOCK;
        const double *mean = m->white + (size_t)first * (size_t)m->d;
        for (int k = 0; k < m->d; k++, mean += BLOCK)
            for (int j = 0; j < BLOCK; j++) {
                double away = mean[j] - white[k];
                term[j] += away * away;
            }
        for (int j = 0; j < count; j++)
            term[j] = first + j == without ? -INFINITY : m->log_weight[first + j] - 0.5 * term[j];
        add_terms(&total, term, count);
    }
    return total.most + log(total.sum);
}

static void density_task(void *context, int task, int worker)
{
    const densities *s = context;
    const rc_mixture *m = s->mixture;
    size_t d = (size_t)m->d;
    double *white = s->white + (size_t)worker * d;
    double others = s->leave_out ? -log1p(-1.0 / m->components) : 0; /* n kernels less one */
    int end = (task + 1) * POINTS < s->n ? (task + 1) * POINTS : s->n;
    for (int i = task * POINTS; i < end; i++) {
        memcpy(white, s->points + (size_t)i * d, d * sizeof *white);
        rc_solve_lower(m->d, m->lower, white);
        s->out[i] = log_sum(m, white, s->leave_out ? i : -1) + m->log_scale + others;
    }
}

rc_status rc_mixture_log_density(rc_pool *pool, const rc_mixture *mixture, int n, const double *points, bool leave_out,
                                 double *out)
{
    densities s = {
        .mixture = mixture, .n = n, .points = points, .leave_out = leave_out && mixture->kernels, .out = out};
    s.white = rc_alloc_zeroed(NULL, (size_t)rc_pool_threads(pool), (size_t)mixture->d * sizeof *s.white);
    if (s.white == NULL)
        return RC_OUT_OF_MEMORY;
    rc_pool_run(pool, (n + POINTS - 1) / POINTS, density_task, &s);
    rc_free(NULL, s.white);
    return rc_stopped() ? rc_fail(RC_CANCELLED, "stopped") : RC_OK;
}

void rc_mixture_draw(const rc_mixture *m, rc_rng rng, int n, double *samples)
{
    const rc_rng noise = {rng.seed, rng.stream + 1};
    size_t d = (size_t)m->d;
    for (size_t i = 0; i < (size_t)n; i++) {
        double at = (double)rc_rng_uniform(rng, i), *sample = samples + i * d;
        int low = 0, high = m->components - 1; /* the first component whose cumulated weight is above `at` */
        while (low < high) {
            int middle = (low + high) / 2;
            if (m->cumulated[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        for (size_t k = 0; k < d; k++)
            sample[k] = rc_rng_normal(noise, i * d + k);
        for (size_t j = d; j-- > 0;) { /* from the end, because L of row j reads the noise up to j */
            double sum = m->mean[(size_t)low * d + j];
            for (size_t k = 0; k <= j; k++)
                sum += m->lower[j * d + k] * sample[k];
            sample[j] = sum;
        }
    }
}

/* ---- divergence ----------------------------------------------------------------------------------------------- */

static void estimates(double log_r, double value[RC_DIVERGENCES])
{
    value[0] = -log_r;
    value[1] = 0.5 * log_r * log_r;
    value[2] = expm1(log_r) - log_r;
}

rc_divergence rc_divergence_of(int n, const double *log_p, const double *log_q)
{
    rc_divergence d = {.samples = n};
    double value[RC_DIVERGENCES];
    for (int i = 0; i < n; i++) {
        estimates(log_q[i] - log_p[i], value);
        for (int k = 0; k < RC_DIVERGENCES; k++)
            d.value[k] += value[k] / n;
    }
    for (int i = 0; i < n; i++) {
        estimates(log_q[i] - log_p[i], value);
        for (int k = 0; k < RC_DIVERGENCES; k++)
            d.error[k] += (value[k] - d.value[k]) * (value[k] - d.value[k]);
    }
    for (int k = 0; k < RC_DIVERGENCES; k++)
        d.error[k] = sqrt(d.error[k] / (n - 1.0) / n);
    return d;
}
