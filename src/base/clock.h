/* Time for measuring: never goes backwards, has nothing to do with the calendar. And the calendar's. */
#ifndef RC_BASE_CLOCK_H
#define RC_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>

/* Seconds since some fixed moment in the past. */
double rc_now(void);

/* Seconds since 1970, UTC, to the millisecond: for people and logs. */
double rc_time(void);

/* A condition for rc_clock_wait, which waits for it or until so many seconds have gone by, however the calendar's time
 * is changed meanwhile. False: they have. */
void rc_clock_condition(pthread_cond_t *condition);
bool rc_clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double seconds);

#endif
