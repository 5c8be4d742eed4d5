/* One class order and seed of an experiment: the stream of tasks that its methods go through, and the folder that
 * holds their results. It does not change while they run, so they may run beside each other. */
#ifndef RC_EXPERIMENT_TRIAL_H
#define RC_EXPERIMENT_TRIAL_H

#include "config/config.h"
#include "experiment/run_folder.h"
#include "forecast/forecast.h"

typedef struct rc_trial {
    rc_config config; /* with its own order and seed */
    const rc_dataset *data;
    char name[64];           /* "order 0", "seed 3", "order 0, seed 3"; "": the only one */
    char path[RC_PATH_SIZE]; /* of its folder */
    rc_task_stream stream;
    int tasks;         /* to run: not more than the stream has */
    char **class_name; /* (classes) by position; the names themselves belong to the data */
    int *images;       /* (classes) by position: training images that are used */
    rc_run_folder folder;
} rc_trial;

/* Sets configuration, name and folder, below `out`, of the trial with that order and that seed; NULL: the
 * configuration's, which then is in no name. config must be set. */
rc_status rc_trial_name(rc_trial *trial, const char *out, const int *order, const uint64_t *seed);
/* "order-3", "seed-5", "order-3-seed-5", "". */
void rc_trial_folder_name(const int *order, const uint64_t *seed, char *name, size_t size);

/* Orders the classes and cuts them into tasks. The caller sets config, name and path before. stop_after: tasks to
 * run; 0: all. After a failure, destroy the trial as usual. */
rc_status rc_trial_create(rc_trial *trial, const rc_dataset *data, int stop_after);
void rc_trial_destroy(rc_trial *trial); /* a zeroed one is fine */

int rc_trial_images(const rc_trial *trial, int task,
                    bool with_old); /* training images of a task, and of earlier ones */
/* What a task is to a forecast. `image` must stay. */
rc_task_claim rc_trial_claim(const rc_trial *trial, const rc_method *method, int task, const rc_augment *image);

#endif
