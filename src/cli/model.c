#include "cli/model.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "forecast/allowance.h"

rc_open_model *rc_model_open(const char *command, const char *backend, int threads, const rc_option_value *max_memory,
                             const char *path)
{
    size_t allowed = (size_t)max_memory->integer;
    rc_open_model *open = calloc(1, sizeof *open);
    if (open == NULL) {
        rc_complain("%s: out of memory", command);
        return NULL;
    }
    struct stat what;
    if (path != NULL && stat(path, &what) == 0 && S_ISDIR(what.st_mode)) {
        rc_complain("%s: '%s' is a folder, expected a model file; the model comes first, the images after it", command,
                    path);
        free(open);
        return NULL;
    }
    rc_memory_allow(allowed, 0);
    rc_status status = rc_backend_open(backend, threads, NULL, &open->backend);
    if (status == RC_OK && path != NULL)
        status = rc_model_file_load(path, open->backend, &open->model);
    rc_memory_allow(allowed, open->model.file_bytes);
    if (status == RC_OK)
        return open;
    rc_complain("%s: %s", command, rc_message());
    if (status == RC_FORMAT)
        rc_note("The model comes first on the command line: a file that 'recollect learn' or 'recollect run' wrote.");
    rc_model_close(open);
    return NULL;
}

void rc_model_close(rc_open_model *open)
{
    if (open == NULL)
        return;
    rc_saved_model_destroy(&open->model);
    rc_backend_close(open->backend);
    free(open);
}
