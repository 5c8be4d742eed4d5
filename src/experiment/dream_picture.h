/* A picture of what an inversion has made: dreams of the old classes side by side, each with the name of the class that
 * the old model takes it for. Of every class there are as many as of the others, as far as the last step made so many.
 * It costs one copy from the backend, of dreams that are there anyway. */
#ifndef RC_EXPERIMENT_DREAM_PICTURE_H
#define RC_EXPERIMENT_DREAM_PICTURE_H

#include "cil/stage.h"
#include "data/image.h"

enum { RC_PICTURE_DREAMS = 64, RC_PICTURE_COLUMNS = 8 };

typedef struct rc_dream_picture {
    rc_image canvas; /* free with rc_image_free */
    int count;
    int32_t label[RC_PICTURE_DREAMS]; /* (count), row by row */
} rc_dream_picture;

/* report: of inversion, after a step. class_name: by label. */
rc_status rc_dream_picture_draw(const rc_learner *learner, const rc_stage_report *report, char *const *class_name,
                                rc_dream_picture *picture);

#endif
