#include "analysis/past_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/listing.h"
#include "data/stream.h"

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static rc_status find_file(const char *folder, char file[RC_PATH_SIZE], bool *there)
{
    RC_TRY(rc_path_in(folder, "run.json", file));
    return rc_file_find(file, there);
}

static rc_status find_run(const char *path, char file[RC_PATH_SIZE])
{
    char folder[RC_PATH_SIZE], inside[RC_PATH_SIZE];
    rc_listing listing = {0};
    struct stat about;
    bool there, several = false;
    RC_TRY(find_file(path, file, &there));
    if (there)
        return RC_OK;
    rc_status status = rc_file_look(path, true, &about);
    if (status == RC_OK && S_ISDIR(about.st_mode))
        status = rc_listing_look(path, &listing);
    for (int i = 0; i < listing.count && status == RC_OK && !several; i++) {
        status = rc_path_in(path, listing.name[i], folder);
        if (status == RC_OK)
            status = find_file(folder, inside, &several);
    }
    rc_listing_free(&listing);
    if (status != RC_OK)
        return status;
    return several ? rc_fail(RC_INVALID_ARGUMENT, "%s holds several runs: name one of the folders in it, such as %s",
                             path, folder)
                   : rc_fail(RC_INVALID_ARGUMENT, "%s is not the folder of a run: it has no run.json", path);
}

static rc_status read_identity(rc_past_run *run, const char *file)
{
    const rc_json *config;
    const char *data;
    RC_TRY(rc_json_load(file, 1 << 20, &run->identity));
    const rc_json *data_seed = rc_json_member(run->identity, "data_seed");
    run->config = rc_config_default();
    rc_status status = rc_json_get_object(run->identity, "config", &config);
    if (status == RC_OK)
        status = rc_json_get_string(run->identity, "data_fingerprint", &data);
    if (status == RC_OK)
        status = rc_config_from_json(&run->config, config);
    if (status == RC_OK)
        status = rc_config_check(&run->config);
    run->data_seed = data_seed != NULL ? (uint64_t)rc_json_integer(data_seed) : run->config.settings.seed;
    return status == RC_OK || status == RC_OUT_OF_MEMORY ? status : rc_fail(RC_FORMAT, "%s: %s", file, rc_message());
}

rc_status rc_past_run_open(const char *path, rc_past_run *run)
{
    char file[RC_PATH_SIZE];
    *run = (rc_past_run){0};
    RC_TRY(find_run(path, file));
    snprintf(run->path, sizeof run->path, "%s", path); /* it fits: the file's path is longer */
    rc_status status = read_identity(run, file);
    if (status != RC_OK)
        rc_past_run_close(run);
    return status;
}

void rc_past_run_close(rc_past_run *run)
{
    rc_json_free(run->identity);
    rc_task_stream_destroy(&run->stream);
    *run = (rc_past_run){0};
}

rc_status rc_past_run_take_data(rc_past_run *run, const rc_dataset *data)
{
    char hash[RC_HASH_SIZE];
    const char *expected;
    rc_task_split split;
    int *order;
    rc_data_hash(data, hash);
    RC_TRY(rc_json_get_string(run->identity, "data_fingerprint", &expected));
    if (strcmp(hash, expected) != 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the data is not what the run in %s was made with: other images, labels, names or numbers of "
                       "them; the setting 'data' says where it lies",
                       run->path);
    RC_TRY(rc_config_split(&run->config, &split));
    RC_TRY(rc_config_class_order(&run->config, data->classes, &order));
    rc_status status = rc_task_stream_create(&run->stream, data->classes, order, &split);
    rc_free(NULL, order);
    run->data = status == RC_OK ? data : NULL;
    return status;
}

/* ---- a method --------------------------------------------------------------------------------------------------- */

static rc_status results_path(const rc_past_run *run, const rc_method *method, char folder[RC_PATH_SIZE],
                              char file[RC_PATH_SIZE])
{
    RC_TRY(rc_path_in(run->path, method->name, folder));
    return rc_path_in(folder, "results.json", file);
}

rc_status rc_past_run_has(const rc_past_run *run, const rc_method *method, bool *has)
{
    char folder[RC_PATH_SIZE], file[RC_PATH_SIZE];
    RC_TRY(results_path(run, method, folder, file));
    return rc_file_find(file, has);
}

static rc_status read_sizes(const rc_json *json, rc_past_method *past)
{
    const rc_json *sizes, *entry = NULL;
    RC_TRY(rc_json_get_array(json, "task_sizes", &sizes));
    if (rc_json_count(sizes) < 1 || rc_json_count(sizes) > RC_MAX_TASKS)
        return rc_fail(RC_FORMAT, "%zu tasks, expected 1 to %d", rc_json_count(sizes), RC_MAX_TASKS);
    int end = 0;
    while ((entry = rc_json_next(sizes, entry)) != NULL) {
        int64_t size = rc_json_integer(entry);
        if (size < 1 || size > RC_DATA_MAX_CLASSES - end)
            return rc_fail(RC_FORMAT, "task %d has %lld classes, expected 1 or more, and no more than %d in all",
                           past->tasks + 1, (long long)size, RC_DATA_MAX_CLASSES);
        past->task_end[past->tasks++] = end += (int)size;
    }
    return RC_OK;
}

static rc_status read_task(const rc_json *json, int task, rc_past_method *past)
{
    const rc_json *seconds = rc_json_member(json, "seconds");
    past->accuracy[task] = rc_json_number(rc_json_member(json, "accuracy"));
    if (!(past->accuracy[task] >= 0 && past->accuracy[task] <= 100))
        return rc_fail(RC_FORMAT, "task %d has accuracy %g, expected a number from 0 to 100", task + 1,
                       past->accuracy[task]);
    for (int i = 0; i < RC_STAGE_COUNT; i++) {
        past->seconds[task][i] = rc_json_number(rc_json_member(seconds, rc_stage_name((rc_stage)i)));
        if (past->seconds[task][i] < 0)
            return rc_fail(RC_FORMAT, "task %d took %g seconds of %s, expected 0 or more", task + 1,
                           past->seconds[task][i], rc_stage_name((rc_stage)i));
    }
    return RC_OK;
}

static rc_status read_results(const rc_json *json, rc_past_method *past)
{
    const rc_json *tasks, *entry = NULL;
    const char *name, *fingerprint;
    RC_TRY(rc_json_get_string(json, "method", &name));
    RC_TRY(rc_json_get_string(json, "fingerprint", &fingerprint));
    RC_TRY(rc_json_get_array(json, "tasks", &tasks));
    if (strcmp(name, past->method->name) != 0)
        return rc_fail(RC_FORMAT, "these are results of the method '%.40s', expected '%s'", name, past->method->name);
    if (strlen(fingerprint) >= sizeof past->fingerprint)
        return rc_fail(RC_FORMAT, "the fingerprint is longer than %d bytes", RC_FINGERPRINT_SIZE - 1);
    memcpy(past->fingerprint, fingerprint, strlen(fingerprint) + 1);
    RC_TRY(read_sizes(json, past));
    if (rc_json_count(tasks) > (size_t)past->tasks)
        return rc_fail(RC_FORMAT, "%zu tasks are finished, but there are %d", rc_json_count(tasks), past->tasks);
    for (; (entry = rc_json_next(tasks, entry)) != NULL; past->done++)
        RC_TRY(read_task(entry, past->done, past));
    return RC_OK;
}

/* Once the data is there: does the method's stream fit it? */
static rc_status check_tasks(const rc_past_run *run, const rc_past_method *past)
{
    const rc_task_stream *stream = &run->stream;
    bool same = past->tasks == stream->tasks;
    for (int t = 0; same && t < past->tasks; t++)
        same = past->task_end[t] == stream->task_end[t];
    return same ? RC_OK : rc_fail(RC_FORMAT, "its tasks are not those of the run's configuration");
}

rc_status rc_past_method_open(const rc_past_run *run, const rc_method *method, rc_past_method *past)
{
    char file[RC_PATH_SIZE];
    rc_json *json;
    bool there;
    *past = (rc_past_method){.method = method};
    RC_TRY(results_path(run, method, past->path, file));
    RC_TRY(rc_file_find(file, &there));
    if (!there)
        return rc_fail(RC_INVALID_ARGUMENT, "the run in %s has no results of %s: there is no %s", run->path,
                       method->name, file);
    RC_TRY(rc_json_load(file, 64u << 20, &json));
    rc_status status = read_results(json, past);
    rc_json_free(json);
    if (status == RC_OK && run->data != NULL)
        status = check_tasks(run, past);
    return status == RC_OK ? RC_OK : rc_fail(status, "%s: %s", file, rc_message());
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static const char bring_back[] = "bring that of this run back, or run it anew";

/* Is it the model of this task, and of the run's data? */
static rc_status check_model(const rc_past_run *run, const rc_past_method *past, int task, const char *file,
                             const rc_saved_model *model)
{
    const rc_learner *l = &model->learner;
    const char *found = model->fingerprint[0] != '\0' ? model->fingerprint : NULL;
    RC_TRY(rc_fingerprint_check(file, found, past->fingerprint, NULL, NULL, bring_back));
    if (l->student.head.tasks != task || l->student.head.classes != past->task_end[task - 1])
        return rc_fail(RC_FORMAT, "%s is a model of %d tasks with %d classes, expected %d with %d: %s", file,
                       l->student.head.tasks, l->student.head.classes, task, past->task_end[task - 1], bring_back);
    const rc_dataset *data = run->data;
    if (data == NULL)
        return RC_OK;
    if (l->augment.h != data->h || l->augment.w != data->w || l->augment.c != data->c)
        return rc_fail(RC_FORMAT, "%s is a model of images of %d x %d x %d, but the data has %d x %d x %d", file,
                       l->augment.h, l->augment.w, l->augment.c, data->h, data->w, data->c);
    for (int k = 0; k < l->student.head.classes; k++)
        if (strcmp(model->class_name[k], data->class_name[run->stream.order[k]]) != 0)
            return rc_fail(RC_FORMAT, "%s has '%s' as class %d, but in the run that is '%s'", file,
                           model->class_name[k], k + 1, data->class_name[run->stream.order[k]]);
    return RC_OK;
}

rc_status rc_past_method_model(const rc_past_run *run, const rc_past_method *past, int task, rc_backend *backend,
                               rc_saved_model *model)
{
    char name[64], file[RC_PATH_SIZE];
    bool there;
    memset(model, 0, sizeof *model);
    snprintf(name, sizeof name, "task-%d.safetensors", task);
    RC_TRY(rc_path_in(past->path, name, file));
    RC_TRY(rc_file_find(file, &there));
    if (!there)
        return rc_fail(RC_IO,
                       "%s is not there: this analysis needs the model after task %d. A run keeps the models of "
                       "all tasks; %s",
                       file, task, bring_back);
    RC_TRY(rc_model_file_load(file, backend, model));
    rc_status status = check_model(run, past, task, file, model);
    if (status != RC_OK)
        rc_saved_model_destroy(model);
    return status;
}

rc_status rc_past_task_model(const rc_past_run *run, const rc_method *method, int task, rc_backend *backend,
                             rc_saved_model *model)
{
    memset(model, 0, sizeof *model);
    rc_past_method *past = rc_alloc_zeroed(NULL, 1, sizeof *past);
    if (past == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = rc_past_method_open(run, method, past);
    if (status == RC_OK && (task < 1 || task > past->done))
        status = rc_fail(RC_INVALID_ARGUMENT, "task is %d, expected 1 to %d: %s has finished so many", task, past->done,
                         past->path);
    if (status == RC_OK)
        status = rc_past_method_model(run, past, task, backend, model);
    rc_free(NULL, past);
    return status;
}

rc_status rc_past_head(const rc_saved_model *model, float **head)
{
    const rc_head *h = &model->learner.student.head;
    rc_backend *be = h->backend;
    *head = rc_alloc_zeroed(NULL, (size_t)h->classes, (size_t)h->d * sizeof **head);
    if (*head == NULL)
        return RC_OUT_OF_MEMORY;
    be->read_real(be, *head, h->weight, (size_t)h->classes * (size_t)h->d);
    rc_status status = be->sync(be);
    if (status != RC_OK) {
        rc_free(NULL, *head);
        *head = NULL;
    }
    return status;
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

rc_status rc_past_run_images(const rc_past_run *run, int first, int end, int32_t **index, int *count)
{
    return rc_task_some_images(&run->stream, &run->data->train, first, end, run->config.images_per_class, index, count);
}

static rc_status score(const rc_past_run *run, const rc_saved_model *model, const rc_split *split, const int32_t *index,
                       const rc_watch *watch, rc_features *f)
{
    enum { AT_ONCE = 2000 }; /* images between looks at the watch, where all are at hand */
    const rc_learner *l = &model->learner;
    rc_backend *be = l->backend;
    rc_scorer *scorer;
    rc_split_pass pass;
    rc_watch own = *watch;
    int batch = run->config.test_batch < f->n ? run->config.test_batch : f->n, classes = l->student.head.classes;
    RC_TRY(rc_scoring_batch(be, &l->student, &l->settings, &l->augment, batch, &batch));
    RC_TRY(rc_scorer_create(be, &l->student, batch, &l->augment, &scorer));
    int piece = split->stream != NULL ? batch : AT_ONCE;
    rc_status status = rc_split_pass_open(split, index, f->n, piece, &pass);
    if (status == RC_OK && split == &run->data->test) /* as the run did */
        status = rc_scorer_look(scorer, rc_config_views(&run->config));
    for (int from = 0; status == RC_OK && from < f->n; from += piece) {
        int now = f->n - from < piece ? f->n - from : piece;
        const uint8_t *images;
        const int32_t *which;
        status = rc_split_pass_next(&pass, from, now, &images, &which);
        if (status == RC_OK)
            status = rc_scorer_run(scorer, images, which, now,
                                   f->logits != NULL ? f->logits + (size_t)from * (size_t)classes : NULL,
                                   f->value + (size_t)from * (size_t)f->d);
        if (status == RC_OK && !rc_watch_scoring(&own, "features of images", from + now, f->n))
            status = rc_fail(RC_CANCELLED, "stopped");
    }
    rc_split_pass_close(&pass);
    rc_scorer_destroy(scorer);
    for (size_t i = 0; status == RC_OK && i < (size_t)f->n * (size_t)f->d; i++)
        if (!isfinite(f->value[i]))
            status = rc_fail(RC_NUMERIC,
                             "the model gives an image the feature %g, expected a finite number: its "
                             "weights are damaged, or too large",
                             (double)f->value[i]);
    return status;
}

rc_status rc_features_create(const rc_past_run *run, const rc_saved_model *model, const rc_feature_request *request,
                             const rc_watch *watch, rc_features *f)
{
    const rc_head *head = &model->learner.student.head;
    const rc_split *split = request->test ? &run->data->test : &run->data->train;
    *f = (rc_features){.d = head->d};
    RC_TRY(request->test ? rc_task_images(&run->stream, split, request->first, request->end, &f->label, &f->n)
                         : rc_past_run_images(run, request->first, request->end, &f->label, &f->n));
    rc_status status = f->n > 0 ? RC_OK
                                : rc_fail(RC_INVALID_ARGUMENT, "there is no %s image of classes %d to %d",
                                          request->test ? "test" : "training", request->first + 1, request->end);
    if (status == RC_OK) {
        f->value = rc_alloc_zeroed(NULL, (size_t)f->n, (size_t)f->d * sizeof *f->value);
        if (request->logits)
            f->logits = rc_alloc_zeroed(NULL, (size_t)f->n, (size_t)head->classes * sizeof *f->logits);
        status = f->value != NULL && (f->logits != NULL || !request->logits) ? RC_OK : RC_OUT_OF_MEMORY;
    }
    if (status == RC_OK)
        status = score(run, model, split, f->label, watch, f);
    for (int i = 0; status == RC_OK && i < f->n; i++) /* indices become labels */
        f->label[i] = run->stream.position[split->labels[f->label[i]]];
    if (status != RC_OK)
        rc_features_destroy(f);
    return status;
}

void rc_features_destroy(rc_features *f)
{
    rc_free(NULL, f->value);
    rc_free(NULL, f->logits);
    rc_free(NULL, f->label);
    *f = (rc_features){0};
}
