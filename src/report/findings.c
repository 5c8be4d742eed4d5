/* What 'recollect analyze ledger' and 'recollect analyze norms' found out: ledger.json and norms.json, beside
 * run.json. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "report/run_read.h"

enum { LARGEST_FILE = 1 << 26 };

/* The tasks of the method that the run is of; NULL: it is not in the file. */
static const rc_json *tasks_of(const rc_report_run *run, const rc_json *json)
{
    const rc_json *methods = rc_json_member(json, "methods"), *method = NULL;
    while ((method = rc_json_next(methods, method)) != NULL) {
        const char *name = rc_json_string(rc_json_member(method, "method"));
        if (name != NULL && strcmp(name, run->method) == 0)
            return rc_json_member(method, "tasks");
    }
    return NULL;
}

/* A number from 0 to `high`; all else is not known. */
static double number_within(const rc_json *value, double high)
{
    double number = rc_json_number(value);
    return number >= 0 && number <= high ? number : NAN;
}

static double *unknown(size_t rows, size_t columns)
{
    double *numbers = rc_alloc_zeroed(NULL, rows * columns, sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < rows * columns; i++)
        numbers[i] = NAN;
    return numbers;
}

/* Takes a task of the file, which is the one after `task` others. */
typedef void taker(rc_report_run *run, int task, const rc_json *json);

static void take_ledger(rc_report_run *run, int task, const rc_json *json)
{
    const rc_json *accuracy = rc_json_member(json, "accuracy");
    for (int i = 0; i < RC_LEDGER_COUNT; i++)
        run->ledger[task * RC_LEDGER_COUNT + i] = number_within(rc_json_member(accuracy, rc_ledger_key(i)), 100);
}

static void take_norms(rc_report_run *run, int task, const rc_json *json)
{
    const rc_json *norms = rc_json_member(json, "norms"), *norm = NULL;
    int seen = run->results.task_end[task] < run->results.classes ? run->results.task_end[task] : run->results.classes;
    for (int k = 0; k < seen && (norm = rc_json_next(norms, norm)) != NULL; k++)
        run->norms[task * run->results.classes + k] = number_within(norm, 1e30);
}

static rc_status read_findings(rc_report_run *run, const char *name, size_t columns, double **numbers, taker *take)
{
    char path[RC_PATH_SIZE];
    rc_json *json;
    const rc_json *task = NULL;
    RC_TRY(rc_path_in(run->folder, name, path));
    if (columns == 0 || !rc_file_exists(path))
        return RC_OK;
    RC_TRY(rc_json_load(path, LARGEST_FILE, &json));
    const rc_json *tasks = tasks_of(run, json);
    rc_status status = RC_OK;
    if (tasks != NULL) {
        *numbers = unknown((size_t)run->results.tasks, columns);
        status = *numbers != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    }
    for (int i = 0; status == RC_OK && i < run->results.tasks && (task = rc_json_next(tasks, task)) != NULL; i++)
        take(run, i, task);
    rc_json_free(json);
    return status;
}

rc_status rc_report_run_findings(rc_report_run *run)
{
    if (run->folder[0] == '\0')
        return RC_OK;
    RC_TRY(read_findings(run, "../ledger.json", RC_LEDGER_COUNT, &run->ledger, take_ledger));
    return read_findings(run, "../norms.json", (size_t)run->results.classes, &run->norms, take_norms);
}
