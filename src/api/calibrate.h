/* After a lesson: how strange images of the classes that a model knows look to it, and how sure it is of its answers.
 * See model/calibration.h and model/confidence.h. */
#ifndef RC_API_CALIBRATE_H
#define RC_API_CALIBRATE_H

#include "model/model_file.h"

/* What a lesson has held out. */
typedef struct rc_held_out {
    const rc_split *images;
    const int *label; /* of each class of the data in the model */
    int known;        /* classes before the lesson */
} rc_held_out;

/* Sets taught->calibration: what `before` has, brought to the taught model, and what the held-out images of the
 * new classes say. Where no class was known before, nobody looks at `before`. */
rc_status rc_calibrate(rc_saved_model *taught, const rc_saved_model *before, const rc_held_out *held_out);

/* Why a model whose score is of that kind cannot tell a false-alarm rate, and what to do; NULL: it can. */
const char *rc_calibration_lacks(const rc_saved_model *model, rc_score_kind kind);

#endif
