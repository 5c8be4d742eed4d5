/* The members of a tar archive (ustar, with GNU and pax extension headers passed over), one after another. */
#ifndef RC_DATA_TAR_H
#define RC_DATA_TAR_H

#include <stdbool.h>

#include "data/input.h"

/* The most bytes of an archive. A few gzipped bytes may promise far more, which would take hours to skip. */
#define RC_TAR_MAX_BYTES ((uint64_t)1 << 32)

typedef struct rc_tar {
    rc_input *input;
    uint64_t left;  /* bytes up to the next header */
    uint64_t total; /* of the members so far */
} rc_tar;

typedef struct rc_tar_member {
    char name[257]; /* prefix/name, as in the header */
    uint64_t size;
} rc_tar_member;

/* The next regular file; rc_tar_read gives its content. *more becomes false after the last. Skips folders, links and
 * everything else. Start with {.input = input}. */
rc_status rc_tar_next(rc_tar *tar, rc_tar_member *member, bool *more);
/* The whole content of that file: member->size bytes. Once only. */
rc_status rc_tar_read(rc_tar *tar, const rc_tar_member *member, void *data);

#endif
