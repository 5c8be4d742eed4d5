#include "analysis/probe.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { ROWS = 2048, PAIRS = 10 }; /* rows at a time on the backend; pairs of steps that L-BFGS remembers */

typedef struct problem {
    rc_backend *backend;
    int n, d, in, classes; /* in = d + 1: the last input is always 1 */
    int rows;              /* at a time; the last time `rest`, if that is not 0 */
    int rest;
    size_t size;              /* classes * in */
    double *mean, *deviation; /* (d) of the features */
    void *memory;             /* one block of the backend */
    void *x;                  /* (n, in) real */
    int32_t *labels;          /* (n) */
    float *share;             /* (2): rows / n and rest / n */
    void *weight, *gradient;  /* (classes, in) real */
    void *logits, *dlogits;   /* (rows, classes) real */
    void *values;             /* (parts) real: cross entropy of each part */
    float *host;              /* (size or parts) */
} problem;

static int parts_of(const problem *p)
{
    return (p->n + p->rows - 1) / p->rows;
}

static void carve(void *owner, rc_arena *arena)
{
    problem *p = owner;
    size_t real = p->backend->real_bytes, rows = (size_t)p->rows, classes = (size_t)p->classes;
    p->x = rc_arena_take_array(arena, (size_t)p->n * (size_t)p->in, real);
    p->labels = rc_arena_take_array(arena, (size_t)p->n, sizeof *p->labels);
    p->share = rc_arena_take_array(arena, 2, sizeof *p->share);
    p->weight = rc_arena_take_array(arena, p->size, real);
    p->gradient = rc_arena_take_array(arena, p->size, real);
    p->logits = rc_arena_take_array(arena, rows * classes, real);
    p->dlogits = rc_arena_take_array(arena, rows * classes, real);
    p->values = rc_arena_take_array(arena, (size_t)parts_of(p), real);
}

/* ---- value and gradient --------------------------------------------------------------------------------------- */

static void run_part(problem *p, int part)
{
    rc_backend *be = p->backend;
    int first = part * p->rows, n = p->n - first < p->rows ? p->n - first : p->rows;
    size_t row = (size_t)first * (size_t)p->in;
    rc_cross_entropy all = {.n = n, .stride = p->classes, .count = p->classes, .temperature = 1, .reduction = RC_MEAN};
    be->dense_forward(be, n, p->in, p->classes, rc_real_at(be, p->x, row), p->weight, NULL, p->logits, p->classes);
    be->zero(be, p->dlogits, (size_t)n * (size_t)p->classes * be->real_bytes);
    be->loss_cross_entropy(be, &all, p->logits, p->labels + first, NULL, &p->share[n < p->rows],
                           rc_real_at(be, p->values, (size_t)part), p->dlogits);
    be->dense_backward_weight(be, n, p->in, p->classes, rc_real_at(be, p->x, row), p->dlogits, p->classes, p->gradient,
                              NULL, part > 0);
}

/* At w (classes, in); gradient likewise. */
static rc_status look(problem *p, const double *w, double *value, double *gradient)
{
    rc_backend *be = p->backend;
    int parts = parts_of(p);
    be->write_real64(be, p->weight, w, p->size);
    for (int part = 0; part < parts; part++)
        run_part(p, part);
    be->read_real64(be, gradient, p->gradient, p->size);
    be->read_real(be, p->host, p->values, (size_t)parts);
    RC_TRY(be->sync(be));
    *value = 0;
    for (int part = 0; part < parts; part++)
        *value += (double)p->host[part] * (part + 1 < parts || p->rest == 0 ? p->rows : p->rest) / p->n;
    for (size_t i = 0; i < p->size; i++)
        if (i % (size_t)p->in != (size_t)p->d) { /* not the bias */
            *value += 0.5 * w[i] * w[i] / p->n;
            gradient[i] += w[i] / p->n;
        }
    return isfinite(*value) ? RC_OK
                            : rc_fail(RC_NUMERIC,
                                      "the loss of the linear probe is %g: the features are too "
                                      "large, or damaged",
                                      *value);
}

/* ---- L-BFGS ----------------------------------------------------------------------------------------------------- */

typedef struct search {
    size_t size;
    double *w, *gradient, *direction, *trial, *trial_gradient;
    double *step[PAIRS], *change[PAIRS], scale[PAIRS]; /* scale: 1 / (step . change) */
    int pairs, next;
    double value;
} search;

static double dot(size_t size, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add(size_t size, double factor, const double *x, double *to)
{
    for (size_t i = 0; i < size; i++)
        to[i] += factor * x[i];
}

/* direction = -(approximate inverse Hessian) gradient, by the two loops of Nocedal. */
static void choose_direction(search *s)
{
    double alpha[PAIRS];
    for (size_t i = 0; i < s->size; i++)
        s->direction[i] = -s->gradient[i];
    for (int k = 1; k <= s->pairs; k++) {
        int at = (s->next - k + PAIRS) % PAIRS;
        alpha[at] = s->scale[at] * dot(s->size, s->step[at], s->direction);
        add(s->size, -alpha[at], s->change[at], s->direction);
    }
    if (s->pairs > 0) {
        int last = (s->next - 1 + PAIRS) % PAIRS;
        double factor = 1 / (s->scale[last] * dot(s->size, s->change[last], s->change[last]));
        for (size_t i = 0; i < s->size; i++)
            s->direction[i] *= factor;
    }
    for (int k = s->pairs; k >= 1; k--) {
        int at = (s->next - k + PAIRS) % PAIRS;
        double beta = s->scale[at] * dot(s->size, s->change[at], s->direction);
        add(s->size, alpha[at] - beta, s->step[at], s->direction);
    }
}

/* Keeps the last step and how the gradient has changed, if the function curves upwards there. */
static void remember(search *s)
{
    double *step = s->step[s->next], *change = s->change[s->next];
    for (size_t i = 0; i < s->size; i++) {
        step[i] = s->trial[i] - s->w[i];
        change[i] = s->trial_gradient[i] - s->gradient[i];
    }
    double curvature = dot(s->size, step, change);
    if (!(curvature > 0))
        return;
    s->scale[s->next] = 1 / curvature;
    s->next = (s->next + 1) % PAIRS;
    s->pairs += s->pairs < PAIRS;
}

/* One step with a halving line search; *moved false: no step makes the value smaller, as far as floats can tell. */
static rc_status move(problem *p, search *s, bool *moved)
{
    double slope = dot(s->size, s->gradient, s->direction), value, length = 1;
    if (s->pairs == 0)
        length = 1 / fmax(1, sqrt(-slope));
    *moved = false;
    for (int attempt = 0; attempt < 20; attempt++, length /= 2) {
        memcpy(s->trial, s->w, s->size * sizeof *s->w);
        add(s->size, length, s->direction, s->trial);
        RC_TRY(look(p, s->trial, &value, s->trial_gradient));
        if (value > s->value + 1e-4 * length * slope)
            continue;
        remember(s);
        memcpy(s->w, s->trial, s->size * sizeof *s->w);
        memcpy(s->gradient, s->trial_gradient, s->size * sizeof *s->w);
        s->value = value;
        *moved = true;
        return RC_OK;
    }
    return RC_OK;
}

static bool is_flat(const search *s)
{
    for (size_t i = 0; i < s->size; i++)
        if (fabs(s->gradient[i]) > RC_PROBE_TOLERANCE)
            return false;
    return true;
}

static rc_status minimise(problem *p, search *s, int *steps)
{
    bool moved = true;
    RC_TRY(look(p, s->w, &s->value, s->gradient));
    for (*steps = 0; *steps < RC_PROBE_STEPS && moved && !is_flat(s); ++*steps) {
        choose_direction(s);
        RC_TRY(move(p, s, &moved));
    }
    return RC_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static rc_status standardise(problem *p, const float *features)
{
    size_t d = (size_t)p->d, in = (size_t)p->in;
    float *x = rc_alloc_zeroed(NULL, (size_t)p->rows, in * sizeof *x);
    if (x == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < (size_t)p->n * d; i++)
        p->mean[i % d] += (double)features[i] / p->n;
    for (size_t i = 0; i < (size_t)p->n * d; i++) {
        double away = (double)features[i] - p->mean[i % d];
        p->deviation[i % d] += away * away / p->n;
    }
    for (size_t j = 0; j < d; j++) {
        double rounding = p->n * DBL_EPSILON * p->mean[j]; /* of a feature that never varies, about its mean */
        p->deviation[j] = p->deviation[j] > rounding * rounding ? sqrt(p->deviation[j]) : 1;
    }
    for (int first = 0; first < p->n; first += p->rows) {
        int rows = p->n - first < p->rows ? p->n - first : p->rows;
        for (size_t i = 0; i < (size_t)rows; i++) {
            const float *feature = features + ((size_t)first + i) * d;
            for (size_t j = 0; j < d; j++)
                x[i * in + j] = (float)(((double)feature[j] - p->mean[j]) / p->deviation[j]);
            x[i * in + d] = 1;
        }
        p->backend->write_real(p->backend, rc_real_at(p->backend, p->x, (size_t)first * in), x, (size_t)rows * in);
    }
    rc_free(NULL, x);
    return p->backend->sync(p->backend);
}

static rc_status build(problem *p, const float *features, const int32_t *labels)
{
    rc_backend *be = p->backend;
    RC_TRY(be->reserve_dense(be, p->rows, p->in, p->classes));
    RC_TRY(be->reserve_losses(be, p->rows, p->classes, 1, 1, 1));
    RC_TRY(rc_backend_carve(be, "linear probe", carve, p, &p->memory, NULL));
    float share[2] = {(float)p->rows / (float)p->n, (float)p->rest / (float)p->n};
    be->write_bytes(be, p->share, share, sizeof share);
    be->write_bytes(be, p->labels, labels, (size_t)p->n * sizeof *labels);
    return standardise(p, features);
}

/* The weights of standardised features as weights of the features themselves. */
static void take_weights(const problem *p, const double *w, rc_probe *probe)
{
    for (int k = 0; k < p->classes; k++) {
        const double *row = w + (size_t)k * (size_t)p->in;
        probe->shift[k] = row[p->d];
        for (int j = 0; j < p->d; j++) {
            double weight = row[j] / p->deviation[j];
            probe->weight[(size_t)k * (size_t)p->d + (size_t)j] = weight;
            probe->shift[k] -= weight * p->mean[j];
        }
    }
}

static rc_status fit(problem *p, double *memory, const float *features, const int32_t *labels, rc_probe *probe)
{
    search s = {.size = p->size};
    double **part[5 + 2 * PAIRS] = {&s.w, &s.gradient, &s.direction, &s.trial, &s.trial_gradient};
    for (int k = 0; k < PAIRS; k++) {
        part[5 + k] = &s.step[k];
        part[5 + PAIRS + k] = &s.change[k];
    }
    for (size_t k = 0; k < sizeof part / sizeof *part; k++)
        *part[k] = memory + k * p->size;
    p->mean = memory + (5 + 2 * PAIRS) * p->size;
    p->deviation = p->mean + p->d;
    RC_TRY(build(p, features, labels));
    RC_TRY(minimise(p, &s, &probe->steps));
    probe->loss = s.value;
    take_weights(p, s.w, probe);
    return RC_OK;
}

rc_status rc_probe_fit(rc_backend *backend, int n, int d, const float *features, const int32_t *labels, int classes,
                       rc_probe *probe)
{
    problem p = {.backend = backend, .n = n, .d = d, .in = d + 1, .classes = classes, .rows = n < ROWS ? n : ROWS};
    p.rest = n % p.rows;
    p.size = (size_t)classes * (size_t)p.in;
    *probe = (rc_probe){.d = d, .classes = classes};
    size_t most = p.size > (size_t)parts_of(&p) ? p.size : (size_t)parts_of(&p);
    double *memory = rc_alloc_zeroed(NULL, (5 + 2 * PAIRS) * p.size + 2 * (size_t)d, sizeof *memory);
    p.host = rc_alloc_zeroed(NULL, most, sizeof *p.host);
    probe->weight = rc_alloc_zeroed(NULL, p.size, sizeof *probe->weight);
    rc_status status = memory != NULL && p.host != NULL && probe->weight != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        probe->shift = probe->weight + (size_t)classes * (size_t)d;
        status = fit(&p, memory, features, labels, probe);
    }
    backend->release(backend, p.memory);
    rc_free(NULL, memory);
    rc_free(NULL, p.host);
    if (status != RC_OK)
        rc_probe_destroy(probe);
    return status;
}

void rc_probe_destroy(rc_probe *probe)
{
    rc_free(NULL, probe->weight);
    *probe = (rc_probe){0};
}
