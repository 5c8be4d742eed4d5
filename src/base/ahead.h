/* Reading ahead: a thread that asks the system for the pages of a mapped file some time before somebody reads them, in
 * the order in which they will be read. It only asks: nothing waits for it, and nothing depends on what it did. */
#ifndef RC_BASE_AHEAD_H
#define RC_BASE_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rc_ahead rc_ahead;

/* The file is mapped at `from`, and holds records of so many bytes. */
rc_status rc_ahead_create(const uint8_t *from, size_t record, rc_ahead **ahead);
/* Ends the thread; NULL is fine. In a child of fork() there is no thread to end. */
void rc_ahead_destroy(rc_ahead *ahead);

/* These records will be read from now on; a copy is taken. What was said before counts no more. */
rc_status rc_ahead_expect(rc_ahead *ahead, const int32_t *order, size_t count);
/* So many of them have been read. Never waits for the disk. */
void rc_ahead_reached(rc_ahead *ahead, size_t read);
/* How many of them the thread has asked for so far: at most what was reached, and as many as 32 MiB hold. */
size_t rc_ahead_asked(rc_ahead *ahead);

#endif
