/* The log of a cell: one JSON object a line, in the order of events (docs/logs.md), and what is made from it. */
#ifndef RC_EXPERIMENT_EVENTS_H
#define RC_EXPERIMENT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "experiment/log_tables.h"
#include "experiment/results.h"
#include "forecast/progress.h"

typedef struct rc_events {
    rc_log_file log;
    rc_log_tables tables;
    char folder[RC_PATH_SIZE];
    double began; /* clock; earlier than the opening by what the cell had taken before */
    bool begun;   /* the first line is there, which says whose log it is */
} rc_events;

/* What the first line says of the cell. */
typedef struct rc_events_cell {
    const rc_json *run; /* as in run.json */
    const char *fingerprint, *name, *method;
    const rc_task_stream *stream;
    int tasks;
} rc_events_cell;

/* The first line says which run the log is of: is it the one of this fingerprint, if there is a log? */
rc_status rc_events_check(const char *path, const char *fingerprint);
/* Opens the log in the folder of a cell, made if it is not there. */
rc_status rc_events_open(rc_events *events, const char *folder);
void rc_events_close(rc_events *events); /* a zeroed one is fine */
/* Before the first event. Forgets all after the first `offset` bytes: what a resumed run repeats is not logged twice.
 * Where less is there, because a crash has lost the end, half a line of it is forgotten. Describes the cell, if no line
 * is left. `seconds`: that the cell had taken by then. */
rc_status rc_events_begin(rc_events *events, const rc_events_cell *cell, int64_t offset, double seconds);

/* Bytes written so far, and seconds that the run has taken. */
rc_status rc_events_position(rc_events *events, int64_t *offset, double *seconds);

/* Makes what is logged so far survive a power failure: before a file says how far the log is. */
rc_status rc_events_sync(rc_events *events);

/* Where a stage is. */
typedef struct rc_events_step {
    const rc_stage_report *report;
    const rc_pace *pace;
    int classes;                    /* that the head knows */
    int old_classes;                /* of these */
    double total_step, total_steps; /* done, and all, of the cell */
} rc_events_step;
rc_status rc_events_stage(rc_events *events, const rc_events_step *step);
/* A picture of dreams beside the log, with the labels of what is on it. */
typedef struct rc_events_picture {
    const char *file;
    int width, height, count;
    const int32_t *label; /* (count) */
} rc_events_picture;
rc_status rc_events_dreams(rc_events *events, const rc_events_step *step, const rc_events_picture *picture);
rc_status rc_events_task(rc_events *events, const rc_results *results); /* the last finished task */
/* That the process leaves the cell, and why. */
rc_status rc_events_end(rc_events *events, const char *how, const char *message);

#endif
