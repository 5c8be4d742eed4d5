#include "cli/saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool rc_saving_possible(const char *command, const char *out, const char *input, bool replace)
{
    struct stat target, source;
    bool has_source = input != NULL && stat(input, &source) == 0, is_there = stat(out, &target) == 0;
    if (is_there && S_ISDIR(target.st_mode)) {
        rc_complain("%s: '%s' is a folder; --out names the file of the new model, e.g. --out %s%smodel.safetensors",
                    command, out, out, out[strlen(out) - 1] == '/' ? "" : "/");
        return false;
    }
    if (is_there && has_source && source.st_dev == target.st_dev && source.st_ino == target.st_ino) {
        rc_complain("%s: --out is the model that is read, which is never written; choose another name", command);
        return false;
    }
    recollect_status status = recollect_check_save(out, has_source ? (size_t)source.st_size : 0, replace);
    if (status != RECOLLECT_OK)
        rc_failed(command, status);
    return status == RECOLLECT_OK;
}

/* Saves it in a folder under a name that nothing has there. */
static recollect_status save_in(const recollect_model *model, const char *folder, int length, char *path, size_t size)
{
    enum { TRIES = 100 };
    struct stat there;
    int n = 0;
    do
        snprintf(path, size, "%.*s/recollect-%ld-%d.safetensors", length, folder, (long)getpid(), n);
    while (lstat(path, &there) == 0 && ++n < TRIES); /* of earlier processes of this number */
    return recollect_model_save(model, path, 0);
}

void rc_save_elsewhere(const char *command, const recollect_model *model, const char *out)
{
    char path[4352];
    const char *temporary = getenv("TMPDIR"), *slash = strrchr(out, '/');
    bool beside = slash != NULL;
    recollect_status status = save_in(model, beside ? out : ".", !beside || slash == out ? 1 : (int)(slash - out), path,
                                      sizeof path);
    if (status != RECOLLECT_OK && status != RECOLLECT_UNSYNCED) {
        const char *folder = temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp";
        status = save_in(model, folder, 4096, path, sizeof path);
    }
    bool saved = status == RECOLLECT_OK || status == RECOLLECT_UNSYNCED;
    if (saved)
        rc_complain("%s: the model was saved as '%s' instead", command, path);
    if (status != RECOLLECT_OK)
        rc_complain("%s: %s%s", command,
                    saved ? "" : "nor could the model be saved elsewhere: ", recollect_last_message());
}
