/* Archives are often unpacked into a folder of their own, and some people call their parts Train and Test. Then the
 * folders that count as classes hold those that were meant. */
#ifndef RC_API_NESTED_H
#define RC_API_NESTED_H

#include "base/file.h"
#include "data/dataset.h"

/* Do all pictures of the data set, which was read from the folder `root`, lie in folders within its classes? Then
 * `deeper` becomes the path of the first class; else "". */
rc_status rc_nested_find(const char *root, const rc_dataset *data, char deeper[RC_PATH_SIZE]);

#endif
