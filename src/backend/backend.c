/* Opens backends by name. */
#include "backend/backend.h"

#include <string.h>

#include "backend/open.h"

rc_status rc_backend_open(const char *name, int threads, const rc_log *log, rc_backend **backend)
{
    return rc_backend_open_with(name, threads, log, NULL, backend);
}

rc_status rc_backend_open_with(const char *name, int threads, const rc_log *log, const rc_allocator *allocator,
                               rc_backend **backend)
{
    *backend = NULL;
    if (threads < 0)
        return rc_fail(RC_INVALID_ARGUMENT, "threads is %d, expected 0 (all cores) or more", threads);
    if (strcmp(name, "cuda") == 0 || strncmp(name, "cuda:", 5) == 0)
        return rc_module_backend(name[4] == ':' ? name + 5 : "bf16", log, backend);
    if (strncmp(name, "cpu:", 4) == 0)
        return rc_fail(RC_UNSUPPORTED, "%s there on backend cuda alone; the CPU computes in fp32",
                       strcmp(name, "cpu:bf16") == 0 ? "precision bf16 is" : "a limit of device memory is");
    if (strcmp(name, "cpu") != 0 && strcmp(name, "reference") != 0 && strcmp(name, "reference64") != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "unknown backend '%s', expected cpu, cuda, reference or reference64",
                       name);
    RC_TRY(rc_cpu_open(name, threads, log, allocator, backend));
#if RC_TEST_HOOKS
    if (strcmp(name, "cpu") == 0) {
        rc_status status = rc_break_operation(*backend);
        if (status != RC_OK) {
            rc_backend_close(*backend);
            *backend = NULL;
            return status;
        }
    }
#endif
    return RC_OK;
}

rc_peak rc_backend_measure(rc_backend *backend)
{
    static const double seconds = 0.2; /* each */
    if (strcmp(backend->name, "cuda") != 0)
        return rc_cpu_measure(backend);
    if (!backend->measure)
        return (rc_peak){0};
    return (rc_peak){backend->measure(backend, seconds, true), backend->measure(backend, seconds, false), true};
}

double rc_backend_measure_now(rc_backend *backend, double seconds)
{
    if (strcmp(backend->name, "cuda") != 0)
        return rc_cpu_measure_now(backend, seconds);
    return backend->measure ? backend->measure(backend, seconds, true) : 0;
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

void rc_backend_close(rc_backend *backend)
{
    if (backend)
        backend->destroy(backend);
}
