/* Time for measuring: never goes backwards, has nothing to do with the calendar. And the calendar's. */
#ifndef RC_BASE_CLOCK_H
#define RC_BASE_CLOCK_H

/* Seconds since some fixed moment in the past. */
double rc_now(void);

/* Seconds since 1970, UTC, to the millisecond: for people and logs. */
double rc_time(void);

#endif
