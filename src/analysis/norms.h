/* Norms of the rows of a head, one row a class, after every task: how far the head favours new classes. */
#ifndef RC_ANALYSIS_NORMS_H
#define RC_ANALYSIS_NORMS_H

#include "analysis/past_run.h"
#include "analysis/table.h"

typedef struct rc_norms {
    const rc_method *method;
    int tasks, classes; /* finished; of the run so far */
    int task_end[RC_MAX_TASKS];
    double *norm; /* (tasks, classes); NaN: not learnt yet */
} rc_norms;

/* One model is held at a time. */
rc_status rc_norms_create(const rc_past_run *run, const rc_method *method, rc_backend *backend, const rc_watch *watch,
                          rc_norms *norms);
void rc_norms_destroy(rc_norms *norms); /* a zeroed one is fine */

/* Mean over the classes [first, end) after task `task`, which counts from 0; NaN: there are none. */
double rc_norms_mean(const rc_norms *norms, int task, int first, int end);

/* For people, and as members of the JSON object that is open. */
void rc_norms_print(const rc_norms *norms, rc_analysis_line *line, void *user);
void rc_norms_put(const rc_norms *norms, rc_json_writer *w);

#endif
