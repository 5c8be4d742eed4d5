/* What the readers of the formats share. A reader fills images in the set's own size and channels; dataset.c brings
 * them to what was asked for. (Readers of image files decode to that at once.) */
#ifndef RC_DATA_READER_H
#define RC_DATA_READER_H

#include "base/file.h"
#include "base/rng.h"
#include "data/dataset.h"

typedef struct rc_reader {
    const char *format;
    const char *layout; /* what it expects, one line for messages */
    bool fitted;        /* images come in the size and the channels that the settings ask for */
    /* Does `path` look like this format? Looks at names only. What is not there is not recognised; a disk that does
     * not answer, or want of memory, says nothing about the path and is a failure. */
    rc_status (*recognise)(const char *path, bool *known);
    /* dataset is cleared and has its format and name set. On failure the caller frees what it holds. */
    rc_status (*read)(const char *path, const rc_data_settings *settings, rc_dataset *dataset);
} rc_reader;

extern const rc_reader rc_reader_cifar10, rc_reader_cifar100, rc_reader_idx, rc_reader_tiny_imagenet, rc_reader_list,
    rc_reader_csv, rc_reader_folder, rc_reader_pack, rc_reader_procedural;

/* Fails if `count` images of the set's h, w and c take more memory than is free or allowed. Readers call it before
 * they read the first image, because a small file may promise many. */
rc_status rc_check_memory(const rc_dataset *dataset, int64_t images);
/* Room for `count` images of the set's h, w and c, and their labels. */
rc_status rc_split_allocate(const rc_dataset *dataset, rc_split *split, int count);
/* Room for the names of `classes` classes. */
rc_status rc_dataset_allocate_names(rc_dataset *dataset, int classes);
/* A copy of the `length` bytes becomes the name of the class; they must be UTF-8 without control characters. */
rc_status rc_dataset_set_name(rc_dataset *dataset, int label, const char *name, size_t length);
/* Height and width of the images of a set whose own are `own`, as the settings have it. */
int rc_choose_size(const rc_data_settings *settings, const rc_data_seen *seen, int own);
/* "0", "1", ... for the classes that have no name yet. */
rc_status rc_dataset_number_names(rc_dataset *dataset);

/* Numbers of the Philox streams that data uses, so that no two purposes share one. */
#define RC_DATA_STREAM_SPLIT      UINT64_C(0x0100000000000000)
#define RC_DATA_STREAM_PROCEDURAL UINT64_C(0x0200000000000000)
#define RC_DATA_STREAM_ORDER      UINT64_C(0x6f72646572) /* of the classes; results depend on this number */

/* For qsort, of names: by their bytes. */
int rc_compare_names(const void *a, const void *b);
/* What follows the last slash. */
const char *rc_base_name(const char *path);
/* Is folder/name a file, a folder, or a link to one? A disk that does not answer is a failure: a part of the data would
 * go unseen. */
rc_status rc_has_file(const char *folder, const char *name, bool *has);
rc_status rc_has_folder(const char *folder, const char *name, bool *has);

/* Fails with a message if it finds out why a folder is not a data set of class folders: it is empty, its pictures lie
 * in no folders, or its folders hold no pictures. RC_OK: it found no reason. */
rc_status rc_folder_explain(const char *path);

/* Calls settings->progress, if there is one. */
rc_status rc_progress(const rc_data_settings *settings, const char *what, int done, int total);

#endif
