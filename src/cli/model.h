/* A model from a file, on a backend, for the commands that need one. */
#ifndef RC_CLI_MODEL_H
#define RC_CLI_MODEL_H

#include "cli/cli.h"
#include "model/model_file.h"

typedef struct rc_open_model {
    rc_backend *backend;
    rc_saved_model model;
} rc_open_model;

/* Opens the backend and, unless path is NULL, loads the model. max_memory: the value of --max-memory. From here on no
 * more memory is taken than that or forecast/allowance.h says. NULL after a complaint in the name of `command`. */
rc_open_model *rc_model_open(const char *command, const char *backend, int threads, const rc_option_value *max_memory,
                             const char *path);
void rc_model_close(rc_open_model *open); /* NULL is fine */

#endif
