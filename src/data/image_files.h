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
} rc_image_files;

/* Start with a cleared one. */
rc_status rc_image_files_add(rc_image_files *files, const char *path, int32_t label);
const char *rc_image_files_path(const rc_image_files *files, int index);
void rc_image_files_free(rc_image_files *files);

/* Adds the pictures in a folder and in the folders in it, in the order of their names. Files that are no pictures are
 * counted in *others. */
rc_status rc_image_files_add_folder(rc_image_files *files, const char *folder, int32_t label, int *others);

/* Moves a part of every class to `test`: the nearest number of images, but one is left where part is below 1. Which:
 * the first of a permutation that depends on the seed, the label and the number of images. */
rc_status rc_image_files_split(rc_image_files *train, int classes, double part, uint64_t seed,
                               rc_image_files *test);

/* Decodes both in parallel; chooses size and channels where the settings leave them open. */
rc_status rc_image_files_decode(const rc_image_files *train, const rc_image_files *test,
                                const rc_data_settings *settings, rc_dataset *dataset);

#endif
