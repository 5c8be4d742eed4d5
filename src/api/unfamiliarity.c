#include "api/unfamiliarity.h"

#include <math.h>

#include "base/matrix.h"
#include "base/memory.h"

/* The part of the covariance that is replaced by the mean of its diagonal. Up to 0.3 makes little difference. */
static const double shrinkage = 0.05;

/* The weight of the entropy. 2 to 8 makes little difference. */
static const double entropy_weight = 4;

/* A covariance and means, ready for distances. */
typedef struct metric {
    double *factor; /* (d, d): lower triangular L, shrunk covariance = L L^T */
    double *mean;   /* (means, d): L^-1 mean */
    int means;
} metric;

struct rc_unfamiliarity {
    int logits; /* classes of the head */
    int d;
    bool statistics;   /* the model has some that tell distances; else nobody reads what follows */
    int *label;        /* (class.means) */
    metric class, all; /* of the classes; of all that the model has seen */
    double *white;     /* (d): scratch */
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

/* Means that were estimated. */
static void take_means(rc_unfamiliarity *u, const float *mean, int classes)
{
    metric *m = &u->class;
    for (int label = 0; label < classes; label++) {
        double *row = m->mean + (size_t)m->means * (size_t)u->d;
        bool finite = true;
        for (int i = 0; i < u->d; i++) {
            row[i] = (double)mean[(size_t)label * (size_t)u->d + (size_t)i];
            finite = finite && isfinite(row[i]);
        }
        if (finite)
            u->label[m->means++] = label;
    }
}

/* u->all: the mean of the class means, and their covariance on top of that of a class. */
static void add_between(rc_unfamiliarity *u)
{
    int d = u->d, classes = u->class.means;
    double *mean = u->all.mean;
    u->all.means = 1;
    for (int k = 0; k < classes; k++)
        for (int i = 0; i < d; i++)
            mean[i] += u->class.mean[k * d + i] / classes;
    for (int k = 0; k < classes; k++) {
        const double *row = u->class.mean + (size_t)k * (size_t)d;
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++)
                u->all.factor[i * d + j] += (row[i] - mean[i]) * (row[j] - mean[j]) / classes;
    }
}

/* Shrinks the covariance, factorises it, and whitens the means. */
static rc_status finish(metric *m, int d)
{
    double diagonal = 0;
    for (int i = 0; i < d; i++)
        diagonal += m->factor[i * d + i] / d;
    for (int i = 0; i < d * d; i++)
        m->factor[i] = (1 - shrinkage) * m->factor[i] + (i % (d + 1) == 0 ? shrinkage * diagonal : 0);
    if (!factorise(m->factor, d))
        return rc_fail(RC_FORMAT, "the stored covariance of the features is not positive");
    for (int k = 0; k < m->means; k++)
        rc_solve_lower(d, m->factor, m->mean + (size_t)k * (size_t)d);
    return RC_OK;
}

static rc_status build(rc_unfamiliarity *u)
{
    if (u->class.means == 0)
        return rc_fail(RC_FORMAT, "the stored statistics of the features hold no class");
    add_between(u);
    RC_TRY(finish(&u->class, u->d));
    return finish(&u->all, u->d);
}

static rc_status take_room(metric *m, size_t means, size_t d)
{
    m->factor = rc_alloc_zeroed(NULL, d * d, sizeof *m->factor);
    m->mean = rc_alloc_zeroed(NULL, means * d, sizeof *m->mean);
    return m->factor != NULL && m->mean != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

static rc_status read_statistics(rc_unfamiliarity *u, const rc_learner *l, rc_backend *backend)
{
    size_t d = (size_t)u->d, classes = (size_t)l->statistics_classes;
    float *host = rc_alloc_zeroed(NULL, d * d + classes * d, sizeof *host);
    u->label = rc_alloc_zeroed(NULL, classes, sizeof *u->label);
    u->white = rc_alloc_zeroed(NULL, d, sizeof *u->white);
    rc_status status = host != NULL && u->label != NULL && u->white != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = take_room(&u->class, classes, d);
    if (status == RC_OK)
        status = take_room(&u->all, 1, d);
    if (status == RC_OK) {
        backend->read_real(backend, host, l->covariance, d * d);
        backend->read_real(backend, host + d * d, l->class_mean, classes * d);
        status = backend->sync(backend); /* was all of it read? */
    }
    if (status == RC_OK) {
        for (size_t i = 0; i < d * d; i++)
            u->class.factor[i] = u->all.factor[i] = (double)host[i];
        take_means(u, host + d * d, (int)classes);
        u->statistics = rc_covariance_varies(u->d, u->class.factor, u->class.means, u->class.mean);
    }
    if (u->statistics)
        status = build(u);
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
    rc_free(NULL, u->class.factor);
    rc_free(NULL, u->class.mean);
    rc_free(NULL, u->all.factor);
    rc_free(NULL, u->all.mean);
    rc_free(NULL, u->white);
    rc_free(NULL, u);
}

rc_score_kind rc_unfamiliarity_kind(const rc_unfamiliarity *u)
{
    return u->statistics ? RC_SCORE_DISTANCE_AND_ENTROPY : RC_SCORE_ENTROPY;
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Squared distance of the feature from the nearest mean; *place is which. */
static double least_square(const rc_unfamiliarity *u, const metric *m, const float *feature, int *place)
{
    double least = INFINITY;
    *place = 0;
    for (int i = 0; i < u->d; i++)
        u->white[i] = (double)feature[i];
    rc_solve_lower(u->d, m->factor, u->white);
    for (int k = 0; k < m->means; k++) {
        const double *mean = m->mean + (size_t)k * (size_t)u->d;
        double square = 0;
        for (int i = 0; i < u->d; i++)
            square += (u->white[i] - mean[i]) * (u->white[i] - mean[i]);
        if (square < least) {
            least = square;
            *place = k;
        }
    }
    return least;
}

/* Of the softmax of the logits. */
static double entropy_of(const float *logits, int classes)
{
    double largest = -INFINITY, sum = 0, weighted = 0;
    for (int k = 0; k < classes; k++)
        largest = (double)logits[k] > largest ? (double)logits[k] : largest;
    for (int k = 0; k < classes; k++) {
        double below = (double)logits[k] - largest, e = exp(below);
        sum += e;
        weighted += e * below;
    }
    return log(sum) - weighted / sum;
}

double rc_unfamiliarity_score(rc_unfamiliarity *u, const float *logits, const float *feature, int *nearest)
{
    double score = entropy_of(logits, u->logits);
    *nearest = -1;
    if (u->statistics) {
        int place, only;
        double near = least_square(u, &u->class, feature, &place);
        score = near - least_square(u, &u->all, feature, &only) + entropy_weight * score;
        *nearest = u->label[place];
    }
    return score; /* not finite: NaN, since the two distances are infinite together */
}

double rc_unfamiliarity_shown(double score)
{
    const double least = -80; /* a float still holds its exponential */
    return isnan(score) ? score : score > 0 ? score + log1p(exp(-score)) : log1p(exp(score > least ? score : least));
}
