/* What a long call tells its caller while it works. */
#ifndef RC_FORECAST_PROGRESS_H
#define RC_FORECAST_PROGRESS_H

#include "base/log.h"
#include "base/stop.h"
#include "cil/stage.h"
#include "recollect/recollect.h"

/* How a caller watches a long call. Every member may be left out. */
typedef struct rc_watch {
    rc_log log; /* notes and warnings */
    /* Where it is, in numbers and as text. `where` says which of several runs: "CwD, task 2 of 5"; else "". */
    void (*progress)(void *user, const char *where, const recollect_progress *progress);
    bool (*cancelled)(void *user); /* true: stop at the next boundary */
    const char *where;             /* what `progress` gets and what its text begins with; NULL: nothing */
    void *user;
} rc_watch;

/* How fast it goes, and how much there is left. NaN: not known yet. */
typedef struct rc_pace {
    double images_per_second;
    double stage_left, left; /* seconds of the stage, and of everything */
    double fraction;         /* of everything that is done */
} rc_pace;

bool rc_watch_cancelled(const rc_watch *watch);
/* For rc_stop_swap: lets `cancelled` stop what this thread does, in its midst. */
rc_stop rc_watch_stop(const rc_watch *watch);
/* Tells the watcher where a stage is. */
void rc_watch_stage(const rc_watch *watch, const rc_stage_report *report, const rc_pace *pace);

/* Inverts the learner's model while the watch looks on. RC_CANCELLED, without a message: the watch stopped it after
 * *step. */
rc_status rc_watch_inversion(const rc_watch *watch, rc_learner *learner, uint32_t *step);
/* rc_data_settings.progress and rc_scoring.progress, for a user that is an rc_watch. */
bool rc_watch_reading(void *watch, const char *what, int done, int total);
bool rc_watch_scoring(void *watch, const char *what, int done, int total);

/* "training 3/60: 45 %, 1:40 left, 4210 images/s, ce 0.53, hkd 0.21". What is NaN, not known yet, is left out. */
void rc_progress_text(const rc_stage_report *report, const rc_pace *pace, char *text, size_t size);

/* "1:40", "2:03:10"; "?" for NaN. */
void rc_duration_text(double seconds, char *text, size_t size);
/* "1.2 MB". */
void rc_bytes_text(size_t bytes, char *text, size_t size);

/* Bytes that the learner's task needs at its peak, stages included: builds each step once and asks it.
 * Between rc_learner_begin_task and its first stage. */
rc_status rc_task_memory(rc_learner *learner, size_t *bytes);

#endif
