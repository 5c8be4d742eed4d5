/* Finds what was probably meant. */
#ifndef RC_BASE_NEAREST_H
#define RC_BASE_NEAREST_H

/* The candidate nearest to a mistyped name, for messages; NULL if none is near. `candidate(context, i)` returns
 * candidate i, NULL when there are no more. */
const char *rc_nearest(const char *name, const char *(*candidate)(const void *context, int index), const void *context);

#endif
