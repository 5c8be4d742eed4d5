/* Orders and seeds that other processes have run in the folder of a grid, with lists of their own: nobody runs them
 * here, but one summary covers all. */
#ifndef RC_EXPERIMENT_OTHERS_H
#define RC_EXPERIMENT_OTHERS_H

#include "experiment/cell.h"

typedef struct rc_others {
    rc_trial *trial; /* (trials) */
    rc_cell *cell;   /* (trials, methods + 1): of each trial the first task, then its methods */
    int trials, methods;
} rc_others;

/* Looks for them in `folder`. They have the settings and the data of `own`, the trials of this process, but for order
 * and seed. orders, seeds: whether the grid has a list of them. */
rc_status rc_others_read(const char *folder, const rc_trial *own, int count, bool orders, bool seeds,
                         const rc_method *const *method, int methods, rc_others *others);
/* How many of their cells are done. */
int rc_others_done(const rc_others *others);
void rc_others_free(rc_others *others); /* a zeroed one is fine */

#endif
