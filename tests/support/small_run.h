/* A run that takes a moment: four classes of plain pictures in two tasks, a small net. It keeps what the run tells, and
 * says in few words what its log has. A failure of any of these ends the test. */
#ifndef RC_TESTS_SUPPORT_SMALL_RUN_H
#define RC_TESTS_SUPPORT_SMALL_RUN_H

#include "experiment/experiment.h"
#include "support/data_files.h"
#include "support/page.h"

typedef struct small_run {
    rc_run_settings settings; /* whose watch has this as its user */
    page results, progress;   /* lines; of progress "WHERE: stage TASK STEP/STEPS EPOCH/EPOCHS" */
    data_log log;
    const char *stop_at; /* such a line: the run is to stop when it comes; NULL: never */
    bool stop;           /* now */
    void (*seen)(struct small_run *run, const recollect_progress *progress); /* called after every line; may be NULL */
} small_run;

/* Sets up a test: a folder of its own, which data_leave_folder leaves, with the pictures in "photos". */
int small_run_enter(void **state);
/* CwD and fine-tuning, one after the other on one thread, into the folder `out`. Its address must stay. */
void small_run_start(small_run *run, const char *out);
/* The same of one method. */
void small_run_start_one(small_run *run, const char *out, const char *method);
void small_run_set(small_run *run, const char *key, const char *value);
/* Runs it, which must succeed. */
void small_run_do(small_run *run);
/* The log of a cell without times and losses, a line for each event. */
void small_run_events(const char *folder, page *events);

#endif
