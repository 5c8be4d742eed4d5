/* Finds the CUDA module, opens it, and opens a backend of it.
 *
 * The module stays open until the process ends: a driver must not be unloaded under a running program. */
#define _GNU_SOURCE /* dladdr */
#include "backend/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/open.h"
#include "base/file.h"

enum { MAX_PLACES = 6 };

typedef struct places {
    char path[MAX_PLACES][RC_PATH_SIZE];
    int count;
} places;

/* folder/file, unless it is too long, or there already. */
static void add_place(places *p, const char *folder, const char *below, const char *file)
{
    char *path = p->path[p->count];
    int length = snprintf(path, RC_PATH_SIZE, "%s%s%s", folder, below, file);
    if (length < 0 || length >= RC_PATH_SIZE)
        return;
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->path[i], path) == 0)
            return;
    p->count++;
}

/* Beside the file, and in lib beside its folder: bin/recollect finds lib/librecollect_cuda.so. */
static void add_beside(places *p, char *file)
{
    char *slash = strrchr(file, '/');
    if (slash == NULL)
        return;
    slash[1] = '\0';
    add_place(p, file, "", RC_MODULE_FILE);
    add_place(p, file, "../lib/", RC_MODULE_FILE);
}

static void list_places(places *p)
{
    char file[RC_PATH_SIZE];
    Dl_info info;
    if (dladdr((void *)(uintptr_t)rc_module_backend, &info) && info.dli_fname && strlen(info.dli_fname) < sizeof file) {
        strncpy(file, info.dli_fname, sizeof file - 1);
        file[sizeof file - 1] = '\0';
        add_beside(p, file);
    }
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    if (length > 0) {
        file[length] = '\0';
        add_beside(p, file);
    }
    add_place(p, RC_LIBDIR, "/", RC_MODULE_FILE);
    add_place(p, "", "", RC_MODULE_FILE);
}

/* Only the loader's text says whether it had no memory, or the file is not what it should be. If there was no memory
   for the text itself, it lacks the name of the file before a colon. */
static rc_status loader_status(const char *text)
{
    return strstr(text, "memory") != NULL || strchr(text, ':') == NULL ? RC_OUT_OF_MEMORY : RC_UNSUPPORTED;
}

static const char *loader_text(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "out of memory"; /* for the text, too */
}

static rc_status open_file(void **module)
{
    const char *wanted = getenv("RECOLLECT_CUDA_MODULE"), *text = "";
    if (wanted && wanted[0]) {
        *module = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
        if (*module)
            return RC_OK;
        text = loader_text();
        return rc_fail(loader_status(text), "RECOLLECT_CUDA_MODULE: %s", text);
    }
    places p = {.count = 0};
    list_places(&p);
    for (int i = 0; i < p.count; i++) {
        bool named = strchr(p.path[i], '/') != NULL;
        if (named && access(p.path[i], F_OK) != 0)
            continue;
        *module = dlopen(p.path[i], RTLD_NOW | RTLD_LOCAL);
        if (*module)
            return RC_OK;
        text = loader_text();
        if (named) /* it is there and does not open: that is what the user wants to know */
            return rc_fail(loader_status(text), "backend 'cuda': %s", text);
    }
    return rc_fail(loader_status(text),
                   "backend 'cuda' needs the module " RC_MODULE_FILE ", which was not found (last looked at: %s; then "
                   "the loader: %s). Build it with cmake -DRC_CUDA=ON and install it, or let RECOLLECT_CUDA_MODULE "
                   "name the file",
                   p.path[p.count > 1 ? p.count - 2 : 0], text);
}

rc_status rc_module_backend(const rc_module_settings *settings, const rc_log *log, rc_backend **backend)
{
    *backend = NULL;
    void *module;
    RC_TRY(open_file(&module));
    union { /* ISO C has no conversion from an object pointer to a function pointer */
        void *object;
        rc_module_open *function;
    } symbol = {.object = dlsym(module, RC_MODULE_OPEN)};
    if (!symbol.object) {
        const char *text = loader_text();
        return rc_fail(loader_status(text), "backend 'cuda': %s", text);
    }
    rc_module_host host = {.table_bytes = sizeof(rc_backend),
                           .version = RC_MODULE_VERSION,
                           .set_message = rc_set_message,
                           .log = log ? *log : (rc_log){0}};
    return symbol.function(&host, settings, backend);
}
