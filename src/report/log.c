#include "report/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/log_reader.h"

static rc_report_curve *find_curve(rc_report_log *log, const char *stage, const char *term)
{
    for (int i = 0; i < log->curves; i++)
        if (strcmp(log->curve[i].stage, stage) == 0 && strcmp(log->curve[i].term, term) == 0)
            return &log->curve[i];
    rc_report_curve *curve = &log->curve[log->curves];
    if (log->curves == RC_REPORT_CURVES || strlen(stage) >= sizeof curve->stage || strlen(term) >= sizeof curve->term)
        return NULL;
    size_t cells = (size_t)log->tasks * (size_t)log->bins;
    double *sum = rc_alloc_zeroed(NULL, cells, sizeof *sum);
    int *count = rc_alloc_zeroed(NULL, cells, sizeof *count);
    if (sum == NULL || count == NULL) {
        rc_free(NULL, sum);
        rc_free(NULL, count);
        log->status = RC_OUT_OF_MEMORY;
        return NULL;
    }
    *curve = (rc_report_curve){.sum = sum, .count = count};
    snprintf(curve->stage, sizeof curve->stage, "%s", stage);
    snprintf(curve->term, sizeof curve->term, "%s", term);
    log->curves++;
    return curve;
}

/* cell: which bin of which task. */
static void add_value(rc_report_log *log, const char *stage, const char *term, int cell, double value)
{
    rc_report_curve *curve = isfinite(value) ? find_curve(log, stage, term) : NULL;
    if (curve != NULL) {
        curve->sum[cell] += value;
        curve->count[cell]++;
    }
}

/* A line of kind "step". */
static void add_step(rc_report_log *log, const rc_json *line)
{
    const char *stage = rc_json_string(rc_json_member(line, "stage"));
    double task = rc_json_number(rc_json_member(line, "task")), step = rc_json_number(rc_json_member(line, "step"));
    double steps = rc_json_number(rc_json_member(line, "steps"));
    const rc_json *losses = rc_json_member(line, "loss"), *loss = NULL;
    if (stage == NULL || !(task >= 1 && task <= log->tasks) || !(step >= 0 && step <= steps && steps > 0))
        return;
    int bin = (int)(step / steps * log->bins);
    int cell = ((int)task - 1) * log->bins + (bin < log->bins ? bin : log->bins - 1);
    while ((loss = rc_json_next(losses, loss)) != NULL)
        if (rc_json_key(loss) != NULL)
            add_value(log, stage, rc_json_key(loss), cell, rc_json_number(loss));
    add_value(log, stage, "total_loss", cell, rc_json_number(rc_json_member(line, "total_loss")));
}

rc_status rc_report_log_take(void *log, const rc_json *line)
{
    rc_report_log *l = log;
    const char *event = rc_json_string(rc_json_member(line, "event"));
    if (event != NULL && strcmp(event, "step") == 0)
        add_step(l, line);
    return l->status;
}

static rc_status read_lines(rc_report_log *log, const char *path)
{
    int torn;
    bool there;
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    rc_status status = rc_log_read(path, rc_report_log_take, log, &torn);
    log->torn += torn;
    return status;
}

/* Has the log a step of the first task? */
static bool has_first_task(const rc_report_log *log)
{
    for (int i = 0; i < log->curves; i++)
        for (int k = 0; k < log->bins; k++)
            if (log->curve[i].count[k] > 0)
                return true;
    return false;
}

static rc_status read_all(const rc_report_run *run, rc_report_log *log)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(run->folder, "events.jsonl", path));
    RC_TRY(read_lines(log, path));
    if (has_first_task(log))
        return RC_OK;
    RC_TRY(rc_path_in(run->folder, "../first-task/events.jsonl", path));
    return read_lines(log, path);
}

void rc_report_log_begin(rc_report_log *log, int tasks)
{
    int bins = tasks > 0 ? 400 / tasks : 1;
    *log = (rc_report_log){.tasks = tasks, .bins = bins < 6 ? 6 : bins > 80 ? 80 : bins};
}

rc_status rc_report_log_read(const rc_report_run *run, rc_report_log *log)
{
    rc_report_log_begin(log, run->results.tasks);
    if (run->folder[0] == '\0')
        return RC_OK;
    rc_status status = read_all(run, log);
    if (status != RC_OK)
        rc_report_log_free(log);
    return status;
}

void rc_report_log_free(rc_report_log *log)
{
    for (int i = 0; i < log->curves; i++) {
        rc_free(NULL, log->curve[i].sum);
        rc_free(NULL, log->curve[i].count);
    }
    *log = (rc_report_log){0};
}
