#include "experiment/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/commit.h"

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
    int task = r->done++, first = rc_results_first(r, task), end = r->task_end[task];
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
        r->matrix[task * r->tasks + j] = rc_accuracy(evaluation, rc_results_first(r, j), r->task_end[j]);
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
double rc_results_mean_after(const rc_results *r, int tasks)
{
    double sum = 0;
    for (int i = 0; i < tasks; i++)
        sum += r->task[i].accuracy;
    return tasks > 0 ? sum / tasks : NAN;
}

double rc_results_mean(const rc_results *r)
{
    return rc_results_mean_after(r, r->done);
}

void rc_results_seconds(const rc_results *r, int tasks, double seconds[RC_STAGE_COUNT + 2])
{
    double *evaluation = &seconds[RC_STAGE_COUNT], *all = &seconds[RC_STAGE_COUNT + 1];
    memset(seconds, 0, (RC_STAGE_COUNT + 2) * sizeof *seconds);
    for (int task = 0; task < tasks; task++) {
        for (int i = 0; i < RC_STAGE_COUNT; i++) {
            seconds[i] += r->task[task].wall[i];
            *all += r->task[task].wall[i];
        }
        *evaluation += r->task[task].evaluation_seconds;
        *all += r->task[task].evaluation_seconds;
    }
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

void rc_results_put_seconds(const rc_results *r, int tasks, const char *key, rc_json_writer *w)
{
    double seconds[RC_STAGE_COUNT + 2];
    rc_results_seconds(r, tasks, seconds);
    rc_json_begin_object(w, key);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_json_put_real(w, rc_stage_name((rc_stage)i), seconds[i]);
    rc_json_put_real(w, "evaluation", seconds[RC_STAGE_COUNT]);
    rc_json_put_real(w, "total", seconds[RC_STAGE_COUNT + 1]);
    rc_json_end(w);
}

bool rc_results_are_data_free(const rc_results *r)
{
    const rc_method *method;
    return rc_method_find(r->method, &method) == RC_OK && method->replay->data_free;
}

void rc_stored_put(const rc_stored *stored, bool data_free, const char *key, rc_json_writer *w)
{
    rc_json_begin_object(w, key);
    rc_json_put_int(w, "images", (int64_t)stored->images);
    rc_json_put_int(w, "generative_model", (int64_t)stored->model);
    rc_json_put_int(w, "statistics", (int64_t)stored->statistics);
    rc_json_put_bool(w, "data_free", data_free);
    rc_json_end(w);
}

void rc_results_put_task(const rc_results *r, int task, rc_json_writer *w)
{
    const rc_task_result *t = &r->task[task];
    rc_json_put_int(w, "task", task + 1);
    rc_json_put_int(w, "classes", t->classes);
    rc_json_put_text(w, "commit", t->commit);
    rc_json_put_real(w, "accuracy", t->accuracy);
    rc_json_put_real(w, "mean_accuracy", rc_results_mean_after(r, task + 1));
    rc_json_put_real(w, "top5", t->top5);
    rc_json_put_real(w, "old_accuracy", t->old_accuracy);
    rc_json_put_real(w, "new_accuracy", t->new_accuracy);
    rc_json_put_real(w, "forgetting", rc_forgetting(r->matrix, r->tasks, task + 1));
    rc_json_put_real(w, "backward_transfer", rc_backward_transfer(r->matrix, r->tasks, task + 1));
    rc_json_put_real(w, "old_norm", t->old_norm);
    rc_json_put_real(w, "new_norm", t->new_norm);
    rc_stored_put(&t->stored, rc_results_are_data_free(r), "stored", w);
    rc_json_begin_array(w, "by_task");
    for (int j = 0; j <= task; j++)
        rc_json_put_real(w, NULL, r->matrix[task * r->tasks + j]);
    rc_json_end(w);
    rc_json_begin_object(w, "seconds");
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        rc_json_put_real(w, rc_stage_name((rc_stage)i), t->wall[i]);
    rc_json_put_real(w, "evaluation", t->evaluation_seconds);
    rc_json_end(w);
}

static void put_classes(const rc_results *r, char *const *class_name, rc_json_writer *w)
{
    rc_json_begin_array(w, "classes");
    for (int k = 0; k < r->classes; k++) {
        rc_json_begin_object(w, NULL);
        rc_json_put_text(w, "name", class_name[k]);
        rc_json_put_real(w, "accuracy", r->class_accuracy[k]);
        rc_json_put_real(w, "top5", r->class_top5[k]);
        rc_json_put_real(w, "head_norm", r->head_norm[k]);
        rc_json_end(w);
    }
    rc_json_end(w);
}

void rc_results_put(const rc_results *r, char *const *class_name, rc_json_writer *w)
{
    rc_json_put_text(w, "method", r->method);
    rc_json_put_int(w, "tasks_done", r->done);
    rc_json_put_int(w, "log_offset", r->log_offset);
    rc_json_put_real(w, "seconds", r->seconds);
    rc_results_put_seconds(r, r->done, "stage_seconds", w);
    rc_json_begin_array(w, "accuracy");
    for (int i = 0; i < r->done; i++)
        rc_json_put_real(w, NULL, r->task[i].accuracy);
    rc_json_end(w);
    rc_json_begin_array(w, "task_sizes");
    for (int i = 0; i < r->tasks; i++)
        rc_json_put_int(w, NULL, r->task_end[i] - rc_results_first(r, i));
    rc_json_end(w);
    rc_json_put_real(w, "last_accuracy", r->done ? r->task[r->done - 1].accuracy : NAN);
    rc_json_put_real(w, "mean_accuracy", rc_results_mean(r));
    rc_json_put_real(w, "forgetting", rc_forgetting(r->matrix, r->tasks, r->done));
    rc_json_put_real(w, "backward_transfer", rc_backward_transfer(r->matrix, r->tasks, r->done));
    rc_json_begin_array(w, "tasks");
    for (int i = 0; i < r->done; i++) {
        rc_json_begin_object(w, NULL);
        rc_results_put_task(r, i, w);
        rc_json_end(w);
    }
    rc_json_end(w);
    put_classes(r, class_name, w);
    rc_confusion_put(r->last.confusion, r->last.classes, w); /* of 0 classes where only accuracies were read back */
}

/* No real seconds and norms of weights are larger. */
static const double most_seconds = 1e12, most_norm = 1e40;

static double number_at(const rc_json *object, const char *key)
{
    return rc_json_number(rc_json_member(object, key));
}

/* A number of results, which cannot be beyond [0, high]; what is not there, or null, is NaN. */
static rc_status take_at(const rc_json *object, const char *key, double high, double *value)
{
    *value = number_at(object, key);
    return isnan(*value) || (*value >= 0 && *value <= high)
               ? RC_OK
               : rc_fail(RC_FORMAT, "the results have %s %g, expected a number from 0 to %g", key, *value, high);
}

static size_t bytes_at(const rc_json *object, const char *key)
{
    double value = number_at(object, key);
    return value >= 0 && value < 1e15 ? (size_t)value : 0;
}

static rc_status task_from_json(rc_results *r, int task, const rc_json *json)
{
    rc_task_result *t = &r->task[task];
    const rc_json *row, *wall, *cell = NULL;
    RC_TRY(rc_json_get_int(json, "classes", &t->classes));
    RC_TRY(rc_json_get_array(json, "by_task", &row));
    RC_TRY(rc_json_get_object(json, "seconds", &wall));
    if (t->classes != r->task_end[task] || rc_json_count(row) != (size_t)task + 1)
        return rc_fail(RC_FORMAT, "task %d of the results does not fit the run", task + 1);
    RC_TRY(take_at(json, "accuracy", 100, &t->accuracy));
    RC_TRY(take_at(json, "top5", 100, &t->top5));
    RC_TRY(take_at(json, "old_accuracy", 100, &t->old_accuracy));
    RC_TRY(take_at(json, "new_accuracy", 100, &t->new_accuracy));
    RC_TRY(take_at(json, "old_norm", most_norm, &t->old_norm));
    RC_TRY(take_at(json, "new_norm", most_norm, &t->new_norm));
    RC_TRY(take_at(wall, "evaluation", most_seconds, &t->evaluation_seconds));
    const char *commit = rc_json_string(rc_json_member(json, "commit"));
    if (commit != NULL && strlen(commit) < sizeof t->commit) /* older results have none */
        memcpy(t->commit, commit, strlen(commit) + 1);
    const rc_json *stored = rc_json_member(json, "stored");
    t->stored = (rc_stored){.images = bytes_at(stored, "images"),
                            .model = bytes_at(stored, "generative_model"),
                            .statistics = bytes_at(stored, "statistics")};
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        RC_TRY(take_at(wall, rc_stage_name((rc_stage)i), most_seconds, &t->wall[i]));
    for (int j = 0; (cell = rc_json_next(row, cell)) != NULL; j++) {
        double *percent = &r->matrix[task * r->tasks + j];
        *percent = rc_json_number(cell);
        if (*percent < 0 || *percent > 100)
            return rc_fail(RC_FORMAT, "task %d of the results has accuracy %g, expected a number from 0 to 100",
                           task + 1, *percent);
    }
    return RC_OK;
}

rc_status rc_results_tasks_from_json(rc_results *r, const rc_json *json)
{
    const rc_json *tasks, *entry = NULL;
    const char *method;
    int done;
    RC_TRY(rc_json_get_string(json, "method", &method));
    RC_TRY(rc_json_get_int(json, "tasks_done", &done));
    RC_TRY(rc_json_get_array(json, "tasks", &tasks));
    if (strcmp(method, r->method) != 0 || done < 0 || done > r->tasks || rc_json_count(tasks) != (size_t)done)
        return rc_fail(RC_FORMAT, "these are not results of this run of %s", r->method);
    for (int i = 0; (entry = rc_json_next(tasks, entry)) != NULL; i++)
        RC_TRY(task_from_json(r, i, entry));
    double offset = number_at(json, "log_offset"), seconds = number_at(json, "seconds");
    r->log_offset = offset >= 0 && offset < 1e15 ? (int64_t)offset : 0;
    r->seconds = seconds >= 0 && seconds < 1e12 ? seconds : 0;
    r->done = done;
    r->classes = done > 0 ? r->task_end[done - 1] : 0;
    return RC_OK;
}

rc_status rc_results_from_json(rc_results *r, const rc_json *json)
{
    const rc_json *classes, *entry = NULL;
    RC_TRY(rc_json_get_array(json, "classes", &classes));
    RC_TRY(rc_results_tasks_from_json(r, json));
    if (rc_json_count(classes) != (size_t)r->classes)
        return rc_fail(RC_FORMAT, "the results hold %zu classes, expected %d", rc_json_count(classes), r->classes);
    for (int k = 0; (entry = rc_json_next(classes, entry)) != NULL; k++) {
        RC_TRY(take_at(entry, "accuracy", 100, &r->class_accuracy[k]));
        RC_TRY(take_at(entry, "top5", 100, &r->class_top5[k]));
        RC_TRY(take_at(entry, "head_norm", most_norm, &r->head_norm[k]));
    }
    return RC_OK;
}
