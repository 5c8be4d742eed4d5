/* What of a folder is not read, and why: counted by kind, and the first ones by name, for the log. */
#ifndef RC_DATA_LEFT_OUT_H
#define RC_DATA_LEFT_OUT_H

#include "base/log.h"
#include "base/status.h"

enum { RC_LEFT_OUT_NAMED = 10, RC_LEFT_OUT_KINDS = 40 };

typedef struct rc_left_out {
    int count;    /* files, folders and links that somebody might miss */
    int harmless; /* files that nobody would take for pictures; not among them */
    struct rc_left_out_kind {
        const char *name; /* a text that stays */
        int count;
    } kind[RC_LEFT_OUT_KINDS];
    int kinds;
    char *line[RC_LEFT_OUT_NAMED]; /* the first ones: "photos/a.heic (HEIC; convert it: ...)" */
    int lines;
    char *latest;         /* the last one that was added */
    char *first_harmless; /* path */
} rc_left_out;

/* Start with a cleared one. kind: one or two words for the count, which must stay valid; reason: what stands behind the
 * path in brackets. */
rc_status rc_left_out_add(rc_left_out *left, const char *path, const char *kind, const char *reason);
rc_status rc_left_out_add_harmless(rc_left_out *left, const char *path);
void rc_left_out_tell(const rc_left_out *left, const rc_log *log);
void rc_left_out_free(rc_left_out *left); /* a cleared one is fine */

#endif
