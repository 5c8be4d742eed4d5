/* Do the gradients of a class's row of the head agree from batch to batch? A task of a past run is trained again, from
 * the model before it, and after every step of main training the head's gradient is looked at (statistics.h:
 * rc_direction). In a scheme that has cross entropy on either half and nothing else that reaches the head (real-lce,
 * sce), this is the paper's R of the local cross entropy: factors of a loss cancel out. In other methods it is that of
 * all their losses. */
#ifndef RC_ANALYSIS_GRADIENT_H
#define RC_ANALYSIS_GRADIENT_H

#include "analysis/past_run.h"
#include "analysis/table.h"

typedef struct rc_gradient_epoch {
    double old_classes, new_classes; /* mean of R over the classes before the task, and of the task; NaN: none */
} rc_gradient_epoch;

typedef struct rc_gradient {
    const rc_method *method;
    int task, n_old, n_new;   /* the task counts from 1 */
    bool dreams;              /* the old half of a batch is dreamt */
    int epochs, batches;      /* of main training; an epoch */
    rc_gradient_epoch *epoch; /* (epochs) */
} rc_gradient;

typedef struct rc_gradient_settings {
    int task;            /* to train again, 2 or more */
    rc_settings changed; /* those of the run, perhaps with some changed */
} rc_gradient_settings;

/* The run's data must be there. It takes as long as inversion and main training of the task, and changes nothing in the
 * run's folder. */
rc_status rc_gradient_create(const rc_past_run *run, const rc_method *method, const rc_gradient_settings *settings,
                             rc_backend *backend, const rc_watch *watch, rc_gradient *gradient);
void rc_gradient_destroy(rc_gradient *gradient); /* a zeroed one is fine */

/* For people, and as members of the JSON object that is open. */
void rc_gradient_print(const rc_gradient *gradient, rc_analysis_line *line, void *user);
void rc_gradient_put(const rc_gradient *gradient, rc_json_writer *w);

#endif
