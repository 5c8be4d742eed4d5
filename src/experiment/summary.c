#include "experiment/summary.h"

#include <math.h>
#include <stdio.h>

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
    int tasks, runs; /* runs: but for those that are absent */
    rc_spread last, mean, accuracy[RC_MAX_TASKS], seconds[SECONDS];
    rc_stored stored; /* after its last task; of each kind the most that a run keeps */
} row;

/* What is asked of a cell: its last accuracy, its mean, the accuracy after a task, seconds. */
typedef enum question { LAST, MEAN, ACCURACY, SECONDS_OF } question;

/* Of the first `tasks` tasks, which all runs of the summary have. */
static double answer(const rc_results *r, int tasks, question what, int which)
{
    double seconds[SECONDS];
    switch (what) {
    case LAST: return r->task[tasks - 1].accuracy;
    case MEAN: return rc_results_mean_after(r, tasks);
    case ACCURACY: return r->task[which].accuracy;
    case SECONDS_OF: rc_results_seconds(r, tasks, seconds); return seconds[which];
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
            values[count++] = answer(&cell->results, rc_cell_tasks(cell), what, which);
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
        const rc_stored *stored = &cell->results.task[rc_cell_tasks(cell) - 1].stored;
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
    for (int t = 0; t < s->trials; t++)
        r->runs += !s->end[index_of(s, t, method)].absent;
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

/* r: room for a row. */
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
        snprintf(piece, sizeof piece, "%d/%d", r->last.count, r->runs);
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

rc_status rc_summary_print(const rc_summary *s, rc_results_line *line, void *user)
{
    row *r = rc_alloc(NULL, sizeof *r);
    rc_status status = r != NULL ? print_rows(s, r, line, user) : RC_OUT_OF_MEMORY;
    rc_free(NULL, r);
    return status;
}

static rc_status write_text(const rc_summary *s, row *r, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_file_writer_line(writer, s->command_line != NULL ? s->command_line : "");
    rc_status status = print_rows(s, r, rc_file_writer_line, writer);
    if (status == RC_OK)
        return rc_file_writer_commit(writer);
    rc_file_writer_abort(writer);
    return status;
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

static void put_spread(rc_spread spread, const char *key, rc_json_writer *w)
{
    rc_json_begin_object(w, key);
    rc_json_put_real(w, "mean", spread.mean);
    rc_json_put_real(w, "deviation", spread.deviation);
    rc_json_end(w);
}

static const char *state_of(const rc_cell *cell, const rc_cell_end *end)
{
    if (rc_cell_done(cell))
        return "done";
    return end->absent ? "absent" : end->status == RC_CANCELLED ? "stopped" : "failed";
}

static void put_cell(const rc_summary *s, int trial, int method, rc_json_writer *w)
{
    const rc_cell *cell = &s->cell[index_of(s, trial, method)];
    const rc_cell_end *end = &s->end[index_of(s, trial, method)];
    const rc_results *r = &cell->results;
    int tasks = rc_cell_done(cell) ? rc_cell_tasks(cell) : r->done;
    rc_json_begin_object(w, NULL);
    rc_json_put_int(w, "order", cell->trial->config.order);
    rc_json_put_int(w, "seed", (int64_t)cell->trial->config.settings.seed);
    rc_json_put_text(w, "path", rc_path_below(s->folder, cell->path));
    rc_json_put_text(w, "state", state_of(cell, end));
    rc_json_begin_array(w, "accuracy");
    for (int i = 0; i < tasks; i++)
        rc_json_put_real(w, NULL, r->task[i].accuracy);
    rc_json_end(w);
    rc_json_put_real(w, "last_accuracy", tasks > 0 ? r->task[tasks - 1].accuracy : NAN);
    rc_json_put_real(w, "mean_accuracy", rc_results_mean_after(r, tasks));
    rc_results_put_seconds(r, tasks, "seconds", w);
    if (end->message[0] != '\0')
        rc_json_put_text(w, "message", end->message);
    rc_json_end(w);
}

static void put_method(const rc_summary *s, int method, const row *r, rc_json_writer *w)
{
    rc_json_begin_object(w, NULL);
    rc_json_put_text(w, "method", r->method->name);
    rc_json_put_text(w, "title", r->method->title);
    rc_json_put_int(w, "runs_done", r->last.count);
    put_spread(r->last, "last_accuracy", w);
    put_spread(r->mean, "mean_accuracy", w);
    rc_json_begin_array(w, "accuracy");
    for (int i = 0; i < r->tasks; i++)
        put_spread(r->accuracy[i], NULL, w);
    rc_json_end(w);
    rc_json_begin_object(w, "seconds");
    for (int i = 0; i < SECONDS; i++)
        rc_json_put_real(w, seconds_name(i), r->seconds[i].mean);
    rc_json_end(w);
    rc_stored_put(&r->stored, r->method->replay->data_free, "stored", w);
    rc_json_begin_array(w, "runs");
    for (int t = 0; t < s->trials; t++)
        put_cell(s, t, method, w);
    rc_json_end(w);
    rc_json_end(w);
}

static rc_status write_json(const rc_summary *s, row *r, const char *path)
{
    rc_json_writer w = {.indent = 2};
    rc_status status = RC_OK;
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "command_line", s->command_line != NULL ? s->command_line : "");
    rc_json_put_int(&w, "jobs", s->jobs);
    rc_json_put_real(&w, "seconds", s->seconds);
    rc_json_put_text(&w, "deviation", "of a sample, divisor n - 1");
    rc_json_put_int(&w, "tasks", rc_cell_tasks(&s->cell[1]));
    rc_json_begin_array(&w, "methods");
    for (int m = 0; m < s->methods && status == RC_OK; m++) {
        status = make_row(s, m, r);
        if (status == RC_OK)
            put_method(s, m, r, &w);
    }
    rc_json_end(&w);
    /* The first run describes them all, but for order and seed, which every run of a method names. */
    rc_json_put_value(&w, "run", s->cell[0].trial->folder.identity);
    rc_json_end(&w);
    if (status == RC_OK)
        return rc_json_save(&w, path);
    rc_json_discard(&w);
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
        status = write_text(s, r, text);
    rc_free(NULL, r);
    return status;
}
