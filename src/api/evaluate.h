/* Accuracy of a model on labelled images. Classes of the data set and of the model are matched by name, so that any
 * folder will do, whatever its order. */
#ifndef RC_API_EVALUATE_H
#define RC_API_EVALUATE_H

#include "cil/evaluation.h"
#include "forecast/progress.h"
#include "model/model_file.h"

/* The settings that read a data set for a model: its size, channels and handling of EXIF. */
rc_data_settings rc_model_data_settings(const rc_saved_model *model);

/* The model's label of a class name; -1: it does not know it. */
int rc_model_label(const rc_saved_model *model, const char *name);

/* The failure of a data set at `path` that has no image of a class that the model knows. */
rc_status rc_refuse_strangers(const rc_saved_model *model, const char *path, const rc_dataset *data);

typedef struct rc_named_evaluation {
    rc_evaluation counts; /* over the model's classes */
    int images;           /* scored */
    int unknown_images;   /* left out, because the model does not know their class */
    int unknown_classes;
    int *unknown; /* (unknown_classes): which, numbered as in the data set */
} rc_named_evaluation;

rc_status rc_evaluate_by_name(const rc_saved_model *model, const rc_dataset *data, const rc_split *split,
                              const rc_scoring *scoring, rc_named_evaluation *evaluation);
void rc_named_evaluation_destroy(rc_named_evaluation *evaluation); /* a zeroed one is fine */

/* Reads the data set at `path` and scores its test images; all images where it has no test split of its own.
 */
typedef struct rc_evaluate_settings {
    const char *data, *format; /* format NULL: recognised */
    bool skip_broken;
    int threads;
    rc_watch watch;
} rc_evaluate_settings;

/* On success the data set is open: close it. */
rc_status rc_evaluate_data(const rc_saved_model *model, const rc_evaluate_settings *settings, rc_dataset *data,
                           rc_named_evaluation *evaluation);

#endif
