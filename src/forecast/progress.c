#include "forecast/progress.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"

bool rc_watch_cancelled(const rc_watch *watch)
{
    return watch->cancelled != NULL && watch->cancelled(watch->user);
}

bool rc_watch_reading(void *user, const char *what, int done, int total)
{
    const rc_watch *watch = user;
    char text[128];
    snprintf(text, sizeof text, "%s: %d of %d", what, done, total);
    if (watch->progress != NULL)
        watch->progress(watch->user, text, false);
    rc_watch_event event = {
        .done = done, .total = total, .images_per_second = NAN, .stage_left = NAN, .left = NAN, .text = text};
    if (watch->report != NULL)
        watch->report(watch->user, &event);
    return !rc_watch_cancelled(watch);
}

void rc_watch_stage(const rc_watch *watch, const rc_stage_report *report, double images_per_second, double stage_left,
                    double left)
{
    char text[320];
    size_t used = (size_t)snprintf(text, 64, "%s", watch->where != NULL ? watch->where : "");
    used = used < 64 ? used : 63;
    rc_progress_text(report, images_per_second, stage_left, left, text + used, sizeof text - used);
    if (watch->progress != NULL)
        watch->progress(watch->user, text, report->step == report->steps);
    rc_watch_event event = {.report = report,
                            .images_per_second = images_per_second > 0 ? images_per_second : NAN,
                            .stage_left = stage_left,
                            .left = left,
                            .text = text};
    if (watch->report != NULL)
        watch->report(watch->user, &event);
}

rc_status rc_task_memory(rc_learner *l, size_t *bytes)
{
    size_t before = rc_bytes_allocated(), most = 0;
    for (int stage = 0; stage < RC_STAGE_COUNT; stage++) {
        size_t now;
        RC_TRY(rc_stage_bytes(l, (rc_stage)stage, &now));
        most = now > most ? now : most;
    }
    *bytes = before + most;
    return RC_OK;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

/* Appends to a text of `size` bytes, `used` of them taken; what does not fit is cut. */
static size_t append(char *text, size_t size, size_t used, const char *piece)
{
    int length = used < size ? snprintf(text + used, size - used, "%s", piece) : 0;
    return used + (length > 0 ? (size_t)length : 0);
}

void rc_progress_text(const rc_stage_report *report, double images_per_second, double stage_left, double left,
                      char *text, size_t size)
{
    char piece[80], time[32];
    size_t used = append(text, size, 0, rc_stage_name(report->stage));
    if (report->epochs > 0)
        snprintf(piece, sizeof piece, " %d/%d:", report->epoch + 1, report->epochs);
    else
        snprintf(piece, sizeof piece, " %u/%u:", report->step, report->steps);
    used = append(text, size, used, piece);
    for (int loss = 0; loss < RC_LOSS_COUNT; loss++) {
        if (isnan(report->loss[loss]))
            continue;
        snprintf(piece, sizeof piece, " %s %.3g,", rc_loss_key(loss), report->loss[loss]);
        used = append(text, size, used, piece);
    }
    if (images_per_second > 0) {
        snprintf(piece, sizeof piece, " %.0f images/s,", images_per_second);
        used = append(text, size, used, piece);
    }
    /* What nothing has been measured for is left out, with what would have led to it. */
    if (stage_left >= 0) {
        rc_duration_text(stage_left, time, sizeof time);
        snprintf(piece, sizeof piece, " %s left,", time);
        used = append(text, size, used, piece);
    }
    if (left >= 0) {
        rc_duration_text(left, time, sizeof time);
        snprintf(piece, sizeof piece, " %s in all,", time);
        used = append(text, size, used, piece);
    }
    if (used < size)
        text[used - 1] = '\0';
}

void rc_duration_text(double seconds, char *text, size_t size)
{
    if (!(seconds >= 0 && seconds < 1e8)) {
        snprintf(text, size, "?");
        return;
    }
    long whole = (long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
}

void rc_bytes_text(size_t bytes, char *text, size_t size)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int i = 0;
    for (; value >= 1000 && i < 4; i++)
        value /= 1000;
    snprintf(text, size, i == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, unit[i]);
}
