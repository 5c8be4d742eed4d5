/* First fit: what is always in use first, then the largest buffers. For the nets of this project that comes within a
 * few percent of the peak of live memory. */
#include "nn/pass_plan.h"

#include <limits.h>
#include <string.h>

#include "base/memory.h"

int rc_plan_add(rc_plan *plan, size_t bytes)
{
    plan->buffer[plan->count] = (rc_plan_buffer){.bytes = bytes, .first = INT_MAX, .last = -1};
    return plan->count++;
}

void rc_plan_use(rc_plan *plan, int buffer, int step)
{
    rc_plan_buffer *used = &plan->buffer[buffer];
    used->first = step < used->first ? step : used->first;
    used->last = step > used->last ? step : used->last;
}

void rc_plan_keep(rc_plan *plan, int buffer)
{
    plan->buffer[buffer].first = 0;
    plan->buffer[buffer].last = INT_MAX;
}

/* Inserts the buffer at `order[place]` into the sorted part before it, where `before(a, b)` says which comes first. */
static void insert_sorted(rc_plan *plan, int place, bool (*before)(const rc_plan_buffer *, const rc_plan_buffer *))
{
    int moved = plan->order[place];
    while (place > 0 && before(&plan->buffer[moved], &plan->buffer[plan->order[place - 1]])) {
        plan->order[place] = plan->order[place - 1];
        place--;
    }
    plan->order[place] = moved;
}

static bool is_kept(const rc_plan_buffer *buffer)
{
    return buffer->first == 0 && buffer->last == INT_MAX;
}

static bool sooner(const rc_plan_buffer *a, const rc_plan_buffer *b)
{
    return is_kept(a) != is_kept(b) ? is_kept(a) : a->bytes > b->bytes;
}

static bool lower(const rc_plan_buffer *a, const rc_plan_buffer *b)
{
    return a->offset < b->offset;
}

rc_status rc_plan_place(rc_plan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        size_t *bytes = &plan->buffer[i].bytes;
        if (!rc_size_add(*bytes, RC_ALIGNMENT - 1, bytes))
            return rc_fail(RC_OUT_OF_MEMORY, "a pass needs more memory than this machine can address");
        *bytes -= *bytes % RC_ALIGNMENT;
        plan->order[i] = i;
        insert_sorted(plan, i, sooner);
    }
    plan->bytes = plan->kept_bytes = 0;
    for (int i = 0; i < plan->count; i++) { /* order[0 .. i) has been placed and is sorted by offset */
        rc_plan_buffer *placed = &plan->buffer[plan->order[i]];
        placed->offset = 0;
        size_t end = 0;
        for (int j = 0; j <= i; j++) {
            const rc_plan_buffer *other = &plan->buffer[plan->order[j]];
            bool together = other->first <= placed->last && placed->first <= other->last;
            if (j < i && !together)
                continue;
            if (!rc_size_add(placed->offset, placed->bytes, &end))
                return rc_fail(RC_OUT_OF_MEMORY, "a pass needs more memory than this machine can address");
            if (j == i || end <= other->offset)
                break;
            if (other->offset + other->bytes > placed->offset)
                placed->offset = other->offset + other->bytes;
        }
        plan->bytes = end > plan->bytes ? end : plan->bytes;
        if (is_kept(placed))
            plan->kept_bytes = plan->bytes;
        insert_sorted(plan, i, lower);
    }
    return RC_OK;
}

bool rc_plan_overlap(const rc_plan *plan, int a, int b)
{
    const rc_plan_buffer *first = &plan->buffer[a], *second = &plan->buffer[b];
    return first->offset < second->offset + second->bytes && second->offset < first->offset + first->bytes;
}
