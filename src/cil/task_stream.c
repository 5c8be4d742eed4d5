#include "cil/task_stream.h"

#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "cil/step_training.h"
#include "data/stream.h"

static rc_status invert_order(rc_task_stream *stream, const int *order)
{
    for (int i = 0; i < stream->classes; i++)
        stream->position[i] = -1;
    for (int i = 0; i < stream->classes; i++) {
        int class = order ? order[i] : i;
        if (class < 0 || class >= stream->classes)
            return rc_fail(RC_INVALID_ARGUMENT, "the class order holds %d, expected 0 to %d", class,
                           stream->classes - 1);
        if (stream->position[class] >= 0)
            return rc_fail(RC_INVALID_ARGUMENT, "the class order holds class %d twice", class);
        stream->order[i] = class;
        stream->position[class] = i;
    }
    return RC_OK;
}

static rc_status cut_by_sizes(rc_task_stream *stream, const rc_task_split *split)
{
    int end = 0;
    for (int t = 0; t < split->sizes; t++) {
        if (split->size[t] < 1)
            return rc_fail(RC_INVALID_ARGUMENT, "task %d has %d classes, expected 1 or more", t + 1, split->size[t]);
        if (split->size[t] > stream->classes - end)
            return rc_fail(RC_INVALID_ARGUMENT, "the tasks ask for more classes than there are (%d)", stream->classes);
        end += split->size[t];
        stream->task_end[t] = end;
    }
    if (end != stream->classes)
        return rc_fail(RC_INVALID_ARGUMENT, "the tasks have %d classes together, the data has %d", end,
                       stream->classes);
    stream->tasks = split->sizes;
    return RC_OK;
}

/* `tasks` tasks; the first takes what does not divide, unless its size was given. */
static rc_status cut_evenly(rc_task_stream *stream, const rc_task_split *split)
{
    int classes = stream->classes, tasks = split->tasks;
    if (tasks < 1 || tasks > RC_MAX_TASKS || tasks > classes)
        return rc_fail(RC_INVALID_ARGUMENT, "%d tasks, expected 1 to %d for %d classes", tasks,
                       classes < RC_MAX_TASKS ? classes : RC_MAX_TASKS, classes);
    stream->tasks = tasks;
    int first = split->first > 0            ? split->first
                : split->first_fraction > 0 ? (int)(split->first_fraction * classes)
                                            : classes / tasks;
    if (tasks == 1)
        first = classes;
    if (first < 1 || classes - first < tasks - 1)
        return rc_fail(RC_INVALID_ARGUMENT, "a first task of %d classes leaves %d for %d more tasks", first,
                       classes - first, tasks - 1);
    int rest = tasks > 1 ? (classes - first) % (tasks - 1) : 0;
    if (rest != 0 && split->first > 0)
        return rc_fail(RC_INVALID_ARGUMENT, "%d classes after the first %d do not divide into %d tasks",
                       classes - first, first, tasks - 1);
    first += rest;
    for (int t = 0; t < tasks; t++)
        stream->task_end[t] = first + (tasks > 1 ? t * ((classes - first) / (tasks - 1)) : 0);
    return RC_OK;
}

rc_status rc_task_stream_create(rc_task_stream *stream, int classes, const int *order, const rc_task_split *split)
{
    memset(stream, 0, sizeof *stream);
    if (classes < 1)
        return rc_fail(RC_INVALID_ARGUMENT, "%d classes, expected 1 or more", classes);
    stream->classes = classes;
    stream->order = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *stream->order);
    stream->position = rc_alloc_zeroed(NULL, (size_t)classes, sizeof *stream->position);
    rc_status status = RC_OUT_OF_MEMORY;
    if (stream->order != NULL && stream->position != NULL)
        status = invert_order(stream, order);
    if (status == RC_OK)
        status = split->sizes > 0 ? cut_by_sizes(stream, split) : cut_evenly(stream, split);
    if (status != RC_OK)
        rc_task_stream_destroy(stream);
    return status;
}

void rc_task_stream_destroy(rc_task_stream *stream)
{
    rc_free(NULL, stream->order);
    rc_free(NULL, stream->position);
    memset(stream, 0, sizeof *stream);
}

int rc_task_first(const rc_task_stream *stream, int task)
{
    return task > 0 ? stream->task_end[task - 1] : 0;
}

int rc_task_classes(const rc_task_stream *stream, int task)
{
    return stream->task_end[task] - rc_task_first(stream, task);
}

rc_status rc_task_images(const rc_task_stream *stream, const rc_split *split, int first, int end, int32_t **index,
                         int *count)
{
    *count = 0;
    *index = rc_alloc_zeroed(NULL, (size_t)split->count + 1, sizeof **index);
    if (*index == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < split->count; i++) {
        int position = stream->position[split->labels[i]];
        if (position >= first && position < end)
            (*index)[(*count)++] = i;
    }
    return RC_OK;
}

rc_status rc_task_some_images(const rc_task_stream *stream, const rc_split *split, int first, int end, int most,
                              int32_t **index, int *count)
{
    int kept = 0;
    RC_TRY(rc_task_images(stream, split, first, end, index, count));
    if (most == 0)
        return RC_OK;
    int *taken = rc_alloc_zeroed(NULL, (size_t)stream->classes, sizeof *taken);
    if (taken == NULL) {
        rc_free(NULL, *index);
        *index = NULL;
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < *count; i++)
        if (taken[split->labels[(*index)[i]]]++ < most)
            (*index)[kept++] = (*index)[i];
    *count = kept;
    rc_free(NULL, taken);
    return RC_OK;
}

static rc_status check_image(const void *split, int32_t index)
{
    return rc_split_check(split, &index, 1);
}

/* ---- pictures that are decoded when they are read, and packs that are larger than memory ------------------------- */

static rc_status open_reader(const void *owner, size_t bytes, int most, void **reader)
{
    const rc_split *split = owner;
    rc_stream_reader *made;
    rc_status status = split->stream != NULL ? rc_stream_open(split->stream, most, &made)
                                             : rc_stream_open_pack(split, bytes, most, &made);
    *reader = made;
    return status;
}

static void close_reader(void *reader)
{
    rc_stream_close(reader);
}

static rc_status expect(void *reader, const int32_t *number, size_t count, const rc_image_view *view, int parts)
{
    rc_rng rng = {view != NULL ? view->seed : 0, view != NULL ? view->stream : 0};
    return rc_stream_expect(reader, number, count, view != NULL ? &rng : NULL, parts);
}

static rc_status fetch(void *reader, size_t first, int n, const uint8_t **from, const int32_t **place)
{
    return rc_stream_fetch(reader, first, n, from, place);
}

static void *ring_of(const void *reader, size_t *bytes)
{
    return rc_stream_ring(reader, bytes);
}

static rc_status read_one(const void *split, int32_t number, uint8_t *to)
{
    return rc_stream_read(((const rc_split *)split)->stream, number, to);
}

static const rc_image_supply supply = {open_reader, close_reader, ring_of, expect, fetch, read_one};

/* ---- lending ---------------------------------------------------------------------------------------------------- */

rc_lent_images rc_lend_split(const rc_dataset *data, const rc_split *split)
{
    return (rc_lent_images){.from = split->images,
                            .count = split->count,
                            .bytes = (size_t)data->h * (size_t)data->w * (size_t)data->c,
                            .check = split->pack != NULL ? check_image : NULL,
                            .supply = split->stream != NULL || split->pack != NULL ? &supply : NULL,
                            .owner = split};
}

rc_status rc_task_lend(const rc_task_stream *stream, const rc_dataset *data, int first, int end, int most,
                       rc_lent_images *lent, int32_t **index, int32_t **labels)
{
    int count;
    *labels = NULL;
    RC_TRY(rc_task_some_images(stream, &data->train, first, end, most, index, &count));
    *labels = rc_alloc_zeroed(NULL, (size_t)count + 1, sizeof **labels);
    if (*labels == NULL) {
        rc_free(NULL, *index);
        *index = NULL;
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < count; i++)
        (*labels)[i] = stream->position[data->train.labels[(*index)[i]]];
    *lent = rc_lend_split(data, &data->train);
    lent->index = *index;
    lent->count = count;
    return RC_OK;
}

int rc_epoch_batches(int count, int batch)
{
    return count < batch ? 1 : count / batch;
}

void rc_epoch_order(uint64_t seed, int task, int epoch, int count, int batch, int32_t *order, uint32_t *scratch)
{
    rc_rng rng = {seed, (uint64_t)(uint32_t)task << 48 | (uint64_t)(uint32_t)epoch << 16 | RC_STREAM_ORDER};
    rc_rng_permutation(rng, (uint32_t)count, scratch);
    int used = rc_epoch_batches(count, batch) * batch;
    for (int i = 0; i < used; i++)
        order[i] = (int32_t)scratch[i % count];
}
