#include "cil/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

rc_status rc_state_add(rc_state *state, const char *name, rc_state_type type, void *memory, size_t count)
{
    if (state->entries == RC_STATE_MAX)
        return rc_fail(RC_INTERNAL, "no room for '%s': a state has at most %d tensors", name, RC_STATE_MAX);
    if (strlen(name) >= RC_STATE_NAME)
        return rc_fail(RC_INTERNAL, "the name '%s' is longer than %d characters", name, RC_STATE_NAME - 1);
    for (int i = 0; i < state->entries; i++)
        if (strcmp(state->entry[i].name, name) == 0)
            return rc_fail(RC_INTERNAL, "the state has a tensor '%s' already", name);
    rc_state_entry *entry = &state->entry[state->entries++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->type = type;
    entry->memory = memory;
    entry->count = count;
    return RC_OK;
}

void rc_state_rewind(rc_state *state, int entries)
{
    if (entries < state->entries)
        state->entries = entries;
}

/* A piece of a tensor, seen from the host. */
static rc_status check_piece(const rc_state_entry *entry, const float *value, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(value[i]))
            return rc_fail(RC_NUMERIC, "number %zu of %s is %g", first + i, entry->name, (double)value[i]);
    return RC_OK;
}

rc_status rc_state_check(rc_backend *backend, const rc_state *state)
{
    enum { PIECE = 4096 };
    float value[PIECE] = {0};
    RC_TRY(backend->sync(backend));
    for (int i = 0; i < state->entries; i++) {
        const rc_state_entry *entry = &state->entry[i];
        for (size_t first = 0; entry->type == RC_STATE_REAL && first < entry->count; first += PIECE) {
            size_t count = entry->count - first < PIECE ? entry->count - first : PIECE;
            backend->read_real(backend, value, rc_real_at(backend, entry->memory, first), count);
            RC_TRY(check_piece(entry, value, first, count));
        }
    }
    return backend->sync(backend);
}
