/* Runs sorted for a report: a set for each data set and number of tasks, and in it a variant for each method. Two
 * folders of one name whose images differ are two data sets. Runs of a method that differ in nothing but class order
 * and seed are one variant, whose numbers are means over them. Runs that differ in a setting, too, are variants of
 * their own, and their labels say in which. Copies of a run are one run. */
#ifndef RC_REPORT_SET_H
#define RC_REPORT_SET_H

#include "cil/methods.h"
#include "experiment/summary.h"
#include "report/paper.h"
#include "report/run.h"

enum { RC_REPORT_COLOURS = 10, RC_REPORT_LABEL = 200, RC_REPORT_SECONDS = RC_STAGE_COUNT + 2 };

typedef struct rc_report_variant {
    const rc_method *method; /* NULL: none that this program knows */
    const char *name;        /* of the method, as the runs have it */
    char label[RC_REPORT_LABEL];
    int colour;  /* from 1 */
    bool dashed; /* there are more variants than colours, and another has this one, too */
    const rc_report_run **run;
    int runs, done;                       /* all; those whose tasks are all done */
    rc_spread last, mean, forgetting;     /* over the runs that are done */
    rc_spread old_classes, new_classes;   /* accuracies after the last task, likewise */
    rc_spread seconds[RC_REPORT_SECONDS]; /* of the stages, of evaluation, of all; likewise */
    rc_spread *accuracy;                  /* (tasks): A_i over the runs that have got so far */
    double *matrix;                       /* (tasks, tasks): mean accuracy on task j after task i; NaN: not known */
    rc_spread *ledger;           /* (tasks, RC_LEDGER_COUNT): accuracies, over the runs that have one; NULL: none has */
    rc_spread *cost;             /* (RC_COST_COUNT, RC_COST_COLUMNS), likewise */
    const rc_report_run *dreams; /* the first that has D_KL; NULL: none has */
    rc_stored stored;            /* after the last task; of each kind the most that a run keeps */
    const rc_report_run *shown;  /* the run whose classes and log are shown: one that is done, if any is */
    const rc_paper_row *paper;   /* NULL: none */
} rc_report_variant;

typedef struct rc_report_set {
    char dataset[RC_REPORT_DATASET + 32]; /* as the runs have it, and the fingerprint if another set has the same */
    const char *own_data;                 /* as the first run that has one; NULL: none has */
    int tasks, classes, runs, copies;     /* copies: those that were left out */
    rc_report_variant *variant;
    int variants;
} rc_report_set;

typedef struct rc_report_sets {
    rc_report_set *set;
    int count;
} rc_report_sets;

/* Have both the same settings, of whatever methods they are? */
bool rc_report_alike(const rc_report_variant *a, const rc_report_variant *b);

/* The runs must outlive the sets. */
rc_status rc_report_sets_make(const rc_report_runs *runs, rc_report_sets *sets);
void rc_report_sets_free(rc_report_sets *sets); /* a cleared one is fine */

#endif
