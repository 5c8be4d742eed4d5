/* Stored images that a task replays (METHODS 12): ER's and LODE's reservoir of the stream, or a set that stays as
 * it is.
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

typedef struct rc_image_buffer {
    int capacity; /* slots at most; 0: there is no buffer */
    size_t image_bytes;

    /* What it holds between tasks; host memory. */
    int held;         /* slots in use */
    uint64_t offered; /* items of the stream so far */
    int room;         /* slots there is memory for */
    uint8_t *images;  /* (room, image_bytes), as they were read: not augmented */
    int32_t *labels;  /* (room) */

    /* The task at hand. */
    uint64_t seed;
    uint32_t task;
    int pool_first;        /* place of what slot 0 held as it began: as many as the task has images */
    int task_held, epochs; /* slots in use; epochs gone through */
    uint64_t task_offered, step;
    int32_t *slot, *pick;  /* (room) places in the pool; 0, 1, 2, ... between draws */
} rc_image_buffer;

void rc_buffer_init(rc_image_buffer *buffer, int capacity, size_t image_bytes);
void rc_buffer_resize(rc_image_buffer *buffer, int capacity); /* between tasks; what does not fit is dropped */
void rc_buffer_destroy(rc_image_buffer *buffer); /* a zeroed or destroyed one is fine */
/* What is held; `copy` is no initialised buffer. On failure nothing is held. */
rc_status rc_buffer_copy(rc_image_buffer *copy, const rc_image_buffer *buffer);
/* Memory for `slots` slots, at most the capacity. */
rc_status rc_buffer_reserve(rc_image_buffer *buffer, uint64_t slots);

/* A task of `images` images that will be offered `items` items, repeats counted; 0: a set that stays as it is. */
rc_status rc_buffer_begin_task(rc_image_buffer *buffer, uint64_t seed, uint32_t task, int images, uint64_t items);
void rc_buffer_rewind(rc_image_buffer *buffer); /* to the beginning of the task */

/* The next epoch. order: (batches, batch) places of the new images. places: (batches, minibatch) to replay. Slots
 * fewer than the minibatch are all drawn, and again in the same order until it is full; while there are none it
 * repeats the batch, so that the mean over both halves is that over the batch. offer: batches go to the slots. */
void rc_buffer_epoch(rc_image_buffer *buffer, const int32_t *order, int batches, int batch, bool offer,
                     int minibatch, int32_t *places);

/* The task is done: slots become images again, out of the pool's images and labels, which lie in backend memory. */
void rc_buffer_commit(rc_image_buffer *buffer, rc_backend *backend, const uint8_t *images, const int32_t *labels);

size_t rc_buffer_bytes(const rc_image_buffer *buffer); /* of the images held */

#endif
