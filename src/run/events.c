#include "run/events.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

static rc_status problem(const rc_events *events, const char *what)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", what, events->path, strerror(errno));
}

rc_status rc_events_open(rc_events *events, const char *path)
{
    *events = (rc_events){0};
    if (strlen(path) >= sizeof events->path)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", path);
    snprintf(events->path, sizeof events->path, "%s", path);
    events->fd = rc_file_open(path, O_WRONLY | O_CREAT | O_APPEND);
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

rc_status rc_events_cut(rc_events *events, int64_t offset, double seconds)
{
    events->began = rc_now() - seconds;
    off_t size = lseek(events->fd, 0, SEEK_END);
    if (size < 0)
        return problem(events, "look into");
    if (size <= (off_t)offset)
        return RC_OK; /* the rest was lost in a crash: nothing to cut */
    return rc_file_cut(events->fd, (off_t)offset) == 0 ? RC_OK : problem(events, "cut");
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

rc_status rc_events_run(rc_events *events, const rc_json *run)
{
    rc_json_writer w = begin_line("run");
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
