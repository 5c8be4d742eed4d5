#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "experiment/results.h"
#include "experiment/run_folder.h"

/* ---- CSV ----------------------------------------------------------------------------------------------------- */

/* Nobody looks at the status of a piece: the first failure sticks, and the commit returns it. */
static void append(rc_file_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(rc_file_writer *writer, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)rc_file_writer_append(writer, text, strlen(text));
}

/* A number of a table; nothing where there is none. */
static void append_number(rc_file_writer *writer, double value)
{
    if (isfinite(value))
        append(writer, ",%.6g", value);
    else
        append(writer, ",");
}

static void write_task(const rc_results *r, int task, rc_file_writer *writer)
{
    const rc_task_result *t = &r->task[task];
    const double value[] = {t->accuracy,
                            rc_results_mean_after(r, task + 1),
                            t->top5,
                            t->old_accuracy,
                            t->new_accuracy,
                            rc_forgetting(r->matrix, r->tasks, task + 1),
                            rc_backward_transfer(r->matrix, r->tasks, task + 1),
                            t->old_norm,
                            t->new_norm};
    append(writer, "\n%d,%d", task + 1, t->classes);
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        append_number(writer, value[i]);
    append(writer, ",%zu,%zu,%zu", t->stored.images, t->stored.model, t->stored.statistics);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        append(writer, ",%.3f", t->wall[i]);
    append(writer, ",%.3f", t->evaluation_seconds);
    for (int j = 0; j < r->tasks; j++)
        append_number(writer, r->matrix[task * r->tasks + j]);
}

static void write_tasks(const rc_results *r, rc_file_writer *writer)
{
    append(writer, "task,classes,accuracy,mean_accuracy,top5,old_accuracy,new_accuracy,forgetting,"
                   "backward_transfer,old_norm,new_norm,stored_images,stored_generative_model,"
                   "stored_statistics");
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        append(writer, ",%s_seconds", rc_stage_name((rc_stage)i));
    append(writer, ",evaluation_seconds");
    for (int j = 0; j < r->tasks; j++)
        append(writer, ",task_%d", j + 1);
    for (int task = 0; task < r->done; task++)
        write_task(r, task, writer);
    append(writer, "\n");
}

rc_status rc_results_write_csv(const rc_results *results, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    write_tasks(results, writer);
    return rc_file_writer_commit(writer);
}

/* A name inside quotes, its own quotes doubled. */
static void append_name(rc_file_writer *writer, const char *name)
{
    append(writer, "\"");
    for (const char *p = name; *p != '\0'; p++)
        (void)rc_file_writer_append(writer, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    append(writer, "\"");
}

static void write_classes(const rc_results *r, char *const *class_name, rc_file_writer *writer)
{
    append(writer, "class,name,task,accuracy,top5,head_norm");
    for (int task = 0; task < r->done; task++)
        for (int k = rc_results_first(r, task); k < r->task_end[task]; k++) {
            append(writer, "\n%d,", k);
            append_name(writer, class_name[k]);
            append(writer, ",%d", task + 1);
            append_number(writer, r->class_accuracy[k]);
            append_number(writer, r->class_top5[k]);
            append_number(writer, r->head_norm[k]);
        }
    append(writer, "\n");
}

rc_status rc_results_write_classes(const rc_results *results, char *const *class_name, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    write_classes(results, class_name, writer);
    return rc_file_writer_commit(writer);
}

/* In place of a matrix that nobody could open: a line for every cell that is not 0. */
static void write_cells(const rc_evaluation *e, char *const *class_name, rc_file_writer *writer)
{
    append(writer, "true,predicted,images\n");
    for (int i = 0; i < e->classes; i++)
        for (int k = 0; k < e->classes; k++) {
            int images = e->confusion[rc_confusion_at(e->classes, i, k)];
            if (images == 0)
                continue;
            append_name(writer, class_name[i]);
            append(writer, ",");
            append_name(writer, class_name[k]);
            append(writer, ",%d\n", images);
        }
}

static void write_confusion(const rc_results *r, char *const *class_name, rc_file_writer *writer)
{
    int classes = r->last.classes;
    if (classes > RC_WHOLE_CONFUSION) {
        write_cells(&r->last, class_name, writer);
        return;
    }
    append(writer, "true\\predicted");
    for (int k = 0; k < classes; k++) {
        append(writer, ",");
        append_name(writer, class_name[k]);
    }
    for (int i = 0; i < classes; i++) {
        append(writer, "\n");
        append_name(writer, class_name[i]);
        for (int k = 0; k < classes; k++)
            append(writer, ",%d", (int)r->last.confusion[rc_confusion_at(classes, i, k)]);
    }
    append(writer, "\n");
}

rc_status rc_results_write_confusion(const rc_results *results, char *const *class_name, const char *path)
{
    if (results->last.confusion == NULL)
        return RC_OK;
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    write_confusion(results, class_name, writer);
    return rc_file_writer_commit(writer);
}

/* ---- all of them --------------------------------------------------------------------------------------------- */

static rc_status write_report(const rc_results *r, const rc_results_origin *origin, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    const char *version = NULL, *command = NULL;
    rc_status status = rc_json_get_string(origin->identity, "version", &version);
    if (status == RC_OK)
        status = rc_json_get_string(origin->identity, "command_line", &command);
    if (status != RC_OK) {
        rc_file_writer_abort(writer);
        return status;
    }
    char seed[64];
    snprintf(seed, sizeof seed, "seed %llu, recollect %s", (unsigned long long)origin->seed, version);
    rc_file_writer_line(writer, command);
    rc_file_writer_line(writer, seed);
    rc_file_writer_line(writer, "");
    rc_results_report(r, origin->class_name, rc_file_writer_line, writer);
    return rc_file_writer_commit(writer);
}

rc_status rc_results_write(const rc_results *results, const rc_results_origin *origin, const char *folder)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(folder, "tasks.csv", path));
    RC_TRY(rc_results_write_csv(results, path));
    RC_TRY(rc_path_in(folder, "classes.csv", path));
    RC_TRY(rc_results_write_classes(results, origin->class_name, path));
    RC_TRY(rc_path_in(folder, "confusion.csv", path));
    RC_TRY(rc_results_write_confusion(results, origin->class_name, path));
    RC_TRY(rc_path_in(folder, "results.txt", path));
    RC_TRY(write_report(results, origin, path));
    RC_TRY(rc_path_in(folder, "results.json", path));
    rc_json_writer w = {.indent = 2};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "fingerprint", origin->fingerprint);
    rc_results_put(results, origin->class_name, &w);
    rc_json_put_value(&w, "run", origin->identity);
    rc_json_end(&w);
    return rc_json_save(&w, path);
}
