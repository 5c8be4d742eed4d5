/* Picture files with their labels, and how they become a data set. */
#ifndef RC_DATA_IMAGE_FILES_H
#define RC_DATA_IMAGE_FILES_H

#include "data/dataset.h"

typedef struct rc_image_files {
    struct rc_image_file {
        size_t path; /* in text */
        int32_t label;
    } * file; /* (count) */
    int count, capacity;
    char *text; /* the paths, one after another, each with its zero byte */
    size_t text_used, text_capacity;
    int others;        /* files in folders that are no pictures, and were left out */
    int circles;       /* folders that were left out, because they are read anyway: links lead to them */
    size_t one_circle; /* the path of the first of them, in text */
} rc_image_files;

/* Start with a cleared one. */
rc_status rc_image_files_add(rc_image_files *files, const char *path, int32_t label);
const char *rc_image_files_path(const rc_image_files *files, int index);
void rc_image_files_free(rc_image_files *files);

/* Adds the pictures in a folder and in the folders in it, in the order of their names. Links are followed, but every
 * folder is read once, and none of those `above` it (at most two; NULL: no more), so that circles end. */
rc_status rc_image_files_add_folder(rc_image_files *files, const char *folder, int32_t label,
                                    const char *const above[2]);

/* Leaves every file in once, whatever links lead to it: the first in the test set, else the first in the training set,
 * so that no image is in both. A file of two classes is refused. To be called before a set is split. What is left out,
 * here and before, is told to the log; `path` is what it calls the set. */
rc_status rc_image_files_leave_once(rc_image_files *train, rc_image_files *test, const char *path, rc_dataset *dataset,
                                    const rc_log *log);

/* Moves a part of every class to `test`, as rc_hold_out chooses it. */
rc_status rc_image_files_split(rc_image_files *train, int classes, double part, uint64_t seed, rc_image_files *test);

/* What `gather` finds at `path`, decoded in parallel; size and channels are chosen where the settings leave them open.
 * The part that readers of picture files share. */
typedef rc_status rc_gather(const char *path, const rc_data_settings *settings, rc_dataset *dataset,
                            rc_image_files *train, rc_image_files *test);
rc_status rc_image_files_read(const char *path, const rc_data_settings *settings, rc_gather *gather,
                              rc_dataset *dataset);

#endif
