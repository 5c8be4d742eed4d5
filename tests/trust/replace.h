/* Functions of the C library that a preloaded library puts itself in front of. */
#ifndef RC_TESTS_REPLACE_H
#define RC_TESTS_REPLACE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>

#define NEXT(name, type) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

/* open or open64; `result` may call `next`, which is the function of the C library. */
#define REPLACE_OPEN_BY(name, result) \
    int name(const char *path, int flags, ...) \
    { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t rights = flags & O_CREAT ? va_arg(arguments, mode_t) : 0; \
        va_end(arguments); \
        int (*next)(const char *, int, ...) = NEXT(#name, int (*)(const char *, int, ...)); \
        return result; \
    }

/* refuses(path, flags) sets errno where it does. */
#define REPLACE_OPEN(name, refuses) REPLACE_OPEN_BY(name, refuses(path, flags) ? -1 : next(path, flags, rights))

#endif
