#include "cil/objective.h"

const char *rc_loss_name(int loss)
{
#define NAME(identifier, key, name) name,
    static const char *const names[] = {RC_LOSSES(NAME)};
#undef NAME
    return names[loss];
}

const char *rc_loss_key(int loss)
{
#define KEY(identifier, key, name) key,
    static const char *const keys[] = {RC_LOSSES(KEY)};
#undef KEY
    return keys[loss];
}

size_t rc_losses_bytes(const rc_backend *be)
{
    size_t bytes = RC_LOSS_COUNT * be->real_bytes + RC_ALIGNMENT - 1;
    return bytes - bytes % RC_ALIGNMENT;
}

void *rc_losses_take(const rc_backend *be, rc_arena *arena, size_t rows, int32_t **labels)
{
    char *block = rc_arena_take(arena, rc_losses_bytes(be) + rows * sizeof **labels);
    *labels = block != NULL ? (int32_t *)(void *)(block + rc_losses_bytes(be)) : NULL;
    return block;
}

void rc_stage_set_losses(const rc_stage_loss *losses, size_t count, float weight[RC_LOSS_COUNT],
                         bool active[RC_LOSS_COUNT])
{
    for (int i = 0; i < RC_LOSS_COUNT; i++) {
        weight[i] = 0;
        active[i] = false;
    }
    for (size_t i = 0; i < count; i++) {
        weight[losses[i].loss] = losses[i].active ? (float)losses[i].weight : 0;
        active[losses[i].loss] = losses[i].active;
    }
}
