#include "run/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

enum { SECONDS = RC_STAGE_COUNT + 2 }; /* of the stages, of evaluation, of all */

rc_spread rc_spread_of(const double *values, int count)
{
    rc_spread spread = {.count = count, .mean = NAN, .deviation = NAN};
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    if (count > 0)
        spread.mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (values[i] - spread.mean) * (values[i] - spread.mean);
    if (count > 1)
        spread.deviation = sqrt(squares / (count - 1));
    return spread;
}

/* ---- one method ----------------------------------------------------------------------------------------------- */

static int index_of(const rc_summary *s, int trial, int method)
{
    return trial * (s->methods + 1) + 1 + method;
}

/* All that the tables show of a method. */
typedef struct row {
    const rc_method *method;
    int tasks;
    rc_spread last, mean, accuracy[RC_MAX_TASKS], seconds[SECONDS];
    rc_stored stored; /* after its last task; of each kind the most that a run keeps */
} row;

/* What is asked of a cell: its last accuracy, its mean, the accuracy after a task, seconds. */
typedef enum question { LAST, MEAN, ACCURACY, SECONDS_OF } question;

static double answer(const rc_results *r, question what, int which)
{
    double seconds[SECONDS];
    switch (what) {
    case LAST: return r->task[r->done - 1].accuracy;
    case MEAN: return rc_results_mean(r);
    case ACCURACY: return r->task[which].accuracy;
    case SECONDS_OF: rc_results_seconds(r, seconds); return seconds[which];
    }
    return NAN;
}

/* Over the trials in which the method is done. values: room for all trials. */
static rc_spread spread(const rc_summary *s, int method, question what, int which, double *values)
{
    int count = 0;
    for (int t = 0; t < s->trials; t++) {
        const rc_cell *cell = &s->cell[index_of(s, t, method)];
        if (rc_cell_done(cell))
            values[count++] = answer(&cell->results, what, which);
    }
    return rc_spread_of(values, count);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static rc_stored most_stored(const rc_summary *s, int method)
{
    rc_stored most = {0};
    for (int t = 0; t < s->trials; t++) {
        const rc_cell *cell = &s->cell[index_of(s, t, method)];
        if (!rc_cell_done(cell))
            continue;
        const rc_stored *stored = &cell->results.task[cell->results.done - 1].stored;
        most.images = larger(most.images, stored->images);
        most.model = larger(most.model, stored->model);
        most.statistics = larger(most.statistics, stored->statistics);
    }
    return most;
}

static rc_status make_row(const rc_summary *s, int method, row *r)
{
    double *values = rc_alloc_zeroed(NULL, (size_t)s->trials, sizeof *values);
    if (values == NULL)
        return RC_OUT_OF_MEMORY;
    const rc_cell *cell = &s->cell[index_of(s, 0, method)];
    *r = (row){.method = cell->method, .tasks = rc_cell_tasks(cell), .stored = most_stored(s, method)};
    r->last = spread(s, method, LAST, 0, values);
    r->mean = spread(s, method, MEAN, 0, values);
    for (int i = 0; i < r->tasks; i++)
        r->accuracy[i] = spread(s, method, ACCURACY, i, values);
    for (int i = 0; i < SECONDS; i++)
        r->seconds[i] = spread(s, method, SECONDS_OF, i, values);
    rc_free(NULL, values);
    return RC_OK;
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

/* "52.46 ± 0.35", "52.46", "-". */
static const char *spread_text(rc_spread spread, char *text, size_t size)
{
    if (isnan(spread.mean))
        snprintf(text, size, "-");
    else if (isnan(spread.deviation))
        snprintf(text, size, "%.2f", spread.mean);
    else
        snprintf(text, size, "%.2f \xc2\xb1 %.2f", spread.mean, spread.deviation);
    return text;
}

/* Adds a text, with blanks before it up to `width` characters; a character may have several bytes. */
static size_t add_right(char *line, size_t size, size_t used, const char *text, int width)
{
    for (const char *p = text; *p != '\0'; p++)
        width -= ((unsigned char)*p & 0xC0) != 0x80;
    int length = used < size ? snprintf(line + used, size - used, "%*s%s", width > 0 ? width : 0, "", text) : 0;
    return used + (length > 0 ? (size_t)length : 0);
}

static rc_status print_rows(const rc_summary *s, row *r, rc_results_line *line, void *user)
{
    enum { WIDTH = 16 };
    char text[256], piece[64];
    size_t used = (size_t)snprintf(text, sizeof text, "%-16s", "mean over runs");
    snprintf(piece, sizeof piece, "A_%d (last)", rc_cell_tasks(&s->cell[1]));
    used = add_right(text, sizeof text, used, piece, WIDTH);
    used = add_right(text, sizeof text, used, "mean A", WIDTH);
    used = add_right(text, sizeof text, used, "runs", 8);
    used = add_right(text, sizeof text, used, "time", 10);
    add_right(text, sizeof text, used, "  keeps", 0);
    line(user, text);
    for (int m = 0; m < s->methods; m++) {
        RC_TRY(make_row(s, m, r));
        used = (size_t)snprintf(text, sizeof text, "%-16s", r->method->title);
        used = add_right(text, sizeof text, used, spread_text(r->last, piece, sizeof piece), WIDTH);
        used = add_right(text, sizeof text, used, spread_text(r->mean, piece, sizeof piece), WIDTH);
        snprintf(piece, sizeof piece, "%d/%d", r->last.count, s->trials);
        used = add_right(text, sizeof text, used, piece, 8);
        rc_duration_text(r->seconds[SECONDS - 1].mean, piece, sizeof piece);
        used = add_right(text, sizeof text, used, piece, 10);
        rc_stored_text(&r->stored, piece, sizeof piece);
        used = add_right(text, sizeof text, used, "  ", 0);
        add_right(text, sizeof text, used, r->last.count > 0 ? piece : "-", 0);
        line(user, text);
    }
    if (s->trials > 1)
        line(user, "(accuracy in %; \xc2\xb1 is the deviation of a sample, divisor n - 1; time is that of one run)");
    return RC_OK;
}

void rc_summary_print(const rc_summary *s, rc_results_line *line, void *user)
{
    row *r = rc_alloc(NULL, sizeof *r);
    if (r != NULL)
        (void)print_rows(s, r, line, user); /* without memory for a row there is no table, here */
    rc_free(NULL, r);
}

static rc_status write_text(const rc_summary *s, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_file_writer_line(writer, s->command_line != NULL ? s->command_line : "");
    rc_summary_print(s, rc_file_writer_line, writer);
    return rc_file_writer_commit(writer);
}

/* ---- CSV ------------------------------------------------------------------------------------------------------ */

static const char *seconds_name(int i)
{
    return i < RC_STAGE_COUNT ? rc_stage_name((rc_stage)i) : i == RC_STAGE_COUNT ? "evaluation" : "total";
}

/* Nothing where there is no number. */
static size_t add_number(char *line, size_t size, size_t used, double value)
{
    int length = 0;
    if (used < size)
        length = isnan(value) ? snprintf(line + used, size - used, ",")
                              : snprintf(line + used, size - used, ",%.6g", value);
    return used + (length > 0 ? (size_t)length : 0);
}

static rc_status write_rows(const rc_summary *s, row *r, rc_file_writer *writer)
{
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "method,runs,last_accuracy,last_accuracy_deviation,mean_accuracy,"
                                   "mean_accuracy_deviation");
    for (int i = 0; i < SECONDS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",%s_seconds", seconds_name(i));
    snprintf(text + used, sizeof text - used, ",stored_images,stored_generative_model,stored_statistics");
    rc_file_writer_line(writer, text);
    for (int m = 0; m < s->methods; m++) {
        RC_TRY(make_row(s, m, r));
        used = (size_t)snprintf(text, sizeof text, "%s,%d", r->method->name, r->last.count);
        used = add_number(text, sizeof text, used, r->last.mean);
        used = add_number(text, sizeof text, used, r->last.deviation);
        used = add_number(text, sizeof text, used, r->mean.mean);
        used = add_number(text, sizeof text, used, r->mean.deviation);
        for (int i = 0; i < SECONDS; i++)
            used = add_number(text, sizeof text, used, r->seconds[i].mean);
        snprintf(text + used, sizeof text - used, ",%zu,%zu,%zu", r->stored.images, r->stored.model,
                 r->stored.statistics);
        rc_file_writer_line(writer, text);
    }
    return RC_OK;
}

static rc_status write_csv(const rc_summary *s, row *r, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_status status = write_rows(s, r, writer);
    if (status == RC_OK)
        return rc_file_writer_commit(writer);
    rc_file_writer_abort(writer);
    return status;
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *spread_json(rc_spread spread)
{
    return json_pack("{s:o, s:o}", "mean", rc_json_number(spread.mean), "deviation", rc_json_number(spread.deviation));
}

static json_t *cell_json(const rc_summary *s, int trial, int method)
{
    const rc_cell *cell = &s->cell[index_of(s, trial, method)];
    const rc_cell_end *end = &s->end[index_of(s, trial, method)];
    const rc_results *r = &cell->results;
    const char *path = cell->path + strlen(s->folder) + 1;
    json_t *accuracy = json_array();
    for (int i = 0; i < r->done; i++)
        json_array_append_new(accuracy, rc_json_number(r->task[i].accuracy));
    const char *ended = rc_cell_done(cell) ? "done" : end->status == RC_CANCELLED ? "stopped" : "failed";
    json_t *json = json_pack("{s:i, s:I, s:s, s:s, s:o, s:o, s:o, s:o}", "order", cell->trial->config.order, "seed",
                             (json_int_t)cell->trial->config.settings.seed, "path", path, "state", ended,
                             "accuracy", accuracy, "last_accuracy",
                             rc_json_number(r->done > 0 ? r->task[r->done - 1].accuracy : NAN), "mean_accuracy",
                             rc_json_number(rc_results_mean(r)), "seconds", rc_results_seconds_json(r));
    if (end->message != NULL)
        json_object_set_new(json, "message", rc_json_text(end->message));
    return json;
}

static json_t *method_json(const rc_summary *s, int method, const row *r)
{
    json_t *accuracy = json_array(), *seconds = json_object(), *runs = json_array();
    for (int i = 0; i < r->tasks; i++)
        json_array_append_new(accuracy, spread_json(r->accuracy[i]));
    for (int i = 0; i < SECONDS; i++)
        json_object_set_new(seconds, seconds_name(i), rc_json_number(r->seconds[i].mean));
    for (int t = 0; t < s->trials; t++)
        json_array_append_new(runs, cell_json(s, t, method));
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "method", r->method->name, "title",
                     r->method->title, "runs_done", r->last.count, "last_accuracy", spread_json(r->last),
                     "mean_accuracy", spread_json(r->mean), "accuracy", accuracy, "seconds", seconds, "stored",
                     rc_stored_json(&r->stored), "runs", runs);
}

static rc_status write_json(const rc_summary *s, row *r, const char *path)
{
    json_t *methods = json_array();
    rc_status status = RC_OK;
    for (int m = 0; m < s->methods && status == RC_OK; m++) {
        status = make_row(s, m, r);
        if (status == RC_OK)
            json_array_append_new(methods, method_json(s, m, r));
    }
    /* The first run describes them all, but for order and seed, which every run of a method names. */
    json_t *json = json_pack("{s:o, s:i, s:f, s:s, s:i, s:o, s:O}", "command_line",
                             rc_json_text(s->command_line != NULL ? s->command_line : ""), "jobs", s->jobs, "seconds",
                             s->seconds, "deviation", "of a sample, divisor n - 1", "tasks",
                             rc_cell_tasks(&s->cell[1]), "methods", methods, "run", s->cell[0].identity);
    if (status == RC_OK && json == NULL)
        status = rc_fail(RC_OUT_OF_MEMORY, "no memory for the summary");
    if (status == RC_OK)
        status = rc_json_save(json, 2, path);
    json_decref(json);
    return status;
}

rc_status rc_summary_write(const rc_summary *s)
{
    char json[RC_PATH_SIZE], csv[RC_PATH_SIZE], text[RC_PATH_SIZE];
    RC_TRY(rc_path_in(s->folder, "summary.json", json));
    RC_TRY(rc_path_in(s->folder, "summary.csv", csv));
    RC_TRY(rc_path_in(s->folder, "summary.txt", text));
    row *r = rc_alloc(NULL, sizeof *r);
    if (r == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = write_json(s, r, json);
    if (status == RC_OK)
        status = write_csv(s, r, csv);
    if (status == RC_OK)
        status = write_text(s, text);
    rc_free(NULL, r);
    return status;
}
