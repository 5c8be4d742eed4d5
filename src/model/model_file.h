/* A model as a file: safetensors with the reference implementation's tensor names (backbone.*,
 * head.classifiers.N.weight), the stored statistics, and, as metadata, class names, normalisation, tasks, method and
 * configuration. No image is in it, unless the method keeps some (ER, LODE). */
#ifndef RC_MODEL_MODEL_FILE_H
#define RC_MODEL_MODEL_FILE_H

#include "cil/learner.h"
#include "config/config.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"

/* A learner between tasks, with names. */
typedef struct rc_saved_model {
    rc_learner learner;
    rc_config config;
    char **class_name; /* (learner.student.head.classes) by label */
    size_t file_bytes; /* of the file that it was loaded from; 0: none */
    char fingerprint[RC_FINGERPRINT_SIZE]; /* of the run that has made it; "": of none, or of none any more */
} rc_saved_model;

/* replace: a file of that name; otherwise it stays, and the status is RC_IO. */
rc_status rc_model_file_save(const char *path, const rc_saved_model *model, bool replace);
/* The net is built anew from the configuration; every tensor must be there with its shape. On failure nothing is
 * held. */
rc_status rc_model_file_load(const char *path, rc_backend *backend, rc_saved_model *model);
/* The same from memory; `name` is what messages call it. */
rc_status rc_model_file_parse(const char *name, const void *bytes, size_t size, rc_backend *backend,
                              rc_saved_model *model);
void rc_saved_model_destroy(rc_saved_model *model); /* a zeroed one is fine */

#endif
