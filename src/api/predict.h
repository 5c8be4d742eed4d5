/* What is on these images? A predictor takes files, folders and pictures in memory one after the other and
 * reports each in the order in which it came, a batch at a time. */
#ifndef RC_API_PREDICT_H
#define RC_API_PREDICT_H

#include "forecast/progress.h"
#include "model/model_file.h"

typedef struct rc_prediction {
    const char *name;    /* of the file */
    const char *message; /* why it could not be read; NULL: it was, and what follows is set */
    int count;           /* of the best classes, best first */
    const int *label;
    const double *probability; /* softmax over all classes */
    double unfamiliarity;      /* see api/unfamiliarity.h; NaN: the model has no statistics */
    int nearest;               /* class whose mean is nearest */
} rc_prediction;

typedef struct rc_predict_settings {
    int top;     /* classes to report; more than there are is fine */
    int threads; /* that decode images; 0: all cores */
    void (*each)(void *user, const rc_prediction *prediction);
    void *user;
    rc_watch watch;
} rc_predict_settings;

typedef struct rc_predictor rc_predictor;

/* The model must outlive the predictor. */
rc_status rc_predictor_create(rc_saved_model *model, const rc_predict_settings *settings,
                              rc_predictor **predictor);
void rc_predictor_destroy(rc_predictor *predictor); /* NULL is fine */

/* Does the model have what unfamiliarity needs? */
bool rc_predictor_knows_familiar(const rc_predictor *predictor);

/* A file, or a folder with all pictures below it in the order of their names. Files that cannot be read are
 * reported and counted, not an error. */
rc_status rc_predictor_add(rc_predictor *predictor, const char *path);
/* The bytes of a picture file. */
rc_status rc_predictor_add_bytes(rc_predictor *predictor, const char *name, const void *data, size_t size);
/* Reports what has not been reported yet. */
rc_status rc_predictor_finish(rc_predictor *predictor);

/* So far: images predicted, files that could not be read. */
int rc_predictor_images(const rc_predictor *predictor);
int rc_predictor_broken(const rc_predictor *predictor);

/* The `top` of the classes with the largest logits (classes), ties by label; the probabilities are softmax over all. */
void rc_rank(const float *logits, int classes, int top, int *label, double *probability);

/* One JSON object on one line. */
rc_status rc_prediction_json(const rc_saved_model *model, const rc_prediction *prediction,
                             void (*line)(void *user, const char *text), void *user);

#endif
