/* The numbers of the paper's tables. cmake/paper.cmake makes the file that defines them from bench/paper.csv,
 * paper-dkl.csv and paper-cost.csv, which are the one place that holds them. Of each list a row without its text is the
 * end. */
#ifndef RC_REPORT_PAPER_H
#define RC_REPORT_PAPER_H

/* Accuracies, in percent. */
typedef struct rc_paper_row {
    const char *dataset; /* as run.json names it */
    int tasks;
    const char *method;                                /* or RC_PAPER_RDFCIL */
    double last, last_deviation, mean, mean_deviation; /* of A_N, and of the mean of A_1..A_N; NaN: not printed */
} rc_paper_row;

/* D_KL of real images from dreams, of a model of 50 classes of CIFAR-100. */
typedef struct rc_paper_dkl_row {
    const char *losses; /* "ce + stat + div" (analysis/consistency.h) */
    double gaussian, kde;
} rc_paper_dkl_row;

/* Time as a multiple of ER's. */
typedef struct rc_paper_cost_row {
    const char *dataset;
    int tasks;
    const char *method;
    double over_er;
} rc_paper_cost_row;

extern const rc_paper_row rc_paper[];
extern const rc_paper_dkl_row rc_paper_dkl[];
extern const rc_paper_cost_row rc_paper_cost[];

/* The paper has R-DFCIL twice: as its authors ran it with their settings, and with CwD's (the method "rdfcil"). The
 * first is copied from R-DFCIL's own paper. */
#define RC_PAPER_RDFCIL          "rdfcil-published"
#define RC_PAPER_RDFCIL_TITLE    "R-DFCIL*"
#define RC_PAPER_RDFCIL_SETTINGS "weight_prior=0.001 diversity_epsilon=0"

/* NULL: the paper has no such row. */
const rc_paper_row *rc_paper_find(const char *dataset, int tasks, const char *method);
const char *rc_paper_title(const rc_paper_row *row);                           /* "R-DFCIL*" */
const rc_paper_dkl_row *rc_paper_dkl_find(const char *losses);                 /* NULL likewise */
double rc_paper_cost_find(const char *dataset, int tasks, const char *method); /* NaN likewise */

#endif
