/* Opens backends by name. */
#include "backend/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open.h"

/* ---- what a user asks for ---------------------------------------------------------------------------------------- */

typedef struct kind {
    const char *name;
    const char *precision[2]; /* those it has; the first is the one that it takes by itself */
    bool module;              /* a device with memory of its own, in a module of its own */
    bool listed;              /* in rc_backend_name_at */
} kind;

static const kind kinds[] = {
    {"cpu", {"fp32"}, false, true},
    {"cuda", {"bf16", "fp32"}, true, true},
    {"reference", {"fp32"}, false, true},
    {"reference64", {"fp64"}, false, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct request {
    const kind *kind;
    rc_module_settings settings;
} request;

const char *rc_backend_name_at(int index)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].listed && index-- == 0)
            return kinds[i].name;
    return NULL;
}

static bool is_text(const char *text, const char *from, size_t length)
{
    return strlen(text) == length && memcmp(text, from, length) == 0;
}

static rc_status fail_unknown(const char *text)
{
    char names[64] = "";
    for (int i = 0; i < KINDS; i++) {
        size_t length = strlen(names);
        const char *between = i == 0 ? "" : i == KINDS - 1 ? " or " : ", ";
        snprintf(names + length, sizeof names - length, "%s%s", between, kinds[i].name);
    }
    return rc_fail(RC_INVALID_ARGUMENT, "unknown backend '%.64s', expected %s", text, names);
}

static rc_status read_precision(const kind *k, const char *text, size_t length, const char **precision)
{
    const char *other = k->precision[1];
    *precision = k->precision[0];
    if (length == 0 || is_text(*precision, text, length))
        return RC_OK;
    *precision = other;
    if (other != NULL && is_text(other, text, length))
        return RC_OK;
    if (is_text("bf16", text, length))
        return rc_fail(RC_UNSUPPORTED, "precision bf16 is there on backend cuda alone; backend %s computes in %s",
                       k->name, k->precision[0]);
    return rc_fail(RC_INVALID_ARGUMENT, "unknown precision '%.*s', expected %s%s%s", (int)length, text, k->precision[0],
                   other != NULL ? " or " : "", other != NULL ? other : "");
}

static rc_status read_memory(const kind *k, const char *text, size_t *bytes)
{
    char *end;
    if (!k->module)
        return rc_fail(RC_UNSUPPORTED,
                       "a limit of device memory is there on backend cuda alone; max_memory limits what backend %s "
                       "takes",
                       k->name);
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' || number < 1 || number > SIZE_MAX)
        return rc_fail(RC_INVALID_ARGUMENT, "device memory is '%.40s', expected a number of bytes", text);
    *bytes = (size_t)number;
    return RC_OK;
}

/* NAME[:PRECISION[:BYTES]] */
static rc_status read_request(const char *text, request *r)
{
    size_t length = strcspn(text, ":");
    *r = (request){.kind = NULL};
    for (int i = 0; i < KINDS; i++)
        if (is_text(kinds[i].name, text, length))
            r->kind = &kinds[i];
    if (r->kind == NULL)
        return fail_unknown(text);
    text += text[length] == ':' ? length + 1 : length;
    length = strcspn(text, ":");
    RC_TRY(read_precision(r->kind, text, length, &r->settings.precision));
    return text[length] == ':' ? read_memory(r->kind, text + length + 1, &r->settings.device_memory) : RC_OK;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

rc_status rc_backend_open(const char *text, int threads, const rc_log *log, rc_backend **backend)
{
    return rc_backend_open_with(text, threads, log, NULL, backend);
}

rc_status rc_backend_open_with(const char *text, int threads, const rc_log *log, const rc_allocator *allocator,
                               rc_backend **backend)
{
    *backend = NULL;
    request r;
    if (threads < 0)
        return rc_fail(RC_INVALID_ARGUMENT, "threads is %d, expected 0 (all cores) or more", threads);
    RC_TRY(read_request(text, &r));
    if (r.kind->module)
        return rc_module_backend(&r.settings, log, backend);
    return rc_cpu_open(r.kind->name, threads, log, allocator, backend);
}

void rc_backend_close(rc_backend *backend)
{
    if (backend)
        backend->destroy(backend);
}

/* ---- what all backends share ------------------------------------------------------------------------------------- */

rc_peak rc_backend_measure(rc_backend *backend)
{
    return backend->measure ? backend->measure(backend) : (rc_peak){0};
}

double rc_backend_measure_now(rc_backend *backend, double seconds)
{
    return backend->measure_now ? backend->measure_now(backend, seconds) : 0;
}

rc_status rc_backend_carve(rc_backend *backend, const char *name, void (*carve)(void *owner, rc_arena *arena),
                           void *owner, void **memory, size_t *bytes)
{
    *memory = NULL;
    rc_arena arena = rc_arena_measure(name);
    carve(owner, &arena);
    RC_TRY(rc_arena_status(&arena));
    size_t size = arena.used;
    RC_TRY(backend->alloc(backend, size, memory));
    if (bytes != NULL)
        *bytes += size;
    arena = rc_arena_over(name, *memory, size);
    carve(owner, &arena);
    return rc_arena_status(&arena);
}
