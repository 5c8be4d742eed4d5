/* How the library opens a backend that is a module of its own (librecollect_cuda.so), and what it lends to it.
 *
 * A module links nothing of the library, so that there is one copy of everything that has state. It exports one
 * function, RC_MODULE_OPEN. */
#ifndef RC_BACKEND_MODULE_H
#define RC_BACKEND_MODULE_H

#include "backend/backend.h"

/* What a module calls in the library. */
typedef struct rc_module_host {
    size_t table_bytes;                          /* sizeof(rc_backend): library and module are of one build */
    const char *version;                         /* RC_MODULE_VERSION, likewise */
    int (*set_message)(const char *format, ...); /* rc_set_message */
    const char *(*message)(void);                /* rc_message */
    rc_log log;
} rc_module_host;

typedef struct rc_module_settings {
    const char *precision; /* "bf16" or "fp32" */
    size_t device_memory;  /* bytes to take at most; 0: what the device has */
} rc_module_settings;

/* On failure *backend is NULL and the message has been set. */
typedef rc_status rc_module_open(const rc_module_host *host, const rc_module_settings *settings, rc_backend **backend);

#define RC_MODULE_OPEN "rc_cuda_open"
#define RC_MODULE_FILE "librecollect_cuda.so"

#define RC_MODULE_TEXT_(x) #x
#define RC_MODULE_TEXT(x)  RC_MODULE_TEXT_(x)
#define RC_MODULE_VERSION \
    RC_MODULE_TEXT(RECOLLECT_VERSION_MAJOR) \
    "." RC_MODULE_TEXT(RECOLLECT_VERSION_MINOR) "." RC_MODULE_TEXT(RECOLLECT_VERSION_PATCH)

#endif
