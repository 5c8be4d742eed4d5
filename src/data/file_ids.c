#include "data/file_ids.h"

#include <stdint.h>

#include "base/memory.h"

/* The slot of a file, or the free one that it would get. There always is a free one. */
static struct rc_file_id *find(const rc_file_ids *ids, dev_t device, ino_t number)
{
    uint64_t bits = ((uint64_t)number + (uint64_t)device * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);
    for (size_t i = (size_t)(bits ^ bits >> 32);; i++) {
        struct rc_file_id *slot = &ids->slot[i & (ids->capacity - 1)];
        if (slot->value == 0 || (slot->device == device && slot->number == number))
            return slot;
    }
}

/* Twice the slots, so that half of them are free. */
static rc_status grow(rc_file_ids *ids)
{
    rc_file_ids grown = {.capacity = ids->capacity > 0 ? 2 * ids->capacity : 256, .used = ids->used};
    grown.slot = rc_alloc_zeroed(NULL, grown.capacity, sizeof *grown.slot);
    if (grown.slot == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < ids->capacity; i++)
        if (ids->slot[i].value != 0)
            *find(&grown, ids->slot[i].device, ids->slot[i].number) = ids->slot[i];
    rc_free(NULL, ids->slot);
    *ids = grown;
    return RC_OK;
}

rc_status rc_file_ids_add(rc_file_ids *ids, const struct stat *file, int value, int *before)
{
    *before = 0;
    if (file->st_ino == 0)
        return RC_OK;
    if (2 * ids->used >= ids->capacity)
        RC_TRY(grow(ids));
    struct rc_file_id *slot = find(ids, file->st_dev, file->st_ino);
    *before = slot->value;
    if (slot->value != 0)
        return RC_OK;
    *slot = (struct rc_file_id){file->st_dev, file->st_ino, value};
    ids->used++;
    return RC_OK;
}

void rc_file_ids_free(rc_file_ids *ids)
{
    rc_free(NULL, ids->slot);
    *ids = (rc_file_ids){0};
}
