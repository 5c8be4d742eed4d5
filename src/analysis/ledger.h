/* Where is accuracy lost? After every task of a method, on the same features of the same test images, classifiers that
 * know more and more (docs/analyze.md):
 *
 *   head       the trained head
 *   nearest    nearest class mean, the means of all real images
 *   true       linear discriminant analysis (LDA) with means and covariance of all real images
 *   stored     LDA with the class means and the covariance that the method stores
 *   moved      LDA with statistics that were taken of real images when a class was learnt. Every later task moves
 *              them by a linear map from the features of the old net to those of the new one. The map is fitted on
 *              that task's images
 *   probe      a linear classifier trained on all real images
 *   joint      joint training, of the same run folder: other features
 *
 * NaN: there is nothing to say, because the method stores no statistics, or nobody ran joint training. */
#ifndef RC_ANALYSIS_LEDGER_H
#define RC_ANALYSIS_LEDGER_H

#include "analysis/past_run.h"
#include "analysis/table.h"

#define RC_LEDGER_ROWS(ROW) \
    ROW(HEAD, "head", "trained head") \
    ROW(NEAREST, "nearest", "nearest mean") \
    ROW(TRUE, "true", "LDA true") \
    ROW(STORED, "stored", "LDA stored") \
    ROW(MOVED, "moved", "LDA moved") \
    ROW(PROBE, "probe", "probe") \
    ROW(JOINT, "joint", "joint")

typedef enum rc_ledger_row {
#define RC_LEDGER_ENTRY(identifier, key, title) RC_LEDGER_##identifier,
    RC_LEDGER_ROWS(RC_LEDGER_ENTRY) RC_LEDGER_COUNT
#undef RC_LEDGER_ENTRY
} rc_ledger_row;

const char *rc_ledger_key(int row);   /* "head" */
const char *rc_ledger_title(int row); /* "trained head" */

typedef struct rc_ledger_task {
    int classes;
    double accuracy[RC_LEDGER_COUNT]; /* percent, over all classes so far */
    /* By task in which a class was learnt, this one included: percent; and how far the stored and the moved class means
     * are from the true ones, mean of |mean - true| / |true|, percent. */
    double by_task[RC_MAX_TASKS][RC_LEDGER_COUNT];
    double stored_off[RC_MAX_TASKS], moved_off[RC_MAX_TASKS];
    /* Of the trained head: right when only the classes of the image's own task are compared, and taken for one of them
     * when all are; percent. */
    double among[RC_MAX_TASKS], told[RC_MAX_TASKS];
    /* The same over all classes of earlier tasks; NaN after the first. */
    double old_stored_off, old_moved_off;
} rc_ledger_task;

typedef struct rc_ledger {
    const rc_method *method;
    int tasks;            /* finished */
    rc_ledger_task *task; /* (tasks) */
} rc_ledger;

/* The run's data must be there. Models and features of one task after the other are held, never those of all. */
rc_status rc_ledger_create(const rc_past_run *run, const rc_method *method, rc_backend *backend, rc_pool *pool,
                           const rc_watch *watch, rc_ledger *ledger);
void rc_ledger_destroy(rc_ledger *ledger); /* a zeroed one is fine */

/* For people, and as members of the JSON object that is open. */
void rc_ledger_print(const rc_ledger *ledger, rc_analysis_line *line, void *user);
void rc_ledger_put(const rc_ledger *ledger, rc_json_writer *w);

#endif
