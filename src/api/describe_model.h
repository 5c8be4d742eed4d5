/* What is in a model file, for people and as JSON; above all, what is kept of the images it was trained on.
 */
#ifndef RC_API_DESCRIBE_MODEL_H
#define RC_API_DESCRIBE_MODEL_H

#include "api/describe.h"
#include "model/model_file.h"

/* `path` is the file that `model` was loaded from. */
rc_status rc_describe_model(const char *path, const rc_saved_model *model, bool json, rc_describe_line *line,
                            void *user);

#endif
