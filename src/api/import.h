/* Published weights in a file become a model that can predict, dream and learn. */
#ifndef RC_API_IMPORT_H
#define RC_API_IMPORT_H

#include "base/log.h"
#include "model/import.h"

/* net NULL or "auto": recognised by the names and shapes of the tensors. classes: a file with a class name a line;
 * NULL: they are numbered. What was recognised and chosen goes to `log`. On failure nothing is held. */
rc_status rc_import_file(const char *path, const char *net, const char *classes, const rc_log *log, rc_backend *backend,
                         rc_saved_model *model);

#endif
