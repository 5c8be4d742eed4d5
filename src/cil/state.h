/* A checkpoint is a list of named tensors, taken at a step boundary: everything that a step changes is registered
 * here by name. Memory is the backend's; the code that registers it keeps it alive. */
#ifndef RC_CIL_STATE_H
#define RC_CIL_STATE_H

#include "backend/backend.h"

typedef enum rc_state_type { RC_STATE_REAL, RC_STATE_INT32 } rc_state_type;

enum { RC_STATE_MAX = 64, RC_STATE_NAME = 64 };

typedef struct rc_state_entry {
    char name[RC_STATE_NAME]; /* "student.param" */
    rc_state_type type;
    void *memory; /* backend memory */
    size_t count;
} rc_state_entry;

typedef struct rc_state {
    rc_state_entry entry[RC_STATE_MAX];
    int entries;
} rc_state;

/* Fails when the list is full or the name is taken. */
rc_status rc_state_add(rc_state *state, const char *name, rc_state_type type, void *memory, size_t count);
/* Forgets the entries from number `entries` on: what a stage registered when it began. */
void rc_state_rewind(rc_state *state, int entries);

/* Is every number finite? RC_NUMERIC with the tensor's name if not. Waits for the backend. */
rc_status rc_state_check(rc_backend *backend, const rc_state *state);

#endif
