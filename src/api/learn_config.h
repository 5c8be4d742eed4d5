/* The configuration of a lesson; see the rules in api/learn.h. */
#ifndef RC_API_LEARN_CONFIG_H
#define RC_API_LEARN_CONFIG_H

#include "api/learn.h"

/* The model's own configuration, or that of the preset for a first one, with what was set on top; and the
 * method. */
rc_status rc_learn_configure(const rc_saved_model *model, const rc_learn_settings *settings, rc_config *config,
                             const rc_method **method);

/* Is there a method of that name that a model can learn with? The message names those that there are. */
rc_status rc_learn_check_method(const char *name);

/* The size to read a first model's images at, where none was set and they came as `size`: the same, or the
 * next lower one that generators can make. */
int rc_learn_size(int size);

/* A first model: the shape of its images, and the net that suits it unless one was set. */
void rc_learn_fit_config(rc_config *config, const rc_learn_settings *settings, const rc_dataset *data);

/* Schedule, batch and loss weights for a task of that many images and new classes. */
void rc_learn_stretch(rc_settings *s, const rc_learn_settings *settings, int images, int n_new);

#endif
