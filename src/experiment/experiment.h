/* A whole experiment: a stream of tasks, one or several methods, one or several class orders, accuracies after every
 * task. What it leaves behind:
 *
 *   OUT/config.yaml, OUT/run.json        effective configuration; version, command line, seed, machine
 *   OUT/first-task/                      the first task, trained once for all methods
 *   OUT/METHOD/task-N.safetensors        the model after task N
 *   OUT/METHOD/checkpoint.safetensors    where an unfinished task is
 *   OUT/METHOD/results.json, results.txt, tasks.csv, classes.csv, confusion.csv
 *   OUT/METHOD/events.jsonl, scalars.csv, events.out.tfevents.*, task-N-dreams.png      logs (docs/logs.md)
 *   OUT/summary.json, .csv, .txt         every method's accuracies, mean and deviation over the orders, of all that lie
 *                                        there, earlier runs' too
 *
 * With a list of orders (or seeds) everything but the summary is in OUT/order-N (OUT/seed-N, OUT/order-N-seed-M), each
 * of which looks like the folder of a run of that order alone.
 *
 * Every file is replaced whole. A run that was stopped or killed, or that could not write, goes on from its last
 * checkpoint and ends with the same bits, however many cells (methods times orders) run side by side. */
#ifndef RC_EXPERIMENT_EXPERIMENT_H
#define RC_EXPERIMENT_EXPERIMENT_H

#include "config/config.h"
#include "experiment/results.h"
#include "forecast/progress.h"

enum { RC_MAX_METHODS = 32, RC_MAX_ORDERS = 32 };

typedef struct rc_run_settings {
    rc_config config;
    const rc_method *method[RC_MAX_METHODS];
    int methods;
    int order[RC_MAX_ORDERS], orders; /* empty: the order of the configuration, in the folder itself */
    uint64_t seed[RC_MAX_ORDERS];     /* the same for seeds. Data that is made or split by a seed keeps the
                                          configuration's seed */
    int seeds;
    const char *backend;  /* as rc_backend_open() calls it */
    int threads;          /* of all jobs together; 0: all cores */
    int jobs;             /* cells side by side; 0: as many as the machine allows */
    bool alone;           /* processes that mpirun or srun has started do not work together, each runs for itself */
    bool together;        /* this process works as one of several even if it is the only one, which serves to measure */
    const char *out;      /* folder; made if it is not there */
    bool resume;          /* go on with what is in it; otherwise a folder that holds a run is refused */
    bool unsummed;        /* no summary is written: the caller sums up what several runs left in the folder */
    int stop_after;       /* tasks; 0: all */
    double lease_seconds; /* above 0: other processes work in the folder, too, and this one joins them or is the first;
                           * one that does not move for so long is taken for dead. The caller sets
                           * `resume`, too */
    int shard,
        shards; /* above 0: of the orders and seeds only every shards-th, from number `shard` (1 ..) on, is run, and
                        * others, which other processes run in the same folder, are summed up as far as they are done */
    double checkpoint_seconds;
    double report_seconds; /* between looks at the losses, and at whether to stop */
    const char *command_line;
    const char *const *set; /* (sets) the "name=value" that somebody gave for this run alone: a warning tells what no
                               method reads */
    int sets;
    bool skip_broken;
    const rc_dataset *data; /* as rc_run_data_open opened it (run_data.h); NULL: the run opens it */
    /* The run sets `where`. Several threads may call `cancelled` at once; the other callbacks and `line` are never
     * called by two threads at once. */
    rc_watch watch;
    void (*line)(void *user, const char *text); /* results, a line at a time; gets the watch's user */
} rc_run_settings;

/* Checks that no method, order or seed is listed twice, and that several orders differ, so that every folder belongs
 * to one cell. */
rc_status rc_run_settings_check(const rc_run_settings *settings);

/* RC_CANCELLED: stopped after saving. A method that fails does not end the others: its failure is logged, and the
 * status is that of the first failure.
 *
 * Started by mpirun or srun as one of several processes (and not `alone`), all of them compute one cell after the
 * other, each its part of every batch. The first one leads: it alone writes files, prints and reports. A failure of
 * another one is printed and ends all processes; what was saved before is intact. */
rc_status rc_experiment_run(const rc_run_settings *settings);

#endif
