/* What 'recollect analyze' found out about a run: ledger.json, norms.json, dkl.json and cost.json, beside run.json. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "report/run_read.h"

enum { LARGEST_FILE = 1 << 26 };

/* What the file has of the method that the run is of; NULL: nothing. */
static const rc_json *method_of(const rc_report_run *run, const rc_json *json)
{
    const rc_json *methods = rc_json_member(json, "methods"), *method = NULL;
    while ((method = rc_json_next(methods, method)) != NULL) {
        const char *name = rc_json_string(rc_json_member(method, "method"));
        if (name != NULL && strcmp(name, run->method) == 0)
            return method;
    }
    return NULL;
}

/* A number from `low` to `high`; all else is not known. */
static double number_within(const rc_json *value, double low, double high)
{
    double number = rc_json_number(value);
    return number >= low && number <= high ? number : NAN;
}

static double *unknown(size_t count)
{
    double *numbers = rc_alloc_zeroed(NULL, count, sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < count; i++)
        numbers[i] = NAN;
    return numbers;
}

/* Takes what the file has of the method. */
typedef void taker(rc_report_run *run, const rc_json *method);

static void take_ledger(rc_report_run *run, const rc_json *method)
{
    const rc_json *tasks = rc_json_member(method, "tasks"), *task = NULL;
    for (int t = 0; t < run->results.tasks && (task = rc_json_next(tasks, task)) != NULL; t++)
        for (int i = 0; i < RC_LEDGER_COUNT; i++)
            run->ledger[t * RC_LEDGER_COUNT + i] = number_within(
                rc_json_member(rc_json_member(task, "accuracy"), rc_ledger_key(i)), 0, 100);
}

static void take_norms(rc_report_run *run, const rc_json *method)
{
    const rc_json *tasks = rc_json_member(method, "tasks"), *task = NULL;
    const rc_results *r = &run->results;
    for (int t = 0; t < r->tasks && (task = rc_json_next(tasks, task)) != NULL; t++) {
        const rc_json *norms = rc_json_member(task, "norms"), *norm = NULL;
        int seen = r->task_end[t] < r->classes ? r->task_end[t] : r->classes;
        for (int k = 0; k < seen && (norm = rc_json_next(norms, norm)) != NULL; k++)
            run->norms[t * r->classes + k] = number_within(norm, 0, 1e30);
    }
}

/* The row of the file with these losses; NULL: none. */
static const rc_json *row_of(const rc_json *method, const char *losses)
{
    const rc_json *rows = rc_json_member(method, "rows"), *row = NULL;
    while ((row = rc_json_next(rows, row)) != NULL) {
        const char *found = rc_json_string(rc_json_member(row, "losses"));
        if (found != NULL && strcmp(found, losses) == 0)
            return row;
    }
    return NULL;
}

static void take_dkl(rc_report_run *run, const rc_json *method)
{
    double *to = run->dkl;
    int64_t classes = rc_json_integer(rc_json_member(method, "classes"));
    run->dkl_classes = classes > 0 && classes <= RC_DATA_MAX_CLASSES ? (int)classes : 0;
    for (int i = 0; i < RC_COMBINATIONS; i++)
        for (int at = 0; at < RC_SAMPLES_COUNT; at++)
            for (int density = 0; density < RC_DENSITY_COUNT; density++) {
                const rc_json *of = rc_json_member(row_of(method, rc_combination_title(i)), rc_density_key(density));
                const rc_json *k1 = rc_json_member(rc_json_member(of, rc_samples_key(at)), "k1");
                *to++ = number_within(rc_json_member(k1, "value"), -1e30, 1e30);
                *to++ = number_within(rc_json_member(k1, "error"), 0, 1e30);
            }
}

static void take_cost(rc_report_run *run, const rc_json *method)
{
    static const char *const key[RC_COST_COUNT] = {"measured_over_er", "formula_over_er"};
    for (int kind = 0; kind < RC_COST_COUNT; kind++)
        for (int i = 0; i < RC_COST_COLUMNS; i++) {
            const char *stage = i < RC_STAGE_COUNT ? rc_stage_name((rc_stage)i) : "all";
            run->cost[kind * RC_COST_COLUMNS + i] = number_within(
                rc_json_member(rc_json_member(method, key[kind]), stage), 0, 1e30);
        }
}

static rc_status read_findings(rc_report_run *run, const char *name, size_t count, double **numbers, taker *take)
{
    char path[RC_PATH_SIZE];
    rc_json *json;
    bool there;
    RC_TRY(rc_path_in(run->folder, name, path));
    RC_TRY(rc_file_find(path, &there));
    if (count == 0 || !there)
        return RC_OK;
    RC_TRY(rc_json_load(path, LARGEST_FILE, &json));
    const rc_json *method = method_of(run, json);
    rc_status status = RC_OK;
    if (method != NULL) {
        *numbers = unknown(count);
        status = *numbers != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    }
    if (*numbers != NULL)
        take(run, method);
    rc_json_free(json);
    return status;
}

rc_status rc_report_run_findings(rc_report_run *run)
{
    size_t tasks = (size_t)run->results.tasks, classes = (size_t)run->results.classes;
    if (run->folder[0] == '\0' || tasks == 0)
        return RC_OK;
    RC_TRY(read_findings(run, "../ledger.json", tasks * RC_LEDGER_COUNT, &run->ledger, take_ledger));
    RC_TRY(read_findings(run, "../norms.json", tasks * classes, &run->norms, take_norms));
    RC_TRY(read_findings(run, "../dkl.json", 2 * RC_COMBINATIONS * RC_SAMPLES_COUNT * RC_DENSITY_COUNT, &run->dkl,
                         take_dkl));
    return read_findings(run, "../cost.json", RC_COST_COUNT * RC_COST_COLUMNS, &run->cost, take_cost);
}
