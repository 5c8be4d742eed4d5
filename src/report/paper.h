/* The numbers of the paper's tables of accuracy, in percent. cmake/paper.cmake makes the file that defines them from
 * bench/paper.csv, which is the one place that holds them. */
#ifndef RC_REPORT_PAPER_H
#define RC_REPORT_PAPER_H

typedef struct rc_paper_row {
    const char *dataset; /* as run.json names it; NULL ends the list */
    int tasks;
    const char *method;
    double last, last_deviation, mean, mean_deviation; /* of A_N, and of the mean of A_1..A_N; NaN: not printed */
} rc_paper_row;

extern const rc_paper_row rc_paper[];

/* NULL: the paper has no such row. */
const rc_paper_row *rc_paper_find(const char *dataset, int tasks, const char *method);

#endif
