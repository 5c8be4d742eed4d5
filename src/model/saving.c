#include "model/saving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/file.h"

static void folder_of(const char *path, char folder[RC_PATH_SIZE])
{
    const char *slash = strrchr(path, '/');
    int length = slash == NULL || slash == path ? 1 : (int)(slash - path);
    snprintf(folder, RC_PATH_SIZE, "%.*s", length, slash != NULL ? path : ".");
}

/* Is there room for a file of so many bytes? What cannot be found out is no reason to refuse. */
static rc_status check_room(const char *out, double least)
{
    char folder[RC_PATH_SIZE];
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

static rc_status refuse(const char *path)
{
    return rc_fail(RC_IO, "'%.900s' is there already; choose another name, or replace it with the setting 'overwrite'",
                   path);
}

rc_status rc_saving_check_free(const char *path)
{
    bool there;
    RC_TRY(rc_file_find(path, &there));
    return there ? refuse(path) : RC_OK;
}

rc_status rc_saving_check(const char *path, size_t bytes, bool replace)
{
    static const double smallest_model = 100000;
    struct stat there;
    bool is_there = stat(path, &there) == 0;
    if (is_there && S_ISDIR(there.st_mode))
        return rc_fail(RC_IO, "'%s' is a folder, expected the name of a file", path);
    if (is_there && S_ISREG(there.st_mode) && !replace)
        return refuse(path);
    rc_status status = rc_file_check(path, replace || is_there);
    if (status != RC_OK) {
        char folder[RC_PATH_SIZE];
        folder_of(path, folder);
        bool missing = stat(folder, &there) != 0 && errno == ENOENT;
        return rc_fail(status, "%s; %s", rc_message(),
                       missing ? "make the folder first" : "choose another name or place");
    }
    return check_room(path, bytes > 0 ? (double)bytes : smallest_model);
}
