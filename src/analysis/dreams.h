/* Dreams of a model of a past run, as its next task would have had them. */
#ifndef RC_ANALYSIS_DREAMS_H
#define RC_ANALYSIS_DREAMS_H

#include "analysis/past_run.h"

/* Inverts the model with these settings, as its next task would, and takes features and labels of `count` dreams: both
 * by the model itself. The model stays as it was, but for its method, which becomes cwd. */
rc_status rc_dream_features_create(rc_saved_model *model, const rc_settings *settings, int count, const rc_watch *watch,
                                   rc_features *features);

#endif
