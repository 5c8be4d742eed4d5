#include "forecast/progress.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "forecast/forecast.h"

bool rc_watch_cancelled(const rc_watch *watch)
{
    return rc_stop_heard() || (watch->cancelled != NULL && watch->cancelled(watch->user));
}

rc_stop rc_watch_stop(const rc_watch *watch)
{
    return (rc_stop){.wanted = watch->cancelled, .user = watch->user};
}

/* Images that are read or scored. */
static bool tell_images(const rc_watch *watch, const char *name, const char *what, int done, int total)
{
    char text[128];
    snprintf(text, sizeof text, "%s: %d of %d", what, done, total);
    recollect_progress p = {.size = sizeof p,
                            .stage = RECOLLECT_STAGE_READING,
                            .stage_name = name,
                            .step = (uint32_t)done,
                            .steps = (uint32_t)total,
                            .images_per_second = NAN,
                            .stage_seconds_left = NAN,
                            .seconds_left = NAN,
                            .text = text,
                            .fraction = NAN};
    if (watch->progress != NULL)
        watch->progress(watch->user, "", &p);
    return !rc_watch_cancelled(watch);
}

bool rc_watch_reading(void *user, const char *what, int done, int total)
{
    return tell_images(user, "reading", what, done, total);
}

bool rc_watch_scoring(void *user, const char *what, int done, int total)
{
    return tell_images(user, "scoring", what, done, total); /* programs of the first version know no such stage */
}

static recollect_stage public_stage(rc_stage stage)
{
    switch (stage) {
    case RC_STAGE_INVERSION: return RECOLLECT_STAGE_INVERSION;
    case RC_STAGE_TRAINING: return RECOLLECT_STAGE_TRAINING;
    case RC_STAGE_REFINEMENT: return RECOLLECT_STAGE_REFINEMENT;
    default: return RECOLLECT_STAGE_ESTIMATION;
    }
}

void rc_watch_stage(const rc_watch *watch, const rc_stage_report *report, const rc_pace *pace)
{
    const char *where = watch->where != NULL ? watch->where : "";
    char text[320];
    recollect_loss losses[RC_LOSS_COUNT];
    if (watch->progress == NULL)
        return;
    size_t used = (size_t)snprintf(text, 64, "%s%s", where, where[0] != '\0' ? ", " : "");
    used = used < 64 ? used : 63;
    rc_progress_text(report, pace, text + used, sizeof text - used);
    recollect_progress p = {.size = sizeof p,
                            .stage = public_stage(report->stage),
                            .stage_name = rc_stage_name(report->stage),
                            .task = report->task + 1,
                            .step = report->step,
                            .steps = report->steps,
                            .epoch = report->epoch,
                            .epochs = report->epochs,
                            .losses = losses,
                            .images_per_second = pace->images_per_second > 0 ? pace->images_per_second : NAN,
                            .stage_seconds_left = pace->stage_left,
                            .seconds_left = pace->left,
                            .text = text,
                            .fraction = pace->fraction};
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (!isnan(report->loss[i]))
            losses[p.loss_count++] = (recollect_loss){rc_loss_name(i), report->loss[i]};
    watch->progress(watch->user, where, &p);
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

void rc_progress_text(const rc_stage_report *report, const rc_pace *pace, char *text, size_t size)
{
    char piece[80], time[32];
    size_t used = append(text, size, 0, rc_stage_name(report->stage));
    if (report->epochs > 0)
        snprintf(piece, sizeof piece, " %d/%d:", report->epoch + 1, report->epochs);
    else
        snprintf(piece, sizeof piece, " %u/%u:", report->step, report->steps);
    used = append(text, size, used, piece);
    /* What nothing has been measured for is left out, with what would have led to it. */
    if (pace->fraction >= 0) {
        snprintf(piece, sizeof piece, " %.0f %%,", floor(100 * pace->fraction));
        used = append(text, size, used, piece);
    }
    if (pace->left >= 0) {
        rc_duration_text(pace->left, time, sizeof time);
        snprintf(piece, sizeof piece, " %s left,", time);
        used = append(text, size, used, piece);
    }
    if (pace->images_per_second > 0) {
        snprintf(piece, sizeof piece, " %.0f images/s,", pace->images_per_second);
        used = append(text, size, used, piece);
    }
    for (int loss = 0; loss < RC_LOSS_COUNT; loss++) {
        if (isnan(report->loss[loss]))
            continue;
        snprintf(piece, sizeof piece, " %s %.3g,", rc_loss_key(loss), report->loss[loss]);
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

typedef struct inversion_watch {
    const rc_watch *watch;
    rc_forecast forecast;
    uint32_t step; /* as seen last */
} inversion_watch;

static rc_status look_on(void *user, const rc_stage_report *report)
{
    inversion_watch *w = user;
    rc_pace pace;
    rc_forecast_update(&w->forecast, report, &pace);
    rc_watch_stage(w->watch, report, &pace);
    w->step = report->step;
    return rc_watch_cancelled(w->watch) ? RC_CANCELLED : RC_OK;
}

rc_status rc_watch_inversion(const rc_watch *watch, rc_learner *l, uint32_t *step)
{
    inversion_watch w = {.watch = watch};
    rc_stage_hooks hooks = {.boundary = look_on, .user = &w, .interval = 0.5};
    rc_forecast_begin_task(&w.forecast, l, NULL);
    rc_status status = rc_stage_inversion(l, 0, &hooks);
    *step = w.step;
    return status;
}
