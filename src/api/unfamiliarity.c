#include "api/unfamiliarity.h"

#include <math.h>

#include "base/memory.h"

/* The part of the covariance that is replaced by the mean of its diagonal. Up to 0.3 makes little difference. */
static const double shrinkage = 0.05;

struct rc_unfamiliarity {
    int logits; /* classes of the head */
    int d;
    int classes;    /* classes that have a mean; 0: the model has no statistics, and what follows is NULL */
    int *label;     /* (classes) */
    double *factor; /* (d, d): lower triangular L, shrunk covariance = L L^T */
    double *mean;   /* (classes, d): L^-1 mean */
    double *white;  /* (d): scratch */
};

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* L L^T = matrix, in place of the lower triangle; false: it is not positive. */
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
    double diagonal = 0;
    for (size_t i = 0; i < d; i++)
        diagonal += (double)covariance[i * d + i] / (double)d;
    for (size_t i = 0; i < d * d; i++)
        u->factor[i] = (1 - shrinkage) * (double)covariance[i] + (i % (d + 1) == 0 ? shrinkage * diagonal : 0);
    if (!factorise(u->factor, u->d))
        return rc_fail(RC_FORMAT, "the stored covariance of the features is not positive");
    take_means(u, mean, classes);
    return u->classes > 0 ? RC_OK : rc_fail(RC_FORMAT, "the stored statistics of the features hold no class");
}

static rc_status read_statistics(rc_unfamiliarity *u, const rc_learner *l, rc_backend *backend)
{
    size_t d = (size_t)u->d, classes = (size_t)l->statistics_classes;
    float *host = rc_alloc_zeroed(NULL, d * d + classes * d, sizeof *host);
    u->label = rc_alloc_zeroed(NULL, classes, sizeof *u->label);
    u->factor = rc_alloc_zeroed(NULL, d * d, sizeof *u->factor);
    u->mean = rc_alloc_zeroed(NULL, classes * d, sizeof *u->mean);
    u->white = rc_alloc_zeroed(NULL, d, sizeof *u->white);
    rc_status status = RC_OUT_OF_MEMORY;
    if (host != NULL && u->label != NULL && u->factor != NULL && u->mean != NULL && u->white != NULL) {
        backend->read_real(backend, host, l->covariance, d * d);
        backend->read_real(backend, host + d * d, l->class_mean, classes * d);
        status = backend->sync(backend); /* was all of it read? */
        if (status == RC_OK)
            status = build(u, host, host + d * d, (int)classes);
    }
    rc_free(NULL, host);
    return status;
}

rc_status rc_unfamiliarity_create(const rc_learner *l, rc_backend *backend, rc_unfamiliarity **out)
{
    *out = NULL;
    rc_unfamiliarity *u = rc_alloc_zeroed(NULL, 1, sizeof *u);
    if (u == NULL)
        return RC_OUT_OF_MEMORY;
    u->d = l->student.head.d;
    u->logits = l->student.head.classes;
    rc_status status = l->class_mean != NULL ? read_statistics(u, l, backend) : RC_OK;
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

rc_score_kind rc_unfamiliarity_kind(const rc_unfamiliarity *u)
{
    return u->classes > 0 ? RC_SCORE_DISTANCE_AND_ENERGY : RC_SCORE_ENTROPY;
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Squared distance of the feature from the nearest mean; *nearest is its class. */
static double least_square(const rc_unfamiliarity *u, const float *feature, int *nearest)
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
    return least;
}

/* log sum exp of the logits; *entropy gets that of their softmax. */
static double evidence(const float *logits, int classes, double *entropy)
{
    double largest = -INFINITY, sum = 0, weighted = 0;
    for (int k = 0; k < classes; k++)
        largest = (double)logits[k] > largest ? (double)logits[k] : largest;
    for (int k = 0; k < classes; k++) {
        double below = (double)logits[k] - largest, e = exp(below);
        sum += e;
        weighted += e * below;
    }
    *entropy = log(sum) - weighted / sum;
    return largest + log(sum);
}

double rc_unfamiliarity_score(rc_unfamiliarity *u, const float *logits, const float *feature, int *nearest)
{
    double entropy, energy = -evidence(logits, u->logits, &entropy);
    *nearest = -1;
    double score = u->classes > 0 ? sqrt(2.0 / u->d) * least_square(u, feature, nearest) + energy : entropy;
    return isfinite(score) ? score : (double)NAN;
}

double rc_unfamiliarity_shown(double score)
{
    const double least = -80; /* a float still holds its exponential */
    return isnan(score) ? score : score > 0 ? score + log1p(exp(-score)) : log1p(exp(score > least ? score : least));
}
