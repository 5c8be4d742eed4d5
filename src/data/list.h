/* Lists of pictures: lines "relative/path label". */
#ifndef RC_DATA_LIST_H
#define RC_DATA_LIST_H

#include "base/file.h"
#include "data/image_files.h"

/* Labels are numbers up to this. */
enum { RC_LIST_MAX_LABEL = 65535 };

/* The folder that the paths of a list are relative to: that which the list lies in. */
void rc_list_folder(const char *list, char folder[RC_PATH_SIZE]);

/* Adds a picture by its path of `length` bytes, which is relative to `folder` unless it begins with a slash. */
rc_status rc_list_add(const char *folder, const char *picture, size_t length, int32_t label, rc_image_files *files);

/* The list for testing that goes with a list for training, if there is one: val or test in place of train. */
rc_status rc_list_find_partner(const char *train, char partner[RC_PATH_SIZE], bool *is_there);
/* Where there are both, the one with test is left out. */
rc_status rc_list_leave_other(const char *train, const char *partner, rc_left_out *left_out);

/* Files of several names count once; a set without a list for testing is split by test_part. */
rc_status rc_list_split(const rc_data_settings *settings, const rc_dataset *dataset, bool has_test,
                        rc_image_files *train, rc_image_files *test, rc_left_out *left_out);

/* Adds the pictures that the lines name, relative to `folder` unless they begin with a slash. The label is what
 * follows the last blank, so paths may hold blanks. Empty lines are skipped. `name` is what messages call the
 * text. */
rc_status rc_list_parse(const char *name, const char *text, size_t size, const char *folder, rc_image_files *files);

#endif
