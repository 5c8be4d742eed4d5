#include "run/experiment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "run/checkpoint.h"
#include "run/events.h"
#include "run/forecast.h"
#include "run/model_file.h"
#include "run/run_folder.h"

/* What all methods of a run share. */
typedef struct experiment {
    const rc_run_settings *settings;
    rc_backend *backend;
    const rc_dataset *data;
    const rc_task_stream *stream;
    int tasks;    /* to run */
    char **names; /* (classes) by position */
    int *images;  /* (classes) by position: training images */
    rc_run_folder folder;
    rc_forecast forecast;
    double first_wall[RC_STAGE_COUNT]; /* seconds in the stages of the first task */
} experiment;

/* All that one method's run needs at hand. */
typedef struct method_run {
    experiment *x;
    const rc_method *method;
    int index; /* in the list of methods; -1: the first task, for all */
    char folder[RC_PATH_SIZE], fingerprint[RC_FINGERPRINT_SIZE], where[64];
    rc_watch watch;
    rc_saved_model model; /* class_name is borrowed from the experiment's names while a file is written */
    rc_results results;
    rc_events events;
    double last_saved, wall[RC_STAGE_COUNT];
    rc_safetensors *checkpoint; /* that the task goes on from; NULL: none */
} method_run;

/* ---- how much there is to do ---------------------------------------------------------------------------------- */

/* Training images of every class, by position, that are used. */
static rc_status count_images(experiment *x)
{
    int limit = x->settings->config.images_per_class;
    x->images = rc_alloc_zeroed(NULL, (size_t)x->data->classes, sizeof *x->images);
    if (x->images == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < x->data->train.count; i++) {
        int *count = &x->images[x->stream->position[x->data->train.labels[i]]];
        *count += limit == 0 || *count < limit;
    }
    return RC_OK;
}

static int task_images(const experiment *x, const rc_method *method, int task)
{
    int count = 0, first = method->replay == RC_REPLAY_ALL ? 0 : rc_task_first(x->stream, task);
    for (int position = first; position < x->stream->task_end[task]; position++)
        count += x->images[position];
    return count;
}

static void add_task(const experiment *x, const rc_method *method, int task, rc_workload *work)
{
    rc_workload_add(work, &x->settings->config.settings, method, rc_task_first(x->stream, task),
                    rc_task_classes(x->stream, task), task_images(x, method, task));
}

/* Everything after task `task` of method number `index`; -1, -1: everything. Tasks whose model is there are done. */
static rc_workload work_after(const experiment *x, int index, int task)
{
    rc_workload work = {0};
    char path[RC_PATH_SIZE], name[64];
    for (int m = index < 0 ? 0 : index; m < x->settings->methods; m++) {
        const rc_method *method = x->settings->method[m];
        for (int t = m == index ? task + 1 : 1; t < x->tasks; t++) {
            snprintf(name, sizeof name, "%s/task-%d.safetensors", method->name, t + 1);
            if (rc_path_in(x->settings->out, name, path) != RC_OK || !rc_file_exists(path))
                add_task(x, method, t, &work);
        }
    }
    return work;
}

/* The row whose first task serves all: one that estimates, whichever methods are asked for now. */
static const rc_method *first_task_method(void)
{
    int i = 0;
    while (!rc_method_at(i)->dce)
        i++;
    return rc_method_at(i);
}

/* The image shape and normalisation of the data. */
static rc_augment image_of(const rc_dataset *d)
{
    rc_augment image = {.h = d->h, .w = d->w, .c = d->c};
    memcpy(image.mean, d->mean, sizeof image.mean);
    memcpy(image.std, d->std, sizeof image.std);
    return image;
}

/* The method of a later task that takes the most. */
static const rc_method *heaviest_method(const experiment *x)
{
    const rc_method *heaviest = x->settings->method[0];
    for (int m = 1; m < x->settings->methods; m++)
        if (x->settings->method[m]->replay == RC_REPLAY_DREAMS)
            heaviest = x->settings->method[m];
    return heaviest;
}

/* Times a few steps where there are many to come, and says what it will take. */
static rc_status forecast_run(experiment *x)
{
    enum { MANY_STEPS = 200 };
    const rc_run_settings *s = x->settings;
    const rc_settings *settings = &s->config.settings;
    const rc_split *train = &x->data->train;
    char first[RC_PATH_SIZE];
    rc_workload work = work_after(x, -1, -1);
    size_t bytes = 0, later = 0, image = (size_t)x->data->h * (size_t)x->data->w * (size_t)x->data->c, most = 0;
    RC_TRY(rc_path_in(s->out, "first-task/task-1.safetensors", first));
    if (!rc_file_exists(first))
        add_task(x, first_task_method(), 0, &work);
    if (rc_workload_steps(&work) < MANY_STEPS)
        return RC_OK;
    rc_augment shape = image_of(x->data);
    RC_TRY(rc_forecast_measure(&x->forecast, x->backend, settings, first_task_method(), &shape, 0,
                               rc_task_classes(x->stream, 0), train->images, train->count, &bytes));
    if (x->tasks > 1)
        RC_TRY(rc_forecast_measure(&x->forecast, x->backend, settings, heaviest_method(x), &shape,
                                   rc_task_first(x->stream, x->tasks - 1), rc_task_classes(x->stream, x->tasks - 1),
                                   train->images, train->count, &later));
    for (int m = 0; m < s->methods; m++)
        for (int t = 0; t < x->tasks; t++) {
            size_t images = (size_t)task_images(x, s->method[m], t) * image;
            most = images > most ? images : most;
        }
    rc_forecast_tell(&s->watch.log, rc_forecast_seconds(&x->forecast, &work), (bytes > later ? bytes : later) + most);
    return RC_OK;
}

/* ---- between steps -------------------------------------------------------------------------------------------- */

static rc_status save_checkpoint(method_run *m, const rc_stage_report *report)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(m->folder, "checkpoint.safetensors", path));
    rc_position position = {.task = report->task, .stage = report->stage, .step = report->step};
    if (report->stage == RC_STAGE_ESTIMATION)
        position.step = 0; /* it begins anew */
    memcpy(position.wall, m->wall, sizeof position.wall);
    RC_TRY(rc_events_position(&m->events, &position.log_offset, &position.seconds));
    rc_status status = rc_checkpoint_save(path, m->x->backend, report->state, &position, m->fingerprint);
    if (status == RC_NUMERIC)
        return rc_fail(RC_NUMERIC,
                       "task %d, %s, step %u of %u: %s. It is not saved, the last checkpoint is intact; a lower "
                       "learning rate may help",
                       report->task + 1, rc_stage_name(report->stage), report->step, report->steps, rc_message());
    m->last_saved = rc_now();
    return status;
}

static rc_status boundary(void *user, const rc_stage_report *report)
{
    method_run *m = user;
    double speed, stage_left, left;
    rc_forecast_update(&m->x->forecast, report, &speed, &stage_left, &left);
    RC_TRY(rc_events_stage(&m->events, report));
    rc_watch_stage(&m->watch, report, speed, stage_left, left);
    bool stop = rc_watch_cancelled(&m->watch);
    if (stop || rc_now() - m->last_saved > m->x->settings->checkpoint_seconds)
        RC_TRY(save_checkpoint(m, report));
    return stop ? rc_fail(RC_CANCELLED, "stopped and saved in task %d, %s, step %u of %u; --resume goes on from there",
                          report->task + 1, rc_stage_name(report->stage), report->step, report->steps)
                : RC_OK;
}

static rc_status restore(void *user, rc_state *state)
{
    method_run *m = user;
    rc_status status = m->checkpoint != NULL ? rc_checkpoint_restore(m->checkpoint, m->x->backend, state) : RC_OK;
    return status == RC_OK || status == RC_OUT_OF_MEMORY
               ? status
               : rc_fail(status, "%s/checkpoint.safetensors: %s", m->folder, rc_message());
}

/* Whose task it is. */
static const char *title_of(const method_run *m)
{
    return m->index < 0 ? "All methods" : m->method->title;
}

/* ---- one task ------------------------------------------------------------------------------------------------- */

/* Keeps the first `limit` images of every class. */
static rc_status limit_classes(const method_run *m, int32_t *index, int *count, int limit)
{
    int *taken = rc_alloc_zeroed(NULL, (size_t)m->x->stream->classes, sizeof *taken);
    if (taken == NULL)
        return RC_OUT_OF_MEMORY;
    int kept = 0;
    for (int i = 0; i < *count; i++)
        if (taken[m->x->data->train.labels[index[i]]]++ < limit)
            index[kept++] = index[i];
    *count = kept;
    rc_free(NULL, taken);
    return RC_OK;
}

/* Training images of the task, with positions as labels; all classes so far for methods that keep their data. */
static rc_status gather_images(method_run *m, int task, uint8_t **images, int32_t **labels, int *count)
{
    const rc_split *train = &m->x->data->train;
    int end = m->x->stream->task_end[task], limit = m->x->settings->config.images_per_class;
    int first = m->method->replay == RC_REPLAY_ALL ? 0 : rc_task_first(m->x->stream, task);
    size_t image = (size_t)m->x->data->h * (size_t)m->x->data->w * (size_t)m->x->data->c;
    int32_t *index;
    *images = NULL;
    RC_TRY(rc_task_images(m->x->stream, train, first, end, &index, count));
    rc_status status = limit > 0 ? limit_classes(m, index, count, limit) : RC_OK;
    if (status == RC_OK && (*images = rc_alloc_zeroed(NULL, (size_t)*count + 1, image)) == NULL)
        status = RC_OUT_OF_MEMORY;
    *labels = index; /* overwritten in place */
    if (status != RC_OK) {
        rc_free(NULL, index);
        return status;
    }
    for (int i = 0; i < *count; i++) {
        memcpy(*images + (size_t)i * image, train->images + (size_t)index[i] * image, image);
        index[i] = m->x->stream->position[train->labels[index[i]]];
    }
    return RC_OK;
}

static rc_status begin_task(method_run *m, int task)
{
    uint8_t *images;
    int32_t *labels;
    int count;
    RC_TRY(gather_images(m, task, &images, &labels, &count));
    rc_status status = rc_learner_begin_task(&m->model.learner, task, rc_task_classes(m->x->stream, task), images,
                                             labels, count);
    rc_free(NULL, images);
    rc_free(NULL, labels);
    return status;
}

static rc_status evaluate(method_run *m)
{
    const experiment *x = m->x;
    rc_learner *l = &m->model.learner;
    double began = rc_now();
    rc_evaluation evaluation;
    RC_TRY(rc_evaluate(x->backend, &l->student, &l->augment, x->stream, &x->data->test,
                       x->settings->config.test_batch, &evaluation));
    size_t count = (size_t)l->student.head.classes * (size_t)l->student.head.d;
    float *head = rc_alloc_zeroed(NULL, count, sizeof *head);
    rc_status status = head != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        x->backend->read_real(x->backend, head, l->student.head.weight, count);
        status = rc_results_add(&m->results, &evaluation, head, l->student.head.d, m->wall, rc_now() - began);
    }
    rc_free(NULL, head);
    rc_evaluation_destroy(&evaluation);
    return status;
}

static rc_status write_report(const method_run *m, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    const char *version = NULL, *command = NULL;
    rc_status status = rc_json_get_string(m->x->folder.identity, "version", &version);
    if (status == RC_OK)
        status = rc_json_get_string(m->x->folder.identity, "command_line", &command);
    if (status != RC_OK) {
        rc_file_writer_abort(writer);
        return status;
    }
    char seed[64];
    snprintf(seed, sizeof seed, "seed %llu, recollect %s",
             (unsigned long long)m->x->settings->config.settings.seed, version);
    rc_file_writer_line(writer, command);
    rc_file_writer_line(writer, seed);
    rc_file_writer_line(writer, "");
    rc_results_report(&m->results, m->x->names, rc_file_writer_line, writer);
    return rc_file_writer_commit(writer);
}

static rc_status write_results(method_run *m)
{
    char path[RC_PATH_SIZE];
    json_t *json;
    RC_TRY(rc_path_in(m->folder, "tasks.csv", path));
    RC_TRY(rc_results_write_csv(&m->results, path));
    RC_TRY(rc_path_in(m->folder, "classes.csv", path));
    RC_TRY(rc_results_write_classes(&m->results, m->x->names, path));
    RC_TRY(rc_path_in(m->folder, "confusion.csv", path));
    RC_TRY(rc_results_write_confusion(&m->results, m->x->names, path));
    RC_TRY(rc_path_in(m->folder, "results.txt", path));
    RC_TRY(write_report(m, path));
    RC_TRY(rc_path_in(m->folder, "results.json", path));
    RC_TRY(rc_results_to_json(&m->results, m->x->names, &json));
    json_object_set(json, "run", m->x->folder.identity);
    rc_status status = rc_json_save(json, 2, path);
    json_decref(json);
    return status;
}

static rc_status save_model(method_run *m, int task)
{
    char name[64], path[RC_PATH_SIZE];
    snprintf(name, sizeof name, "task-%d.safetensors", task + 1);
    RC_TRY(rc_path_in(m->folder, name, path));
    m->model.class_name = m->x->names;
    rc_status status = rc_model_file_save(path, &m->model);
    m->model.class_name = NULL;
    return status;
}

static rc_status remove_checkpoint(const method_run *m)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(m->folder, "checkpoint.safetensors", path));
    if (unlink(path) != 0 && errno != ENOENT)
        return rc_fail(RC_IO, "cannot remove '%s': %s", path, strerror(errno));
    return RC_OK;
}

/* Model first, results.json as the last of the results, checkpoint after that: a kill before results.json is there
 * repeats the end of the task, with the same bits; a kill after it leaves an old checkpoint, which is known as such. */
static rc_status finish_task(method_run *m, int task)
{
    char text[160];
    RC_TRY(evaluate(m));
    rc_learner_end_task(&m->model.learner);
    RC_TRY(save_model(m, task));
    RC_TRY(rc_events_task(&m->events, &m->results));
    RC_TRY(rc_events_position(&m->events, &m->results.log_offset, &m->results.seconds));
    RC_TRY(write_results(m));
    RC_TRY(remove_checkpoint(m));
    const rc_task_result *t = &m->results.task[task];
    snprintf(text, sizeof text, "%s, task %d of %d: accuracy %.2f %% over %d classes, mean so far %.2f %%",
             title_of(m), task + 1, m->x->stream->tasks, t->accuracy, t->classes, rc_results_mean(&m->results));
    m->x->settings->line(m->watch.user, text);
    return RC_OK;
}

/* Where a checkpoint says that the task is, if there is one. */
static rc_status find_checkpoint(method_run *m, int task, rc_position *position)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(m->folder, "checkpoint.safetensors", path));
    if (!rc_file_exists(path))
        return RC_OK;
    rc_position found;
    RC_TRY(rc_checkpoint_open(path, m->fingerprint, &found, &m->checkpoint));
    if (found.task < task) { /* of a task whose results are there */
        rc_safetensors_close(m->checkpoint);
        m->checkpoint = NULL;
        return remove_checkpoint(m);
    }
    if (found.task > task)
        return rc_fail(RC_FORMAT, "%s is of task %d, but the results end before task %d", path, found.task + 1,
                       task + 1);
    *position = found;
    memcpy(m->wall, found.wall, sizeof m->wall);
    return rc_events_cut(&m->events, found.log_offset, found.seconds);
}

static rc_status run_task(method_run *m, int task)
{
    rc_stage_hooks hooks = {.boundary = boundary, .restore = restore, .user = m,
                            .interval = m->x->settings->report_seconds};
    rc_position position = {.task = task, .stage = RC_STAGE_INVERSION};
    rc_workload later = work_after(m->x, m->index, task);
    memset(m->wall, 0, sizeof m->wall);
    snprintf(m->where, sizeof m->where, "%s, task %d of %d, ", title_of(m), task + 1, m->x->stream->tasks);
    m->watch.where = m->where;
    RC_TRY(find_checkpoint(m, task, &position));
    RC_TRY(begin_task(m, task));
    m->last_saved = rc_now();
    rc_forecast_begin_task(&m->x->forecast, &m->model.learner, &later);
    RC_TRY(rc_run_stages(&m->model.learner, position.stage, position.step, &hooks, m->wall));
    rc_safetensors_close(m->checkpoint);
    m->checkpoint = NULL;
    return finish_task(m, task);
}

/* ---- one method ----------------------------------------------------------------------------------------------- */

static rc_status load_results(method_run *m)
{
    char path[RC_PATH_SIZE];
    json_t *json;
    RC_TRY(rc_path_in(m->folder, "results.json", path));
    if (!rc_file_exists(path))
        return RC_OK;
    RC_TRY(rc_json_load(path, 64u << 20, &json));
    rc_status status = rc_results_from_json(&m->results, json);
    json_decref(json);
    return status == RC_OK ? RC_OK : rc_fail(status, "%s: %s", path, rc_message());
}

/* The model after the last finished task; without one, and without a first task to begin from, a new learner. */
static rc_status pick_up(method_run *m, const char *first_task)
{
    char path[RC_PATH_SIZE], name[64];
    if (m->results.done == 0 && first_task == NULL) {
        rc_augment image = image_of(m->x->data);
        m->model.config = m->x->settings->config;
        m->model.config.data[0] = '\0'; /* where the images lie is nobody's business, and may change */
        return rc_learner_create(&m->model.learner, m->x->backend, &m->model.config.settings, m->method, &image);
    }
    snprintf(name, sizeof name, "task-%d.safetensors", m->results.done > 0 ? m->results.done : 1);
    RC_TRY(rc_path_in(m->results.done > 0 ? m->folder : first_task, name, path));
    RC_TRY(rc_model_file_load(path, m->x->backend, &m->model));
    for (int i = 0; i < m->model.learner.student.head.classes; i++)
        rc_free(NULL, m->model.class_name[i]);
    rc_free(NULL, m->model.class_name);
    m->model.class_name = NULL;
    return rc_learner_set_method(&m->model.learner, m->method);
}

static rc_status open_events(method_run *m)
{
    char path[RC_PATH_SIZE];
    RC_TRY(rc_path_in(m->folder, "events.jsonl", path));
    RC_TRY(rc_events_open(&m->events, path, m->results.log_offset, m->results.seconds));
    return m->results.log_offset == 0 ? rc_events_run(&m->events, m->x->folder.identity) : RC_OK;
}

/* first_task: folder of a finished first task to begin from; NULL: train it. */
static rc_status run_method(method_run *m, const char *first_task, int tasks)
{
    RC_TRY(rc_run_fingerprint(&m->x->folder, m->method->name, m->x->stream, m->fingerprint));
    RC_TRY(rc_make_run_folder(m->folder));
    RC_TRY(rc_results_create(&m->results, m->method->name, m->x->stream));
    RC_TRY(load_results(m));
    RC_TRY(pick_up(m, first_task));
    RC_TRY(open_events(m));
    if (m->results.done == 0 && first_task != NULL) {
        memcpy(m->wall, m->x->first_wall, sizeof m->wall);
        RC_TRY(finish_task(m, 0));
    }
    for (int task = m->results.done; task < tasks; task++)
        RC_TRY(run_task(m, task));
    return remove_checkpoint(m);
}

static void close_method(method_run *m)
{
    rc_events_close(&m->events);
    rc_safetensors_close(m->checkpoint);
    rc_saved_model_destroy(&m->model);
}

/* ---- the experiment ------------------------------------------------------------------------------------------- */

static rc_status read_data(const rc_run_settings *s, rc_pool *pool, rc_dataset *data)
{
    const rc_config *c = &s->config;
    rc_watch watch = s->watch;
    rc_data_settings settings = {.format = c->format, .size = c->size, .resize = c->resize, .channels = c->channels,
                                 .ignore_exif = !c->exif, .skip_broken = s->skip_broken, .test_part = 0.2,
                                 .test_seed = c->settings.seed, .procedural_seed = c->settings.seed, .pool = pool,
                                 .log = &s->watch.log, .progress = rc_watch_reading, .user = &watch};
    RC_TRY(rc_dataset_open(c->data, &settings, data));
    rc_status status = rc_config_normalisation(c, data->c, data->mean, data->std);
    if (status == RC_OK && (data->train.count == 0 || data->test.count == 0))
        status = rc_fail(RC_INVALID_ARGUMENT, "%s has %d training and %d test images; a run needs both", c->data,
                         data->train.count, data->test.count);
    if (status != RC_OK)
        rc_dataset_close(data);
    return status;
}

static rc_status open_data(const rc_run_settings *s, rc_dataset *data)
{
    if (s->config.data[0] == '\0')
        return rc_fail(RC_INVALID_ARGUMENT, "no data: --data says where the images are, 'procedural' makes some");
    rc_pool *pool;
    RC_TRY(rc_pool_create(s->threads, &pool));
    rc_status status = read_data(s, pool, data);
    rc_pool_destroy(pool);
    if (s->resume && (status == RC_IO || status == RC_FORMAT || status == RC_INVALID_ARGUMENT))
        return rc_fail(status,
                       "%s. The run in %s is as it was: --resume goes on once the data is there (--data PATH if it "
                       "lies elsewhere now)",
                       rc_message(), s->out);
    return status;
}

static rc_status run_all(experiment *x, rc_results *results)
{
    const rc_run_settings *s = x->settings;
    char first_task[RC_PATH_SIZE];
    RC_TRY(rc_path_in(s->out, "first-task", first_task));
    RC_TRY(forecast_run(x));
    for (int i = -1; i < s->methods; i++) {
        bool shared = i < 0; /* the first task, for all */
        method_run m = {.x = x, .index = i, .watch = s->watch,
                        .method = shared ? first_task_method() : s->method[i]};
        RC_TRY(rc_path_in(s->out, shared ? "first-task" : m.method->name, m.folder));
        rc_status status = run_method(&m, shared ? NULL : first_task, shared ? 1 : x->tasks);
        close_method(&m);
        if (shared) {
            memcpy(x->first_wall, m.results.task[0].wall, sizeof x->first_wall);
            rc_results_destroy(&m.results);
        } else {
            results[i] = m.results;
        }
        RC_TRY(status);
    }
    return RC_OK;
}

/* Order and tasks; the names of the classes by position. */
static rc_status cut_into_tasks(const rc_run_settings *s, const rc_dataset *data, rc_task_stream *stream, char **names)
{
    rc_task_split split;
    int *order = NULL;
    RC_TRY(rc_config_split(&s->config, &split));
    RC_TRY(rc_config_class_order(&s->config, data->classes, &order));
    rc_status status = rc_task_stream_create(stream, data->classes, order, &split);
    rc_free(NULL, order);
    for (int i = 0; status == RC_OK && i < data->classes; i++)
        names[i] = data->class_name[stream->order[i]];
    return status;
}

static rc_status run_with_data(experiment *x)
{
    const rc_run_settings *s = x->settings;
    rc_run_identity identity = {&s->config, x->data, x->backend, s->command_line};
    rc_task_stream stream = {0};
    x->names = rc_alloc_zeroed(NULL, (size_t)x->data->classes, sizeof *x->names);
    rc_results *results = rc_alloc_zeroed(NULL, (size_t)s->methods, sizeof *results);
    rc_status status = x->names != NULL && results != NULL ? cut_into_tasks(s, x->data, &stream, x->names)
                                                           : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_run_folder_open(&x->folder, s->out, &identity, s->resume);
    if (status == RC_OK) {
        x->stream = &stream;
        x->tasks = s->stop_after > 0 && s->stop_after < stream.tasks ? s->stop_after : stream.tasks;
        status = count_images(x);
    }
    if (status == RC_OK)
        status = run_all(x, results);
    if (status == RC_OK)
        rc_results_print(results, s->methods, s->line, s->watch.user);
    for (int i = 0; results != NULL && i < s->methods; i++)
        rc_results_destroy(&results[i]);
    rc_run_folder_close(&x->folder);
    rc_free(NULL, results);
    rc_free(NULL, x->names);
    rc_free(NULL, x->images);
    rc_task_stream_destroy(&stream);
    return status;
}

rc_status rc_experiment_run(rc_backend *backend, const rc_run_settings *settings)
{
    if (settings->methods < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "no method to run");
    RC_TRY(rc_config_check(&settings->config));
    rc_dataset data;
    RC_TRY(open_data(settings, &data));
    experiment *x = rc_alloc_zeroed(NULL, 1, sizeof *x);
    rc_status status = RC_OUT_OF_MEMORY;
    if (x != NULL) {
        *x = (experiment){.settings = settings, .backend = backend, .data = &data};
        status = run_with_data(x);
    }
    rc_free(NULL, x);
    rc_dataset_close(&data);
    if (status != RC_IO)
        return status;
    return rc_fail(RC_IO, "%s. What was saved before is intact: once there is room to write in %s, --resume goes on",
                   rc_message(), settings->out);
}
