/* The configuration of a lesson; see the rules in api/learn.h. */
#ifndef RC_API_LEARN_CONFIG_H
#define RC_API_LEARN_CONFIG_H

#include "api/learn.h"

/* The model's own configuration, or that of the preset for a first one, with what was set on top; and the
 * method. */
rc_status rc_learn_configure(const rc_saved_model *model, const rc_learn_settings *settings, rc_config *config,
                             const rc_method **method);

/* For a lesson that trains the whole net of a model l: CwD+ in place of the CwD that it has learnt with, unless
 * somebody has set a method. It turns no images and has one generator, unless these were set:
 * docs/notes/photographs.md. `why` says so, and stays as it is where nothing changes. */
rc_status rc_learn_choose_method(const rc_learner *l, const rc_learn_settings *settings, rc_config *config,
                                 const rc_method **method, char *why, size_t bytes);

/* Is there a method of that name that a model can learn with? The message names those that there are. */
rc_status rc_learn_check_method(const char *name);

/* A lesson, as far as its schedule depends on it. */
typedef struct rc_lesson_size {
    const rc_method *method;
    int n_old, n_new;
    int images; /* to train on */
} rc_lesson_size;

/* Does it refine the head after main training? */
bool rc_lesson_refines(const rc_lesson_size *lesson);

/* Why a lesson is as long as it is. */
typedef enum rc_learn_reason {
    RC_LEARN_FIRST, /* a first model: by the number of images */
    RC_LEARN_USUAL, /* the epochs of the configuration */
    RC_LEARN_FEW,   /* more, for min_steps */
    RC_LEARN_MANY,  /* fewer, for RC_LEARN_MAX_STEPS or RC_LEARN_MAX_FIRST */
    RC_LEARN_ASKED  /* somebody has set `epochs`, in this lesson or in one before */
} rc_learn_reason;

/* The size that a first model's images come to where none was set; and the next lower one that generators can make. */
int rc_learn_choose_size(const rc_data_seen *seen);
int rc_learn_size(int size);

/* A first model: the shape of its images; and the net, the augmentation and the inversion that suit them, unless they
 * were set or a preset was named. */
void rc_learn_fit_config(rc_config *config, const rc_learn_settings *settings, const rc_dataset *data);

/* Schedule, batch and loss weights of a lesson. */
rc_learn_reason rc_learn_stretch(rc_settings *s, const rc_learn_settings *settings, const rc_lesson_size *lesson);

/* What was chosen and why, one line each, for people: the size, where it was not set; how colours change (false: that
 * was not chosen); the length of the lesson with the settings that rc_learn_stretch has made. */
void rc_learn_tell_size(const rc_data_seen *seen, int size, char *text, size_t bytes);
bool rc_learn_tell_colour(const rc_settings *s, const rc_learn_settings *settings, char *text, size_t bytes);
void rc_learn_tell_steps(const rc_settings *s, const rc_lesson_size *lesson, rc_learn_reason reason, char *text,
                         size_t bytes);

#endif
