/* Finds modules and opens them; opens a backend of the CUDA module.
 *
 * A module stays open until the process ends: a driver must not be unloaded under a running program. */
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
static void add_beside(places *p, char *file, const char *module)
{
    char *slash = strrchr(file, '/');
    if (slash == NULL)
        return;
    slash[1] = '\0';
    add_place(p, file, "", module);
    add_place(p, file, "../lib/", module);
}

static void list_places(places *p, const char *module)
{
    char file[RC_PATH_SIZE];
    Dl_info info;
    if (dladdr((void *)(uintptr_t)rc_module_symbol, &info) && info.dli_fname && strlen(info.dli_fname) < sizeof file) {
        strncpy(file, info.dli_fname, sizeof file - 1);
        file[sizeof file - 1] = '\0';
        add_beside(p, file, module);
    }
    ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    if (length > 0) {
        file[length] = '\0';
        add_beside(p, file, module);
    }
    add_place(p, RC_LIBDIR, "/", module);
    add_place(p, "", "", module);
}

/* Only the end of the loader's text says whether it had no memory, or the file is not what it should be: before that
   stands the name of the file, which may be anything. If there was no memory for the text itself, it lacks that. */
static rc_status loader_status(const char *text)
{
    static const char none[] = "memory"; /* cannot allocate ..., out of ... */
    size_t length = strlen(text);
    bool ends = length >= sizeof none - 1 && strcmp(text + length - (sizeof none - 1), none) == 0;
    return ends || strchr(text, ':') == NULL ? RC_OUT_OF_MEMORY : RC_UNSUPPORTED;
}

static const char *loader_text(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "out of memory"; /* for the text, too */
}

static rc_status open_file(const rc_module_kind *kind, void **module)
{
    int flags = RTLD_NOW | (kind->global ? RTLD_GLOBAL : RTLD_LOCAL);
    const char *wanted = getenv(kind->variable), *text = "";
    if (wanted && wanted[0]) {
        *module = dlopen(wanted, flags);
        if (*module)
            return RC_OK;
        text = loader_text();
        return rc_fail(loader_status(text), "%s: %s", kind->variable, text);
    }
    places p = {.count = 0};
    list_places(&p, kind->file);
    for (int i = 0; i < p.count; i++) {
        bool named = strchr(p.path[i], '/') != NULL;
        if (named && access(p.path[i], F_OK) != 0)
            continue;
        *module = dlopen(p.path[i], flags);
        if (*module)
            return RC_OK;
        text = loader_text();
        if (named) /* it is there and does not open: that is what the user wants to know */
            return rc_fail(loader_status(text), "%s: %s", kind->what, text);
    }
    return rc_fail(
        loader_status(text),
        "%s needs the module %s, which was not found (last looked at: %s; then the loader: %s). Build it with "
        "cmake -D%s=ON and install it, or let %s name the file",
        kind->what, kind->file, p.path[p.count > 1 ? p.count - 2 : 0], text, kind->option, kind->variable);
}

rc_status rc_module_symbol(const rc_module_kind *kind, void **symbol)
{
    void *module;
    RC_TRY(open_file(kind, &module));
    *symbol = dlsym(module, kind->symbol);
    if (*symbol != NULL)
        return RC_OK;
    const char *text = loader_text();
    return rc_fail(loader_status(text), "%s: %s", kind->what, text);
}

rc_status rc_module_backend(const rc_module_settings *settings, const rc_log *log, rc_backend **backend)
{
    *backend = NULL;
    static const rc_module_kind kind = {.file = RC_MODULE_FILE,
                                        .variable = "RECOLLECT_CUDA_MODULE",
                                        .what = "backend 'cuda'",
                                        .option = "RC_CUDA",
                                        .symbol = RC_MODULE_OPEN};
    union { /* ISO C has no conversion from an object pointer to a function pointer */
        void *object;
        rc_module_open *function;
    } symbol;
    RC_TRY(rc_module_symbol(&kind, &symbol.object));
    rc_module_host host = {.table_bytes = sizeof(rc_backend),
                           .version = RC_MODULE_VERSION,
                           .set_message = rc_set_message,
                           .message = rc_message,
                           .log = log ? *log : (rc_log){0}};
    return symbol.function(&host, settings, backend);
}
