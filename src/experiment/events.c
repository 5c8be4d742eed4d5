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
#include "experiment/log_reader.h"
#include "model/fingerprint.h"

static rc_status problem(const rc_events *events, const char *what)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", what, events->log.path, strerror(errno));
}

/* The first line says which run the log belongs to. If it has no end, a killed process wrote half of it. */
static rc_status check_line(const char *path, const char *text, size_t size, const char *fingerprint)
{
    rc_json *json = NULL;
    const char *end = memchr(text, '\n', size);
    if (end == NULL && size < RC_LOG_LINE)
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
    bool there;
    RC_TRY(rc_file_find(path, &there));
    if (!there)
        return RC_OK;
    RC_TRY(rc_file_reader_open(path, &reader, &size));
    size = size < RC_LOG_LINE ? size : RC_LOG_LINE;
    char *text = rc_alloc(NULL, size + 1);
    rc_status status = text != NULL ? rc_file_reader_take(reader, text, size) : RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        status = check_line(path, text, size, fingerprint);
    rc_free(NULL, text);
    rc_file_reader_close(reader);
    return status;
}

rc_status rc_events_open(rc_events *events, const char *folder)
{
    char path[RC_PATH_SIZE];
    *events = (rc_events){0};
    RC_TRY(rc_path_in(folder, "events.jsonl", path));
    snprintf(events->folder, sizeof events->folder, "%s", folder);
    events->began = rc_now();
    return rc_log_file_open(&events->log, path, O_RDWR);
}

void rc_events_close(rc_events *events)
{
    rc_log_file_close(&events->log);
    rc_log_tables_close(&events->tables);
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

static rc_status cut(const rc_events *events, int64_t offset)
{
    int fd = events->log.fd;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t kept = size > (off_t)offset ? (off_t)offset : size;
    if (size >= 0 && size < (off_t)offset) /* the rest was lost in a crash */
        kept = whole_lines(fd, size);
    if (kept < 0)
        return problem(events, "look into");
    return kept == size || rc_file_cut(fd, kept) == 0 ? RC_OK : problem(events, "cut");
}

rc_status rc_events_position(rc_events *events, int64_t *offset, double *seconds)
{
    off_t size = lseek(events->log.fd, 0, SEEK_END);
    *offset = (int64_t)size;
    *seconds = rc_now() - events->began;
    return size >= 0 ? RC_OK : problem(events, "look into");
}

rc_status rc_events_sync(rc_events *events)
{
    RC_TRY(rc_log_file_sync(&events->log));
    RC_TRY(rc_log_file_sync(&events->tables.scalars));
    return rc_log_file_sync(&events->tables.events);
}

/* Ends the object that `w` has begun. The tables are made from the line as a reader sees it. */
static rc_status write_line(rc_events *events, rc_json_writer *w)
{
    char *text;
    size_t size;
    rc_json *line = NULL;
    rc_json_end(w);
    RC_TRY(rc_json_finish(w, &text, &size));
    rc_status status = rc_json_parse(events->log.path, text, size, &line);
    text[size] = '\n'; /* in place of the end mark, so that a line is one write */
    if (status == RC_OK)
        status = rc_log_file_write(&events->log, text, size + 1);
    if (status == RC_OK)
        status = rc_log_tables_add(&events->tables, line);
    rc_json_free(line);
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

/* A line that happens at a time. */
static rc_json_writer begin_moment(const rc_events *events, const char *event)
{
    rc_json_writer w = begin_line(event);
    rc_json_put_real(&w, "time", rc_time());
    rc_json_put_real(&w, "seconds", rc_now() - events->began);
    return w;
}

static rc_status describe(rc_events *events, const rc_events_cell *cell)
{
    rc_json_writer w = begin_line("run");
    rc_json_put_text(&w, "fingerprint", cell->fingerprint);
    rc_json_put_text(&w, "cell", cell->name);
    rc_json_put_text(&w, "method", cell->method);
    rc_json_begin_array(&w, "task_sizes");
    for (int i = 0; i < cell->tasks; i++)
        rc_json_put_int(&w, NULL, rc_task_classes(cell->stream, i));
    rc_json_end(&w);
    rc_json_put_real(&w, "began", rc_time());
    rc_json_put_members(&w, cell->run);
    return write_line(events, &w);
}

rc_status rc_events_begin(rc_events *events, const rc_events_cell *cell, int64_t offset, double seconds)
{
    int64_t size;
    events->began = rc_now() - seconds;
    RC_TRY(cut(events, offset));
    RC_TRY(rc_log_tables_open(&events->tables, events->folder, events->log.path, rc_time()));
    RC_TRY(rc_events_position(events, &size, &seconds));
    if (size == 0)
        RC_TRY(describe(events, cell));
    /* A first line that a power failure has torn is whole or the last one: no other follows before it is synced. */
    RC_TRY(rc_events_sync(events));
    events->begun = true;
    rc_status status = rc_file_sync_name(events->log.path);
    return status == RC_UNSYNCED ? RC_OK : status; /* who writes the next file here says so */
}

/* How many of what the last step replayed have the label of each class: of every old one, and of new ones if there are
 * such. */
static rc_status put_labels(rc_json_writer *w, const rc_events_step *step)
{
    const rc_stage_report *r = step->report;
    int shown = step->old_classes;
    if (r->replays == 0 || step->classes == 0)
        return RC_OK;
    int *count = rc_alloc_zeroed(NULL, (size_t)step->classes, sizeof *count);
    if (count == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < r->replays; i++) {
        int32_t label = r->replayed[i];
        if (label < 0 || label >= step->classes)
            continue;
        count[label]++;
        shown = label >= shown ? label + 1 : shown;
    }
    rc_json_begin_array(w, "dream_labels");
    for (int i = 0; i < shown; i++)
        rc_json_put_int(w, NULL, count[i]);
    rc_json_end(w);
    rc_free(NULL, count);
    return RC_OK;
}

/* A number that is not known is left out. */
static void put_known(rc_json_writer *w, const char *key, double value)
{
    if (isfinite(value))
        rc_json_put_real(w, key, value);
}

rc_status rc_events_stage(rc_events *events, const rc_events_step *step)
{
    const rc_stage_report *r = step->report;
    rc_json_writer w = begin_moment(events, "step");
    rc_json_put_int(&w, "task", r->task + 1);
    rc_json_put_text(&w, "stage", rc_stage_name(r->stage));
    rc_json_put_int(&w, "step", r->step);
    rc_json_put_int(&w, "steps", r->steps);
    rc_json_put_int(&w, "epoch", r->epoch);
    rc_json_put_int(&w, "epochs", r->epochs);
    rc_json_put_int(&w, "total_step", (int64_t)step->total_step);
    rc_json_put_int(&w, "total_steps", (int64_t)step->total_steps);
    put_known(&w, "learning_rate", r->learning_rate);
    put_known(&w, "images_per_second", step->pace->images_per_second);
    put_known(&w, "stage_seconds_left", step->pace->stage_left);
    put_known(&w, "seconds_left", step->pace->left);
    rc_json_put_int(&w, "memory", (int64_t)rc_bytes_allocated());
    rc_json_begin_object(&w, "loss");
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        put_known(&w, rc_loss_key(i), r->loss[i]);
    rc_json_end(&w);
    put_known(&w, "total_loss", r->total_loss);
    rc_status status = put_labels(&w, step);
    if (status != RC_OK) {
        rc_json_discard(&w);
        return status;
    }
    return write_line(events, &w);
}

rc_status rc_events_dreams(rc_events *events, const rc_events_step *step, const rc_events_picture *picture)
{
    rc_json_writer w = begin_moment(events, "dreams");
    rc_json_put_int(&w, "task", step->report->task + 1);
    rc_json_put_int(&w, "total_step", (int64_t)step->total_step);
    rc_json_put_text(&w, "file", picture->file);
    rc_json_put_int(&w, "width", picture->width);
    rc_json_put_int(&w, "height", picture->height);
    rc_json_begin_array(&w, "labels");
    for (int i = 0; i < picture->count; i++)
        rc_json_put_int(&w, NULL, picture->label[i]);
    rc_json_end(&w);
    return write_line(events, &w);
}

rc_status rc_events_task(rc_events *events, const rc_results *results)
{
    rc_json_writer w = begin_line("task");
    rc_json_put_real(&w, "time", rc_time());
    rc_results_put_task(results, results->done - 1, &w);
    return write_line(events, &w);
}

rc_status rc_events_end(rc_events *events, const char *how, const char *message)
{
    if (!events->begun) /* as a first line it would not say whose log it is */
        return RC_OK;
    rc_json_writer w = begin_moment(events, "end");
    rc_json_put_text(&w, "status", how);
    rc_json_put_text(&w, "message", message);
    return write_line(events, &w);
}
