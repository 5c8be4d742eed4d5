#include "experiment/log_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { FIRST_ROOM = 1 << 14 };

rc_status rc_log_reader_open(rc_log_reader *r, const char *path)
{
    uint64_t size;
    *r = (rc_log_reader){0};
    if (strlen(path) >= sizeof r->path)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", path);
    snprintf(r->path, sizeof r->path, "%s", path);
    rc_status status = rc_file_open_regular(path, &r->fd, &size);
    if (status != RC_OK) {
        r->fd = 0;
        return status;
    }
    r->text = rc_alloc(NULL, FIRST_ROOM);
    if (r->text == NULL) {
        rc_log_reader_close(r);
        return RC_OUT_OF_MEMORY;
    }
    r->room = FIRST_ROOM;
    return RC_OK;
}

void rc_log_reader_close(rc_log_reader *r)
{
    if (r->fd > 0)
        (void)rc_file_close(r->fd);
    rc_free(NULL, r->text);
    *r = (rc_log_reader){0};
}

/* Room for more text: forgets what was cut into lines, or takes more memory, or gives up the line at hand. */
static rc_status make_room(rc_log_reader *r)
{
    if (r->next > 0) {
        memmove(r->text, r->text + r->next, r->end - r->next);
        r->end -= r->next;
        r->next = 0;
    }
    if (r->end < r->room)
        return RC_OK;
    if (r->room >= RC_LOG_LINE) {
        r->skipped += !r->too_long;
        r->too_long = true;
        r->end = 0;
        return RC_OK;
    }
    char *grown = rc_alloc(NULL, 2 * r->room);
    if (grown == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(grown, r->text, r->end);
    rc_free(NULL, r->text);
    r->text = grown;
    r->room *= 2;
    return RC_OK;
}

/* Reads on; *got 0: that is all there is. */
static rc_status read_more(rc_log_reader *r, size_t *got)
{
    ssize_t count;
    RC_TRY(make_room(r));
    do
        count = pread(r->fd, r->text + r->end, r->room - r->end, r->place);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return rc_fail(RC_IO, "cannot read '%s': %s", r->path, strerror(errno));
    r->end += (size_t)count;
    r->place += (off_t)count;
    *got = (size_t)count;
    return RC_OK;
}

/* The file may have been cut since it was read. */
static bool has_shrunk(const rc_log_reader *r)
{
    struct stat info;
    return fstat(r->fd, &info) == 0 && info.st_size < r->place;
}

/* The line that ends at `end`; *json stays NULL if it is none. */
static rc_status take_line(rc_log_reader *r, const char *end, rc_json **json)
{
    const char *line = r->text + r->next;
    size_t size = (size_t)(end - line);
    bool rest = r->too_long;
    r->next += size + 1;
    r->too_long = false;
    if (rest)
        return RC_OK;
    rc_status status = rc_json_parse(r->path, line, size, json);
    if (status == RC_OUT_OF_MEMORY) { /* it is still to be read */
        r->next -= size + 1;
        return status;
    }
    if (status == RC_OK && rc_json_is(*json, RC_JSON_OBJECT))
        return RC_OK;
    rc_json_free(*json);
    *json = NULL;
    r->skipped++;
    return RC_OK;
}

rc_status rc_log_reader_next(rc_log_reader *r, rc_json **json, bool *again)
{
    *json = NULL;
    *again = has_shrunk(r);
    if (*again) {
        r->next = r->end = 0;
        r->place = 0;
        r->skipped = 0;
        r->too_long = false;
    }
    while (*json == NULL) {
        size_t got;
        const char *end = memchr(r->text + r->next, '\n', r->end - r->next);
        if (end != NULL) {
            RC_TRY(take_line(r, end, json));
            continue;
        }
        RC_TRY(read_more(r, &got));
        if (got == 0)
            return RC_OK;
    }
    return RC_OK;
}

static rc_status take_lines(rc_log_reader *r, rc_status (*take)(void *user, const rc_json *line), void *user)
{
    for (;;) {
        rc_json *line;
        bool again;
        RC_TRY(rc_log_reader_next(r, &line, &again));
        if (line == NULL)
            return RC_OK;
        rc_status status = take(user, line);
        rc_json_free(line);
        RC_TRY(status);
    }
}

rc_status rc_log_read(const char *path, rc_status (*take)(void *user, const rc_json *line), void *user, int *skipped)
{
    rc_log_reader reader;
    *skipped = 0;
    RC_TRY(rc_log_reader_open(&reader, path));
    rc_status status = take_lines(&reader, take, user);
    *skipped = reader.skipped;
    rc_log_reader_close(&reader);
    return status;
}
