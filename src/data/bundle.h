/* A few files of known names, lying in a folder or in a tar archive, which may be gzipped. */
#ifndef RC_DATA_BUNDLE_H
#define RC_DATA_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/input.h"

enum { RC_BUNDLE_FILES = 8 };

typedef struct rc_bundle {
    const char *path;
    bool archive;
    int files;
    struct {
        const char *name;
        uint8_t *data; /* archives: the content until it is taken */
        size_t size;
    } file[RC_BUNDLE_FILES];
} rc_bundle;

/* Of an archive, reads at once the members that have one of the names, in whatever folder; of a folder, reads nothing
 * yet. path and names must live as long as the bundle; names end with a NULL, at most RC_BUNDLE_FILES of them. A file
 * of more than `limit` bytes is refused. On failure nothing is held. */
rc_status rc_bundle_open(const char *path, const char *const *names, size_t limit, rc_bundle *bundle);
/* The same, from an input that holds an archive. */
rc_status rc_bundle_open_archive(rc_input *input, const char *const *names, size_t limit, rc_bundle *bundle);
void rc_bundle_close(rc_bundle *bundle);

rc_status rc_bundle_has(const rc_bundle *bundle, const char *name, bool *has);
/* Hands over the content, with a zero byte after it; free it with rc_free(NULL, ...). */
rc_status rc_bundle_take(rc_bundle *bundle, const char *name, size_t limit, uint8_t **data, size_t *size);

/* Name of the first regular file of an archive; "" if the path is no archive. `name` has 257 bytes. Fails only for
 * want of memory. */
rc_status rc_archive_first_name(const char *path, char *name);

#endif
