#include "run/trial.h"

#include "base/memory.h"

/* Training images of every class, by position, that are used. */
static void count_images(rc_trial *t)
{
    int limit = t->config.images_per_class;
    for (int i = 0; i < t->data->train.count; i++) {
        int *count = &t->images[t->stream.position[t->data->train.labels[i]]];
        *count += limit == 0 || *count < limit;
    }
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
