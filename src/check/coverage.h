/* The entries of the table of operations, from conv_forward on, by name. */
#ifndef RC_CHECK_COVERAGE_H
#define RC_CHECK_COVERAGE_H

#include "backend/backend.h"

/* NULL when there are no more. */
const char *rc_entry_name(int index);
/* Has this backend something there? */
bool rc_entry_filled(const rc_backend *be, int index);
/* Is there a case that covers it? */
bool rc_entry_covered(int index);

#endif
