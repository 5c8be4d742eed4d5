#include "support/subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/tensors.h"

void *subject_bytes(subject *s, size_t bytes)
{
    assert_true(s->blocks < SUBJECT_BLOCKS);
    void *memory = NULL;
    assert_int_equal(s->be->alloc(s->be, bytes, &memory), RC_OK);
    s->held[s->blocks++] = memory;
    return memory;
}

void *subject_reals(subject *s, const double *values, size_t count)
{
    void *memory = subject_bytes(s, count * s->be->real_bytes);
    if (values)
        s->be->write_real64(s->be, memory, values, count);
    return memory;
}

void *subject_input(subject *s, const char *name, size_t count, double scale, double offset)
{
    double *values = oracle_fill(s->c, name, count, scale, offset);
    void *memory = subject_reals(s, values, count);
    free(values);
    return memory;
}

const float *subject_weight(subject *s, double value)
{
    float weight = (float)value;
    void *memory = subject_bytes(s, sizeof weight);
    s->be->write_bytes(s->be, memory, &weight, sizeof weight);
    return memory;
}

int32_t *subject_labels(subject *s, const int32_t *labels, size_t count)
{
    void *memory = subject_bytes(s, count * sizeof *labels);
    s->be->write_bytes(s->be, memory, labels, count * sizeof *labels);
    return memory;
}

rc_tensor subject_map(subject *s, int n, int h, int w, int c)
{
    rc_tensor t = {.n = n, .h = h, .w = w, .c = c, .groups = 1, .group_end = {n}};
    t.raw = subject_bytes(s, rc_act_count(s->be, n, h, w, c) * s->be->act_bytes);
    return t;
}

rc_tensor subject_map_input(subject *s, const char *name, int n, int h, int w, int c, double scale, double offset)
{
    rc_tensor t = subject_map(s, n, h, w, c);
    double *values = oracle_fill(s->c, name, (size_t)n * (size_t)h * (size_t)w * (size_t)c, scale, offset);
    s->be->write_act(s->be, &t, values);
    free(values);
    return t;
}

void subject_expect_double(subject *s, const char *name, const double *values, size_t count)
{
    oracle_expect(s->c, s->be->about.name, name, values, count, s->tolerance);
}

void subject_expect(subject *s, const char *name, const void *reals, size_t count)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    s->be->read_real64(s->be, values, reals, count);
    subject_expect_double(s, name, values, count);
    free(values);
}

void subject_expect_map(subject *s, const char *name, const rc_tensor *shape, const void *memory)
{
    /* read as if the pad channels were channels, so that they are seen too */
    rc_tensor padded = *shape;
    padded.c = rc_padded(s->be, shape->c);
    size_t pixels = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w, c = (size_t)shape->c;
    double *values = malloc(pixels * (size_t)padded.c * sizeof *values);
    assert_non_null(values);
    s->be->read_act(s->be, values, &padded, memory);
    for (size_t pixel = 0; pixel < pixels; pixel++)
        for (size_t channel = 0; channel < (size_t)padded.c; channel++) {
            double value = values[pixel * (size_t)padded.c + channel];
            if (channel < c)
                values[pixel * c + channel] = value;
            else if (value != 0)
                fail_msg("%s: %s/%s: pad channel %zu of pixel %zu is %g", s->be->about.name, s->c->name, name, channel,
                         pixel, value);
        }
    subject_expect_double(s, name, values, pixels * c);
    free(values);
}

void subject_clear(subject *s)
{
    if (s->be->sync(s->be) != RC_OK)
        fail_msg("%s: %s: %s", s->be->about.name, s->c->name, rc_message());
    for (int i = 0; i < s->blocks; i++)
        s->be->release(s->be, s->held[i]);
    s->blocks = 0;
}

static void run_cases(rc_backend *be, oracle *file, const char *prefix, const double tolerance[2],
                      void (*test)(subject *))
{
    const oracle_case *c = NULL;
    while ((c = oracle_next(file, c, prefix))) {
        subject s = {.be = be, .c = c, .tolerance = tolerance[be->real_bytes == sizeof(double)]};
        test(&s);
        subject_clear(&s);
    }
    oracle_report(file, be->about.name, prefix);
    rc_backend_close(be);
}

/* One backend alone may be asked for: the double reference on large nets, or a device. */
static rc_backend *chosen_backend(const char *name)
{
    const char *wanted = getenv("RECOLLECT_TEST_BACKEND");
    rc_backend *be = NULL;
    if (wanted)
        name = wanted;
    if (name && rc_backend_open(name, 0, NULL, &be) != RC_OK)
        fail_msg("cannot open backend %s: %s", name, rc_message());
    return be;
}

void subject_run(oracle *file, const char *prefix, const double tolerance[2], void (*test)(subject *))
{
    rc_backend *be = chosen_backend(NULL);
    if (be) {
        run_cases(be, file, prefix, tolerance, test);
        return;
    }
    for (int i = 0; (be = nth_backend(i)); i++) {
        /* the float reference is the source of the double one */
        if (oracle_light() && strcmp(be->about.name, "reference") == 0)
            rc_backend_close(be);
        else
            run_cases(be, file, prefix, tolerance, test);
    }
}

void subject_run_fast(oracle *file, const char *prefix, const double tolerance[2], void (*test)(subject *))
{
    run_cases(chosen_backend("cpu"), file, prefix, tolerance, test);
}

void subject_run_double(oracle *file, const char *prefix, const double tolerance[2], void (*test)(subject *))
{
    rc_backend *be;
    if (rc_backend_open("reference64", 0, NULL, &be) != RC_OK)
        fail_msg("cannot open backend reference64: %s", rc_message());
    run_cases(be, file, prefix, tolerance, test);
}

void subject_must(const subject *s, rc_status status)
{
    if (status != RC_OK)
        fail_msg("%s: %s: %s", s->be->about.name, s->c->name, rc_message());
}
