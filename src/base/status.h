/* Status codes, as the rest of the code spells them, and the message that goes with the last failure. */
#ifndef RC_BASE_STATUS_H
#define RC_BASE_STATUS_H

#include "recollect/recollect.h"

typedef recollect_status rc_status;

/* Short names for the public codes. Macros, because a second enum would be a second type; a test walks the public
   list and does not compile when one is missing here. */
#define RC_OK               RECOLLECT_OK
#define RC_INVALID_ARGUMENT RECOLLECT_INVALID_ARGUMENT
#define RC_OUT_OF_MEMORY    RECOLLECT_OUT_OF_MEMORY
#define RC_IO               RECOLLECT_IO
#define RC_FORMAT           RECOLLECT_FORMAT
#define RC_UNSUPPORTED      RECOLLECT_UNSUPPORTED
#define RC_NUMERIC          RECOLLECT_NUMERIC
#define RC_CANCELLED        RECOLLECT_CANCELLED
#define RC_INTERNAL         RECOLLECT_INTERNAL
#define RC_DEVICE           RECOLLECT_DEVICE
#define RC_UNSYNCED         RECOLLECT_UNSYNCED

/* Messages longer than this are cut. A message is one line: rc_fail escapes control characters in it
   (rc_utf8_escape), wherever they come from. */
#define RC_MESSAGE_SIZE 1024

/* Stores the message of this thread and returns `code`, so that a failure is one line:
       return rc_fail(RC_INVALID_ARGUMENT, "threads is %d, expected 0 or more", threads);
   The arguments may include rc_message() itself, to put context around an earlier failure. (A macro, so that the
   compiler sees the code come back, and knows that what follows an RC_TRY has its values set.) */
#define rc_fail(code, ...) rc_fail_with_(code, rc_set_message(__VA_ARGS__))

int rc_set_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline rc_status rc_fail_with_(rc_status code, int length)
{
    (void)length;
    return code;
}

/* The message of the last rc_fail on this thread, "" if there is none; valid until the next rc_fail. */
const char *rc_message(void);
void rc_clear_message(void);

/* Returns from the calling function if `expr`, an rc_status, is a failure. */
#define RC_TRY(expr) \
    do { \
        rc_status rc_try_status_ = (expr); \
        if (rc_try_status_ != RC_OK) \
            return rc_try_status_; \
    } while (0)

#endif
