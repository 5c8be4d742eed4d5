#include "cil/minimise.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"

/* PAIRS: steps that the search remembers. TRIES: of a step that leads up and is made shorter. */
enum { PAIRS = 8, TRIES = 30, LANES = 8 };

/* The part of the promised descent that a step must bring. */
static const double enough = 1e-4;

typedef struct search {
    rc_function *function;
    void *user;
    size_t n;
    double *x, *gradient, *direction, *next_x, *next_gradient; /* (n) each */
    double *step, *change;                                     /* (PAIRS, n): of x and of the gradient */
    double product[PAIRS];                                     /* step . change */
    int pairs, newest;                                         /* how many there are, and which is the last one */
    double value;
} search;

double rc_dot(const double *a, const double *b, size_t n)
{
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + (size_t)l] * b[i + (size_t)l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

static void add(double *to, double factor, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* direction = -H gradient, H being what the pairs know of the inverse of the second derivative. */
static void find_direction(search *s)
{
    double alpha[PAIRS];
    for (size_t i = 0; i < s->n; i++)
        s->direction[i] = -s->gradient[i];
    for (int age = 0; age < s->pairs; age++) {
        int p = (s->newest - age + PAIRS) % PAIRS;
        alpha[p] = rc_dot(s->step + (size_t)p * s->n, s->direction, s->n) / s->product[p];
        add(s->direction, -alpha[p], s->change + (size_t)p * s->n, s->n);
    }
    if (s->pairs > 0) {
        const double *change = s->change + (size_t)s->newest * s->n;
        double scale = s->product[s->newest] / rc_dot(change, change, s->n);
        for (size_t i = 0; i < s->n; i++)
            s->direction[i] *= scale;
    }
    for (int age = s->pairs - 1; age >= 0; age--) {
        int p = (s->newest - age + PAIRS) % PAIRS;
        double beta = rc_dot(s->change + (size_t)p * s->n, s->direction, s->n) / s->product[p];
        add(s->direction, alpha[p] - beta, s->step + (size_t)p * s->n, s->n);
    }
}

/* Goes along the direction until the value is lower. False: there is no lower one that numbers can tell. */
static bool descend(search *s)
{
    double slope = rc_dot(s->gradient, s->direction, s->n);
    double length = s->pairs > 0 ? 1 : 1 / sqrt(rc_dot(s->gradient, s->gradient, s->n));
    if (!(slope < 0))
        return false;
    for (int try = 0; try < TRIES; try++) {
        for (size_t i = 0; i < s->n; i++)
            s->next_x[i] = s->x[i] + length * s->direction[i];
        double next = s->function(s->user, s->next_x, s->next_gradient);
        if (next <= s->value + enough * length * slope) {
            s->value = next;
            return true;
        }
        /* The lowest point of the parabola through what is known, if it is a sensible part of the step. */
        double part = -slope * length / (2 * (next - s->value - slope * length));
        length *= isfinite(next) ? fmin(fmax(part, 0.1), 0.5) : 0.1;
    }
    return false;
}

/* Remembers the step, and makes the next point the present one. */
static void advance(search *s)
{
    int p = (s->newest + 1) % PAIRS;
    double *step = s->step + (size_t)p * s->n, *change = s->change + (size_t)p * s->n, *swap;
    for (size_t i = 0; i < s->n; i++) {
        step[i] = s->next_x[i] - s->x[i];
        change[i] = s->next_gradient[i] - s->gradient[i];
    }
    s->product[p] = rc_dot(step, change, s->n);
    if (s->product[p] > 0) { /* else rounding hides the curvature */
        s->newest = p;
        s->pairs += s->pairs < PAIRS;
    }
    memcpy(s->x, s->next_x, s->n * sizeof *s->x);
    swap = s->gradient;
    s->gradient = s->next_gradient;
    s->next_gradient = swap;
}

static rc_status run(search *s, double gradient, int iterations, rc_minimum *m)
{
    s->value = s->function(s->user, s->x, s->gradient);
    if (rc_stop_heard())
        return RC_CANCELLED;
    double norm = sqrt(rc_dot(s->gradient, s->gradient, s->n));
    if (!isfinite(s->value) || !isfinite(norm))
        return rc_fail(RC_NUMERIC, "the value to be made small is %g with a gradient of %g, expected finite numbers",
                       s->value, norm);
    for (m->iterations = 0; norm > gradient && m->iterations < iterations; m->iterations++) {
        find_direction(s);
        bool lower = descend(s);
        if (rc_stop_heard())
            return RC_CANCELLED;
        if (!lower)
            break;
        advance(s);
        norm = sqrt(rc_dot(s->gradient, s->gradient, s->n));
    }
    m->value = s->value;
    m->gradient = norm;
    m->reached = norm <= gradient;
    return RC_OK;
}

size_t rc_minimise_bytes(size_t n)
{
    return (4 + 2 * PAIRS) * n * sizeof(double);
}

rc_status rc_minimise(rc_function *function, void *user, size_t n, double gradient, int iterations, double *x,
                      rc_minimum *minimum)
{
    *minimum = (rc_minimum){0};
    double *memory = rc_alloc_zeroed(NULL, 4 + 2 * PAIRS, n * sizeof *memory);
    if (memory == NULL)
        return RC_OUT_OF_MEMORY;
    search s = {.function = function,
                .user = user,
                .n = n,
                .x = x,
                .gradient = memory,
                .direction = memory + n,
                .next_x = memory + 2 * n,
                .next_gradient = memory + 3 * n,
                .step = memory + 4 * n,
                .change = memory + (4 + PAIRS) * n};
    rc_status status = run(&s, gradient, iterations, minimum);
    rc_free(NULL, memory);
    return status;
}
