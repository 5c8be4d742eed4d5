/* Packing. Records are appended to "OUT.part". What is known of them goes to a log, "OUT.part.log":
 *
 *     8 bytes "rcpart1\n", u64 number of the job: which files, how large and how old, and what becomes of them
 *     blocks: u32 files that it took, u32 records, per record u32 label and u32 CRC-32, u32 CRC-32 of the block
 *
 * A block follows its records. A call that goes on believes a block if its checksum is right and all of its records are
 * in the other file as the block says. So nothing has to be synced before the end, whatever a crash leaves. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/stop.h"
#include "data/image_files.h"
#include "data/pack.h"
#include "data/reader.h"

#define LOG_MAGIC "rcpart1\n"
enum { LOG_HEADER = 16, BLOCK_HEADER = 8, PIECE = RC_DATA_PIECE };

typedef struct writer {
    const rc_data_settings *settings;
    char part[RC_PATH_SIZE], log_path[RC_PATH_SIZE];
    int fd, log;
    bool begun;
    rc_pack_facts facts;
    rc_pixel_counts *pixels; /* of the records to train on; of all, while there are no others */
    int train_files, files;  /* all that train on; those that were taken */
    uint8_t *table;          /* RC_PACK_ENTRY bytes each */
    size_t records, capacity;
    int resumed; /* records that an earlier call has left */
    int lost;    /* files that it could not read */
} writer;

static rc_status fail_io(const char *path, const char *what)
{
    return rc_fail(RC_IO, "'%.700s' cannot be %s: %s", path, what, strerror(errno));
}

static rc_status write_all(int fd, const char *path, const void *bytes, size_t size, off_t at)
{
    for (const char *from = bytes; size > 0;) {
        ssize_t now = pwrite(fd, from, size, at);
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            return fail_io(path, "written");
        from += now;
        size -= (size_t)now;
        at += now;
    }
    return RC_OK;
}

/* *got: fewer than asked for at the end of the file. */
static rc_status read_all(int fd, const char *path, void *bytes, size_t size, off_t at, size_t *got)
{
    *got = 0;
    while (*got < size) {
        ssize_t now = pread(fd, (char *)bytes + *got, size - *got, at + (off_t)*got);
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            return fail_io(path, "read");
        if (now == 0)
            break;
        *got += (size_t)now;
    }
    return RC_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static rc_status add_entries(writer *w, const uint8_t *entries, size_t count)
{
    if (count == 0) /* a piece of broken images alone */
        return RC_OK;
    if (w->records + count > w->capacity) {
        size_t capacity = 2 * w->capacity + count + 4096;
        uint8_t *grown = rc_alloc_zeroed(NULL, capacity, RC_PACK_ENTRY);
        if (grown == NULL)
            return RC_OUT_OF_MEMORY;
        if (w->records > 0)
            memcpy(grown, w->table, w->records * RC_PACK_ENTRY);
        rc_free(NULL, w->table);
        w->table = grown;
        w->capacity = capacity;
    }
    memcpy(w->table + w->records * RC_PACK_ENTRY, entries, count * RC_PACK_ENTRY);
    w->records += count;
    return RC_OK;
}

/* The files of a block have become these records, which are in their place. */
static rc_status count_block(writer *w, int files, const uint8_t *images, const uint8_t *entries, size_t count)
{
    bool train = w->files < w->train_files;
    RC_TRY(add_entries(w, entries, count));
    w->files += files;
    *(train ? &w->facts.train : &w->facts.test) += (int)count;
    if (train || w->facts.train == 0)
        rc_pixels_count(w->pixels, images, count * (size_t)w->facts.side * (size_t)w->facts.side, w->facts.channels);
    return RC_OK;
}

static off_t record_at(const writer *w, size_t record)
{
    return (off_t)RC_PACK_HEADER + (off_t)(record * rc_pack_record(&w->facts));
}

/* ---- what an earlier call has left ------------------------------------------------------------------------------- */

/* A block at `at` of the log, and its records; *whole: both are as they were written. */
static rc_status read_block(writer *w, off_t at, uint8_t *block, uint8_t *images, bool *whole, size_t *size)
{
    size_t got, record = rc_pack_record(&w->facts);
    *whole = false;
    RC_TRY(read_all(w->log, w->log_path, block, BLOCK_HEADER, at, &got));
    size_t count = got == BLOCK_HEADER ? rc_pack_get32(block + 4) : 0;
    if (got < BLOCK_HEADER || count > PIECE)
        return RC_OK;
    size_t entries = count * RC_PACK_ENTRY;
    *size = BLOCK_HEADER + entries + 4;
    RC_TRY(read_all(w->log, w->log_path, block + BLOCK_HEADER, entries + 4, at + BLOCK_HEADER, &got));
    if (got < entries + 4 ||
        rc_pack_crc(0, block, BLOCK_HEADER + entries) != rc_pack_get32(block + BLOCK_HEADER + entries))
        return RC_OK;
    RC_TRY(read_all(w->fd, w->part, images, count * record, record_at(w, w->records), &got));
    *whole = got == count * record;
    for (size_t i = 0; *whole && i < count; i++)
        *whole = rc_pack_crc(0, images + i * record, record) ==
                 rc_pack_get32(block + BLOCK_HEADER + i * RC_PACK_ENTRY + 4);
    return RC_OK;
}

static rc_status read_blocks(writer *w, int files, uint8_t *block, uint8_t *images, off_t *end)
{
    bool whole = true;
    size_t size = 0;
    while (w->files < files) {
        RC_TRY(rc_progress(w->settings, "checking what is packed", w->files, files));
        RC_TRY(read_block(w, *end, block, images, &whole, &size));
        uint32_t taken = rc_pack_get32(block);
        if (!whole || taken == 0 || taken > (uint32_t)(files - w->files) || rc_pack_get32(block + 4) > taken)
            return RC_OK;
        uint32_t records = rc_pack_get32(block + 4);
        RC_TRY(count_block(w, (int)taken, images, block + BLOCK_HEADER, records));
        w->lost += (int)(taken - records);
        *end += (off_t)size;
    }
    return RC_OK;
}

/* Goes on with what is there if it is of the same job, else begins anew. */
static rc_status resume(writer *w, uint64_t job, int files)
{
    uint8_t begin[LOG_HEADER], found[LOG_HEADER];
    size_t got, record = rc_pack_record(&w->facts);
    off_t end = LOG_HEADER;
    memcpy(begin, LOG_MAGIC, 8);
    rc_pack_put32(begin + 8, (uint32_t)job);
    rc_pack_put32(begin + 12, (uint32_t)(job >> 32));
    RC_TRY(read_all(w->log, w->log_path, found, sizeof found, 0, &got));
    if (got == sizeof found && memcmp(found, begin, sizeof found) == 0) {
        uint8_t *block = rc_alloc_zeroed(NULL, BLOCK_HEADER + PIECE * RC_PACK_ENTRY + 4, 1);
        uint8_t *images = rc_alloc_zeroed(NULL, PIECE, record);
        rc_status status = block != NULL && images != NULL ? read_blocks(w, files, block, images, &end)
                                                           : RC_OUT_OF_MEMORY;
        rc_free(NULL, block);
        rc_free(NULL, images);
        RC_TRY(status);
        w->resumed = (int)w->records;
    } else {
        if (got > 0)
            rc_log_write(w->settings->log, RC_LOG_WARN, "'%s' is of other data or settings: beginning anew", w->part);
        RC_TRY(write_all(w->log, w->log_path, begin, sizeof begin, 0));
    }
    if (rc_file_cut(w->log, end) != 0)
        return fail_io(w->log_path, "cut");
    return rc_file_cut(w->fd, record_at(w, w->records)) == 0 ? RC_OK : fail_io(w->part, "cut");
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++) /* FNV-1a */
        hash = (hash ^ p[i]) * UINT64_C(0x100000001B3);
    return hash;
}

/* Of the same files, as they are, and of all settings that change their pixels. */
static rc_status job_of(const writer *w, const rc_dataset *d, const rc_image_files *const files[2], uint64_t *job)
{
    const int shape[] = {d->h, d->c, d->classes, w->facts.resize, w->facts.interpolation, w->settings->ignore_exif};
    uint64_t hash = mix(UINT64_C(0xCBF29CE484222325), shape, sizeof shape);
    for (int i = 0; i < d->classes; i++)
        hash = mix(hash, d->class_name[i], strlen(d->class_name[i]) + 1);
    for (int s = 0; s < 2; s++) {
        hash = mix(hash, &files[s]->count, sizeof files[s]->count);
        for (int i = 0; i < files[s]->count; i++) {
            const char *path = rc_image_files_path(files[s], i);
            struct stat info; /* a file that is not there is found missing when it is read */
            RC_TRY(rc_file_look(path, true, &info));
            const int64_t facts[] = {files[s]->file[i].label, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
            hash = mix(mix(hash, path, strlen(path) + 1), facts, sizeof facts);
        }
    }
    *job = hash;
    return RC_OK;
}

static rc_status open_files(writer *w)
{
    w->log = rc_file_open(w->log_path, O_RDWR | O_CREAT);
    if (w->log < 0)
        return fail_io(w->log_path, "made");
    if (flock(w->log, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return rc_fail(RC_IO, "another process is writing '%.700s'", w->part);
    w->fd = rc_file_open(w->part, O_RDWR | O_CREAT);
    return w->fd >= 0 ? RC_OK : fail_io(w->part, "made");
}

static rc_status begin_shape(writer *w, const rc_dataset *d)
{
    rc_pack_facts *f = &w->facts;
    f->side = d->h;
    f->channels = d->c;
    f->classes = d->classes;
    f->resize = w->settings->resize > 0 ? w->settings->resize : d->h;
    f->interpolation = (int)w->settings->interpolation;
    snprintf(f->name, sizeof f->name, "%s", d->name);
    w->begun = true;
    return open_files(w);
}

static rc_status begin(void *user, const rc_dataset *d, const rc_image_files *train, const rc_image_files *test,
                       int *done)
{
    writer *w = user;
    const rc_image_files *const files[] = {train, test};
    uint64_t job;
    RC_TRY(begin_shape(w, d));
    w->facts.exif = w->settings->ignore_exif ? RC_PACK_EXIF_IGNORED : RC_PACK_EXIF_APPLIED;
    w->train_files = train->count;
    RC_TRY(job_of(w, d, files, &job));
    RC_TRY(resume(w, job, train->count + test->count));
    *done = w->files;
    if (w->files > 0)
        rc_log_write(w->settings->log, RC_LOG_INFO, "%d of %d images are packed already", w->files,
                     train->count + test->count);
    return RC_OK;
}

static rc_status take(void *user, int files, const uint8_t *images, const int32_t *labels, int count)
{
    writer *w = user;
    uint8_t block[BLOCK_HEADER + PIECE * RC_PACK_ENTRY + 4];
    size_t record = rc_pack_record(&w->facts), size = BLOCK_HEADER;
    rc_pack_put32(block, (uint32_t)files);
    rc_pack_put32(block + 4, (uint32_t)count);
    for (int i = 0; i < count; i++, size += RC_PACK_ENTRY) {
        rc_pack_put32(block + size, (uint32_t)labels[i]);
        rc_pack_put32(block + size + 4, rc_pack_crc(0, images + (size_t)i * record, record));
    }
    rc_pack_put32(block + size, rc_pack_crc(0, block, size));
    RC_TRY(write_all(w->fd, w->part, images, (size_t)count * record, record_at(w, w->records)));
    off_t at = lseek(w->log, 0, SEEK_END);
    if (at < 0)
        return fail_io(w->log_path, "written");
    RC_TRY(write_all(w->log, w->log_path, block, size + 4, at));
    return count_block(w, files, images, block + BLOCK_HEADER, (size_t)count);
}

/* A set that is not made of picture files lies in memory. */
static rc_status take_memory(writer *w, const rc_dataset *d)
{
    const rc_split *splits[] = {&d->train, &d->test};
    RC_TRY(begin_shape(w, d));
    w->train_files = d->train.count;
    if (rc_file_cut(w->log, 0) != 0)
        return fail_io(w->log_path, "cut");
    for (int s = 0; s < 2; s++)
        for (int i = 0, now; i < splits[s]->count; i += now) {
            now = splits[s]->count - i < PIECE ? splits[s]->count - i : PIECE;
            RC_TRY(rc_progress(w->settings, "packing images", i, splits[s]->count));
            RC_TRY(take(w, now, splits[s]->images + (size_t)i * rc_pack_record(&w->facts), splits[s]->labels + i, now));
        }
    return RC_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static rc_status write_end(writer *w, const rc_dataset *d)
{
    rc_pack_facts *f = &w->facts;
    uint8_t header[RC_PACK_HEADER];
    off_t at = record_at(w, w->records);
    if (w->records == 0)
        return rc_fail(RC_FORMAT, "there is no image to pack");
    f->table_crc = rc_pack_crc(0, w->table, w->records * RC_PACK_ENTRY);
    RC_TRY(write_all(w->fd, w->part, w->table, w->records * RC_PACK_ENTRY, at));
    at += (off_t)(w->records * RC_PACK_ENTRY);
    for (int i = 0; i < d->classes; i++) {
        size_t length = strlen(d->class_name[i]) + 1;
        f->table_crc = rc_pack_crc(f->table_crc, (const uint8_t *)d->class_name[i], length);
        RC_TRY(write_all(w->fd, w->part, d->class_name[i], length, at));
        at += (off_t)length;
        f->names_bytes += length;
    }
    f->file_bytes = (uint64_t)at;
    if (f->channels != 3 || !rc_published_normalisation(f->name, f->mean, f->std))
        rc_pixels_measure(w->pixels, f->channels, f->mean, f->std);
    rc_pack_write_header(f, header);
    RC_TRY(write_all(w->fd, w->part, header, sizeof header, 0));
    return rc_file_cut(w->fd, at) == 0 && rc_file_sync(w->fd) == 0 ? RC_OK : fail_io(w->part, "synced");
}

/* link() fails where the name is taken, so no file is ever replaced. Where there are no hard links, the name was free a
 * moment ago. */
static rc_status give_name(const writer *w, const char *out)
{
    if (link(w->part, out) != 0) {
        bool there = errno == EEXIST;
        if (!there)
            RC_TRY(rc_file_find(out, &there));
        if (there)
            return rc_fail(RC_IO, "'%.700s' is there already; '%.700s' stays", out, w->part);
        if (rename(w->part, out) != 0)
            return fail_io(out, "made");
    }
    unlink(w->part);
    unlink(w->log_path);
    return rc_file_sync_name(out);
}

static rc_status pack(writer *w, const char *path, const char *out, rc_pack_result *result)
{
    rc_data_sink sink = {.begin = begin, .take = take, .user = w};
    rc_data_settings settings = *w->settings;
    rc_dataset d;
    settings.sink = &sink;
    RC_TRY(rc_dataset_open(path, &settings, &d));
    rc_status status = d.pack != NULL ? rc_fail(RC_INVALID_ARGUMENT, "'%.700s' is a pack already", path) : RC_OK;
    if (status == RC_OK && !w->begun)
        status = take_memory(w, &d);
    if (status == RC_OK)
        status = write_end(w, &d);
    if (status == RC_OK)
        status = give_name(w, out);
    *result = (rc_pack_result){.facts = w->facts,
                               .resumed = w->resumed,
                               .broken = d.broken + w->lost,
                               .left_out = d.left_out,
                               .not_pictures = d.not_pictures};
    rc_dataset_close(&d);
    return status;
}

rc_status rc_pack_write(const char *path, const rc_data_settings *settings, const char *out, rc_pack_result *result)
{
    writer *w = rc_alloc_zeroed(NULL, 1, sizeof *w);
    if (w == NULL)
        return RC_OUT_OF_MEMORY;
    w->settings = settings;
    w->fd = w->log = -1;
    *result = (rc_pack_result){0};
    w->pixels = rc_alloc_zeroed(NULL, 1, sizeof *w->pixels);
    rc_status status = w->pixels != NULL ? RC_OK : RC_OUT_OF_MEMORY;
    int length = snprintf(w->part, sizeof w->part, "%s.part", out);
    if (status == RC_OK && (length < 0 || (size_t)length + sizeof ".log" > sizeof w->part))
        status = rc_fail(RC_INVALID_ARGUMENT, "the name of the pack has %d bytes, expected fewer than %d", length,
                         RC_PATH_SIZE);
    snprintf(w->log_path, sizeof w->log_path, "%.*s.log", (int)sizeof w->log_path - 5, w->part);
    bool there = false;
    if (status == RC_OK)
        status = rc_file_find(out, &there);
    if (there)
        status = rc_fail(RC_INVALID_ARGUMENT, "'%.700s' is there already; remove it, or give another name", out);
    if (status == RC_OK)
        status = rc_file_check(out, false);
    if (status == RC_OK)
        status = pack(w, path, out, result);
    if (w->fd >= 0)
        rc_file_close(w->fd);
    if (w->log >= 0)
        rc_file_close(w->log);
    rc_free(NULL, w->pixels);
    rc_free(NULL, w->table);
    rc_free(NULL, w);
    return status;
}
