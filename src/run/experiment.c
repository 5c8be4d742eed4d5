#include "run/experiment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/class_order.h"
#include "run/checkpoint.h"
#include "run/events.h"
#include "run/forecast.h"
#include "run/model_file.h"

enum { PATH_SIZE = 1024, FINGERPRINT_SIZE = 64 };

/* All that one method's run needs at hand. */
typedef struct method_run {
    const rc_run_settings *settings;
    rc_backend *backend;
    const rc_dataset *data;
    const rc_task_stream *stream;
    const rc_method *method;
    char folder[PATH_SIZE], fingerprint[FINGERPRINT_SIZE];
    rc_saved_model model; /* class_name is borrowed from `names` */
    char **names;         /* (classes) by position */
    rc_results results;
    rc_events events;
    rc_forecast forecast;
    double last_saved, wall[RC_STAGE_COUNT];
    rc_safetensors *checkpoint; /* that the task goes on from; NULL: none */
} method_run;

static rc_status path_in(const char *folder, const char *name, char path[PATH_SIZE])
{
    int length = snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    if (length > 0 && length < PATH_SIZE)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "the path %s/%s is too long", folder, name);
}

static rc_status make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return RC_OK;
    return rc_fail(RC_IO, "the folder %s cannot be made: %s", path, strerror(errno));
}

/* ---- class order --------------------------------------------------------------------------------------------- */

static rc_status parse_order(const char *text, int classes, int *order)
{
    int count = 0, used;
    for (const char *p = text; *p != '\0'; p += used) {
        used = (int)strspn(p, " ,[]");
        if (used > 0)
            continue;
        int class;
        if (sscanf(p, "%d%n", &class, &used) != 1)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "class_order is '%s', expected published, numpy, natural, seed or a list of numbers", text);
        if (count < classes)
            order[count] = class;
        count++;
    }
    return count == classes ? RC_OK : rc_fail(RC_INVALID_ARGUMENT, "class_order lists %d classes, the data has %d",
                                              count, classes);
}

rc_status rc_config_class_order(const rc_config *config, int classes, int **order)
{
    *order = rc_alloc_zeroed(NULL, (size_t)classes, sizeof **order);
    uint32_t *scratch = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *scratch);
    rc_status status = *order != NULL && scratch != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    const char *kind = config->class_order;
    if (status == RC_OK && strcmp(kind, "published") == 0)
        rc_class_order_python((uint32_t)config->order, classes, *order);
    else if (status == RC_OK && strcmp(kind, "numpy") == 0)
        rc_class_order_numpy((uint32_t)config->order, classes, *order);
    else if (status == RC_OK && strcmp(kind, "seed") == 0)
        rc_class_order_seeded((uint64_t)config->order, classes, *order, scratch);
    else if (status == RC_OK && strcmp(kind, "natural") == 0)
        for (int i = 0; i < classes; i++)
            (*order)[i] = i;
    else if (status == RC_OK)
        status = parse_order(kind, classes, *order);
    rc_free(NULL, scratch);
    if (status != RC_OK) {
        rc_free(NULL, *order);
        *order = NULL;
    }
    return status;
}

/* ---- between steps ------------------------------------------------------------------------------------------- */

static rc_status save_checkpoint(method_run *m, const rc_stage_report *report)
{
    char path[PATH_SIZE];
    RC_TRY(path_in(m->folder, "checkpoint.safetensors", path));
    rc_position position = {.task = report->task, .stage = report->stage, .step = report->step,
                            .log_offset = rc_events_offset(&m->events)};
    RC_TRY(rc_events_flush(&m->events));
    RC_TRY(rc_checkpoint_save(path, m->backend, report->state, &position, m->fingerprint));
    m->last_saved = rc_now();
    return RC_OK;
}

static rc_status boundary(void *user, const rc_stage_report *report)
{
    method_run *m = user;
    const rc_run_settings *s = m->settings;
    rc_run_progress progress = {.method = m->method->title, .tasks = m->stream->tasks, .report = *report};
    rc_forecast_update(&m->forecast, report, &progress.images_per_second, &progress.stage_left, &progress.run_left);
    RC_TRY(rc_events_stage(&m->events, report));
    if (s->progress != NULL)
        s->progress(s->user, &progress);
    bool stop = s->cancelled != NULL && s->cancelled(s->user);
    bool can_save = report->stage != RC_STAGE_ESTIMATION; /* which begins anew anyhow */
    if (can_save && (stop || rc_now() - m->last_saved > s->checkpoint_seconds))
        RC_TRY(save_checkpoint(m, report));
    return stop ? rc_fail(RC_CANCELLED, "stopped in task %d, %s, step %u of %u; --resume goes on from there",
                          report->task + 1, rc_stage_name(report->stage), report->step, report->steps)
                : RC_OK;
}

static rc_status restore(void *user, rc_state *state)
{
    method_run *m = user;
    return m->checkpoint != NULL ? rc_checkpoint_restore(m->checkpoint, m->backend, state) : RC_OK;
}

/* ---- one task ------------------------------------------------------------------------------------------------ */

/* Keeps the first `limit` images of every class. */
static rc_status limit_classes(const method_run *m, int32_t *index, int *count, int limit)
{
    int *taken = rc_alloc_zeroed(NULL, (size_t)m->stream->classes, sizeof *taken);
    if (taken == NULL)
        return RC_OUT_OF_MEMORY;
    int kept = 0;
    for (int i = 0; i < *count; i++)
        if (taken[m->data->train.labels[index[i]]]++ < limit)
            index[kept++] = index[i];
    *count = kept;
    rc_free(NULL, taken);
    return RC_OK;
}

/* Training images of the task, with positions as labels; all classes so far for methods that keep their data. */
static rc_status gather_images(method_run *m, int task, uint8_t **images, int32_t **labels, int *count)
{
    const rc_split *train = &m->data->train;
    int end = m->stream->task_end[task], limit = m->settings->config.images_per_class;
    int first = m->method->replay == RC_REPLAY_ALL ? 0 : rc_task_first(m->stream, task);
    size_t image = (size_t)m->data->h * (size_t)m->data->w * (size_t)m->data->c;
    int32_t *index;
    *images = NULL;
    RC_TRY(rc_task_images(m->stream, train, first, end, &index, count));
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
        index[i] = m->stream->position[train->labels[index[i]]];
    }
    return RC_OK;
}

static rc_status begin_task(method_run *m, int task)
{
    uint8_t *images;
    int32_t *labels;
    int count;
    RC_TRY(gather_images(m, task, &images, &labels, &count));
    rc_status status = rc_learner_begin_task(&m->model.learner, task, rc_task_classes(m->stream, task), images, labels,
                                             count);
    rc_free(NULL, images);
    rc_free(NULL, labels);
    return status;
}

static rc_status write_results(method_run *m)
{
    char path[PATH_SIZE];
    json_t *json;
    RC_TRY(path_in(m->folder, "tasks.csv", path));
    RC_TRY(rc_results_write_csv(&m->results, path));
    RC_TRY(path_in(m->folder, "confusion.csv", path));
    RC_TRY(rc_results_write_confusion(&m->results, m->names, path));
    RC_TRY(path_in(m->folder, "results.json", path));
    RC_TRY(rc_results_to_json(&m->results, m->names, &json));
    rc_status status = rc_json_save(json, 2, path);
    json_decref(json);
    return status;
}

static rc_status evaluate(method_run *m)
{
    rc_learner *l = &m->model.learner;
    double began = rc_now();
    rc_evaluation evaluation;
    RC_TRY(rc_evaluate(m->backend, &l->student, &l->augment, m->stream, &m->data->test, m->settings->config.test_batch,
                       &evaluation));
    size_t count = (size_t)l->student.head.classes * (size_t)l->student.head.d;
    float *head = rc_alloc_zeroed(NULL, count, sizeof *head);
    rc_status status = head != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    if (status == RC_OK) {
        m->backend->read_real(m->backend, head, l->student.head.weight, count);
        status = rc_results_add(&m->results, &evaluation, head, l->student.head.d, m->wall, rc_now() - began);
    }
    rc_free(NULL, head);
    rc_evaluation_destroy(&evaluation);
    return status;
}

/* Model first, results after it, checkpoint last: a kill in between repeats the end of the task, with the same bits. */
static rc_status finish_task(method_run *m, int task)
{
    char name[64], path[PATH_SIZE], text[160];
    RC_TRY(evaluate(m));
    rc_learner_end_task(&m->model.learner);
    m->model.class_name = m->names;
    snprintf(name, sizeof name, "task-%d.safetensors", task + 1);
    RC_TRY(path_in(m->folder, name, path));
    rc_status status = rc_model_file_save(path, &m->model);
    m->model.class_name = NULL;
    RC_TRY(status);
    RC_TRY(rc_events_task(&m->events, &m->results));
    RC_TRY(rc_events_flush(&m->events));
    RC_TRY(write_results(m));
    RC_TRY(path_in(m->folder, "checkpoint.safetensors", path));
    if (unlink(path) != 0 && errno != ENOENT)
        return rc_fail(RC_IO, "%s cannot be removed: %s", path, strerror(errno));
    const rc_task_result *t = &m->results.task[task];
    snprintf(text, sizeof text, "%s, task %d of %d: accuracy %.2f %% over %d classes, mean so far %.2f %%",
             m->method->title, task + 1, m->stream->tasks, t->accuracy, t->classes, rc_results_mean(&m->results));
    m->settings->line(m->settings->user, text);
    return RC_OK;
}

static rc_status run_task(method_run *m, int task)
{
    rc_stage_hooks hooks = {.boundary = boundary, .restore = restore, .user = m,
                            .interval = m->settings->report_seconds};
    rc_position position = {.task = task, .stage = RC_STAGE_INVERSION};
    char path[PATH_SIZE];
    memset(m->wall, 0, sizeof m->wall);
    RC_TRY(begin_task(m, task));
    RC_TRY(path_in(m->folder, "checkpoint.safetensors", path));
    if (rc_file_exists(path)) {
        RC_TRY(rc_checkpoint_open(path, m->fingerprint, &position, &m->checkpoint));
        if (position.task != task)
            return rc_fail(RC_FORMAT, "%s is of task %d, the results end before task %d", path, position.task + 1,
                           task + 1);
        RC_TRY(rc_events_cut(&m->events, position.log_offset));
    }
    m->last_saved = rc_now();
    rc_forecast_begin_task(&m->forecast, &m->model.learner, m->stream);
    RC_TRY(rc_run_stages(&m->model.learner, position.stage, position.step, &hooks, m->wall));
    rc_safetensors_close(m->checkpoint);
    m->checkpoint = NULL;
    return finish_task(m, task);
}

/* ---- one method ---------------------------------------------------------------------------------------------- */

/* Results that are there, and the model after the last finished task; task 0 begins with a new learner. */
static rc_status pick_up(method_run *m, const char *first_task)
{
    const rc_dataset *d = m->data;
    char path[PATH_SIZE], name[64];
    RC_TRY(path_in(m->folder, "results.json", path));
    if (rc_file_exists(path)) {
        json_t *json;
        RC_TRY(rc_json_load(path, 64u << 20, &json));
        rc_status status = rc_results_from_json(&m->results, json);
        json_decref(json);
        RC_TRY(status);
    }
    if (m->results.done == 0 && first_task == NULL) {
        rc_augment image = {.h = d->h, .w = d->w, .c = d->c};
        memcpy(image.mean, d->mean, sizeof image.mean);
        memcpy(image.std, d->std, sizeof image.std);
        m->model.config = m->settings->config;
        return rc_learner_create(&m->model.learner, m->backend, &m->settings->config.settings, m->method, &image);
    }
    snprintf(name, sizeof name, "task-%d.safetensors", m->results.done);
    RC_TRY(path_in(m->results.done > 0 ? m->folder : first_task, m->results.done > 0 ? name : "task-1.safetensors",
                   path));
    RC_TRY(rc_model_file_load(path, m->backend, &m->model));
    for (int i = 0; i < m->model.learner.student.head.classes; i++)
        rc_free(NULL, m->model.class_name[i]);
    rc_free(NULL, m->model.class_name);
    m->model.class_name = NULL;
    return rc_learner_set_method(&m->model.learner, m->method);
}

/* first_task: folder of a finished first task to begin from; NULL: train it. */
static rc_status run_method(method_run *m, const char *first_task, int tasks)
{
    char path[PATH_SIZE];
    RC_TRY(make_folder(m->folder));
    RC_TRY(rc_results_create(&m->results, m->method->name, m->stream));
    RC_TRY(pick_up(m, first_task));
    RC_TRY(path_in(m->folder, "events.jsonl", path));
    RC_TRY(rc_events_open(&m->events, path));
    if (m->results.done == 0 && first_task != NULL)
        RC_TRY(finish_task(m, 0));
    for (int task = m->results.done; task < tasks; task++)
        RC_TRY(run_task(m, task));
    return RC_OK;
}

static void close_method(method_run *m)
{
    rc_events_close(&m->events);
    rc_safetensors_close(m->checkpoint);
    rc_saved_model_destroy(&m->model);
}

/* ---- the experiment ------------------------------------------------------------------------------------------ */

static void append_line(void *user, const char *text)
{
    rc_file_writer *writer = user;
    /* A failure sticks to the writer and comes out of the commit. */
    if (rc_file_writer_append(writer, text, strlen(text)) == RC_OK)
        (void)rc_file_writer_append(writer, "\n", 1);
}

static rc_status write_config(const rc_run_settings *s, const char *path)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_status status = rc_config_print(&s->config, append_line, writer);
    if (status == RC_OK)
        return rc_file_writer_commit(writer);
    rc_file_writer_abort(writer);
    return status;
}

/* Configuration and identity of the run; a folder with another run in it is refused. */
static rc_status prepare_folder(const rc_run_settings *s, rc_backend *be)
{
    char config[PATH_SIZE], run[PATH_SIZE];
    RC_TRY(make_folder(s->out));
    RC_TRY(path_in(s->out, "config.yaml", config));
    RC_TRY(path_in(s->out, "run.json", run));
    if (rc_file_exists(run)) {
        if (!s->resume)
            return rc_fail(RC_INVALID_ARGUMENT,
                           "%s holds a run already: --resume goes on with it, another --out leaves it alone", s->out);
        return RC_OK;
    }
    RC_TRY(write_config(s, config));
    json_t *json = json_pack("{s:s, s:s, s:I, s:s, s:s, s:i}", "version", recollect_version(), "command_line",
                             s->command_line ? s->command_line : "", "seed", (json_int_t)s->config.settings.seed,
                             "backend", be->name, "isa", be->isa ? be->isa : "", "threads", be->threads);
    if (json == NULL)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory to describe the run");
    rc_status status = rc_json_save(json, 2, run);
    json_decref(json);
    return status;
}

static rc_status read_data(const rc_run_settings *s, rc_pool *pool, rc_dataset *data)
{
    const rc_config *c = &s->config;
    rc_data_settings settings = {.format = c->format, .size = c->size, .resize = c->resize, .channels = c->channels,
                                 .ignore_exif = !c->exif, .skip_broken = s->skip_broken, .test_part = 0.2,
                                 .test_seed = c->settings.seed, .procedural_seed = c->settings.seed, .pool = pool,
                                 .log = s->log, .progress = s->loading, .user = s->user};
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
    return status;
}

/* FNV-1a over everything that decides the bits of a method's run. */
static rc_status make_fingerprint(const rc_run_settings *s, const rc_method *method, const rc_dataset *data,
                                  const rc_task_stream *stream, char text[FINGERPRINT_SIZE])
{
    json_t *json;
    char *config;
    RC_TRY(rc_config_to_json(&s->config, &json));
    rc_status status = rc_json_dump(json, 0, &config);
    json_decref(json);
    RC_TRY(status);
    uint64_t hash = UINT64_C(14695981039346656037);
    const struct {
        const void *bytes;
        size_t size;
    } part[] = {{config, strlen(config)},
                {method->name, strlen(method->name)},
                {stream->order, (size_t)stream->classes * sizeof *stream->order},
                {stream->task_end, (size_t)stream->tasks * sizeof *stream->task_end},
                {data->train.labels, (size_t)data->train.count * sizeof *data->train.labels},
                {data->train.images, (size_t)data->h * (size_t)data->w * (size_t)data->c}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (size_t k = 0; k < part[i].size; k++)
            hash = (hash ^ ((const unsigned char *)part[i].bytes)[k]) * UINT64_C(1099511628211);
    rc_free(NULL, config);
    snprintf(text, FINGERPRINT_SIZE, "%016llx", (unsigned long long)hash);
    return RC_OK;
}

/* The row whose first task serves all: one that estimates, if any does. */
static const rc_method *first_task_method(const rc_run_settings *s)
{
    for (int i = 0; i < s->methods; i++)
        if (s->method[i]->dce)
            return s->method[i];
    return s->method[0];
}

static rc_status run_all(const rc_run_settings *s, rc_backend *be, const rc_dataset *data,
                         const rc_task_stream *stream, char **names, rc_results *results)
{
    int tasks = s->stop_after > 0 && s->stop_after < stream->tasks ? s->stop_after : stream->tasks;
    char first_task[PATH_SIZE];
    RC_TRY(path_in(s->out, "first-task", first_task));
    for (int i = -1; i < s->methods; i++) {
        bool shared = i < 0; /* the first task, for all */
        method_run m = {.settings = s, .backend = be, .data = data, .stream = stream, .names = names,
                        .method = shared ? first_task_method(s) : s->method[i]};
        RC_TRY(path_in(s->out, shared ? "first-task" : m.method->name, m.folder));
        RC_TRY(make_fingerprint(s, m.method, data, stream, m.fingerprint));
        rc_status status = run_method(&m, shared ? NULL : first_task, shared ? 1 : tasks);
        close_method(&m);
        if (shared)
            rc_results_destroy(&m.results);
        else
            results[i] = m.results;
        RC_TRY(status);
    }
    return RC_OK;
}

static rc_status run_with_data(const rc_run_settings *s, rc_backend *be, const rc_dataset *data)
{
    rc_task_stream stream = {0};
    rc_task_split split;
    int *order = NULL;
    char **names = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *names);
    rc_results *results = rc_alloc_zeroed(NULL, (size_t)s->methods, sizeof *results);
    rc_status status = names != NULL && results != NULL ? rc_config_split(&s->config, &split) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = rc_config_class_order(&s->config, data->classes, &order);
    if (status == RC_OK)
        status = rc_task_stream_create(&stream, data->classes, order, &split);
    for (int i = 0; status == RC_OK && i < data->classes; i++)
        names[i] = data->class_name[stream.order[i]];
    if (status == RC_OK)
        status = run_all(s, be, data, &stream, names, results);
    if (status == RC_OK)
        rc_results_print(results, s->methods, s->line, s->user);
    for (int i = 0; results != NULL && i < s->methods; i++)
        rc_results_destroy(&results[i]);
    rc_free(NULL, results);
    rc_free(NULL, names);
    rc_free(NULL, order);
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
    rc_status status = prepare_folder(settings, backend);
    if (status == RC_OK)
        status = run_with_data(settings, backend, &data);
    rc_dataset_close(&data);
    return status;
}
