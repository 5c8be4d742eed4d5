/* The tables of a report. Each is about one set of runs. */
#ifndef RC_REPORT_TABLES_H
#define RC_REPORT_TABLES_H

#include "report/report.h"
#include "report/set.h"
#include "report/table.h"

/* Fills a cleared table. One without rows is not shown. csv: every row also says data set and number of tasks, so that
 * the tables of several sets can be joined. */
typedef void rc_report_maker(const rc_report_set *set, bool csv, rc_table *table);

typedef struct rc_report_table {
    const char *name;
    rc_report_maker *make;
} rc_report_table;

/* All of them, in the order in which they are written; NULL when there are no more. */
const rc_report_table *rc_report_table_at(int index);
const rc_report_table *rc_report_table_find(const char *name); /* NULL: none */

/* "3 runs", "2 of 3 runs done", "task 2 of 5": how far a variant is. */
void rc_report_state(const rc_report_set *set, const rc_report_variant *variant, char *text, size_t size);

/* How many of the paper's numbers about the set it has, and to how many of these there is one of ours. */
void rc_report_coverage(const rc_report_set *set, int *printed, int *measured);

#endif
