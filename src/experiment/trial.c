#include "experiment/trial.h"

#include <stdio.h>

#include "base/memory.h"

void rc_trial_folder_name(const int *order, const uint64_t *seed, char *name, size_t size)
{
    char first[32] = "", second[32] = "";
    if (order != NULL)
        snprintf(first, sizeof first, "order-%d", *order);
    if (seed != NULL)
        snprintf(second, sizeof second, "seed-%llu", (unsigned long long)*seed);
    snprintf(name, size, "%s%s%s", first, order != NULL && seed != NULL ? "-" : "", second);
}

rc_status rc_trial_name(rc_trial *t, const char *out, const int *order, const uint64_t *seed)
{
    char folder[64], first[24] = "", second[32] = "";
    if (order != NULL) {
        t->config.order = *order;
        snprintf(first, sizeof first, "order %d", *order);
    }
    if (seed != NULL) {
        t->config.settings.seed = *seed;
        snprintf(second, sizeof second, "seed %llu", (unsigned long long)*seed);
    }
    snprintf(t->name, sizeof t->name, "%s%s%s", first, order != NULL && seed != NULL ? ", " : "", second);
    rc_trial_folder_name(order, seed, folder, sizeof folder);
    int length = snprintf(t->path, sizeof t->path, "%s%s%s", out, folder[0] != '\0' ? "/" : "", folder);
    if (length < 0 || length >= (int)sizeof t->path)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s/%s is too long", out, folder);
    return rc_config_check(&t->config);
}

/* Training images of every class, by position, that are used. */
static void count_images(rc_trial *t)
{
    int limit = t->config.images_per_class;
    for (int i = 0; i < t->data->train.count; i++) {
        int *count = &t->images[t->stream.position[t->data->train.labels[i]]];
        *count += limit == 0 || *count < limit;
    }
}

/* Finds now what would otherwise stop the run only when its task comes, after hours of training. */
static rc_status check_images(const rc_trial *t)
{
    const rc_split *test = &t->data->test;
    for (int i = 0; i < t->data->classes; i++)
        if (t->images[i] == 0)
            return rc_fail(RC_INVALID_ARGUMENT, "class '%s' has no training image", t->class_name[i]);
    bool tested[RC_MAX_TASKS] = {false};
    for (int i = 0; i < test->count; i++) {
        int task = 0, position = t->stream.position[test->labels[i]];
        while (position >= t->stream.task_end[task])
            task++;
        tested[task] = true;
    }
    for (int task = 0; task < t->stream.tasks; task++)
        if (!tested[task])
            return rc_fail(RC_INVALID_ARGUMENT,
                           "task %d has no test image: none of its %d classes, from '%s' on, has one", task + 1,
                           rc_task_classes(&t->stream, task), t->class_name[rc_task_first(&t->stream, task)]);
    return RC_OK;
}

rc_status rc_trial_create(rc_trial *t, const rc_dataset *data, int stop_after)
{
    rc_task_split split;
    int *order = NULL;
    t->data = data;
    RC_TRY(rc_config_split(&t->config, &split));
    RC_TRY(rc_config_class_order(&t->config, data->classes, &order));
    rc_status status = rc_task_stream_create(&t->stream, data->classes, order, &split);
    rc_free(NULL, order);
    RC_TRY(status);
    t->class_name = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *t->class_name);
    t->images = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *t->images);
    if (t->class_name == NULL || t->images == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < data->classes; i++)
        t->class_name[i] = data->class_name[t->stream.order[i]];
    count_images(t);
    RC_TRY(check_images(t));
    t->tasks = stop_after > 0 && stop_after < t->stream.tasks ? stop_after : t->stream.tasks;
    return RC_OK;
}

void rc_trial_destroy(rc_trial *t)
{
    rc_run_folder_close(&t->folder);
    rc_free(NULL, t->class_name);
    rc_free(NULL, t->images);
    rc_task_stream_destroy(&t->stream);
}

int rc_trial_images(const rc_trial *t, int task, bool with_old)
{
    int count = 0, first = with_old ? 0 : rc_task_first(&t->stream, task);
    for (int position = first; position < t->stream.task_end[task]; position++)
        count += t->images[position];
    return count;
}

/* Images that the tasks before this one offer to a buffer, repeats counted. */
static uint64_t offered_before(const rc_trial *t, const rc_method *method, int task)
{
    const rc_settings *s = &t->config.settings;
    uint64_t steps = 0;
    for (int i = 0; i < task; i++) {
        const rc_task_size size = {s, method, rc_task_first(&t->stream, i), rc_task_classes(&t->stream, i),
                                   rc_epoch_batches(rc_trial_images(t, i, false), s->batch)};
        steps += (uint64_t)rc_task_steps(&size, RC_STAGE_TRAINING) + rc_task_steps(&size, RC_STAGE_REFINEMENT);
    }
    return steps * (uint64_t)s->batch;
}

rc_task_claim rc_trial_claim(const rc_trial *t, const rc_method *method, int task, const rc_augment *image)
{
    return (rc_task_claim){.settings = &t->config.settings,
                           .method = method,
                           .image = image,
                           .n_old = rc_task_first(&t->stream, task),
                           .n_new = rc_task_classes(&t->stream, task),
                           .offered = offered_before(t, method, task),
                           .lent = true,
                           .count = rc_trial_images(t, task, rc_method_takes_old_images(method))};
}
