/* Lists of pictures: lines "relative/path label". */
#ifndef RC_DATA_LIST_H
#define RC_DATA_LIST_H

#include "data/image_files.h"

/* Labels are numbers up to this. */
enum { RC_LIST_MAX_LABEL = 65535 };

/* Adds the pictures that the lines name, relative to `folder` unless they begin with a slash. The label is what
 * follows the last blank, so paths may hold blanks. Empty lines are skipped. `name` is what messages call the
 * text. */
rc_status rc_list_parse(const char *name, const char *text, size_t size, const char *folder, rc_image_files *files);

#endif
