/* Goes through folders, and finds the pictures in them. A file is a picture if its name ends like one that this build
 * reads, or if its first bytes are those of one. All else is left out, and told.
 *
 * Links: one to a file counts as the file. One to a folder waits until all folders have been read, and is followed
 * then, unless the folder was read before, or holds what is being read: so links in circles end, and no picture is
 * taken for one of a class that it does not lie in. */
#ifndef RC_DATA_WALK_H
#define RC_DATA_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "data/file_ids.h"
#include "data/left_out.h"
#include "data/listing.h"

typedef struct rc_walk_link rc_walk_link;

typedef struct rc_walk {
    rc_left_out *left_out;
    int deepest; /* how deep folders may be nested */
    /* Gets every picture; `into` is what rc_walk_folder was given. */
    rc_status (*take)(void *into, const char *path, int32_t label);
    /* May be NULL. Before a folder is read: anything but RC_OK ends the walk. */
    rc_status (*enter)(void *user, const char *folder);
    /* May be NULL. A folder cannot be read, for the reason in rc_message(). RC_OK: the walk goes on without it. */
    rc_status (*unreadable)(void *user, const char *folder, rc_status status);
    void *user;
    const char *(*class_name)(void *user, int32_t label); /* for messages; NULL: there are no classes */
    /* Cleared to begin with. */
    rc_file_ids entered; /* folders that were read, with the label that they were read for */
    rc_walk_link *first, **last;
} rc_walk;

/* Notes that `folder`, and the folders that it lies in, hold what will be read: links to them lead in circles. */
rc_status rc_walk_begin(rc_walk *walk, const char *folder);

typedef enum rc_walk_found {
    RC_WALK_NEW,   /* it was read */
    RC_WALK_ABOVE, /* it was not read: it holds what is being read */
    RC_WALK_OTHER  /* it was not read: it was read for another label, *other */
} rc_walk_found;

/* The pictures in a folder and in the folders in it, in the order of their names. A folder that was read for the same
 * label, for another split, is read again. */
rc_status rc_walk_folder(rc_walk *walk, const char *folder, int32_t label, void *into, rc_walk_found *found,
                         int32_t *other);
/* What links lead to, in the order in which they were found. */
rc_status rc_walk_links(rc_walk *walk);
/* The files in a folder of class folders: none of them is read, and pictures among them are missed. */
rc_status rc_walk_strays(rc_walk *walk, const char *folder, const rc_listing *listing);
void rc_walk_free(rc_walk *walk); /* a cleared one is fine */

/* Is the file a picture that this build reads, by its name or by its first bytes? Fails only for want of memory. */
rc_status rc_walk_is_picture(const char *path, bool *is);

#endif
