#include "model/saving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"

/* Bytes of the folder in the path of a file, without the slash behind it; 0: there is none. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
}

static void folder_of(const char *path, char folder[RC_SAVED_PATH])
{
    int length = folder_length(path);
    snprintf(folder, RC_SAVED_PATH, "%.*s", length > 0 ? length : 1, length > 0 ? path : ".");
}

/* Is there room for a file of so many bytes? What cannot be found out is no reason to refuse. */
static rc_status check_room(const char *out, double least)
{
    char folder[RC_SAVED_PATH];
    struct statvfs disk;
    struct rlimit limit;
    folder_of(out, folder);
    if (statvfs(folder, &disk) == 0 && (double)disk.f_bavail * (double)disk.f_frsize < least)
        return rc_fail(RC_IO,
                       "no room for '%s': the model takes %.0f kB or more, %.0f are free; make room, or choose another "
                       "place",
                       out, least / 1000, (double)disk.f_bavail * (double)disk.f_frsize / 1000);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (double)limit.rlim_cur < least)
        return rc_fail(RC_IO,
                       "'%s' cannot be written: the model takes %.0f kB or more, and this process may write files of "
                       "%.0f kB; raise the limit (ulimit -f)",
                       out, least / 1000, (double)limit.rlim_cur / 1000);
    return RC_OK;
}

rc_status rc_saving_check(const char *out, const char *input, bool replace)
{
    static const double smallest_model = 100000;
    struct stat target, source;
    bool has_source = input != NULL && stat(input, &source) == 0, is_there = stat(out, &target) == 0;
    if (is_there && S_ISDIR(target.st_mode))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "'%s' is a folder; --out names the file of the new model, e.g. --out %s%smodel.safetensors", out,
                       out, out[strlen(out) - 1] == '/' ? "" : "/");
    if (is_there && has_source && source.st_dev == target.st_dev && source.st_ino == target.st_ino)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "--out is the model that is read, which is never written; choose another name");
    if (is_there && S_ISREG(target.st_mode) && !replace)
        return rc_fail(RC_INVALID_ARGUMENT, "'%s' is there already; choose another name, or replace it with --force",
                       out);
    rc_status status = rc_file_check(out, replace || is_there);
    if (status != RC_OK) {
        char folder[RC_SAVED_PATH];
        folder_of(out, folder);
        bool missing = stat(folder, &target) != 0 && errno == ENOENT;
        return rc_fail(status, "%s; %s", rc_message(),
                       missing ? "make the folder first" : "choose another name or place for --out");
    }
    return check_room(out, has_source ? (double)source.st_size : smallest_model);
}

rc_status rc_saving_elsewhere(const rc_saved_model *model, const char *out, char path[RC_SAVED_PATH])
{
    enum { PLACES = 2, TRIES = 100 };
    const char *temporary = getenv("TMPDIR");
    int length = folder_length(out);
    rc_status status = RC_OK;
    for (int i = 0; i < PLACES * TRIES; i++) {
        if (i < TRIES)
            snprintf(path, RC_SAVED_PATH, "%.*s/recollect-%ld-%d.safetensors", length > 0 ? length : 1,
                     length > 0 ? out : ".", (long)getpid(), i);
        else
            snprintf(path, RC_SAVED_PATH, "%.4096s/recollect-%ld-%d.safetensors",
                     temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp", (long)getpid(), i - TRIES);
        if (rc_file_exists(path)) /* of an earlier process of this number */
            continue;
        status = rc_model_file_save(path, model, false);
        if (status == RC_OK || status == RC_UNSYNCED)
            return status;
        i = i < TRIES ? TRIES - 1 : PLACES * TRIES; /* on to the next place */
    }
    path[0] = '\0';
    return status != RC_OK ? status : rc_fail(RC_IO, "every name for it is taken");
}
