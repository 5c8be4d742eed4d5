/* What the logs of a run tell while it goes, or afterwards: where every cell is, its accuracies and losses. Reads the
 * folder alone, so that the run may go on on another machine. Nothing in it is believed: a line that does not fit is
 * skipped, a number out of its range is not there, texts are cut. They are not escaped. */
#ifndef RC_EXPERIMENT_OVERVIEW_H
#define RC_EXPERIMENT_OVERVIEW_H

#include "cil/stage.h"
#include "cil/task_stream.h"
#include "experiment/log_reader.h"

/* Losses of one stage of one task, of which every `stride`-th report is kept. */
enum { RC_CURVE_POINTS = 512, RC_CELL_CURVES = 3, RC_OVERVIEW_CELLS = 500 };
typedef struct rc_loss_curve {
    char stage[16]; /* "": none yet */
    int task;
    int64_t steps; /* of the stage */
    int points, stride, passed;
    double step[RC_CURVE_POINTS], loss[RC_CURVE_POINTS];
} rc_loss_curve;

typedef struct rc_seen_loss {
    char name[24];
    double value;
} rc_seen_loss;

typedef struct rc_seen_cell {
    char folder[RC_PATH_SIZE];
    rc_log_reader log;
    char name[96];
    bool first_task; /* that methods share */
    int tasks;       /* 0: not known */
    int done;        /* finished ones */
    double accuracy[RC_MAX_TASKS], mean;
    /* As its last line says; NaN: not known. */
    char stage[16]; /* "": it has no step yet */
    int task, epoch, epochs;
    int64_t step, steps, total_step, total_steps;
    double time, left, learning_rate, images_per_second, memory, total_loss;
    rc_seen_loss loss[RC_LOSS_COUNT];
    int losses;
    rc_loss_curve curve[RC_CELL_CURVES]; /* of the stages of the task at hand, the last one first */
    char end[16], message[400];          /* "": no process has left it */
} rc_seen_cell;

typedef struct rc_overview {
    char folder[RC_PATH_SIZE];
    rc_seen_cell **cell; /* by their folders' names */
    int cells, room;
    char problem[RC_PATH_SIZE + 200]; /* why a log could not be read at the last update; empty: all could */
} rc_overview;

/* RC_IO: there is no such folder. */
rc_status rc_overview_open(rc_overview *overview, const char *folder);
void rc_overview_close(rc_overview *overview); /* a zeroed one is fine */
/* Finds cells that have begun since, and reads what the logs have got. A log that cannot be read stays as it was,
 * and `problem` says why. Fails for want of memory alone. */
rc_status rc_overview_update(rc_overview *overview);

#endif
