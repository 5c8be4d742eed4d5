/* What lies in the folder of a grid beside the cells of this process: methods, orders and seeds that earlier commands
 * or other processes have run there. Nobody runs them here, but one summary covers all. */
#ifndef RC_EXPERIMENT_OTHERS_H
#define RC_EXPERIMENT_OTHERS_H

#include "experiment/cell.h"
#include "experiment/experiment.h"

typedef struct rc_others {
    const rc_method *method[RC_MAX_METHODS]; /* those of this process, then others of which the folder has results */
    int methods;
    rc_trial *trial; /* (trials): orders and seeds that are not this process's */
    int trials;
    rc_cell *cell; /* (own + trials, methods + 1): of each trial the first task, then its methods; zeroed where the cell
                    * is this process's own */
    int own;       /* trials of this process */
} rc_others;

/* Looks for them in the folder of the run. They have the settings and the data of `own`, its trials, but for order and
 * seed. What cannot be read is left out, and the log says why. */
rc_status rc_others_read(const rc_run_settings *settings, const rc_trial *own, int count, const rc_log *log,
                         rc_others *others);
/* How many of their cells are done. */
int rc_others_done(const rc_others *others);
void rc_others_free(rc_others *others); /* a zeroed one is fine */

#endif
