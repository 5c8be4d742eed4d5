/* The checks checked: the quick list passes, and every kind of fault is noticed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "check/compare.h"
#include "check/coverage.h"
#include "check/selftest.h"

static rc_judges judges;

/* Sanitizers and emulators make everything some thirty times slower: they get a part of it. */
static bool light(void)
{
    const char *set = getenv("RECOLLECT_TEST_LIGHT");
    return set && set[0];
}

static int open_judges(void **state)
{
    (void)state;
    assert_int_equal(rc_backend_open("cpu", 2, NULL, &judges.test), RC_OK);
    assert_int_equal(rc_backend_open("reference", 1, NULL, &judges.narrow), RC_OK);
    assert_int_equal(rc_backend_open("reference64", 1, NULL, &judges.wide), RC_OK);
    return 0;
}

static int close_judges(void **state)
{
    (void)state;
    rc_backend_close(judges.test);
    rc_backend_close(judges.narrow);
    rc_backend_close(judges.wide);
    return 0;
}

/* ---- the list itself ------------------------------------------------------------------------------------------ */

static void print_miss(void *user, const char *text)
{
    (void)user;
    if (strncmp(text, "ok", 2) != 0)
        print_message("%s\n", text);
}

/* A part of it, of another seed: the tests selftest_* have all of it. */
static void quick_list_passes(void **state)
{
    (void)state;
    int every = light() ? 20 : 4;
    if (getenv("RECOLLECT_TEST_ALL") != NULL)
        every = 1;
    rc_selftest_settings settings = {
        .seed = 2, .quick = true, .threads = 2, .only = -1, .line = print_miss, .every = every};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_OK);
    assert_int_equal(result.misses, 0);
    assert_true(result.cases > (light() ? 50 : 300));
}

static void every_entry_is_covered(void **state)
{
    (void)state;
    int entries = 0, fused = 0;
    for (; rc_entry_name(entries); entries++) {
        assert_true(rc_entry_covered(rc_entry_name(entries)));
        assert_true(rc_entry_filled(judges.test, entries));
    }
    for (; rc_optional_entry_name(fused); fused++)
        assert_true(rc_entry_covered(rc_optional_entry_name(fused)));
    assert_true(entries > 50 && fused > 4);
    assert_false(rc_entry_covered("fuse_train"));
    const rc_operation *operation;
    for (int i = 0; (operation = rc_operation_at(i)) != NULL; i++) {
        assert_true(operation->quick > 0 && operation->normal >= operation->quick);
        assert_true(rc_operation_matches(operation, operation->name));
        assert_false(rc_operation_matches(operation, "conv"));
    }
}

/* Stands in for any entry: the result stays what it was. Callers pass arguments that it does not take, which the
 * calling conventions of our machines do not mind. */
static size_t does_nothing(void)
{
    return 1;
}

static bool is_noticed(const rc_operation *operation)
{
    for (uint32_t number = 0; number < (uint32_t)operation->quick; number++) {
        rc_case c;
        rc_verdict v = {0};
        rc_status status = rc_case_draw(&c, operation, 1, number, true, 24);
        if (status == RC_OK)
            status = rc_judge(&judges, &c, &v);
        rc_case_free(&c);
        assert_int_equal(status, RC_OK);
        if (v.missed && !v.shaky)
            return true;
    }
    return false;
}

/* Covered means more than named: an entry that does nothing fails a case of every operation that claims to cover it. */
static void an_idle_entry_is_noticed_by_every_operation(void **state)
{
    (void)state;
    if (light())
        skip(); /* hundreds of misses, each of which runs the case five times more: minutes, and nothing new */
    const rc_backend whole = *judges.test;
    size_t (*idle)(void) = does_nothing;
    const rc_operation *operation;
    for (int entry = 0; rc_entry_name(entry); entry++) {
        if (strstr(rc_entry_name(entry), "_workspace"))
            continue; /* says how much memory it wants: too little would be written beyond */
        size_t offset = offsetof(rc_backend, conv_forward) + (size_t)entry * sizeof idle;
        memcpy((char *)judges.test + offset, &idle, sizeof idle);
        for (int i = 0; (operation = rc_operation_at(i)) != NULL; i++)
            if (rc_operation_matches(operation, rc_entry_name(entry)) && !is_noticed(operation))
                fail_msg("%s does not notice that %s does nothing", operation->name, rc_entry_name(entry));
        *judges.test = whole;
    }
}

static void a_case_is_the_same_each_time(void **state)
{
    (void)state;
    const rc_operation *operation;
    for (int i = 0; (operation = rc_operation_at(i)) != NULL; i++) {
        rc_case a, b, other;
        assert_int_equal(rc_case_draw(&a, operation, 7, 3, true, 24), RC_OK);
        assert_int_equal(rc_case_draw(&b, operation, 7, 3, true, 24), RC_OK);
        assert_int_equal(rc_case_draw(&other, operation, 8, 3, true, 24), RC_OK);
        assert_string_equal(a.text, b.text);
        assert_int_equal(a.buffers, b.buffers);
        assert_true(a.drawn > 0 && other.drawn > 0);
        for (int k = 0; k < a.buffers; k++) {
            assert_int_equal(a.buffer[k].count, b.buffer[k].count);
            if (a.buffer[k].host)
                assert_memory_equal(a.buffer[k].host, b.buffer[k].host, a.buffer[k].count * sizeof(double));
        }
        rc_case_free(&a);
        rc_case_free(&b);
        rc_case_free(&other);
    }
}

/* ---- an operation with faults --------------------------------------------------------------------------------- */

/* y = x + 1 in (2, 3, 3, 5), and its gradient: written on the host, for backends whose memory is the host's. */
typedef enum fault {
    NONE,
    WRONG_NUMBER,
    WRONG_BY_A_TENTH,
    NOT_WRITTEN,
    BEYOND,
    BEFORE,
    CHANGED_INPUT,
    DIRTY_PADDING,
    OTHER_BITS,
    WRONG_GRADIENT,
    NO_GRADIENT
} fault;

static fault planted;
static int calls;

enum { X, Y, G, DX };

static void draw_faulty(rc_case *c)
{
    rc_case_act(c, "x", RC_IN, 2, 3, 3, 5);
    rc_case_act(c, "y", RC_OUT, 2, 3, 3, 5);
    rc_case_act(c, "g", RC_IN, 2, 3, 3, 5);
    c->buffer[Y].cotangent = G;
    rc_case_gradient(c, rc_case_act(c, "dx", RC_OUT, 2, 3, 3, 5), X, 1);
    rc_case_say(c, "a shape");
}

static double get(const rc_run *r, int buffer, size_t i)
{
    return r->be->act_bytes == 8 ? ((double *)r->memory[buffer])[i] : (double)((float *)r->memory[buffer])[i];
}

static void set(rc_run *r, int buffer, size_t i, double value)
{
    if (r->be->act_bytes == 8)
        ((double *)r->memory[buffer])[i] = value;
    else
        ((float *)r->memory[buffer])[i] = (float)value;
}

static void run_faulty(rc_run *r)
{
    enum { C = 5, CP = 8, COUNT = 2 * 3 * 3 * CP };
    fault f = r->be == judges.test ? planted : NONE;
    for (size_t i = 0; i < COUNT; i++) {
        bool pad = i % CP >= C;
        set(r, Y, i, pad ? 0 : get(r, X, i) + 1);
        /* A wrong gradient must be wrong in every backend: comparison alone would see it otherwise. */
        set(r, DX, i, pad ? 0 : get(r, G, i) * (planted == WRONG_GRADIENT ? 1.001 : 1));
    }
    if (planted == NO_GRADIENT)
        set(r, DX, 3, NAN);
    if (f == WRONG_NUMBER)
        set(r, Y, 0, get(r, Y, 0) * 1.0001);
    if (f == WRONG_BY_A_TENTH)
        set(r, Y, 0, get(r, Y, 0) * 1.1);
    if (f == NOT_WRITTEN)
        set(r, Y, 1, NAN);
    if (f == BEYOND)
        set(r, Y, COUNT, 0);
    if (f == BEFORE)
        memset((char *)r->memory[Y] - 1, 0, 1);
    if (f == CHANGED_INPUT)
        set(r, X, 2, 0);
    if (f == DIRTY_PADDING)
        set(r, Y, C, 1);
    if (f == OTHER_BITS)
        set(r, Y, 0, get(r, Y, 0) * (1 + 0x1p-22 * (calls++ % 2)));
}

static rc_verdict judge_fault(fault f, int act_bits)
{
    static const rc_operation faulty = {"faulty", "", 1, 1, 0, draw_faulty, NULL, run_faulty, NULL};
    rc_case c;
    rc_verdict v;
    planted = f;
    calls = 0;
    assert_int_equal(rc_case_draw(&c, &faulty, 1, 0, true, act_bits), RC_OK);
    assert_int_equal(rc_judge(&judges, &c, &v), RC_OK);
    rc_case_free(&c);
    return v;
}

static void expect_miss(fault f, const char *part)
{
    rc_verdict v = judge_fault(f, 24);
    assert_true(v.missed);
    assert_false(v.shaky);
    if (!strstr(v.text, part))
        fail_msg("'%s' does not contain '%s'", v.text, part);
}

static void faults_are_noticed(void **state)
{
    (void)state;
    rc_verdict v = judge_fault(NONE, 24);
    assert_false(v.missed);
    assert_true(v.slope_error < 1e-9);
    expect_miss(WRONG_NUMBER, "'y' is");
    expect_miss(NOT_WRITTEN, "'y' is nan");
    expect_miss(BEYOND, "wrote outside of buffer 'y'");
    expect_miss(BEFORE, "wrote outside of buffer 'y'");
    expect_miss(CHANGED_INPUT, "changed its input 'x'");
    expect_miss(DIRTY_PADDING, "pad channels of 'y'");
    expect_miss(OTHER_BITS, "'y' has other bits");
    expect_miss(WRONG_GRADIENT, "gradient 'dx' of 'x'");
    expect_miss(NO_GRADIENT, "gradient 'dx' of 'x' on reference64 is nan");
}

/* ---- cases that say nothing ----------------------------------------------------------------------------------- */

/* y = sign(x), with one x so near 0 that rounding decides. */
static void draw_shaky(rc_case *c)
{
    rc_case_real(c, "a", RC_IN, 1, 4);
    rc_case_real(c, "b", RC_IN, 1, 4);
    rc_case_real(c, "y", RC_OUT, 1, 4);
    c->buffer[1].host[2] = c->buffer[0].host[2];
}

static void run_shaky(rc_run *r)
{
    bool wide = r->be->real_bytes == 8;
    for (size_t i = 0; i < 4; i++) {
        double a = wide ? ((double *)r->memory[0])[i] : (double)((float *)r->memory[0])[i];
        double b = wide ? ((double *)r->memory[1])[i] : (double)((float *)r->memory[1])[i];
        double noise = wide ? 1e-12 : -1e-12; /* what rounding would do */
        double y = a - b + noise > 0 ? 1 : -1;
        if (wide)
            ((double *)r->memory[2])[i] = y;
        else
            ((float *)r->memory[2])[i] = (float)y;
    }
}

static void a_case_that_hangs_on_an_ulp_is_told_apart(void **state)
{
    (void)state;
    static const rc_operation shaky = {"shaky", "", 1, 1, 0, draw_shaky, NULL, run_shaky, NULL};
    rc_case c;
    rc_verdict v;
    assert_int_equal(rc_case_draw(&c, &shaky, 1, 0, true, 24), RC_OK);
    assert_int_equal(rc_judge(&judges, &c, &v), RC_OK);
    assert_true(v.missed);
    assert_true(v.shaky);
    rc_case_free(&c);
}

/* The first `shaky_cases` cases of a list depend on the last bit of their input until they have moved `shaky_moves`
 * times. */
static uint32_t shaky_cases;
static int shaky_moves;

static void draw_shaky_first(rc_case *c)
{
    draw_shaky(c);
    if (c->number >= shaky_cases || c->move >= shaky_moves)
        c->buffer[1].host[2] = c->buffer[0].host[2] - 1;
}

static void keep_miss(void *user, const char *text)
{
    if (strncmp(text, "MISS", 4) == 0)
        snprintf(user, RC_CASE_TEXT, "%s", text);
}

static long misses_with(const char *operation, uint32_t shaky, char missed[RC_CASE_TEXT])
{
    const rc_operation some = {operation, "", 40, 40, 0, draw_shaky_first, NULL, run_shaky, NULL};
    const rc_selftest_settings settings = {.seed = 1, .quick = true, .only = -1, .line = keep_miss, .user = missed};
    rc_selftest_result result = {0};
    shaky_cases = shaky;
    shaky_moves = 1;
    missed[0] = 0;
    assert_int_equal(rc_selftest_count(&settings, &judges, &some, &result), RC_OK);
    assert_int_equal(result.cases, 40);
    assert_int_equal(result.redrawn, shaky);
    return result.misses;
}

static void an_operation_that_is_redrawn_too_often_is_a_miss(void **state)
{
    (void)state;
    char missed[RC_CASE_TEXT];
    assert_int_equal(misses_with("shaky", 4, missed), 0);
    assert_string_equal(missed, "");
    assert_int_equal(misses_with("shaky", 5, missed), 1);
    assert_string_equal(missed, "MISS  shaky: 5 of 40 cases depend on the last bit of their input and were redrawn, "
                                "at most 4 may be");
    assert_int_equal(misses_with("conv_forward", 5, missed), 1); /* in fp32 they are no exception */
}

static void keep_all(void *user, const char *text)
{
    strncat(user, text, 4 * RC_CASE_TEXT - strlen(user) - 1);
    strncat(user, "\n", 4 * RC_CASE_TEXT - strlen(user) - 1);
}

/* Away from the kink the same kernel must be right: what still misses there has no excuse. */
static void a_redrawn_case_that_nothing_explains_is_a_miss(void **state)
{
    (void)state;
    char text[4 * RC_CASE_TEXT] = "";
    const rc_operation some = {"shaky", "", 1, 1, 0, draw_shaky_first, NULL, run_shaky, NULL};
    const rc_selftest_settings settings = {.seed = 1, .quick = true, .only = -1, .line = keep_all, .user = text};
    rc_selftest_result result = {0};
    shaky_cases = 1;
    shaky_moves = 11;
    assert_int_equal(rc_selftest_count(&settings, &judges, &some, &result), RC_OK);
    assert_int_equal(result.misses, 1);
    assert_int_equal(result.redrawn, 1); /* one case, however often it moves */
    assert_non_null(strstr(text, "moved 10 times: no kink explains it\n"));
    result = (rc_selftest_result){0};
    shaky_moves = 2;
    assert_int_equal(rc_selftest_count(&settings, &judges, &some, &result), RC_OK);
    assert_int_equal(result.misses, 0);
    assert_int_equal(result.redrawn, 1);
}

static bool takes_none(rc_backend *be, const rc_case *c)
{
    (void)be;
    (void)c;
    return false;
}

static void draw_untaken(rc_case *c)
{
    draw_shaky(c);
    c->takes = takes_none;
}

/* Else nobody would see that a backend takes them no more. Who asks for one case is told by rc_selftest. */
static void an_operation_of_which_no_case_is_taken_is_told(void **state)
{
    (void)state;
    char text[4 * RC_CASE_TEXT] = "";
    const rc_operation some = {"untaken", "", 7, 40, 0, draw_untaken, NULL, run_shaky, NULL};
    const rc_operation lacked = {"lacked", "fused_forward", 7, 40, 0, draw_untaken, NULL, run_shaky, NULL};
    rc_selftest_settings settings = {.seed = 1, .quick = true, .only = -1, .line = keep_all, .user = text};
    rc_selftest_result result = {0};
    assert_int_equal(rc_selftest_count(&settings, &judges, &some, &result), RC_OK);
    assert_int_equal(rc_selftest_count(&settings, &judges, &lacked, &result), RC_OK);
    assert_string_equal(text, "skip  untaken: the backend takes none of its 7 cases\n");
    settings.only = 3;
    assert_int_equal(rc_selftest_count(&settings, &judges, &some, &result), RC_OK);
    assert_string_equal(text, "skip  untaken: the backend takes none of its 7 cases\n");
    assert_true(result.cases == 0 && result.misses == 0 && result.operations == 0);
}

/* A moved case is the same case: shape, labels and what chooses the kernel; its numbers are near what they were. */
static void a_moved_case_keeps_its_shape(void **state)
{
    (void)state;
    const rc_operation *operation;
    for (int i = 0; (operation = rc_operation_at(i)) != NULL; i++)
        for (uint32_t number = 0; number < 4; number++) {
            rc_case c, moved;
            double numbers = 0, squares = 0;
            assert_int_equal(rc_case_draw(&c, operation, 1, number, true, 24), RC_OK);
            assert_int_equal(rc_case_draw_moved(&moved, operation, 1, number, true, 24, 1), RC_OK);
            if (!strchr(c.text, '.')) /* a number that may move */
                assert_string_equal(c.text, moved.text);
            assert_int_equal(c.buffers, moved.buffers);
            assert_int_equal(c.drawn, moved.drawn);
            for (int b = 0; b < c.buffers; b++) {
                assert_int_equal(c.buffer[b].count, moved.buffer[b].count);
                if (c.buffer[b].kind != RC_BUFFER_ACT || !c.buffer[b].host)
                    continue;
                for (size_t k = 0; k < c.buffer[b].count; k++) {
                    double off = c.buffer[b].host[k] - moved.buffer[b].host[k];
                    numbers++;
                    squares += off * off;
                }
            }
            if (numbers > 50) /* two numbers of size 1 that have nothing in common are sqrt(2) apart */
                assert_in_range((int)(1000 * sqrt(squares / numbers)), 10, 700);
            rc_case_free(&c);
            rc_case_free(&moved);
        }
}

/* An operation of 20 cases may have 3 redrawn, the quick list of 1400 may have 9. */
static void redraws_have_a_budget(void **state)
{
    (void)state;
    assert_int_equal(rc_redraw_budget(false, 20), 3);
    assert_int_equal(rc_redraw_budget(false, 60), 5);
    assert_int_equal(rc_redraw_budget(false, 400), 22);
    assert_int_equal(rc_redraw_budget(true, 1415), 9);
}

/* Of each operation the redrawn cases are good, of all together they are too many. */
static void the_whole_list_has_a_budget_of_its_own(void **state)
{
    (void)state;
    char missed[RC_CASE_TEXT] = "";
    rc_selftest_settings settings = {.only = -1, .line = keep_miss, .user = missed};
    rc_selftest_result result = {.cases = 1220, .redrawn = 8};
    rc_selftest_conclude(&settings, 0, &result);
    assert_int_equal(result.misses, 0);
    result.redrawn = 9;
    rc_selftest_conclude(&settings, 0, &result);
    assert_int_equal(result.misses, 1);
    assert_string_equal(missed, "MISS  all operations: 9 of 1220 cases depend on the last bit of their input and "
                                "were redrawn, at most 8 may be");
    settings.operation = "conv_forward"; /* which has been held to its own */
    rc_selftest_conclude(&settings, 0, &result);
    assert_int_equal(result.misses, 1);
}

/* A run ends with its conclusion. */
static void keep_last(void *user, const char *text)
{
    snprintf(user, RC_CASE_TEXT, "%s", text);
}

static void a_selftest_ends_with_its_conclusion(void **state)
{
    (void)state;
    char last[RC_CASE_TEXT] = "";
    const rc_selftest_settings settings = {
        .seed = 1, .quick = true, .threads = 1, .only = -1, .operation = "sgd", .line = keep_last, .user = last};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_OK);
    if (strncmp(last, "passed: 1 operations, 10 cases, 0 misses, ", 42) != 0)
        fail_msg("ends with '%s'", last);
}

/* Inputs of few digits may move by more, but not so far that they explain any result. */
static void a_wrong_number_of_few_digits_is_not_excused(void **state)
{
    (void)state;
    rc_verdict v = judge_fault(WRONG_BY_A_TENTH, 8);
    assert_true(v.missed);
    assert_false(v.shaky);
}

/* ---- large cases ---------------------------------------------------------------------------------------------- */

enum { QUICKEST = 3 /* of the large cases: one tap */ };

static void large_cases_are_asked_for_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < rc_cases_large.count; i++) {
        const rc_operation *operation = &rc_cases_large.operation[i];
        rc_selftest_settings settings = {.seed = 2,
                                         .threads = 2,
                                         .operation = operation->name,
                                         .line = print_miss,
                                         .only = operation->quick + QUICKEST};
        rc_selftest_result result;
        assert_true(rc_selftest_knows(operation->name));
        assert_int_equal(rc_selftest(&settings, &result), RC_OK);
        assert_int_equal(result.cases, 1);
        assert_int_equal(result.misses, 0);
    }
}

/* One backend alone judges them: nothing is drawn again. */
static void large_cases_notice_an_idle_entry(void **state)
{
    (void)state;
    const rc_backend whole = *judges.test;
    const rc_judges alone = {.test = judges.test, .wide = judges.narrow};
    for (int i = 0; i < rc_cases_large.count; i++) {
        const rc_operation *operation = &rc_cases_large.operation[i];
        size_t (*idle)(void) = does_nothing;
        int entry = 0;
        while (strcmp(rc_entry_name(entry), operation->covers) != 0)
            entry++;
        memcpy((char *)judges.test + offsetof(rc_backend, conv_forward) + (size_t)entry * sizeof idle, &idle,
               sizeof idle);
        rc_case c;
        rc_verdict v;
        assert_int_equal(rc_case_draw(&c, operation, 1, (uint32_t)(operation->quick + QUICKEST), true, 24), RC_OK);
        assert_int_equal(rc_judge(&alone, &c, &v), RC_OK);
        assert_true(v.missed);
        assert_false(v.shaky);
        rc_case_free(&c);
        *judges.test = whole;
    }
}

/* ---- measures ------------------------------------------------------------------------------------------------- */

static void errors_are_measured_by_the_size_of_the_result(void **state)
{
    (void)state;
    rc_buffer b = {.kind = RC_BUFFER_REAL, .count = 2, .terms = 100};
    double right[2] = {3, -4}, wrong[2] = {3, -4.004};
    size_t at;
    double rms = sqrt(12.5), error = rc_error(&b, wrong, right, &at);
    assert_int_equal(at, 1);
    assert_true(fabs(error - 0.004 / (rms + 4)) < 1e-12);
    right[0] = NAN;
    assert_true(isinf(rc_error(&b, wrong, right, &at)));
    wrong[0] = NAN;
    assert_true(isfinite(rc_error(&b, wrong, right, &at)));
    right[0] = wrong[0] = INFINITY;
    assert_true(isfinite(rc_error(&b, wrong, right, &at)));
    wrong[0] = 3;
    assert_true(isinf(rc_error(&b, wrong, right, &at)));
    wrong[0] = -INFINITY;
    assert_true(isinf(rc_error(&b, wrong, right, &at)));
    assert_true(fabs(rc_tolerance(judges.test, &b) - 48 * 0x1p-23) < 1e-12);
    b.kind = RC_BUFFER_INT;
    assert_true(rc_tolerance(judges.test, &b) == 0);
}

static void unknown_operation_is_an_error(void **state)
{
    (void)state;
    rc_selftest_settings settings = {.quick = true, .operation = "no_such", .only = -1, .line = print_miss};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "'no_such'"));
    assert_false(rc_selftest_knows("no_such"));
    assert_true(rc_selftest_knows("rkd_workspace"));
}

static void keep_steps(void *user, const char *text)
{
    char *kept = user;
    if (strstr(text, "  step "))
        snprintf(kept, 200, "%s", text);
}

static void the_last_number_is_a_case(void **state)
{
    (void)state;
    rc_selftest_settings settings = {
        .seed = 2, .quick = true, .threads = 2, .operation = "softmax", .only = INT32_MAX, .line = print_miss};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_OK);
    assert_int_equal(result.cases, 1);
}

/* Steps by their starts: the second case is the first step from its second start. */
static void a_whole_step_is_asked_for_by_number(void **state)
{
    (void)state;
    char kept[200] = "";
    rc_selftest_settings settings = {
        .seed = 1, .threads = 2, .steps = 1, .only = 1000, .line = keep_steps, .user = kept};
    rc_selftest_result result;
    assert_int_equal(rc_selftest(&settings, &result), RC_UNSUPPORTED);
    assert_non_null(strstr(rc_message(), "'step'"));
    if (light())
        return;
    settings.only = 1;
    assert_int_equal(rc_selftest(&settings, &result), RC_OK);
    assert_true(result.cases == 1 && result.operations == 1);
    assert_non_null(strstr(kept, "train_first, smooth"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_covered),
        cmocka_unit_test(an_idle_entry_is_noticed_by_every_operation),
        cmocka_unit_test(a_case_is_the_same_each_time),
        cmocka_unit_test(faults_are_noticed),
        cmocka_unit_test(a_case_that_hangs_on_an_ulp_is_told_apart),
        cmocka_unit_test(an_operation_that_is_redrawn_too_often_is_a_miss),
        cmocka_unit_test(a_redrawn_case_that_nothing_explains_is_a_miss),
        cmocka_unit_test(an_operation_of_which_no_case_is_taken_is_told),
        cmocka_unit_test(a_moved_case_keeps_its_shape),
        cmocka_unit_test(redraws_have_a_budget),
        cmocka_unit_test(the_whole_list_has_a_budget_of_its_own),
        cmocka_unit_test(a_selftest_ends_with_its_conclusion),
        cmocka_unit_test(a_wrong_number_of_few_digits_is_not_excused),
        cmocka_unit_test(large_cases_are_asked_for_by_name),
        cmocka_unit_test(large_cases_notice_an_idle_entry),
        cmocka_unit_test(errors_are_measured_by_the_size_of_the_result),
        cmocka_unit_test(unknown_operation_is_an_error),
        cmocka_unit_test(the_last_number_is_a_case),
        cmocka_unit_test(a_whole_step_is_asked_for_by_number),
        cmocka_unit_test(quick_list_passes),
    };
    return cmocka_run_group_tests(tests, open_judges, close_judges);
}
