/* Optimisers: a list of ranges, each with its state. */
#include "nn/optimiser.h"

#include "base/memory.h"

const rc_adam rc_adam_default = {0.9f, 0.999f, 1e-8f};

enum { MAX_RANGES = 16, MAX_STATES = 2 };

typedef struct parameter_range {
    void *param;
    const void *gradient;
    size_t count;
    void *state[MAX_STATES];
    bool frozen;
} parameter_range;

struct rc_optimiser {
    rc_backend *backend;
    bool adam_kind;
    rc_sgd sgd;
    rc_adam adam;
    int ranges, states; /* states: arrays per range */
    parameter_range range[MAX_RANGES];
};

static rc_status create(rc_backend *backend, rc_optimiser settings, rc_optimiser **optimiser)
{
    *optimiser = rc_alloc_zeroed(NULL, 1, sizeof **optimiser);
    if (*optimiser == NULL)
        return RC_OUT_OF_MEMORY;
    **optimiser = settings;
    (*optimiser)->backend = backend;
    return RC_OK;
}

rc_status rc_optimiser_create_sgd(rc_backend *backend, const rc_sgd *settings, rc_optimiser **optimiser)
{
    *optimiser = NULL;
    if (!(settings->momentum >= 0 && settings->momentum < 1) || !(settings->weight_decay >= 0))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "SGD with momentum %g and weight decay %g, expected 0 to below 1 and 0 or "
                       "more",
                       (double)settings->momentum, (double)settings->weight_decay);
    return create(backend, (rc_optimiser){.sgd = *settings, .states = 1}, optimiser);
}

rc_status rc_optimiser_create_adam(rc_backend *backend, const rc_adam *settings, rc_optimiser **optimiser)
{
    *optimiser = NULL;
    if (!(settings->beta1 >= 0 && settings->beta1 < 1) || !(settings->beta2 >= 0 && settings->beta2 < 1) ||
        !(settings->eps > 0))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "Adam with beta1 %g, beta2 %g and eps %g, expected 0 to below 1, "
                       "0 to below 1 and more than 0",
                       (double)settings->beta1, (double)settings->beta2, (double)settings->eps);
    return create(backend, (rc_optimiser){.adam = *settings, .adam_kind = true, .states = 2}, optimiser);
}

static void release_states(rc_optimiser *optimiser, parameter_range *range)
{
    for (int i = 0; i < MAX_STATES; i++) {
        if (range->state[i] != NULL)
            optimiser->backend->release(optimiser->backend, range->state[i]);
    }
}

void rc_optimiser_destroy(rc_optimiser *optimiser)
{
    if (optimiser == NULL)
        return;
    for (int i = 0; i < optimiser->ranges; i++)
        release_states(optimiser, &optimiser->range[i]);
    rc_free(NULL, optimiser);
}

rc_status rc_optimiser_add(rc_optimiser *optimiser, void *param, const void *gradient, size_t count)
{
    rc_backend *be = optimiser->backend;
    size_t bytes;
    if (optimiser->ranges == MAX_RANGES)
        return rc_fail(RC_INVALID_ARGUMENT, "an optimiser has at most %d ranges", MAX_RANGES);
    if (param == NULL || gradient == NULL || count == 0 || !rc_size_mul(count, be->real_bytes, &bytes))
        return rc_fail(RC_INVALID_ARGUMENT, "range %d of an optimiser: %s, %zu parameters", optimiser->ranges,
                       param == NULL      ? "no parameters"
                       : gradient == NULL ? "no gradient"
                                          : "not a size",
                       count);
    parameter_range added = {.param = param, .gradient = gradient, .count = count};
    for (int i = 0; i < optimiser->states; i++) {
        rc_status status = be->alloc(be, bytes, &added.state[i]);
        if (status != RC_OK) {
            release_states(optimiser, &added);
            return status;
        }
    }
    optimiser->range[optimiser->ranges++] = added;
    return RC_OK;
}

void rc_optimiser_freeze(rc_optimiser *optimiser, int range, bool frozen)
{
    if (range >= 0 && range < optimiser->ranges)
        optimiser->range[range].frozen = frozen;
}

void rc_optimiser_step(rc_optimiser *optimiser, const rc_step *step)
{
    rc_backend *be = optimiser->backend;
    for (int i = 0; i < optimiser->ranges; i++) {
        const parameter_range *at = &optimiser->range[i];
        if (at->frozen)
            continue;
        if (optimiser->adam_kind)
            be->adam(be, &optimiser->adam, step, at->count, at->param, at->gradient, at->state[0], at->state[1]);
        else
            be->sgd(be, &optimiser->sgd, step, at->count, at->param, at->gradient, at->state[0]);
    }
}

void *rc_optimiser_state(rc_optimiser *optimiser, int range, int index, size_t *count)
{
    if (range < 0 || range >= optimiser->ranges || index < 0 || index >= optimiser->states)
        return NULL;
    *count = optimiser->range[range].count;
    return optimiser->range[range].state[index];
}

size_t rc_optimiser_bytes(const rc_optimiser *optimiser)
{
    size_t bytes = 0;
    for (int i = 0; i < optimiser->ranges; i++)
        bytes += optimiser->range[i].count * (size_t)optimiser->states * optimiser->backend->real_bytes;
    return bytes;
}
