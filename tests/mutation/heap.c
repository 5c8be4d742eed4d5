/* Part of the shared library that the tests of script/mutate link.
 *
 * What the library asks of the heap is led here, and from here to the test, if it has functions of its own.
 *
 * What posix_memalign gives lies between pages that nobody may touch, as close to the second as its alignment allows.
 * The bytes that are left around a block have a pattern, and so have some behind every part of an arena. Whoever writes
 * there is found out when the block is freed, which ends the test. Whoever reads there gets numbers that are not
 * finite, or far from all others. A fresh block is full of them too, and one that was freed is closed for good. */
#define _DEFAULT_SOURCE /* mmap, MAP_ANONYMOUS */

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"

#define WEAK     __attribute__((weak))
#define RESERVED ((size_t)8 << 30)  /* addresses; no block gets those of another */
#define FILLED   ((size_t)16 << 20) /* a larger block is left as it comes */

enum { MOST_BLOCKS = 1 << 18, MOST_ZONES = 1 << 14, ZONE = RC_ALIGNMENT };

typedef struct span {
    char *begin, *end;
} span;

/* A block, and the open pages around it. */
typedef struct guarded_block {
    span pages, block; /* freed: no pages */
} guarded_block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static span reserved;                     /* what is left of the addresses */
static char *lowest;                      /* of all addresses that were reserved */
static guarded_block blocks[MOST_BLOCKS]; /* by address */
static size_t block_count;
static span zones[MOST_ZONES]; /* with the pattern, inside of blocks: behind parts of arenas */
static size_t zone_count;

void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

/* ---- the pattern -------------------------------------------------------------------------------------------- */

/* 0x7fa5 again and again: as a float a NaN that any calculation changes, as a double 8e306, as an integer large. */
static char pattern_at(const char *place)
{
    return (char)((uintptr_t)place % 2 == 0 ? 0xa5 : 0x7f);
}

static void fill(char *begin, char *end)
{
    for (char *place = begin; place < end; place++)
        *place = pattern_at(place);
}

static void check(const char *begin, const char *end)
{
    for (const char *place = begin; place < end; place++)
        if (*place != pattern_at(place))
            abort();
}

/* ---- blocks ------------------------------------------------------------------------------------------------- */

static char *round_up(char *place, size_t to)
{
    return place + (to - (uintptr_t)place % to) % to;
}

static bool reserve_addresses(void)
{
    char *memory = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    lowest = memory == MAP_FAILED ? NULL : memory;
    reserved = (span){lowest, lowest != NULL ? lowest + RESERVED : NULL};
    return lowest != NULL;
}

/* NULL: take it from where all others do. */
static char *open_block(size_t align, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    if (size > RESERVED || block_count == MOST_BLOCKS || (lowest == NULL && !reserve_addresses()))
        return NULL;
    char *first = round_up(reserved.begin, align > page ? align : page);
    if (first >= reserved.end || (size_t)(reserved.end - first) < room + page ||
        mprotect(first, room, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    reserved.begin = first + room + page;
    char *begin = align > page ? first : first + (room - size) / align * align;
    blocks[block_count++] = (guarded_block){{first, first + room}, {begin, begin + size}};
    fill(first, begin);
    fill(size <= FILLED ? begin : begin + size, first + room);
    return begin;
}

/* The block that this address is in. */
static guarded_block *block_at(const char *place)
{
    size_t low = 0, high = block_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].pages.begin <= place)
            low = middle;
        else
            high = middle;
    }
    bool inside = block_count > 0 && place >= blocks[low].block.begin && place < blocks[low].block.end;
    return inside ? &blocks[low] : NULL;
}

static void close_block(guarded_block *b, const char *address)
{
    if (b == NULL || b->block.begin != address)
        abort(); /* not what was given, or given back before */
    check(b->pages.begin, b->block.begin);
    check(b->block.end, b->pages.end);
    for (size_t i = zone_count; i-- > 0;)
        if (zones[i].begin >= b->block.begin && zones[i].begin < b->block.end) {
            check(zones[i].begin, zones[i].end);
            zones[i] = zones[--zone_count];
        }
    mmap(b->pages.begin, (size_t)(b->pages.end - b->pages.begin), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    b->block.begin = b->block.end;
}

/* In the place of the C library's, for the test too. */
int posix_memalign(void **block, size_t align, size_t size)
{
    pthread_mutex_lock(&lock);
    char *guarded = open_block(align, size);
    pthread_mutex_unlock(&lock);
    *block = guarded != NULL ? guarded : __libc_memalign(align, size);
    return *block != NULL ? 0 : ENOMEM;
}

void free(void *block)
{
    const char *address = block;
    if (lowest == NULL || address < lowest || address >= lowest + RESERVED) {
        __libc_free(block);
        return;
    }
    pthread_mutex_lock(&lock);
    close_block(block_at(address), address);
    pthread_mutex_unlock(&lock);
}

/* ---- parts of arenas ---------------------------------------------------------------------------------------- */

void *__real_rc_arena_take(rc_arena *arena, size_t bytes);
void *__real_rc_arena_take_array(rc_arena *arena, size_t count, size_t size);
void *__wrap_rc_arena_take(rc_arena *arena, size_t bytes);
void *__wrap_rc_arena_take_array(rc_arena *arena, size_t count, size_t size);

/* An arena may lie over memory that is not there: one that only counts bytes. */
static void watch_behind(rc_arena *arena, char *end)
{
    char *zone = __real_rc_arena_take(arena, ZONE);
    if (zone == NULL || end == NULL)
        return;
    pthread_mutex_lock(&lock);
    const guarded_block *b = block_at(end);
    if (b != NULL && zone + ZONE <= b->block.end && zone_count < MOST_ZONES) {
        zones[zone_count++] = (span){end, zone + ZONE};
        fill(end, zone + ZONE);
    }
    pthread_mutex_unlock(&lock);
}

void *__wrap_rc_arena_take(rc_arena *arena, size_t bytes)
{
    char *taken = __real_rc_arena_take(arena, bytes);
    watch_behind(arena, taken != NULL ? taken + bytes : NULL);
    return taken;
}

void *__wrap_rc_arena_take_array(rc_arena *arena, size_t count, size_t size)
{
    char *taken = __real_rc_arena_take_array(arena, count, size);
    watch_behind(arena, taken != NULL ? taken + count * size : NULL);
    return taken;
}

/* ---- to the test -------------------------------------------------------------------------------------------- */

int __real_posix_memalign(void **block, size_t align, size_t size);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
WEAK int __wrap_posix_memalign(void **block, size_t align, size_t size);
WEAK void *__wrap_malloc(size_t size);
WEAK void *__wrap_calloc(size_t count, size_t size);
WEAK void *__wrap_realloc(void *block, size_t size);
WEAK void __wrap_free(void *block);

int __wrap_posix_memalign(void **block, size_t align, size_t size)
{
    return __real_posix_memalign(block, align, size);
}

void *__wrap_malloc(size_t size)
{
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return __real_realloc(block, size);
}

void __wrap_free(void *block)
{
    __real_free(block);
}
