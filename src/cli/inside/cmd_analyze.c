/* recollect analyze: what a run can tell beyond its accuracies. */
#include <stdio.h>
#include <string.h>

#include "analysis/consistency.h"
#include "analysis/cost.h"
#include "analysis/gradient.h"
#include "analysis/ledger.h"
#include "analysis/norms.h"
#include "api/describe_methods.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "experiment/run_data.h"
#include "forecast/allowance.h"

enum {
    DATA,
    METHOD,
    TASK,
    SET,
    SAMPLES,
    DREAMS,
    JSON,
    OUT,
    SKIP_BROKEN,
    BACKEND,
    PRECISION,
    DEVICE_MEMORY,
    MAX_MEMORY,
    THREADS,
    OPTIONS
};

static const rc_option options[OPTIONS] = {
    [DATA] = {"data", RC_OPTION_TEXT, "PATH", NULL, "where the run's images are, if not where they were", 0, 0},
    [METHOD] = {"method", RC_OPTION_TEXT, "NAME,...", NULL, "methods to look at; else all that the run has", 0, 0},
    [TASK] = {"task", RC_OPTION_INTEGER, "N", NULL,
              "dkl: the model after task N, else 1; gradient: train task N again, else 2", 0, 256},
    [SET] = {"set", RC_OPTION_LIST, "NAME=VALUE", NULL, "dkl, gradient: changes a setting of the run, for this time", 0,
             0},
    [SAMPLES] = {"samples", RC_OPTION_INTEGER, "N", "10000", "dkl: samples of each estimate", 2, 10000000},
    [DREAMS] = {"dreams", RC_OPTION_INTEGER, "N", "0", "dkl: dreams of each inversion; 0: as many as real images", 0,
                10000000},
    [JSON] = {"json", RC_OPTION_FLAG, NULL, NULL, "print everything as JSON", 0, 0},
    [OUT] = {"out", RC_OPTION_OUTPUT, "FILE", NULL, "write everything as JSON to a file, too", 0, 0},
    [SKIP_BROKEN] = {"skip-broken", RC_OPTION_FLAG, NULL, NULL, "leave out images that cannot be read", 0, 0},
    [BACKEND] = {"backend", RC_OPTION_TEXT, RC_BACKENDS, "cpu", "what to compute on", 0, 0},
    [PRECISION] = RC_OPTION_PRECISION,
    [DEVICE_MEMORY] = RC_OPTION_DEVICE_MEMORY,
    [MAX_MEMORY] = RC_OPTION_MAX_MEMORY,
    [THREADS] = RC_OPTION_THREADS,
};

/* All that an analysis has at hand. */
typedef struct desk {
    const rc_option_value *value;
    rc_past_run run;
    const rc_method *method[64];
    int methods;
    rc_dataset data;
    rc_backend *backend;
    rc_pool *pool;
    rc_watch watch;
    rc_json_writer w; /* --json: an object that is open */
} desk;

/* ---- analyses --------------------------------------------------------------------------------------------------- */

/* Between two tables. */
static void print_gap(const desk *k, int i)
{
    if (i > 0 && !k->value[JSON].given)
        rc_print("%s", "");
}

static rc_status analyse_ledger(desk *k, int i)
{
    rc_ledger ledger;
    RC_TRY(rc_ledger_create(&k->run, k->method[i], k->backend, k->pool, &k->watch, &ledger));
    rc_ledger_put(&ledger, &k->w);
    if (!k->value[JSON].given)
        rc_ledger_print(&ledger, rc_print_line, NULL);
    rc_ledger_destroy(&ledger);
    return RC_OK;
}

static rc_status analyse_norms(desk *k, int i)
{
    rc_norms norms;
    RC_TRY(rc_norms_create(&k->run, k->method[i], k->backend, &k->watch, &norms));
    rc_norms_put(&norms, &k->w);
    if (!k->value[JSON].given)
        rc_norms_print(&norms, rc_print_line, NULL);
    rc_norms_destroy(&norms);
    return RC_OK;
}

/* The run's settings, with those changed that --set names. */
static rc_status change_settings(const desk *k, rc_settings *changed)
{
    rc_config config = k->run.config;
    for (int i = 0; i < k->value[SET].repeats; i++)
        RC_TRY(rc_config_set_pair(&config, k->value[SET].each[i]));
    RC_TRY(rc_config_check(&config));
    *changed = config.settings;
    return RC_OK;
}

static int task_or(const desk *k, int fallback)
{
    int task = (int)k->value[TASK].integer;
    return task > 0 ? task : fallback;
}

static rc_status analyse_dkl(desk *k, int i)
{
    rc_consistency *c = rc_alloc_zeroed(NULL, 1, sizeof *c);
    rc_consistency_settings settings = {
        .task = task_or(k, 1), .samples = (int)k->value[SAMPLES].integer, .dreams = (int)k->value[DREAMS].integer};
    rc_status status = c != NULL ? change_settings(k, &settings.changed) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_consistency_create(&k->run, k->method[i], &settings, k->backend, k->pool, &k->watch, c);
    if (status == RC_OK) {
        rc_consistency_put(c, &k->w);
        if (!k->value[JSON].given)
            rc_consistency_print(c, rc_print_line, NULL);
    }
    rc_free(NULL, c);
    return status;
}

static rc_status analyse_gradient(desk *k, int i)
{
    rc_gradient gradient;
    rc_gradient_settings settings = {.task = task_or(k, 2)};
    RC_TRY(change_settings(k, &settings.changed));
    RC_TRY(rc_gradient_create(&k->run, k->method[i], &settings, k->backend, &k->watch, &gradient));
    rc_gradient_put(&gradient, &k->w);
    if (!k->value[JSON].given)
        rc_gradient_print(&gradient, rc_print_line, NULL);
    rc_gradient_destroy(&gradient);
    return RC_OK;
}

/* Of all methods, over as many tasks as each of them, and ER, has finished. */
static rc_status take_costs(desk *k, rc_past_method *past, rc_cost *cost)
{
    const rc_method *er;
    rc_past_method *of_er = &past[k->methods];
    int tasks = k->run.stream.tasks;
    RC_TRY(rc_method_find("er", &er));
    bool has_er;
    RC_TRY(rc_past_run_has(&k->run, er, &has_er));
    for (int i = 0; i < k->methods; i++)
        RC_TRY(rc_past_method_open(&k->run, k->method[i], &past[i]));
    if (has_er)
        RC_TRY(rc_past_method_open(&k->run, er, of_er));
    for (int i = 0; i < k->methods + has_er; i++)
        tasks = past[i].done < tasks ? past[i].done : tasks;
    if (tasks == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "a method of the run in %s has no finished task yet", k->run.path);
    for (int i = 0; i < k->methods; i++)
        RC_TRY(rc_cost_of(&k->run, k->method[i], &past[i], tasks, &cost[i]));
    RC_TRY(rc_cost_of(&k->run, er, has_er ? of_er : NULL, tasks, &cost[k->methods]));
    rc_costs_put(cost, k->methods, &cost[k->methods], &k->w);
    if (!k->value[JSON].given)
        rc_costs_print(cost, k->methods, &cost[k->methods], rc_print_line, NULL);
    return RC_OK;
}

static rc_status analyse_cost(desk *k, int i)
{
    (void)i;
    rc_past_method *past = rc_alloc_zeroed(NULL, (size_t)k->methods + 1, sizeof *past);
    rc_cost *cost = rc_alloc_zeroed(NULL, (size_t)k->methods + 1, sizeof *cost);
    rc_status status = past != NULL && cost != NULL ? take_costs(k, past, cost) : RC_OUT_OF_MEMORY;
    rc_free(NULL, past);
    rc_free(NULL, cost);
    return status;
}

typedef struct analysis {
    const char *name;
    bool data;     /* it needs the run's images */
    bool together; /* it looks at all methods at once; else at one after the other */
    rc_status (*run)(desk *desk, int method);
} analysis;

static const analysis analyses[] = {{"ledger", true, false, analyse_ledger},
                                    {"dkl", true, false, analyse_dkl},
                                    {"norms", false, false, analyse_norms},
                                    {"gradient", true, false, analyse_gradient},
                                    {"cost", true, true, analyse_cost}};
enum { ANALYSES = sizeof analyses / sizeof *analyses };

/* Options that not all analyses have a use for, and which have. */
static const struct {
    int option;
    const char *analyses;
} some[] = {{TASK, "dkl and gradient"}, {SET, "dkl and gradient"}, {SAMPLES, "dkl"}, {DREAMS, "dkl"}};

static const char *analysis_at(const void *context, int index)
{
    (void)context;
    return index < ANALYSES ? analyses[index].name : NULL;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static rc_status add_method(desk *k, const rc_method *method)
{
    if (k->methods == (int)(sizeof k->method / sizeof *k->method))
        return rc_fail(RC_INVALID_ARGUMENT, "more than %d methods", k->methods);
    k->method[k->methods++] = method;
    return RC_OK;
}

/* Those of the list; without one, all that the run has results of. */
static rc_status choose_methods(desk *k, const char *list)
{
    const rc_method *method;
    for (int i = 0; list == NULL && (method = rc_method_at(i)) != NULL; i++) {
        bool has;
        RC_TRY(rc_past_run_has(&k->run, method, &has));
        if (has)
            RC_TRY(add_method(k, method));
    }
    if (list == NULL)
        return k->methods > 0
                   ? RC_OK
                   : rc_fail(RC_INVALID_ARGUMENT, "the run in %s has no results yet: no task is finished", k->run.path);
    for (const char *p = list;; p++) {
        char name[32];
        size_t length = strcspn(p, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), p);
        RC_TRY(rc_method_choose(name, &method));
        RC_TRY(add_method(k, method));
        p += length;
        if (*p == '\0')
            return RC_OK;
    }
}

/* The data of the run, from where --data says or from where the run had it. */
static rc_status open_data(desk *k)
{
    const char *path = k->value[DATA].text;
    if (path == NULL)
        path = rc_json_string(rc_json_member(k->run.identity, "data"));
    RC_TRY(rc_config_set(&k->run.config, "data", path != NULL ? path : ""));
    rc_config config = k->run.config;
    config.settings.seed = k->run.data_seed;
    RC_TRY(rc_run_data_open(&config, (int)k->value[THREADS].integer, k->value[SKIP_BROKEN].given, &k->watch, &k->data));
    return rc_past_run_take_data(&k->run, &k->data);
}

static rc_status run_analysis(desk *k, const analysis *what)
{
    if (what->together)
        return what->run(k, 0);
    rc_json_begin_array(&k->w, "methods");
    for (int i = 0; i < k->methods; i++) {
        print_gap(k, i);
        rc_json_begin_object(&k->w, NULL);
        RC_TRY(what->run(k, i));
        rc_json_end(&k->w);
    }
    rc_json_end(&k->w);
    return RC_OK;
}

/* May the file be written? It replaces nothing but an earlier analysis. */
static rc_status check_file(const char *path)
{
    rc_json *json;
    bool there;
    if (path == NULL)
        return RC_OK;
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return rc_file_check(path, true);
    rc_status status = rc_json_load(path, 256u << 20, &json);
    bool ours = status == RC_OK && rc_json_string(rc_json_member(json, "analysis")) != NULL;
    if (status == RC_OK)
        rc_json_free(json);
    if (status == RC_OUT_OF_MEMORY || status == RC_IO)
        return status;
    return ours ? rc_file_check(path, true)
                : rc_fail(RC_INVALID_ARGUMENT, "'%s' is there already and is no analysis: choose another setting 'out'",
                          path);
}

/* What was found out, as JSON, to wherever it was asked for. */
static rc_status hand_out(desk *k)
{
    char *text;
    size_t size;
    rc_file_writer *writer;
    RC_TRY(rc_json_finish(&k->w, &text, &size));
    if (k->value[JSON].given)
        rc_print_json(NULL, text);
    rc_status status = k->value[OUT].given ? rc_file_writer_open(k->value[OUT].text, &writer) : RC_OK;
    if (status == RC_OK && k->value[OUT].given) {
        rc_file_writer_line(writer, text);
        status = rc_file_writer_commit(writer);
    }
    rc_free(NULL, text);
    return status;
}

static rc_status analyse(desk *k, const analysis *what, const char *path)
{
    int threads = (int)k->value[THREADS].integer;
    RC_TRY(check_file(k->value[OUT].text));
    RC_TRY(rc_past_run_open(path, &k->run));
    RC_TRY(choose_methods(k, k->value[METHOD].text));
    if (what->data)
        RC_TRY(open_data(k));
    RC_TRY(rc_pool_create(threads, &k->pool));
    RC_TRY(rc_backend_open(rc_backend_name(&k->value[BACKEND]), threads, NULL, &k->backend));
    rc_json_begin_object(&k->w, NULL);
    rc_json_put_text(&k->w, "analysis", what->name);
    rc_json_put_text(&k->w, "run", k->run.path);
    RC_TRY(run_analysis(k, what));
    rc_json_end(&k->w);
    return hand_out(k);
}

static void clear(desk *k)
{
    rc_json_discard(&k->w);
    rc_backend_close(k->backend);
    rc_pool_destroy(k->pool);
    rc_past_run_close(&k->run);
    rc_dataset_close(&k->data);
}

static int run(const rc_option_value *value, int count, char **arguments)
{
    const rc_command *self = &rc_command_analyze;
    const analysis *what = NULL;
    if (count != 2)
        return count > 2   ? rc_wrong_usage(self, "unexpected argument '%s'", arguments[2])
               : count > 0 ? rc_wrong_usage(self, "which run?")
                           : rc_wrong_usage(self, "which analysis, of which run?");
    for (int i = 0; i < ANALYSES; i++)
        if (strcmp(arguments[0], analyses[i].name) == 0)
            what = &analyses[i];
    if (what == NULL) {
        const char *nearest = recollect_nearest(arguments[0], analysis_at, NULL);
        return nearest ? rc_wrong_usage(self, "unknown analysis '%s'; did you mean '%s'?", arguments[0], nearest)
                       : rc_wrong_usage(self, "unknown analysis '%s', expected %.*s", arguments[0],
                                        (int)strcspn(self->arguments, " "), self->arguments);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (value[some[i].option].given && strstr(some[i].analyses, what->name) == NULL)
            return rc_wrong_usage(self, "--%s is for %s", options[some[i].option].name, some[i].analyses);
    rc_config any = rc_config_default(); /* a value that no run can have is wrong usage, whatever this run has */
    rc_status status = RC_OK;
    for (int i = 0; i < value[SET].repeats && status == RC_OK; i++)
        status = rc_config_set_pair(&any, value[SET].each[i]);
    if (status == RC_OK && value[SET].repeats > 0)
        status = rc_config_check_each(&any);
    if (status != RC_OK)
        return rc_wrong_settings(self, status);
    rc_memory_allow((size_t)value[MAX_MEMORY].integer, 0);
    rc_catch_interrupts();
    static desk k;
    k = (desk){.value = value,
               .w = {.indent = 2},
               .watch = {.log = {.write = rc_note_log, .level = RC_LOG_INFO},
                         .progress = rc_tell_progress,
                         .cancelled = rc_interrupted}};
    rc_stop before = rc_stop_swap(rc_watch_stop(&k.watch));
    status = analyse(&k, what, arguments[1]);
    clear(&k);
    rc_stop_swap(before);
    return status == RC_OK ? RC_EXIT_DONE : rc_failed(self->name, status);
}

const rc_command rc_command_analyze = {
    .name = "analyze",
    .summary = "Looks into a run: where accuracy is lost, and more.",
    .arguments = "ledger|dkl|norms|gradient|cost RUN",
    .details = "RUN is the folder of one run, with run.json in it; nothing there is changed.\n"
               "  ledger    where accuracy is lost: classifiers on the same features after every task\n"
               "  dkl       how far dreams are from real images: D_KL of their features, for four choices of losses\n"
               "  norms     norms of the head's rows after every task\n"
               "  gradient  how well gradients of the head agree in a task, which is trained again (R of the paper)\n"
               "  cost      seconds of every stage as a multiple of ER's, beside the paper's formulas",
    .examples = "  recollect analyze ledger cifar --data cifar-100-binary --method cwd\n"
                "  recollect analyze dkl cifar --method cwd --set inversion_steps=1000\n"
                "  recollect analyze norms cifar --out cifar/norms.json",
    .option = options,
    .options = OPTIONS,
    .run = run,
};
