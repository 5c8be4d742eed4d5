/* A lease: a file that says which process works on something, on a file system that several machines share.
 *
 * The file is made by link(), which is atomic on NFS, too, and holds host, process, a number that no other lease has,
 * and a counter. While a process holds the lease, a thread of it counts. Who finds the file looks whether the counter
 * moves, by its own clock: machines need not agree on the time. A counter that stands still for `stale` seconds belongs
 * to a process that is dead, or to a machine that is, and whoever sees that takes the lease over. */
#ifndef RC_BASE_LEASE_H
#define RC_BASE_LEASE_H

#include <stdbool.h>

#include "base/status.h"

enum { RC_LEASE_TEXT = 120 };

typedef struct rc_lease rc_lease;

/* What was seen of somebody else's lease, and since when it has not changed. Start with a cleared one for each path. */
typedef struct rc_lease_sight {
    char text[RC_LEASE_TEXT];
    double since;
} rc_lease_sight;

/* Takes the lease at `path` if nobody has it, or if it is stale. *lease NULL: another process has it. */
rc_status rc_lease_try(const char *path, double stale, rc_lease_sight *sight, rc_lease **lease);
/* Has another process taken it over, because this one stood still for too long? */
bool rc_lease_lost(const rc_lease *lease);
/* Ends the lease; NULL is fine. The file goes, unless it is another's by now. */
void rc_lease_release(rc_lease *lease);

#endif
