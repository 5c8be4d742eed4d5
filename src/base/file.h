/* Whole files in, whole files out. A file is either the old one or the new one, never half of the new one. */
#ifndef RC_BASE_FILE_H
#define RC_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Opens a regular file for reading, and tells its size. Pipes, devices and folders are refused, and nobody is waited
   for: they may hold anything, without an end. Everything that is read comes through here. */
rc_status rc_file_open_regular(const char *path, int *fd, uint64_t *size);

/* Reads all of `path` into a new block, with a zero byte after the last one that *size does not count. Files of more
   than `limit` bytes are refused, before memory is taken where the file system tells it. Free *data with
   rc_free(NULL, ...); on failure it is NULL. */
rc_status rc_file_read(const char *path, size_t limit, char **data, size_t *size);

/* A regular file piece by piece, so that its beginning can be looked at before memory is taken for the rest. *size: all
   of it, as the file system tells. take: the next bytes, so many or a failure. close(NULL) is fine. */
typedef struct rc_file_reader rc_file_reader;
rc_status rc_file_reader_open(const char *path, rc_file_reader **reader, size_t *size);
rc_status rc_file_reader_take(rc_file_reader *reader, void *data, size_t size);
void rc_file_reader_close(rc_file_reader *reader);

/* Is there anything of that name? */
bool rc_file_exists(const char *path);

/* Makes or replaces the regular file `path`: writes a temporary file beside it, syncs, renames, syncs the folder. On
   failure the old file, if any, is as it was, and the temporary one is gone. (A process that is killed may leave its
   temporary file behind: "path.tmp-" and two numbers. It is in nobody's way.) What is replaced keeps its mode and,
   where that is allowed, its owner; a link stays, and the file that it leads to is replaced. RC_UNSYNCED: the file is
   the new one, whole and in its place, but the folder could not be synced, so that a power failure may bring the old
   one back. */
rc_status rc_file_write_atomic(const char *path, const void *data, size_t size);

/* The same in pieces: open, append any number of times, then commit or abort; both free the writer. A failed
   append sticks: later appends and the commit fail with it. abort(NULL) is fine. commit_new makes a file and replaces
   none: what has the name by then, whoever made it, stays, and the status is RC_IO. finish does what a commit does but
   for the name, and closes the file: where many are to appear together, the first is committed once the last is
   finished. What could not be finished is to be aborted. */
typedef struct rc_file_writer rc_file_writer;
rc_status rc_file_writer_open(const char *path, rc_file_writer **writer);
rc_status rc_file_writer_append(rc_file_writer *writer, const void *data, size_t size);
rc_status rc_file_writer_finish(rc_file_writer *writer);
rc_status rc_file_writer_commit(rc_file_writer *writer);
rc_status rc_file_writer_commit_new(rc_file_writer *writer);
void rc_file_writer_abort(rc_file_writer *writer);
/* Appends a line, as a callback for printers of lines: a failure comes out of the commit. */
void rc_file_writer_line(void *writer, const char *text);

/* Can a file of that name be written, as far as can be told before there is anything to write? A temporary file is made
   beside it and removed. Not replace: RC_IO if anything has the name. */
rc_status rc_file_check(const char *path, bool replace);

/* Makes the folder, and those above it that are missing. Fine if it is there and can be written into.
   RC_INVALID_ARGUMENT: a file is, or a link that leads nowhere. */
rc_status rc_file_make_folder(const char *path);
/* The same answer as far as it can be had without making any. */
rc_status rc_file_check_folder(const char *path);

/* Removes the temporary files that killed processes left in a folder (not below it). Only for whoever is alone in it:
   the file that another process is just writing looks the same. */
rc_status rc_file_remove_leftovers(const char *folder);

/* open() with O_CLOEXEC and mode 0666, close() and ftruncate() for those who keep a file open: a signal that cuts a
   call short is no failure. errno says what one was. */
int rc_file_open(const char *path, int flags);
int rc_file_close(int fd);
int rc_file_cut(int fd, off_t size);

#endif
