/* Finite differences. With S = sum of <cotangent, output> over the outputs that have one, a gradient G of S with
 * respect to an input x must satisfy <G, d> = dS/dt along x + t d. The quotient (S(x + h d) - S(x - h d)) / 2h is taken
 * in the double reference, for random directions d of normal numbers: then <G, d> is about |G|, and so is what a wrong
 * G would be off by. A quotient that depends on h is not a derivative (a kink lies between): h becomes smaller. What
 * rounding of S itself puts into a quotient is known, and is no error of the gradient. */
#include "check/compare.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/memory.h"

enum { DIRECTIONS = 2, STEPS = 4 };

/* Outputs with a cotangent, of the runs at x + h d and x - h d. */
typedef struct difference {
    const rc_case *c;
    const rc_run *run; /* on the double reference: its memory is used again and again */
    int input;
    double *direction; /* (count of the input) */
    double *moved;     /* (count of the input) */
    double *out;       /* (2, largest count of an output) */
    double size;       /* rms of the input */
} difference;

static rc_status run_at(difference *d, double t, rc_run *run)
{
    const rc_buffer *b = &d->c->buffer[d->input];
    for (size_t i = 0; i < b->count; i++)
        d->moved[i] = b->host[i] + t * d->direction[i];
    RC_TRY(rc_run_load(run, d->input, d->moved));
    return rc_run_execute(run);
}

/* (S(x + h d) - S(x - h d)) / 2h: differences first, then the sum, which keeps the digits. *noise: what a few
 * roundings of each output make of it. */
static rc_status quotient(difference *d, double h, double *slope, double *noise)
{
    rc_run plus = {0}, minus = {0};
    rc_status status = rc_run_open(&plus, d->c, d->run->be);
    if (status == RC_OK)
        status = rc_run_open(&minus, d->c, d->run->be);
    if (status == RC_OK)
        status = run_at(d, h, &plus);
    if (status == RC_OK)
        status = run_at(d, -h, &minus);
    double sum = 0, size = 0;
    for (int i = 0; i < d->c->buffers && status == RC_OK; i++) {
        const rc_buffer *b = &d->c->buffer[i];
        if (b->cotangent < 0)
            continue;
        const rc_buffer *cotangent = &d->c->buffer[b->cotangent];
        rc_run_read(&plus, i, d->out);
        rc_run_read(&minus, i, d->out + b->count);
        for (size_t k = 0; k < b->count; k++) {
            double factor = cotangent->host[cotangent->count == 1 ? 0 : k];
            sum += factor * (d->out[k] - d->out[b->count + k]);
            size += fabs(factor * d->out[k]);
        }
    }
    *slope = sum / (2 * h);
    *noise = 4 * DBL_EPSILON * size / (2 * h);
    rc_run_close(&plus);
    rc_run_close(&minus);
    return status;
}

/* The derivative along d->direction. *smooth is false if no step gives the same quotient twice. */
static rc_status derivative(difference *d, double norm, double *slope, double *noise, bool *smooth)
{
    double h = 3e-5 * d->size;
    *smooth = false;
    for (int step = 0; step < STEPS && !*smooth; step++, h /= 8) {
        double half, half_noise;
        RC_TRY(quotient(d, h, slope, noise));
        RC_TRY(quotient(d, h / 2, &half, &half_noise));
        *smooth = fabs(*slope - half) <= 0.25 * RC_SLOPE_TOLERANCE * norm + *noise + half_noise;
    }
    return RC_OK;
}

/* What a backend says the gradient is: the output, less what was there before if it adds. */
static void read_gradient(const rc_run *run, int buffer, double *to)
{
    const rc_buffer *b = &run->c->buffer[buffer];
    rc_run_read(run, buffer, to);
    for (size_t i = 0; b->host && i < b->count; i++)
        to[i] -= b->host[i];
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void say_miss(rc_verdict *v, const rc_case *c, int buffer, const rc_run *run, double found, double expected,
                     double error, double allowed)
{
    v->missed = true;
    snprintf(v->text, sizeof v->text,
             "gradient '%s' of '%s' on %s: %.9g along a direction, finite differences %.9g: error %.2e, allowed %.2e",
             c->buffer[buffer].name, c->buffer[c->buffer[buffer].gradient_of].name, run->be->about.name, found,
             expected, error, allowed);
}

/* Comparing backends does not tell: both may have made the same NaN of a case that both get wrong. */
static void check_finite(const rc_run *run, int buffer, const double *gradient, rc_verdict *v)
{
    const rc_buffer *b = &run->c->buffer[buffer];
    for (size_t i = 0; i < b->count && !v->missed; i++) {
        if (isfinite(gradient[i]))
            continue;
        v->missed = true;
        snprintf(v->text, sizeof v->text, "gradient '%s' of '%s' on %s is %g (element %zu)", b->name,
                 run->c->buffer[b->gradient_of].name, run->be->about.name, gradient[i], i);
    }
}

/* How far <G, d> of the test may be from that of the double reference. Each element may be off by what is allowed, in
 * sizes of rc_error(): its own and the typical one, of the whole output if the operation adds to what was there. Along
 * d the errors of many elements are a random walk; that of a single one counts as often as d has it. */
static double allowed_along(const difference *d, int buffer, const double *gradient, const rc_run *test)
{
    const rc_buffer *b = &d->c->buffer[buffer];
    double squares = 0, walk = 0;
    for (size_t i = 0; i < b->count; i++) {
        double output = gradient[i] + (b->host ? b->host[i] : 0);
        squares += output * output;
    }
    double size = fmax(sqrt(squares / (double)b->count), b->magnitude);
    for (size_t i = 0; i < b->count; i++) {
        double step = (size + fabs(gradient[i] + (b->host ? b->host[i] : 0))) * d->direction[i];
        walk += step * step;
    }
    return rc_allowed(test->be, d->run->be, b, true) * sqrt(walk);
}

/* gradient: (2, count), of wide and of test. Size of a typical <G, d>, or the natural size where G cancels to less. */
static rc_status check_direction(difference *d, int buffer, const double *gradient, const rc_run *test, rc_verdict *v)
{
    const rc_buffer *b = &d->c->buffer[buffer];
    const double *of_test = gradient + b->count;
    double norm = fmax(sqrt(dot(gradient, gradient, b->count)), b->magnitude * sqrt((double)b->count)) + DBL_MIN;
    double slope, noise;
    bool smooth;
    RC_TRY(derivative(d, norm, &slope, &noise, &smooth));
    double found = dot(gradient, d->direction, b->count), found_test = dot(of_test, d->direction, b->count);
    double error = fmax(fabs(found - slope) - noise, 0) / norm;
    double error_test = fmax(fabs(found_test - slope) - noise, 0) / norm;
    double allowed = allowed_along(d, buffer, gradient, test) / norm + RC_SLOPE_TOLERANCE;
    v->slope_error = fmax(v->slope_error, smooth ? error : 0);
    if (!smooth)
        v->shaky = v->missed = true;
    if (error > RC_SLOPE_TOLERANCE)
        say_miss(v, d->c, buffer, d->run, found, slope, error, RC_SLOPE_TOLERANCE);
    else if (error_test > allowed)
        say_miss(v, d->c, buffer, test, found_test, slope, error_test, allowed);
    else if (!smooth)
        snprintf(v->text, sizeof v->text, "no derivative along '%s': the difference quotient changes with the step",
                 d->c->buffer[d->input].name);
    return RC_OK;
}

/* gradient: room for (2, count). */
static rc_status check_gradient(difference *d, int buffer, double *gradient, const rc_run *test, rc_verdict *v)
{
    const rc_buffer *x = &d->c->buffer[d->input];
    rc_rng rng = d->c->rng;
    rng.stream ^= (uint64_t)1 << 63;
    d->size = sqrt(dot(x->host, x->host, x->count) / (double)x->count) + DBL_MIN;
    read_gradient(d->run, buffer, gradient);
    read_gradient(test, buffer, gradient + x->count);
    check_finite(d->run, buffer, gradient, v);
    check_finite(test, buffer, gradient + x->count, v);
    for (int k = 0; k < DIRECTIONS && !v->missed; k++) {
        for (size_t i = 0; i < x->count; i++)
            d->direction[i] = rc_rng_normal(rng, ((uint64_t)buffer * DIRECTIONS + (uint64_t)k) * x->count + i);
        RC_TRY(check_direction(d, buffer, gradient, test, v));
    }
    return RC_OK;
}

rc_status rc_judge_gradients(const rc_case *c, const rc_run *wide, const rc_run *test, rc_verdict *v)
{
    size_t largest = 1;
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].count > largest)
            largest = c->buffer[i].count;
    for (int i = 0; i < c->buffers && !v->missed; i++) {
        const rc_buffer *b = &c->buffer[i];
        if (b->gradient_of < 0)
            continue;
        double *space = rc_alloc(NULL, 6 * largest * sizeof *space);
        if (!space)
            return RC_OUT_OF_MEMORY;
        difference d = {c, wide, b->gradient_of, space, space + largest, space + 2 * largest, 0};
        rc_status status = check_gradient(&d, i, space + 4 * largest, test, v);
        rc_free(NULL, space);
        RC_TRY(status);
    }
    return RC_OK;
}
