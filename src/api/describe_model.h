/* What is in a model, for people and as JSON; above all, what is kept of the images it was trained on. */
#ifndef RC_API_DESCRIBE_MODEL_H
#define RC_API_DESCRIBE_MODEL_H

#include "api/describe.h"
#include "model/model_file.h"

rc_status rc_describe_model(const rc_saved_model *model, bool json, rc_describe_line *line, void *user);

/* What it has learnt, as one line of JSON; `path` is the file that the model went to, NULL: none. What was not scored
 * is null. `review` and `advise` may be NULL; `advise` gets `user`, too. */
rc_status rc_describe_learning(const rc_saved_model *model, const recollect_learn_result *result,
                               const recollect_review *review, const char *path, recollect_advise *advise,
                               rc_describe_line *line, void *user);

#endif
