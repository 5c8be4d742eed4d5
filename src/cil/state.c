#include "cil/state.h"

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
