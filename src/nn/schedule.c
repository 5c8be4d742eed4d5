#include "nn/schedule.h"

float rc_schedule_rate(const rc_schedule *schedule, int epoch)
{
    if (schedule->refinement_from > 0 && epoch >= schedule->refinement_from)
        return (float)schedule->refinement_rate;
    double rate = schedule->base;
    for (int i = 0; i < schedule->milestones; i++) {
        if (epoch >= schedule->milestone[i])
            rate *= schedule->gamma;
    }
    return (float)rate;
}
