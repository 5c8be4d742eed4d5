/* What a long call tells its caller while it works. */
#ifndef RC_RUN_PROGRESS_H
#define RC_RUN_PROGRESS_H

#include "base/log.h"
#include "cil/stage.h"

/* How a caller watches a long call. Every member may be left out. */
typedef struct rc_watch {
    rc_log log; /* notes and warnings */
    void (*progress)(void *user, const char *text,
                     bool milestone); /* where it is; a milestone ends a stage */
    bool (*cancelled)(void *user);    /* true: stop at the next boundary */
    void *user;
} rc_watch;

bool rc_watch_cancelled(const rc_watch *watch);
/* rc_data_settings.progress, for a user that is an rc_watch. */
bool rc_watch_reading(void *watch, const char *what, int done, int total);

/* "training 3/60: ce 0.53, hkd 0.21, 4210 images/s, 0:12 left, 1:40 in all". NaN: not known yet. */
void rc_progress_text(const rc_stage_report *report, double images_per_second, double stage_left, double left,
                      char *text, size_t size);

/* "1:40", "2:03:10"; "?" for NaN. */
void rc_duration_text(double seconds, char *text, size_t size);
/* "1.2 MB". */
void rc_bytes_text(size_t bytes, char *text, size_t size);

/* Bytes that the learner's task needs at its peak, stages included: builds each step once and asks it.
 * Between rc_learner_begin_task and its first stage. */
rc_status rc_task_memory(rc_learner *learner, size_t *bytes);

#endif
