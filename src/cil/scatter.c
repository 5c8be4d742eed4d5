#include "cil/scatter.h"

#include "base/matrix.h"
#include "base/memory.h"

size_t rc_factor_numbers(int d)
{
    return (size_t)d * ((size_t)d + 1) / 2;
}

rc_status rc_scatter_create(int d, int classes, rc_scatter *s)
{
    *s = (rc_scatter){.d = d, .classes = classes};
    s->sum = rc_alloc_zeroed(NULL, (size_t)classes, ((size_t)d + rc_factor_numbers(d)) * sizeof *s->sum);
    s->count = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *s->count);
    if (s->sum == NULL || s->count == NULL) {
        rc_scatter_destroy(s);
        return RC_OUT_OF_MEMORY;
    }
    s->outer = s->sum + (size_t)classes * (size_t)d;
    return RC_OK;
}

void rc_scatter_destroy(rc_scatter *s)
{
    rc_free(NULL, s->sum);
    rc_free(NULL, s->count);
    *s = (rc_scatter){0};
}

void rc_scatter_add(rc_scatter *s, int class, const double *feature)
{
    size_t d = (size_t)s->d;
    double *sum = s->sum + (size_t) class * d, *outer = s->outer + (size_t) class * rc_factor_numbers(s->d);
    s->count[class]++;
    for (size_t i = 0; i < d; i++) {
        sum[i] += feature[i];
        for (size_t j = 0; j <= i; j++)
            *outer++ += feature[i] * feature[j];
    }
}

/* (i, j), j <= i, of S_k. */
static double scatter_at(const rc_scatter *s, size_t k, size_t i, size_t j)
{
    const double *sum = s->sum + k * (size_t)s->d;
    double all = s->outer[k * rc_factor_numbers(s->d) + i * (i + 1) / 2 + j];
    return s->count[k] > 0 ? all - sum[i] * sum[j] / s->count[k] : 0;
}

void rc_scatter_shared(const rc_scatter *s, double divisor, double *covariance)
{
    size_t d = (size_t)s->d;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++) {
            double all = 0;
            for (size_t k = 0; k < (size_t)s->classes; k++)
                all += scatter_at(s, k, i, j);
            covariance[i * d + j] = covariance[j * d + i] = all / divisor;
        }
}

rc_status rc_scatter_factors(const rc_scatter *s, const double *shared, float *factor)
{
    size_t d = (size_t)s->d;
    double *matrix = rc_alloc_zeroed(NULL, d * d, sizeof *matrix), ridge;
    rc_status status = matrix != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    for (size_t k = 0; status == RC_OK && k < (size_t)s->classes; k++) {
        double images = RC_SHARED_IMAGES + (s->count[k] > 1 ? s->count[k] - 1 : 0);
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j <= i; j++)
                matrix[i * d + j] = (scatter_at(s, k, i, j) + RC_SHARED_IMAGES * shared[i * d + j]) / images;
        status = rc_factorise(s->d, matrix, &ridge);
        for (size_t i = 0; status == RC_OK && i < d; i++)
            for (size_t j = 0; j <= i; j++)
                *factor++ = (float)matrix[i * d + j];
    }
    rc_free(NULL, matrix);
    return status;
}
