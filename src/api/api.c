/* The public interface: version, messages, contexts. Models are in api_model.c; what they do is in api_learn.c,
 * api_predict.c and api_dream.c. */
#include "recollect/recollect.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/memory.h"
#include "base/process.h"
#include "forecast/allowance.h"

#define RC_TEXT_OF(number)                   #number
#define RC_VERSION_TEXT(major, minor, patch) RC_TEXT_OF(major) "." RC_TEXT_OF(minor) "." RC_TEXT_OF(patch)

const char *recollect_version(void)
{
    return RC_VERSION_TEXT(RECOLLECT_VERSION_MAJOR, RECOLLECT_VERSION_MINOR, RECOLLECT_VERSION_PATCH);
}

int recollect_api_version(void)
{
    return RECOLLECT_API_VERSION;
}

const char *recollect_status_text(recollect_status status)
{
    switch (status) {
#define RC_STATUS_CASE(name, text) \
    case RECOLLECT_##name: return text;
        RECOLLECT_STATUS_LIST(RC_STATUS_CASE)
#undef RC_STATUS_CASE
    }
    return "unknown status";
}

const char *recollect_last_message(void)
{
    return rc_message();
}

void recollect_free(void *block)
{
    rc_free(NULL, block);
}

/* ---- what every function does -------------------------------------------------------------------------- */

rc_status rc_api_is_null(const char *name, const char *expected)
{
    return rc_fail(RC_INVALID_ARGUMENT, "%s is NULL, expected %s", name, expected);
}

void rc_api_begin_alone(void)
{
    rc_clear_message();
    rc_memory_set_budget(rc_memory_allowed(0));
}

/* What everything with a context begins with, beside other threads too. */
static rc_status begin_beside(const recollect_context *context)
{
    rc_clear_message();
    if (context == NULL)
        return rc_api_is_null("context", "one from recollect_context_create");
    if (!rc_process_is(context->process))
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the context was made before fork(), in the parent of this process, and so were its "
                       "threads; make one here with recollect_context_create");
    rc_memory_set_budget(context->allowed);
    return RC_OK;
}

static rc_status check_idle(const recollect_context *context)
{
    return context->busy ? rc_fail(RC_INVALID_ARGUMENT, "called from inside a callback of the same context") : RC_OK;
}

rc_status rc_api_begin(const recollect_context *context)
{
    RC_TRY(begin_beside(context));
    return check_idle(context);
}

rc_status rc_api_begin_beside(const recollect_model *model)
{
    rc_clear_message();
    if (model == NULL)
        return rc_api_is_null("model", "one from recollect_model_create or recollect_model_load");
    return begin_beside(model->context);
}

void rc_api_allow(const recollect_model *model)
{
    const recollect_context *context = model->context;
    rc_memory_set_budget(rc_memory_allowed_for(context->allowed, context->settings.max_memory,
                                               model->saved.file_bytes));
}

rc_status rc_api_begin_model(const recollect_model *model)
{
    RC_TRY(rc_api_begin_beside(model));
    RC_TRY(check_idle(model->context));
    rc_api_allow(model);
    return RC_OK;
}

rc_status rc_api_end(rc_status status)
{
    if (status == RC_OK)
        rc_clear_message(); /* of something that was tried on the way */
    else if (rc_message()[0] == '\0')
        return rc_fail(status, "%s", recollect_status_text(status));
    return status;
}

/* ---- settings ------------------------------------------------------------------------------------------ */

/* Bytes of the first version of the structure, which every caller knows. */
static const size_t first_settings = RC_API_FIRST(recollect_settings, user);

static const recollect_settings defaults = {
    .size = sizeof(recollect_settings), .backend = "cpu", .log_level = RECOLLECT_LOG_INFO};

void recollect_settings_default(recollect_settings *settings, size_t size)
{
    if (settings == NULL || size < first_settings)
        return;
    memset(settings, 0, size);
    memcpy(settings, &defaults, size < sizeof defaults ? size : sizeof defaults);
    settings->size = size;
}

/* The caller's settings over the defaults, as much of them as both know. */
static rc_status take_settings(const recollect_settings *given, recollect_settings *settings)
{
    static const size_t absurd = 65536; /* no version will ever be that large: the caller forgot
                                           recollect_settings_default */
    *settings = defaults;
    if (given == NULL)
        return RC_OK;
    if (given->size < first_settings || given->size > absurd)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "the settings' size is %zu, expected %zu: call recollect_settings_default first", given->size,
                       sizeof *settings);
    memcpy(settings, given, given->size < sizeof *settings ? given->size : sizeof *settings);
    settings->size = sizeof *settings;
    if (settings->backend == NULL)
        return rc_api_is_null("backend", "\"cpu\" or \"cuda\"");
    if (strlen(settings->backend) >= sizeof((recollect_context *)NULL)->backend_name)
        return rc_fail(RC_INVALID_ARGUMENT, "backend is '%.64s...', expected less than %zu bytes", settings->backend,
                       sizeof((recollect_context *)NULL)->backend_name);
    if (settings->threads < 0 || settings->threads > 1024)
        return rc_fail(RC_INVALID_ARGUMENT, "threads is %d, expected 0 (all cores) to 1024", settings->threads);
    if ((settings->allocator.alloc == NULL) != (settings->allocator.free == NULL))
        return rc_fail(RC_INVALID_ARGUMENT, "the allocator has one of alloc and free, expected both or neither");
    int level = (int)settings->log_level;
    if (level < RECOLLECT_LOG_DEBUG || level > RECOLLECT_LOG_ERROR)
        return rc_fail(RC_INVALID_ARGUMENT, "log_level is %d, expected %d to %d", level, RECOLLECT_LOG_DEBUG,
                       RECOLLECT_LOG_ERROR);
    return RC_OK;
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

/* A callback may call the library with another context, which sets the budget of this thread. */

static void write_log(void *user, int level, const char *text)
{
    const recollect_settings *s = &((recollect_context *)user)->settings;
    size_t budget = rc_memory_budget();
    s->log(s->user, (recollect_log_level)level, text);
    rc_memory_set_budget(budget);
}

static bool ask_cancelled(void *user)
{
    const recollect_settings *s = &((recollect_context *)user)->settings;
    size_t budget = rc_memory_budget();
    bool cancelled = s->cancelled(s->user) != 0;
    rc_memory_set_budget(budget);
    return cancelled;
}

static void give_progress(void *user, const char *where, const recollect_progress *progress)
{
    const recollect_settings *s = &((recollect_context *)user)->settings;
    size_t budget = rc_memory_budget();
    (void)where; /* a call has no others beside it */
    s->progress(s->user, progress);
    rc_memory_set_budget(budget);
}

/* ---- contexts ------------------------------------------------------------------------------------------ */

static rc_status open_context(recollect_context *c)
{
    const recollect_settings *s = &c->settings;
    c->watch = (rc_watch){.log = {.level = (int)s->log_level, .user = c}, .user = c};
    if (s->log != NULL)
        c->watch.log.write = write_log;
    if (s->progress != NULL)
        c->watch.progress = give_progress;
    if (s->cancelled != NULL)
        c->watch.cancelled = ask_cancelled;
    snprintf(c->backend_name, sizeof c->backend_name, "%s", s->backend); /* the caller's text may not live as long */
    c->settings.backend = c->backend_name;
    rc_allocator memory = {s->allocator.alloc, s->allocator.free, s->allocator.user};
    return rc_backend_open_with(c->backend_name, s->threads, &c->watch.log, memory.alloc != NULL ? &memory : NULL,
                                &c->backend);
}

recollect_status recollect_context_create(const recollect_settings *settings, recollect_context **context)
{
    rc_clear_message();
    if (context == NULL)
        return rc_api_is_null("context", "where to put the new one");
    *context = NULL;
    recollect_settings taken;
    RC_TRY(take_settings(settings, &taken));
    /* The caller's allocator has memory of its own, about which the machine knows nothing. */
    bool own = taken.allocator.alloc != NULL && taken.max_memory == 0;
    size_t allowed = own ? SIZE_MAX : rc_memory_allowed(taken.max_memory);
    rc_memory_set_budget(allowed);
    recollect_context *c = rc_alloc_zeroed(NULL, 1, sizeof *c);
    if (c == NULL)
        return rc_api_end(RC_OUT_OF_MEMORY);
    c->settings = taken;
    c->allowed = allowed;
    c->holders = 1;
    rc_status status = rc_process_mark(&c->process);
    if (status == RC_OK)
        status = open_context(c);
    if (status == RC_OK)
        *context = c;
    else
        rc_free(NULL, c);
    return rc_api_end(status);
}

bool rc_api_is_parents(const recollect_context *context)
{
    return !rc_process_is(context->process) && (context->busy || !context->backend->about.survives_fork);
}

void rc_api_enter(recollect_context *context)
{
    context->busy = true;
    context->before = rc_stop_swap(rc_watch_stop(&context->watch));
    atomic_fetch_add(&context->holders, 1);
}

void rc_api_leave(recollect_context *context)
{
    recollect_model *doomed = context->doomed;
    context->busy = false;
    context->doomed = NULL;
    rc_stop_swap(context->before);
    while (doomed != NULL) {
        recollect_model *next = doomed->next_doomed;
        rc_api_release_model(doomed);
        doomed = next;
    }
    rc_api_release_context(context);
}

void rc_api_release_context(recollect_context *context)
{
    if (atomic_fetch_sub(&context->holders, 1) > 1)
        return;
    rc_backend_close(context->backend);
    rc_free(NULL, context);
}

void recollect_context_destroy(recollect_context **context)
{
    if (context == NULL || *context == NULL)
        return;
    recollect_context *c = *context;
    *context = NULL;
    if (!rc_api_is_parents(c))
        rc_api_release_context(c);
}
