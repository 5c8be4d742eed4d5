/* How backends are named, chosen and described. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"

static void refuses(const char *text, rc_status status, const char *words)
{
    rc_backend *be;
    assert_int_equal(rc_backend_open(text, 1, NULL, &be), status);
    assert_null(be);
    if (strstr(rc_message(), words) == NULL)
        fail_msg("'%s': '%s' does not say '%s'", text, rc_message(), words);
}

static void texts_that_nobody_understands(void **state)
{
    (void)state;
    refuses("", RC_INVALID_ARGUMENT, "unknown backend ''");
    refuses("gpu", RC_INVALID_ARGUMENT, "unknown backend 'gpu', expected cpu, cuda, reference or reference64");
    refuses("cp", RC_INVALID_ARGUMENT, "unknown backend 'cp'");
    refuses("cpus", RC_INVALID_ARGUMENT, "unknown backend 'cpus'");
    refuses("CPU", RC_INVALID_ARGUMENT, "unknown backend 'CPU'");
    refuses("cpu:bf16", RC_UNSUPPORTED, "backend cpu computes in fp32");
    refuses("reference64:bf16", RC_UNSUPPORTED, "backend reference64 computes in fp64");
    refuses("cpu:fp16", RC_INVALID_ARGUMENT, "unknown precision 'fp16', expected fp32");
    refuses("cpu:fp3", RC_INVALID_ARGUMENT, "unknown precision 'fp3'");
    refuses("cuda:fp64", RC_INVALID_ARGUMENT, "unknown precision 'fp64', expected bf16 or fp32");
    refuses("cuda:fp64:1000", RC_INVALID_ARGUMENT, "unknown precision 'fp64'");
    refuses("cpu:fp32:1000", RC_UNSUPPORTED, "max_memory limits what backend cpu takes");
    refuses("reference::1000", RC_UNSUPPORTED, "max_memory limits what backend reference takes");
    static const char *const bytes[] = {"", "much", "-1", "+1", "0", "1k", " 1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        char text[64], words[128];
        snprintf(text, sizeof text, "cuda:bf16:%s", bytes[i]);
        snprintf(words, sizeof words, "device memory is '%s', expected a number of bytes", bytes[i]);
        refuses(text, RC_INVALID_ARGUMENT, words);
    }
}

/* A device need not be there, but the text is understood. */
static void texts_that_are_understood(void **state)
{
    (void)state;
    static const char *const here[] = {
        "cpu", "cpu:", "cpu:fp32", "reference", "reference:fp32", "reference64", "reference64:fp64"};
    static const char *const elsewhere[] = {"cuda", "cuda:bf16", "cuda:fp32", "cuda::1", "cuda:fp32:8388608"};
    rc_backend *be;
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        assert_int_equal(rc_backend_open(here[i], 1, NULL, &be), RC_OK);
        rc_backend_close(be);
    }
    assert_int_equal(setenv("RECOLLECT_CUDA_MODULE", "/nowhere/module.so", 1), 0);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        refuses(elsewhere[i], RC_UNSUPPORTED, "/nowhere/module.so");
    assert_int_equal(setenv("RECOLLECT_CUDA_MODULE", "/no/memory/module.so", 1), 0); /* there is enough */
    refuses("cuda", RC_UNSUPPORTED, "/no/memory/module.so");
    assert_int_equal(unsetenv("RECOLLECT_CUDA_MODULE"), 0);
    static const char *const listed[] = {"cpu", "cuda", "reference"};
    for (int i = 0; i < 3; i++)
        assert_string_equal(rc_backend_name_at(i), listed[i]);
    assert_null(rc_backend_name_at(3));
    assert_null(rc_backend_name_at(-1));
}

static rc_backend *opened(const char *text, int threads)
{
    rc_backend *be;
    assert_int_equal(rc_backend_open(text, threads, NULL, &be), RC_OK);
    return be;
}

static void check_about(const rc_backend *be, const char *name, const char *precision, const char *judge)
{
    assert_string_equal(be->about.name, name);
    assert_string_equal(be->about.precision, precision);
    assert_string_equal(be->about.judge, judge);
    assert_non_null(be->about.isa);
    assert_null(be->about.device);
    assert_true(be->about.survives_fork);
    assert_false(be->about.device_memory || be->about.device_shared || be->about.asynchronous || be->about.more_checks);
}

static void references_describe_themselves(void **state)
{
    (void)state;
    static const char *const name[] = {"reference", "reference64"}, *const precision[] = {"fp32", "fp64"};
    for (int i = 0; i < 2; i++) {
        rc_backend *be = opened(name[i], 16);
        check_about(be, name[i], precision[i], "cpu");
        assert_int_equal(be->about.threads, 1);
        assert_int_equal(be->about.runs_at_once, 1);
        assert_false(be->about.takes_threads || be->about.reaches_peak || be->about.fuses);
        rc_backend_close(be);
    }
}

/* A run keeps eight threads busy. */
static void cpu_describes_itself(void **state)
{
    (void)state;
    static const int threads[] = {1, 7, 8, 15, 16}, runs[] = {1, 1, 1, 1, 2};
    for (int i = 0; i < 5; i++) {
        rc_backend *be = opened("cpu:fp32", threads[i]), *sizing;
        check_about(be, "cpu", "fp32", "reference");
        assert_int_equal(be->about.threads, threads[i]);
        assert_int_equal(be->about.runs_at_once, runs[i]);
        assert_true(be->about.takes_threads && be->about.reaches_peak);
        assert_int_equal(be->about.fuses, strcmp(be->about.isa, "sse2") != 0);
        assert_int_equal(rc_backend_open_sizing(be, &sizing), RC_OK);
        assert_true(sizing->sizing);
        assert_memory_equal(&sizing->about, &be->about, sizeof be->about);
        rc_backend_close(sizing);
        be->about.device_memory = true; /* whose memory is not counted beforehand */
        assert_int_equal(rc_backend_open_sizing(be, &sizing), RC_OK);
        assert_null(sizing);
        rc_backend_close(be);
    }
}

/* What the kernels reach is known where there are kernels. */
static void peaks(void **state)
{
    (void)state;
    rc_backend *be = opened("cpu", 1);
    rc_peak peak = rc_backend_measure(be);
    assert_true(peak.gflops > 0 && peak.gbytes > 0);
    assert_int_equal(peak.fused, be->about.fuses);
    assert_true(rc_backend_measure_now(be, 0.01) > 0);
    rc_backend_close(be);
    be = opened("reference", 1);
    peak = rc_backend_measure(be);
    assert_true(peak.gflops == 0 && peak.gbytes == 0 && !peak.fused);
    assert_true(rc_backend_measure_now(be, 0.01) == 0);
    rc_backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_nobody_understands),
        cmocka_unit_test(texts_that_are_understood),
        cmocka_unit_test(references_describe_themselves),
        cmocka_unit_test(cpu_describes_itself),
        cmocka_unit_test(peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
