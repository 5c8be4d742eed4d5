/* A backend that breaks down: from one copy between host and device on nothing is copied, and every wait says so. */
#ifndef RC_TESTS_SUPPORT_BROKEN_DEVICE_H
#define RC_TESTS_SUPPORT_BROKEN_DEVICE_H

#include "backend/backend.h"

/* Runs the call twice as it is, which must succeed, and then once for each of its copies, with that one the first to be
 * lost: then it must return RC_INTERNAL. At the end the backend is whole again. */
void breakdowns_are_told(rc_backend *be, const char *name, rc_status (*call)(void *context), void *context);

#endif
