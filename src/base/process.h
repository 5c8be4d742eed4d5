/* Is this still the process that something was made in? In a child of fork() the threads of the parent do not exist. */
#ifndef RC_BASE_PROCESS_H
#define RC_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* *process becomes the mark of this process, which a child of it does not have. */
rc_status rc_process_mark(uint32_t *process);
/* Was the mark made here? False in a child of the process that made it. */
bool rc_process_is(uint32_t process);

#endif
