/* The entries of the table of operations, from conv_forward on, by name. */
#ifndef RC_CHECK_COVERAGE_H
#define RC_CHECK_COVERAGE_H

#include "check/case.h"

/* NULL when there are no more. */
const char *rc_entry_name(int index);
/* Has this backend something there? */
bool rc_entry_filled(const rc_backend *be, int index);
/* Of those that a backend may lack: fused layers. NULL when there are no more. */
const char *rc_optional_entry_name(int index);
/* Is there a case that covers it? */
bool rc_entry_covered(const char *name);
/* Has this backend all that the operation covers? It may lack fused layers. */
bool rc_operation_offered(const rc_operation *operation, const rc_backend *be);

#endif
