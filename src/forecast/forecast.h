/* How long a run will take, and how much memory. Seconds per step of each stage are measured on a few steps before a
 * long run begins, and then as it goes. A stage that has not been measured yet is estimated from those that have, by
 * the arithmetic of a step. */
#ifndef RC_FORECAST_FORECAST_H
#define RC_FORECAST_FORECAST_H

#include "forecast/progress.h"

/* Tasks whose steps take other times: new images alone (or old ones as if they were new), with dreams, with images that
 * are stored, with a model of images that learns beside the classifier. */
typedef enum rc_task_kind { RC_TASK_PLAIN, RC_TASK_DREAMS, RC_TASK_STORED, RC_TASK_LEARNS, RC_TASK_KINDS } rc_task_kind;

rc_task_kind rc_task_kind_of(const rc_method *method, int n_old);

/* Steps of each stage, of tasks of each kind. */
typedef struct rc_workload {
    double steps[RC_TASK_KINDS][RC_STAGE_COUNT];
} rc_workload;

/* Adds one task: n_new classes after n_old, with that many training images. */
void rc_workload_add(rc_workload *work, const rc_settings *settings, const rc_method *method, int n_old, int n_new,
                     int images);
double rc_workload_steps(const rc_workload *work); /* all of them */

typedef struct rc_forecast {
    double per_step[RC_TASK_KINDS][RC_STAGE_COUNT]; /* seconds; 0: not measured */
    rc_workload later;                              /* what comes after the task at hand */
    double task_steps[RC_STAGE_COUNT];
    rc_task_kind kind; /* of the task at hand */
    double fraction;   /* of the task and what comes after it, as told last */
    double last_time;
    uint32_t last_step;
    rc_stage last_stage;
} rc_forecast;

/* later: what comes after this task; NULL: nothing. */
void rc_forecast_begin_task(rc_forecast *forecast, const rc_learner *learner, const rc_workload *later);
/* The speed, what is left, and which part of the task and of what comes after it is done. That part is by the seconds
 * that steps take; before any is measured, by their arithmetic. It never shrinks, though forecasts change. */
void rc_forecast_update(rc_forecast *forecast, const rc_stage_report *report, rc_pace *pace);
/* Seconds that the work takes; NaN: nothing was measured yet. */
double rc_forecast_seconds(const rc_forecast *forecast, const rc_workload *work);
/* The same; while nothing was measured, by the arithmetic of the steps. Only ratios of two of them say something. */
double rc_forecast_weight(const rc_forecast *forecast, const rc_workload *work);

/* A task that is to be forecast. */
typedef struct rc_task_claim {
    const rc_settings *settings;
    const rc_method *method;
    const rc_augment *image;
    int n_old, n_new;      /* n_new 0: the task only dreams of the old classes */
    bool head_bias;        /* the head of the old classes has one */
    uint64_t offered;      /* images that earlier tasks have offered to a buffer, repeats counted */
    const uint8_t *images; /* (count, h, w, c): read only by methods that are given old images */
    int count;
    bool lent; /* the learner is lent them: they take no memory where the backend reads the host's */
    rc_status (*also)(rc_learner *shadow); /* builds what follows the stages; NULL: nothing does */
} rc_task_claim;

/* The most bytes that the task takes, counted without taking them: builds a learner that knows n_old classes, and
 * every stage of its task, on a sizing backend. 0 on a GPU. */
rc_status rc_forecast_bytes(rc_backend *backend, const rc_task_claim *claim, size_t *bytes);
/* Refuses the task if that is more than is allowed (forecast/allowance.h); `what` is what the message calls it. */
rc_status rc_forecast_allow(rc_backend *backend, const rc_task_claim *claim, const char *what);

/* Runs a few steps of every stage of a task, on a learner that is thrown away. Gives its seconds per step, and the
 * most bytes held (including what the process holds already). n_old 0: the first task. count: images of the task, at
 * least one; images: those of a batch, or all, of the shape of `image`; they stay as they are. */
rc_status rc_forecast_measure(rc_forecast *forecast, rc_backend *backend, const rc_settings *settings,
                              const rc_method *method, const rc_augment *image, int n_old, int n_new,
                              const uint8_t *images, int count, size_t *bytes);

/* Logs "forecast: about 1:40:00 and 1.2 GB of memory", if it takes long enough to be worth saying. */
void rc_forecast_tell(const rc_log *log, double seconds, size_t bytes);

#endif
