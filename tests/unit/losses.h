/* What the tests of the losses share: memory on the backend under test, numbers in and out, comparison. Every test
 * runs on the double reference and on the fast backend. */
#ifndef TEST_UNIT_LOSSES_H
#define TEST_UNIT_LOSSES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/rng.h"

enum { MAX_BLOCKS = 128 };

static rc_backend *be;
static double tolerance; /* of a sum of a few hundred terms of size 1 */
static void *block[MAX_BLOCKS];
static int blocks;
static const rc_rng rng = {7, 42};
static uint64_t drawn;

/* ---- backend memory ------------------------------------------------------------------------------------------- */

static inline void *take(size_t bytes)
{
    assert_true(blocks < MAX_BLOCKS);
    assert_int_equal(be->alloc(be, bytes, &block[blocks]), RC_OK);
    return block[blocks++];
}

static inline void *zeros(size_t count)
{
    return take(count * be->real_bytes);
}

static inline void *reals(const double *from, size_t count)
{
    void *to = zeros(count);
    be->write_real64(be, to, from, count);
    return to;
}

static inline void *integers(const int32_t *from, size_t count)
{
    void *to = take(count * sizeof *from);
    be->write_bytes(be, to, from, count * sizeof *from);
    return to;
}

static inline float *factor(float from)
{
    float *to = take(sizeof from);
    be->write_bytes(be, to, &from, sizeof from);
    return to;
}

static inline void read_back(const void *from, double *to, size_t count)
{
    assert_int_equal(be->sync(be), RC_OK);
    be->read_real64(be, to, from, count);
}

static inline double number(const void *from)
{
    double value;
    read_back(from, &value, 1);
    return value;
}

static inline void draw(double *to, size_t count, double spread)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(spread * rc_rng_normal(rng, drawn++));
}

static inline void assert_near(double value, double expected, double scale)
{
    if (!(fabs(value - expected) <= tolerance * scale))
        fail_msg("%s: %.12g, expected %.12g within %.3g", be->about.name, value, expected, tolerance * scale);
}

static inline int free_blocks(void **state)
{
    (void)state;
    while (blocks > 0)
        be->release(be, block[--blocks]);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, free_blocks)

/* Runs the tests on both backends; the number of failures. */
#define RUN_ON_BOTH(tests) \
    (run_group("reference64", 1e-12, tests, sizeof tests / sizeof *tests) + \
     run_group("cpu", 2e-6, tests, sizeof tests / sizeof *tests))

static inline int run_group(const char *name, double accuracy, const struct CMUnitTest *tests, size_t count)
{
    if (rc_backend_open(name, 2, NULL, &be) != RC_OK)
        return 1;
    tolerance = accuracy;
    drawn = 0;
    int failures = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    rc_backend_close(be);
    return failures;
}

#endif
