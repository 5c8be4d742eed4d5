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
    *lent = (rc_cpu_lent){.given = *given, .supplied = given->supply != NULL && given->from == NULL};
    rc_status status = be->alloc(be, more, &memory);
    lent->more = memory;
    if (status == RC_OK && given->check != NULL)
        status = rc_ahead_create(given->from, given->bytes, &lent->ahead);
    if (status == RC_OK && lent->supplied) {
        lent->none = rc_alloc_zeroed(cpu->allocator, 1, given->bytes);
        status = lent->none != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    }
    if (status != RC_OK) {
        rc_ahead_destroy(lent->ahead);
        be->release(be, memory);
        rc_free(cpu->allocator, lent);
        return status;
    }
    lent->next = cpu->lent;
    cpu->lent = lent;
    *images = lent;
    return RC_OK;
}

/* ---- orders ----------------------------------------------------------------------------------------------------- */

/* Where the feed of that order hangs; a NULL: there is none. */
static rc_cpu_feed **find_feed(rc_cpu_lent *lent, const int32_t *order)
{
    rc_cpu_feed **at = &lent->feeds;
    while (*at != NULL && (*at)->order != order)
        at = &(*at)->next;
    return at;
}

static void drop_feed(rc_cpu *cpu, const rc_cpu_lent *lent, rc_cpu_feed **at)
{
    rc_cpu_feed *feed = *at;
    if (feed == NULL)
        return;
    *at = feed->next;
    lent->given.supply->close(feed->reader);
    rc_free(cpu->allocator, feed);
}

static rc_status make_feed(rc_cpu *cpu, const rc_cpu_lent *lent, const int32_t *order, rc_cpu_feed **at)
{
    rc_cpu_feed *feed = rc_alloc(cpu->allocator, sizeof *feed);
    if (feed == NULL)
        return RC_OUT_OF_MEMORY;
    *feed = (rc_cpu_feed){.order = order};
    rc_status status = lent->given.supply->open(lent->given.owner, lent->given.bytes, lent->given.most, &feed->reader);
    if (status == RC_OK)
        *at = feed;
    else
        rc_free(cpu->allocator, feed);
    return status;
}

void rc_cpu_release_lent(rc_cpu *cpu, rc_cpu_lent *lent)
{
    rc_cpu_lent **at = &cpu->lent;
    while (*at != lent)
        at = &(*at)->next;
    *at = lent->next;
    rc_ahead_destroy(lent->ahead);
    while (lent->feeds != NULL)
        drop_feed(cpu, lent, &lent->feeds);
    rc_free(cpu->allocator, lent->none);
    cpu->table.release(&cpu->table, lent->more);
    rc_free(cpu->allocator, lent);
}

/* Of image i of the lent ones, as their owner knows it. */
static int32_t number_of(const rc_cpu_lent *lent, int32_t i)
{
    return lent->given.index != NULL ? lent->given.index[i] : i;
}

/* Where records of the file are asked for, in place of images of the handle. */
static rc_status expect_images(rc_backend *be, const void *images, const int32_t *order, size_t count,
                               const rc_image_view *view)
{
    rc_cpu *cpu = rc_cpu_of(be);
    rc_cpu_lent *lent = rc_cpu_find_lent(cpu, images);
    if (lent == NULL || (lent->ahead == NULL && !lent->supplied))
        return RC_OK;
    if (lent->ahead != NULL && lent->expected != NULL && lent->expected != order)
        return RC_OK;
    rc_cpu_feed **feed = find_feed(lent, order);
    if (count == 0) {
        drop_feed(cpu, lent, feed);
        return RC_OK;
    }
    if (lent->supplied && *feed == NULL)
        RC_TRY(make_feed(cpu, lent, order, feed));
    int32_t *record = rc_alloc_zeroed(NULL, count, sizeof *record);
    if (record == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) /* a copy that follows the lent ones is in memory: any record stands for it */
        if (order[i] < lent->given.count)
            record[i] = number_of(lent, order[i]);
        else if (lent->supplied)
            record[i] = -1;
    rc_status status = lent->supplied ? lent->given.supply->expect((*feed)->reader, record, count, view,
                                                                   be->parts > 1 ? be->parts : 1)
                                      : rc_ahead_expect(lent->ahead, record, count);
    rc_free(NULL, record);
    lent->expected = order;
    return status;
}

/* What the supply has made of that order. */
static void fetch(rc_cpu *cpu, rc_cpu_lent *lent, const int32_t *order, size_t first, int n)
{
    const rc_cpu_feed *feed = *find_feed(lent, order);
    lent->from = NULL;
    if (feed == NULL) {
        rc_cpu_set_error(cpu, RC_INTERNAL, "images were read in an order that nobody has announced");
        return;
    }
    rc_status status = lent->given.supply->fetch(feed->reader, first, n, &lent->from, &lent->place);
    if (status != RC_OK)
        rc_cpu_set_error(cpu, status, rc_message());
}

static void check(rc_cpu *cpu, const rc_cpu_lent *lent, int32_t i)
{
    if (i >= lent->given.count)
        return;
    rc_status status = lent->given.check(lent->given.owner, number_of(lent, i));
    if (status != RC_OK)
        rc_cpu_set_error(cpu, status, rc_message());
}

const rc_cpu_lent *rc_cpu_read_lent(rc_cpu *cpu, const uint8_t *images, const int32_t *order, size_t first, int n)
{
    rc_cpu_lent *lent = rc_cpu_find_lent(cpu, images);
    if (lent == NULL)
        return NULL;
    if (lent->supplied)
        fetch(cpu, lent, order, first, n);
    if (lent->given.check == NULL)
        return lent;
    if (order == lent->expected)
        rc_ahead_reached(lent->ahead, first);
    for (int b = 0; b < n; b++)
        check(cpu, lent, order[first + (size_t)b]);
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
    rc_status status = image != NULL ? lent->given.supply->read(lent->given.owner, number_of(lent, i), image)
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
        if (lent->supplied && i < lent->given.count) {
            read_supplied(cpu, lent, i, inside, to, now);
            continue;
        }
        if (lent->given.check != NULL)
            check(cpu, lent, i);
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
