/* What makes a false-alarm rate of a score of strangeness (api/unfamiliarity.h): the scores of images of known classes
 * that the model was not trained on. `learn` measures them on the images that it holds out, and the model keeps the
 * scores, one number an image, lesson by lesson.
 *
 * The rate of a score is the part of images of known classes that look at least as strange: in a lesson with n held-out
 * images (1 + those with at least that score) / (n + 1), which is never below 1 / (n + 1), and over lessons the mean,
 * weighted by their classes. An image of a known class gets a rate below r with probability r, as long as it comes from
 * where the held-out images came from.
 *
 * The temperature of the model's probabilities is measured on the same images, and kept here, too. */
#ifndef RC_MODEL_CALIBRATION_H
#define RC_MODEL_CALIBRATION_H

#include "base/json.h"

/* Scores cannot be compared across kinds. */
typedef enum rc_score_kind { RC_SCORE_DISTANCE_AND_ENTROPY, RC_SCORE_ENTROPY, RC_SCORE_KINDS } rc_score_kind;

/* LEAST: held-out images of a lesson; fewer cannot show a rate of 5 %. MOST: scores that are kept of a lesson; of more
 * images every so-manyth in order. */
enum { RC_CALIBRATION_LEAST = 20, RC_CALIBRATION_MOST = 200 };

typedef struct rc_calibrated_lesson {
    int classes;  /* that it added */
    int images;   /* that were held out */
    int scores;   /* that are kept; 0: there were too few images */
    float *score; /* (scores), ascending */
} rc_calibrated_lesson;

/* Cleared: nothing was ever measured. */
typedef struct rc_calibration {
    rc_score_kind kind;
    double temperature; /* of the probabilities (model/confidence.h); 0: not measured. Read it by the function below */
    int lessons;
    rc_calibrated_lesson *lesson; /* (lessons) */
} rc_calibration;

/* Adds a lesson. `scores` (images) need no order; one that is not finite counts as the strangest. With fewer than
 * RC_CALIBRATION_LEAST images it keeps none of them. On failure nothing has changed. */
rc_status rc_calibration_add(rc_calibration *calibration, int classes, const double *scores, int images);
rc_status rc_calibration_copy(rc_calibration *copy, const rc_calibration *calibration);
void rc_calibration_destroy(rc_calibration *calibration); /* a cleared one is fine; it is cleared then */

/* Does it cover a model of so many classes: has it lessons, all with scores, of that many classes in all? */
bool rc_calibration_covers(const rc_calibration *calibration, int classes);

/* What logits are divided by before they become probabilities: 1 where nothing was measured. */
double rc_calibration_temperature(const rc_calibration *calibration);

/* Held-out images of all lessons. */
int rc_calibration_images(const rc_calibration *calibration);

/* The false-alarm rate of a score, above 0 and at most 1. NaN: the score is NaN, or a lesson has no scores. */
double rc_calibration_rate(const rc_calibration *calibration, double score);

/* As text in a file's metadata, and back. get: every value is checked; `classes` are the model's. */
void rc_calibration_put(const rc_calibration *calibration, rc_json_writer *metadata);
rc_status rc_calibration_get(const char *text, int classes, rc_calibration *calibration);

#endif
