#include "support/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

rc_backend *nth_backend(int i)
{
    static const char *const names[] = {"reference", "reference64", "cpu"};
    if (i >= (int)(sizeof names / sizeof names[0]))
        return NULL;
    rc_backend *be = NULL;
    if (rc_backend_open(names[i], 2, NULL, &be) != RC_OK)
        fail_msg("cannot open backend %s: %s", names[i], rc_message());
    return be;
}

double rounding(const rc_backend *be)
{
    return be->real_bytes == sizeof(double) ? 1e-12 : 2e-5;
}

void *new_reals(rc_backend *be, const double *values, size_t count)
{
    void *memory = NULL;
    assert_int_equal(be->alloc(be, count * be->real_bytes, &memory), RC_OK);
    if (values)
        be->write_real64(be, memory, values, count);
    return memory;
}

rc_tensor new_tensor(rc_backend *be, int n, int h, int w, int c, const double *values)
{
    rc_tensor t = {.n = n, .h = h, .w = w, .c = c, .groups = 1, .group_end = {n}};
    assert_int_equal(be->alloc(be, rc_act_count(be, n, h, w, c) * be->act_bytes, &t.raw), RC_OK);
    if (values)
        be->write_act(be, &t, values);
    return t;
}

void free_tensor(rc_backend *be, rc_tensor *t)
{
    be->release(be, t->raw);
    memset(t, 0, sizeof *t);
}

static void expect_near(const rc_backend *be, double found, double expected, size_t i)
{
    if (!(fabs(found - expected) <= rounding(be) * (1 + fabs(expected))))
        fail_msg("%s: element %zu is %.9g, expected %.9g", be->about.name, i, found, expected);
}

void expect_reals(rc_backend *be, const void *memory, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double found;
        be->read_real64(be, &found, rc_real_at(be, memory, i), 1);
        expect_near(be, found, expected[i], i);
    }
}

void expect_act(rc_backend *be, const rc_tensor *shape, const void *memory, const double *expected)
{
    /* read as if the pad channels were channels, so that they are seen too */
    rc_tensor padded = *shape;
    padded.c = rc_padded(be, shape->c);
    size_t pixels = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w;
    double *found = calloc(pixels * (size_t)padded.c, sizeof *found);
    assert_non_null(found);
    be->read_act(be, found, &padded, memory);
    for (size_t i = 0; i < pixels * (size_t)padded.c; i++) {
        size_t pixel = i / (size_t)padded.c, channel = i % (size_t)padded.c;
        if (channel < (size_t)shape->c)
            expect_near(be, found[i], expected[pixel * (size_t)shape->c + channel], i);
        else if (found[i] != 0)
            fail_msg("%s: pad channel %zu of pixel %zu is %g, expected 0", be->about.name, channel, pixel, found[i]);
    }
    free(found);
}

void fill_random(double *values, size_t count, uint64_t seed)
{
    rc_rng rng = {seed, 1};
    for (size_t i = 0; i < count; i++)
        values[i] = 2 * (double)rc_rng_uniform(rng, i) - 1;
}
