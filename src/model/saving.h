/* Can a model be saved? Asked before it is made. */
#ifndef RC_MODEL_SAVING_H
#define RC_MODEL_SAVING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Can a model of about so many bytes (0: a small one) be saved as `path`, as far as can be told before it has
 * learnt? */
rc_status rc_saving_check(const char *path, size_t bytes, bool replace);

/* Fails if anything is there under that name. */
rc_status rc_saving_check_free(const char *path);

#endif
