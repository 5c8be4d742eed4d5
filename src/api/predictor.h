/* What is on these images? The one predictor: everything that predicts uses it, from the public functions to the
 * program.
 *
 * A predictor reads the weights of its model and changes nothing of it. It has a backend and a workspace of its own, so
 * several predictors of one model work at once, each on a thread of its own, and all give the same bits. */
#ifndef RC_API_PREDICTOR_H
#define RC_API_PREDICTOR_H

#include "data/image.h"
#include "forecast/progress.h"
#include "model/model_file.h"

/* Images that go through the net at once, at most. */
enum { RC_PREDICTOR_BATCH = 64 };

typedef struct rc_predictor rc_predictor;

typedef struct rc_predictor_settings {
    rc_backend *backend; /* the model's own, or another one that can read its memory; must outlive the predictor */
    int threads;         /* that decode pictures; 0: all cores */
    int room;            /* images to make room for at once; more is made when more come */
    rc_watch watch;      /* its log and `cancelled` */
} rc_predictor_settings;

/* The model must outlive the predictor, and must not learn meanwhile. */
rc_status rc_predictor_create(const rc_saved_model *model, const rc_predictor_settings *settings,
                              rc_predictor **predictor);
void rc_predictor_destroy(rc_predictor *predictor); /* NULL is fine */

/* Why its answers have no false-alarm rate; NULL: they have. */
const char *rc_predictor_lacks(const rc_predictor *predictor);

/* How a picture becomes an image of the net's shape. */
typedef struct rc_picture_form {
    rc_image_options options;
    rc_image_fit fit;
} rc_picture_form;

rc_picture_form rc_picture_form_of(const rc_saved_model *model);

/* Writes picture `index` in the net's shape to `pixels` (h, w, c). Called on the threads that decode. */
typedef rc_status rc_picture_source(void *user, int index, const rc_picture_form *form, uint8_t *pixels);

/* What to predict: images that have the net's shape, or pictures from a source; and what about them. */
typedef struct rc_question {
    int count;
    const uint8_t *ready; /* (count, h, w, c); NULL: from the source */
    rc_picture_source *source;
    void *user;
    int top;          /* classes to name; 0: none */
    bool familiarity; /* unfamiliarity, its rate and the nearest class are wanted */
} rc_question;

typedef struct rc_answer {
    rc_status status; /* anything but RC_OK: the source failed with `message`, and nothing else is set */
    const char *message;
    const int32_t *label;      /* (top): the most probable classes, best first */
    const double *probability; /* (top): softmax over all classes, at the model's temperature */
    double unfamiliarity;      /* rc_unfamiliarity_shown; NaN: not wanted, or the model's statistics are none */
    double stranger;           /* false-alarm rate, see model/calibration.h; NaN: also if the model has none */
    int nearest;               /* the class whose mean is nearest; -1: not wanted, or the model has no statistics */
    const float *features;     /* (d) */
} rc_answer;

typedef rc_status rc_answer_sink(void *user, int index, const rc_answer *answer);

/* Calls `each` for every picture in order, on this thread. Stops at the first failure of `each`. RC_CANCELLED: the
 * watch said so before a batch. RC_NUMERIC: see rc_scorer_run. */
rc_status rc_predictor_run(rc_predictor *predictor, const rc_question *question, rc_answer_sink *each, void *user);

/* The `top` of the classes with the largest logits (classes), ties by label; the probabilities are the softmax over all
 * of logits that are divided by the temperature. */
void rc_rank(const float *logits, int classes, double temperature, int top, int32_t *label, double *probability);

/* The probability of one class, likewise. */
double rc_probability_of(const float *logits, int classes, double temperature, int label);

#endif
