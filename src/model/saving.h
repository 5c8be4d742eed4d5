/* Where a new model goes: found out before it is made, and what to do when it cannot go there after all. */
#ifndef RC_MODEL_SAVING_H
#define RC_MODEL_SAVING_H

#include "model/model_file.h"

/* Can a model be saved as `out`, as far as can be told before it has learnt? input: the file of the model that learns,
 * which is never written, and about the size of the new one; NULL: none. */
rc_status rc_saving_check(const char *out, const char *input, bool replace);

enum { RC_SAVED_PATH = 4352 };

/* After a failure to save as `out`: saves it under another name, beside `out` or, if that fails too, in the folder of
 * temporary files. `path` becomes that name; "": nowhere, and the message says why. */
rc_status rc_saving_elsewhere(const rc_saved_model *model, const char *out, char path[RC_SAVED_PATH]);

#endif
