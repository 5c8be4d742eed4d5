#define _XOPEN_SOURCE 700 /* realpath */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static rc_status fail_errno(const char *action, const char *path)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", action, path, strerror(errno));
}

rc_status rc_path_in(const char *folder, const char *name, char path[RC_PATH_SIZE])
{
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    int written = snprintf(path, RC_PATH_SIZE, "%s%s%s", folder, slash, name);
    if (written > 0 && written < RC_PATH_SIZE)
        return RC_OK;
    return rc_fail(RC_INVALID_ARGUMENT, "path too long: '%.200s%s%.200s...', at most %d bytes", folder, slash, name,
                   RC_PATH_SIZE - 1);
}

const char *rc_path_below(const char *folder, const char *path)
{
    const char *name = path + strlen(folder);
    return name + strspn(name, "/");
}

/* ---- calls that a signal may cut short ------------------------------------------------------------------------ */

/* Repeats a call that a signal has cut short: nothing has happened yet, so it is no failure. */
#define AGAIN(result, call) \
    do \
        (result) = (call); \
    while ((result) < 0 && errno == EINTR)

int rc_file_open(const char *path, int flags)
{
    int fd;
    AGAIN(fd, open(path, flags | O_CLOEXEC, 0666));
    return fd;
}

int rc_file_close(int fd)
{
    /* Linux frees the descriptor before it waits for anything, so the file is closed; a second close could hit a file
       of another thread. */
    return close(fd) == 0 || errno == EINTR ? 0 : -1;
}

int rc_file_cut(int fd, off_t size)
{
    int failed;
    AGAIN(failed, ftruncate(fd, size));
    return failed;
}

int rc_file_sync(int fd)
{
    int failed;
    AGAIN(failed, fsync(fd));
    return failed;
}

static int rename_again(const char *from, const char *to)
{
    int failed;
    AGAIN(failed, rename(from, to));
    return failed;
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* read() that goes on after signals and short reads. Returns the bytes read, fewer than `size` only at the end of
   the file, or -1. */
static ssize_t read_fully(int fd, char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, data + done, size - done);
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)done;
}

static rc_status fail_limit(const char *path, size_t limit)
{
    return rc_fail(RC_FORMAT, "cannot read '%s': more than %zu bytes, the limit for this kind of file", path, limit);
}

enum { SMALLEST_BLOCK = 4096 };

/* Reads to the end of `fd` into a block that starts at `capacity` bytes and doubles. The size that the file system
   reports is only a first guess: files in /proc have none, and a file may grow meanwhile. */
static rc_status read_to_end(int fd, const char *path, size_t limit, size_t capacity, char **data, size_t *size)
{
    char *block = NULL;
    size_t used = 0;
    for (;;) {
        char *grown = rc_alloc(NULL, capacity + 1);
        if (grown == NULL) {
            rc_free(NULL, block);
            return rc_fail(RC_OUT_OF_MEMORY, "cannot read '%s': no memory for %zu bytes", path, capacity);
        }
        if (used > 0)
            memcpy(grown, block, used);
        rc_free(NULL, block);
        block = grown;
        /* Asks for one byte more than the capacity, to see whether the file ends here. */
        ssize_t got = read_fully(fd, block + used, capacity + 1 - used);
        if (got < 0) {
            rc_status status = fail_errno("read", path);
            rc_free(NULL, block);
            return status;
        }
        used += (size_t)got;
        if (used <= capacity)
            break;
        if (capacity == limit) {
            rc_free(NULL, block);
            return fail_limit(path, limit);
        }
        capacity = capacity > limit / 2 ? limit : capacity * 2;
    }
    block[used] = '\0';
    *data = block;
    *size = used;
    return RC_OK;
}

rc_status rc_file_open_regular(const char *path, int *fd, uint64_t *size)
{
    struct stat info;
    /* O_NONBLOCK: open() must not wait for a writer of a pipe. Reading a regular file waits all the same. */
    *fd = rc_file_open(path, O_RDONLY | O_NONBLOCK);
    if (*fd < 0)
        return fail_errno("open", path);
    rc_status status = fstat(*fd, &info) == 0 ? RC_OK : fail_errno("read", path);
    if (status == RC_OK && !S_ISREG(info.st_mode))
        status = rc_fail(RC_IO, "cannot read '%s': it is %s, expected a regular file", path,
                         S_ISDIR(info.st_mode)    ? "a folder"
                         : S_ISFIFO(info.st_mode) ? "a pipe"
                                                  : "a device");
    *size = status == RC_OK && info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (status != RC_OK) {
        (void)rc_file_close(*fd);
        *fd = -1;
    }
    return status;
}

rc_status rc_file_read(const char *path, size_t limit, char **data, size_t *size)
{
    int fd;
    uint64_t told;
    *data = NULL;
    *size = 0;
    if (limit > SIZE_MAX / 4) /* so that sizes can be doubled and added to without overflow */
        limit = SIZE_MAX / 4;
    RC_TRY(rc_file_open_regular(path, &fd, &told));
    size_t guess = told > 0 ? (size_t)told : limit < SMALLEST_BLOCK ? limit : SMALLEST_BLOCK;
    rc_status status = told > limit ? fail_limit(path, limit) : read_to_end(fd, path, limit, guess, data, size);
    (void)rc_file_close(fd);
    return status;
}

struct rc_file_reader {
    int fd;
    char path[]; /* for messages */
};

rc_status rc_file_reader_open(const char *path, rc_file_reader **reader, size_t *size)
{
    int fd;
    uint64_t told;
    *reader = NULL;
    RC_TRY(rc_file_open_regular(path, &fd, &told));
    rc_file_reader *made = rc_alloc(NULL, sizeof *made + strlen(path) + 1);
    if (made == NULL) {
        (void)rc_file_close(fd);
        return RC_OUT_OF_MEMORY;
    }
    made->fd = fd;
    memcpy(made->path, path, strlen(path) + 1);
    *reader = made;
    *size = told < SIZE_MAX ? (size_t)told : SIZE_MAX;
    return RC_OK;
}

rc_status rc_file_reader_take(rc_file_reader *reader, void *data, size_t size)
{
    ssize_t got = read_fully(reader->fd, data, size);
    if (got < 0)
        return fail_errno("read", reader->path);
    return (size_t)got == size ? RC_OK : rc_fail(RC_IO, "cannot read '%s': it became shorter meanwhile", reader->path);
}

void rc_file_reader_close(rc_file_reader *reader)
{
    if (reader != NULL)
        (void)rc_file_close(reader->fd);
    rc_free(NULL, reader);
}

rc_status rc_file_look(const char *path, bool follow, struct stat *about)
{
    if ((follow ? stat(path, about) : lstat(path, about)) == 0)
        return RC_OK;
    *about = (struct stat){0};
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG ? RC_OK
                                                                                          : fail_errno("look at", path);
}

rc_status rc_file_find(const char *path, bool *there)
{
    struct stat about;
    rc_status status = rc_file_look(path, false, &about);
    *there = about.st_mode != 0;
    return status;
}

rc_status rc_file_next(DIR *listing, const char *path, const struct dirent **entry)
{
    errno = 0;
    *entry = readdir(listing); /* safe: no other thread has this stream */
    return *entry != NULL || errno == 0 ? RC_OK : fail_errno("list", path);
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

struct rc_file_writer {
    int fd;
    int error;       /* of the write that failed; 0: none failed */
    char *path;      /* as it was named; these three stand behind the structure, in the same block */
    char *target;    /* the file that is made or replaced: where links lead to */
    char *temporary; /* beside it */
    size_t held;     /* bytes that are not written yet: tables are appended number by number */
    char buffer[1 << 13];
};

static const char temporary_mark[] = ".tmp-";
enum { TEMPORARY_ROOM = 48 }; /* for the mark and two numbers */

static rc_file_writer *writer_new(const char *path, const char *target)
{
    size_t path_size = strlen(path) + 1, target_size = strlen(target) + 1;
    rc_file_writer *writer = rc_alloc(NULL, sizeof *writer + path_size + 2 * target_size + TEMPORARY_ROOM);
    if (writer == NULL)
        return NULL;
    writer->fd = -1;
    writer->error = 0;
    writer->held = 0;
    writer->path = (char *)(writer + 1);
    writer->target = writer->path + path_size;
    writer->temporary = writer->target + target_size;
    memcpy(writer->path, path, path_size);
    memcpy(writer->target, target, target_size);
    return writer;
}

/* Bytes of the target that the temporary name begins with: all of it, unless the mark and the numbers would make the
   name too long for the file system. Then it is cut, between characters. */
static int kept_of_target(const char *target)
{
    const char *slash = strrchr(target, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - target) + 1, length = strlen(target);
    if (length > folder + NAME_MAX - TEMPORARY_ROOM) {
        length = folder + NAME_MAX - TEMPORARY_ROOM;
        while (length > folder + 1 && ((unsigned char)target[length] & 0xC0) == 0x80)
            length--;
    }
    return (int)length;
}

/* Makes a temporary file with a name that no file has. A killed process may have had the same process id, as is usual
   in containers, and left a file of the same name behind. */
static int make_temporary(rc_file_writer *writer)
{
    enum { TRIES = 10000 };
    static _Atomic unsigned int counter;
    int fd = -1, kept = kept_of_target(writer->target);
    for (int i = 0; i < TRIES; i++) {
        snprintf(writer->temporary, strlen(writer->target) + 1 + TEMPORARY_ROOM, "%.*s%s%" PRIdMAX "-%u", kept,
                 writer->target, temporary_mark, (intmax_t)getpid(), atomic_fetch_add(&counter, 1));
        fd = rc_file_open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd;
}

/* Follows `path` to the file that it names, which does not exist (then `there` has no links) or is a regular one. A
   link stays a link: what it leads to is replaced. */
static rc_status find_target(const char *path, struct stat *there, char target[PATH_MAX])
{
    size_t length = strlen(path);
    *there = (struct stat){0};
    if (length == 0 || path[length - 1] == '/')
        return rc_fail(RC_IO, "cannot write '%s': it names no file", path);
    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return fail_errno("write", path);
    }
    memcpy(target, path, length + 1);
    if (lstat(path, there) != 0)
        return errno == ENOENT ? RC_OK : fail_errno("write", path);
    if (S_ISLNK(there->st_mode)) {
        if (stat(path, there) != 0)
            return rc_fail(RC_IO, "cannot write '%s': it is a link that leads to no file: %s", path, strerror(errno));
        if (realpath(path, target) == NULL)
            return fail_errno("write", path);
    }
    /* Renaming over a device such as /dev/null would destroy it. */
    if (!S_ISREG(there->st_mode))
        return rc_fail(RC_IO, "cannot write '%s': %s, expected a regular file", path,
                       S_ISDIR(there->st_mode) ? "it is a folder" : "it is a device or a pipe");
    return RC_OK;
}

/* Gives the new file the owner and the mode of the old one. If it cannot be given to the old one's group, its own
   group gets no rights that were meant for others. Some file systems have no modes; elsewhere nobody may get rights
   that the old file kept from him. */
static rc_status keep_owner_and_mode(int fd, const struct stat *there, const char *path)
{
    struct stat made;
    mode_t mode = there->st_mode & 0777;
    if (fstat(fd, &made) != 0)
        return fail_errno("write", path);
    if ((made.st_uid != there->st_uid || made.st_gid != there->st_gid) && fchown(fd, there->st_uid, there->st_gid) != 0)
        mode &= 0707;
    return fchmod(fd, mode) == 0 || (made.st_mode & 0777 & ~mode) == 0 ? RC_OK : fail_errno("keep the mode of", path);
}

rc_status rc_file_writer_open(const char *path, rc_file_writer **writer)
{
    *writer = NULL;
    struct stat there;
    char target[PATH_MAX];
    RC_TRY(find_target(path, &there, target));
    rc_file_writer *made = writer_new(path, target);
    if (made == NULL)
        return RC_OUT_OF_MEMORY;
    made->fd = make_temporary(made);
    if (made->fd < 0) {
        fail_errno("write", path);
        rc_free(NULL, made);
        return RC_IO;
    }
    rc_status status = there.st_nlink > 0 ? keep_owner_and_mode(made->fd, &there, path) : RC_OK;
    if (status == RC_OK)
        *writer = made;
    else
        rc_file_writer_abort(made);
    return status;
}

static void put(rc_file_writer *writer, const char *next, size_t size)
{
    while (size > 0 && writer->error == 0) {
        ssize_t done = write(writer->fd, next, size);
        if (done >= 0) {
            next += done;
            size -= (size_t)done;
        } else if (errno != EINTR) {
            writer->error = errno;
        }
    }
}

static rc_status put_held(rc_file_writer *writer)
{
    put(writer, writer->buffer, writer->held);
    writer->held = 0;
    errno = writer->error;
    return writer->error == 0 ? RC_OK : fail_errno("write", writer->path);
}

rc_status rc_file_writer_append(rc_file_writer *writer, const void *data, size_t size)
{
    if (size > sizeof writer->buffer - writer->held) {
        RC_TRY(put_held(writer));
        size_t whole = size - size % sizeof writer->buffer; /* past the buffer */
        put(writer, data, whole);
        data = (const char *)data + whole;
        size -= whole;
    }
    if (size > 0)
        memcpy(writer->buffer + writer->held, data, size);
    writer->held += size;
    return writer->error == 0 ? RC_OK : put_held(writer);
}

void rc_file_writer_line(void *writer, const char *text)
{
    if (rc_file_writer_append(writer, text, strlen(text)) == RC_OK)
        (void)rc_file_writer_append(writer, "\n", 1);
}

/* Makes the names in the folder of `path` survive a power cut. Some file systems cannot sync a folder and return
   EINVAL, and a folder that may be written but not read cannot be opened. Nothing can be done about either. */
static int sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char folder[PATH_MAX + 2];
    if (length > PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2);
    int fd = rc_file_open(folder, O_RDONLY | O_DIRECTORY);
    bool synced = fd < 0 ? errno == EACCES : rc_file_sync(fd) == 0 || errno == EINVAL;
    int error = errno;
    if (fd >= 0)
        (void)rc_file_close(fd);
    errno = error;
    return synced ? 0 : -1;
}

static rc_status sync_name(const char *path, const char *target)
{
    return sync_folder_of(target) == 0
               ? RC_OK
               : rc_fail(RC_UNSYNCED,
                         "'%s' is written and in its place, but its folder cannot be synced (%s): a power failure "
                         "soon after may undo it",
                         path, strerror(errno));
}

rc_status rc_file_sync_name(const char *path)
{
    return sync_name(path, path);
}

/* rename() that fails with EEXIST if the name is taken. A hard link reports that itself, however many processes try
   at once; on a file system without links a look before the rename has to do. */
static int rename_new(const char *from, const char *to)
{
    int failed;
    AGAIN(failed, link(from, to));
    if (failed == 0) {
        (void)unlink(from); /* if it stays, it is a second name of the same file, and harmless */
        return 0;
    }
    bool there = errno == EEXIST;
    if (!there && rc_file_find(to, &there) != RC_OK)
        return -1;
    if (!there)
        return rename_again(from, to);
    errno = EEXIST;
    return -1;
}

rc_status rc_file_writer_finish(rc_file_writer *writer)
{
    rc_status status = put_held(writer); /* reports an earlier failure, too */
    if (writer->fd < 0)
        return status;
    if (status == RC_OK && rc_file_sync(writer->fd) != 0)
        status = fail_errno("sync", writer->path);
    int closed = rc_file_close(writer->fd);
    writer->fd = -1;
    if (status == RC_OK && closed != 0)
        status = fail_errno("close", writer->path);
    return status;
}

/* `name` gives the temporary file the name `to`. */
static rc_status commit(rc_file_writer *writer, int (*name)(const char *from, const char *to), const char *to,
                        const char *action)
{
    rc_status status = rc_file_writer_finish(writer);
    if (status == RC_OK && name(writer->temporary, to) != 0)
        status = fail_errno(action, writer->path);
    if (status == RC_OK) {
        status = sync_name(writer->path, writer->target);
        rc_free(NULL, writer);
    } else {
        rc_file_writer_abort(writer);
    }
    return status;
}

rc_status rc_file_writer_commit(rc_file_writer *writer)
{
    return commit(writer, rename_again, writer->target, "replace");
}

rc_status rc_file_writer_commit_new(rc_file_writer *writer)
{
    return commit(writer, rename_new, writer->path, "make");
}

void rc_file_writer_abort(rc_file_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->fd >= 0)
        (void)rc_file_close(writer->fd);
    unlink(writer->temporary);
    rc_free(NULL, writer);
}

rc_status rc_file_write_atomic(const char *path, const void *data, size_t size)
{
    rc_file_writer *writer;
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_status status = rc_file_writer_append(writer, data, size);
    if (status != RC_OK) {
        rc_file_writer_abort(writer);
        return status;
    }
    return rc_file_writer_commit(writer);
}

rc_status rc_file_check(const char *path, bool replace)
{
    rc_file_writer *writer;
    bool there = false;
    if (!replace)
        RC_TRY(rc_file_find(path, &there));
    if (there)
        return rc_fail(RC_IO, "'%s' is there already", path);
    RC_TRY(rc_file_writer_open(path, &writer));
    rc_file_writer_abort(writer);
    return RC_OK;
}

/* ---- what killed processes leave ------------------------------------------------------------------------------ */

/* "name.tmp-12-3": the mark, two numbers, nothing after them. */
static bool is_temporary(const char *name)
{
    const char *mark = NULL;
    for (const char *p = name; (p = strstr(p, temporary_mark)) != NULL; p++)
        mark = p;
    if (mark == NULL || mark == name)
        return false;
    const char *first = mark + strlen(temporary_mark);
    size_t digits = strspn(first, "0123456789");
    const char *second = first + digits + 1;
    return digits > 0 && first[digits] == '-' && *second != '\0' && second[strspn(second, "0123456789")] == '\0';
}

/* name: of the file that they were to become; NULL: of any. */
static rc_status remove_leftovers(const char *folder, const char *name)
{
    size_t length = name != NULL ? strlen(name) : 0;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return name != NULL && errno == ENOENT ? RC_OK : fail_errno("open", folder);
    const struct dirent *entry;
    rc_status status = rc_file_next(listing, folder, &entry);
    while (status == RC_OK && entry != NULL)
        if (is_temporary(entry->d_name) &&
            (name == NULL || (strncmp(entry->d_name, name, length) == 0 &&
                              strncmp(entry->d_name + length, temporary_mark, strlen(temporary_mark)) == 0)) &&
            unlinkat(dirfd(listing), entry->d_name, 0) != 0 && errno != ENOENT)
            status = rc_fail(RC_IO, "cannot remove '%s/%s', which a killed process left: %s", folder, entry->d_name,
                             strerror(errno));
        else
            status = rc_file_next(listing, folder, &entry);
    closedir(listing);
    return status;
}

rc_status rc_file_remove_leftovers(const char *folder)
{
    return remove_leftovers(folder, NULL);
}

rc_status rc_file_remove_leftovers_of(const char *path)
{
    char folder[RC_PATH_SIZE];
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    if (length >= RC_PATH_SIZE)
        return rc_fail(RC_IO, "a path of %d bytes, expected at most %d", length, RC_PATH_SIZE - 1);
    snprintf(folder, sizeof folder, "%.*s", length, slash == NULL ? "." : path);
    return remove_leftovers(folder, slash == NULL ? path : slash + 1);
}

/* ---- folders -------------------------------------------------------------------------------------------------- */

/* What is written into it is to survive a power cut, so its own name has to. Where it cannot be synced, whoever writes
   into it will say so of the file. */
static int make_one(const char *path)
{
    int failed;
    AGAIN(failed, mkdir(path, 0777));
    if (failed == 0)
        (void)sync_folder_of(path);
    return failed;
}

/* A folder on the way to `path`. With make it is made if it is missing; otherwise *missing says that it would have to
   be made in the folder `above`. */
static rc_status pass_folder(const char *path, const char *part, const char *above, bool make, bool *missing)
{
    struct stat info;
    const char *slash = strrchr(part, '/');
    if (strlen(slash == NULL ? part : slash + 1) > NAME_MAX)
        return rc_fail(RC_IO, "cannot make the folder '%s': %s", path, strerror(ENAMETOOLONG));
    if (*missing)
        return RC_OK;
    int error = stat(part, &info) == 0 ? 0 : errno;
    if (error == ENOENT && lstat(part, &info) == 0) {
        if (S_ISLNK(info.st_mode))
            return rc_fail(RC_INVALID_ARGUMENT, "cannot make the folder '%s': '%s' is a link that leads nowhere", path,
                           part);
        error = 0; /* another process has made it since */
    }
    if (error == ENOENT && make) /* if another process makes it at the same moment, that is as good */
        error = make_one(part) == 0 || errno == EEXIST ? stat(part, &info) == 0 ? 0 : errno : errno;
    else if (error == ENOENT && access(above, W_OK | X_OK) == 0)
        *missing = true;
    else if (error == ENOENT)
        error = errno;
    if (error != 0 && !*missing)
        return rc_fail(RC_IO, "cannot make the folder '%s': %s", path, strerror(error));
    if (!*missing && !S_ISDIR(info.st_mode))
        return rc_fail(RC_INVALID_ARGUMENT, "cannot make the folder '%s': '%s' is a file", path, part);
    return RC_OK;
}

static rc_status go_to_folder(const char *path, bool make)
{
    size_t bytes = strlen(path) + 1;
    char *part = rc_alloc(NULL, 2 * bytes + 2);
    if (!part)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory for the name of a folder");
    char *above = part + bytes;
    memcpy(part, path, bytes);
    memcpy(above, path[0] == '/' ? "/" : ".", 2);
    rc_status status = RC_OK;
    bool missing = false;
    for (char *end = part; status == RC_OK && *end != '\0';) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char next = *end;
        *end = '\0';
        status = pass_folder(path, part, above, make, &missing);
        memcpy(above, part, (size_t)(end - part) + 1);
        *end = next;
    }
    rc_free(NULL, part);
    if (status == RC_OK && !missing && access(path, W_OK | X_OK) != 0)
        status = rc_fail(RC_IO, "cannot write into the folder '%s': %s", path, strerror(errno));
    return status;
}

rc_status rc_file_make_folder(const char *path)
{
    return go_to_folder(path, true);
}

rc_status rc_file_check_folder(const char *path)
{
    return go_to_folder(path, false);
}
