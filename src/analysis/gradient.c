#include "analysis/gradient.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/statistics.h"
#include "base/memory.h"
#include "forecast/forecast.h"

/* ---- the task once more ------------------------------------------------------------------------------------------ */

typedef struct looking {
    rc_learner *learner;
    const rc_watch *watch;
    rc_forecast forecast;
    rc_direction direction;
    float *head; /* (classes, d) */
    rc_gradient *out;
    bool over; /* main training is: what follows is of no interest */
} looking;

static rc_status boundary(void *user, const rc_stage_report *report)
{
    looking *k = user;
    rc_pace pace;
    rc_forecast_update(&k->forecast, report, &pace);
    rc_watch_stage(k->watch, report, &pace);
    return rc_watch_cancelled(k->watch) ? rc_fail(RC_CANCELLED, "stopped") : RC_OK;
}

/* At the end of an epoch its directions are written down. */
static rc_status look(void *user, const rc_stage_report *report, rc_training *training)
{
    looking *k = user;
    rc_gradient *g = k->out;
    rc_backend *be = k->learner->backend;
    if (report->stage != RC_STAGE_TRAINING) {
        k->over = true;
        return rc_fail(RC_CANCELLED, "main training is over");
    }
    be->read_real(be, k->head, rc_training_look(training).head_gradient,
                  (size_t)k->direction.classes * (size_t)k->direction.d);
    RC_TRY(be->sync(be));
    rc_direction_add(&k->direction, k->head);
    if (report->step % (uint32_t)g->batches != 0)
        return RC_OK;
    g->epoch[report->step / (uint32_t)g->batches - 1] = (rc_gradient_epoch){
        .old_classes = rc_direction_mean(&k->direction, 0, g->n_old),
        .new_classes = rc_direction_mean(&k->direction, g->n_old, g->n_old + g->n_new)};
    rc_direction_clear(&k->direction);
    return RC_OK;
}

static rc_status begin_task(const rc_past_run *run, const rc_method *method, const rc_settings *settings, int task,
                            rc_learner *l)
{
    int first = rc_method_takes_old_images(method) ? 0 : rc_task_first(&run->stream, task);
    rc_lent_images lent;
    int32_t *index, *labels;
    RC_TRY(rc_task_lend(&run->stream, run->data, first, run->stream.task_end[task], run->config.images_per_class, &lent,
                        &index, &labels));
    rc_task_claim claim = {.settings = settings,
                           .method = method,
                           .image = &l->augment,
                           .n_old = rc_task_first(&run->stream, task),
                           .n_new = rc_task_classes(&run->stream, task),
                           .offered = l->source->images.offered,
                           .lent = true,
                           .count = lent.count};
    rc_status status = rc_forecast_allow(l->backend, &claim, "training the task");
    if (status == RC_OK)
        status = rc_learner_configure(l, settings, method);
    if (status == RC_OK)
        status = rc_learner_begin_lent(l, task, rc_task_classes(&run->stream, task), &lent, labels);
    rc_free(NULL, index);
    rc_free(NULL, labels);
    return status;
}

static rc_status train(looking *k)
{
    rc_learner *l = k->learner;
    rc_gradient *g = k->out;
    g->n_old = l->n_old;
    g->n_new = l->n_new;
    g->batches = l->batches;
    g->epochs = (int)(rc_stage_steps(l, RC_STAGE_TRAINING) / (uint32_t)l->batches);
    g->epoch = rc_alloc_zeroed(NULL, (size_t)g->epochs, sizeof *g->epoch);
    k->head = rc_alloc_zeroed(NULL, (size_t)l->student.head.classes, (size_t)l->student.head.d * sizeof *k->head);
    if (g->epoch == NULL || k->head == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_direction_create(l->student.head.d, l->student.head.classes, &k->direction));
    rc_stage_hooks hooks = {.boundary = boundary, .step = look, .user = k, .interval = 0.5};
    rc_forecast_begin_task(&k->forecast, l, NULL);
    rc_status status = rc_run_stages(l, RC_STAGE_INVERSION, 0, &hooks, NULL);
    return k->over ? RC_OK : status;
}

/* There are as many names as the head has rows, which it will grow. */
static void drop_names(rc_saved_model *model)
{
    for (int i = 0; i < model->learner.student.head.classes; i++)
        rc_free(NULL, model->class_name[i]);
    rc_free(NULL, model->class_name);
    model->class_name = NULL;
}

rc_status rc_gradient_create(const rc_past_run *run, const rc_method *method, const rc_gradient_settings *settings,
                             rc_backend *backend, const rc_watch *watch, rc_gradient *g)
{
    rc_saved_model model;
    *g = (rc_gradient){.method = method, .task = settings->task, .dreams = rc_method_dreams(method, 1)};
    if (settings->task < 2 || settings->task > run->stream.tasks)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "task is %d, expected 2 to %d: it is trained again from the model before it", settings->task,
                       run->stream.tasks);
    RC_TRY(rc_past_task_model(run, method, settings->task - 1, backend, &model));
    drop_names(&model);
    looking *k = rc_alloc_zeroed(NULL, 1, sizeof *k);
    rc_status status = k != NULL ? begin_task(run, method, &settings->changed, settings->task - 1, &model.learner)
                                 : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        *k = (looking){.learner = &model.learner, .watch = watch, .out = g};
        status = train(k);
        rc_direction_destroy(&k->direction);
        rc_free(NULL, k->head);
    }
    rc_learner_end_task(&model.learner);
    rc_saved_model_destroy(&model);
    rc_free(NULL, k);
    if (status != RC_OK)
        rc_gradient_destroy(g);
    return status;
}

void rc_gradient_destroy(rc_gradient *g)
{
    rc_free(NULL, g->epoch);
    *g = (rc_gradient){0};
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

void rc_gradient_print(const rc_gradient *g, rc_analysis_line *line, void *user)
{
    char text[160];
    rc_row r = {0};
    snprintf(text, sizeof text, "%s, task %d: mean R of %d old and %d new classes in every epoch of %d batches",
             g->method->title, g->task, g->n_old, g->n_new, g->batches);
    line(user, text);
    rc_row_text(&r, 0, g->dreams ? "epoch  old (dreams)   new (real)" : "epoch           old          new");
    rc_row_end(&r, line, user);
    for (int i = 0; i < g->epochs; i++) {
        rc_row_number(&r, 5, 0, i + 1);
        rc_row_number(&r, 14, 4, g->epoch[i].old_classes);
        rc_row_number(&r, 13, 4, g->epoch[i].new_classes);
        rc_row_end(&r, line, user);
    }
}

void rc_gradient_put(const rc_gradient *g, rc_json_writer *w)
{
    rc_json_put_text(w, "method", g->method->name);
    rc_json_put_int(w, "task", g->task);
    rc_json_put_int(w, "old_classes", g->n_old);
    rc_json_put_int(w, "new_classes", g->n_new);
    rc_json_put_bool(w, "old_are_dreams", g->dreams);
    rc_json_put_int(w, "batches", g->batches);
    rc_json_begin_array(w, "epochs");
    for (int i = 0; i < g->epochs; i++) {
        rc_json_begin_object(w, NULL);
        rc_json_put_int(w, "epoch", i + 1);
        rc_json_put_real(w, "old", g->epoch[i].old_classes);
        rc_json_put_real(w, "new", g->epoch[i].new_classes);
        rc_json_end(w);
    }
    rc_json_end(w);
}
