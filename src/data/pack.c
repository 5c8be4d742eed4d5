#include "data/pack.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/reader.h"
#include "data/stream.h"

/* Where the fields of the header lie. */
enum {
    AT_VERSION = 8,
    AT_CRC = 12,
    AT_TABLE_CRC = 16,
    AT_SIDE = 20,
    AT_CHANNELS = 24,
    AT_RESIZE = 28,
    AT_INTERPOLATION = 32,
    AT_CLASSES = 36,
    AT_TRAIN = 40,
    AT_TEST = 44,
    AT_NAMES_BYTES = 48,
    AT_FILE_BYTES = 56,
    AT_MEAN = 64,
    AT_STD = 80,
    AT_NAME = 96,
    AT_EXIF = 128,
    AT_END = 132
};

struct rc_pack {
    rc_pack_facts facts;
    const uint8_t *bytes, *table;
    const char *names;
    size_t mapped;            /* bytes that closing unmaps; 0: none */
    _Atomic uint8_t *checked; /* (records) */
    char path[RC_PATH_SIZE];  /* what messages call it */
};

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

void rc_pack_put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

uint32_t rc_pack_get32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void put64(uint8_t *to, uint64_t value)
{
    rc_pack_put32(to, (uint32_t)value);
    rc_pack_put32(to + 4, (uint32_t)(value >> 32));
}

static uint64_t get64(const uint8_t *from)
{
    return rc_pack_get32(from) | (uint64_t)rc_pack_get32(from + 4) << 32;
}

static void put_floats(uint8_t *to, const float values[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        rc_pack_put32(to + 4 * i, bits);
    }
}

static void get_floats(const uint8_t *from, float values[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t bits = rc_pack_get32(from + 4 * i);
        memcpy(&values[i], &bits, sizeof bits);
    }
}

uint32_t rc_pack_crc(uint32_t crc, const uint8_t *bytes, size_t size)
{
    static const size_t piece = (size_t)1 << 30; /* zlib counts in 32 bits */
    for (size_t now; size > 0; bytes += now, size -= now) {
        now = size < piece ? size : piece;
        crc = (uint32_t)crc32(crc, bytes, (uInt)now);
    }
    return crc;
}

/* ---- the header ------------------------------------------------------------------------------------------------- */

size_t rc_pack_record(const rc_pack_facts *f)
{
    return (size_t)f->side * (size_t)f->side * (size_t)f->channels;
}

static uint32_t header_crc(const uint8_t *header)
{
    static const uint8_t zero[4];
    uint32_t crc = rc_pack_crc(0, header, AT_CRC);
    crc = rc_pack_crc(crc, zero, sizeof zero);
    return rc_pack_crc(crc, header + AT_CRC + sizeof zero, RC_PACK_HEADER - AT_CRC - sizeof zero);
}

void rc_pack_write_header(const rc_pack_facts *f, uint8_t *header)
{
    memset(header, 0, RC_PACK_HEADER);
    memcpy(header, RC_PACK_MAGIC, AT_VERSION);
    rc_pack_put32(header + AT_VERSION, RC_PACK_VERSION);
    rc_pack_put32(header + AT_TABLE_CRC, f->table_crc);
    rc_pack_put32(header + AT_SIDE, (uint32_t)f->side);
    rc_pack_put32(header + AT_CHANNELS, (uint32_t)f->channels);
    rc_pack_put32(header + AT_RESIZE, (uint32_t)f->resize);
    rc_pack_put32(header + AT_INTERPOLATION, (uint32_t)f->interpolation);
    rc_pack_put32(header + AT_CLASSES, (uint32_t)f->classes);
    rc_pack_put32(header + AT_TRAIN, (uint32_t)f->train);
    rc_pack_put32(header + AT_TEST, (uint32_t)f->test);
    put64(header + AT_NAMES_BYTES, f->names_bytes);
    put64(header + AT_FILE_BYTES, f->file_bytes);
    put_floats(header + AT_MEAN, f->mean);
    put_floats(header + AT_STD, f->std);
    memcpy(header + AT_NAME, f->name, RC_PACK_NAME - 1);
    rc_pack_put32(header + AT_EXIF, (uint32_t)f->exif);
    rc_pack_put32(header + AT_CRC, header_crc(header));
}

/* A number of the header that must lie between two others. */
static rc_status take(const char *name, const uint8_t *header, int at, const char *what, uint32_t least, uint32_t most,
                      int *value)
{
    uint32_t found = rc_pack_get32(header + at);
    if (found < least || found > most)
        return rc_fail(RC_FORMAT, "%s: the pack has %s %u, expected %u to %u", name, what, found, least, most);
    *value = (int)found;
    return RC_OK;
}

static rc_status take_numbers(const char *name, const uint8_t *header, rc_pack_facts *f)
{
    RC_TRY(take(name, header, AT_SIDE, "side", 1, RC_DATA_MAX_SIDE, &f->side));
    RC_TRY(take(name, header, AT_CHANNELS, "channels", 1, RC_DATA_MAX_CHANNELS, &f->channels));
    RC_TRY(take(name, header, AT_RESIZE, "resize", (uint32_t)f->side, RC_DATA_MAX_RESIZE, &f->resize));
    RC_TRY(take(name, header, AT_INTERPOLATION, "interpolation", RC_BILINEAR, RC_BICUBIC, &f->interpolation));
    RC_TRY(take(name, header, AT_CLASSES, "classes", 1, RC_DATA_MAX_CLASSES, &f->classes));
    RC_TRY(take(name, header, AT_TRAIN, "training records", 0, INT_MAX, &f->train));
    RC_TRY(take(name, header, AT_TEST, "test records", 0, (uint32_t)(INT_MAX - f->train), &f->test));
    if (f->channels == 2)
        return rc_fail(RC_FORMAT, "%s: the pack has channels 2, expected 1 or 3", name);
    if (f->train + f->test == 0)
        return rc_fail(RC_FORMAT, "%s: the pack has no records", name);
    return RC_OK;
}

/* Does what the counts make up fill the file? Counts are below 2^31, a record below 2^22: no sum overflows 64 bits. */
static rc_status check_size(const char *name, uint64_t size, const rc_pack_facts *f)
{
    uint64_t records = (uint64_t)f->train + (uint64_t)f->test, record = rc_pack_record(f);
    uint64_t images_end = RC_PACK_HEADER + records * record, names_at = images_end + records * RC_PACK_ENTRY;
    if (size < images_end)
        return rc_fail(RC_FORMAT, "%s: the pack ends in record %llu of %llu: it has %llu bytes, expected %llu", name,
                       (unsigned long long)((size - RC_PACK_HEADER) / record), (unsigned long long)records,
                       (unsigned long long)size, (unsigned long long)f->file_bytes);
    if (size != f->file_bytes || size < names_at || size - names_at != f->names_bytes)
        return rc_fail(RC_FORMAT,
                       "%s: the pack has %llu bytes and says %llu; its %llu records, their table and %llu bytes of "
                       "names make %llu",
                       name, (unsigned long long)size, (unsigned long long)f->file_bytes, (unsigned long long)records,
                       (unsigned long long)f->names_bytes, (unsigned long long)(names_at + f->names_bytes));
    return RC_OK;
}

rc_status rc_pack_parse(const char *name, const uint8_t *header, uint64_t size, rc_pack_facts *f)
{
    *f = (rc_pack_facts){0};
    if (size < RC_PACK_HEADER)
        return rc_fail(RC_FORMAT, "%s: a pack of %llu bytes, expected %d for its header", name,
                       (unsigned long long)size, RC_PACK_HEADER);
    if (memcmp(header, RC_PACK_MAGIC, AT_VERSION) != 0)
        return rc_fail(RC_FORMAT, "%s: not a pack; one begins with 'rcpack'", name);
    uint32_t version = rc_pack_get32(header + AT_VERSION);
    if (version < 1 || version > RC_PACK_VERSION)
        return rc_fail(RC_UNSUPPORTED, "%s: a pack of version %u, expected 1 to %d; pack the data again", name, version,
                       RC_PACK_VERSION);
    if (rc_pack_get32(header + AT_CRC) != header_crc(header))
        return rc_fail(RC_FORMAT, "%s: the header of the pack is damaged: its checksum is another", name);
    RC_TRY(take_numbers(name, header, f));
    f->table_crc = rc_pack_get32(header + AT_TABLE_CRC);
    f->names_bytes = get64(header + AT_NAMES_BYTES);
    f->file_bytes = get64(header + AT_FILE_BYTES);
    get_floats(header + AT_MEAN, f->mean);
    get_floats(header + AT_STD, f->std);
    for (int c = 0; c < f->channels; c++)
        if (!(f->mean[c] >= 0 && f->mean[c] <= 1 && f->std[c] > 0 && f->std[c] <= 1))
            return rc_fail(RC_FORMAT,
                           "%s: channel %d of the pack has mean %g and deviation %g, expected numbers of 0 to 1, and "
                           "a deviation above 0",
                           name, c, (double)f->mean[c], (double)f->std[c]);
    memcpy(f->name, header + AT_NAME, RC_PACK_NAME);
    const char *end = memchr(f->name, 0, sizeof f->name);
    if (end == NULL || rc_check_class_name(0, f->name, (size_t)(end - f->name)) != RC_OK)
        return rc_fail(RC_FORMAT, "%s: the name of the set in the pack is not printable UTF-8 of 1 to %d bytes", name,
                       RC_PACK_NAME - 1);
    if (version > 1)
        RC_TRY(take(name, header, AT_EXIF, "exif", RC_PACK_EXIF_NOT_SAID, RC_PACK_EXIF_IGNORED, &f->exif));
    for (int i = version > 1 ? AT_END : AT_EXIF; i < RC_PACK_HEADER; i++)
        if (header[i] != 0)
            return rc_fail(RC_FORMAT, "%s: byte %d of the pack's header is %u, expected 0", name, i, header[i]);
    return check_size(name, size, f);
}

/* ---- a whole pack ------------------------------------------------------------------------------------------------ */

static rc_status check_table(const rc_pack *p)
{
    const rc_pack_facts *f = &p->facts;
    int records = f->train + f->test;
    for (int i = 0; i < records; i++)
        if (rc_pack_label(p, i) >= (uint32_t)f->classes)
            return rc_fail(RC_FORMAT, "%s: record %d of the pack has label %u, expected 0 to %d", p->path, i,
                           rc_pack_label(p, i), f->classes - 1);
    const char *at = p->names;
    uint64_t left = f->names_bytes;
    for (int i = 0; i < f->classes; i++) {
        const char *end = memchr(at, 0, left);
        if (end == NULL)
            return rc_fail(RC_FORMAT, "%s: the pack has %d names, expected %d", p->path, i, f->classes);
        left -= (uint64_t)(end - at) + 1;
        at = end + 1;
    }
    return left == 0
               ? RC_OK
               : rc_fail(RC_FORMAT, "%s: %llu bytes follow the names of the pack", p->path, (unsigned long long)left);
}

static rc_status fill(rc_pack *p, const char *name, const uint8_t *bytes, uint64_t size)
{
    snprintf(p->path, sizeof p->path, "%s", name);
    RC_TRY(rc_pack_parse(name, bytes, size, &p->facts));
    const rc_pack_facts *f = &p->facts;
    size_t records = (size_t)f->train + (size_t)f->test;
    p->bytes = bytes;
    p->table = bytes + RC_PACK_HEADER + records * rc_pack_record(f);
    p->names = (const char *)p->table + records * RC_PACK_ENTRY;
    if (rc_pack_crc(0, p->table, (size_t)(bytes + size - p->table)) != f->table_crc)
        return rc_fail(RC_FORMAT, "%s: the table of the pack is damaged: its checksum is another", name);
    RC_TRY(check_table(p));
    p->checked = rc_alloc_zeroed(NULL, records, sizeof *p->checked);
    return p->checked != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

rc_status rc_pack_read(const char *name, const uint8_t *bytes, uint64_t size, rc_pack **pack)
{
    *pack = NULL;
    rc_pack *p = rc_alloc_zeroed(NULL, 1, sizeof *p);
    if (p == NULL)
        return RC_OUT_OF_MEMORY;
    rc_status status = fill(p, name, bytes, size);
    if (status == RC_OK)
        *pack = p;
    else
        rc_pack_close(p);
    return status;
}

void rc_pack_close(rc_pack *p)
{
    if (p == NULL)
        return;
    if (p->mapped > 0)
        munmap(rc_without_const(p->bytes), p->mapped);
    rc_free(NULL, p->checked);
    rc_free(NULL, p);
}

const rc_pack_facts *rc_pack_about(const rc_pack *p)
{
    return &p->facts;
}

const uint8_t *rc_pack_image(const rc_pack *p, int record)
{
    return p->bytes + RC_PACK_HEADER + (size_t)record * rc_pack_record(&p->facts);
}

uint32_t rc_pack_label(const rc_pack *p, int record)
{
    return rc_pack_get32(p->table + (size_t)record * RC_PACK_ENTRY);
}

uint32_t rc_pack_checksum(const rc_pack *p, int record)
{
    return rc_pack_get32(p->table + (size_t)record * RC_PACK_ENTRY + 4);
}

rc_status rc_pack_check(const rc_pack *p, int record)
{
    if (atomic_load_explicit(&p->checked[record], memory_order_relaxed))
        return RC_OK;
    uint32_t crc = rc_pack_crc(0, rc_pack_image(p, record), rc_pack_record(&p->facts));
    if (crc != rc_pack_checksum(p, record))
        return rc_fail(RC_FORMAT, "%s: record %d of the pack is damaged: its checksum is %08x, expected %08x", p->path,
                       record, crc, rc_pack_checksum(p, record));
    atomic_store_explicit(&p->checked[record], 1, memory_order_relaxed);
    return RC_OK;
}

const char *rc_pack_names(const rc_pack *p)
{
    return p->names;
}

/* ---- splits ------------------------------------------------------------------------------------------------------ */

rc_status rc_split_check(const rc_split *split, const int32_t *index, int count)
{
    for (int i = 0; split->pack != NULL && i < count; i++)
        RC_TRY(rc_pack_check(split->pack, split->first_record + (index != NULL ? index[i] : i)));
    return RC_OK;
}

uint32_t rc_split_checksum(const rc_split *split, int image)
{
    return split->stream != NULL ? split->stream->checksum[image]
                                 : rc_pack_checksum(split->pack, split->first_record + image);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

static rc_status recognise(const char *path, bool *known)
{
    char begin[sizeof RC_PACK_MAGIC - 1];
    rc_file_reader *file = NULL;
    size_t size;
    struct stat about;
    *known = false;
    RC_TRY(rc_file_look(path, true, &about));
    if (!S_ISREG(about.st_mode))
        return RC_OK;
    rc_status status = rc_file_reader_open(path, &file, &size);
    if (status == RC_OK)
        status = rc_file_reader_take(file, begin, sizeof begin);
    rc_file_reader_close(file);
    *known = status == RC_OK && memcmp(begin, RC_PACK_MAGIC, sizeof begin) == 0;
    return status == RC_OUT_OF_MEMORY ? status : RC_OK;
}

static rc_status map_file(const char *path, const uint8_t **bytes, uint64_t *size)
{
    int fd;
    RC_TRY(rc_file_open_regular(path, &fd, size));
    void *mapped = MAP_FAILED;
    errno = 0;
    if (*size > 0 && *size <= SIZE_MAX)
        mapped = mmap(NULL, (size_t)*size, PROT_READ, MAP_SHARED, fd, 0);
    int error = errno;
    rc_file_close(fd); /* the mapping holds it */
    if (mapped == MAP_FAILED)
        return rc_fail(RC_IO, "'%.700s' cannot be mapped into memory: %s", path,
                       error != 0 ? strerror(error) : "it is empty");
    *bytes = mapped;
    return RC_OK;
}

/* A pack holds images as they were made: others would have to be made from the originals. */
static rc_status compare(const char *path, const rc_data_settings *s, const rc_pack_facts *f)
{
    static const char *const filter[] = {"bilinear", "bicubic"};
    if (s->size > 0 && s->size != f->side)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "'%.400s' holds images of %d pixels, and %d are asked for; pack the data again with size %d",
                       path, f->side, s->size, s->size);
    if (s->channels > 0 && s->channels != f->channels)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "'%.400s' holds %s images, and %s ones are asked for; pack the data again with channels %d",
                       path, f->channels == 1 ? "grey" : "coloured", s->channels == 1 ? "grey" : "coloured",
                       s->channels);
    int resize = s->resize > 0 ? s->resize : f->side;
    if (resize != f->resize || (resize != f->side && (int)s->interpolation != f->interpolation))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the images of '%.400s' were made with resize %d (%s), and resize %d (%s) is asked for; ask for "
                       "the same (the settings 'resize' and 'interpolation'), or pack the data again",
                       path, f->resize, filter[f->interpolation], resize, filter[s->interpolation]);
    bool applied = f->exif == RC_PACK_EXIF_APPLIED;
    if (f->exif != RC_PACK_EXIF_NOT_SAID && applied == s->ignore_exif)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the images of '%.400s' were made with exif %s, and exif %s is asked for; ask for the same (the "
                       "setting 'exif'), or pack the data again with exif %s",
                       path, applied ? "true" : "false", applied ? "false" : "true", applied ? "false" : "true");
    return RC_OK;
}

static rc_status take_names(const rc_pack *p, rc_dataset *d)
{
    const char *name = p->names;
    RC_TRY(rc_dataset_allocate_names(d, p->facts.classes));
    for (int i = 0; i < p->facts.classes; i++) {
        size_t length = strlen(name); /* check_table found its end */
        RC_TRY(rc_dataset_set_name(d, i, name, length));
        name += length + 1;
    }
    return RC_OK;
}

static rc_status take_split(const rc_pack *p, int first, int count, rc_split *split)
{
    if (count == 0)
        return RC_OK;
    split->labels = rc_alloc_zeroed(NULL, (size_t)count, sizeof *split->labels);
    if (split->labels == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++)
        split->labels[i] = (int32_t)rc_pack_label(p, first + i);
    split->images = rc_without_const(rc_pack_image(p, first)); /* to be read only */
    split->count = count;
    split->pack = p;
    split->first_record = first;
    return RC_OK;
}

static rc_status read_pack(const char *path, const rc_data_settings *settings, rc_dataset *d)
{
    const uint8_t *bytes;
    uint64_t size;
    RC_TRY(map_file(path, &bytes, &size));
    rc_status status = rc_pack_read(path, bytes, size, &d->pack);
    if (status != RC_OK) {
        munmap(rc_without_const(bytes), (size_t)size);
        return status;
    }
    d->pack->mapped = (size_t)size;
    const rc_pack_facts *f = &d->pack->facts;
    RC_TRY(compare(path, settings, f));
    d->h = d->w = f->side;
    d->c = f->channels;
    memcpy(d->name, f->name, sizeof f->name);
    memcpy(d->mean, f->mean, sizeof f->mean);
    memcpy(d->std, f->std, sizeof f->std);
    d->seen = (rc_data_seen){.images = f->train > 0 ? f->train : f->test, .h = f->side, .w = f->side, .same = true};
    RC_TRY(take_names(d->pack, d));
    RC_TRY(take_split(d->pack, 0, f->train, &d->train));
    return take_split(d->pack, f->train, f->test, &d->test);
}

const rc_reader rc_reader_pack = {
    .format = "pack",
    .layout = "pack: a file that 'recollect pack' has made",
    .fitted = true,
    .recognise = recognise,
    .read = read_pack,
};
