/* What is made from the log of a cell, line by line: scalars.csv, and a file for TensorBoard (docs/logs.md). Nothing
 * reads them back. When a process takes the cell over, it makes both anew from the lines that are kept. */
#ifndef RC_EXPERIMENT_LOG_TABLES_H
#define RC_EXPERIMENT_LOG_TABLES_H

#include "base/file.h"
#include "base/json.h"

/* A file that is written bit by bit and stays open; fd 0: closed. */
typedef struct rc_log_file {
    int fd;
    char path[RC_PATH_SIZE];
} rc_log_file;

/* flags: as open() takes them, besides O_CREAT and O_APPEND. */
rc_status rc_log_file_open(rc_log_file *file, const char *path, int flags);
void rc_log_file_close(rc_log_file *file); /* a zeroed one is fine */
rc_status rc_log_file_write(rc_log_file *file, const void *data, size_t size);
rc_status rc_log_file_sync(rc_log_file *file); /* what was written survives a power failure */

typedef struct rc_log_tables {
    rc_log_file scalars, events;
    char folder[RC_PATH_SIZE];
} rc_log_tables;

/* Begins both in the folder of the cell and adds what the log has. time: now, in seconds since 1970. */
rc_status rc_log_tables_open(rc_log_tables *tables, const char *folder, const char *log, double time);
void rc_log_tables_close(rc_log_tables *tables); /* a zeroed one is fine */
rc_status rc_log_tables_add(rc_log_tables *tables, const rc_json *line);

#endif
