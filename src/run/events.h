/* The log of a run: one JSON object a line, in the order of events. */
#ifndef RC_RUN_EVENTS_H
#define RC_RUN_EVENTS_H

#include <stdint.h>
#include <stdio.h>

#include "run/results.h"

typedef struct rc_events {
    FILE *file;
    double began;
} rc_events;

/* Appends to the file; made if it is not there. */
rc_status rc_events_open(rc_events *events, const char *path);
void rc_events_close(rc_events *events); /* a zeroed one is fine */

/* Bytes written so far, and forgetting all after that many: what a resumed run repeats is not logged twice. */
int64_t rc_events_offset(rc_events *events);
rc_status rc_events_cut(rc_events *events, int64_t offset);
rc_status rc_events_flush(rc_events *events);

rc_status rc_events_stage(rc_events *events, const rc_stage_report *report);
rc_status rc_events_task(rc_events *events, const rc_results *results); /* the last finished task */

#endif
