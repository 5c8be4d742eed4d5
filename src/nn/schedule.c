#include "nn/schedule.h"

#include <math.h>

float rc_schedule_rate(const rc_schedule *schedule, int epoch)
{
    if (schedule->refinement_from > 0 && epoch >= schedule->refinement_from)
        return (float)schedule->refinement_rate;
    double rate = schedule->base;
    if (schedule->cosine && schedule->refinement_from > 0)
        return (float)(rate * (1 + cos(acos(-1) * epoch / schedule->refinement_from)) / 2);
    for (int i = 0; i < schedule->milestones; i++) {
        if (epoch >= schedule->milestone[i])
            rate *= schedule->gamma;
    }
    return (float)rate;
}
