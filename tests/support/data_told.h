/* Data sets as they are told: what is read, in which order, what the log says of it, or what is refused in which
 * words. */
#ifndef RC_TESTS_SUPPORT_DATA_TOLD_H
#define RC_TESTS_SUPPORT_DATA_TOLD_H

#include "support/data_files.h"

/* Opens the data set and compares all that can be told of it with the text: the lines of the log, and the status and
 * the message, or
 *
 *     FORMAT NAME HxWxC 'CLASS' 'CLASS' ...
 *     train: FIRST BYTE=LABEL ...             of each image
 *     test: ...
 *     seen IMAGES HxW same, mean M +- DEVIATION, broken N, left out N, no pictures N
 *
 * Mean and deviation are those of the first channel. Of more than a dozen classes or images the first are told. "*"
 * stands for the endings of pictures, of which a build has more or fewer. A difference is printed and counted;
 * told_is_right ends the test if there was one. */
#define TOLD(...) told_at(__LINE__, __VA_ARGS__)
void told_at(int line, const char *path, const rc_data_settings *settings, const char *expected);
void told_is_right(void);

/* For settings: the progress is told, and stops at *(int *)user; the size is asked for, and is 10. */
bool told_progress(void *user, const char *what, int done, int total);
int told_size(const rc_data_seen *seen);

#endif
