/* A whole experiment: a stream of tasks, one or several methods, accuracies after every task. What it leaves behind:
 *
 *   OUT/config.yaml, OUT/run.json        effective configuration; version, command line, seed, machine
 *   OUT/first-task/                      the first task, trained once for all methods
 *   OUT/METHOD/task-N.safetensors        the model after task N
 *   OUT/METHOD/checkpoint.safetensors    where an unfinished task is
 *   OUT/METHOD/results.json, results.txt, tasks.csv, classes.csv, confusion.csv, events.jsonl
 *
 * Every file is replaced whole. A run that was stopped or killed, or that could not write, goes on from its last
 * checkpoint and ends with the same bits. */
#ifndef RC_RUN_EXPERIMENT_H
#define RC_RUN_EXPERIMENT_H

#include "run/config.h"
#include "run/progress.h"
#include "run/results.h"

enum { RC_MAX_METHODS = 32 };

typedef struct rc_run_settings {
    rc_config config;
    const rc_method *method[RC_MAX_METHODS];
    int methods;
    const char *out;          /* folder; made if it is not there */
    bool resume;              /* go on with what is in it; otherwise a folder that holds a run is refused */
    int stop_after;           /* tasks; 0: all */
    double checkpoint_seconds;
    double report_seconds;    /* between looks at the losses, and at whether to stop */
    const char *command_line;
    bool skip_broken;
    int threads;              /* for decoding images; 0: all cores */
    rc_watch watch;           /* `where` is set by the run */
    void (*line)(void *user, const char *text); /* results, a line at a time; gets the watch's user */
} rc_run_settings;

/* RC_CANCELLED: stopped after saving. */
rc_status rc_experiment_run(rc_backend *backend, const rc_run_settings *settings);

#endif
