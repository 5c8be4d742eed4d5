/* A model, for the commands that use the public interface alone. */
#ifndef RC_CLI_HANDLE_H
#define RC_CLI_HANDLE_H

#include "cli/cli.h"

typedef struct rc_handle_settings {
    const char *command; /* in whose name complaints are made */
    const char *backend;
    int threads;
    const rc_option_value *max_memory;       /* the value of --max-memory */
    recollect_log_level log_level;           /* notes at this level or above go to stderr */
    const recollect_import_settings *import; /* the file holds weights of others; NULL: a model */
} rc_handle_settings;

/* A model from the file `path`, or one that knows nothing (NULL), in a context of its own, which goes with it. What it
 * has to say, and how far it is, goes to stderr, and interrupts cancel its calls. NULL after a complaint. */
recollect_model *rc_handle_open(const rc_handle_settings *settings, const char *path);

#endif
