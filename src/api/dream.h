/* What a model remembers: trains a generator against it, just as the next task would, and draws images from it. */
#ifndef RC_API_DREAM_H
#define RC_API_DREAM_H

#include "forecast/progress.h"
#include "model/model_file.h"

/* Steps of inversion that are enough for a look, where the configuration asks for more. */
enum { RC_DREAM_STEPS = 500 };

typedef struct rc_dream_settings {
    int per_class;    /* dreams wanted of every class */
    int steps;        /* of inversion; 0: as configured, at most RC_DREAM_STEPS */
    const char *seed; /* NULL: the model's */
    rc_watch watch;
} rc_dream_settings;

typedef struct rc_dreams {
    int classes, per_class, h, w, c;
    int *kept;       /* (classes): dreams of each, at most per_class */
    uint8_t *images; /* (classes, per_class, h, w, c): the first ones that the model took for that class */
    int *count;      /* (classes): all that it took for that class */
    int sampled;     /* dreams made: until every class has enough, at most 16 times as many as are wanted */
    double *spread;  /* (classes): standard deviation over the kept dreams, mean over pixels, in units of the
                        data's;  NaN: fewer than two */
    int steps;       /* of inversion that were made */
} rc_dreams;

/* Afterwards the model is as it was. Same seed, same dreams. */
rc_status rc_dream(rc_saved_model *model, const rc_dream_settings *settings, rc_dreams *dreams);
void rc_dreams_destroy(rc_dreams *dreams); /* a zeroed one is fine */

/* Pictures: FOLDER/NN-NAME.png for every class that has dreams, and FOLDER/all.png with a row for every
 * class. Each pixel becomes scale x scale; 0: so that a dream has 64 pixels or more. Without force nothing
 * that is there is replaced: rc_dreams_check says so before the work. All pictures appear together: where one cannot
 * be made, none is. */
rc_status rc_dreams_check(const rc_saved_model *model, const char *folder, bool force);
rc_status rc_dreams_write(const rc_dreams *dreams, const rc_saved_model *model, const char *folder, int scale);

#endif
