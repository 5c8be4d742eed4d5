#include "experiment/events.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "model/fingerprint.h"

enum { LONGEST_LINE = 1 << 20 }; /* of those that describe a run: some 3000 bytes are usual */

static rc_status problem(const rc_events *events, const char *what)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", what, events->path, strerror(errno));
}

/* The first line says which run the log belongs to. If it has no end, a killed process wrote half of it. */
static rc_status check_line(const char *path, const char *text, size_t size, const char *fingerprint)
{
    rc_json *json = NULL;
    const char *end = memchr(text, '\n', size);
    if (end == NULL && size < LONGEST_LINE)
        return RC_OK;
    rc_status status = end != NULL ? rc_json_parse("first line", text, (size_t)(end - text), &json) : RC_FORMAT;
    const char *found = rc_json_string(rc_json_member(json, "fingerprint"));
    if (status == RC_OK)
        status = rc_fingerprint_check(path, found, fingerprint, NULL, NULL, "remove it, and the log begins anew");
    else if (status == RC_FORMAT)
        status = rc_fail(status, "%s is not the log of a run: remove it, and the log begins anew", path);
    rc_json_free(json);
    return status;
}

rc_status rc_events_check(const char *path, const char *fingerprint)
{
    rc_file_reader *reader;
    size_t size;
    if (!rc_file_exists(path))
        return RC_OK;
    RC_TRY(rc_file_reader_open(path, &reader, &size));
    size = size < LONGEST_LINE ? size : LONGEST_LINE;
    char *text = rc_alloc(NULL, size + 1);
    rc_status status = text != NULL ? rc_file_reader_take(reader, text, size) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = check_line(path, text, size, fingerprint);
    rc_free(NULL, text);
    rc_file_reader_close(reader);
    return status;
}

rc_status rc_events_open(rc_events *events, const char *path)
{
    *events = (rc_events){0};
    if (strlen(path) >= sizeof events->path)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", path);
    snprintf(events->path, sizeof events->path, "%s", path);
    events->fd = rc_file_open(path, O_RDWR | O_CREAT | O_APPEND);
    if (events->fd < 0) {
        events->fd = 0;
        return problem(events, "open");
    }
    events->began = rc_now();
    return RC_OK;
}

void rc_events_close(rc_events *events)
{
    if (events->fd > 0)
        (void)rc_file_close(events->fd);
    events->fd = 0;
}

/* Bytes up to the end of the last whole line among the first `size`; -1: they cannot be read. */
static off_t whole_lines(int fd, off_t size)
{
    char block[4096];
    while (size > 0) {
        size_t count = size < (off_t)sizeof block ? (size_t)size : sizeof block;
        ssize_t got;
        do
            got = pread(fd, block, count, size - (off_t)count);
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)count)
            return -1;
        for (size_t i = count; i > 0; i--)
            if (block[i - 1] == '\n')
                return size - (off_t)count + (off_t)i;
        size -= (off_t)count;
    }
    return 0;
}

rc_status rc_events_cut(rc_events *events, int64_t offset, double seconds)
{
    events->began = rc_now() - seconds;
    off_t size = lseek(events->fd, 0, SEEK_END);
    off_t kept = size > (off_t)offset ? (off_t)offset : size;
    if (size >= 0 && size < (off_t)offset) /* the rest was lost in a crash */
        kept = whole_lines(events->fd, size);
    if (kept < 0)
        return problem(events, "look into");
    return kept == size || rc_file_cut(events->fd, kept) == 0 ? RC_OK : problem(events, "cut");
}

rc_status rc_events_position(rc_events *events, int64_t *offset, double *seconds)
{
    off_t size = lseek(events->fd, 0, SEEK_END);
    *offset = (int64_t)size;
    *seconds = rc_now() - events->began;
    return size >= 0 ? RC_OK : problem(events, "look into");
}

static rc_status write_text(rc_events *events, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t put = write(events->fd, text, size);
        if (put < 0 && errno != EINTR)
            return problem(events, "write");
        if (put > 0) {
            text += put;
            size -= (size_t)put;
        }
    }
    return RC_OK;
}

/* Ends the object that `w` has begun. */
static rc_status write_line(rc_events *events, rc_json_writer *w)
{
    char *text;
    size_t size;
    rc_json_end(w);
    RC_TRY(rc_json_finish(w, &text, &size));
    text[size] = '\n'; /* in place of the end mark, so that a line is one write */
    rc_status status = write_text(events, text, size + 1);
    rc_free(NULL, text);
    return status;
}

static rc_json_writer begin_line(const char *event)
{
    rc_json_writer w = {0};
    rc_json_begin_object(&w, NULL);
    rc_json_put_text(&w, "event", event);
    return w;
}

rc_status rc_events_run(rc_events *events, const rc_json *run, const char *fingerprint)
{
    int64_t size;
    double seconds;
    RC_TRY(rc_events_position(events, &size, &seconds));
    if (size > 0)
        return RC_OK;
    rc_json_writer w = begin_line("run");
    rc_json_put_text(&w, "fingerprint", fingerprint);
    rc_json_put_members(&w, run);
    return write_line(events, &w);
}

rc_status rc_events_stage(rc_events *events, const rc_stage_report *report)
{
    rc_json_writer w = begin_line("step");
    rc_json_put_int(&w, "task", report->task + 1);
    rc_json_put_text(&w, "stage", rc_stage_name(report->stage));
    rc_json_put_int(&w, "step", report->step);
    rc_json_put_int(&w, "steps", report->steps);
    rc_json_put_int(&w, "epoch", report->epoch);
    rc_json_put_real(&w, "learning_rate", report->learning_rate);
    rc_json_put_real(&w, "seconds", rc_now() - events->began);
    rc_json_begin_object(&w, "loss");
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (isfinite(report->loss[i]))
            rc_json_put_real(&w, rc_loss_key(i), report->loss[i]);
    rc_json_end(&w);
    return write_line(events, &w);
}

rc_status rc_events_task(rc_events *events, const rc_results *results)
{
    rc_json_writer w = begin_line("task");
    rc_results_put_task(results, results->done - 1, &w);
    return write_line(events, &w);
}
