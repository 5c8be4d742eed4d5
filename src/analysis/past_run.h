/* A run as it lies in its folder, to be looked at: nothing in the folder is changed. Folders may come from anywhere, so
 * everything that is read is checked, and messages name the file. */
#ifndef RC_ANALYSIS_PAST_RUN_H
#define RC_ANALYSIS_PAST_RUN_H

#include "cil/scorer.h"
#include "cil/stage.h"
#include "forecast/allowance.h"
#include "forecast/progress.h"
#include "model/model_file.h"

typedef struct rc_past_run {
    char path[RC_PATH_SIZE];
    rc_config config;
    uint64_t data_seed; /* with which its data was read; files of earlier versions do not say: the run's own */
    rc_json *identity;  /* run.json */
    /* Once the data is there: */
    const rc_dataset *data;
    rc_task_stream stream;
} rc_past_run;

rc_status rc_past_run_open(const char *path, rc_past_run *run);
/* Takes the data that the run was made with; refuses other data. It must outlive the run. */
rc_status rc_past_run_take_data(rc_past_run *run, const rc_dataset *data);
void rc_past_run_close(rc_past_run *run); /* a zeroed one is fine */

/* What a method left. */
typedef struct rc_past_method {
    const rc_method *method;
    char path[RC_PATH_SIZE]; /* of its folder */
    char fingerprint[RC_FINGERPRINT_SIZE];
    int tasks, done; /* of the run; finished */
    int task_end[RC_MAX_TASKS];
    double accuracy[RC_MAX_TASKS];                /* percent, after each finished task */
    double seconds[RC_MAX_TASKS][RC_STAGE_COUNT]; /* of every stage; NaN: not known */
} rc_past_method;

/* Does the run hold results of the method? */
rc_status rc_past_run_has(const rc_past_run *run, const rc_method *method, bool *has);
rc_status rc_past_method_open(const rc_past_run *run, const rc_method *method, rc_past_method *past);

/* The model after task `task`, which counts from 1; of the run's data, if that is there. A run keeps the models of all
 * tasks, but a user may have removed some. */
rc_status rc_past_method_model(const rc_past_run *run, const rc_past_method *past, int task, rc_backend *backend,
                               rc_saved_model *model);

/* The same for a method of the run, whose results are read first; no task later than its last finished one. */
rc_status rc_past_task_model(const rc_past_run *run, const rc_method *method, int task, rc_backend *backend,
                             rc_saved_model *model);

/* Rows of the model's head (classes, d) on the host, in a new block; free with rc_free(NULL, ...). */
rc_status rc_past_head(const rc_saved_model *model, float **head);

/* ---- images and their features ---------------------------------------------------------------------------------- */

/* Features of images, with positions in the class order as labels. */
typedef struct rc_features {
    int n, d;
    float *value;   /* (n, d) */
    float *logits;  /* (n, classes of the model); NULL: not asked for */
    int32_t *label; /* (n) */
} rc_features;

/* Of the images of the classes at positions [first, end), as they are, without augmentation: those that the run trained
 * on (of each class no more than images_per_class), or all of its test images. */
typedef struct rc_feature_request {
    int first, end;
    bool test, logits;
} rc_feature_request;
rc_status rc_features_create(const rc_past_run *run, const rc_saved_model *model, const rc_feature_request *request,
                             const rc_watch *watch, rc_features *features);
void rc_features_destroy(rc_features *features); /* a zeroed one is fine */

/* Which training images of these positions the run used: indices into data->train, ascending. Free with
 * rc_free(NULL, ...). */
rc_status rc_past_run_images(const rc_past_run *run, int first, int end, int32_t **index, int *count);

#endif
