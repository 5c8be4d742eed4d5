/* How much of a model a lesson changes.
 *
 * All: the net and the head learn, by the method. What models that were made here do, and what makes a first model.
 * Top: the same, but of the net only the last stage learns, or as many as the setting trained_stages says.
 * Head: the net stays as it is. The features of the new images are computed once, and rows of the head are fitted
 *   (cil/head_fit.h), most often in seconds. Neither method nor epochs matter.
 *   - Where the model has statistics of images of all its classes, all rows are fitted anew: features of the known
 *     classes are drawn from these. The statistics stay true, since the net does, and get the new classes.
 *   - Else every bit of the old rows stays, and only the rows of new classes are learnt. Images of classes that the
 *     model knows (merge) hold the new rows down, and so do stand-ins of classes whose means the model has: from its
 *     class statistics, or from lessons of the head before this one.
 *
 * Chosen, where nobody has said, for a net that was trained here: head, if it has these statistics and no more classes
 * come than it knows; else all. (docs/notes/lessons-of-the-head.md has what was measured.) For a net that came from
 * elsewhere it depends, as long as no lesson has estimated class statistics of it.
 * - It tells many classes apart: head. Its features serve for others, too, and were learnt from far more images than a
 *   lesson has; a lesson that moves them loses more of what it knows than it gains, and takes hours, not seconds.
 * - It knows few classes: top, since its features were made for these alone, and rows cannot mend that. All learns new
 *   classes a little better, and old ones lose more. But head where images are large: dreams of them take hours.
 * A model that keeps images of every lesson learns as a whole. Who sets a method or epochs means all.
 * docs/pretrained.md has what was measured. */
#ifndef RC_API_ADAPT_H
#define RC_API_ADAPT_H

#include "api/learn.h"

enum {
    RC_ADAPT_MANY_CLASSES = 100, /* or more: features for all kinds of things */
    RC_ADAPT_QUICK_CLASSES = 50, /* or fewer: all rows are fitted in seconds */
    RC_ADAPT_SMALL_IMAGE = 64    /* pixels a side at most: a net learns in minutes */
};

/* "head", "top", "all"; "" for RC_ADAPT_CHOSEN. read: any of these. */
const char *rc_adapt_name(rc_adapt adapt);
rc_status rc_adapt_read(const char *text, rc_adapt *adapt);

/* What the lesson has; read before anything is learnt. */
typedef struct rc_adapt_facts {
    const rc_saved_model *model;
    const rc_learn_settings *settings;
    int n_new, images;
} rc_adapt_facts;

/* Which it is, with a line for people that says why. Refuses the head alone where the model has none yet, or a method
 * that keeps images of every lesson. */
rc_status rc_adapt_choose(const rc_adapt_facts *facts, rc_adapt *adapt, char *why, size_t bytes);

/* Are there statistics that tell the features of every class that it knows? */
bool rc_adapt_tells_all(const rc_learner *learner);

/* A lesson of the head. */
typedef struct rc_head_lesson {
    rc_saved_model *taught; /* a copy of the model: gets the rows, biases and, where it has some, class statistics */
    const uint8_t *images;  /* (count, h, w, c) */
    const int32_t *labels;  /* (count): in the taught model; the new ones begin where its head ends */
    int count, n_new;
    int threads; /* 0: all cores */
    const rc_watch *watch;
    double *wall; /* (RC_STAGE_COUNT): seconds for the features are those of estimation, the fit is training */
} rc_head_lesson;

rc_status rc_adapt_head(const rc_head_lesson *lesson);

#endif
