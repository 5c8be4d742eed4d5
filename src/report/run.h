/* What a report reads of runs: their results, logs and pictures. Nothing is believed: a file that does not fit is an
 * error that names it, except for logs, whose torn lines are skipped. */
#ifndef RC_REPORT_RUN_H
#define RC_REPORT_RUN_H

#include "analysis/consistency.h"
#include "analysis/ledger.h"
#include "base/file.h"
#include "base/json.h"
#include "experiment/results.h"

/* What 'recollect analyze cost' tells of a method: multiples of ER's seconds, and of its multiply-adds by the paper's
 * formulas; of the stages, and of all of them together. */
typedef enum rc_report_cost { RC_COST_MEASURED, RC_COST_FORMULA, RC_COST_COUNT } rc_report_cost;
enum { RC_COST_COLUMNS = RC_STAGE_COUNT + 1, RC_REPORT_DATASET = 256 };

/* One method on one class order and seed. */
typedef struct rc_report_run {
    char path[RC_PATH_SIZE];   /* of the file that was read */
    char folder[RC_PATH_SIZE]; /* of its log and pictures; "": a copy of results.json alone */
    rc_json *json;             /* holds the texts below */
    uint64_t hash;             /* of the bytes that were read: those of a copy have the same */
    const rc_json *identity;   /* as in run.json; NULL: not known */
    const char *method;
    char dataset[RC_REPORT_DATASET]; /* "cifar100", "pets (folder)" */
    const char *own_data;            /* fingerprint of images of one's own; NULL: a published set, or not known */
    int order;
    int64_t seed;
    rc_results results;      /* done is 0 where no task is finished yet */
    const char **class_name; /* (classes of the last finished task); NULL: not in the file */
    int32_t *confusion;      /* (classes, classes), rows are true classes; NULL: not in the file */
    double *ledger;  /* (tasks, RC_LEDGER_COUNT): accuracies after each task, NaN: not known; NULL: no ledger.json */
    double *norms;   /* (tasks, classes): of the head's rows after each task, likewise; NULL: no norms.json */
    double *dkl;     /* (RC_COMBINATIONS, RC_SAMPLES_COUNT, RC_DENSITY_COUNT, 2): k1 and its error; no dkl.json */
    int dkl_classes; /* of the model that this is about; 0: not known */
    double *cost;    /* (RC_COST_COUNT, RC_COST_COLUMNS); no cost.json */
} rc_report_run;

typedef struct rc_report_runs {
    rc_report_run **run; /* in the order of the places, and in each by name */
    int count, room;
} rc_report_runs;

/* Adds the runs at `place`: a folder that 'recollect run' works in or has worked in, a folder of several, or a
 * results.json under any name. RC_FORMAT, RC_IO: a file of it cannot be read, and the message says which;
 * RC_INVALID_ARGUMENT: there is no run. */
rc_status rc_report_runs_add(rc_report_runs *runs, const char *place);
void rc_report_runs_free(rc_report_runs *runs); /* a cleared one is fine */

/* Are all its tasks done? */
static inline bool rc_report_run_done(const rc_report_run *run)
{
    return run->results.tasks > 0 && run->results.done == run->results.tasks;
}

/* A text of run.json, such as "device"; "" where there is none. */
const char *rc_report_run_text(const rc_report_run *run, const char *key);

#endif
