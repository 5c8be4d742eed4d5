/* The log of a run: one JSON object a line, in the order of events. */
#ifndef RC_EXPERIMENT_EVENTS_H
#define RC_EXPERIMENT_EVENTS_H

#include <stdint.h>

#include "base/file.h"
#include "experiment/results.h"

typedef struct rc_events {
    int fd; /* 0: closed */
    char path[RC_PATH_SIZE];
    double began; /* clock; earlier than the opening by what the run had taken before */
} rc_events;

/* The first line says which run the log is of: is it the one of this fingerprint, if there is a log? */
rc_status rc_events_check(const char *path, const char *fingerprint);
/* Opens the file, made if it is not there. */
rc_status rc_events_open(rc_events *events, const char *path);
void rc_events_close(rc_events *events); /* a zeroed one is fine */
/* Forgets all after the first `offset` bytes: what a resumed run repeats is not logged twice. Where less is there,
 * because a crash has lost the end, half a line of it is forgotten. `seconds`: that the run had taken by then. */
rc_status rc_events_cut(rc_events *events, int64_t offset, double seconds);

/* Bytes written so far, and seconds that the run has taken. */
rc_status rc_events_position(rc_events *events, int64_t *offset, double *seconds);

/* The description of the run, if the log has no line yet. */
rc_status rc_events_run(rc_events *events, const rc_json *run, const char *fingerprint);
rc_status rc_events_stage(rc_events *events, const rc_stage_report *report);
rc_status rc_events_task(rc_events *events, const rc_results *results); /* the last finished task */

#endif
