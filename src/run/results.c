#include "run/results.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "run/commit.h"

rc_status rc_results_create(rc_results *results, const char *method, const rc_task_stream *stream)
{
    memset(results, 0, sizeof *results);
    snprintf(results->method, sizeof results->method, "%s", method);
    results->tasks = stream->tasks;
    memcpy(results->task_end, stream->task_end, sizeof results->task_end);
    size_t cells = (size_t)stream->tasks * (size_t)stream->tasks;
    results->matrix = rc_alloc_zeroed(NULL, cells, sizeof *results->matrix);
    results->class_accuracy = rc_alloc_zeroed(NULL, (size_t)stream->classes, sizeof(double));
    results->class_top5 = rc_alloc_zeroed(NULL, (size_t)stream->classes, sizeof(double));
    results->head_norm = rc_alloc_zeroed(NULL, (size_t)stream->classes, sizeof(double));
    if (results->matrix == NULL || results->class_accuracy == NULL || results->class_top5 == NULL ||
        results->head_norm == NULL) {
        rc_results_destroy(results);
        return RC_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < cells; i++)
        results->matrix[i] = NAN;
    return RC_OK;
}

void rc_results_destroy(rc_results *results)
{
    rc_free(NULL, results->matrix);
    rc_free(NULL, results->class_accuracy);
    rc_free(NULL, results->class_top5);
    rc_free(NULL, results->head_norm);
    rc_evaluation_destroy(&results->last);
    memset(results, 0, sizeof *results);
}

static int task_first(const rc_results *r, int task)
{
    return task > 0 ? r->task_end[task - 1] : 0;
}

static double mean_of(const double *values, int first, int end)
{
    double sum = 0;
    for (int i = first; i < end; i++)
        sum += values[i];
    return end > first ? sum / (end - first) : NAN;
}

rc_status rc_results_add(rc_results *r, rc_evaluation *evaluation, const float *head, int d,
                         const double wall[RC_STAGE_COUNT], double evaluation_seconds)
{
    if (r->done == r->tasks || evaluation->classes != r->task_end[r->done])
        return rc_fail(RC_INTERNAL, "results of %d classes do not belong to task %d", evaluation->classes, r->done + 1);
    int task = r->done++, first = task_first(r, task), end = r->task_end[task];
    rc_task_result *t = &r->task[task];
    t->classes = end;
    t->accuracy = rc_accuracy(evaluation, 0, end);
    t->top5 = rc_accuracy_top5(evaluation, 0, end);
    t->old_accuracy = rc_accuracy(evaluation, 0, first);
    t->new_accuracy = rc_accuracy(evaluation, first, end);
    t->evaluation_seconds = evaluation_seconds;
    snprintf(t->commit, sizeof t->commit, "%s", rc_commit);
    memcpy(t->wall, wall, sizeof t->wall);
    for (int j = 0; j <= task; j++)
        r->matrix[task * r->tasks + j] = rc_accuracy(evaluation, task_first(r, j), r->task_end[j]);
    r->classes = end;
    for (int k = 0; k < end; k++) {
        double squares = 0;
        for (int i = 0; i < d; i++)
            squares += (double)head[k * d + i] * (double)head[k * d + i];
        r->head_norm[k] = sqrt(squares);
        r->class_accuracy[k] = rc_accuracy(evaluation, k, k + 1);
        r->class_top5[k] = rc_accuracy_top5(evaluation, k, k + 1);
    }
    t->old_norm = mean_of(r->head_norm, 0, first);
    t->new_norm = mean_of(r->head_norm, first, end);
    rc_evaluation_destroy(&r->last);
    r->last = *evaluation;
    memset(evaluation, 0, sizeof *evaluation);
    return RC_OK;
}

/* Mean of A_1..A_tasks. */
static double mean_after(const rc_results *r, int tasks)
{
    double sum = 0;
    for (int i = 0; i < tasks; i++)
        sum += r->task[i].accuracy;
    return tasks > 0 ? sum / tasks : NAN;
}

double rc_results_mean(const rc_results *r)
{
    return mean_after(r, r->done);
}

void rc_results_seconds(const rc_results *r, double seconds[RC_STAGE_COUNT + 2])
{
    double *evaluation = &seconds[RC_STAGE_COUNT], *all = &seconds[RC_STAGE_COUNT + 1];
    memset(seconds, 0, (RC_STAGE_COUNT + 2) * sizeof *seconds);
    for (int task = 0; task < r->done; task++) {
        for (int i = 0; i < RC_STAGE_COUNT; i++) {
            seconds[i] += r->task[task].wall[i];
            *all += r->task[task].wall[i];
        }
        *evaluation += r->task[task].evaluation_seconds;
        *all += r->task[task].evaluation_seconds;
    }
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

json_t *rc_results_seconds_json(const rc_results *r)
{
    double seconds[RC_STAGE_COUNT + 2];
    json_t *json = json_object();
    rc_results_seconds(r, seconds);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        json_object_set_new(json, rc_stage_name((rc_stage)i), rc_json_number(seconds[i]));
    json_object_set_new(json, "evaluation", rc_json_number(seconds[RC_STAGE_COUNT]));
    json_object_set_new(json, "total", rc_json_number(seconds[RC_STAGE_COUNT + 1]));
    return json;
}

json_t *rc_stored_json(const rc_stored *stored)
{
    return json_pack("{s:I, s:I, s:I, s:b}", "images", (json_int_t)stored->images, "generative_model",
                     (json_int_t)stored->model, "statistics", (json_int_t)stored->statistics, "data_free",
                     rc_stored_is_data_free(stored));
}

json_t *rc_results_task_json(const rc_results *r, int task)
{
    const rc_task_result *t = &r->task[task];
    json_t *wall = json_object(), *row = json_array();
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        json_object_set_new(wall, rc_stage_name((rc_stage)i), rc_json_number(t->wall[i]));
    json_object_set_new(wall, "evaluation", rc_json_number(t->evaluation_seconds));
    for (int j = 0; j <= task; j++)
        json_array_append_new(row, rc_json_number(r->matrix[task * r->tasks + j]));
    return json_pack("{s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "task", task + 1,
                     "classes", t->classes, "commit", t->commit, "accuracy", rc_json_number(t->accuracy),
                     "mean_accuracy", rc_json_number(mean_after(r, task + 1)), "top5", rc_json_number(t->top5),
                     "old_accuracy", rc_json_number(t->old_accuracy), "new_accuracy", rc_json_number(t->new_accuracy),
                     "forgetting", rc_json_number(rc_forgetting(r->matrix, r->tasks, task + 1)), "backward_transfer",
                     rc_json_number(rc_backward_transfer(r->matrix, r->tasks, task + 1)), "old_norm",
                     rc_json_number(t->old_norm), "new_norm", rc_json_number(t->new_norm), "stored",
                     rc_stored_json(&t->stored),
                     "by_task", row, "seconds", wall);
}

/* (classes, classes), rows are true classes; empty where only the accuracies were read back. */
static json_t *confusion_json(const rc_evaluation *e)
{
    json_t *rows = json_array();
    for (int i = 0; i < e->classes; i++) {
        json_t *row = json_array();
        for (int k = 0; k < e->classes; k++)
            json_array_append_new(row, json_integer(e->confusion[i * e->classes + k]));
        json_array_append_new(rows, row);
    }
    return rows;
}

rc_status rc_results_to_json(const rc_results *r, char *const *class_name, json_t **json)
{
    json_t *tasks = json_array(), *sizes = json_array(), *classes = json_array(), *accuracy = json_array();
    for (int i = 0; i < r->done; i++) {
        json_array_append_new(tasks, rc_results_task_json(r, i));
        json_array_append_new(accuracy, rc_json_number(r->task[i].accuracy));
    }
    for (int i = 0; i < r->tasks; i++)
        json_array_append_new(sizes, json_integer(r->task_end[i] - task_first(r, i)));
    for (int k = 0; k < r->classes; k++)
        json_array_append_new(classes, json_pack("{s:s, s:o, s:o, s:o}", "name", class_name[k], "accuracy",
                                                 rc_json_number(r->class_accuracy[k]), "top5",
                                                 rc_json_number(r->class_top5[k]), "head_norm",
                                                 rc_json_number(r->head_norm[k])));
    *json = json_pack("{s:s, s:i, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "method", r->method,
                      "tasks_done", r->done, "log_offset", (json_int_t)r->log_offset, "seconds", r->seconds,
                      "stage_seconds", rc_results_seconds_json(r), "accuracy", accuracy,
                      "task_sizes", sizes, "last_accuracy",
                      rc_json_number(r->done ? r->task[r->done - 1].accuracy : NAN), "mean_accuracy",
                      rc_json_number(rc_results_mean(r)), "forgetting",
                      rc_json_number(rc_forgetting(r->matrix, r->tasks, r->done)), "backward_transfer",
                      rc_json_number(rc_backward_transfer(r->matrix, r->tasks, r->done)), "tasks", tasks, "classes",
                      classes, "confusion", confusion_json(&r->last));
    return *json != NULL ? RC_OK : rc_fail(RC_OUT_OF_MEMORY, "no memory for the results");
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static size_t bytes_at(const json_t *object, const char *key)
{
    double value = number_at(object, key);
    return value >= 0 && value < 1e15 ? (size_t)value : 0;
}

static rc_status task_from_json(rc_results *r, int task, const json_t *json)
{
    rc_task_result *t = &r->task[task];
    json_t *row, *wall;
    RC_TRY(rc_json_get_int(json, "classes", &t->classes));
    RC_TRY(rc_json_get_array(json, "by_task", &row));
    RC_TRY(rc_json_get_object(json, "seconds", &wall));
    if (t->classes != r->task_end[task] || json_array_size(row) != (size_t)task + 1)
        return rc_fail(RC_FORMAT, "task %d of the results does not fit the run", task + 1);
    t->accuracy = number_at(json, "accuracy");
    t->top5 = number_at(json, "top5");
    t->old_accuracy = number_at(json, "old_accuracy");
    t->new_accuracy = number_at(json, "new_accuracy");
    t->old_norm = number_at(json, "old_norm");
    t->new_norm = number_at(json, "new_norm");
    t->evaluation_seconds = number_at(wall, "evaluation");
    const char *commit = json_string_value(json_object_get(json, "commit"));
    if (commit != NULL && strlen(commit) < sizeof t->commit) /* older results have none */
        memcpy(t->commit, commit, strlen(commit) + 1);
    const json_t *stored = json_object_get(json, "stored");
    t->stored = (rc_stored){.images = bytes_at(stored, "images"), .model = bytes_at(stored, "generative_model"),
                            .statistics = bytes_at(stored, "statistics")};
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        t->wall[i] = number_at(wall, rc_stage_name((rc_stage)i));
    for (int j = 0; j <= task; j++) {
        const json_t *cell = json_array_get(row, (size_t)j);
        r->matrix[task * r->tasks + j] = json_is_number(cell) ? json_number_value(cell) : NAN;
    }
    return RC_OK;
}

rc_status rc_results_from_json(rc_results *r, const json_t *json)
{
    json_t *tasks, *classes;
    const char *method;
    int done;
    RC_TRY(rc_json_get_string(json, "method", &method));
    RC_TRY(rc_json_get_int(json, "tasks_done", &done));
    RC_TRY(rc_json_get_array(json, "tasks", &tasks));
    RC_TRY(rc_json_get_array(json, "classes", &classes));
    if (strcmp(method, r->method) != 0 || done < 0 || done > r->tasks || json_array_size(tasks) != (size_t)done)
        return rc_fail(RC_FORMAT, "these are not results of this run of %s", r->method);
    for (int i = 0; i < done; i++)
        RC_TRY(task_from_json(r, i, json_array_get(tasks, (size_t)i)));
    double offset = number_at(json, "log_offset"), seconds = number_at(json, "seconds");
    r->log_offset = offset >= 0 && offset < 1e15 ? (int64_t)offset : 0;
    r->seconds = seconds >= 0 && seconds < 1e12 ? seconds : 0;
    r->done = done;
    r->classes = done > 0 ? r->task_end[done - 1] : 0;
    if (json_array_size(classes) != (size_t)r->classes)
        return rc_fail(RC_FORMAT, "the results hold %zu classes, expected %d", json_array_size(classes), r->classes);
    for (int k = 0; k < r->classes; k++) {
        const json_t *entry = json_array_get(classes, (size_t)k);
        r->class_accuracy[k] = number_at(entry, "accuracy");
        r->class_top5[k] = number_at(entry, "top5");
        r->head_norm[k] = number_at(entry, "head_norm");
    }
    return RC_OK;
}

/* ---- CSV ----------------------------------------------------------------------------------------------------- */

static rc_status append(rc_file_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static rc_status append(rc_file_writer *writer, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        return rc_fail(RC_INTERNAL, "a line of a table is too long");
    return rc_file_writer_append(writer, text, (size_t)length);
}

static rc_status finish(rc_file_writer *writer, rc_status status)
{
    if (status == RC_OK)
        return rc_file_writer_commit(writer);
    rc_file_writer_abort(writer);
    return status;
}

/* A number of a table; nothing where there is none. */
static rc_status append_number(rc_file_writer *writer, double value)
{
    return isfinite(value) ? append(writer, ",%.6g", value) : append(writer, ",");
}

static rc_status write_task(const rc_results *r, int task, rc_file_writer *writer)
{
    const rc_task_result *t = &r->task[task];
    const double value[] = {t->accuracy, mean_after(r, task + 1), t->top5, t->old_accuracy, t->new_accuracy,
                            rc_forgetting(r->matrix, r->tasks, task + 1),
                            rc_backward_transfer(r->matrix, r->tasks, task + 1), t->old_norm, t->new_norm};
    RC_TRY(append(writer, "\n%d,%d", task + 1, t->classes));
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        RC_TRY(append_number(writer, value[i]));
    RC_TRY(append(writer, ",%zu,%zu,%zu", t->stored.images, t->stored.model, t->stored.statistics));
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        RC_TRY(append(writer, ",%.3f", t->wall[i]));
    RC_TRY(append(writer, ",%.3f", t->evaluation_seconds));
    for (int j = 0; j < r->tasks; j++)
        RC_TRY(append_number(writer, r->matrix[task * r->tasks + j]));
    return RC_OK;
}

static rc_status write_tasks(const rc_results *r, rc_file_writer *writer)
{
    RC_TRY(append(writer, "task,classes,accuracy,mean_accuracy,top5,old_accuracy,new_accuracy,forgetting,"
                          "backward_transfer,old_norm,new_norm,stored_images,stored_generative_model,"
                          "stored_statistics"));
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        RC_TRY(append(writer, ",%s_seconds", rc_stage_name((rc_stage)i)));
    RC_TRY(append(writer, ",evaluation_seconds"));
    for (int j = 0; j < r->tasks; j++)
        RC_TRY(append(writer, ",task_%d", j + 1));
    for (int task = 0; task < r->done; task++)
        RC_TRY(write_task(r, task, writer));
    return append(writer, "\n");
}

rc_status rc_results_write_csv(const rc_results *results, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    return finish(writer, write_tasks(results, writer));
}

/* A name inside quotes, its own quotes doubled. */
static rc_status append_name(rc_file_writer *writer, const char *name)
{
    RC_TRY(rc_file_writer_append(writer, "\"", 1));
    for (const char *p = name; *p != '\0'; p++)
        RC_TRY(rc_file_writer_append(writer, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1));
    return rc_file_writer_append(writer, "\"", 1);
}

static rc_status write_classes(const rc_results *r, char *const *class_name, rc_file_writer *writer)
{
    RC_TRY(append(writer, "class,name,task,accuracy,top5,head_norm"));
    for (int task = 0; task < r->done; task++)
        for (int k = task_first(r, task); k < r->task_end[task]; k++) {
            RC_TRY(append(writer, "\n%d,", k));
            RC_TRY(append_name(writer, class_name[k]));
            RC_TRY(append(writer, ",%d", task + 1));
            RC_TRY(append_number(writer, r->class_accuracy[k]));
            RC_TRY(append_number(writer, r->class_top5[k]));
            RC_TRY(append_number(writer, r->head_norm[k]));
        }
    return append(writer, "\n");
}

rc_status rc_results_write_classes(const rc_results *results, char *const *class_name, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    return finish(writer, write_classes(results, class_name, writer));
}

static rc_status write_confusion(const rc_results *r, char *const *class_name, rc_file_writer *writer)
{
    int classes = r->last.classes;
    RC_TRY(append(writer, "true\\predicted"));
    for (int k = 0; k < classes; k++) {
        RC_TRY(append(writer, ","));
        RC_TRY(append_name(writer, class_name[k]));
    }
    for (int i = 0; i < classes; i++) {
        RC_TRY(append(writer, "\n"));
        RC_TRY(append_name(writer, class_name[i]));
        for (int k = 0; k < classes; k++)
            RC_TRY(append(writer, ",%d", (int)r->last.confusion[i * classes + k]));
    }
    return append(writer, "\n");
}

rc_status rc_results_write_confusion(const rc_results *results, char *const *class_name, const char *path)
{
    if (results->last.confusion == NULL)
        return RC_OK;
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    return finish(writer, write_confusion(results, class_name, writer));
}
