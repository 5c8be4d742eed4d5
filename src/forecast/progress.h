/* What a long call tells its caller while it works. */
#ifndef RC_FORECAST_PROGRESS_H
#define RC_FORECAST_PROGRESS_H

#include "base/log.h"
#include "cil/stage.h"

/* Where a long call is, in numbers. NaN: not known yet. */
typedef struct rc_watch_event {
    const rc_stage_report *report; /* NULL: images are being read */
    int done, total;               /* images, while they are read */
    double images_per_second, stage_left, left;
    const char *text; /* the same in one line */
} rc_watch_event;

/* How a caller watches a long call. Every member may be left out. */
typedef struct rc_watch {
    rc_log log;                                                     /* notes and warnings */
    void (*progress)(void *user, const char *text, bool milestone); /* where it is; a milestone ends a stage */
    void (*report)(void *user, const rc_watch_event *event);        /* the same in numbers */
    bool (*cancelled)(void *user);                                  /* true: stop at the next boundary */
    const char *where; /* put before every text of a stage: "CwD, task 2 of 5, " */
    void *user;
} rc_watch;

bool rc_watch_cancelled(const rc_watch *watch);
/* Tells the watcher where a stage is, in both ways. */
void rc_watch_stage(const rc_watch *watch, const rc_stage_report *report, double images_per_second, double stage_left,
                    double left);
/* rc_data_settings.progress, for a user that is an rc_watch. */
bool rc_watch_reading(void *watch, const char *what, int done, int total);

/* "training 3/60: ce 0.53, hkd 0.21, 4210 images/s, 0:12 left, 1:40 in all". What is NaN, not known
 * yet, is left out. */
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
