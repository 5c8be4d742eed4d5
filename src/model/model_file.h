/* A model as a file: safetensors with the reference implementation's tensor names (backbone.*,
 * head.classifiers.N.weight; head.bias, if the head has one), the stored statistics, and, as metadata, class names,
 * normalisation, tasks, method and configuration. No image is in it, unless the method keeps some (ER, LODE). */
#ifndef RC_MODEL_MODEL_FILE_H
#define RC_MODEL_MODEL_FILE_H

#include "cil/learner.h"
#include "config/config.h"
#include "model/calibration.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"

/* A learner between tasks, with names. */
typedef struct rc_saved_model {
    rc_learner learner;
    rc_config config;
    char **class_name;                     /* (learner.student.head.classes) by label */
    size_t file_bytes;                     /* of the file that it was loaded from; 0: none */
    size_t unknown_bytes;                  /* of these, in tensors that it has no use for */
    rc_calibration calibration;            /* cleared: nothing was measured */
    bool imported;                         /* its net came from elsewhere */
    char fingerprint[RC_FINGERPRINT_SIZE]; /* of the run that has made it; "": of none, or of none any more */
} rc_saved_model;

/* replace: a file of that name; otherwise it stays, and the status is RC_IO. */
rc_status rc_model_file_save(const char *path, const rc_saved_model *model, bool replace);
/* The bytes of such a file in a new block; free it with rc_free(NULL, ...). On failure *bytes is NULL and *size 0. */
rc_status rc_model_file_pack(const rc_saved_model *model, void **bytes, size_t *size);

/* Bytes of what is kept from one task to the next, by kind, as files have them. */
typedef struct rc_kept {
    size_t weights, class_means, covariance, images, generative_model;
} rc_kept;
rc_kept rc_model_kept(const rc_saved_model *model);
size_t rc_kept_bytes(const rc_kept *kept); /* all of them */
/* Of the net and the head. */
size_t rc_model_parameters(const rc_saved_model *model);
/* Is its method data-free, and was nothing else in its file? */
bool rc_model_is_data_free(const rc_saved_model *model);
/* Where it comes from, as text in a file's metadata, and back. get: the model has its tensors already. */
void rc_model_put_origin(const rc_saved_model *model, rc_json_writer *metadata);
void rc_model_get_origin(const rc_safetensors *file, rc_saved_model *model);
/* The net is built anew from the configuration; every tensor must be there with its shape. On failure nothing is
 * held. */
rc_status rc_model_file_load(const char *path, rc_backend *backend, rc_saved_model *model);
/* The same from memory; `name` is what messages call it. */
rc_status rc_model_file_parse(const char *name, const void *bytes, size_t size, rc_backend *backend,
                              rc_saved_model *model);
/* Is this format, of a file's metadata, that of models? NULL is not. */
bool rc_model_has_format(const char *format);
void rc_saved_model_destroy(rc_saved_model *model); /* a zeroed one is fine */
/* To another place, which holds none; the first one is zeroed then. */
void rc_saved_model_move(rc_saved_model *to, rc_saved_model *from);

#endif
