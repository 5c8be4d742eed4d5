#include "run/events.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

static rc_status problem(const rc_events *events, const char *what)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", what, events->path, strerror(errno));
}

rc_status rc_events_open(rc_events *events, const char *path, int64_t offset, double seconds)
{
    *events = (rc_events){0};
    if (strlen(path) >= sizeof events->path)
        return rc_fail(RC_INVALID_ARGUMENT, "the path %s is too long", path);
    snprintf(events->path, sizeof events->path, "%s", path);
    events->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (events->fd < 0) {
        events->fd = 0;
        return problem(events, "open");
    }
    return rc_events_cut(events, offset, seconds);
}

void rc_events_close(rc_events *events)
{
    if (events->fd > 0)
        close(events->fd);
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
    return ftruncate(events->fd, (off_t)offset) == 0 ? RC_OK : problem(events, "cut");
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

/* Takes over `json`. */
static rc_status write_line(rc_events *events, json_t *json)
{
    char *text;
    rc_status status = json != NULL ? rc_json_dump(json, 0, &text)
                                    : rc_fail(RC_OUT_OF_MEMORY, "no memory for an event");
    json_decref(json);
    RC_TRY(status);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the end mark, so that a line is one write */
    status = write_text(events, text, length + 1);
    rc_free(NULL, text);
    return status;
}

rc_status rc_events_run(rc_events *events, const json_t *run)
{
    json_t *json = json_pack("{s:s}", "event", "run");
    if (json != NULL && json_object_update(json, (json_t *)(uintptr_t)run) != 0) {
        json_decref(json);
        json = NULL;
    }
    return write_line(events, json);
}

rc_status rc_events_stage(rc_events *events, const rc_stage_report *report)
{
    json_t *loss = json_object();
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (isfinite(report->loss[i]))
            json_object_set_new(loss, rc_loss_key(i), json_real(report->loss[i]));
    return write_line(events, json_pack("{s:s, s:i, s:s, s:I, s:I, s:i, s:f, s:f, s:o}", "event", "step", "task",
                                        report->task + 1, "stage", rc_stage_name(report->stage), "step",
                                        (json_int_t)report->step, "steps", (json_int_t)report->steps, "epoch",
                                        report->epoch, "learning_rate", report->learning_rate, "seconds",
                                        rc_now() - events->began, "loss", loss));
}

rc_status rc_events_task(rc_events *events, const rc_results *results)
{
    json_t *json = json_pack("{s:s}", "event", "task"), *task = rc_results_task_json(results, results->done - 1);
    if (json != NULL && (task == NULL || json_object_update(json, task) != 0)) {
        json_decref(json);
        json = NULL;
    }
    json_decref(task);
    return write_line(events, json);
}
