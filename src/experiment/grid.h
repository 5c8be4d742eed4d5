/* Cells side by side: there are as many threads as jobs, and each takes the next cell that can begin. A method can
 * begin when the first task of its class order is done. A cell that fails does not stop the others. A cell that finds
 * no memory while others run waits for one of them to end, and there is one job less from then on.
 *
 * Several processes, on one machine or on many that share a file system, may work on the same cells. Each takes a cell
 * that nobody has, and all of them stay until every cell is done, so that each can step in for one that dies. */
#ifndef RC_EXPERIMENT_GRID_H
#define RC_EXPERIMENT_GRID_H

#include "experiment/cell.h"
#include "forecast/progress.h"

enum { RC_MAX_JOBS = 64 };

typedef struct rc_grid_settings {
    rc_cell *cell; /* (cells); a first task comes before the cells that begin from it */
    int cells;
    int jobs;                   /* 1 .. RC_MAX_JOBS */
    const char *backend;        /* every cell opens its own */
    int threads;                /* of every backend */
    struct rc_workers *workers; /* NULL: this process alone computes; otherwise there is one job */
    double checkpoint_seconds, report_seconds;
    /* 0: no other process works on these cells. Otherwise a cell is taken by a lease (lease.h) that is stale after so
     * many seconds, and cells that others have are waited for. */
    double lease_seconds;
    rc_forecast forecast; /* the speed as known so far */
    /* The grid never calls two of these at once, except `cancelled`, which several threads may call. */
    rc_watch watch;
    void (*line)(void *user, const char *text); /* results; gets the watch's user */
} rc_grid_settings;

/* How a cell ended. */
typedef struct rc_cell_end {
    rc_status status;                   /* RC_CANCELLED: it was stopped, or had not begun */
    bool absent;                        /* nobody here was to run it, and there are no results of it */
    char message[RC_MESSAGE_SIZE + 64]; /* of a failure, or where it was stopped; "": none */
} rc_cell_end;

/* Runs the cells that are not done. end: (cells), zeroed. RC_OK: every cell is done; RC_CANCELLED: stopped; otherwise
 * the status of the first cell that failed. `end` has the details. */
rc_status rc_grid_run(const rc_grid_settings *settings, rc_cell_end *end);

typedef enum rc_cell_state { RC_CELL_WAITS, RC_CELL_RUNS, RC_CELL_ENDED } rc_cell_state;

/* Has a cell something to do here? No if all its tasks are done or another process does them; no for a first task that
 * no method needs any more. state: (cells), NULL if none runs; a method that runs has begun, and its results are for
 * its thread to read. */
bool rc_grid_has_work(const rc_cell *cell, int cells, const rc_cell_state *state, int index);

/* Seconds until everything is done. left[i]: seconds of cell i, which is done, runs, or waits for its turn and its
 * first task. NaN: not known. */
double rc_grid_seconds(const rc_cell *cell, int cells, int jobs, const rc_cell_state *state, const double *left);

#endif
