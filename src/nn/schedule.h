/* Learning rate by epoch. */
#ifndef RC_NN_SCHEDULE_H
#define RC_NN_SCHEDULE_H

#include <stdbool.h>

enum { RC_MAX_MILESTONES = 8 };

/* base, times gamma from each milestone on, or along a cosine from base to 0 over the epochs before refinement_from;
 * from epoch `refinement_from` on the constant refinement rate. */
typedef struct rc_schedule {
    double base, gamma;
    bool cosine;
    int milestones, milestone[RC_MAX_MILESTONES];
    int refinement_from; /* epoch; 0 or less: there is no refinement */
    double refinement_rate;
} rc_schedule;

/* Epochs count from 0 in every task. */
float rc_schedule_rate(const rc_schedule *schedule, int epoch);

#endif
