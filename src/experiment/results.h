/* What a run measured: accuracies after every task and everything derived from them (docs/methods/README.md), as
 * text, JSON and CSV. "Last" is A_N, "mean" is the mean of A_1..A_N; both are always named. Accuracies are in
 * percent, forgetting and backward transfer in points, times in seconds. */
#ifndef RC_EXPERIMENT_RESULTS_H
#define RC_EXPERIMENT_RESULTS_H

#include "base/json.h"
#include "cil/evaluation.h"
#include "cil/stage.h"

typedef struct rc_task_result {
    int classes;                       /* seen so far */
    double accuracy, top5;             /* over all seen classes, percent */
    double old_accuracy, new_accuracy; /* of the classes before this task (NaN in the first), and of this task */
    double wall[RC_STAGE_COUNT];       /* seconds in each stage */
    double evaluation_seconds;
    double old_norm, new_norm; /* mean norm of the head's rows */
    rc_stored stored;          /* kept for the next task; all 0 until the cell sets it */
    char commit[44];           /* of the program that finished it: a run may be resumed by another */
} rc_task_result;

typedef struct rc_results {
    char method[32];
    int tasks, done; /* of the run; finished */
    int task_end[RC_MAX_TASKS];
    rc_task_result task[RC_MAX_TASKS];
    double *matrix;                 /* (tasks, tasks): accuracy on task j after task i; NaN above the diagonal */
    rc_evaluation last;             /* after the last finished task; empty after loading */
    double *class_accuracy;         /* (classes of the last finished task) */
    double *class_top5, *head_norm; /* likewise */
    int classes;
    int64_t log_offset; /* bytes of the log of events at the end of the last finished task */
    double seconds;     /* that the method had taken by then */
} rc_results;

rc_status rc_results_create(rc_results *results, const char *method, const rc_task_stream *stream);
void rc_results_destroy(rc_results *results); /* a zeroed one is fine */

/* Takes over the evaluation after task `done`, which it counts as finished. head: (classes, d) on the host. */
rc_status rc_results_add(rc_results *results, rc_evaluation *evaluation, const float *head, int d,
                         const double wall[RC_STAGE_COUNT], double evaluation_seconds);

double rc_results_mean(const rc_results *results);                  /* of A_1..A_done */
double rc_results_mean_after(const rc_results *results, int tasks); /* of A_1..A_tasks */

static inline int rc_results_first(const rc_results *results, int task) /* the first class of the task */
{
    return task > 0 ? results->task_end[task - 1] : 0;
}

/* Seconds of the first `tasks` tasks: of every stage, of evaluation, of all together; and the same as a JSON object. */
void rc_results_seconds(const rc_results *results, int tasks, double seconds[RC_STAGE_COUNT + 2]);
void rc_results_put_seconds(const rc_results *results, int tasks, const char *key, rc_json_writer *w);

/* All about one method as members of the JSON object that is open, and back (all but the confusion matrix). */
void rc_results_put(const rc_results *results, char *const *class_name, rc_json_writer *w);
rc_status rc_results_from_json(rc_results *results, const rc_json *json);
/* The same without the classes, which the copies of some old results lack: what is known of every task. */
rc_status rc_results_tasks_from_json(rc_results *results, const rc_json *json);
/* One finished task of it likewise, with mean, forgetting and backward transfer as they were then. */
void rc_results_put_task(const rc_results *results, int task, rc_json_writer *w);

/* Where results come from, for the files that hold them. */
typedef struct rc_results_origin {
    const char *fingerprint;
    const rc_json *identity; /* of the run: version, command line, ... */
    uint64_t seed;
    char *const *class_name;
} rc_results_origin;

/* Writes every file of the results into the folder: tables as CSV, the report as text, and last results.json, whose
 * presence says that a task is finished. */
rc_status rc_results_write(const rc_results *results, const rc_results_origin *origin, const char *folder);

/* CSV: one line per finished task, one per class, the confusion matrix. */
rc_status rc_results_write_csv(const rc_results *results, const char *path);
rc_status rc_results_write_classes(const rc_results *results, char *const *class_name, const char *path);
rc_status rc_results_write_confusion(const rc_results *results, char *const *class_name, const char *path);

/* Is the method one that keeps neither images nor a model that makes them? */
bool rc_results_are_data_free(const rc_results *results);
/* "18.9 kB of statistics": what is kept of images; and all of it as a JSON object, with whether the method is
 * data-free. */
void rc_stored_text(const rc_stored *stored, char *text, size_t size);
void rc_stored_put(const rc_stored *stored, bool data_free, const char *key, rc_json_writer *w);
/* For people: a table with one row per method; and everything about one method. */
typedef void rc_results_line(void *user, const char *text);
void rc_results_print(const rc_results *const *results, int count, rc_results_line *line, void *user);
void rc_results_report(const rc_results *results, char *const *class_name, rc_results_line *line, void *user);

#endif
