/* What a folder holds. */
#ifndef RC_DATA_LISTING_H
#define RC_DATA_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct rc_listing {
    char **name; /* (count + hidden), into text */
    int count;
    int hidden; /* those that begin with a dot or are of the system, "." and ".." apart; they come after the others */
    char *text;
} rc_listing;

/* Did a system put it beside people's files, as a Mac does in archives, a NAS for small pictures, Windows on disks? */
bool rc_listing_is_of_system(const char *name);

/* The names of the entries, sorted by bytes, so that the order is the same everywhere. On failure nothing is held. */
rc_status rc_listing_read(const char *folder, rc_listing *listing);
/* The same, for callers that only look whether something is there: a folder that is gone, or that
 * this user may not read, counts as empty. A disk that fails does not: a part of the data would go unseen. */
rc_status rc_listing_look(const char *folder, rc_listing *listing);
void rc_listing_free(rc_listing *listing);

#endif
