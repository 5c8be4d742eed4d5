/* A disk that fails on demand, for a program that runs with this library preloaded. It counts what the program does to
 * files below a folder (making, opening for writing, writing, syncing, cutting, renaming, removing) and lets number K
 * go wrong.
 *
 *     RECOLLECT_FAULT_UNDER=FOLDER   what is watched: paths that contain this text
 *     RECOLLECT_FAULT=kill:K         the process is killed instead of doing number K
 *                     full:K         from number K on there is no space: writes take half of what they get, then none
 *                     readonly:K     from number K on nothing can be made, opened for writing, renamed or removed
 *                     signal:K       every K-th of them, and of reading and closing, is cut short by a signal (EINTR);
 *                                    closing is done all the same
 *                     unsynced:K     from number K on folders cannot be synced
 *                     vanish:K       opening a file for reading fails as if it were not there, from the K-th on
 *                     count:0        nothing goes wrong
 *     RECOLLECT_FAULT_LOG=FILE       gets one line for each of them
 *     RECOLLECT_FAULT_CLOCK=jump     the time of day jumps by up to a year at every look, forth and back
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "replace.h"

typedef enum kind { WRITING, READING, PASSING } kind; /* passing: only a signal cuts it short */

static atomic_int done;

static int watched(const char *path)
{
    const char *under = getenv("RECOLLECT_FAULT_UNDER");
    return under != NULL && path != NULL && strstr(path, under) != NULL;
}

/* The path of an open file. */
static const char *path_of(int fd, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0)
        return NULL;
    path[length] = '\0';
    return path;
}

static void log_line(int number, const char *what, const char *path)
{
    const char *log = getenv("RECOLLECT_FAULT_LOG");
    char line[1200];
    if (log == NULL)
        return;
    int length = snprintf(line, sizeof line, "%d %s %s\n", number, what, path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0) {
        if (syscall(SYS_write, fd, line, (size_t)length) < 0)
            abort();
        syscall(SYS_close, fd);
    }
}

/* Counts one; the error number it is to fail with, or 0. *partly: half of a write is still done. */
static int count(kind what_kind, const char *what, const char *path, int *partly)
{
    const char *fault = getenv("RECOLLECT_FAULT");
    if (fault == NULL || !watched(path))
        return 0;
    const char *colon = strchr(fault, ':');
    int at = colon != NULL ? atoi(colon + 1) : 0, vanish = strncmp(fault, "vanish:", 7) == 0;
    int cut_short = strncmp(fault, "signal:", 7) == 0;
    if (!cut_short && (what_kind == PASSING || vanish != (what_kind == READING)))
        return 0;
    int number = ++done;
    log_line(number, what, path);
    if (strncmp(fault, "kill:", 5) == 0 && number == at)
        raise(SIGKILL);
    if (cut_short) /* no system says that of a look or of a removal */
        return number % at == 0 && strcmp(what, "remove") != 0 && strcmp(what, "access") != 0 ? EINTR : 0;
    if (strncmp(fault, "unsynced:", 9) == 0)
        return number >= at && strcmp(what, "sync folder") == 0 ? EIO : 0;
    int writes = strcmp(what, "write") == 0, now = number >= at;
    if (strncmp(fault, "full:", 5) == 0 && now && (writes || strcmp(what, "sync") == 0 || strcmp(what, "make") == 0)) {
        if (partly != NULL)
            *partly = number == at;
        return ENOSPC;
    }
    if (strncmp(fault, "readonly:", 9) == 0 && now && !writes && strncmp(what, "sync", 4) != 0)
        return EROFS;
    return vanish && now ? ENOENT : 0;
}

#define FAIL_IF(error) \
    do { \
        int error_ = (error); \
        if (error_ != 0) { \
            errno = error_; \
            return -1; \
        } \
    } while (0)

static int count_open(const char *path, int flags)
{
    int writing = (flags & O_ACCMODE) != O_RDONLY;
    const char *what = !writing ? "read" : flags & O_CREAT ? "make" : "open";
    if (!writing && (flags & O_DIRECTORY) != 0)
        return 0;
    return count(writing ? WRITING : READING, what, path, NULL);
}

static int open_fails(const char *path, int flags)
{
    int error = count_open(path, flags);
    if (error != 0)
        errno = error;
    return error != 0;
}

REPLACE_OPEN(open, open_fails)
REPLACE_OPEN(open64, open_fails)

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) \
    { \
        int error = count(mode[0] == 'r' ? READING : WRITING, mode[0] == 'r' ? "read" : "make", path, NULL); \
        if (error != 0) { \
            errno = error; \
            return NULL; \
        } \
        return NEXT(#name, FILE * (*)(const char *, const char *))(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size)
{
    char path[1024];
    int partly = 0, error = fd > 2 ? count(WRITING, "write", path_of(fd, path, sizeof path), &partly) : 0;
    ssize_t (*next)(int, const void *, size_t) = NEXT("write", ssize_t(*)(int, const void *, size_t));
    if (error != 0 && partly && size > 1)
        return next(fd, data, size / 2);
    FAIL_IF(error);
    return next(fd, data, size);
}

int fsync(int fd)
{
    char path[1024];
    struct stat what;
    int folder = fstat(fd, &what) == 0 && S_ISDIR(what.st_mode);
    FAIL_IF(count(WRITING, folder ? "sync folder" : "sync", path_of(fd, path, sizeof path), NULL));
    return NEXT("fsync", int (*)(int))(fd);
}

ssize_t read(int fd, void *data, size_t size)
{
    char path[1024];
    FAIL_IF(fd > 2 ? count(PASSING, "get", path_of(fd, path, sizeof path), NULL) : 0);
    return NEXT("read", ssize_t(*)(int, void *, size_t))(fd, data, size);
}

/* It is closed when it says that a signal came. */
int close(int fd)
{
    char path[1024];
    int error = fd > 2 ? count(PASSING, "close", path_of(fd, path, sizeof path), NULL) : 0;
    int closed = NEXT("close", int (*)(int))(fd);
    FAIL_IF(closed == 0 ? error : 0);
    return closed;
}

#define TRUNCATE(name, type) \
    int name(int fd, type size) \
    { \
        char path[1024]; \
        FAIL_IF(count(WRITING, "cut", path_of(fd, path, sizeof path), NULL)); \
        return NEXT(#name, int (*)(int, type))(fd, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int rename(const char *from, const char *to)
{
    FAIL_IF(count(WRITING, "rename", to, NULL));
    return NEXT("rename", int (*)(const char *, const char *))(from, to);
}

int link(const char *from, const char *to)
{
    FAIL_IF(count(WRITING, "rename", to, NULL));
    return NEXT("link", int (*)(const char *, const char *))(from, to);
}

int unlink(const char *path)
{
    FAIL_IF(count(WRITING, "remove", path, NULL));
    return NEXT("unlink", int (*)(const char *))(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    FAIL_IF(count(WRITING, "remove", path, NULL));
    return NEXT("unlinkat", int (*)(int, const char *, int))(folder, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    FAIL_IF(count(WRITING, "make", path, NULL));
    return NEXT("mkdir", int (*)(const char *, mode_t))(path, mode);
}

int access(const char *path, int mode)
{
    if (mode & W_OK)
        FAIL_IF(count(WRITING, "access", path, NULL));
    return NEXT("access", int (*)(const char *, int))(path, mode);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    enum { YEAR = 31536000 };
    static atomic_uint looks;
    int failed = NEXT("clock_gettime", int (*)(clockid_t, struct timespec *))(clock, now);
    if (failed == 0 && clock == CLOCK_REALTIME && getenv("RECOLLECT_FAULT_CLOCK") != NULL)
        now->tv_sec += (time_t)(atomic_fetch_add(&looks, 1) * 2654435761u % (2 * YEAR)) - YEAR;
    return failed;
}
