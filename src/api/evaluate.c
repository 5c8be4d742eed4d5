#include "api/evaluate.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "forecast/allowance.h"

rc_data_settings rc_model_data_settings(const rc_saved_model *model)
{
    const rc_augment *image = &model->learner.augment;
    return (rc_data_settings){.size = image->h,
                              .channels = image->c,
                              .resize = model->config.resize,
                              .interpolation = rc_config_interpolation(&model->config),
                              .ignore_exif = !model->config.exif,
                              .procedural_seed = model->config.settings.seed};
}

int rc_model_label(const rc_saved_model *model, const char *name)
{
    for (int label = 0; label < model->learner.student.head.classes; label++)
        if (strcmp(model->class_name[label], name) == 0)
            return label;
    return -1;
}

/* ---- scoring ----------------------------------------------------------------------------------------------------- */

/* The order in which a stream sees the classes of the data: at a position that is a label of the model stands
 * the class of that name; classes that the model does not know come behind, and labels without images get
 * classes that the data does not have. */
static rc_status match_classes(const rc_saved_model *model, const rc_dataset *data, rc_named_evaluation *e,
                               rc_task_stream *stream)
{
    int known = model->learner.student.head.classes, spare = data->classes;
    int *order = rc_alloc_zeroed(NULL, (size_t)known + (size_t)data->classes, sizeof *order);
    e->unknown = rc_alloc_zeroed(NULL, (size_t)data->classes, sizeof *e->unknown);
    if (order == NULL || e->unknown == NULL) {
        rc_free(NULL, order);
        return RC_OUT_OF_MEMORY;
    }
    for (int label = 0; label < known; label++)
        order[label] = -1;
    for (int native = 0; native < data->classes; native++) {
        int label = rc_model_label(model, data->class_name[native]);
        if (label >= 0 && order[label] < 0) {
            order[label] = native;
        } else {
            order[known + e->unknown_classes] = native;
            e->unknown[e->unknown_classes++] = native;
        }
    }
    for (int label = 0; label < known; label++)
        if (order[label] < 0)
            order[label] = spare++;
    int classes = known + e->unknown_classes;
    rc_status status = rc_task_stream_create(stream, classes, order, &(rc_task_split){.tasks = 1});
    rc_free(NULL, order);
    return status;
}

rc_status rc_evaluate_by_name(const rc_saved_model *model, const rc_dataset *data, const rc_split *split,
                              const rc_scoring *scoring, rc_named_evaluation *e)
{
    memset(e, 0, sizeof *e);
    const rc_learner *l = &model->learner;
    const rc_scoring both = {
        .progress = scoring->progress, .user = scoring->user, .views = rc_config_views(&model->config)};
    rc_task_stream stream = {0};
    int batch = model->config.test_batch < split->count ? model->config.test_batch : split->count;
    rc_status status = match_classes(model, data, e, &stream);
    if (status == RC_OK)
        status = rc_scoring_batch(l->backend, &l->student, &l->settings, &l->augment, batch > 1 ? batch : 1, &batch);
    if (status == RC_OK)
        status = rc_evaluate(l->backend, &l->student, &l->augment, &stream, split, batch, &both, &e->counts);
    for (int i = 0; status == RC_OK && i < split->count; i++) {
        bool known = stream.position[split->labels[i]] < l->student.head.classes;
        e->images += known;
        e->unknown_images += !known;
    }
    rc_task_stream_destroy(&stream);
    if (status != RC_OK)
        rc_named_evaluation_destroy(e);
    return status;
}

void rc_named_evaluation_destroy(rc_named_evaluation *e)
{
    rc_evaluation_destroy(&e->counts);
    rc_free(NULL, e->unknown);
    memset(e, 0, sizeof *e);
}

/* "cat, dog, ...", as far as it fits. */
static void list_names(char *const *name, int count, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", name[i]);
    if (used >= size)
        rc_utf8_mark_cut(text, size);
}

rc_status rc_refuse_strangers(const rc_saved_model *model, const char *path, const rc_dataset *data)
{
    char known[300], own[300];
    list_names(model->class_name, model->learner.student.head.classes, known, sizeof known);
    list_names(data->class_name, data->classes, own, sizeof own);
    return rc_fail(RC_INVALID_ARGUMENT, "%.300s has no image of a class that the model knows: %s; its classes are %s",
                   path, known, own);
}

rc_status rc_evaluate_data(const rc_saved_model *model, const rc_evaluate_settings *settings, rc_dataset *data,
                           rc_named_evaluation *e)
{
    rc_watch watch = settings->watch;
    rc_pool *pool;
    memset(e, 0, sizeof *e);
    RC_TRY(rc_pool_create(settings->threads, &pool));
    rc_data_settings reading = rc_model_data_settings(model);
    reading.format = settings->format;
    reading.skip_broken = settings->skip_broken;
    reading.test_part = 1;
    reading.pool = pool;
    reading.log = &watch.log;
    reading.progress = rc_watch_reading;
    reading.user = &watch;
    rc_status status = rc_dataset_open(settings->data, &reading, data);
    rc_pool_destroy(pool);
    RC_TRY(status);
    const rc_split *split = data->test.count > 0 ? &data->test : &data->train;
    const rc_scoring scoring = {.progress = rc_watch_scoring, .user = &watch};
    status = rc_evaluate_by_name(model, data, split, &scoring, e);
    if (status == RC_OK && e->images == 0)
        status = rc_refuse_strangers(model, settings->data, data);
    if (status != RC_OK) {
        rc_named_evaluation_destroy(e);
        rc_dataset_close(data);
    }
    return status;
}
