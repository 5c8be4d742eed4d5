#include "analysis/norms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static rc_status take_norms(const rc_past_run *run, const rc_past_method *past, int task, rc_backend *backend,
                            rc_norms *n)
{
    rc_saved_model model;
    float *head = NULL;
    RC_TRY(rc_past_method_model(run, past, task + 1, backend, &model));
    int classes = model.learner.student.head.classes, d = model.learner.student.head.d;
    rc_status status = rc_past_head(&model, &head);
    for (int k = 0; status == RC_OK && k < classes; k++) {
        double square = 0;
        for (int j = 0; j < d; j++)
            square += pow((double)head[(size_t)k * (size_t)d + (size_t)j], 2);
        n->norm[(size_t)task * (size_t)n->classes + (size_t)k] = sqrt(square);
    }
    rc_free(NULL, head);
    rc_saved_model_destroy(&model);
    return status;
}

static rc_status take_all(const rc_past_run *run, const rc_past_method *past, rc_backend *backend,
                          const rc_watch *watch, rc_norms *n)
{
    rc_watch own = *watch;
    if (past->done == 0)
        return rc_fail(RC_INVALID_ARGUMENT, "%s has no finished task yet", past->path);
    n->tasks = past->done;
    n->classes = past->task_end[past->done - 1];
    memcpy(n->task_end, past->task_end, sizeof n->task_end);
    size_t count = (size_t)n->tasks * (size_t)n->classes;
    n->norm = rc_alloc_zeroed(NULL, count, sizeof *n->norm);
    if (n->norm == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        n->norm[i] = NAN;
    for (int task = 0; task < n->tasks; task++) {
        RC_TRY(take_norms(run, past, task, backend, n));
        if (!rc_watch_reading(&own, "models", task + 1, n->tasks))
            return rc_fail(RC_CANCELLED, "stopped");
    }
    return RC_OK;
}

rc_status rc_norms_create(const rc_past_run *run, const rc_method *method, rc_backend *backend, const rc_watch *watch,
                          rc_norms *norms)
{
    *norms = (rc_norms){.method = method};
    rc_past_method *past = rc_alloc_zeroed(NULL, 1, sizeof *past);
    if (past == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_past_method_open(run, method, past);
    if (status == RC_OK)
        status = take_all(run, past, backend, watch, norms);
    rc_free(NULL, past);
    if (status != RC_OK)
        rc_norms_destroy(norms);
    return status;
}

void rc_norms_destroy(rc_norms *norms)
{
    rc_free(NULL, norms->norm);
    *norms = (rc_norms){0};
}

double rc_norms_mean(const rc_norms *n, int task, int first, int end)
{
    double sum = 0;
    for (int k = first; k < end; k++)
        sum += n->norm[(size_t)task * (size_t)n->classes + (size_t)k];
    return sum / (end - first);
}

static int first_of(const rc_norms *n, int task)
{
    return task > 0 ? n->task_end[task - 1] : 0;
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

void rc_norms_print(const rc_norms *n, rc_analysis_line *line, void *user)
{
    char text[128];
    rc_row r = {0};
    snprintf(text, sizeof text, "%s: mean norm of the head's rows; the last columns by task of their classes",
             n->method->title);
    line(user, text);
    rc_row_text(&r, 0, "task      old      new  new/old |");
    for (int t = 0; t < n->tasks; t++)
        rc_row_number(&r, 8, 0, t + 1);
    rc_row_end(&r, line, user);
    for (int t = 0; t < n->tasks; t++) {
        double old = rc_norms_mean(n, t, 0, first_of(n, t)), new = rc_norms_mean(n, t, first_of(n, t), n->task_end[t]);
        rc_row_number(&r, 4, 0, t + 1);
        rc_row_number(&r, 9, 4, old);
        rc_row_number(&r, 9, 4, new);
        rc_row_number(&r, 9, 3, new / old);
        rc_row_text(&r, 2, "|");
        for (int of = 0; of <= t; of++)
            rc_row_number(&r, 8, 4, rc_norms_mean(n, t, first_of(n, of), n->task_end[of]));
        rc_row_end(&r, line, user);
    }
}

void rc_norms_put(const rc_norms *n, rc_json_writer *w)
{
    rc_json_put_text(w, "method", n->method->name);
    rc_json_begin_array(w, "tasks");
    for (int t = 0; t < n->tasks; t++) {
        rc_json_begin_object(w, NULL);
        rc_json_put_int(w, "task", t + 1);
        rc_json_put_int(w, "classes", n->task_end[t]);
        rc_json_put_real(w, "old", rc_norms_mean(n, t, 0, first_of(n, t)));
        rc_json_put_real(w, "new", rc_norms_mean(n, t, first_of(n, t), n->task_end[t]));
        rc_json_begin_array(w, "by_task");
        for (int of = 0; of <= t; of++)
            rc_json_put_real(w, NULL, rc_norms_mean(n, t, first_of(n, of), n->task_end[of]));
        rc_json_end(w);
        rc_json_begin_array(w, "norms");
        for (int k = 0; k < n->task_end[t]; k++)
            rc_json_put_real(w, NULL, n->norm[(size_t)t * (size_t)n->classes + (size_t)k]);
        rc_json_end(w);
        rc_json_end(w);
    }
    rc_json_end(w);
}
