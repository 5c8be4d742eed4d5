/* Images that are lent: they stay where their owner has them, in its memory or in a file that is mapped. The handle is
 * an address that no other memory has, so augment finds out by looking for it. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/ahead.h"

rc_cpu_lent *rc_cpu_find_lent(const rc_cpu *cpu, const void *images)
{
    rc_cpu_lent *lent = cpu->lent;
    while (lent != NULL && lent != images)
        lent = lent->next;
    return lent;
}

static rc_status lend_images(rc_backend *be, const rc_lent_images *given, size_t more, void **images)
{
    rc_cpu *cpu = rc_cpu_of(be);
    void *memory;
    *images = NULL;
    rc_cpu_lent *lent = rc_alloc(cpu->allocator, sizeof *lent);
    if (lent == NULL)
        return RC_OUT_OF_MEMORY;
    *lent = (rc_cpu_lent){.given = *given};
    rc_status status = be->alloc(be, more, &memory);
    lent->more = memory;
    if (status == RC_OK && given->check != NULL)
        status = rc_ahead_create(given->from, given->bytes, &lent->ahead);
    if (status == RC_OK && given->supply != NULL)
        status = given->supply->open(given->owner, given->most, &lent->reader);
    if (status != RC_OK) {
        be->release(be, memory);
        rc_free(cpu->allocator, lent);
        return status;
    }
    lent->next = cpu->lent;
    cpu->lent = lent;
    *images = lent;
    return RC_OK;
}

void rc_cpu_release_lent(rc_cpu *cpu, rc_cpu_lent *lent)
{
    rc_cpu_lent **at = &cpu->lent;
    while (*at != lent)
        at = &(*at)->next;
    *at = lent->next;
    rc_ahead_destroy(lent->ahead);
    if (lent->reader != NULL)
        lent->given.supply->close(lent->reader);
    cpu->table.release(&cpu->table, lent->more);
    rc_free(cpu->allocator, lent);
}

/* Where records of the file are asked for, in place of images of the handle. */
static rc_status expect_images(rc_backend *be, void *images, const int32_t *order, size_t count,
                               const rc_image_view *view)
{
    rc_cpu_lent *lent = rc_cpu_find_lent(rc_cpu_of(be), images);
    if (lent == NULL || (lent->ahead == NULL && lent->reader == NULL))
        return RC_OK;
    int32_t *record = rc_alloc_zeroed(NULL, count, sizeof *record);
    if (record == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) /* a copy that follows the lent ones is in memory: any record stands for it */
        if (order[i] < lent->given.count)
            record[i] = lent->given.index != NULL ? lent->given.index[order[i]] : order[i];
        else if (lent->reader != NULL)
            record[i] = -1;
    rc_status status = lent->reader != NULL ? lent->given.supply->expect(lent->reader, record, count, view,
                                                                         be->parts > 1 ? be->parts : 1)
                                            : rc_ahead_expect(lent->ahead, record, count);
    rc_free(NULL, record);
    lent->expected = order;
    return status;
}

const rc_cpu_lent *rc_cpu_read_lent(rc_cpu *cpu, const uint8_t *images, const int32_t *order, size_t first, int n)
{
    rc_cpu_lent *lent = rc_cpu_find_lent(cpu, images);
    if (lent != NULL && lent->reader != NULL) {
        rc_status status = lent->given.supply->fetch(lent->reader, first, n, &lent->from, &lent->place);
        if (status != RC_OK)
            rc_cpu_set_error(cpu, status, rc_message());
    }
    if (lent == NULL || lent->given.check == NULL)
        return lent;
    if (order == lent->expected)
        rc_ahead_reached(lent->ahead, first);
    for (int b = 0; b < n; b++) {
        int32_t i = order[first + (size_t)b];
        if (i >= lent->given.count)
            continue;
        int32_t record = lent->given.index != NULL ? lent->given.index[i] : i;
        rc_status status = lent->given.check(lent->given.owner, record);
        if (status != RC_OK)
            rc_cpu_set_error(cpu, status, rc_message());
    }
    return lent;
}

/* ---- the images of a handle, lent or not ----------------------------------------------------------------------- */

/* Only what follows the lent ones can be written. */
static void write_images(rc_backend *be, void *images, size_t offset, const uint8_t *from, size_t bytes)
{
    const rc_cpu_lent *lent = rc_cpu_find_lent(rc_cpu_of(be), images);
    if (lent != NULL)
        be->write_bytes(be, lent->more + (offset - (size_t)lent->given.count * lent->given.bytes), from, bytes);
    else
        be->write_bytes(be, (uint8_t *)images + offset, from, bytes);
}

/* A part of an image that is made for this. */
static void read_supplied(rc_cpu *cpu, const rc_cpu_lent *lent, int32_t i, size_t inside, uint8_t *to, size_t bytes)
{
    uint8_t *image = rc_alloc_zeroed(NULL, 1, lent->given.bytes);
    rc_status status = image != NULL ? lent->given.supply->read(lent->given.owner, lent->given.index[i], image)
                                     : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        memcpy(to, image + inside, bytes);
    else
        rc_cpu_set_error(cpu, status, rc_message());
    rc_free(NULL, image);
}

static void read_images(rc_backend *be, uint8_t *to, const void *images, size_t offset, size_t bytes)
{
    rc_cpu *cpu = rc_cpu_of(be);
    const rc_cpu_lent *lent = rc_cpu_find_lent(cpu, images);
    if (lent == NULL) {
        be->read_bytes(be, to, (const uint8_t *)images + offset, bytes);
        return;
    }
    for (size_t now; bytes > 0; bytes -= now, offset += now, to += now) { /* image by image */
        size_t image = lent->given.bytes, inside = offset % image;
        int32_t i = (int32_t)(offset / image);
        now = image - inside < bytes ? image - inside : bytes;
        if (lent->reader != NULL && i < lent->given.count) {
            read_supplied(cpu, lent, i, inside, to, now);
            continue;
        }
        rc_cpu_read_lent(cpu, images, &i, 0, 1);
        memcpy(to, rc_cpu_image(lent, NULL, image, &i, 0) + inside, now);
    }
}

void rc_cpu_fill_lent(rc_backend *table)
{
    table->lend_images = lend_images;
    table->expect_images = expect_images;
    table->write_images = write_images;
    table->read_images = read_images;
}
