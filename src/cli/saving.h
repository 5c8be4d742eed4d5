/* Where a new model goes: found out before it is made, and what to do when it cannot go there after all. */
#ifndef RC_CLI_SAVING_H
#define RC_CLI_SAVING_H

#include "cli/cli.h"

/* Can a model be saved as `out`, as far as can be told before it has learnt? input: the file of the model that learns,
 * which is never written, and about the size of the new one; NULL: none. False after a complaint. */
bool rc_saving_possible(const char *command, const char *out, const char *input, bool replace);

/* After a failure to save as `out`: saves it under another name, beside `out` or, if that fails too, in the folder of
 * temporary files, and complains, whatever came of it. */
void rc_save_elsewhere(const char *command, const recollect_model *model, const char *out);

#endif
