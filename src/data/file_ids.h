/* Which files have been seen already, whatever their names: a file is its device and inode. */
#ifndef RC_DATA_FILE_IDS_H
#define RC_DATA_FILE_IDS_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/status.h"

typedef struct rc_file_ids {
    struct rc_file_id {
        dev_t device;
        ino_t number;
        int value; /* 0: the slot is free */
    } * slot;      /* (capacity), a power of two */
    size_t capacity, used;
} rc_file_ids;

/* Gives the file the value `value`, 1 or more, unless it has one; *before is the value that it had, or 0. Start with
 * a cleared structure. On a file system without inodes the inode is 0, and no two files count as the same. */
rc_status rc_file_ids_add(rc_file_ids *ids, const struct stat *file, int value, int *before);
void rc_file_ids_free(rc_file_ids *ids);

#endif
