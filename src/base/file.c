#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static rc_status fail_errno(const char *action, const char *path)
{
    return rc_fail(RC_IO, "cannot %s '%s': %s", action, path, strerror(errno));
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
   tells is only a first guess: files in /proc have none, and a file may grow meanwhile. */
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
        /* One byte more than the capacity is asked for, to see whether the file ends here. */
        ssize_t got = read_fully(fd, block + used, capacity + 1 - used);
        if (got < 0) {
            rc_free(NULL, block);
            return fail_errno("read", path);
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
    /* Without waiting for whoever might write into a pipe. Of regular files reading waits nevertheless. */
    do
        *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    while (*fd < 0 && errno == EINTR);
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
        close(*fd);
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
    close(fd);
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
        close(fd);
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
    return (size_t)got == size ? RC_OK
                               : rc_fail(RC_IO, "cannot read '%s': it became shorter meanwhile", reader->path);
}

void rc_file_reader_close(rc_file_reader *reader)
{
    if (reader != NULL)
        close(reader->fd);
    rc_free(NULL, reader);
}

bool rc_file_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

struct rc_file_writer {
    int fd;
    int error; /* of the append that failed; 0: none did */
    char *path;      /* these two stand behind the structure, in the same block */
    char *temporary;
};

static const char temporary_mark[] = ".tmp-";
enum { TEMPORARY_ROOM = 48 }; /* for the mark and two numbers */

static rc_file_writer *writer_new(const char *path)
{
    size_t path_size = strlen(path) + 1;
    rc_file_writer *writer = rc_alloc(NULL, sizeof *writer + 2 * path_size + TEMPORARY_ROOM);
    if (writer == NULL)
        return NULL;
    *writer = (rc_file_writer){.fd = -1, .path = (char *)(writer + 1)};
    writer->temporary = writer->path + path_size;
    memcpy(writer->path, path, path_size);
    return writer;
}

/* Makes a temporary file of a name that nobody has. A process that was killed may have had this one's number, as is
   usual in containers, and left a file of the same name behind. */
static int make_temporary(rc_file_writer *writer)
{
    enum { TRIES = 10000 };
    static _Atomic unsigned int counter;
    int fd = -1;
    for (int i = 0; i < TRIES; i++) {
        snprintf(writer->temporary, strlen(writer->path) + 1 + TEMPORARY_ROOM, "%s%s%" PRIdMAX "-%u", writer->path,
                 temporary_mark, (intmax_t)getpid(), atomic_fetch_add(&counter, 1));
        fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd;
}

rc_status rc_file_writer_open(const char *path, rc_file_writer **writer)
{
    *writer = NULL;
    struct stat info;
    /* Renaming over a device such as /dev/null would destroy it. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return rc_fail(RC_IO, "cannot write '%s': %s, expected a regular file", path,
                       S_ISDIR(info.st_mode) ? "it is a folder" : "it is a device or a pipe");
    rc_file_writer *made = writer_new(path);
    if (made == NULL)
        return RC_OUT_OF_MEMORY;
    made->fd = make_temporary(made);
    if (made->fd < 0) {
        rc_status status = fail_errno("write", path);
        rc_free(NULL, made);
        return status;
    }
    *writer = made;
    return RC_OK;
}

rc_status rc_file_writer_append(rc_file_writer *writer, const void *data, size_t size)
{
    const char *next = data;
    while (size > 0 && writer->error == 0) {
        ssize_t put = write(writer->fd, next, size);
        if (put >= 0) {
            next += put;
            size -= (size_t)put;
        } else if (errno != EINTR) {
            writer->error = errno;
        }
    }
    errno = writer->error;
    return writer->error == 0 ? RC_OK : fail_errno("write", writer->path);
}

void rc_file_writer_line(void *writer, const char *text)
{
    if (rc_file_writer_append(writer, text, strlen(text)) == RC_OK)
        (void)rc_file_writer_append(writer, "\n", 1);
}

/* Makes the rename survive a power cut. Some file systems cannot sync a folder and say EINVAL: nothing to be done. */
static rc_status sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *folder = rc_alloc(NULL, length + 2);
    if (folder == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc_status status = RC_OK;
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        status = rc_fail(RC_IO, "'%s' is written, but its folder cannot be synced: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    rc_free(NULL, folder);
    return status;
}

/* rename() that fails with EEXIST where something has the name already. A link says so itself, however many processes
   try at once; where a file system has no links, a look before the rename has to do. */
static int rename_new(const char *from, const char *to)
{
    if (link(from, to) == 0) {
        (void)unlink(from); /* a second name of the same file, if it stays: in nobody's way */
        return 0;
    }
    if (errno == EEXIST || rc_file_exists(to)) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

/* `name` gives the temporary file the name that it was made for. */
static rc_status commit(rc_file_writer *writer, int (*name)(const char *from, const char *to), const char *action)
{
    rc_status status = rc_file_writer_append(writer, "", 0); /* an earlier failure comes out here */
    if (status == RC_OK && fsync(writer->fd) != 0)
        status = fail_errno("sync", writer->path);
    int closed = close(writer->fd);
    writer->fd = -1;
    if (status == RC_OK && closed != 0)
        status = fail_errno("close", writer->path);
    if (status == RC_OK && name(writer->temporary, writer->path) != 0)
        status = fail_errno(action, writer->path);
    if (status == RC_OK) {
        status = sync_folder_of(writer->path);
        rc_free(NULL, writer);
    } else {
        rc_file_writer_abort(writer);
    }
    return status;
}

rc_status rc_file_writer_commit(rc_file_writer *writer)
{
    return commit(writer, rename, "replace");
}

rc_status rc_file_writer_commit_new(rc_file_writer *writer)
{
    return commit(writer, rename_new, "make");
}

void rc_file_writer_abort(rc_file_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
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

rc_status rc_file_remove_leftovers(const char *folder)
{
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return fail_errno("open", folder);
    rc_status status = RC_OK;
    const struct dirent *entry;
    while (status == RC_OK && (entry = readdir(listing)) != NULL) /* this stream is nobody else's */
        if (is_temporary(entry->d_name) && unlinkat(dirfd(listing), entry->d_name, 0) != 0 && errno != ENOENT)
            status = rc_fail(RC_IO, "cannot remove '%s/%s', which a killed process left: %s", folder, entry->d_name,
                             strerror(errno));
    closedir(listing);
    return status;
}

rc_status rc_file_make_folder(const char *path)
{
    size_t bytes = strlen(path) + 1;
    char *part = rc_alloc(NULL, bytes);
    if (!part)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory for the name of a folder");
    memcpy(part, path, bytes);
    rc_status status = RC_OK;
    for (char *end = part; status == RC_OK && *end != '\0';) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char next = *end;
        *end = '\0';
        struct stat info;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            status = rc_fail(RC_IO, "cannot make the folder '%s': %s", path, strerror(errno));
        else if (stat(part, &info) == 0 && !S_ISDIR(info.st_mode))
            status = rc_fail(RC_INVALID_ARGUMENT, "cannot make the folder '%s': '%s' is a file", path, part);
        *end = next;
    }
    rc_free(NULL, part);
    return status;
}
