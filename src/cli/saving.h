/* Where a new model goes: found out before it is made, and what to do when it cannot go there after all. */
#ifndef RC_CLI_SAVING_H
#define RC_CLI_SAVING_H

#include <sys/stat.h>

#include "cli/cli.h"

/* What is there, all zero where there is nothing. False after a complaint: nobody can tell. */
bool rc_look_at(const char *command, const char *path, struct stat *about);
/* Both are there, and are the same file? */
bool rc_same_file(const struct stat *a, const struct stat *b);

/* Can a model be saved as `out`, as far as can be told before it has learnt? input: the file of the model that learns,
 * which is never written, and about the size of the new one; NULL: none. False after a complaint. */
bool rc_saving_possible(const char *command, const char *out, const char *input, bool replace);

/* After a failure to save as `out`: saves it under another name, beside `out` or, if that fails too, in the folder of
 * temporary files, and complains, whatever came of it. */
void rc_save_elsewhere(const char *command, const recollect_model *model, const char *out);

#endif
