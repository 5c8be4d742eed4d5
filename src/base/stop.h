/*
 * How long work is stopped in its midst. A thread that begins a call says whom to ask (rc_stop_swap). What runs on that
 * thread asks as it goes (rc_stop_poll): loops of rc_pool_run between their tasks, loops over images between these.
 * From the moment that the answer is final, loops skip what is left, and results are worth nothing. Whoever wanted them
 * finds out by rc_stopped(), which the CPU backend's sync() and repeat() look at.
 *
 * Work that looks at the caller's wish by itself, between steps, does so at a place where it can save what it has. So
 * the wish becomes final only RC_STOP_GRACE seconds after it was first heard.
 */
#ifndef RC_BASE_STOP_H
#define RC_BASE_STOP_H

#include <stdbool.h>

#define RC_STOP_GRACE 0.5

/* Whom to ask. A zeroed one: nobody, nothing stops. */
typedef struct rc_stop {
    bool (*wanted)(void *user);
    void *user;
    bool patient; /* the wish never becomes final: others wait for what this thread is doing */
    /* What follows is for stop.c. */
    double asked, heard; /* clock: when it was asked last, when the first yes came; 0: never */
    bool final;
} rc_stop;

/* This thread asks `next` from here on. Returns whom it asked before, to be put back at the end of the call. */
rc_stop rc_stop_swap(rc_stop next);

/* Is it to stop for good? Asks, on this thread, every few milliseconds at most; a single yes counts. Cheap enough to be
   called thousands of times a second. */
bool rc_stop_poll(void);

/* The same without asking. */
bool rc_stopped(void);

/* Was there a yes, though it may not be final yet? Asks as rc_stop_poll does. For work that can end at a good place. */
bool rc_stop_heard(void);

#endif
