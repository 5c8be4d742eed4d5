/* One method on one class order and seed: its tasks one after the other, checkpoints between steps, results after
 * every task. The first task, which the methods of a trial share, is a cell of its own: the others begin from its
 * model.
 *
 * Cells run beside each other in threads of one process, each with a backend of its own. They share the data and the
 * trial, and only read them. The caller's callbacks may be called from several threads at once. */
#ifndef RC_EXPERIMENT_CELL_H
#define RC_EXPERIMENT_CELL_H

#include "experiment/results.h"
#include "experiment/trial.h"
#include "forecast/forecast.h"

typedef struct rc_cell {
    const rc_trial *trial;
    const rc_method *method;
    bool first_task;             /* the first task alone, for all methods that share it */
    const struct rc_cell *first; /* the cell whose model it begins from; NULL: it trains its first task itself */
    bool elsewhere;              /* it belongs to another process's part of the grid, and is only summed up here */
    rc_results results;
    rc_forecast forecast; /* speed as known when it begins, updated as it goes */
    char path[RC_PATH_SIZE], fingerprint[RC_FINGERPRINT_SIZE];
    char name[96]; /* "order 0, CwD" */
} rc_cell;

typedef struct rc_cell_hooks {
    double checkpoint_seconds;
    double report_seconds; /* between looks at the losses, and at whether to stop */
    /* At a boundary; the pace is that of the cell's task and those after it. */
    void (*report)(void *user, const rc_cell *cell, const rc_stage_report *report, const rc_pace *pace);
    bool (*cancelled)(void *user);
    void (*line)(void *user, const char *text); /* a result */
    void *user;
} rc_cell_hooks;

/* create: a method. It begins from `first`, the cell of its trial's first task, if its own first task would be the
 * same. create_first: that first task itself. Both read the results that are there already. The trial's folder must
 * be open. After a failure, destroy the cell as usual. */
rc_status rc_cell_create(rc_cell *cell, const rc_trial *trial, const rc_method *method, const rc_cell *first);
rc_status rc_cell_create_first(rc_cell *cell, const rc_trial *trial);
void rc_cell_destroy(rc_cell *cell); /* a zeroed one is fine */

/* Reads the results from the folder again, after a run that failed. */
rc_status rc_cell_reload(rc_cell *cell);

int rc_cell_tasks(const rc_cell *cell); /* that it runs */
bool rc_cell_done(const rc_cell *cell); /* all of them are */
/* The steps of the tasks from `task` on. */
rc_workload rc_cell_work(const rc_cell *cell, int task);
/* Bytes of the images that it replays, and of the training images of its largest task: a GPU has a copy of them. */
size_t rc_cell_image_bytes(const rc_cell *cell);

/* The row that trains the first task for all methods: one that estimates, whichever methods were asked for. */
const rc_method *rc_first_task_method(void);
/* The image shape and normalisation of the data. */
rc_augment rc_image_of(const rc_dataset *data);

/* Runs what is left to do. RC_CANCELLED: stopped after saving. Where several processes compute (workers.h), the leader
 * runs the cell, and the others follow: each of its tasks is an order to them. */
rc_status rc_cell_run(rc_cell *cell, rc_backend *backend, const rc_cell_hooks *hooks);

/* What the leader is about to do: the stages of one task, from files that all processes read. */
typedef struct rc_cell_order {
    char trial[RC_PATH_SIZE];                                        /* path of its folder */
    char method[32];                                                 /* its name */
    char model[RC_PATH_SIZE];                                        /* that the task begins with; "": a new one */
    char checkpoint[RC_PATH_SIZE], fingerprint[RC_FINGERPRINT_SIZE]; /* that it goes on from; "": none */
    int32_t task, stage;
    uint32_t step;
} rc_cell_order;

/* Computes this process's part of them, and keeps nothing. The trial is that of the order. */
rc_status rc_cell_follow(const rc_trial *trial, rc_backend *backend, const rc_cell_order *order);

#endif
