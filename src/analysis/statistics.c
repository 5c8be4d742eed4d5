#include "analysis/statistics.h"

#include <math.h>
#include <string.h>

#include "base/matrix.h"
#include "base/memory.h"

/* ---- means and covariance --------------------------------------------------------------------------------------- */

rc_status rc_class_statistics_allocate(int d, int classes, rc_class_statistics *s)
{
    size_t D = (size_t)d, K = (size_t)classes;
    *s = (rc_class_statistics){.d = d, .classes = classes};
    s->mean = rc_alloc_zeroed(NULL, K * D + D * D + 2 * K, sizeof *s->mean);
    if (s->mean == NULL)
        return RC_OUT_OF_MEMORY;
    s->covariance = s->mean + K * D;
    s->weight = s->covariance + D * D;
    s->count = (int32_t *)(s->weight + K);
    return RC_OK;
}

void rc_class_statistics_destroy(rc_class_statistics *s)
{
    rc_free(NULL, s->mean);
    *s = (rc_class_statistics){0};
}

static size_t label_of(const int32_t *labels, int i)
{
    return labels != NULL ? (size_t)labels[i] : 0;
}

static void take_means(int n, const float *features, const int32_t *labels, rc_class_statistics *s)
{
    size_t d = (size_t)s->d;
    for (int i = 0; i < n; i++) {
        double *sum = s->mean + label_of(labels, i) * d;
        const float *feature = features + (size_t)i * d;
        for (size_t j = 0; j < d; j++)
            sum[j] += (double)feature[j];
        s->count[label_of(labels, i)]++;
    }
    for (size_t k = 0; k < (size_t)s->classes; k++) {
        s->weight[k] = (double)s->count[k] / n;
        for (size_t j = 0; j < d; j++)
            s->mean[k * d + j] = s->count[k] > 0 ? s->mean[k * d + j] / s->count[k] : (double)NAN;
    }
}

static rc_status take_covariance(rc_pool *pool, int n, const float *features, const int32_t *labels,
                                 rc_class_statistics *s)
{
    size_t d = (size_t)s->d;
    float *rest = rc_alloc_zeroed(NULL, (size_t)n, d * sizeof *rest);
    if (rest == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++)
            rest[(size_t)i * d + j] = (float)((double)features[(size_t)i * d + j] -
                                              s->mean[label_of(labels, i) * d + j]);
    rc_status status = rc_cross_products(pool, n, s->d, rest, s->d, rest, s->covariance);
    for (size_t i = 0; i < d * d; i++)
        s->covariance[i] /= n;
    rc_free(NULL, rest);
    return status;
}

rc_status rc_class_statistics_create(rc_pool *pool, int n, int d, const float *features, const int32_t *labels,
                                     int classes, rc_class_statistics *s)
{
    RC_TRY(rc_class_statistics_allocate(d, classes, s));
    take_means(n, features, labels, s);
    rc_status status = take_covariance(pool, n, features, labels, s);
    if (status != RC_OK)
        rc_class_statistics_destroy(s);
    return status;
}

/* ---- classifiers ------------------------------------------------------------------------------------------------ */

void rc_linear_rule(int n, int d, const float *features, const int32_t *labels, int classes, const double *weight,
                    const double *shift, int32_t *right)
{
    memset(right, 0, (size_t)classes * sizeof *right);
    for (int i = 0; i < n; i++) {
        const float *x = features + (size_t)i * (size_t)d;
        double best = -INFINITY;
        int said = -1;
        for (int k = 0; k < classes; k++) {
            const double *w = weight + (size_t)k * (size_t)d;
            double score = shift[k];
            for (int j = 0; j < d; j++)
                score += (double)x[j] * w[j];
            if (score > best) {
                best = score;
                said = k;
            }
        }
        if (said == labels[i])
            right[said]++;
    }
}

/* The covariance's factor; NULL: it is the unit matrix, and the scores are those of the nearest mean. */
static rc_status classify(int n, int d, const float *features, const int32_t *labels, int classes, const double *mean,
                          const double *lower, int32_t *right)
{
    size_t D = (size_t)d, K = (size_t)classes;
    double *weight = rc_alloc(NULL, (K * D + K) * sizeof *weight);
    if (weight == NULL)
        return RC_OUT_OF_MEMORY;
    double *shift = weight + K * D;
    memcpy(weight, mean, K * D * sizeof *weight);
    for (size_t k = 0; k < K; k++) {
        if (lower != NULL)
            rc_solve(d, lower, weight + k * D);
        shift[k] = 0;
        for (size_t j = 0; j < D; j++)
            shift[k] -= 0.5 * mean[k * D + j] * weight[k * D + j];
    }
    rc_linear_rule(n, d, features, labels, classes, weight, shift, right);
    rc_free(NULL, weight);
    return RC_OK;
}

rc_status rc_nearest_mean(int n, int d, const float *features, const int32_t *labels, int classes, const double *mean,
                          int32_t *right)
{
    return classify(n, d, features, labels, classes, mean, NULL, right);
}

rc_status rc_linear_discriminant(int n, int d, const float *features, const int32_t *labels, int classes,
                                 const double *mean, const double *covariance, int32_t *right)
{
    size_t count = (size_t)d * (size_t)d;
    double ridge, *lower = rc_alloc(NULL, count * sizeof *lower);
    if (lower == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(lower, covariance, count * sizeof *lower);
    rc_status status = rc_factorise(d, lower, &ridge);
    if (status == RC_OK)
        status = classify(n, d, features, labels, classes, mean, lower, right);
    rc_free(NULL, lower);
    return status;
}

/* The class of [first, end) with the highest score; of equals the first. */
static int highest(const float *scores, int first, int end)
{
    int said = first;
    for (int k = first + 1; k < end; k++)
        said = scores[k] > scores[said] ? k : said;
    return said;
}

void rc_highest_scores(int n, const float *scores, const int32_t *labels, int classes, int32_t *right)
{
    memset(right, 0, (size_t)classes * sizeof *right);
    for (int i = 0; i < n; i++, scores += classes) {
        int said = highest(scores, 0, classes);
        if (said == labels[i])
            right[said]++;
    }
}

void rc_scores_of_task(int n, const float *scores, const int32_t *labels, int classes, int first, int end,
                       double *among, double *told)
{
    double images = 0, right = 0, in_task = 0;
    for (int i = 0; i < n; i++, scores += classes) {
        if (labels[i] < first || labels[i] >= end)
            continue;
        int said = highest(scores, 0, classes);
        images++;
        right += highest(scores, first, end) == labels[i];
        in_task += said >= first && said < end;
    }
    *among = 100 * right / images;
    *told = 100 * in_task / images;
}

double rc_relative_distance(int d, const double *mean, const double *other)
{
    double away = 0, norm = 0;
    for (int j = 0; j < d; j++) {
        away += (mean[j] - other[j]) * (mean[j] - other[j]);
        norm += other[j] * other[j];
    }
    return sqrt(away / norm);
}

/* ---- direction of gradients ------------------------------------------------------------------------------------- */

rc_status rc_direction_create(int d, int classes, rc_direction *r)
{
    size_t D = (size_t)d, K = (size_t)classes;
    *r = (rc_direction){.d = d, .classes = classes};
    r->sum = rc_alloc_zeroed(NULL, K * D + K, sizeof *r->sum);
    if (r->sum == NULL)
        return RC_OUT_OF_MEMORY;
    r->norm = r->sum + K * D;
    return RC_OK;
}

void rc_direction_destroy(rc_direction *r)
{
    rc_free(NULL, r->sum);
    *r = (rc_direction){0};
}

void rc_direction_clear(rc_direction *r)
{
    memset(r->sum, 0, ((size_t)r->d + 1) * (size_t)r->classes * sizeof *r->sum);
}

void rc_direction_add(rc_direction *r, const float *gradient)
{
    for (int k = 0; k < r->classes; k++) {
        double square = 0, *sum = r->sum + (size_t)k * (size_t)r->d;
        for (int j = 0; j < r->d; j++) {
            double g = (double)*gradient++;
            sum[j] += g;
            square += g * g;
        }
        r->norm[k] += sqrt(square);
    }
}

double rc_direction_of(const rc_direction *r, int class)
{
    const double *sum = r->sum + (size_t) class * (size_t)r->d;
    double square = 0;
    for (int j = 0; j < r->d; j++)
        square += sum[j] * sum[j];
    return sqrt(square) / r->norm[class]; /* 0 / 0 is NaN */
}

double rc_direction_mean(const rc_direction *r, int first, int end)
{
    double sum = 0;
    int count = 0;
    for (int k = first; k < end; k++) {
        double value = rc_direction_of(r, k);
        if (!isnan(value)) {
            sum += value;
            count++;
        }
    }
    return sum / count;
}
