/* Whole files in, whole files out. A file is either the old one or the new one, never half of the new one. */
#ifndef RC_BASE_FILE_H
#define RC_BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/status.h"

/* Bytes of any path that the library puts together, its zero byte included. */
enum { RC_PATH_SIZE = 4096 };

/* "folder/name"; fails when that is too long. */
rc_status rc_path_in(const char *folder, const char *name, char path[RC_PATH_SIZE]);

/* The other way: what of `path`, which begins with `folder`, comes behind it and its slashes. */
const char *rc_path_below(const char *folder, const char *path);

/* Opens a regular file for reading and returns its size. Refuses pipes, devices and folders without waiting for them,
   because they may hold anything, without an end. Every file that the library reads is opened here. */
rc_status rc_file_open_regular(const char *path, int *fd, uint64_t *size);

/* Reads all of `path` into a new block. A zero byte follows the last one; *size does not count it. A file of more
   than `limit` bytes is refused, before any memory is taken if the file system reports its size. The caller frees
   *data with rc_free(NULL, ...); on failure it is NULL. */
rc_status rc_file_read(const char *path, size_t limit, char **data, size_t *size);

/* A regular file piece by piece, so that the caller can look at its beginning before it takes memory for the rest.
   *size: the size of the whole file, as the file system reports it. take: reads exactly the next `size` bytes, or
   fails. close(NULL) is fine. */
typedef struct rc_file_reader rc_file_reader;
rc_status rc_file_reader_open(const char *path, rc_file_reader **reader, size_t *size);
rc_status rc_file_reader_take(rc_file_reader *reader, void *data, size_t size);
void rc_file_reader_close(rc_file_reader *reader);

/* Is there anything of that name, be it a link that leads nowhere? RC_IO: nobody can tell. */
rc_status rc_file_find(const char *path, bool *there);
/* What is there; all zero where there is nothing. follow: at the end of links. RC_IO: nobody can tell. */
rc_status rc_file_look(const char *path, bool follow, struct stat *about);

/* The next entry of the folder `path`; NULL after the last. The caller's stream is its own. */
rc_status rc_file_next(DIR *listing, const char *path, const struct dirent **entry);

/* Makes or replaces the regular file `path`: writes a temporary file beside it, syncs, renames, syncs the folder. On
   failure the old file, if any, is as it was, and the temporary one is gone. (A process that is killed may leave its
   temporary file behind: "path.tmp-" and two numbers. No other process trips over it.) The new file keeps the mode of
   the old one and, where that is allowed, its owner. If `path` is a link, the link stays and the file that it leads
   to is replaced. RC_UNSYNCED: the new file is whole and in its place, but its folder could not be synced, so a power
   failure may bring the old one back. */
rc_status rc_file_write_atomic(const char *path, const void *data, size_t size);

/* The same in pieces: open, append any number of times, then commit or abort; both free the writer. A failed append
   sticks: later appends and the commit fail with it. abort(NULL) is fine. commit_new makes a file and never replaces
   one: if any file has the name by then, it stays, and the status is RC_IO. finish does everything that a commit does
   except the rename, and closes the file. A caller whose files must appear together finishes all of them before it
   commits the first. After a failed finish the caller aborts. */
typedef struct rc_file_writer rc_file_writer;
rc_status rc_file_writer_open(const char *path, rc_file_writer **writer);
rc_status rc_file_writer_append(rc_file_writer *writer, const void *data, size_t size);
rc_status rc_file_writer_finish(rc_file_writer *writer);
rc_status rc_file_writer_commit(rc_file_writer *writer);
rc_status rc_file_writer_commit_new(rc_file_writer *writer);
void rc_file_writer_abort(rc_file_writer *writer);
/* Appends a line; a callback for functions that print lines. The commit returns a failure. */
void rc_file_writer_line(void *writer, const char *text);

/* Makes the name of a file survive a power failure, for who gives names without a writer. RC_UNSYNCED as above. */
rc_status rc_file_sync_name(const char *path);

/* Can a file of that name be written, as far as can be told before there is anything to write? Makes a temporary file
   beside it and removes it. With replace false, RC_IO if any file has the name. */
rc_status rc_file_check(const char *path, bool replace);

/* Makes the folder, and those above it that are missing. Fine if it exists and can be written into.
   RC_INVALID_ARGUMENT: a file has the name, or a link that leads nowhere. */
rc_status rc_file_make_folder(const char *path);
/* The same answer, as far as it can be found out without making a folder. */
rc_status rc_file_check_folder(const char *path);

/* Removes the temporary files that killed processes left in a folder (not below it). The caller must be the only
   process that writes there: a file that another process is writing just now looks the same. */
rc_status rc_file_remove_leftovers(const char *folder);
/* Those that were to become the file `path`, alone. Without its folder there are none. */
rc_status rc_file_remove_leftovers_of(const char *path);

/* open() with O_CLOEXEC and mode 0666, close() and ftruncate(), for callers that keep a file open. They repeat a call
   that a signal cuts short. errno says what failed. */
int rc_file_open(const char *path, int flags);
int rc_file_close(int fd);
int rc_file_cut(int fd, off_t size);
int rc_file_sync(int fd);

#endif
