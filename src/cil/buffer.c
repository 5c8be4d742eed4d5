#include "cil/buffer.h"

#include <string.h>

#include "base/rng.h"
#include "cil/step_training.h"
#include "cil/task_stream.h"

void rc_buffer_init(rc_image_buffer *buffer, int capacity, size_t image_bytes)
{
    *buffer = (rc_image_buffer){.capacity = capacity, .image_bytes = image_bytes};
}

/* Until the buffer is full, slots lie in the order of the stream, so an even selection of slots is an even selection
 * of the stream. */
void rc_buffer_resize(rc_image_buffer *b, int capacity)
{
    int held = b->held;
    b->capacity = capacity;
    if (held <= capacity)
        return;
    for (int i = 0; i < capacity; i++) {
        size_t from = (size_t)i * (size_t)held / (size_t)capacity;
        memmove(b->images + (size_t)i * b->image_bytes, b->images + from * b->image_bytes, b->image_bytes);
        b->labels[i] = b->labels[from];
    }
    b->held = capacity;
}

void rc_buffer_destroy(rc_image_buffer *b)
{
    rc_free(NULL, b->images);
    rc_free(NULL, b->labels);
    rc_free(NULL, b->slot);
    rc_free(NULL, b->pick);
    rc_buffer_end_task(b);
    memset(b, 0, sizeof *b);
}

rc_status rc_buffer_copy(rc_image_buffer *copy, const rc_image_buffer *b)
{
    rc_buffer_init(copy, b->capacity, b->image_bytes);
    rc_status status = rc_buffer_reserve(copy, (uint64_t)b->held);
    if (status != RC_OK) {
        rc_buffer_destroy(copy);
        return status;
    }
    copy->held = b->held;
    copy->offered = b->offered;
    if (b->held > 0) {
        memcpy(copy->images, b->images, (size_t)b->held * b->image_bytes);
        memcpy(copy->labels, b->labels, (size_t)b->held * sizeof *b->labels);
    }
    return RC_OK;
}

/* A larger array with the first `used` bytes of the old one, which is freed. */
static rc_status grow(void *array, size_t used, size_t count, size_t size)
{
    void *old, *larger = rc_alloc_zeroed(NULL, count, size);
    if (larger == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(&old, array, sizeof old);
    if (used > 0)
        memcpy(larger, old, used);
    memcpy(array, &larger, sizeof larger);
    rc_free(NULL, old);
    return RC_OK;
}

rc_status rc_buffer_reserve(rc_image_buffer *b, uint64_t slots)
{
    size_t held = (size_t)b->held;
    int room = slots < (uint64_t)b->capacity ? (int)slots : b->capacity;
    if (room <= b->room)
        return RC_OK;
    if (b->counted) {
        b->room = room;
        return RC_OK;
    }
    if (b->image_bytes > 0)
        RC_TRY(grow(&b->images, held * b->image_bytes, (size_t)room, b->image_bytes));
    RC_TRY(grow(&b->labels, held * sizeof *b->labels, (size_t)room, sizeof *b->labels));
    RC_TRY(grow(&b->slot, 0, (size_t)room, sizeof *b->slot));
    RC_TRY(grow(&b->pick, 0, (size_t)room, sizeof *b->pick));
    b->room = room;
    return RC_OK;
}

void rc_buffer_pretend(rc_image_buffer *b, uint64_t offered)
{
    b->counted = true;
    b->offered = offered;
    b->held = b->room = offered < (uint64_t)b->capacity ? (int)offered : b->capacity;
}

/* Back to the beginning of the task. */
static void rewind_task(rc_image_buffer *b)
{
    b->task_held = b->held;
    b->task_offered = b->offered;
    b->next_epoch = 0;
    for (int i = 0; i < b->room && !b->counted; i++) {
        b->slot[i] = b->plan.images + i;
        b->pick[i] = i;
    }
}

rc_status rc_buffer_begin_task(rc_image_buffer *b, const rc_buffer_task *task)
{
    uint64_t order = (uint64_t)rc_epoch_batches(task->images, task->batch) * (uint64_t)task->batch;
    uint64_t items = task->offer ? (uint64_t)task->epochs * order : 0;
    if (items > UINT32_MAX || b->offered > UINT32_MAX - items)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "a buffer takes a stream of %u images, repeats counted; this task would make it longer",
                       UINT32_MAX);
    rc_buffer_end_task(b);
    RC_TRY(rc_buffer_reserve(b, b->offered + items));
    b->order = rc_alloc_zeroed(NULL, order, sizeof *b->order);
    b->scratch = rc_alloc_zeroed(NULL, (size_t)task->images, sizeof *b->scratch);
    if (b->order == NULL || b->scratch == NULL)
        return RC_OUT_OF_MEMORY;
    b->plan = *task;
    rewind_task(b);
    return RC_OK;
}

void rc_buffer_end_task(rc_image_buffer *b)
{
    rc_free(NULL, b->order);
    rc_free(NULL, b->scratch);
    b->order = NULL;
    b->scratch = NULL;
}

/* Draw number `draw` of a stream, uniform in 0..n-1: the high word of 64 bits times n. With 32 bits some of n would
 * come up by parts in a hundred more often, at the end of a stream of millions. */
static uint32_t draw_below(rc_rng rng, uint64_t draw, uint32_t n)
{
    rc_philox block = rc_rng_block(rng, draw / 2);
    uint64_t high = block.lane[draw % 2 * 2], low = block.lane[draw % 2 * 2 + 1];
    return (uint32_t)((high * n + (low * n >> 32)) >> 32);
}

/* A buffer that was smaller before has free slots, although more items have come than it can hold: they are filled
 * first. */
static void offer_item(rc_image_buffer *b, int32_t place)
{
    uint64_t t = b->task_offered++;
    uint32_t slot = (uint32_t)t;
    if (t >= (uint64_t)b->capacity)
        slot = draw_below((rc_rng){b->plan.seed, RC_STREAM_RESERVOIR}, t, (uint32_t)t + 1);
    if (slot >= (uint32_t)b->capacity)
        return;
    b->slot[slot < (uint32_t)b->task_held ? (int)slot : b->task_held++] = place;
}

static void swap(int32_t *a, int32_t *b)
{
    int32_t held = *a;
    *a = *b;
    *b = held;
}

/* The first steps of a Fisher-Yates shuffle of the slots, undone afterwards so that no draw depends on another. */
static void draw_minibatch(rc_image_buffer *b, uint64_t step, int32_t *places)
{
    rc_rng rng = {b->plan.seed, (uint64_t)(uint32_t)b->plan.task << 32 | RC_STREAM_REPLAY};
    int minibatch = b->plan.minibatch, held = b->task_held, drawn = minibatch < held ? minibatch : held;
    uint64_t first = step * (uint64_t)minibatch;
    for (int i = 0; i < drawn; i++) {
        swap(&b->pick[i], &b->pick[i + (int)draw_below(rng, first + (uint64_t)i, (uint32_t)(held - i))]);
        places[i] = b->slot[b->pick[i]];
    }
    for (int i = drawn - 1; i >= 0; i--)
        swap(&b->pick[i], &b->pick[i + (int)draw_below(rng, first + (uint64_t)i, (uint32_t)(held - i))]);
    for (int i = drawn; drawn > 0 && i < minibatch; i++)
        places[i] = places[i - drawn];
}

/* Works out the next epoch; places NULL: the caller does not need them. */
static void next_epoch(rc_image_buffer *b, int32_t *places)
{
    const rc_buffer_task *t = &b->plan;
    int batches = rc_epoch_batches(t->images, t->batch);
    const int32_t *batch = b->order;
    rc_epoch_order(t->seed, t->task, b->next_epoch, t->images, t->batch, b->order, b->scratch);
    for (int s = 0; s < batches; s++, batch += t->batch) {
        if (places != NULL) {
            draw_minibatch(b, (uint64_t)b->next_epoch * (uint64_t)batches + (uint64_t)s, places);
            for (int i = 0; b->task_held == 0 && i < t->minibatch; i++)
                places[i] = batch[i % t->batch];
            places += t->minibatch;
        }
        for (int i = 0; t->offer && i < t->batch; i++)
            offer_item(b, batch[i]);
    }
    b->next_epoch++;
}

void rc_buffer_draw(rc_image_buffer *b, int epoch, int32_t *places)
{
    if (epoch < b->next_epoch)
        rewind_task(b);
    while (b->next_epoch < epoch)
        next_epoch(b, NULL);
    next_epoch(b, places);
}

void rc_buffer_commit(rc_image_buffer *b, rc_backend *be, const uint8_t *images, const int32_t *labels)
{
    while (b->next_epoch < b->plan.epochs)
        next_epoch(b, NULL);
    for (int i = 0; i < b->task_held; i++) {
        size_t place = (size_t)b->slot[i];
        if (b->slot[i] == b->plan.images + i) /* as it was: an image never moves to another slot */
            continue;
        be->read_images(be, b->images + (size_t)i * b->image_bytes, images, place * b->image_bytes, b->image_bytes);
        be->read_bytes(be, &b->labels[i], &labels[place], sizeof *labels);
    }
    b->held = b->task_held;
    b->offered = b->task_offered;
    rc_buffer_end_task(b);
}

size_t rc_buffer_bytes(const rc_image_buffer *b)
{
    return (size_t)b->held * (b->image_bytes + sizeof *b->labels);
}

size_t rc_buffer_taken_bytes(const rc_image_buffer *b)
{
    size_t bytes, slot = b->image_bytes + sizeof *b->labels + sizeof *b->slot + sizeof *b->pick;
    return rc_size_mul((size_t)b->room, slot, &bytes) ? bytes : SIZE_MAX;
}
