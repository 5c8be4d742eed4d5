#include "cil/task_steps.h"

const char *rc_stage_name(rc_stage stage)
{
    static const char *const name[] = {"inversion", "training", "refinement", "estimation"};
    return stage >= 0 && stage < RC_STAGE_COUNT ? name[stage] : "unknown";
}

/* Main epochs and refinement epochs of a task. Main training is as long for a method that does not refine, so that
 * methods compare, and share their first task. A small task gets more epochs, to reach min_steps. */
static int epochs_of(const rc_task_size *task, bool refinement)
{
    const rc_settings *s = task->settings;
    bool replay = rc_method_replays(task->method, task->n_old);
    if (refinement && (s->paper_no_refinement || s->refine_epochs == 0 || !task->method->refine || !replay))
        return 0;
    int epochs = refinement ? s->refine_epochs : s->epochs - (s->paper_no_refinement ? 0 : s->refine_epochs);
    int least = (s->min_steps + task->batches - 1) / task->batches;
    return epochs > least ? epochs : least;
}

uint32_t rc_task_steps(const rc_task_size *task, rc_stage stage)
{
    const rc_settings *s = task->settings;
    bool replay = rc_method_replays(task->method, task->n_old);
    if (task->batches == 0 && stage != RC_STAGE_INVERSION)
        return 0;
    switch (stage) {
    case RC_STAGE_INVERSION: {
        rc_inversion_plan plan = rc_method_inversion(task->method, s, task->n_old);
        return plan.parts * plan.steps;
    }
    case RC_STAGE_TRAINING: return (uint32_t)epochs_of(task, false) * (uint32_t)task->batches;
    case RC_STAGE_REFINEMENT: return (uint32_t)epochs_of(task, true) * (uint32_t)task->batches;
    case RC_STAGE_ESTIMATION: {
        if (!task->method->dce)
            return 0;
        int ratio = task->n_old / task->n_new > 1 ? task->n_old / task->n_new : 1;
        return (uint32_t)task->batches * (replay ? 1 + (uint32_t)ratio : 1);
    }
    case RC_STAGE_COUNT: break;
    }
    return 0;
}
