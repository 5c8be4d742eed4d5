#include "base/clock.h"

#include <math.h>
#include <time.h>

double rc_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double rc_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + floor(1e-6 * (double)now.tv_nsec) / 1000;
}
