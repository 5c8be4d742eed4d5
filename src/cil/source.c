#include "cil/sources.h"

#include "base/memory.h"
#include "cil/learner.h"

static rc_status allocate(const rc_source_kind *kind, rc_source **source)
{
    *source = rc_alloc_zeroed(NULL, 1, kind->size > 0 ? kind->size : sizeof **source);
    if (*source == NULL)
        return RC_OUT_OF_MEMORY;
    (*source)->kind = kind;
    return RC_OK;
}

/* Passes the status on; after a failure there is no source. */
static rc_status keep_if(rc_status status, rc_source **source)
{
    if (status != RC_OK) {
        rc_source_destroy(*source);
        *source = NULL;
    }
    return status;
}

rc_status rc_source_create(const rc_source_kind *kind, const rc_learner *l, const rc_settings *settings,
                           const rc_method *method, rc_source **source)
{
    RC_TRY(allocate(kind, source));
    return kind->configure != NULL ? keep_if(kind->configure(*source, l, settings, method), source) : RC_OK;
}

rc_status rc_source_clone(const rc_learner *l, rc_source **copy)
{
    const rc_source_kind *kind = l->source->kind;
    if (kind->clone == NULL)
        return rc_source_create(kind, l, &l->settings, l->method, copy);
    RC_TRY(allocate(kind, copy));
    return keep_if(kind->clone(*copy, l->source), copy);
}

void rc_source_destroy(rc_source *source)
{
    if (source == NULL)
        return;
    if (source->kind->destroy != NULL)
        source->kind->destroy(source);
    rc_buffer_destroy(&source->images);
    rc_free(NULL, source);
}

void rc_replay_destroy(rc_replay *replay)
{
    if (replay != NULL)
        replay->table->destroy(replay);
}

const rc_source_kind rc_source_none = {.keeps = "nothing", .data_free = true};
