/* Time for measuring: never goes backwards, has nothing to do with the calendar. */
#ifndef RC_BASE_CLOCK_H
#define RC_BASE_CLOCK_H

/* Seconds since some fixed moment in the past. */
double rc_now(void);

#endif
