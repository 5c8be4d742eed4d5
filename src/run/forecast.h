/* How long it will take: seconds per step of each stage, measured as the run goes; stages that have not run yet are
 * guessed from the ones that have, by the arithmetic of a step. */
#ifndef RC_RUN_FORECAST_H
#define RC_RUN_FORECAST_H

#include "cil/stage.h"
#include "cil/task_stream.h"

typedef struct rc_forecast {
    double per_step[2][RC_STAGE_COUNT]; /* without and with dreams; 0: not measured */
    double steps_left[2][RC_STAGE_COUNT]; /* in the tasks after this one */
    double task_steps[RC_STAGE_COUNT];
    bool dreams;
    double last_time;
    uint32_t last_step;
    rc_stage last_stage;
} rc_forecast;

void rc_forecast_begin_task(rc_forecast *forecast, const rc_learner *learner, const rc_task_stream *stream);
/* Seconds left of the stage and of this method's run, and the speed. */
void rc_forecast_update(rc_forecast *forecast, const rc_stage_report *report, double *images_per_second,
                        double *stage_left, double *run_left);

#endif
