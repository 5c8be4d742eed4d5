/* How long a task is: its stages and the steps of each. Below the learner and the stages, which both ask. */
#ifndef RC_CIL_TASK_STEPS_H
#define RC_CIL_TASK_STEPS_H

#include "cil/methods.h"

typedef enum rc_stage {
    RC_STAGE_INVERSION,
    RC_STAGE_TRAINING,
    RC_STAGE_REFINEMENT,
    RC_STAGE_ESTIMATION,
    RC_STAGE_COUNT
} rc_stage;

const char *rc_stage_name(rc_stage stage); /* "inversion" */

/* All that decides how many steps the stages of a task have. */
typedef struct rc_task_size {
    const rc_settings *settings;
    const rc_method *method;
    int n_old, n_new;
    int batches; /* per epoch; 0: dreams are looked at, nothing is learnt */
} rc_task_size;

/* How many steps a stage has; 0: the method does not have it. */
uint32_t rc_task_steps(const rc_task_size *task, rc_stage stage);

#endif
