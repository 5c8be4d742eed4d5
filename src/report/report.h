/* Reports of runs: a page for a browser, or its tables alone. Reads what runs left, finished or not, and changes
 * nothing of it. */
#ifndef RC_REPORT_REPORT_H
#define RC_REPORT_REPORT_H

#include "report/table.h"

/* The tables, in the order in which they are written. */
#define RC_REPORT_TABLES(FIRST, NEXT) \
    FIRST(accuracy) \
    NEXT(tasks) \
    NEXT(paper) NEXT(ledger) NEXT(dkl) NEXT(cost) NEXT(time) NEXT(classes) NEXT(confused) NEXT(settings) NEXT(runs)
#define RC_REPORT_FIRST_NAME(name) #name
#define RC_REPORT_NEXT_NAME(name)  "|" #name
/* "accuracy|tasks|..." */
#define RC_REPORT_TABLE_NAMES RC_REPORT_TABLES(RC_REPORT_FIRST_NAME, RC_REPORT_NEXT_NAME)

typedef struct rc_report_settings {
    char *const *place; /* folders of runs, or files of results */
    int places;
    rc_report_format format;
    const char *table; /* the only table that is written; NULL: all. A page has all in any case. */
} rc_report_settings;

/* What there is to tell about a report. */
typedef struct rc_report_about {
    int runs, done, methods, copies; /* copies: of these runs, which are left out */
    int tables;                      /* that were written; of a page: 0 */
} rc_report_about;

/* The whole text; the caller frees it, also after a failure. */
rc_status rc_report_make(const rc_report_settings *settings, rc_text *out, rc_report_about *about);

/* May the file be replaced by a report: is there none of that name, or is it a report? RC_INVALID_ARGUMENT: it is
 * something else. */
rc_status rc_report_may_replace(const char *path);

#endif
