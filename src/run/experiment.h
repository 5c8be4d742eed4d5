/* A whole experiment: a stream of tasks, one or several methods, accuracies after every task. What it leaves behind:
 *
 *   OUT/config.yaml, OUT/run.json        effective configuration; version, command line, seed, machine
 *   OUT/first-task/                      the first task, trained once for all methods
 *   OUT/METHOD/task-N.safetensors        the model after task N
 *   OUT/METHOD/checkpoint.safetensors    where an unfinished task is
 *   OUT/METHOD/results.json, tasks.csv, confusion.csv, events.jsonl
 *
 * Every file is replaced whole. A run that was stopped or killed goes on from its last checkpoint and ends with the
 * same bits. */
#ifndef RC_RUN_EXPERIMENT_H
#define RC_RUN_EXPERIMENT_H

#include "run/config.h"
#include "run/results.h"

typedef struct rc_run_progress {
    const char *method;  /* its title */
    int tasks;           /* of the run */
    rc_stage_report report;
    double images_per_second;
    double stage_left, run_left; /* seconds; NaN: not known yet */
} rc_run_progress;

enum { RC_MAX_METHODS = 32 };

typedef struct rc_run_settings {
    rc_config config;
    const rc_method *method[RC_MAX_METHODS];
    int methods;
    const char *out;          /* folder; made if it is not there */
    bool resume;              /* go on with what is in it; otherwise a folder that holds a run is refused */
    int stop_after;           /* tasks; 0: all */
    double checkpoint_seconds;
    double report_seconds;    /* between progress calls */
    const char *command_line;
    bool skip_broken;
    int threads;              /* for decoding images; 0: all cores */
    const rc_log *log;

    void (*progress)(void *user, const rc_run_progress *progress); /* may be NULL */
    void (*line)(void *user, const char *text);                    /* results, a line at a time */
    bool (*cancelled)(void *user);                                 /* asked between steps; may be NULL */
    bool (*loading)(void *user, const char *what, int done, int total); /* while data is read; may be NULL */
    void *user;
} rc_run_settings;

/* RC_CANCELLED: stopped after saving. */
rc_status rc_experiment_run(rc_backend *backend, const rc_run_settings *settings);

/* Class order of a configuration for that many classes; free with rc_free(NULL, ...). */
rc_status rc_config_class_order(const rc_config *config, int classes, int **order);

#endif
