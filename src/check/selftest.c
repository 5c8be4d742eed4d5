/* The selftest: draws the cases of every operation and has them judged. */
#include "check/selftest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "check/compare.h"
#include "check/coverage.h"
#include "check/relations.h"
#include "check/selftest_steps.h"
#include "cil/stage.h"

/* A case whose result depends on the last bit of its input says nothing. The selftest draws it again with every number
 * moved away (rc_case_draw_moved): the same kernel must then pass at full tolerance. A case that still misses after so
 * many moves was no accident, and is a miss. If the selftest redraws more cases than the budget (rc_redraw_budget)
 * allows, that is a miss, too: the operation is wrong, or its list of cases is. */
enum { MAX_MOVES = 10 };
/* How many misses of one operation are printed in full; more would say the same. */
enum { TOLD_MISSES = 5 };

/* Whole steps: the name under which they can be asked for. */
static const char steps_name[] = "step";

typedef struct tally {
    int cases, redrawn, misses;
    rc_verdict worst;
    double slope_error;
} tally;

static void say(const rc_selftest_settings *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const rc_selftest_settings *s, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    s->line(s->user, text);
}

/* Those of rc_operation_at, and then the large ones. */
static const rc_operation *operation_at(int index)
{
    const rc_operation *operation;
    int count = 0;
    for (; (operation = rc_operation_at(count)) != NULL; count++)
        if (count == index)
            return operation;
    return rc_large_operation_at(index - count);
}

const char *rc_selftest_operation(int index)
{
    const rc_operation *operation = operation_at(index);
    return operation ? operation->name : NULL;
}

bool rc_selftest_knows(const char *name)
{
    const rc_operation *operation;
    for (int i = 0; (operation = operation_at(i)) != NULL; i++)
        if (rc_operation_matches(operation, name))
            return true;
    return strcmp(name, steps_name) == 0;
}

/* ---- redrawn cases ------------------------------------------------------------------------------------------- */

int rc_redraw_budget(bool whole_list, int cases)
{
    return 2 + cases / (whole_list ? 200 : 20);
}

/* A miss if more were redrawn than the budget has. */
static int check_redrawn(const rc_selftest_settings *s, const char *operation, int cases, long redrawn)
{
    int budget = rc_redraw_budget(operation == NULL, cases);
    if (redrawn <= budget)
        return 0;
    say(s, "MISS  %s: %ld of %d cases depend on the last bit of their input and were redrawn, at most %d may be",
        operation ? operation : "all operations", redrawn, cases, budget);
    return 1;
}

/* ", 3 redrawn (at most 8)"; nothing where none was. */
static void tell_redrawn(char *text, size_t size, long redrawn, int budget)
{
    text[0] = 0;
    if (redrawn > 0)
        snprintf(text, size, ", %ld redrawn (at most %d)", redrawn, budget);
}

void rc_selftest_conclude(const rc_selftest_settings *s, double seconds, rc_selftest_result *result)
{
    char redrawn[64] = "";
    if (!s->operation && s->steps == 0 && s->only < 0) { /* else each operation has its own budget */
        result->misses += check_redrawn(s, NULL, (int)result->cases, result->redrawn);
        tell_redrawn(redrawn, sizeof redrawn, result->redrawn, rc_redraw_budget(true, (int)result->cases));
    }
    say(s, "%s: %d operations, %ld cases, %ld miss%s%s, %.1f s", result->misses ? "FAILED" : "passed",
        result->operations, result->cases, result->misses, result->misses == 1 ? "" : "es", redrawn, seconds);
}

/* ---- backends ------------------------------------------------------------------------------------------------- */

static void close_judges(rc_judges *j)
{
    rc_backend_close(j->test);
    rc_backend_close(j->narrow);
    rc_backend_close(j->wide);
    for (int i = 0; i < RC_CHECK_THREADS; i++)
        rc_backend_close(j->threads[i]);
}

static bool is_narrow(const rc_judges *j)
{
    return j->test->act_bytes == 2;
}

/* The judge of cases that would take the references too long. A device is compared with the CPU backend, whose own
 * selftest compares it with the reference; the CPU backend is compared with the reference, if these cases are asked
 * for. */
static rc_status open_other(const rc_judges *j, rc_backend **other)
{
    return rc_backend_open(j->test->about.judge, 0, NULL, other);
}

static rc_status open_judges(rc_judges *j, const char *name, int threads)
{
    RC_TRY(rc_backend_open(name, threads, NULL, &j->test));
    RC_TRY(rc_backend_open("reference", 1, NULL, &j->narrow));
    RC_TRY(rc_backend_open("reference64", 1, NULL, &j->wide));
    if (j->test->about.takes_threads)
        for (int i = 0; i < RC_CHECK_THREADS; i++)
            RC_TRY(rc_backend_open(name, i + 1, NULL, &j->threads[i]));
    return RC_OK;
}

/* ---- cases ---------------------------------------------------------------------------------------------------- */

static void report_miss(const rc_selftest_settings *s, const rc_judges *j, const rc_case *c, const rc_verdict *v)
{
    say(s, "MISS  %s case %u: %s", c->operation->name, c->number, v->text);
    if (c->move > 0)
        say(s, "      with its numbers moved %d time%s%s", c->move, c->move == 1 ? "" : "s",
            v->shaky ? ": no kink explains it" : "");
    say(s, "      shape: %s", c->text);
    rc_selftest_miss miss = {.backend = j->test->about.name,
                             .precision = j->test->about.precision,
                             .operation = c->operation->name,
                             .threads = j->test->about.threads,
                             .seed = s->seed,
                             .number = c->number,
                             .quick = s->quick};
    if (s->missed != NULL)
        s->missed(s->user, &miss);
}

static void add_verdict(tally *t, const rc_verdict *v)
{
    t->cases++;
    t->misses += v->missed;
    t->slope_error = fmax(t->slope_error, v->slope_error);
    if (t->worst.tolerance == 0 || v->error * t->worst.tolerance > t->worst.error * v->tolerance)
        t->worst = *v;
}

/* Case `number`, moved until it is not shaky. */
static rc_status check_case(const rc_selftest_settings *s, const rc_judges *j, const rc_operation *operation,
                            uint32_t number, tally *t)
{
    for (int move = 0;; move++) {
        rc_case c;
        rc_verdict v = {0};
        rc_status status = rc_case_draw_moved(&c, operation, s->seed, number, s->quick, is_narrow(j) ? 8 : 24, move);
        bool taken = status == RC_OK && (!c.takes || c.takes(j->test, &c));
        if (taken)
            status = rc_judge(j, &c, &v);
        bool again = status == RC_OK && v.missed && v.shaky && move < MAX_MOVES;
        if (taken && status == RC_OK && !again) {
            add_verdict(t, &v);
            if (v.missed && (t->misses <= TOLD_MISSES || s->verbose))
                report_miss(s, j, &c, &v);
            else if (s->verbose)
                say(s, "      %s case %u: error %.1e of %.1e, slopes %.1e:%s%s", operation->name, number, v.error,
                    v.tolerance, v.slope_error, c.text[0] == ' ' ? "" : " ", c.text);
        }
        if (again && s->verbose)
            say(s, "      %s case %u is redrawn, move %d: %s", operation->name, number, move + 1, v.text);
        rc_case_free(&c);
        if (!again)
            return status;
        t->redrawn += move == 0; /* the case, however often it moves */
    }
}

static rc_status check_operation(const rc_selftest_settings *s, const rc_judges *j, const rc_operation *operation,
                                 tally *t)
{
    int cases = s->quick ? operation->quick : operation->normal;
    int first = s->only < 0 ? 0 : s->only, count = s->only < 0 ? cases : 1, tried = 0;
    int step = s->every > 1 ? s->every : 1;
    for (int i = 0; i < count; i += step) {
        char text[96];
        snprintf(text, sizeof text, "%s %d/%d", operation->name, i + 1, count);
        if (s->progress)
            s->progress(s->user, text);
        RC_TRY(check_case(s, j, operation, (uint32_t)first + (uint32_t)i, t));
        tried++;
    }
    if (t->cases == 0) {
        if (s->only < 0)
            say(s, "skip  %s: the backend takes none of its %d cases", operation->name, tried);
        return RC_OK;
    }
    t->misses += check_redrawn(s, operation->name, t->cases, t->redrawn);
    if (t->misses > TOLD_MISSES && !s->verbose)
        say(s, "MISS  %s: and %d more", operation->name, t->misses - TOLD_MISSES);
    char slopes[48] = "", redrawn[64];
    if (t->slope_error > 0)
        snprintf(slopes, sizeof slopes, ", slopes %.1e of %.0e", t->slope_error, RC_SLOPE_TOLERANCE);
    tell_redrawn(redrawn, sizeof redrawn, t->redrawn, rc_redraw_budget(false, t->cases));
    say(s, "%-4s  %-26s %4d cases, worst error %.1e of %.1e%s%s", t->misses ? "FAIL" : "ok", operation->name, t->cases,
        t->worst.error, t->worst.tolerance, slopes, redrawn);
    return RC_OK;
}

rc_status rc_selftest_count(const rc_selftest_settings *s, const rc_judges *j, const rc_operation *operation,
                            rc_selftest_result *result)
{
    tally t = {0};
    if (rc_operation_offered(operation, j->test))
        RC_TRY(check_operation(s, j, operation, &t));
    result->cases += t.cases;
    result->misses += t.misses;
    result->redrawn += t.redrawn;
    result->operations += t.cases > 0;
    return RC_OK;
}

/* Large cases: all where the backend asks for more checks, otherwise what is named. */
static rc_status check_large(const rc_selftest_settings *s, const rc_judges *j, rc_selftest_result *result)
{
    rc_judges judges = {.test = j->test};
    rc_status status = RC_OK;
    const rc_operation *operation;
    for (int i = 0; status == RC_OK && (operation = rc_large_operation_at(i)) != NULL; i++) {
        bool named = s->operation && strcmp(operation->name, s->operation) == 0;
        bool meant = !s->operation || rc_operation_matches(operation, s->operation);
        if (!named && !(j->test->about.more_checks && meant && s->only < 0 && s->every <= 1))
            continue;
        if (!judges.wide)
            status = open_other(j, &judges.wide);
        if (status == RC_OK)
            status = rc_selftest_count(s, &judges, operation, result);
    }
    rc_backend_close(judges.wide);
    return status;
}

/* ---- coverage ------------------------------------------------------------------------------------------------- */

/* Entries that the backend lacks. */
static int check_filled(const rc_selftest_settings *s, const rc_backend *be)
{
    int misses = 0;
    for (int i = 0; rc_entry_name(i); i++) {
        if (rc_entry_filled(be, i))
            continue;
        say(s, "MISS  %s: backend %s has no such operation", rc_entry_name(i), be->about.name);
        misses++;
    }
    return misses;
}

static int check_entry(const rc_selftest_settings *s, const char *name)
{
    if (rc_entry_covered(name))
        return 0;
    say(s, "MISS  %s: no case covers it", name);
    return 1;
}

/* Entries that no case covers. */
static int check_covered(const rc_selftest_settings *s)
{
    const char *name;
    int misses = 0;
    for (int i = 0; (name = rc_entry_name(i)) != NULL; i++)
        misses += check_entry(s, name);
    for (int i = 0; (name = rc_optional_entry_name(i)) != NULL; i++)
        misses += check_entry(s, name);
    return misses;
}

/* ---- whole steps ---------------------------------------------------------------------------------------------- */

/* How the losses go apart: after 1, 2, 5, 10, 20, 50, .. steps and after the last one. */
static void tell_growth(const rc_selftest_settings *s, const rc_step_run *run, const rc_step_difference *d)
{
    char text[512];
    int length = 0, next = 1;
    for (int step = 1; step <= run->steps; step++) {
        if (step != next && step != run->steps)
            continue;
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %.1e after %d", length ? "," : "",
                           d->after[step - 1], step);
        if (step == next)
            next = next % 9 == 2 ? next / 2 * 5 : next * 2;
    }
    say(s, "      losses of step %s off by%s", run->name, text);
}

static void tell_tensors(const rc_selftest_settings *s, const rc_step_run *run, const rc_step_difference *d)
{
    for (int i = 0; i < d->tensors; i++)
        say(s, "      gradient of %s in step %s: norm %.3e, off by %.1e, cosine %.6f", d->tensor[i].name, run->name,
            d->tensor[i].norm, d->tensor[i].distance, d->tensor[i].cosine);
}

static const char *start_name(rc_step_start start)
{
    return start == RC_START_SMOOTH ? ", smooth" : "";
}

static void tell_step(const rc_selftest_settings *s, const rc_step_run *run, const rc_step_limits *allowed,
                      const rc_step_difference *d, bool good)
{
    char name[48];
    int judged = run->steps < RC_STEP_CHECKED ? run->steps : RC_STEP_CHECKED;
    snprintf(name, sizeof name, "%s%s", run->name, start_name(run->start));
    say(s, "%-4s  step %-19s losses off by %.1e of %.1e (%d steps: %.1e of %.1e), gradient %.1e of %.1e, cosine %.6f",
        good ? "ok" : "FAIL", name, d->loss, allowed->loss, judged, d->growth, allowed->growth, d->gradient,
        allowed->gradient, d->cosine);
    if (!good || s->verbose || s->steps) {
        say(s,
            "      seed %llu, worst tensor: %s, off by %.1e of %.1e; worst loss: %s; labels that differ: %d, by "
            "%.1e of %.1e",
            (unsigned long long)run->seed, d->tensor[d->worst].name, d->tensor[d->worst].distance, allowed->tensor,
            rc_loss_name(d->growth_loss), d->labels, d->label, allowed->growth);
        tell_growth(s, run, d);
    }
    if (s->verbose)
        tell_tensors(s, run, d);
    if (!d->same_bits)
        say(s, "MISS  step %s: other bits the second time", name);
}

static rc_status check_step(const rc_selftest_settings *s, const rc_judges *j, rc_backend *other,
                            const rc_step_run *run, rc_selftest_result *result)
{
    rc_step_limits allowed = rc_step_tolerance(j->test, run);
    rc_step_difference d;
    if (s->progress)
        s->progress(s->user, run->name);
    rc_status status = rc_compare_steps(j->test, other, run, &d);
    if (status == RC_OK) {
        bool good = rc_step_agrees(&d, &allowed);
        tell_step(s, run, &allowed, &d, good);
        result->cases++;
        result->misses += !good;
    }
    rc_step_difference_free(&d);
    return status;
}

/* What must hold between steps of the backend itself, in as small a world as there is. Their start is smooth: a sign
 * that rounding turns is no fault, and the order of a sum rounds. */
static rc_status check_relations(const rc_selftest_settings *s, const rc_judges *j, rc_step_run run,
                                 rc_selftest_result *result)
{
    run.start = RC_START_SMOOTH;
    run.batch = 4;
    run.size = 16;
    for (rc_relation relation = 0; relation < RC_RELATION_COUNT; relation++) {
        double error, allowed;
        if (!rc_relation_applies(relation, run.name))
            continue;
        RC_TRY(rc_relation_check(j->test, relation, &run, &error, &allowed));
        bool good = error <= allowed; /* not NaN */
        say(s, "%-4s  step %-12s %-8s gradient off by %.1e of %.1e", good ? "ok" : "FAIL", run.name,
            rc_relation_name(relation), error, allowed);
        result->cases++;
        result->misses += !good;
    }
    return RC_OK;
}

/* Beside the reference in a smaller world: it takes its time. RKD has a kink for every three images, where cosines of
 * student and teacher are equal: a smooth start of a step with RKD has few images. Rounding in bf16 would leave nothing
 * of what the activations of a smooth start have besides their means. */
static rc_status check_steps(const rc_selftest_settings *s, const rc_judges *j, rc_selftest_result *result)
{
    rc_backend *other;
    RC_TRY(open_other(j, &other));
    bool slow = !other->about.reaches_peak;
    rc_step_run run = {.size = slow ? 16 : 32, .steps = s->steps ? s->steps : RC_STEP_CHECKED, .seed = s->seed};
    int starts = is_narrow(j) ? RC_START_SMOOTH : RC_START_COUNT;
    int number = 0;
    long before = result->cases;
    rc_status status = RC_OK;
    for (int i = 0; status == RC_OK && (run.name = rc_step_world_name(i)) != NULL; i++) {
        if (s->only < 0)
            status = check_relations(s, j, run, result);
        for (run.start = 0; status == RC_OK && (int)run.start < starts; run.start++) {
            if (s->only >= 0 && s->only != number++)
                continue;
            bool few = slow || (run.start == RC_START_SMOOTH && strcmp(run.name, "train_next") == 0);
            run.batch = few ? 4 : 16;
            status = check_step(s, j, other, &run, result);
        }
    }
    rc_backend_close(other);
    result->operations += result->cases > before;
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

static rc_status check_all(const rc_selftest_settings *s, const rc_judges *j, rc_selftest_result *result)
{
    double began = rc_now();
    const rc_operation *operation;
    const rc_backend_about *about = &j->test->about;
    say(s, "backend %s, instruction set %s, %d thread%s, seed %llu%s", about->name, about->isa, about->threads,
        about->threads == 1 ? "" : "s", (unsigned long long)s->seed, s->quick ? ", quick" : "");
    result->misses += check_filled(s, j->test);
    if (result->misses)
        return RC_OK;
    bool named = s->steps > 0 || (s->operation && strcmp(s->operation, steps_name) == 0);
    if (!s->operation && !named)
        result->misses += check_covered(s);
    for (int i = 0; !named && (operation = rc_operation_at(i)) != NULL; i++)
        if (!s->operation || rc_operation_matches(operation, s->operation))
            RC_TRY(rc_selftest_count(s, j, operation, result));
    if (!named)
        RC_TRY(check_large(s, j, result));
    if (named || (about->more_checks && !s->operation && s->every <= 1))
        RC_TRY(check_steps(s, j, result));
    const char *name = named ? steps_name : s->operation;
    if (result->operations == 0)
        return rc_selftest_knows(name)
                   ? rc_fail(RC_UNSUPPORTED, "backend %s takes no such case of operation '%s'", about->name, name)
                   : rc_fail(RC_INVALID_ARGUMENT, "unknown operation '%s'", name);
    rc_selftest_conclude(s, rc_now() - began, result);
    return RC_OK;
}

rc_status rc_selftest(const rc_selftest_settings *settings, rc_selftest_result *result)
{
    *result = (rc_selftest_result){0};
    rc_judges judges = {0};
    rc_status status = open_judges(&judges, settings->backend ? settings->backend : "cpu", settings->threads);
    if (status == RC_OK)
        status = check_all(settings, &judges, result);
    close_judges(&judges);
    return status;
}
