/* Picture files with their labels, and how they become a data set. */
#ifndef RC_DATA_IMAGE_FILES_H
#define RC_DATA_IMAGE_FILES_H

#include "data/dataset.h"
#include "data/walk.h"

typedef struct rc_image_files {
    struct rc_image_file {
        size_t path; /* in text */
        int32_t label;
    } * file; /* (count) */
    int count, capacity;
    char *text; /* the paths, one after another, each with its zero byte */
    size_t text_used, text_capacity;
} rc_image_files;

/* Start with a cleared one. */
rc_status rc_image_files_add(rc_image_files *files, const char *path, int32_t label);
const char *rc_image_files_path(const rc_image_files *files, int index);
void rc_image_files_free(rc_image_files *files);

/* How deep folders may be nested in a class folder. */
enum { RC_IMAGE_FILES_DEEPEST = 16 };

/* A walk through the class folders of a data set, which adds pictures to train or test. */
rc_walk rc_image_files_walk(const rc_dataset *dataset, rc_left_out *left_out);
/* The pictures of a class folder. A link that leads back to the set, or a folder of another class, is refused. */
rc_status rc_image_files_add_class(rc_walk *walk, const char *folder, int32_t label, rc_image_files *files);

/* Leaves every file in once, whatever links lead to it: the first in the test set, else the first in the training set,
 * so that no image is in both. A file of two classes is refused. To be called before a set is split. */
rc_status rc_image_files_leave_once(rc_image_files *train, rc_image_files *test, const rc_dataset *dataset,
                                    rc_left_out *left_out);

/* Moves a part of every class to `test`, as rc_hold_out chooses it. */
rc_status rc_image_files_split(rc_image_files *train, int classes, double part, uint64_t seed, rc_image_files *test);

/* What `gather` finds at `path`, decoded in parallel; size and channels are chosen where the settings leave them open.
 * What is left out is told to the log. The part that readers of picture files share. */
typedef rc_status rc_gather(const char *path, const rc_data_settings *settings, rc_dataset *dataset,
                            rc_image_files *train, rc_image_files *test, rc_left_out *left_out);
rc_status rc_image_files_read(const char *path, const rc_data_settings *settings, rc_gather *gather,
                              rc_dataset *dataset);

#endif
