/* What a grid measured: every method over its class orders and seeds, as text, JSON and CSV. Deviations
 * are those of a sample, with divisor n - 1; one run has none. Only cells that are done count, and of these the tasks
 * that were asked for: an earlier call may have done more. */
#ifndef RC_EXPERIMENT_SUMMARY_H
#define RC_EXPERIMENT_SUMMARY_H

#include "experiment/grid.h"

typedef struct rc_summary {
    const rc_cell *cell;    /* (trials, methods + 1): of each trial the first task, then its methods */
    const rc_cell_end *end; /* the same */
    int trials, methods, jobs;
    double seconds; /* that the command took, this time */
    const char *command_line, *folder;
} rc_summary;

/* Mean and deviation of `count` numbers; NaN: too few numbers. */
typedef struct rc_spread {
    int count;
    double mean, deviation;
} rc_spread;
rc_spread rc_spread_of(const double *values, int count);

/* A table with one row per method. */
rc_status rc_summary_print(const rc_summary *summary, rc_results_line *line, void *user);
/* summary.json, summary.csv and summary.txt in the folder. */
rc_status rc_summary_write(const rc_summary *summary);

#endif
