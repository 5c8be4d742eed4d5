/* The bench: every operation on the shapes of a net and the generator, measured against what the machine can do. */
#include "check/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/memory.h"
#include "check/bench_steps.h"
#include "check/case.h"
#include "check/step_world.h"
#include "nn/nets.h"
#include "nn/published.h"

enum { MOST_RUNS = 1000, NETS = 2 };

/* Kernels below this share of the peak have probably been compiled without their flags. */
static const double suspicious_share = 0.5;

typedef struct bench {
    const rc_bench_settings *s;
    rc_backend *be;
    rc_peak peak;
    rc_net *net[NETS]; /* NULL: not measured */
    /* Convolutions of one training step, as often as the net has them: by medians, by least times, work, and what the
     * threads could have multiplied and added meanwhile. */
    double seconds[NETS], least[NETS], flops[NETS], possible[NETS], least_possible[NETS];
    int operations; /* that were timed */
    rc_json_writer json;
} bench;

static void say(const bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const bench *b, const char *format, ...)
{
    if (b->s->json)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    b->s->line(b->s->user, text);
}

static void progress(const bench *b, const char *what, const char *shape)
{
    char text[RC_CASE_TEXT + 64];
    snprintf(text, sizeof text, "%s %s", what, shape);
    if (b->s->progress)
        b->s->progress(b->s->user, text);
}

const char *rc_bench_operation(int index)
{
    const rc_operation *operation;
    for (int i = 0; (operation = rc_operation_at(i)) != NULL; i++)
        if (operation->bench && index-- == 0)
            return operation->name;
    return NULL;
}

/* ---- one operation -------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The run that is measured: on a device several times in a row, so that starting it does not count. */
typedef struct timed_run {
    rc_run run;
    int each;
} timed_run;

static void run_timed(void *context)
{
    timed_run *t = context;
    for (int i = 0; i < t->each; i++)
        t->run.c->operation->run(&t->run);
}

/* Times of the runs of a case, and the peak that they are compared with. If the work is arithmetic, the peak is
 * measured before each run, for as long as the last run took, so that both see the same machine, whatever else runs
 * on it. */
typedef struct case_time {
    double median, least; /* seconds of a run */
    double peak, highest; /* in the unit of the case: median and highest */
} case_time;

static rc_status time_case(const bench *b, const rc_case *c, case_time *time)
{
    double least = b->s->quick ? 0.03 : 0.25, taken[MOST_RUNS], peak[MOST_RUNS], total = 0, seconds = 0;
    int runs = 0, fewest = b->s->quick ? 3 : 7;
    timed_run t = {.each = b->be->about.asynchronous ? 50 : 1};
    rc_status status = rc_run_open(&t.run, c, b->be);
    if (status == RC_OK)
        status = rc_run_load(&t.run, -1, NULL);
    if (status == RC_OK)
        status = b->be->repeat(b->be, run_timed, &t, 1); /* warms up */
    while (status == RC_OK && runs < MOST_RUNS && (runs < fewest || total < least)) {
        peak[runs] = c->flops > 0 ? rc_backend_measure_now(b->be, seconds) : b->peak.gbytes;
        double began = rc_now();
        status = b->be->repeat(b->be, run_timed, &t, 1);
        seconds = rc_now() - began;
        taken[runs++] = seconds / t.each;
        total += seconds;
    }
    if (status == RC_OK) {
        qsort(taken, (size_t)runs, sizeof *taken, by_size);
        qsort(peak, (size_t)runs, sizeof *peak, by_size);
        *time = (case_time){taken[runs / 2], taken[0], peak[runs / 2], peak[runs - 1]};
    }
    rc_run_close(&t.run);
    return status;
}

static bool is_convolution(const rc_case *c)
{
    return strncmp(c->operation->name, "conv_", 5) == 0;
}

static void report_operation(bench *b, int net, const rc_case *c, const case_time *t)
{
    bool arithmetic = c->flops > 0;
    double rate = (arithmetic ? c->flops : c->bytes) / t->median * 1e-9;
    double share = t->peak > 0 ? 100 * rate / t->peak : 0;
    say(b, "%-22s %-28s %9.3f %9.1f %-8s %5.1f", c->operation->name, c->text, t->median * 1e3, rate,
        arithmetic ? "GFLOP/s" : "GB/s", share);
    if (is_convolution(c)) {
        b->seconds[net] += c->times * t->median;
        b->least[net] += c->times * t->least;
        b->flops[net] += c->times * c->flops;
        b->possible[net] += c->times * t->median * t->peak * 1e9;
        b->least_possible[net] += c->times * t->least * t->highest * 1e9;
    }
    b->operations++;
    rc_json_begin_object(&b->json, NULL);
    rc_json_put_text(&b->json, "name", c->operation->name);
    rc_json_put_text(&b->json, "shape", c->text);
    rc_json_put_text(&b->json, "net", b->net[net]->name);
    rc_json_put_int(&b->json, "times", c->times);
    rc_json_put_real(&b->json, "ms", t->median * 1e3);
    rc_json_put_real(&b->json, "min_ms", t->least * 1e3);
    rc_json_put_real(&b->json, arithmetic ? "gflops" : "gbytes", rate);
    rc_json_put_real(&b->json, "peak", t->peak);
    rc_json_put_real(&b->json, "percent_of_peak", share);
    rc_json_end(&b->json);
}

static rc_status bench_operation(bench *b, int net, const rc_operation *operation)
{
    for (int index = 0;; index++) {
        rc_case c;
        bool found;
        case_time time = {0};
        rc_status status = rc_case_bench(&c, operation, b->net[net], index, b->s->batch, &found);
        if (status == RC_OK && found) {
            progress(b, operation->name, c.text);
            status = time_case(b, &c, &time);
        }
        if (status == RC_OK && found)
            report_operation(b, net, &c, &time);
        rc_case_free(&c);
        if (status != RC_OK || !found)
            return status;
    }
}

/* Convolutions that run far below the peak, or a peak that is not what it should be, mean lost compiler flags. */
static void summarise(const bench *b, int net)
{
    if (b->seconds[net] <= 0)
        return;
    bool known = b->peak.gflops > 0;
    double share = known ? b->flops[net] / b->possible[net] : 0;
    double best = known ? b->flops[net] / b->least_possible[net] : 0;
    say(b,
        "%s convolutions, nominal FLOPs weighted by cost: %.0f %% of FMA peak, %.1f ms a step (by least times: "
        "%.0f %%, %.1f ms); peak meanwhile %.0f GFLOP/s",
        b->net[net]->name, 100 * share, b->seconds[net] * 1e3, 100 * best, b->least[net] * 1e3,
        b->possible[net] / b->seconds[net] * 1e-9);
    if (b->be->about.reaches_peak && known && share < suspicious_share && best < suspicious_share)
        say(b, "warning: the convolutions run far below the peak: are the kernel files compiled with optimisation and "
               "-ffp-contract=fast?");
}

static rc_status bench_operations(bench *b)
{
    const rc_operation *operation;
    say(b, "%-22s %-28s %9s %9s %-8s %5s", "operation", "shape", "ms", "rate", "", "% of peak");
    for (int net = 0; net < NETS; net++)
        for (int i = 0; b->net[net] && (operation = rc_operation_at(i)) != NULL; i++)
            if (operation->bench && (!b->s->operation || strcmp(b->s->operation, operation->name) == 0))
                RC_TRY(bench_operation(b, net, operation));
    if (b->operations == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "net '%s' has no shape for operation '%s'",
                       b->s->net ? b->s->net : rc_step_world_net(b->s->size), b->s->operation);
    for (int net = 0; net < NETS; net++)
        summarise(b, net);
    return RC_OK;
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

static rc_status time_step(const bench *b, const char *name, rc_step_time *t)
{
    int times = b->s->quick ? 3 : 9, threads = b->be->about.threads / b->s->jobs;
    if (b->s->jobs == 1)
        return rc_bench_step(b->be, name, b->s->batch, b->s->size, times, t);
    return rc_bench_step_at_once(b->s->backend, threads > 1 ? threads : 1, name, b->s->batch, b->s->size, times,
                                 b->s->jobs, t);
}

static rc_status bench_steps(bench *b)
{
    const char *name, *net = rc_step_world_net(b->s->size);
    bool all = strcmp(b->s->step, "all") == 0;
    for (int i = 0; (name = rc_step_world_name(i)) != NULL; i++) {
        if (!all && strcmp(b->s->step, name) != 0)
            continue;
        rc_step_time t;
        char jobs[32] = "";
        progress(b, "step", name);
        RC_TRY(time_step(b, name, &t));
        if (b->s->jobs > 1)
            snprintf(jobs, sizeof jobs, ", one of %d at once", b->s->jobs);
        say(b, "step %-12s %s%s, median %8.2f ms, least %8.2f ms, %6.0f MB", name, net, jobs, t.median * 1e3,
            t.least * 1e3, (double)t.bytes * 1e-6);
        rc_json_begin_object(&b->json, NULL);
        rc_json_put_text(&b->json, "name", name);
        rc_json_put_text(&b->json, "net", net);
        rc_json_put_real(&b->json, "ms", t.median * 1e3);
        rc_json_put_real(&b->json, "min_ms", t.least * 1e3);
        rc_json_put_int(&b->json, "threads", b->be->about.threads);
        rc_json_put_int(&b->json, "batch", b->s->batch);
        rc_json_put_int(&b->json, "size", b->s->size);
        rc_json_put_int(&b->json, "jobs", b->s->jobs);
        rc_json_put_int(&b->json, "peak_bytes", (int64_t)t.bytes);
        rc_json_end(&b->json);
    }
    return RC_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

static rc_status make_nets(bench *b)
{
    const char *const names[NETS] = {b->s->net ? b->s->net : rc_step_world_net(b->s->size),
                                     b->s->net ? NULL : "generator"};
    for (int i = 0; i < NETS && names[i]; i++) {
        b->net[i] = rc_alloc_zeroed(NULL, 1, sizeof *b->net[i]);
        if (!b->net[i])
            return RC_OUT_OF_MEMORY;
        RC_TRY(rc_net_by_name(b->net[i], names[i], 3, b->s->size, b->s->size));
    }
    return RC_OK;
}

/* All that is known before anything is timed. */
static void begin_json(bench *b, const char *machine)
{
    rc_json_begin_object(&b->json, NULL);
    rc_json_put_text(&b->json, "machine", machine);
    rc_json_put_text(&b->json, "backend", b->be->about.name);
    rc_json_put_text(&b->json, "isa", b->be->about.isa);
    rc_json_put_int(&b->json, "threads", b->be->about.threads);
    rc_json_put_int(&b->json, "batch", b->s->batch);
    rc_json_put_int(&b->json, "size", b->s->size);
    rc_json_put_real(&b->json, "peak_gflops", b->peak.gflops);
    rc_json_put_real(&b->json, "peak_gbytes", b->peak.gbytes);
    rc_json_put_bool(&b->json, "fused", b->peak.fused);
}

static rc_status run(bench *b)
{
    char machine[128];
    rc_machine_name(machine, sizeof machine);
    progress(b, "measuring the peak", "");
    b->peak = rc_backend_measure(b->be);
    const rc_backend_about *about = &b->be->about;
    say(b, "%s, backend %s, instruction set %s, %d thread%s, batch %d, %d px", machine, about->name, about->isa,
        about->threads, about->threads == 1 ? "" : "s", b->s->batch, b->s->size);
    if (b->peak.gflops > 0)
        say(b, "peak: %.1f GFLOP/s of multiply-adds, %.1f GB/s of copying", b->peak.gflops, b->peak.gbytes);
    if (b->peak.gflops > 0 && !b->peak.fused && about->fuses)
        say(b, "warning: multiply-adds are not fused: the kernel files were compiled without -ffp-contract=fast");
    begin_json(b, machine);
    rc_json_begin_array(&b->json, "ops");
    if (b->s->operations) {
        RC_TRY(make_nets(b));
        RC_TRY(bench_operations(b));
    }
    rc_json_end(&b->json);
    rc_json_begin_array(&b->json, "steps");
    if (b->s->step)
        RC_TRY(bench_steps(b));
    rc_json_end(&b->json);
    rc_json_end(&b->json);
    return b->s->json ? rc_json_line(&b->json, b->s->line, b->s->user) : RC_OK;
}

rc_status rc_bench(const rc_bench_settings *settings)
{
    rc_bench_settings s = *settings;
    s.batch = s.batch ? s.batch : 128;
    const rc_published *published = s.net ? rc_published_find(s.net) : NULL;
    if (s.size == 0)
        s.size = published ? published->size : 32;
    s.jobs = s.jobs ? s.jobs : 1;
    s.backend = s.backend ? s.backend : "cpu";
    bench b = {.s = &s, .json = {.indent = 2}};
    rc_status status = rc_backend_open(s.backend, s.threads, NULL, &b.be);
    if (status == RC_OK)
        status = run(&b);
    for (int i = 0; i < NETS; i++)
        rc_free(NULL, b.net[i]);
    rc_json_discard(&b.json);
    rc_backend_close(b.be);
    return status;
}
