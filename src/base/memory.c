#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#endif

#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/machine.h"

/* Sits in the RC_ALIGNMENT bytes before each block, so that freeing knows how much is given back. */
typedef struct block_header {
    size_t size;
} block_header;

static _Atomic uint64_t allocation_count;
static _Atomic size_t bytes_allocated;
static _Thread_local size_t budget = SIZE_MAX;

void rc_memory_set_budget(size_t bytes)
{
    budget = bytes;
}

size_t rc_memory_budget(void)
{
    return budget;
}

/* A step walks through hundreds of megabytes, more pages than a processor keeps translations of; inside a virtual
   machine each miss takes two walks through tables. So large blocks ask the system for large pages. A rest that does
   not fill a large page stays in small ones, so nothing is wasted. */
static void ask_for_large_pages(void *block, size_t size, size_t page)
{
#if defined(MADV_HUGEPAGE)
    (void)madvise(block, size / page * page, MADV_HUGEPAGE);
#else
    (void)block;
    (void)size;
    (void)page;
#endif
}

enum { LARGE_PAGE = 2 << 20 };

static void *heap_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    void *block = NULL;
    bool large = size >= LARGE_PAGE;
    if (posix_memalign(&block, large ? LARGE_PAGE : align, size) != 0)
        return NULL;
    if (large)
        ask_for_large_pages(block, size, LARGE_PAGE);
    return block;
}

static void heap_free(void *user, void *block)
{
    (void)user;
    free(block);
}

static const rc_allocator heap = {heap_alloc, heap_free, NULL};

/* Systems promise more memory than they have, and kill a process that uses all that it was promised. */
static bool exceeds_machine(size_t size)
{
    if (size < LARGE_PAGE)
        return false;
    size_t taken = rc_bytes_allocated(), memory = rc_machine_memory(), unused = rc_machine_free_memory();
    if (size > unused) {
        rc_fail(RC_OUT_OF_MEMORY, "cannot allocate %zu bytes: %zu are free", size, unused);
        return true;
    }
    if (memory == SIZE_MAX || (taken <= memory && size <= memory - taken))
        return false;
    rc_fail(RC_OUT_OF_MEMORY, "cannot allocate %zu bytes: there are %zu in all, of which %zu are taken", size, memory,
            taken);
    return true;
}

static bool exceeds_budget(size_t size)
{
    size_t taken = rc_bytes_allocated();
    if (budget == SIZE_MAX || (taken <= budget && size <= budget - taken))
        return false;
    rc_fail(RC_OUT_OF_MEMORY,
            "cannot allocate %zu bytes: %zu are taken, and %zu are allowed. The setting 'max_memory' "
            "allows more",
            size, taken, budget);
    return true;
}

size_t rc_memory_left(void)
{
    size_t taken = rc_bytes_allocated(), unused = rc_machine_free_memory();
    size_t allowed = budget == SIZE_MAX ? SIZE_MAX : taken < budget ? budget - taken : 0;
    return allowed < unused ? allowed : unused;
}

void *rc_alloc(const rc_allocator *allocator, size_t size)
{
    if (allocator == NULL)
        allocator = &heap;
    if (size == 0)
        size = 1;
    char *raw = NULL;
    size_t total;
    /* No object is larger than PTRDIFF_MAX; memory checkers treat the mere question as an error. */
    if (rc_size_add(size, RC_ALIGNMENT, &total) && total <= PTRDIFF_MAX) {
        if (exceeds_budget(total) || (allocator == &heap && exceeds_machine(total)))
            return NULL;
        raw = allocator->alloc(allocator->user, total, RC_ALIGNMENT);
    }
    if (raw == NULL) {
        rc_fail(RC_OUT_OF_MEMORY, "cannot allocate %zu bytes", size);
        return NULL;
    }
    ((block_header *)raw)->size = size;
    atomic_fetch_add_explicit(&allocation_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes_allocated, size, memory_order_relaxed);
    return raw + RC_ALIGNMENT;
}

void *rc_alloc_zeroed(const rc_allocator *allocator, size_t count, size_t size)
{
    size_t total;
    if (!rc_size_mul(count, size, &total)) {
        rc_fail(RC_OUT_OF_MEMORY, "cannot allocate %zu times %zu bytes", count, size);
        return NULL;
    }
    void *block = rc_alloc(allocator, total);
    if (block != NULL)
        memset(block, 0, total);
    return block;
}

void rc_free(const rc_allocator *allocator, void *block)
{
    if (block == NULL)
        return;
    if (allocator == NULL)
        allocator = &heap;
    char *raw = (char *)block - RC_ALIGNMENT;
    atomic_fetch_sub_explicit(&bytes_allocated, ((block_header *)raw)->size, memory_order_relaxed);
    allocator->free(allocator->user, raw);
}

bool rc_size_mul(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

bool rc_size_add(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}

uint64_t rc_allocation_count(void)
{
    return atomic_load_explicit(&allocation_count, memory_order_relaxed);
}

size_t rc_bytes_allocated(void)
{
    return atomic_load_explicit(&bytes_allocated, memory_order_relaxed);
}

rc_arena rc_arena_measure(const char *name)
{
    return (rc_arena){.name = name};
}

rc_arena rc_arena_over(const char *name, void *base, size_t size)
{
    return (rc_arena){.name = name, .base = base, .size = size};
}

void *rc_arena_take(rc_arena *arena, size_t bytes)
{
    size_t end;
    bool fits = rc_size_add(bytes, RC_ALIGNMENT - 1, &end) &&
                rc_size_add(arena->used, end - end % RC_ALIGNMENT, &end) && (arena->base == NULL || end <= arena->size);
    if (arena->overflow || !fits) {
        arena->overflow = true;
        return NULL;
    }
    void *taken = arena->base == NULL ? NULL : arena->base + arena->used;
    arena->used = end;
    return taken;
}

void *rc_arena_take_array(rc_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (!rc_size_mul(count, size, &bytes)) {
        arena->overflow = true;
        return NULL;
    }
    return rc_arena_take(arena, bytes);
}

rc_status rc_arena_status(const rc_arena *arena)
{
    if (!arena->overflow)
        return RC_OK;
    if (arena->base == NULL)
        return rc_fail(RC_OUT_OF_MEMORY, "arena '%s' would need more bytes than an address can count", arena->name);
    return rc_fail(RC_OUT_OF_MEMORY, "arena '%s' of %zu bytes is too small: a request did not fit after %zu bytes",
                   arena->name, arena->size, arena->used);
}
