/* Memory by lifetime: buffers that are never in use at the same time share it. Time is counted in steps. */
#ifndef RC_NN_PASS_PLAN_H
#define RC_NN_PASS_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct rc_plan_buffer {
    size_t bytes;
    int first, last; /* steps between which it is in use; first > last: never */
    size_t offset;   /* rc_plan_place() sets it */
} rc_plan_buffer;

typedef struct rc_plan {
    rc_plan_buffer *buffer; /* the caller's memory, as is `order` */
    int *order;             /* as many ints */
    int count;
    size_t bytes;      /* of the block that holds them all */
    size_t kept_bytes; /* of its beginning, where those are that are in use all the time, and no others */
} rc_plan;

/* Number of the new buffer. The caller has made room for as many as it adds. */
int rc_plan_add(rc_plan *plan, size_t bytes);
/* The buffer is in use at that step: its contents live from the first such step to the last. */
void rc_plan_use(rc_plan *plan, int buffer, int step);
/* In use all the time. */
void rc_plan_keep(rc_plan *plan, int buffer);

/* Sets all offsets, multiples of RC_ALIGNMENT, and `bytes`. */
rc_status rc_plan_place(rc_plan *plan);

/* Do two placed buffers share memory? */
bool rc_plan_overlap(const rc_plan *plan, int a, int b);

#endif
