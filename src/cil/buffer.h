/* Stored images that a task replays (docs/methods/er.md): ER's and LODE's reservoir of the stream, or a set that
 * stays as it is.
 *
 * Which item of an epoch goes to which slot, and which slots a step reads, follows from the epoch's order and the
 * random numbers alone, so the host knows it an epoch ahead. During a task a slot is therefore no image but a place
 * in the pool [images of the task; images of the buffer as the task found it], which lies in backend memory: a step
 * reads what it replays through a list of places, as it reads its new images, and no image is copied before the end
 * of the task.
 *
 *     step of the task:    `minibatch` places are drawn from the slots as they are, uniformly without replacement;
 *                          then the batch is offered to the slots, image by image
 *     item t of the stream (from 0, repeats of every epoch counted):  t < capacity: slot t; else r uniform in 0..t,
 *                          and slot r if r < capacity. So every item is held with the same probability
 *
 * Nothing of this is part of a checkpoint: whoever resumes goes through the epochs again. */
#ifndef RC_CIL_BUFFER_H
#define RC_CIL_BUFFER_H

#include "backend/backend.h"

/* How a task uses the buffer. */
typedef struct rc_buffer_task {
    uint64_t seed;
    int task, images; /* of the task; their places come first in the pool */
    int batch;        /* new images a step, in the order that rc_epoch_order() makes of them */
    int minibatch;    /* replayed images a step */
    int epochs;
    bool offer; /* the batches go to the slots; else the set stays as it is */
} rc_buffer_task;

typedef struct rc_image_buffer {
    int capacity;       /* slots at most; 0: there is no buffer */
    size_t image_bytes; /* 0: of a set whose images lie in the pool alone */

    /* What it holds between tasks; host memory. */
    int held;         /* slots in use */
    uint64_t offered; /* items of the stream so far */
    int room;         /* slots there is memory for */
    bool counted;     /* there is none, only its size: see rc_buffer_pretend */
    uint8_t *images;  /* (room, image_bytes), as they were read: not augmented */
    int32_t *labels;  /* (room) */

    /* The task at hand. */
    rc_buffer_task plan;
    int task_held, next_epoch; /* slots in use; epochs gone through */
    uint64_t task_offered;
    int32_t *slot, *pick; /* (room) places in the pool; 0, 1, 2, ... between draws */
    int32_t *order;       /* (batches, batch) of an epoch */
    uint32_t *scratch;    /* (images) */
} rc_image_buffer;

void rc_buffer_init(rc_image_buffer *buffer, int capacity, size_t image_bytes);
/* Between tasks. If there are more images than fit, an even selection of them stays. */
void rc_buffer_resize(rc_image_buffer *buffer, int capacity);
void rc_buffer_destroy(rc_image_buffer *buffer); /* a zeroed or destroyed one is fine */
/* Copies what is held to `copy`, which must not be initialised. On failure nothing is held. */
rc_status rc_buffer_copy(rc_image_buffer *copy, const rc_image_buffer *buffer);
/* Memory for `slots` slots, at most the capacity. */
rc_status rc_buffer_reserve(rc_image_buffer *buffer, uint64_t slots);
/* For forecasts, of an empty buffer: it is as if so many items had been offered, and takes no memory from then on. */
void rc_buffer_pretend(rc_image_buffer *buffer, uint64_t offered);

rc_status rc_buffer_begin_task(rc_image_buffer *buffer, const rc_buffer_task *task);
void rc_buffer_end_task(rc_image_buffer *buffer); /* what is held stays as the task found it, or as commit left it */

/* Places (batches, minibatch) that the steps of an epoch replay. If there are fewer slots than the minibatch has
 * places, all are drawn, and then drawn again in the same order until it is full. While there are none it repeats the
 * batch, so that the mean over both halves is that over the batch. */
void rc_buffer_draw(rc_image_buffer *buffer, int epoch, int32_t *places);

/* After all epochs: turns slots into images again, from the pool's images and labels in backend memory. */
void rc_buffer_commit(rc_image_buffer *buffer, rc_backend *backend, const uint8_t *images, const int32_t *labels);

size_t rc_buffer_bytes(const rc_image_buffer *buffer);       /* of images and labels held */
size_t rc_buffer_taken_bytes(const rc_image_buffer *buffer); /* of host memory, for all slots there is room for */

#endif
