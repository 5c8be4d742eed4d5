/* How backend.c reaches the devices: each offers one function that opens it by name. */
#ifndef RC_BACKEND_OPEN_H
#define RC_BACKEND_OPEN_H

#include "backend/module.h"

/* "cpu", "reference" or "reference64". On failure *backend is NULL. */
rc_status rc_cpu_open(const char *name, int threads, const rc_log *log, const rc_allocator *allocator,
                      rc_backend **backend);

/* A module and what it exports. */
typedef struct rc_module_kind {
    const char *file, *symbol;
    const char *variable; /* of the environment, which may name the file */
    const char *what;     /* needs the module, for messages */
    const char *option;   /* of CMake, which builds it */
    bool global;          /* other libraries that it opens shall see its symbols */
} rc_module_kind;

/* Opens a module and finds its symbol. It looks for the file, in this order: at the place that the environment variable
 * names (then nowhere else); beside the library or program, and in the folder lib beside that folder; where it is
 * installed; where the dynamic loader looks. */
rc_status rc_module_symbol(const rc_module_kind *kind, void **symbol);

/* Opens RC_MODULE_FILE and a backend of it. */
rc_status rc_module_backend(const rc_module_settings *settings, const rc_log *log, rc_backend **backend);

/* Test builds only (RC_TEST_HOOKS): if the environment variable RECOLLECT_BREAK_OP names an operation, that one gives
 * slightly wrong results from now on. A name that cannot be broken is an error that lists the ones that can. */
rc_status rc_break_operation(rc_backend *backend);

#endif
