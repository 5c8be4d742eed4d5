/* The curves of a log (docs/logs.md): every loss of every stage, over all tasks. */
#ifndef RC_REPORT_LOG_H
#define RC_REPORT_LOG_H

#include "report/run.h"

enum { RC_REPORT_CURVES = 48 };

typedef struct rc_report_curve {
    char stage[24], term[24]; /* "training", "ce" */
    double *sum;              /* (tasks, bins): of the values in each bin */
    int *count;               /* the same: how many */
} rc_report_curve;

typedef struct rc_report_log {
    int tasks, bins; /* bins of each task: from its first step to its last */
    rc_report_curve curve[RC_REPORT_CURVES];
    int curves;
    int torn;         /* lines that could not be read */
    rc_status status; /* RC_OUT_OF_MEMORY: there was none for a curve */
} rc_report_log;

/* The log of a run. Where its first task is one that methods share, the log of that one, too. No log: no curves. */
rc_status rc_report_log_read(const rc_report_run *run, rc_report_log *log);
/* The same line by line, each as JSON. `log` is an rc_report_log. RC_OUT_OF_MEMORY: there was none for a curve. */
void rc_report_log_begin(rc_report_log *log, int tasks);
rc_status rc_report_log_take(void *log, const rc_json *line);
void rc_report_log_free(rc_report_log *log); /* a cleared one is fine */

#endif
