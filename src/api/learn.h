/* Teaches classes to a model: the first ones, or more of them, without the images of those it knows. The rules:
 *
 * Labels: classes of the data that the model does not know get the next labels, in the order of the data set
 *   (folders: names sorted byte by byte). They are one more task.
 * Names: a class that the model knows already is refused, unless `merge` is set. Then its images are trained
 *   with the label it has, cross entropy on real images spans all classes instead of the new ones alone, and
 *   there must still be a new class.
 * Held out: the data's own test images (val/ or test/ of a folder); else the part of every class that hold_out says, a
 *   nearest number of images, chosen by the seed. They are scored at the end and never trained on.
 * Size: images of a first model come to 32 x 32 pixels, or keep their own size if they are all squares of one smaller
 *   one, unless `size` is set. docs/learn.md has the measurements.
 * Schedule: `epochs`, of which the last `refine_epochs` refine the head; refinement and milestones go along in
 *   proportion wherever the number of epochs changes. Main training has min_steps steps at least, so that a handful of
 *   images is learnt properly, and RC_LEARN_MAX_STEPS at most, so that a hundred thousand do not take a night. A first
 *   model has nothing to forget, and is what all later lessons build on: unless a preset was named, the number of its
 *   steps grows with the square root of the number of images (learn_config.c), up to RC_LEARN_MAX_FIRST.
 * Epochs that were set are exact, in this lesson and in those after it: neither of the two limits counts, unless
 *   min_steps was set, too. A lesson that refines nothing, such as the first, trains in all of them.
 * One class: cross entropy over a single logit is constant, so it spans all classes (docs/methods/cwd.md), and
 *   with images of one class alone "always the new one" is its easy answer. Its weight is made smaller, and that
 *   of distillation with it, so that features stay and refinement finds the new class among the old ones.
 * The head alone: learns nothing by steps, so none of what is said of schedules, single classes and batches counts.
 * Batch: a task with fewer images than a batch gets a smaller one, down to 32. */
#ifndef RC_API_LEARN_H
#define RC_API_LEARN_H

#include "api/given.h"
#include "api/review.h"
#include "forecast/progress.h"
#include "model/model_file.h"

/* min_steps of a model that was made with none; the most steps of main training, of a first model and of other
 * lessons; and the min_steps that says of a model that its epochs were set, and are to be kept. */
enum { RC_LEARN_MIN_STEPS = 300, RC_LEARN_MAX_FIRST = 4000, RC_LEARN_MAX_STEPS = 2000, RC_LEARN_EXACT = 1 };

/* What a lesson changes (api/adapt.h). */
typedef enum rc_adapt { RC_ADAPT_CHOSEN, RC_ADAPT_HEAD, RC_ADAPT_TOP, RC_ADAPT_ALL } rc_adapt;

typedef struct rc_learn_settings {
    const char *data;       /* anything that rc_dataset_open reads */
    const rc_given *given;  /* data that the caller gives, instead of `data`; of the model's shape. NULL: none */
    bool sets_hold_out;     /* else a tenth of what is read is held out, and nothing of what is given */
    double hold_out;        /* the part of every class to be scored, where the data has no test images */
    const char *format;     /* NULL: recognised */
    const char *method;     /* NULL: the model's own; of a first model: cwd */
    const char *preset;     /* configuration of a first model; NULL: "learn". A model that knows something has its
                               own */
    const char *old_test;   /* images of classes known before, scored before and after; NULL: none */
    const char *const *set; /* "key=value" of the configuration, the last one counts */
    int sets;
    rc_adapt adapt;
    bool merge;
    bool skip_broken;
    const char *checkpoint;    /* file that holds where the lesson is, and stays when it is over; NULL: none */
    double checkpoint_seconds; /* between two writes of it */
    bool resume;               /* go on from that file, if it is there */
    int threads;               /* that decode images; 0: all cores */
    rc_watch watch;
    recollect_review **review; /* on success becomes the verdict, which the caller destroys; NULL: not wanted */
} rc_learn_settings;

typedef struct rc_learn_result {
    int known, added, merged; /* classes: known before, new, of the data and known */
    int images, held_out, broken, left_out, not_pictures;
    int epochs;                   /* that training made, refinement included */
    rc_adapt adapt;               /* what was changed; never CHOSEN */
    double accuracy;              /* percent of the held-out images, over all classes; NaN: none were held out */
    int old_images;               /* of old_test */
    double old_before, old_after; /* percent of them; NaN: none */
    double seconds, wall[RC_STAGE_COUNT];
} rc_learn_result;

/* `model`: one that was loaded, or a zeroed one, which becomes the first. On failure, cancelling included, it
 * is as it was. */
rc_status rc_learn(rc_saved_model *model, rc_backend *backend, const rc_learn_settings *settings,
                   rc_learn_result *result);

#endif
