#include "data/zip.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/input.h"

enum {
    LOCAL_HEADER = 30,
    DIRECTORY_ENTRY = 46,
    END_RECORD = 22,
    LARGE_END_RECORD = 56, /* zip64: the same in wider fields */
    LARGE_END_LOCATOR = 20,
    LONGEST_COMMENT = 65535,
    STORED = 0,
    DEFLATED = 8,
    LARGE_FIELDS = 1 /* zip64: what does not fit into the fields of a directory entry */
};

static const uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50;
static const uint32_t large_end_mark = 0x06064b50, locator_mark = 0x07064b50;

typedef struct entry {
    const uint8_t *name;
    size_t name_length;
    int method;
    uint32_t checksum;
    uint64_t packed, unpacked; /* bytes */
    uint64_t at;               /* of its header */
    const uint8_t *data;       /* its bytes, once they were read and found to be right */
    uint8_t *block;            /* what holds them, if they were deflated */
} entry;

struct rc_zip {
    const char *name;
    const uint8_t *data;
    size_t size, directory; /* where the directory begins: entries lie before it */
    entry *entries;
    int count;
    uint64_t room; /* bytes that entries may still unpack to */
};

static uint32_t number(const uint8_t *bytes, int size)
{
    uint32_t value = 0;
    for (int i = 0; i < size; i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

static uint64_t large_number(const uint8_t *bytes)
{
    return number(bytes, 4) | (uint64_t)number(bytes + 4, 4) << 32;
}

static rc_status damaged(const rc_zip *zip, const char *what)
{
    return rc_fail(RC_FORMAT, "'%.300s' is damaged or cut off: %s", zip->name, what);
}

static rc_status unreadable(const rc_zip *zip, const entry *e, const char *what)
{
    return rc_fail(RC_FORMAT, "'%.300s': entry '%.*s' %s", zip->name,
                   (int)(e->name_length < 200 ? e->name_length : 200), (const char *)e->name, what);
}

bool rc_zip_is(const uint8_t *data, size_t size)
{
    return size >= 4 && number(data, 4) == local_mark;
}

/* The record at the end, behind which only a comment may follow. */
static rc_status find_end(const rc_zip *zip, const uint8_t **end)
{
    for (size_t back = END_RECORD; back <= zip->size && back <= END_RECORD + LONGEST_COMMENT; back++) {
        const uint8_t *at = zip->data + zip->size - back;
        if (number(at, 4) == end_mark && END_RECORD + (size_t)number(at + 20, 2) == back) {
            *end = at;
            return RC_OK;
        }
    }
    return damaged(zip, "the directory of the archive is missing");
}

/* Fields of four bytes that are full have their value in a list of wider ones, in this order. */
static rc_status take_large_fields(const rc_zip *zip, entry *e, const uint8_t *extra, size_t length)
{
    uint64_t *const fields[] = {&e->unpacked, &e->packed, &e->at};
    size_t list = 0, left = 0; /* where the list is, and what is left of it */
    for (size_t at = 0; at + 4 <= length && list == 0;) {
        size_t size = number(extra + at + 2, 2);
        if (number(extra + at, 2) == LARGE_FIELDS && size <= length - at - 4) {
            list = at + 4;
            left = size;
        }
        at += 4 + size;
    }
    for (int i = 0; i < 3; i++) {
        if (*fields[i] != UINT32_MAX)
            continue;
        if (left < 8)
            return unreadable(zip, e, "is larger than 4 GB and does not say how large");
        *fields[i] = large_number(extra + list);
        list += 8;
        left -= 8;
    }
    return RC_OK;
}

/* The entry at *at of the directory; *at goes on to the next. */
static rc_status take_entry(const rc_zip *zip, size_t *at, size_t end, entry *e)
{
    const uint8_t *d = zip->data + *at;
    if (end - *at < DIRECTORY_ENTRY || number(d, 4) != entry_mark)
        return damaged(zip, "its directory has fewer entries than it says");
    size_t name = number(d + 28, 2), extra = number(d + 30, 2), comment = number(d + 32, 2);
    if (end - *at - DIRECTORY_ENTRY < name + extra + comment)
        return damaged(zip, "an entry of its directory is longer than the directory");
    *e = (entry){.name = d + DIRECTORY_ENTRY,
                 .name_length = name,
                 .method = (int)number(d + 10, 2),
                 .checksum = number(d + 16, 4),
                 .packed = number(d + 20, 4),
                 .unpacked = number(d + 24, 4),
                 .at = number(d + 42, 4)};
    *at += DIRECTORY_ENTRY + name + extra + comment;
    if (number(d + 8, 2) & 1)
        return unreadable(zip, e, "is encrypted");
    return take_large_fields(zip, e, d + DIRECTORY_ENTRY + name, extra);
}

/* Where the directory is, as the record at the end says. */
typedef struct directory {
    uint64_t count, bytes, at;
    size_t end; /* it lies before this record */
    bool part;  /* of an archive in several files */
} directory;

/* A zip64 archive has a wider record, and a locator between the two. */
static rc_status take_large_end(const rc_zip *zip, directory *d)
{
    if (d->end < LARGE_END_LOCATOR + LARGE_END_RECORD)
        return damaged(zip, "its directory does not fit into it");
    const uint8_t *locator = zip->data + d->end - LARGE_END_LOCATOR;
    uint64_t at = large_number(locator + 8);
    if (number(locator, 4) != locator_mark || at > d->end - LARGE_END_LOCATOR - LARGE_END_RECORD ||
        number(zip->data + at, 4) != large_end_mark)
        return damaged(zip, "the record of large archives is missing");
    const uint8_t *record = zip->data + at;
    *d = (directory){.count = large_number(record + 32),
                     .bytes = large_number(record + 40),
                     .at = large_number(record + 48),
                     .end = (size_t)at,
                     .part = number(record + 16, 4) != 0 || number(record + 20, 4) != 0 ||
                             large_number(record + 24) != large_number(record + 32)};
    return RC_OK;
}

static rc_status find_directory(const rc_zip *zip, directory *d)
{
    const uint8_t *end;
    RC_TRY(find_end(zip, &end));
    *d = (directory){.count = number(end + 10, 2),
                     .bytes = number(end + 12, 4),
                     .at = number(end + 16, 4),
                     .end = (size_t)(end - zip->data),
                     .part = number(end + 4, 2) != 0 || number(end + 6, 2) != 0 ||
                             number(end + 8, 2) != number(end + 10, 2)};
    if (d->count == UINT16_MAX || d->bytes == UINT32_MAX || d->at == UINT32_MAX)
        RC_TRY(take_large_end(zip, d));
    if (d->part)
        return rc_fail(RC_UNSUPPORTED, "'%.300s' is a part of an archive, which recollect does not read", zip->name);
    return d->at > d->end || d->bytes > d->end - d->at || d->bytes / DIRECTORY_ENTRY < d->count || d->count > INT_MAX
               ? damaged(zip, "its directory does not fit into it")
               : RC_OK;
}

static rc_status read_directory(rc_zip *zip)
{
    directory d;
    RC_TRY(find_directory(zip, &d));
    zip->directory = (size_t)d.at;
    zip->entries = rc_alloc_zeroed(NULL, (size_t)d.count, sizeof *zip->entries);
    if (zip->entries == NULL)
        return RC_OUT_OF_MEMORY;
    uint64_t left = zip->size;
    for (size_t at = zip->directory, last = at + (size_t)d.bytes; zip->count < (int)d.count; zip->count++) {
        entry *e = &zip->entries[zip->count];
        RC_TRY(take_entry(zip, &at, last, e));
        if (e->packed > left)
            return damaged(zip, "its entries overlap");
        left -= e->packed;
    }
    return RC_OK;
}

rc_status rc_zip_parse(const char *name, const uint8_t *data, size_t size, rc_zip **zip)
{
    *zip = NULL;
    rc_zip *z = rc_alloc_zeroed(NULL, 1, sizeof *z);
    if (z == NULL)
        return RC_OUT_OF_MEMORY;
    z->name = name;
    z->data = data;
    z->size = size;
    z->room = RC_INPUT_FREE + RC_INPUT_RATIO * (uint64_t)size;
    rc_status status = read_directory(z);
    if (status == RC_OK)
        *zip = z;
    else
        rc_zip_free(z);
    return status;
}

void rc_zip_free(rc_zip *zip)
{
    for (int i = 0; zip != NULL && zip->entries != NULL && i < zip->count; i++)
        rc_free(NULL, zip->entries[i].block);
    if (zip != NULL)
        rc_free(NULL, zip->entries);
    rc_free(NULL, zip);
}

int rc_zip_count(const rc_zip *zip)
{
    return zip->count;
}

const char *rc_zip_name(const rc_zip *zip, int index, size_t *length)
{
    *length = zip->entries[index].name_length;
    return (const char *)zip->entries[index].name;
}

int rc_zip_find(const rc_zip *zip, const char *name, size_t length)
{
    for (int i = 0; i < zip->count; i++)
        if (zip->entries[i].name_length == length && memcmp(zip->entries[i].name, name, length) == 0)
            return i;
    return -1;
}

/* Memory for what the entry says, once that is not too much, and the bytes, which must be that many. */
static rc_status inflate_entry(rc_zip *zip, entry *e, const uint8_t *packed)
{
    if (e->unpacked > zip->room)
        return unreadable(zip, e, "would unpack to more than recollect takes of an archive of that size");
    if (e->packed > UINT_MAX || e->unpacked > UINT_MAX)
        return unreadable(zip, e, "is deflated and larger than 4 GB, which recollect does not read");
    e->block = rc_alloc(NULL, (size_t)e->unpacked);
    if (e->block == NULL)
        return RC_OUT_OF_MEMORY;
    zip->room -= e->unpacked;
    z_stream stream = {.next_in = rc_without_const(packed), .avail_in = (uInt)e->packed};
    stream.next_out = e->block;
    stream.avail_out = (uInt)e->unpacked;
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory to unpack '%.300s'", zip->name);
    int result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (result == Z_MEM_ERROR)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory to unpack '%.300s'", zip->name);
    return result == Z_STREAM_END && stream.avail_out == 0 ? RC_OK : unreadable(zip, e, "cannot be unpacked");
}

static rc_status read_entry(rc_zip *zip, entry *e)
{
    if (e->at > zip->directory || zip->directory - e->at < LOCAL_HEADER || number(zip->data + e->at, 4) != local_mark)
        return unreadable(zip, e, "is not where the directory says");
    const uint8_t *local = zip->data + e->at;
    size_t skip = LOCAL_HEADER + number(local + 26, 2) + (size_t)number(local + 28, 2);
    size_t left = zip->directory - (size_t)e->at;
    if (skip > left || e->packed > left - skip)
        return unreadable(zip, e, "reaches behind the end of the archive");
    const uint8_t *bytes = local + skip;
    if (e->method == DEFLATED) {
        RC_TRY(inflate_entry(zip, e, bytes));
        bytes = e->block;
    } else if (e->method != STORED || e->packed != e->unpacked) {
        return unreadable(zip, e, "is packed in a way that recollect does not know");
    }
    if (crc32_z(crc32_z(0, NULL, 0), bytes, (size_t)e->unpacked) != e->checksum)
        return unreadable(zip, e, "has a wrong checksum");
    e->data = bytes;
    return RC_OK;
}

rc_status rc_zip_read(rc_zip *zip, int index, const uint8_t **data, size_t *size)
{
    entry *e = &zip->entries[index];
    if (e->data == NULL) {
        rc_status status = read_entry(zip, e);
        if (status != RC_OK) { /* asked again, it fails again */
            rc_free(NULL, e->block);
            e->block = NULL;
            return status;
        }
    }
    *data = e->data;
    *size = (size_t)e->unpacked;
    return RC_OK;
}
