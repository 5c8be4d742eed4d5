/* A heap that fails on demand, for a program that runs with this library preloaded. It counts what anyone in the
 * process asks of the heap, the C library and all others included, and refuses number N. Counting begins when this
 * library is initialised, the last one before the program itself: what the loader asks for is not counted.
 *
 *     RECOLLECT_HEAP=once:N          number N fails
 *                    from:N          number N and all after it fail
 *                    count:0         none fails
 *     RECOLLECT_HEAP_LOG=FILE        gets the number of all, when the program ends
 *     RECOLLECT_HEAP_SECONDS=S       after which SIGALRM ends the program
 *
 * So that two runs can be compared byte for byte, and take milliseconds, the clock stands still and nothing is synced.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_bool counting;
static atomic_long calls;
static long fails_at; /* 0: never */
static int keeps_failing;

/* ---- the next heap ---------------------------------------------------------------------------------------------- */

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);

/* Looking for the next heap may ask for memory: it comes from here and is never given back. */
static _Alignas(64) char early[65536];
static size_t early_used;
static int looking;

static void *early_block(size_t size, size_t align)
{
    size_t begin = (early_used + align - 1) / align * align;
    if (size > sizeof early || begin > sizeof early - size)
        abort();
    early_used = begin + size;
    return early + begin;
}

static int is_early(const void *block)
{
    return (uintptr_t)block >= (uintptr_t)early && (uintptr_t)block < (uintptr_t)(early + sizeof early);
}

/* False: somebody asks for memory while this is looking. */
static int find_next(void)
{
    if (next_free != NULL)
        return 1;
    if (looking)
        return 0;
    looking = 1;
#define FIND(name) *(void **)&next_##name = dlsym(RTLD_NEXT, #name)
    FIND(malloc);
    FIND(calloc);
    FIND(realloc);
    FIND(memalign);
    FIND(posix_memalign);
    FIND(free);
    looking = 0;
    return 1;
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("RECOLLECT_HEAP");
    find_next();
    if (what == NULL)
        return;
    const char *colon = strchr(what, ':');
    fails_at = colon != NULL ? atol(colon + 1) : 0;
    keeps_failing = strncmp(what, "from:", 5) == 0;
    const char *seconds = getenv("RECOLLECT_HEAP_SECONDS");
    if (seconds != NULL)
        alarm((unsigned)atoi(seconds));
    atomic_store(&counting, 1);
}

__attribute__((destructor)) static void end(void)
{
    const char *log = getenv("RECOLLECT_HEAP_LOG");
    char line[32];
    atomic_store(&counting, 0);
    if (log == NULL)
        return;
    int length = snprintf(line, sizeof line, "%ld\n", atomic_load(&calls));
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || syscall(SYS_write, fd, line, (size_t)length) != length)
        abort();
    syscall(SYS_close, fd);
}

/* Counts one; true: it fails. */
static int refuses(void)
{
    if (!atomic_load(&counting))
        return 0;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (fails_at == 0 || (keeps_failing ? number < fails_at : number != fails_at))
        return 0;
    errno = ENOMEM;
    return 1;
}

/* ---- the heap --------------------------------------------------------------------------------------------------- */

void *malloc(size_t size)
{
    if (!find_next())
        return early_block(size, 16);
    return refuses() ? NULL : next_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (!find_next())
        return early_block(count * size, 16); /* zero from the start */
    return refuses() ? NULL : next_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    if (!find_next() || is_early(block)) {
        void *larger = find_next() ? next_malloc(size) : early_block(size, 16);
        if (larger != NULL && block != NULL) { /* what is behind the old block may be read, too: it is all of `early` */
            size_t most = (size_t)(early + sizeof early - (char *)block);
            memcpy(larger, block, size < most ? size : most);
        }
        return larger;
    }
    return refuses() ? NULL : next_realloc(block, size);
}

void *memalign(size_t align, size_t size)
{
    if (!find_next())
        return early_block(size, align);
    return refuses() ? NULL : next_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **block, size_t align, size_t size)
{
    if (!find_next()) {
        *block = early_block(size, align);
        return 0;
    }
    int before = errno; /* which this function leaves alone */
    if (refuses()) {
        errno = before;
        return ENOMEM;
    }
    return next_posix_memalign(block, align, size);
}

void free(void *block)
{
    if (!is_early(block) && find_next())
        next_free(block);
}

/* ---- the clock and the disk ------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = 1000000};
    return 0;
}

time_t time(time_t *now)
{
    if (now != NULL)
        *now = 1000000;
    return 1000000;
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}
