#include "api/unfamiliarity.h"

#include <math.h>

#include "base/memory.h"

static const double ridge_part = 0.01;

struct rc_unfamiliarity {
    int d, classes;  /* classes that have a mean */
    int *label;      /* (classes) */
    double *factor;  /* (d, d): lower triangular L, covariance + ridge = L L^T */
    double *mean;    /* (classes, d): L^-1 mean */
    double *white;   /* (d): scratch */
    double expected; /* squared distance of a sample of the Gaussian from its own mean */
};

/* L L^T = covariance + ridge, in place of the lower triangle; false: it is not positive. */
static bool factorise(double *matrix, int d)
{
    for (int column = 0; column < d; column++) {
        for (int row = column; row < d; row++) {
            double sum = matrix[row * d + column];
            for (int k = 0; k < column; k++)
                sum -= matrix[row * d + k] * matrix[column * d + k];
            if (row == column && !(sum > 0 && isfinite(sum)))
                return false;
            matrix[row * d + column] = row == column ? sqrt(sum) : sum / matrix[column * d + column];
        }
    }
    return true;
}

/* x = L^-1 x. */
static void whiten(const rc_unfamiliarity *u, double *x)
{
    for (int row = 0; row < u->d; row++) {
        double sum = x[row];
        for (int k = 0; k < row; k++)
            sum -= u->factor[row * u->d + k] * x[k];
        x[row] = sum / u->factor[row * u->d + row];
    }
}

/* Trace of (covariance + ridge)^-1 covariance = d - ridge * trace of the inverse; a column of L^-1 at a time.
 */
static double expected_square(const rc_unfamiliarity *u, double ridge)
{
    double trace = 0;
    for (int column = 0; column < u->d; column++) {
        for (int i = 0; i < u->d; i++)
            u->white[i] = i == column ? 1 : 0;
        whiten(u, u->white);
        for (int i = column; i < u->d; i++)
            trace += u->white[i] * u->white[i];
    }
    return u->d - ridge * trace;
}

/* Means that were estimated, whitened. */
static void take_means(rc_unfamiliarity *u, const float *mean, int classes)
{
    for (int label = 0; label < classes; label++) {
        double *row = u->mean + (size_t)u->classes * (size_t)u->d;
        bool finite = true;
        for (int i = 0; i < u->d; i++) {
            row[i] = (double)mean[(size_t)label * (size_t)u->d + (size_t)i];
            finite = finite && isfinite(row[i]);
        }
        if (!finite)
            continue;
        whiten(u, row);
        u->label[u->classes++] = label;
    }
}

static rc_status build(rc_unfamiliarity *u, const float *covariance, const float *mean, int classes)
{
    size_t d = (size_t)u->d;
    double ridge = 0;
    for (size_t i = 0; i < d; i++)
        ridge += (double)covariance[i * d + i] / (double)d * ridge_part;
    for (size_t i = 0; i < d * d; i++)
        u->factor[i] = (double)covariance[i] + (i % (d + 1) == 0 ? ridge : 0);
    if (!factorise(u->factor, u->d))
        return rc_fail(RC_FORMAT, "the stored covariance of the features is not positive");
    u->expected = expected_square(u, ridge);
    take_means(u, mean, classes);
    if (u->classes == 0 || !(u->expected > 0))
        return rc_fail(RC_FORMAT, "the stored statistics of the features hold no class");
    return RC_OK;
}

rc_status rc_unfamiliarity_create(const rc_learner *l, rc_backend *backend, rc_unfamiliarity **out)
{
    *out = NULL;
    if (l->class_mean == NULL)
        return RC_OK;
    size_t d = (size_t)l->student.head.d, classes = (size_t)l->statistics_classes;
    rc_unfamiliarity *u = rc_alloc_zeroed(NULL, 1, sizeof *u);
    float *host = rc_alloc_zeroed(NULL, d * d + classes * d, sizeof *host);
    rc_status status = RC_OUT_OF_MEMORY;
    if (u != NULL && host != NULL) {
        u->d = (int)d;
        u->label = rc_alloc_zeroed(NULL, classes, sizeof *u->label);
        u->factor = rc_alloc_zeroed(NULL, d * d, sizeof *u->factor);
        u->mean = rc_alloc_zeroed(NULL, classes * d, sizeof *u->mean);
        u->white = rc_alloc_zeroed(NULL, d, sizeof *u->white);
    }
    if (host != NULL && u != NULL && u->label != NULL && u->factor != NULL && u->mean != NULL && u->white != NULL) {
        backend->read_real(backend, host, l->covariance, d * d);
        backend->read_real(backend, host + d * d, l->class_mean, classes * d);
        status = build(u, host, host + d * d, (int)classes);
    }
    rc_free(NULL, host);
    if (status == RC_OK)
        *out = u;
    else
        rc_unfamiliarity_destroy(u);
    return status;
}

void rc_unfamiliarity_destroy(rc_unfamiliarity *u)
{
    if (u == NULL)
        return;
    rc_free(NULL, u->label);
    rc_free(NULL, u->factor);
    rc_free(NULL, u->mean);
    rc_free(NULL, u->white);
    rc_free(NULL, u);
}

double rc_unfamiliarity_of(rc_unfamiliarity *u, const float *feature, int *nearest)
{
    double least = INFINITY;
    *nearest = u->label[0];
    for (int i = 0; i < u->d; i++)
        u->white[i] = (double)feature[i];
    whiten(u, u->white);
    for (int k = 0; k < u->classes; k++) {
        const double *mean = u->mean + (size_t)k * (size_t)u->d;
        double square = 0;
        for (int i = 0; i < u->d; i++)
            square += (u->white[i] - mean[i]) * (u->white[i] - mean[i]);
        if (square < least) {
            least = square;
            *nearest = u->label[k];
        }
    }
    return isfinite(least) ? sqrt(least / u->expected) : (double)NAN;
}
