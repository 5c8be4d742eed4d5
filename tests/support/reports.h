/* Reports of what lies in a folder of the test's own. For files that include cmocka.h. */
#ifndef RC_TESTS_SUPPORT_REPORTS_H
#define RC_TESTS_SUPPORT_REPORTS_H

#include "report/report.h"
#include "support/run_files.h"

extern char report_folder[64];
int report_set_up(void **state);
int report_tear_down(void **state);
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, report_set_up, report_tear_down)

/* The path of something in the folder; valid for the next three calls. */
const char *in_folder(const char *name);

/* CwD, done with five tasks of two classes; and its like under a name in the folder. */
extern const run_file five;
void write_run(const char *name, const char *method, int order, double accuracy, const char *setting);

rc_status try_report(rc_report_format format, const char *table, rc_text *out, rc_report_about *about);
/* The report of everything in the folder, to be freed. */
rc_text report(rc_report_format format, const char *table);

/* These end the test otherwise. */
void has(const rc_text *text, const char *piece);
void has_not(const rc_text *text, const char *piece);
void says(rc_report_format format, const char *table, const char *piece);
int count_of(const rc_text *text, const char *piece);

#endif
