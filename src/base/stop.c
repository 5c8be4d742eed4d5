#include "base/stop.h"

#include <time.h>

#define ASK_SECONDS 0.02

static _Thread_local rc_stop current;

/* A clock that is read in a few nanoseconds and moves every few milliseconds. */
static double coarse_now(void)
{
    struct timespec now;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

rc_stop rc_stop_swap(rc_stop next)
{
    rc_stop before = current;
    current = next;
    return before;
}

bool rc_stopped(void)
{
    return current.final;
}

bool rc_stop_heard(void)
{
    if (current.wanted == NULL || current.heard > 0)
        return current.heard > 0;
    double now = coarse_now();
    if (now - current.asked < ASK_SECONDS)
        return false;
    current.asked = now;
    if (current.wanted(current.user))
        current.heard = now;
    return current.heard > 0;
}

bool rc_stop_poll(void)
{
    if (!current.final && !current.patient && rc_stop_heard())
        current.final = coarse_now() - current.heard >= RC_STOP_GRACE;
    return current.final;
}
