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
    int *kept;          /* (classes): dreams of each, at most per_class */
    uint8_t *images;    /* (classes, per_class, h, w, c): the first ones that the model took for that class */
    double temperature; /* of the probabilities */
    float *probability; /* (classes, per_class): what the model gave to that class; NaN: there is no such dream */
    int *earlier;       /* (classes, per_class): dreams made in the batches before that of the kept one */
    int *count;         /* (classes): all that it took for that class */
    int sampled;        /* dreams made: until every class has enough, at most 16 times as many as are wanted */
    double *spread;     /* (classes): standard deviation over the kept dreams, mean over pixels, in units of the
                           data's;  NaN: fewer than two */
    int steps;          /* of inversion that were made */
} rc_dreams;

/* Afterwards the model is as it was. Same seed, same dreams. */
rc_status rc_dream(rc_saved_model *model, const rc_dream_settings *settings, rc_dreams *dreams);
void rc_dreams_destroy(rc_dreams *dreams); /* a zeroed one is fine */
/* How many of a class are kept where so many are wanted, no more than here: the first ones of those that are kept. */
int rc_dreams_of(const rc_dreams *dreams, int label, int per_class);

/* ---- real images to lay beside them ------------------------------------------------------------------------------ */

/* The most of a class that are shown. */
enum { RC_DREAM_REAL = 8 };

typedef struct rc_real_images {
    int classes;     /* of the model; 0: none were asked for, and the rest is NULL */
    int *count;      /* (classes) */
    uint8_t *images; /* (classes, RC_DREAM_REAL, h, w, c) */
    float
        *probability; /* (classes, RC_DREAM_REAL): what the model gives to the class that they are of; NaN: no image */
    int32_t *taken;   /* (classes, RC_DREAM_REAL): the class that it takes them for; -1: no image */
} rc_real_images;

typedef struct rc_real_settings {
    const char *data, *format; /* as in rc_evaluate_settings */
    int threads;
    rc_watch watch;
} rc_real_settings;

/* Some images of each class that both the model and the data set have, in the model's shape, evenly spread over those
 * that there are, and what the model says about them. Images that cannot be read are left out. Classes that only one of
 * the two has are told to the log. RC_INVALID_ARGUMENT: they have no class in common. */
rc_status rc_real_images_read(const rc_saved_model *model, const rc_real_settings *settings, rc_real_images *real);
void rc_real_images_destroy(rc_real_images *real); /* a zeroed one is fine */

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

typedef struct rc_picture_settings {
    const char *folder;
    int per_class; /* dreams of each class, at most */
    int scale;     /* each pixel becomes scale x scale; 0: so that a dream has 64 pixels or more */
    bool beside;   /* there are real images, too */
    bool force;    /* replace pictures that are there */
} rc_picture_settings;

/* FOLDER/NN-NAME.png for every class that has dreams, and FOLDER/all.png with a row for every class, which goes on in
 * FOLDER/all-2.png, ... where there are too many for one. Without force nothing that is there is replaced:
 * rc_dreams_check says so before the work, and whether a picture would be too large. All pictures appear together:
 * where one cannot be made, none is. */
rc_status rc_dreams_check(const rc_saved_model *model, const rc_picture_settings *settings);
rc_status rc_dreams_write(const rc_dreams *dreams, const rc_real_images *real, const rc_saved_model *model,
                          const rc_picture_settings *settings);
/* How many sheets there are; and the names of the files in the folder, of sheet 0, 1, ... and of a class. */
enum { RC_DREAM_NAME = 128 };
int rc_dreams_sheets(const rc_saved_model *model, const rc_picture_settings *settings);
void rc_dreams_sheet_name(int sheet, char name[RC_DREAM_NAME]);
void rc_dreams_class_name(const rc_saved_model *model, int label, char name[RC_DREAM_NAME]);

#endif
