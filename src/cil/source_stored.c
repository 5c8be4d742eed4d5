/* What sources of stored images share. The images are drawn by the host an epoch ahead (buffer.h), then read and
 * augmented like the task's own, out of one pool with them. */
#include "base/memory.h"
#include "cil/learner.h"
#include "cil/sources.h"
#include "cil/task_stream.h"

rc_status rc_stored_begin(rc_source *source, const rc_learner *l, bool offer)
{
    uint32_t steps = rc_stage_steps(l, RC_STAGE_TRAINING) + rc_stage_steps(l, RC_STAGE_REFINEMENT);
    rc_buffer_task task = {.seed = l->settings.seed,
                           .task = l->task,
                           .images = l->images,
                           .batch = l->settings.batch,
                           .minibatch = l->settings.batch,
                           .epochs = (int)(steps / (uint32_t)l->batches),
                           .offer = offer};
    return rc_buffer_begin_task(&source->images, &task);
}

typedef struct stored {
    rc_replay replay;
    rc_backend *backend;
    rc_image_buffer *buffer;
    rc_resident_data pool;
    size_t count;         /* places an epoch */
    int32_t *places_host; /* (batches, minibatch): of the epoch at hand */
    int32_t *places;      /* the same in backend memory */
} stored;

static void draw(rc_replay *replay, const rc_step *step, rc_tensor *images, int32_t *labels)
{
    stored *s = (stored *)replay;
    rc_backend *be = s->backend;
    be->augment(be, &s->pool.augment, s->pool.images, s->places, images->n, step, images);
    be->gather_labels(be, s->pool.labels, s->places, images->n, step, labels);
}

static rc_status prepare_epoch(rc_replay *replay, int epoch)
{
    stored *s = (stored *)replay;
    rc_buffer_draw(s->buffer, epoch, s->places_host);
    s->backend->write_bytes(s->backend, s->places, s->places_host, s->count * sizeof *s->places);
    return s->backend->expect_images(s->backend, s->pool.images, s->places, s->count, NULL);
}

static void destroy(rc_replay *replay)
{
    stored *s = (stored *)replay;
    if (s->places != NULL)
        s->backend->expect_images(s->backend, s->pool.images, s->places, 0, NULL);
    s->backend->release(s->backend, s->places);
    rc_free(NULL, s->places_host);
    rc_free(NULL, s);
}

static rc_status take_memory(stored *s)
{
    void *places = NULL;
    s->places_host = rc_alloc_zeroed(NULL, s->count, sizeof *s->places_host);
    if (s->places_host == NULL)
        return RC_OUT_OF_MEMORY;
    s->replay.bytes = s->count * sizeof *s->places;
    RC_TRY(s->backend->alloc(s->backend, s->replay.bytes, &places));
    s->places = places;
    return RC_OK;
}

rc_status rc_stored_open(rc_source *source, const rc_learner *l, uint32_t stream, rc_replay **replay)
{
    static const rc_replay_table table = {.draw = draw, .prepare_epoch = prepare_epoch, .destroy = destroy};
    const rc_buffer_task *task = &source->images.plan;
    (void)stream; /* places and augmentation have streams of their own */
    *replay = NULL;
    stored *s = rc_alloc_zeroed(NULL, 1, sizeof *s);
    if (s == NULL)
        return RC_OUT_OF_MEMORY;
    s->replay = (rc_replay){.table = &table, .batch = rc_part_of(l->backend, task->minibatch), .labelled = true};
    s->backend = l->backend;
    s->buffer = &source->images;
    s->pool = l->data;
    s->pool.augment.stream = RC_STREAM_AUGMENT_REPLAY;
    s->count = (size_t)rc_epoch_batches(task->images, task->batch) * (size_t)task->minibatch;
    rc_status status = take_memory(s);
    if (status != RC_OK) {
        destroy(&s->replay);
        return status;
    }
    *replay = &s->replay;
    return RC_OK;
}
