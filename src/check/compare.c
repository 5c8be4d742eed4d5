/* Comparison of a case on two backends, and of a backend with itself.
 *
 * Errors are |a - b| / (rms of b + |b|), zeros left out of the rms: the gradient of a stride is mostly zeros, and the
 * others are no smaller for it. Tolerances come from the length L of the sums behind an element: rounding
 * errors of L additions in a row are a random walk, 0.2 sqrt(L) eps of the result's size; the largest of many elements
 * lies at five times that, and short chains of other roundings (normalisation, activation) are a few eps more. So
 * eps * (8 + 4 sqrt(L)), a small factor above what correct code does, whatever the order of its additions. */
#include "check/compare.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

double rc_tolerance(const rc_backend *be, const rc_buffer *b)
{
    if (b->kind == RC_BUFFER_INT || b->kind == RC_BUFFER_BYTE)
        return 0;
    double eps = be->real_bytes == 4 ? FLT_EPSILON : DBL_EPSILON;
    double tolerance = eps * (8 + 4 * sqrt(b->terms));
    if (b->stored_act && be->act_bytes == 2)
        tolerance += b->exact ? 0x1p-8 : 0x1p-7; /* bf16 in memory: half an ulp is 2^-9 to 2^-8 */
    return tolerance;
}

double rc_error(const rc_buffer *b, const double *a, const double *reference, size_t *where)
{
    double squares = 0;
    size_t numbers = 0;
    for (size_t i = 0; i < b->count; i++)
        if (isfinite(reference[i]) && reference[i] != 0) {
            squares += reference[i] * reference[i];
            numbers++;
        }
    double size = fmax(numbers ? sqrt(squares / (double)numbers) : 0, b->magnitude);
    double worst = 0;
    *where = 0;
    for (size_t i = 0; i < b->count; i++) {
        double error = 0;
        if (isnan(a[i]) || isnan(reference[i]))
            error = isnan(a[i]) && isnan(reference[i]) ? 0 : INFINITY;
        else if (a[i] != reference[i])
            error = isinf(reference[i]) ? INFINITY : fabs(a[i] - reference[i]) / (size + fabs(reference[i]) + DBL_MIN);
        if (error > worst) {
            worst = error;
            *where = i;
        }
    }
    return worst;
}

static bool is_output(const rc_buffer *b)
{
    return b->role == RC_OUT || b->role == RC_IN_OUT;
}

/* ---- another backend ------------------------------------------------------------------------------------------ */

static void miss(rc_verdict *v, const char *text)
{
    if (!v->missed)
        snprintf(v->text, sizeof v->text, "%s", text);
    v->missed = true;
}

/* "(image 0, row 1, column 2, channel 3)" of an element. */
static void say_where(const rc_buffer *b, size_t i, char *text, size_t size)
{
    size_t c = (size_t)b->c, w = (size_t)b->w, h = (size_t)b->h;
    if (b->kind == RC_BUFFER_ACT)
        snprintf(text, size, "image %zu, row %zu, column %zu, channel %zu", i / (h * w * c), i / (w * c) % h, i / c % w,
                 i % c);
    else
        snprintf(text, size, "row %zu, column %zu", i / c, i % c);
}

/* Elements of which the usual error is no accident. */
enum { MANY = 64 };

double rc_allowed(const rc_backend *test, const rc_backend *reference, const rc_buffer *b, bool any)
{
    double tolerance = rc_tolerance(test, b) + rc_tolerance(reference, b);
    bool rounded = b->stored_act && !b->exact && test->act_bytes == 2;
    return rounded && (any || b->count < MANY) ? tolerance + 0x1p-6 : tolerance;
}

/* sqrt(sum |a - b|^2 / sum |b|^2), for numbers that rc_error has found near each other. */
static double usual_error(const rc_buffer *b, const double *a, const double *reference)
{
    double apart = 0, squares = (double)b->count * b->magnitude * b->magnitude, size = 0;
    for (size_t i = 0; i < b->count; i++)
        if (isfinite(reference[i])) {
            apart += (a[i] - reference[i]) * (a[i] - reference[i]);
            size += reference[i] * reference[i];
        }
    return sqrt(apart / (fmax(size, squares) + DBL_MIN));
}

/* Every output of `test` against `reference`; *buffer is the one that missed. */
static rc_status compare_outputs(const rc_run *test, const rc_run *reference, rc_verdict *v, int *buffer)
{
    const rc_case *c = test->c;
    *buffer = -1;
    for (int i = 0; i < c->buffers && *buffer < 0; i++) {
        const rc_buffer *b = &c->buffer[i];
        if (!is_output(b))
            continue;
        double *values = rc_alloc(NULL, 2 * b->count * sizeof(double) + sizeof(double));
        if (!values)
            return RC_OUT_OF_MEMORY;
        rc_run_read(test, i, values);
        rc_run_read(reference, i, values + b->count);
        size_t at;
        double error = rc_error(b, values, values + b->count, &at);
        double usual = rc_allowed(test->be, reference->be, b, false);
        double tolerance = rc_allowed(test->be, reference->be, b, true);
        if (tolerance > usual)
            error = fmax(error, tolerance * usual_error(b, values, values + b->count) / usual);
        if (error > tolerance) {
            char place[120];
            say_where(b, at, place, sizeof place);
            snprintf(v->text, sizeof v->text, "'%s' is %.9g, %s says %.9g (%s): error %.2e, allowed %.2e", b->name,
                     values[at], reference->be->about.name, values[b->count + at], place, error, tolerance);
            v->missed = true;
            *buffer = i;
        }
        if (v->tolerance == 0 || error * v->tolerance > v->error * tolerance) {
            v->error = error;
            v->tolerance = tolerance;
        }
        rc_free(NULL, values);
    }
    return RC_OK;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static rc_status run_on(rc_run *r, const rc_case *c, rc_backend *be)
{
    RC_TRY(rc_run_open(r, c, be));
    RC_TRY(rc_run_load(r, -1, NULL));
    return rc_run_execute(r);
}

/* A reference of the case that the test has run, or of a copy of it. One buffer may hold what the test wrote to
 * another. */
static rc_status run_beside(rc_run *r, const rc_case *c, const rc_run *test, rc_backend *be)
{
    int buffer = 0;
    while (buffer < c->buffers && c->buffer[buffer].from < 0)
        buffer++;
    if (buffer == c->buffers)
        return run_on(r, c, be);
    double *values = rc_alloc(NULL, c->buffer[buffer].count * sizeof *values);
    if (!values)
        return RC_OUT_OF_MEMORY;
    rc_run_read(test, c->buffer[buffer].from, values);
    rc_status status = rc_run_open(r, c, be);
    r->beside = true;
    if (status == RC_OK)
        status = rc_run_load(r, buffer, values);
    if (status == RC_OK)
        status = rc_run_execute(r);
    rc_free(NULL, values);
    return status;
}

/* ---- is it the case's fault? ---------------------------------------------------------------------------------- */

/* What excuses a miss: every number of the input moves a little, and the result by a good part of the error. In fp32,
 * where every addition rounds, a little is 8 ulp. In bf16 it is half of one: the test rounds values and weights once
 * and adds in fp32. 8 ulp of bf16, 3 %, would move the largest of many elements by so much that a result which is all
 * wrong would be excused. */
typedef struct excuse {
    double shift; /* of a number, relative */
    int trials;   /* a sign at a kink does not turn over in each */
    double part;
} excuse;

static excuse excuse_of(const rc_case *c)
{
    return c->act_bits == 24 ? (excuse){8 * 0x1p-24, 4, 0.125} : (excuse){0x1p-8, 12, 0.25};
}

/* A copy of the case with every number moved by up to `shift` of it. */
static rc_status shake(const rc_case *c, rc_case *copy, double shift, uint64_t trial)
{
    *copy = *c;
    copy->rng.stream ^= (trial + 1) << 60;
    for (int i = 0; i < c->buffers; i++)
        copy->buffer[i].host = NULL;
    for (int i = 0; i < c->buffers; i++) {
        const rc_buffer *b = &c->buffer[i];
        if (!b->host)
            continue;
        double *host = rc_alloc(NULL, (b->count ? b->count : 1) * sizeof *host);
        if (!host)
            return RC_OUT_OF_MEMORY;
        copy->buffer[i].host = host;
        memcpy(host, b->host, b->count * sizeof *host);
        if (b->kind != RC_BUFFER_ACT && b->kind != RC_BUFFER_REAL && b->kind != RC_BUFFER_PARAMETER &&
            b->kind != RC_BUFFER_CHANNEL)
            continue;
        for (size_t k = 0; k < b->count; k++)
            host[k] *= 1 + shift * rc_case_uniform(copy, -1, 1);
    }
    return RC_OK;
}

/* Does the double reference itself move by a good part of the error when its inputs move by ulps? Then float cannot be
 * asked to agree: a sign at a kink, or a difference of nearly equal numbers. */
static rc_status is_shaky(const rc_run *test, const rc_run *wide, int buffer, double error, bool *shaky)
{
    const rc_case *c = wide->c;
    const rc_buffer *b = &c->buffer[buffer];
    const excuse allowed = excuse_of(c);
    rc_status status = RC_OK;
    double *values = rc_alloc(NULL, 2 * b->count * sizeof *values + sizeof *values);
    if (!values)
        return RC_OUT_OF_MEMORY;
    rc_run_read(wide, buffer, values);
    for (int trial = 0; trial < allowed.trials && !*shaky && status == RC_OK; trial++) {
        rc_case copy;
        rc_run run = {0};
        status = shake(c, &copy, allowed.shift, (uint64_t)trial);
        if (status == RC_OK)
            status = run_beside(&run, &copy, test, wide->be);
        if (status == RC_OK) {
            size_t at;
            rc_run_read(&run, buffer, values + b->count);
            *shaky = rc_error(b, values + b->count, values, &at) > allowed.part * error;
        }
        rc_run_close(&run);
        rc_case_free(&copy);
    }
    rc_free(NULL, values);
    return status;
}

/* ---- the same bits -------------------------------------------------------------------------------------------- */

static rc_status same_bits(const rc_run *run, const rc_run *again, const char *when, rc_verdict *v)
{
    for (int i = 0; i < run->c->buffers && !v->missed; i++) {
        const rc_buffer *b = &run->c->buffer[i];
        if (!is_output(b))
            continue;
        char *bytes = rc_alloc(NULL, 2 * run->bytes[i]);
        if (!bytes)
            return RC_OUT_OF_MEMORY;
        rc_run_read_bytes(run, i, bytes);
        rc_run_read_bytes(again, i, bytes + run->bytes[i]);
        if (memcmp(bytes, bytes + run->bytes[i], run->bytes[i]) != 0) {
            char text[RC_CASE_TEXT];
            snprintf(text, sizeof text, "'%s' has other bits %s", b->name, when);
            miss(v, text);
        }
        rc_free(NULL, bytes);
    }
    return RC_OK;
}

/* The same backend once more, and with other numbers of threads. */
static rc_status repeat_bits(const rc_judges *judges, const rc_run *test, rc_verdict *v)
{
    rc_run again = {0};
    rc_status status = run_on(&again, test->c, test->be);
    if (status == RC_OK)
        status = same_bits(test, &again, "the second time", v);
    rc_run_close(&again);
    for (int i = 0; i < RC_CHECK_THREADS && status == RC_OK && !v->missed; i++) {
        if (!judges->threads[i])
            continue;
        char when[48];
        snprintf(when, sizeof when, "with %d than with %d threads", i + 1, test->be->about.threads);
        status = run_on(&again, test->c, judges->threads[i]);
        if (status == RC_OK)
            status = same_bits(test, &again, when, v);
        rc_run_close(&again);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

/* Against the double and the float reference. */
static rc_status judge_numbers(const rc_judges *judges, const rc_run *test, const rc_run *wide, rc_verdict *v)
{
    int buffer;
    RC_TRY(compare_outputs(test, wide, v, &buffer));
    if (!judges->narrow) /* large: nothing excuses it */
        return RC_OK;
    if (buffer < 0) {
        rc_run narrow = {0};
        rc_status status = run_beside(&narrow, test->c, test, judges->narrow);
        if (status == RC_OK)
            status = compare_outputs(test, &narrow, v, &buffer);
        rc_run_close(&narrow);
        RC_TRY(status);
    }
    if (buffer >= 0 && !test->c->buffer[buffer].exact)
        RC_TRY(is_shaky(test, wide, buffer, v->error, &v->shaky));
    return RC_OK;
}

rc_status rc_judge(const rc_judges *judges, const rc_case *c, rc_verdict *v)
{
    *v = (rc_verdict){0};
    rc_run test = {0}, wide = {0};
    bool sound = true;
    rc_status status = run_on(&test, c, judges->test);
    if (status == RC_OK)
        status = run_beside(&wide, c, &test, judges->wide);
    if (status == RC_OK)
        status = rc_run_inspect(&test, &sound);
    if (status == RC_OK && !sound)
        miss(v, test.complaint);
    if (status == RC_OK && sound)
        status = judge_numbers(judges, &test, &wide, v);
    if (status == RC_OK && !v->missed)
        status = repeat_bits(judges, &test, v);
    if (status == RC_OK && !v->missed)
        status = rc_judge_gradients(c, &wide, &test, v);
    rc_run_close(&test);
    rc_run_close(&wide);
    return status;
}
