/* What 'recollect run' would have left, with made-up numbers: results.json of a method on a class order, and a log. */
#ifndef RC_TESTS_SUPPORT_RUN_FILES_H
#define RC_TESTS_SUPPORT_RUN_FILES_H

#include <stdbool.h>

typedef struct run_file {
    const char *method, *dataset, *data; /* data: NULL: not said */
    int order, tasks, done, classes_per_task;
    double accuracy;     /* after the first task, in percent; 10 less after each one that follows, down to 5 */
    const char *setting; /* the value of the setting "lambda_war" */
    bool own_settings;   /* those of R-DFCIL's own code */
    const char *(*name)(int label); /* of the classes; NULL: "class 1", ... */
    int kept;                       /* bytes of statistics; 0: 18900 */
    bool without_classes;           /* as the copies of some old results are */
    const char *data_fingerprint;   /* NULL: not said */
    const char *size;               /* the value of that setting; NULL: not said */
    const char *other[2];           /* one more setting and its value; NULL: none */
    int seed;                       /* 0: 1 */
    const char *command;            /* NULL: "recollect run it --out 'a&b'" */
    const char *last_commit;        /* of the program that finished the last task; NULL: that of the others */
} run_file;

/* Writes FOLDER/results.json; makes the folder. Ends the test if that fails. */
void run_file_write(const run_file *run, const char *folder);
/* Writes FOLDER/events.jsonl with steps of every task from the first one given on. */
void run_file_log(const run_file *run, const char *folder, int first_task);
/* Any bytes as FOLDER/NAME. */
void run_file_bytes(const char *folder, const char *name, const void *bytes, unsigned long size);

#endif
