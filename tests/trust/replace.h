/* Functions of the C library that a preloaded library puts itself in front of. */
#ifndef RC_TESTS_REPLACE_H
#define RC_TESTS_REPLACE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>

#define NEXT(name, type) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

/* open or open64; refuses(path, flags) sets errno where it does. */
#define REPLACE_OPEN(name, refuses) \
    int name(const char *path, int flags, ...) \
    { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t rights = flags & O_CREAT ? va_arg(arguments, mode_t) : 0; \
        va_end(arguments); \
        return refuses(path, flags) ? -1 : NEXT(#name, int (*)(const char *, int, ...))(path, flags, rights); \
    }

#endif
