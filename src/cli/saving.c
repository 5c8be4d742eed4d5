#include "cli/saving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool rc_look_at(const char *command, const char *path, struct stat *about)
{
    if (stat(path, about) == 0)
        return true;
    *about = (struct stat){0};
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG || errno == ELOOP)
        return true;
    rc_complain("%s: cannot look at '%s': %s", command, path, strerror(errno));
    return false;
}

bool rc_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_mode != 0 && b->st_mode != 0 && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool rc_saving_possible(const char *command, const char *out, const char *input, bool replace)
{
    struct stat target, source = {0};
    if (!rc_look_at(command, out, &target) || (input != NULL && !rc_look_at(command, input, &source)))
        return false;
    if (S_ISDIR(target.st_mode)) {
        rc_complain("%s: '%s' is a folder; --out names the file of the new model, e.g. --out %s%smodel.safetensors",
                    command, out, out, out[strlen(out) - 1] == '/' ? "" : "/");
        return false;
    }
    if (rc_same_file(&source, &target)) {
        rc_complain("%s: --out is the model that is read, which is never written; choose another name", command);
        return false;
    }
    recollect_status status = recollect_check_save(out, (size_t)source.st_size, replace);
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
