/* Reads a log of a run, line by line, while another process may be writing it. A line that is no JSON object is
 * skipped: half a line of a killed process, or whatever somebody put there. */
#ifndef RC_EXPERIMENT_LOG_READER_H
#define RC_EXPERIMENT_LOG_READER_H

#include <stdbool.h>

#include "base/file.h"
#include "base/json.h"

/* The longest line that is read: some hundred bytes are usual, and 3000 for the line that describes the run. */
enum { RC_LOG_LINE = 1 << 20 };

typedef struct rc_log_reader {
    int fd; /* 0: closed */
    char path[RC_PATH_SIZE];
    char *text; /* (room) of which [next, end) is still to be cut into lines */
    size_t room, next, end;
    off_t place;   /* in the file, behind what was read */
    bool too_long; /* in the midst of a line that is skipped */
    int skipped;   /* lines */
} rc_log_reader;

rc_status rc_log_reader_open(rc_log_reader *reader, const char *path);
void rc_log_reader_close(rc_log_reader *reader); /* a zeroed one is fine */
/* The next line, to be freed; NULL: there is no whole one, yet. *again: the file has become shorter, because a run was
 * resumed, and is read from its beginning. */
rc_status rc_log_reader_next(rc_log_reader *reader, rc_json **line, bool *again);

/* Hands every line that a log has to `take`, until that fails. *skipped: lines that were none. If the log becomes
 * shorter meanwhile, its first lines come twice. */
rc_status rc_log_read(const char *path, rc_status (*take)(void *user, const rc_json *line), void *user, int *skipped);

#endif
