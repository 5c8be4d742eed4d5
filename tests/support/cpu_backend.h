/* The CPU backend with two threads, opened and closed once for a group of tests: open_backend and close_backend are the
 * group's set-up and tear-down. */
#ifndef RC_TESTS_SUPPORT_CPU_BACKEND_H
#define RC_TESTS_SUPPORT_CPU_BACKEND_H

#include "backend/backend.h"

static rc_backend *be;

static int open_backend(void **state)
{
    (void)state;
    return rc_backend_open("cpu", 2, NULL, &be) == RC_OK ? 0 : -1;
}

static int close_backend(void **state)
{
    (void)state;
    rc_backend_close(be);
    return 0;
}

#endif
