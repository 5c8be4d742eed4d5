/* The checkpoint of a lesson: where it is kept, to which lesson it belongs, and going on from it. */
#ifndef RC_API_LESSON_CHECKPOINT_H
#define RC_API_LESSON_CHECKPOINT_H

#include "base/log.h"
#include "model/checkpoint.h"
#include "model/fingerprint.h"
#include "model/model_file.h"

typedef struct rc_lesson_checkpoint {
    const char *path; /* NULL: none is kept */
    double seconds;   /* between two of them */
    bool resume;
    const rc_log *log;
    /* What follows is for lesson_checkpoint.c. */
    char fingerprint[RC_FINGERPRINT_SIZE];
    rc_safetensors *file; /* that it goes on from; NULL: none */
    bool kept;            /* a file is there, with `position` */
    rc_position position;
    double last, took; /* clock, when one was tried last; seconds that it took */
    bool warned;
} rc_lesson_checkpoint;

/* Before the work: refuses a file that is there, unless the lesson is to go on from it. */
rc_status rc_lesson_checkpoint_check(const rc_lesson_checkpoint *checkpoint);

/* When the task has begun: finds out which lesson it is, and reads where it was. before: the model, zeroed if it knows
 * nothing; taught: the one whose learner has the images by now; labels: of these; held_out: what is scored. *stage and
 * *step: where it is to begin, changed only if it goes on. */
rc_status rc_lesson_checkpoint_begin(rc_lesson_checkpoint *checkpoint, const rc_saved_model *before,
                                     const rc_saved_model *taught, const int32_t *labels, int images,
                                     const rc_split *held_out, rc_stage *stage, uint32_t *step);
/* rc_stage_hooks.restore, without its user. */
rc_status rc_lesson_checkpoint_restore(const rc_lesson_checkpoint *checkpoint, rc_backend *backend, rc_state *state);

/* At a boundary: saves where it is, if it is time for that, or if it stops there. A file that cannot be written is a
 * warning. RC_NUMERIC: what would be saved is not finite. */
rc_status rc_lesson_checkpoint_keep(rc_lesson_checkpoint *checkpoint, rc_backend *backend,
                                    const rc_stage_report *report, const double wall[RC_STAGE_COUNT], bool stops);

void rc_lesson_checkpoint_end(rc_lesson_checkpoint *checkpoint); /* closes; the file stays */

#endif
