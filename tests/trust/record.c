/* Writes down what a program does to files below a folder, with this library preloaded, for crash.py, which plays it
 * again as disks might after a power failure.
 *
 *     RECOLLECT_RECORD_UNDER=FOLDER  what is watched: an absolute path
 *     RECOLLECT_RECORD=FILE          gets one record for each operation that succeeded:
 *         KIND FILE_NUMBER POSITION BYTES_OF_DATA BYTES_OF_PATH BYTES_OF_SECOND_PATH BYTES_ON_STDOUT BYTES_ON_STDERR\n
 *         the path, the second path and the data, each without an end mark
 *
 * Kinds: make, mkdir, write, cut, sync, rename, link, remove. A file is named by its inode, which another file may get
 * once it is gone. What the program has said by then is counted if stdout and stderr are files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replace.h"

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void put(int fd, const void *data, size_t size)
{
    if (size > 0 && syscall(SYS_write, fd, data, size) != (long)size)
        abort();
}

static long long said(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? (long long)about.st_size : 0;
}

static int watched(const char *path)
{
    const char *under = getenv("RECOLLECT_RECORD_UNDER");
    return under != NULL && strncmp(path, under, strlen(under)) == 0;
}

/* With the folder that the program works in, if it does not begin at the root. */
static const char *absolute(const char *path, char whole[2 * PATH_MAX])
{
    char here[PATH_MAX];
    if (path[0] == '/')
        return path;
    if (getcwd(here, sizeof here) == NULL)
        abort();
    snprintf(whole, 2 * PATH_MAX, "%s/%s", here, path);
    return whole;
}

static void record(const char *kind, ino_t number, long long at, const char *from, const char *to, const void *data,
                   size_t size)
{
    const char *log = getenv("RECOLLECT_RECORD");
    char line[256], first[2 * PATH_MAX], second[2 * PATH_MAX];
    int before = errno;
    from = from != NULL ? absolute(from, first) : "";
    to = to != NULL ? absolute(to, second) : "";
    if (log == NULL || !watched(from))
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0)
        abort();
    int length = snprintf(line, sizeof line, "%s %llu %lld %zu %zu %zu %lld %lld\n", kind, (unsigned long long)number,
                          at, size, strlen(from), strlen(to), said(1), said(2));
    put(fd, line, (size_t)length);
    put(fd, from, strlen(from));
    put(fd, to, strlen(to));
    put(fd, data, size);
    syscall(SYS_close, fd);
    errno = before;
}

/* An operation on an open file. */
static void record_fd(const char *kind, int fd, long long at, const void *data, size_t size)
{
    char link[64], path[PATH_MAX];
    struct stat about;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0 && fstat(fd, &about) == 0) {
        path[length] = '\0';
        record(kind, about.st_ino, at, path, NULL, data, size);
    }
    errno = before;
}

static ino_t number_of(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 ? about.st_ino : 0;
}

static int open_recorded(int (*next)(const char *, int, ...), const char *path, int flags, mode_t rights)
{
    pthread_mutex_lock(&one_at_a_time);
    bool there = number_of(path) != 0;
    int fd = next(path, flags, rights);
    if (fd >= 0 && !there && (flags & O_CREAT))
        record("make", number_of(path), 0, path, NULL, NULL, 0);
    if (fd >= 0 && there && (flags & O_TRUNC))
        record_fd("cut", fd, 0, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return fd;
}

REPLACE_OPEN_BY(open, open_recorded(next, path, flags, rights))
REPLACE_OPEN_BY(open64, open_recorded(next, path, flags, rights))

ssize_t write(int fd, const void *data, size_t size)
{
    pthread_mutex_lock(&one_at_a_time);
    ssize_t put_now = NEXT("write", ssize_t(*)(int, const void *, size_t))(fd, data, size);
    if (put_now > 0)
        record_fd("write", fd, (long long)lseek(fd, 0, SEEK_CUR) - put_now, data, (size_t)put_now);
    pthread_mutex_unlock(&one_at_a_time);
    return put_now;
}

#define PWRITE(name, type) \
    ssize_t name(int fd, const void *data, size_t size, type at) \
    { \
        pthread_mutex_lock(&one_at_a_time); \
        ssize_t put_now = NEXT(#name, ssize_t(*)(int, const void *, size_t, type))(fd, data, size, at); \
        if (put_now > 0) \
            record_fd("write", fd, (long long)at, data, (size_t)put_now); \
        pthread_mutex_unlock(&one_at_a_time); \
        return put_now; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

/* A call that returns 0, and what is written down of it then. */
#define CALL(name, parameters, arguments, written) \
    int name parameters \
    { \
        pthread_mutex_lock(&one_at_a_time); \
        int failed = NEXT(#name, int(*) parameters) arguments; \
        if (failed == 0) \
            written; \
        pthread_mutex_unlock(&one_at_a_time); \
        return failed; \
    }
CALL(fsync, (int fd), (fd), record_fd("sync", fd, 0, NULL, 0))
CALL(fdatasync, (int fd), (fd), record_fd("sync", fd, 0, NULL, 0))
CALL(ftruncate, (int fd, off_t size), (fd, size), record_fd("cut", fd, (long long)size, NULL, 0))
CALL(ftruncate64, (int fd, off64_t size), (fd, size), record_fd("cut", fd, (long long)size, NULL, 0))
CALL(truncate, (const char *path, off_t size), (path, size),
     record("cut", number_of(path), (long long)size, path, NULL, NULL, 0))
CALL(truncate64, (const char *path, off64_t size), (path, size),
     record("cut", number_of(path), (long long)size, path, NULL, NULL, 0))
CALL(rename, (const char *from, const char *to), (from, to), record("rename", number_of(to), 0, from, to, NULL, 0))
CALL(link, (const char *from, const char *to), (from, to), record("link", number_of(to), 0, from, to, NULL, 0))
CALL(unlink, (const char *path), (path), record("remove", 0, 0, path, NULL, NULL, 0))
CALL(rmdir, (const char *path), (path), record("remove", 0, 0, path, NULL, NULL, 0))
CALL(mkdir, (const char *path, mode_t rights), (path, rights), record("mkdir", number_of(path), 0, path, NULL, NULL, 0))

int unlinkat(int folder, const char *path, int flags)
{
    char link[64], whole[2 * PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = path[0] != '/' && folder != AT_FDCWD ? readlink(link, whole, PATH_MAX - 1) : 0;
    snprintf(whole + length, sizeof whole - (size_t)length, "%s%s", length > 0 ? "/" : "", path);
    pthread_mutex_lock(&one_at_a_time);
    int failed = NEXT("unlinkat", int (*)(int, const char *, int))(folder, path, flags);
    if (failed == 0)
        record("remove", 0, 0, whole, NULL, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
