/* The stages of a task. Each file stage_*.c reads as its part of docs/methods/cwd.md: it sets the step's weights,
 * repeats the step, and lets its caller look in between.
 *
 *   inversion   a generator learns to dream what the old model remembers    tasks >= 2, with dreams
 *   training    student learns from new images and dreams
 *   refinement  the head is balanced, the backbone frozen                   tasks >= 2, with dreams
 *   estimation  class means and covariance for the next task                methods with DCE
 *
 * A stage can begin at any of its steps, if the caller has put the registered state back. */
#ifndef RC_CIL_STAGE_H
#define RC_CIL_STAGE_H

#include "cil/learner.h"

/* Where a stage is, at a step boundary. */
typedef struct rc_stage_report {
    rc_stage stage;
    int task;
    uint32_t step, steps; /* done, of all in the stage */
    int epoch, epochs;    /* 0, 0 where there are none */
    int images_per_step;
    double learning_rate;
    double loss[RC_LOSS_COUNT]; /* unweighted; NaN: not part of the stage */
    double total_loss;          /* their weighted sum; NaN: there are none */
    const int32_t *replayed;    /* (replays) labels of what the last step replayed; in inversion: of its dreams */
    int replays;
    rc_inversion *inversion; /* whose dreams (rc_inversion_dreams) these are; NULL in other stages */
    rc_state *state;         /* all that has to be saved to go on from here */
} rc_stage_report;

/* boundary: called between steps, about every `interval` seconds and at the end of the stage. Any status but RC_OK
 * stops the stage with it: RC_CANCELLED to stop early, at a boundary that may have been saved. */
typedef struct rc_stage_hooks {
    rc_status (*boundary)(void *user, const rc_stage_report *report);
    void *user;
    double interval;
    /* Resuming: called with the task's state, and again with that of the stage that is resumed added, before its first
     * step. May be NULL. */
    rc_status (*restore)(void *user, rc_state *state);
    /* For analyses: called after every step of training and refinement, which then run one at a time. Any status but
     * RC_OK stops the stage. NULL: nobody looks, and steps run many at a time. */
    rc_status (*step)(void *user, const rc_stage_report *report, rc_training *training);
} rc_stage_hooks;

/* Bytes that a stage of the task at hand takes besides what the learner holds, of the backend and for statistics that
 * move; 0 if it is little or nothing. Builds the stage's step and drops it again. Those of refinement include the step
 * of training, which is there. */
rc_status rc_stage_bytes(rc_learner *learner, rc_stage stage, size_t *bytes);

/* *bytes: what refinement takes beside the step of training, to draw features, and what estimation takes to move
 * statistics, or for covariances of single classes; 0: the task does not. A backend that counts memory counts it. */
rc_status rc_stage_drawing_bytes(rc_learner *learner, size_t *bytes);
rc_status rc_stage_estimation_bytes(rc_learner *learner, size_t *bytes);

/* What averaging takes beside the step of training: *held until refinement ends, *moment at the ends of epochs. */
void rc_stage_average_bytes(const rc_learner *learner, size_t *held, size_t *moment);

/* All stages of the task at hand, from `step` steps into `stage` on. `wall`, if not NULL, gets the seconds spent in
 * each stage added; it is up to date whenever the hook is called. What the stages leave is finite, or RC_NUMERIC. */
rc_status rc_run_stages(rc_learner *learner, rc_stage stage, uint32_t step, const rc_stage_hooks *hooks,
                        double wall[RC_STAGE_COUNT]);

/* ---- for the stage files ---------------------------------------------------------------------------------------- */

/* Repeats a step from `from` up to `to`, calling the hook in between. `loss` is the backend's array of values, `active`
 * tells which of them the stage has, `weight` (the host's) with what weight. A value that is not finite stops it with
 * RC_NUMERIC. */
typedef struct rc_stage_run {
    rc_learner *learner;
    const rc_stage_hooks *hooks;
    rc_stage_report report;
    void (*step)(void *context);
    void *context;
    rc_training *training; /* what hooks->step looks at; NULL: a stage that it is not called in */
    const void *loss;
    const float *weight;
    bool active[RC_LOSS_COUNT];
    void *block; /* host memory for what a report reads: losses and labels; NULL: losses alone */
    int labels;  /* behind the losses; the last report.replays of them are of replayed images */
    double last_call, seconds_per_step;
} rc_stage_run;

/* Memory for the labels, the last `replays` of which are reported. The caller frees run->block. */
rc_status rc_stage_reserve_labels(rc_stage_run *run, int labels, int replays);

rc_status rc_stage_repeat(rc_stage_run *run, uint32_t from, uint32_t to);

rc_status rc_stage_inversion_create(rc_learner *learner, rc_inversion **inversion);
rc_status rc_stage_training_create(rc_learner *learner, rc_training **training);

/* Which losses main training or refinement of the task at hand has, and their weights. */
void rc_stage_weights(const rc_learner *learner, rc_stage stage, float weight[RC_LOSS_COUNT],
                      bool active[RC_LOSS_COUNT]);

/* Likewise of inversion, as the source says. */
void rc_inversion_weights(const rc_learner *learner, float weight[RC_LOSS_COUNT], bool active[RC_LOSS_COUNT]);

rc_status rc_stage_inversion(rc_learner *learner, uint32_t from, const rc_stage_hooks *hooks);
/* Main training and, on the same optimiser, refinement; `from` counts steps of the stage it begins in. */
rc_status rc_stage_training(rc_learner *learner, rc_stage stage, uint32_t from, const rc_stage_hooks *hooks);
rc_status rc_stage_estimation(rc_learner *learner, const rc_stage_hooks *hooks);

#endif
