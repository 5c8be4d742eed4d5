#include "experiment/cell.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/stop.h"
#include "experiment/dream_picture.h"
#include "experiment/events.h"
#include "forecast/allowance.h"
#include "model/checkpoint.h"
#include "model/model_file.h"

/* All that a cell needs at hand while it runs. */
typedef struct cell_run {
    rc_cell *cell;
    const rc_trial *trial; /* the cell's */
    rc_results *results;   /* likewise */
    rc_backend *backend;
    const rc_cell_hooks *hooks;
    rc_saved_model model; /* class_name is borrowed from the trial while a file is written */
    rc_events events;
    bool log_begun;             /* at the place where this process takes over */
    bool log_ended;             /* the results say that it did: nobody opens it again */
    double steps_before, steps; /* of the cell: before the task at hand, and all */
    int stage;                  /* that was logged last; -1: none of the task */
    int64_t stage_offset;       /* of the log, where that stage begins */
    double last_saved, wall[RC_STAGE_COUNT];
    rc_safetensors *checkpoint; /* that the task goes on from; NULL: none */
} cell_run;

/* ---- what it is ----------------------------------------------------------------------------------------------- */

const rc_method *rc_first_task_method(void)
{
    int i = 0;
    while (!rc_method_at(i)->dce)
        i++;
    return rc_method_at(i);
}

rc_augment rc_image_of(const rc_dataset *d)
{
    rc_augment image = {.h = d->h, .w = d->w, .c = d->c};
    memcpy(image.mean, d->mean, sizeof image.mean);
    memcpy(image.std, d->std, sizeof image.std);
    return image;
}

static rc_status load_results(rc_cell *cell)
{
    char path[RC_PATH_SIZE];
    rc_json *json;
    bool there;
    RC_TRY(rc_path_in(cell->path, "results.json", path));
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    RC_TRY(rc_json_load(path, 64u << 20, &json));
    const char *found = rc_json_string(rc_json_member(json, "fingerprint"));
    const rc_json *config = rc_json_member(rc_json_member(json, "run"), "config");
    rc_status status = rc_fingerprint_check(path, found, cell->fingerprint, config, &cell->trial->config,
                                            "bring that of this run back, or remove it, and its tasks are done anew");
    if (status == RC_OK && (status = rc_results_from_json(&cell->results, json)) != RC_OK)
        status = rc_fail(status, "%s: %s", path, rc_message());
    rc_json_free(json);
    return status;
}

/* Is a file of tensors of this run, as its metadata says, if it is there? */
static rc_status check_tensors(const rc_cell *cell, const char *name, const char *advice)
{
    char path[RC_PATH_SIZE];
    rc_safetensors *file;
    rc_json *config = NULL;
    RC_TRY(rc_path_in(cell->path, name, path));
    bool there;
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    rc_status status = rc_safetensors_open_header(path, &file);
    if (status == RC_IO)
        RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK; /* another process that works on the cell has removed its checkpoint just now */
    if (status != RC_OK)
        return status == RC_FORMAT ? rc_fail(status, "%s; %s", rc_message(), advice) : status;
    const char *text = rc_safetensors_metadata(file, "config");
    status = text != NULL ? rc_json_parse("config", text, strlen(text), &config) : RC_OK;
    if (status != RC_OUT_OF_MEMORY)
        status = rc_fingerprint_check(path, rc_safetensors_metadata(file, "fingerprint"), cell->fingerprint, config,
                                      &cell->trial->config, advice);
    rc_json_free(config);
    rc_safetensors_close(file);
    return status;
}

static const char bring_back[] = "bring that of this run back, or begin another run with another setting 'out'";

/* The models of finished tasks. Only the last is read, and the user may have removed others. But a model that is
 * there must belong to this run, because people who look into the folder will think so. */
static rc_status check_models(const rc_cell *cell)
{
    for (int task = 1; task <= cell->results.done; task++) {
        char name[64];
        snprintf(name, sizeof name, "task-%d.safetensors", task);
        RC_TRY(check_tensors(cell, name,
                             task < cell->results.done ? "bring that of this run back, or remove it" : bring_back));
    }
    return RC_OK;
}

static rc_status remove_checkpoint(const rc_cell *cell)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(cell->path, "checkpoint.safetensors", path));
    if (unlink(path) != 0 && errno != ENOENT)
        return rc_fail(RC_IO, "cannot remove '%s': %s", path, strerror(errno));
    return RC_OK;
}

rc_status rc_cell_reload(rc_cell *cell)
{
    rc_results_destroy(&cell->results);
    RC_TRY(rc_results_create(&cell->results, cell->method->name, &cell->trial->stream));
    RC_TRY(load_results(cell));
    RC_TRY(check_models(cell));
    char path[RC_PATH_SIZE], advice[96];
    RC_TRY(rc_path_in(cell->path, "events.jsonl", path));
    RC_TRY(rc_events_check(path, cell->fingerprint));
    snprintf(advice, sizeof advice, "without this file the setting 'resume' begins task %d anew",
             cell->results.done + 1);
    RC_TRY(check_tensors(cell, "checkpoint.safetensors", advice));
    /* Killed after its last results were written, it left the checkpoint. */
    bool whole = cell->results.done == (cell->first_task ? 1 : cell->trial->stream.tasks);
    return whole ? remove_checkpoint(cell) : RC_OK;
}

static rc_status open_cell(rc_cell *cell, const rc_trial *trial, const char *title, const char *folder)
{
    cell->trial = trial;
    snprintf(cell->name, sizeof cell->name, "%s%s%s", trial->name, trial->name[0] != '\0' ? ", " : "", title);
    const char *data;
    RC_TRY(rc_path_in(trial->path, folder, cell->path));
    RC_TRY(rc_json_get_string(trial->folder.identity, "data_fingerprint", &data));
    rc_fingerprint(&trial->config, data, folder, &trial->stream, cell->fingerprint);
    return rc_cell_reload(cell);
}

rc_status rc_cell_create_first(rc_cell *cell, const rc_trial *trial)
{
    *cell = (rc_cell){.method = rc_first_task_method(), .first_task = true};
    return open_cell(cell, trial, "All methods", "first-task");
}

rc_status rc_cell_create(rc_cell *cell, const rc_trial *trial, const rc_method *method, const rc_cell *first)
{
    bool shares = rc_method_shares_first_task(method, &trial->config.settings);
    *cell = (rc_cell){.method = method, .first = shares ? first : NULL};
    return open_cell(cell, trial, method->title, method->name);
}

void rc_cell_destroy(rc_cell *cell)
{
    rc_results_destroy(&cell->results);
}

int rc_cell_tasks(const rc_cell *cell)
{
    return cell->first_task ? 1 : cell->trial->tasks;
}

bool rc_cell_done(const rc_cell *cell)
{
    return cell->results.done >= rc_cell_tasks(cell);
}

/* ---- how much there is to do ---------------------------------------------------------------------------------- */

rc_workload rc_cell_work(const rc_cell *cell, int task)
{
    const rc_task_stream *stream = &cell->trial->stream;
    rc_workload work = {0};
    if (task == 0 && cell->first != NULL)
        task = 1;
    for (; task < rc_cell_tasks(cell); task++)
        rc_workload_add(&work, &cell->trial->config.settings, cell->method, rc_task_first(stream, task),
                        rc_task_classes(stream, task),
                        rc_trial_images(cell->trial, task, rc_method_trains_on_old_images(cell->method)));
    return work;
}

size_t rc_cell_image_bytes(const rc_cell *cell)
{
    const rc_dataset *data = cell->trial->data;
    int most = 0, held = rc_held_images(cell->method, &cell->trial->config.settings);
    for (int task = 0; task < rc_cell_tasks(cell); task++) {
        int images = rc_trial_images(cell->trial, task, rc_method_takes_old_images(cell->method));
        most = images > most ? images : most;
    }
    return ((size_t)most + (size_t)held) * (size_t)data->h * (size_t)data->w * (size_t)data->c;
}

/* ---- between steps -------------------------------------------------------------------------------------------- */

static rc_status save_checkpoint(cell_run *m, const rc_stage_report *report)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(m->cell->path, "checkpoint.safetensors", path));
    rc_position position = {.task = report->task, .stage = report->stage, .step = report->step};
    memcpy(position.wall, m->wall, sizeof position.wall);
    RC_TRY(rc_events_position(&m->events, &position.log_offset, &position.seconds));
    RC_TRY(rc_events_sync(&m->events));
    if (report->stage == RC_STAGE_ESTIMATION) { /* it begins anew */
        position.step = 0;
        position.log_offset = m->stage_offset;
    }
    rc_status status = rc_checkpoint_save(path, m->backend, report->state, &position, m->cell->fingerprint);
    if (status == RC_NUMERIC)
        return rc_fail(RC_NUMERIC,
                       "task %d, %s, step %u of %u: %s. It is not saved, the last checkpoint is intact; a lower "
                       "learning rate may help",
                       report->task + 1, rc_stage_name(report->stage), report->step, report->steps, rc_message());
    m->last_saved = rc_now();
    return status;
}

/* The dreams that an inversion ends with, beside the log. */
static rc_status draw_dreams(cell_run *m, const rc_events_step *step)
{
    char name[64], path[RC_PATH_SIZE];
    rc_dream_picture picture;
    snprintf(name, sizeof name, "task-%d-dreams.png", step->report->task + 1);
    RC_TRY(rc_path_in(m->cell->path, name, path));
    RC_TRY(rc_dream_picture_draw(&m->model.learner, step->report, m->trial->class_name, &picture));
    rc_events_picture logged = {.file = name,
                                .width = picture.canvas.w,
                                .height = picture.canvas.h,
                                .count = picture.count,
                                .label = picture.label};
    rc_status status = rc_image_write_png(path, &picture.canvas);
    rc_image_free(&picture.canvas);
    return status == RC_OK ? rc_events_dreams(&m->events, step, &logged) : status;
}

static rc_status log_stage(cell_run *m, const rc_stage_report *report, const rc_pace *pace)
{
    const rc_learner *l = &m->model.learner;
    rc_events_step step = {.report = report,
                           .pace = pace,
                           .classes = l->student.head.classes,
                           .old_classes = l->n_old,
                           .total_step = m->steps_before + report->step,
                           .total_steps = m->steps};
    for (int stage = 0; stage < (int)report->stage; stage++)
        step.total_step += rc_stage_steps(l, (rc_stage)stage);
    RC_TRY(rc_events_stage(&m->events, &step));
    return report->inversion != NULL && report->step == report->steps ? draw_dreams(m, &step) : RC_OK;
}

static rc_status boundary(void *user, const rc_stage_report *report)
{
    cell_run *m = user;
    rc_pace pace;
    double seconds;
    if (m->stage != (int)report->stage)
        RC_TRY(rc_events_position(&m->events, &m->stage_offset, &seconds));
    m->stage = (int)report->stage;
    rc_forecast_update(&m->cell->forecast, report, &pace);
    RC_TRY(log_stage(m, report, &pace));
    m->hooks->report(m->hooks->user, m->cell, report, &pace);
    bool stop = m->hooks->cancelled(m->hooks->user);
    if (stop || rc_now() - m->last_saved >= m->hooks->checkpoint_seconds)
        RC_TRY(save_checkpoint(m, report));
    return stop ? rc_fail(RC_CANCELLED,
                          "stopped and saved in task %d, %s, step %u of %u; the setting 'resume' goes on from there",
                          report->task + 1, rc_stage_name(report->stage), report->step, report->steps)
                : RC_OK;
}

static rc_status restore(void *user, rc_state *state)
{
    cell_run *m = user;
    rc_status status = m->checkpoint != NULL ? rc_checkpoint_restore(m->checkpoint, m->backend, state) : RC_OK;
    return status == RC_OK || status == RC_OUT_OF_MEMORY
               ? status
               : rc_fail(status, "%s/checkpoint.safetensors: %s", m->cell->path, rc_message());
}

/* ---- one task ------------------------------------------------------------------------------------------------- */

/* The model that a task begins with: of the task before it, made by this cell or by that of the first task. "": the
 * first task begins with none. */
static rc_status find_model(const cell_run *m, int task, const rc_cell **maker, char path[RC_PATH_SIZE])
{
    char name[64];
    path[0] = '\0';
    *maker = task > 0 && m->results->done == 0 ? m->cell->first : m->cell;
    if (task == 0)
        return RC_OK;
    snprintf(name, sizeof name, "task-%d.safetensors", task);
    return rc_path_in((*maker)->path, name, path);
}

/* Tells the other processes what comes now. */
static rc_status give_order(const cell_run *m, const rc_position *position)
{
    rc_workers *workers = m->backend->workers;
    const rc_cell *maker;
    if (workers == NULL)
        return RC_OK;
    rc_cell_order *order = rc_alloc_zeroed(NULL, 1, sizeof *order);
    if (order == NULL)
        return RC_OUT_OF_MEMORY;
    order->task = position->task;
    order->stage = (int32_t)position->stage;
    order->step = position->step;
    snprintf(order->trial, sizeof order->trial, "%s", m->trial->path);
    snprintf(order->method, sizeof order->method, "%s", m->cell->method->name);
    snprintf(order->fingerprint, sizeof order->fingerprint, "%s", m->cell->fingerprint);
    rc_status status = find_model(m, position->task, &maker, order->model);
    if (status == RC_OK && m->checkpoint != NULL)
        status = rc_path_in(m->cell->path, "checkpoint.safetensors", order->checkpoint);
    if (status == RC_OK) {
        rc_workers_word(workers, RC_WORD_WORK);
        workers->lead(workers, order, sizeof *order);
    }
    rc_free(NULL, order);
    return status;
}

static rc_status begin_task(cell_run *m, int task)
{
    const rc_task_stream *stream = &m->trial->stream;
    int first = rc_method_takes_old_images(m->cell->method) ? 0 : rc_task_first(stream, task);
    rc_lent_images lent;
    int32_t *index, *labels;
    RC_TRY(rc_task_lend(stream, m->trial->data, first, stream->task_end[task], m->trial->config.images_per_class, &lent,
                        &index, &labels));
    rc_status status = rc_learner_begin_lent(&m->model.learner, task, rc_task_classes(stream, task), &lent, labels);
    rc_free(NULL, index);
    rc_free(NULL, labels);
    return status;
}

static rc_status evaluate(cell_run *m)
{
    rc_learner *l = &m->model.learner;
    double began = rc_now();
    rc_evaluation evaluation;
    const rc_split *test = &m->trial->data->test;
    int batch = m->trial->config.test_batch < test->count ? m->trial->config.test_batch : test->count;
    RC_TRY(rc_scoring_batch(m->backend, &l->student, &l->settings, &l->augment, batch, &batch));
    const rc_scoring scoring = {.views = rc_config_views(&m->trial->config)};
    RC_TRY(rc_evaluate(m->backend, &l->student, &l->augment, &m->trial->stream, test, batch, &scoring, &evaluation));
    size_t count = (size_t)l->student.head.classes * (size_t)l->student.head.d;
    float *head = rc_alloc_zeroed(NULL, count, sizeof *head);
    rc_status status = head != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        m->backend->read_real(m->backend, head, l->student.head.weight, count);
        status = rc_results_add(m->results, &evaluation, head, l->student.head.d, m->wall, rc_now() - began);
    }
    /* The cell of the first task has finished it. */
    if (status == RC_OK && m->results->done == 1 && m->cell->first != NULL)
        memcpy(m->results->task[0].commit, m->cell->first->results.task[0].commit, sizeof m->results->task[0].commit);
    rc_free(NULL, head);
    rc_evaluation_destroy(&evaluation);
    return status;
}

static rc_status save_model(cell_run *m, int task)
{
    char name[64], path[RC_PATH_SIZE];
    snprintf(name, sizeof name, "task-%d.safetensors", task + 1);
    RC_TRY(rc_path_in(m->cell->path, name, path));
    m->model.class_name = m->trial->class_name;
    memcpy(m->model.fingerprint, m->cell->fingerprint, sizeof m->model.fingerprint);
    rc_status status = rc_model_file_save(path, &m->model, true);
    m->model.class_name = NULL;
    return status;
}

/* Also those that this command was not asked for. */
static int all_tasks(const cell_run *m)
{
    return m->cell->first_task ? 1 : m->trial->stream.tasks;
}

/* Model first, results.json as the last of the results, checkpoint after that: a kill before results.json is there
 * repeats the end of the task, with the same bits; a kill after it leaves an old checkpoint, which is known as such. */
static rc_status finish_task(cell_run *m, int task)
{
    char text[256];
    RC_TRY(evaluate(m));
    rc_learner_end_task(&m->model.learner);
    m->results->task[task].stored = rc_learner_stored(&m->model.learner);
    RC_TRY(save_model(m, task));
    RC_TRY(rc_events_task(&m->events, m->results));
    if (m->results->done == all_tasks(m)) /* once the results say so, nobody opens the log again */
        RC_TRY(rc_events_end(&m->events, "done", ""));
    RC_TRY(rc_events_position(&m->events, &m->results->log_offset, &m->results->seconds));
    RC_TRY(rc_events_sync(&m->events));
    const rc_results_origin origin = {.fingerprint = m->cell->fingerprint,
                                      .identity = m->trial->folder.identity,
                                      .seed = m->trial->config.settings.seed,
                                      .class_name = m->trial->class_name};
    rc_status written = rc_results_write(m->results, &origin, m->cell->path);
    m->log_ended = m->results->done == all_tasks(m) && (written == RC_OK || written == RC_UNSYNCED);
    RC_TRY(written);
    RC_TRY(remove_checkpoint(m->cell));
    const rc_task_result *t = &m->results->task[task];
    snprintf(text, sizeof text, "%s, task %d of %d: accuracy %.2f %% over %d classes, mean so far %.2f %%",
             m->cell->name, task + 1, m->trial->stream.tasks, t->accuracy, t->classes, rc_results_mean(m->results));
    m->hooks->line(m->hooks->user, text);
    return RC_OK;
}

/* Forgets what was logged after that place, which this process does again: half a line of a killed run is gone, and
 * nothing is logged twice. */
static rc_status begin_log_at(cell_run *m, int64_t offset, double seconds)
{
    const rc_events_cell cell = {.run = m->trial->folder.identity,
                                 .fingerprint = m->cell->fingerprint,
                                 .name = m->cell->name,
                                 .method = m->cell->first_task ? "first-task" : m->cell->method->name,
                                 .stream = &m->trial->stream,
                                 .tasks = all_tasks(m)};
    m->log_begun = true;
    return rc_events_begin(&m->events, &cell, offset, seconds);
}

/* The same after the last finished task. */
static rc_status begin_log(cell_run *m)
{
    return m->log_begun ? RC_OK : begin_log_at(m, m->results->log_offset, m->results->seconds);
}

/* Where a checkpoint says that the task is, if there is one; the log then goes on from there, too. */
static rc_status find_checkpoint(cell_run *m, int task, rc_position *position)
{
    char path[RC_PATH_SIZE];
    bool there;
    RC_TRY(rc_path_in(m->cell->path, "checkpoint.safetensors", path));
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return begin_log(m);
    rc_position found;
    rc_status status = rc_checkpoint_open(path, m->cell->fingerprint, &found, &m->checkpoint);
    if (status == RC_FORMAT)
        return rc_fail(status, "%s; without this file the setting 'resume' begins task %d anew", rc_message(),
                       task + 1);
    RC_TRY(status);
    if (found.task < task) { /* of a task whose results are there */
        rc_safetensors_close(m->checkpoint);
        m->checkpoint = NULL;
        RC_TRY(remove_checkpoint(m->cell));
        return begin_log(m);
    }
    if (found.task > task)
        return rc_fail(RC_FORMAT, "%s is of task %d, but the results end before task %d", path, found.task + 1,
                       task + 1);
    *position = found;
    memcpy(m->wall, found.wall, sizeof m->wall);
    return begin_log_at(m, found.log_offset, found.seconds);
}

static rc_status run_task(cell_run *m, int task)
{
    rc_stage_hooks hooks = {.boundary = boundary, .restore = restore, .user = m, .interval = m->hooks->report_seconds};
    rc_position position = {.task = task, .stage = RC_STAGE_INVERSION};
    rc_workload all = rc_cell_work(m->cell, 0), left = rc_cell_work(m->cell, task);
    rc_workload later = rc_cell_work(m->cell, task + 1);
    m->steps = rc_workload_steps(&all);
    m->steps_before = m->steps - rc_workload_steps(&left);
    memset(m->wall, 0, sizeof m->wall);
    m->stage = -1;
    RC_TRY(find_checkpoint(m, task, &position));
    RC_TRY(begin_task(m, task));
    uint32_t steps = rc_stage_steps(&m->model.learner, position.stage);
    if (position.step > steps)
        return rc_fail(RC_FORMAT,
                       "%s/checkpoint.safetensors is at step %u of %s, which has %u; without this file "
                       "the setting 'resume' begins task %d anew",
                       m->cell->path, position.step, rc_stage_name(position.stage), steps, task + 1);
    m->last_saved = rc_now();
    rc_forecast_begin_task(&m->cell->forecast, &m->model.learner, &later);
    RC_TRY(give_order(m, &position));
    rc_status status = rc_run_stages(&m->model.learner, position.stage, position.step, &hooks, m->wall);
    if (status != RC_OK && m->backend->workers != NULL) /* the others are about to begin the next steps */
        rc_workers_word(m->backend->workers, RC_WORD_LEFT);
    RC_TRY(status);
    rc_safetensors_close(m->checkpoint);
    m->checkpoint = NULL;
    return finish_task(m, task);
}

/* ---- one cell ------------------------------------------------------------------------------------------------- */

/* Checks that a model that claims to belong to this run fits it: a forged one must not make a reader go past the end
 * of an array. */
static rc_status check_model(const cell_run *m, const char *path, const char *fingerprint, int tasks)
{
    const rc_learner *l = &m->model.learner;
    const char *found = m->model.fingerprint[0] != '\0' ? m->model.fingerprint : NULL;
    if (fingerprint != NULL) /* else the leader has compared it */
        RC_TRY(rc_fingerprint_check(path, found, fingerprint, NULL, NULL, bring_back));
    if (l->student.head.tasks != tasks || l->student.head.classes != m->trial->stream.task_end[tasks - 1])
        return rc_fail(RC_FORMAT, "%s is a model of %d tasks with %d classes, expected %d with %d: %s", path,
                       l->student.head.tasks, l->student.head.classes, tasks, m->trial->stream.task_end[tasks - 1],
                       bring_back);
    return RC_OK;
}

/* Models have the run's configuration, whatever they say themselves. */
static void take_config(cell_run *m)
{
    m->model.config = m->trial->config;
    m->model.config.data[0] = '\0'; /* a model does not say where the images lie, and that may change */
}

static rc_status adopt_model(cell_run *m, const char *path)
{
    rc_learner *l = &m->model.learner;
    rc_augment image = rc_image_of(m->trial->data);
    if (l->augment.h != image.h || l->augment.w != image.w || l->augment.c != image.c)
        return rc_fail(RC_FORMAT, "%s is a model of images of %d x %d x %d, but the data of the run has %d x %d x %d",
                       path, l->augment.h, l->augment.w, l->augment.c, image.h, image.w, image.c);
    for (int c = 0; c < image.c && !l->method->replay->plain_pixels; c++)
        if (l->augment.mean[c] != image.mean[c] || l->augment.std[c] != image.std[c])
            return rc_fail(RC_FORMAT,
                           "%s has mean %g and deviation %g for channel %d, but the data of the run has %g "
                           "and %g: bring the model of this run back, or begin another run with another setting "
                           "'out'",
                           path, (double)l->augment.mean[c], (double)l->augment.std[c], c, (double)image.mean[c],
                           (double)image.std[c]);
    take_config(m);
    return rc_learner_configure(l, &m->model.config.settings, m->cell->method);
}

static rc_status make_learner(cell_run *m)
{
    rc_augment image = rc_image_of(m->trial->data);
    take_config(m);
    return rc_learner_create(&m->model.learner, m->backend, &m->model.config.settings, m->cell->method, &image);
}

/* Reads a model after `tasks` tasks. */
static rc_status load_model(cell_run *m, const char *path, const char *fingerprint, int tasks)
{
    RC_TRY(rc_model_file_load(path, m->backend, &m->model));
    RC_TRY(check_model(m, path, fingerprint, tasks));
    for (int i = 0; i < m->model.learner.student.head.classes; i++)
        rc_free(NULL, m->model.class_name[i]);
    rc_free(NULL, m->model.class_name);
    m->model.class_name = NULL;
    return adopt_model(m, path);
}

/* The model after the last finished task, or after the first task of all; the first task begins with a new learner. */
static rc_status pick_up(cell_run *m)
{
    char path[RC_PATH_SIZE];
    const rc_cell *maker;
    int tasks = m->results->done > 0 ? m->results->done : m->cell->first != NULL;
    RC_TRY(find_model(m, tasks, &maker, path));
    return tasks > 0 ? load_model(m, path, maker->fingerprint, tasks) : make_learner(m);
}

static rc_status run_tasks(cell_run *m)
{
    RC_TRY(rc_make_run_folder(m->cell->path));
    RC_TRY(pick_up(m));
    RC_TRY(rc_events_open(&m->events, m->cell->path));
    if (m->results->done == 0 && m->cell->first != NULL) {
        memcpy(m->wall, m->cell->first->results.task[0].wall, sizeof m->wall);
        if (!m->cell->method->dce)
            m->wall[RC_STAGE_ESTIMATION] = 0;                         /* of statistics that others need */
        m->model.learner.given = rc_trial_images(m->trial, 0, false); /* to the cell that has learnt it */
        RC_TRY(begin_log(m));
        RC_TRY(finish_task(m, 0));
    }
    for (int task = m->results->done; task < rc_cell_tasks(m->cell); task++)
        RC_TRY(run_task(m, task));
    return remove_checkpoint(m->cell);
}

/* After a failure of the device, for want of memory, or stopped in the midst of a step: names what was saved last, from
 * which the run can go on. */
static rc_status name_saved(const cell_run *m, rc_status status)
{
    char path[RC_PATH_SIZE], name[64] = "checkpoint.safetensors";
    if (rc_path_in(m->cell->path, name, path) == RC_OK && access(path, F_OK) != 0 && m->results->done > 0) {
        snprintf(name, sizeof name, "task-%d.safetensors", m->results->done);
        if (rc_path_in(m->cell->path, name, path) != RC_OK)
            return status;
    }
    if (access(path, F_OK) != 0)
        return rc_fail(status,
                       "%s. Nothing of it was saved before; the setting 'resume' begins anew, with another "
                       "setting 'backend' too",
                       rc_message());
    return rc_fail(status,
                   "%s. %s is intact: the setting 'resume' goes on from there, with another setting 'backend' "
                   "too",
                   rc_message(), path);
}

/* Logs that this process leaves the cell. A failure that brought it here is what its caller hears of, whatever becomes
 * of the log. */
static rc_status end_log(cell_run *m, rc_status status)
{
    char message[RC_MESSAGE_SIZE];
    if (!m->log_begun || m->log_ended)
        return status;
    snprintf(message, sizeof message, "%s", status != RC_OK ? rc_message() : "");
    if (status == RC_OK) {
        snprintf(message, sizeof message, "stopped after task %d of %d", m->results->done, all_tasks(m));
        RC_TRY(rc_events_end(&m->events, "stopped", message));
        return rc_events_sync(&m->events);
    }
    (void)rc_events_end(&m->events, status == RC_CANCELLED ? "stopped" : "failed", message);
    return rc_fail(status, "%s", message);
}

rc_status rc_cell_run(rc_cell *cell, rc_backend *backend, const rc_cell_hooks *hooks)
{
    cell_run *m = rc_alloc_zeroed(NULL, 1, sizeof *m);
    if (m == NULL)
        return RC_OUT_OF_MEMORY;
    *m = (cell_run){.cell = cell, .trial = cell->trial, .results = &cell->results, .backend = backend, .hooks = hooks};
    rc_status status = run_tasks(m);
    if (status == RC_DEVICE || status == RC_OUT_OF_MEMORY || (status == RC_CANCELLED && rc_stopped()))
        status = name_saved(m, status);
    status = end_log(m, status);
    rc_events_close(&m->events);
    rc_safetensors_close(m->checkpoint);
    rc_saved_model_destroy(&m->model);
    rc_free(NULL, m);
    return status;
}

/* ---- the other processes ---------------------------------------------------------------------------------------- */

static rc_status say_nothing(void *user, const rc_stage_report *report)
{
    (void)user;
    (void)report;
    return RC_OK;
}

static rc_status follow(cell_run *m, const rc_cell_order *order)
{
    rc_stage_hooks hooks = {.boundary = say_nothing, .restore = restore, .user = m, .interval = INFINITY};
    rc_position position;
    if (order->model[0] != '\0')
        RC_TRY(load_model(m, order->model, NULL, order->task));
    else
        RC_TRY(make_learner(m));
    if (order->checkpoint[0] != '\0')
        RC_TRY(rc_checkpoint_open(order->checkpoint, order->fingerprint, &position, &m->checkpoint));
    RC_TRY(begin_task(m, order->task));
    return rc_run_stages(&m->model.learner, (rc_stage)order->stage, order->step, &hooks, NULL);
}

rc_status rc_cell_follow(const rc_trial *trial, rc_backend *backend, const rc_cell_order *order)
{
    rc_cell cell = {.trial = trial};
    cell_run m = {.cell = &cell, .trial = trial, .results = &cell.results, .backend = backend};
    snprintf(cell.path, sizeof cell.path, "%s", order->trial); /* for messages */
    rc_status status = rc_method_find(order->method, &cell.method);
    if (status == RC_OK)
        status = follow(&m, order);
    rc_safetensors_close(m.checkpoint);
    rc_saved_model_destroy(&m.model);
    return status;
}
