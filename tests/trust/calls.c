/* System calls that fail on demand, for a program that runs with this library preloaded. It counts the calls that touch
 * files, threads and mappings, and lets number N of those that can fail in the way asked for do so. It leaves alone
 * what lies in folders of the system, standard input and what is printed.
 *
 *     RECOLLECT_CALLS=KIND:once:N    call number N fails
 *                     KIND:from:N    number N and all after it fail
 *                     KIND:every:N   number N and every second one after it
 *     RECOLLECT_CALLS_LOG=FILE       gets the number of calls of each kind, when the program ends
 *     RECOLLECT_CALLS_NAMES=FILE     gets a line for each call that eio counts
 *     RECOLLECT_CALLS_TOLD=FILE      gets the call that failed first
 *
 * Kinds: eio (anything that touches a disk, looking, too), enospc and edquot (what takes room), eintr (what a signal
 * cuts short), short (half of a read or of a write is done), limits (EMFILE for files, ENOLCK for locks, EAGAIN for
 * threads, ENOMEM for mappings), remove (EIO).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replace.h"

typedef enum kind { EIO_, ENOSPC_, EDQUOT_, EINTR_, SHORT, LIMITS, REMOVE, KINDS } kind;
static const char *const names[KINDS] = {"eio", "enospc", "edquot", "eintr", "short", "limits", "remove"};
static const int errors[KINDS] = {EIO, ENOSPC, EDQUOT, EINTR, 0, 0, EIO};

#define BIT(kind) (1u << (kind))
enum {
    ROOM = BIT(ENOSPC_) | BIT(EDQUOT_),
    READS = BIT(EIO_) | BIT(EINTR_) | BIT(SHORT),
    WRITES = READS | ROOM,
    OPENS = BIT(EIO_) | BIT(EINTR_) | BIT(LIMITS),
    SYNCS = BIT(EIO_) | BIT(EINTR_) | ROOM,
    NAMES = BIT(EIO_) | ROOM, /* makes a name: rename, link, mkdir */
    LOOKS = BIT(EIO_),
};

static atomic_long calls[KINDS];
static atomic_int counting, told;
static kind wanted = KINDS;
static char mode; /* the first letter of once, from, every */
static long fails_at;

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("RECOLLECT_CALLS");
    const char *colon = what != NULL ? strchr(what, ':') : NULL, *last = what != NULL ? strrchr(what, ':') : NULL;
    if (colon != NULL) {
        for (int i = 0; i < KINDS; i++)
            if (strlen(names[i]) == (size_t)(colon - what) && strncmp(names[i], what, (size_t)(colon - what)) == 0)
                wanted = (kind)i;
        mode = colon[1];
        fails_at = atol(last + 1);
        if (wanted == KINDS || last == colon || fails_at < 1)
            abort();
    }
    atomic_store(&counting, 1);
}

static void put(const char *variable, int how, const char *text, size_t length)
{
    const char *path = getenv(variable);
    if (path == NULL)
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | how, 0666);
    if (fd < 0 || syscall(SYS_write, fd, text, length) != (long)length)
        abort();
    syscall(SYS_close, fd);
}

__attribute__((destructor)) static void end(void)
{
    char text[512];
    int length = 0;
    atomic_store(&counting, 0);
    for (int i = 0; i < KINDS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %ld\n", names[i], atomic_load(&calls[i]));
    put("RECOLLECT_CALLS_LOG", O_TRUNC, text, (size_t)length);
}

static int of_the_system(const char *path)
{
    static const char *const folders[] = {"/proc/", "/sys/", "/dev/",   "/etc/",      "/usr/",
                                          "/lib",   "pipe:", "socket:", "anon_inode:"};
    if (path == NULL)
        return 1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0)
            return 1;
    return 0;
}

/* Counts one that can fail in these ways; true: it does. */
static int fails(unsigned ways, const char *what, const char *path)
{
    char line[1200];
    int now = 0;
    if (!atomic_load(&counting) || of_the_system(path))
        return 0;
    int length = snprintf(line, sizeof line, "%s %s\n", what, path);
    size_t size = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    if (ways & BIT(EIO_))
        put("RECOLLECT_CALLS_NAMES", O_APPEND, line, size);
    for (int i = 0; i < KINDS; i++) {
        if (!(ways & BIT(i)))
            continue;
        long number = atomic_fetch_add(&calls[i], 1) + 1;
        if ((kind)i == wanted)
            now = mode == 'o' ? number == fails_at
                              : number >= fails_at && (mode == 'f' || (number - fails_at) % 2 == 0);
    }
    if (now && atomic_exchange(&told, 1) == 0)
        put("RECOLLECT_CALLS_TOLD", O_TRUNC, line, size);
    return now;
}

static const char *path_of(int fd, char *path, size_t size)
{
    char link[64];
    if (fd <= 2)
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0)
        return NULL;
    path[length] = '\0';
    return path;
}

static int fails_fd(unsigned ways, const char *what, int fd)
{
    char path[1024];
    return atomic_load(&counting) && fails(ways, what, path_of(fd, path, sizeof path));
}

#define REFUSE(how) \
    do { \
        errno = errors[wanted]; \
        return how; \
    } while (0)

/* ---- files ------------------------------------------------------------------------------------------------------ */

static int open_fails(const char *path, int flags)
{
    if (!fails(OPENS | (flags & O_CREAT ? ROOM : 0), flags & O_CREAT ? "make" : "open", path))
        return 0;
    errno = wanted == LIMITS ? EMFILE : errors[wanted];
    return 1;
}

REPLACE_OPEN(open, open_fails)
REPLACE_OPEN(open64, open_fails)

DIR *opendir(const char *path)
{
    return open_fails(path, O_RDONLY) ? NULL : NEXT("opendir", DIR * (*)(const char *))(path);
}

#define TRANSFER(name, ways, what, parameters, arguments) \
    ssize_t name parameters \
    { \
        if (fails_fd(ways, what, fd)) { \
            if (wanted != SHORT) \
                REFUSE(-1); \
            size = (size + 1) / 2; \
        } \
        return NEXT(#name, ssize_t(*) parameters) arguments; \
    }
TRANSFER(read, READS, "read", (int fd, void *data, size_t size), (fd, data, size))
TRANSFER(pread, READS, "read", (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
TRANSFER(pread64, READS, "read", (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
TRANSFER(write, WRITES, "write", (int fd, const void *data, size_t size), (fd, data, size))
TRANSFER(pwrite, WRITES, "write", (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
TRANSFER(pwrite64, WRITES, "write", (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))

int fsync(int fd)
{
    if (fails_fd(SYNCS, "sync", fd))
        REFUSE(-1);
    return NEXT("fsync", int (*)(int))(fd);
}

/* It is closed whatever it says. */
int close(int fd)
{
    int failed = fails_fd(BIT(EIO_) | BIT(EINTR_) | ROOM, "close", fd), closed = NEXT("close", int (*)(int))(fd);
    if (failed)
        REFUSE(-1);
    return closed;
}

#define TRUNCATE(name, type) \
    int name(int fd, type size) \
    { \
        if (fails_fd(SYNCS, "cut", fd)) \
            REFUSE(-1); \
        return NEXT(#name, int (*)(int, type))(fd, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define TRUNCATE_NAMED(name, type) \
    int name(const char *path, type size) \
    { \
        if (fails(SYNCS, "cut", path)) \
            REFUSE(-1); \
        return NEXT(#name, int (*)(const char *, type))(path, size); \
    }
TRUNCATE_NAMED(truncate, off_t)
TRUNCATE_NAMED(truncate64, off64_t)

int flock(int fd, int operation)
{
    if (fails_fd(BIT(EIO_) | BIT(EINTR_), "lock", fd))
        REFUSE(-1);
    return NEXT("flock", int (*)(int, int))(fd, operation);
}

#define CONTROL(name) \
    int name(int fd, int command, ...) \
    { \
        va_list arguments; \
        va_start(arguments, command); \
        void *argument = va_arg(arguments, void *); \
        va_end(arguments); \
        if (command == F_SETLK && fails_fd(BIT(EIO_) | BIT(EINTR_) | BIT(LIMITS), "lock", fd)) { \
            errno = wanted == LIMITS ? ENOLCK : errors[wanted]; \
            return -1; \
        } \
        return NEXT(#name, int (*)(int, int, ...))(fd, command, argument); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

int fchmod(int fd, mode_t rights)
{
    if (fails_fd(BIT(EIO_), "rights", fd))
        REFUSE(-1);
    return NEXT("fchmod", int (*)(int, mode_t))(fd, rights);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

#define TWO_NAMES(name) \
    int name(const char *from, const char *to) \
    { \
        if (fails(NAMES, #name, to)) \
            REFUSE(-1); \
        return NEXT(#name, int (*)(const char *, const char *))(from, to); \
    }
TWO_NAMES(rename)
TWO_NAMES(link)

int mkdir(const char *path, mode_t rights)
{
    if (fails(NAMES, "mkdir", path))
        REFUSE(-1);
    return NEXT("mkdir", int (*)(const char *, mode_t))(path, rights);
}

int unlink(const char *path)
{
    if (fails(BIT(REMOVE), "remove", path))
        REFUSE(-1);
    return NEXT("unlink", int (*)(const char *))(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    if (fails(BIT(REMOVE), "remove", path))
        REFUSE(-1);
    return NEXT("unlinkat", int (*)(int, const char *, int))(folder, path, flags);
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

#define LOOK(name, type) \
    int name(const char *path, struct type *about) \
    { \
        if (fails(LOOKS, "look at", path)) \
            REFUSE(-1); \
        return NEXT(#name, int (*)(const char *, struct type *))(path, about); \
    }
LOOK(stat, stat)
LOOK(stat64, stat64)
LOOK(lstat, stat)
LOOK(lstat64, stat64)
LOOK(statvfs, statvfs)
LOOK(statvfs64, statvfs64)

#define LOOK_FD(name, type) \
    int name(int fd, struct type *about) \
    { \
        if (fails_fd(LOOKS, "look at", fd)) \
            REFUSE(-1); \
        return NEXT(#name, int (*)(int, struct type *))(fd, about); \
    }
LOOK_FD(fstat, stat)
LOOK_FD(fstat64, stat64)

#define LIST(name, type) \
    struct type *name(DIR *folder) \
    { \
        if (fails_fd(LOOKS, "list", dirfd(folder))) \
            REFUSE(NULL); \
        return NEXT(#name, struct type * (*)(DIR *))(folder); \
    }
LIST(readdir, dirent)
LIST(readdir64, dirent64)

int access(const char *path, int rights)
{
    if (fails(LOOKS, "look at", path))
        REFUSE(-1);
    return NEXT("access", int (*)(const char *, int))(path, rights);
}

char *realpath(const char *path, char *real)
{
    if (fails(LOOKS, "follow", path))
        REFUSE(NULL);
    return NEXT("realpath", char *(*)(const char *, char *))(path, real);
}

char *__realpath_chk(const char *path, char *real, size_t size);
char *__realpath_chk(const char *path, char *real, size_t size)
{
    (void)size;
    return realpath(path, real);
}

/* ---- threads and mappings --------------------------------------------------------------------------------------- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (fails(BIT(LIMITS), "thread", "a thread"))
        return EAGAIN;
    return NEXT("pthread_create", int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                                          void *))(thread, attributes, start, argument);
}

#define MAP(name, type) \
    void *name(void *at, size_t size, int protection, int flags, int fd, type offset) \
    { \
        if (fails(BIT(LIMITS), "map", "a mapping")) { \
            errno = ENOMEM; \
            return MAP_FAILED; \
        } \
        return NEXT(#name, void *(*)(void *, size_t, int, int, int, type))(at, size, protection, flags, fd, offset); \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)
