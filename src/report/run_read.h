/* For the files that find runs: reading one. `run` is cleared; its folder is set. */
#ifndef RC_REPORT_RUN_READ_H
#define RC_REPORT_RUN_READ_H

#include "report/run.h"

rc_status rc_report_run_read(rc_report_run *run, const char *path); /* results.json */
/* The same of its text. */
rc_status rc_report_run_parse(rc_report_run *run, const char *path, const char *text, size_t size);
rc_status rc_report_run_begun(rc_report_run *run, const char *path); /* the log, where there are no results yet */
/* What 'recollect analyze' found out about the run, if its JSON was saved beside run.json. */
rc_status rc_report_run_findings(rc_report_run *run);
void rc_report_run_free(rc_report_run *run); /* with the block itself */

#endif
