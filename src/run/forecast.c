#include "run/forecast.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

/* Multiply-adds of a step relative to a training step without dreams, on the published nets: forward and backward of
 * the classifier count 3, forward alone 1, the generator twice the classifier. */
static const double relative[2][RC_STAGE_COUNT] = {{1, 1, 1, 0.4}, {2.7, 3.2, 2, 1.2}};

void rc_forecast_begin_task(rc_forecast *f, const rc_learner *learner, const rc_task_stream *stream)
{
    rc_learner later = *learner; /* only counts are looked at */
    f->dreams = learner->has_dreams;
    f->last_time = rc_now();
    f->last_step = 0;
    f->last_stage = RC_STAGE_COUNT;
    memset(f->steps_left, 0, sizeof f->steps_left);
    for (int i = 0; i < RC_STAGE_COUNT; i++)
        f->task_steps[i] = rc_stage_steps(learner, (rc_stage)i);
    for (int task = learner->task + 1; task < stream->tasks; task++) {
        double share = (double)rc_task_classes(stream, task) / rc_task_classes(stream, learner->task);
        later.n_old = rc_task_first(stream, task);
        later.n_new = rc_task_classes(stream, task);
        later.has_dreams = learner->method->replay == RC_REPLAY_DREAMS;
        later.batches = (int)(learner->batches * share) > 0 ? (int)(learner->batches * share) : 1;
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            f->steps_left[later.has_dreams][i] += rc_stage_steps(&later, (rc_stage)i);
    }
}

/* Seconds of one step: measured, or scaled from any stage that was. */
static double guess(const rc_forecast *f, int dreams, int stage)
{
    if (f->per_step[dreams][stage] > 0)
        return f->per_step[dreams][stage];
    for (int d = 1; d >= 0; d--)
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            if (f->per_step[d][i] > 0)
                return f->per_step[d][i] * relative[dreams][stage] / relative[d][i];
    return NAN;
}

void rc_forecast_update(rc_forecast *f, const rc_stage_report *report, double *images_per_second, double *stage_left,
                        double *run_left)
{
    double now = rc_now(), passed = now - f->last_time;
    bool same = f->last_stage == report->stage && report->step > f->last_step;
    if (same && passed > 0) {
        double measured = passed / (report->step - f->last_step), *known = &f->per_step[f->dreams][report->stage];
        *known = *known > 0 ? 0.7 * *known + 0.3 * measured : measured;
    }
    f->last_time = now;
    f->last_step = report->step;
    f->last_stage = report->stage;
    double step = guess(f, f->dreams, report->stage);
    *images_per_second = step > 0 ? report->images_per_step / step : NAN;
    *stage_left = step * (report->steps - report->step);
    *run_left = *stage_left;
    for (int i = (int)report->stage + 1; i < RC_STAGE_COUNT; i++)
        *run_left += f->task_steps[i] > 0 ? f->task_steps[i] * guess(f, f->dreams, i) : 0;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < RC_STAGE_COUNT; i++)
            *run_left += f->steps_left[d][i] > 0 ? f->steps_left[d][i] * guess(f, d, i) : 0;
}
