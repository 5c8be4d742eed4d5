#include "run/events.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

/* Names in the log, as the published code has them where it has them. */
static const char *const loss_key[RC_LOSS_COUNT] = {
    [RC_LOSS_CE] = "ce", [RC_LOSS_INTER] = "inter", [RC_LOSS_INTRA] = "intra", [RC_LOSS_REPLAY] = "replay",
    [RC_LOSS_HKD] = "hkd", [RC_LOSS_KD] = "kd", [RC_LOSS_KD_REPLAY] = "kd_replay", [RC_LOSS_FEATURE] = "feature",
    [RC_LOSS_RKD] = "rkd", [RC_LOSS_WAR] = "war", [RC_LOSS_CONTENT] = "content", [RC_LOSS_DIVERSITY] = "diversity",
    [RC_LOSS_BN] = "bn", [RC_LOSS_PRIOR] = "prior", [RC_LOSS_NORM] = "norm", [RC_LOSS_DCE] = "dce",
    [RC_LOSS_RECONSTRUCTION] = "reconstruction", [RC_LOSS_LATENT] = "latent",
};

static rc_status problem(const char *what)
{
    return rc_fail(RC_IO, "the log of events cannot be %s: %s", what, strerror(errno));
}

rc_status rc_events_open(rc_events *events, const char *path)
{
    *events = (rc_events){.file = fopen(path, "ab"), .began = rc_now()};
    return events->file != NULL ? RC_OK : problem("opened");
}

void rc_events_close(rc_events *events)
{
    if (events->file != NULL)
        fclose(events->file);
    events->file = NULL;
}

int64_t rc_events_offset(rc_events *events)
{
    return fseeko(events->file, 0, SEEK_END) == 0 ? (int64_t)ftello(events->file) : 0;
}

rc_status rc_events_cut(rc_events *events, int64_t offset)
{
    RC_TRY(rc_events_flush(events));
    if (offset > rc_events_offset(events))
        return RC_OK; /* it was lost in a crash: nothing to cut */
    return ftruncate(fileno(events->file), (off_t)offset) == 0 ? RC_OK : problem("cut");
}

rc_status rc_events_flush(rc_events *events)
{
    return fflush(events->file) == 0 ? RC_OK : problem("written");
}

/* Takes over `json`. */
static rc_status write_line(rc_events *events, json_t *json)
{
    char *text;
    rc_status status = json != NULL ? rc_json_dump(json, 0, &text)
                                    : rc_fail(RC_OUT_OF_MEMORY, "no memory for an event");
    json_decref(json);
    RC_TRY(status);
    bool written = fputs(text, events->file) >= 0 && fputc('\n', events->file) != EOF;
    rc_free(NULL, text);
    return written ? RC_OK : problem("written");
}

rc_status rc_events_stage(rc_events *events, const rc_stage_report *report)
{
    json_t *loss = json_object();
    for (int i = 0; i < RC_LOSS_COUNT; i++)
        if (isfinite(report->loss[i]))
            json_object_set_new(loss, loss_key[i], json_real(report->loss[i]));
    return write_line(events, json_pack("{s:s, s:i, s:s, s:I, s:I, s:i, s:f, s:f, s:o}", "event", "step", "task",
                                        report->task + 1, "stage", rc_stage_name(report->stage), "step",
                                        (json_int_t)report->step, "steps", (json_int_t)report->steps, "epoch",
                                        report->epoch, "learning_rate", report->learning_rate, "seconds",
                                        rc_now() - events->began, "loss", loss));
}

rc_status rc_events_task(rc_events *events, const rc_results *results)
{
    const rc_task_result *t = &results->task[results->done - 1];
    return write_line(events, json_pack("{s:s, s:i, s:i, s:f, s:f}", "event", "task", "task", results->done, "classes",
                                        t->classes, "accuracy", t->accuracy, "mean_accuracy",
                                        rc_results_mean(results)));
}
