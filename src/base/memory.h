/*
 * Memory by lifetime: size everything, allocate one block, carve it, free it at once.
 *
 *     rc_arena arena = rc_arena_measure("task");
 *     carve(&arena);                                  the same function runs twice: first it only counts,
 *     RC_TRY(rc_arena_status(&arena));
 *     size_t bytes = arena.used;
 *     void *block = rc_alloc(NULL, bytes);
 *     arena = rc_arena_over("task", block, bytes);
 *     carve(&arena);                                  then it gets the addresses (rc_backend_carve does all of it)
 *     RC_TRY(rc_arena_status(&arena));
 */
#ifndef RC_BASE_MEMORY_H
#define RC_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A cache line, and the widest vector register: everything we hand out starts on such a boundary. */
#define RC_ALIGNMENT 64

/* Where blocks come from. `alloc` returns NULL when it cannot; `free` accepts NULL. */
typedef struct rc_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *block);
    void *user;
} rc_allocator;

/* `size` bytes (0 counts as 1), contents undefined, aligned to RC_ALIGNMENT. If there is no memory left, sets a
   message and returns NULL; the caller then returns RC_OUT_OF_MEMORY. `allocator` NULL: the heap of the C library.
   Free the block with rc_free and the same allocator. */
void *rc_alloc(const rc_allocator *allocator, size_t size);
/* rc_alloc of count * size bytes, overflow checked, filled with zeros. */
void *rc_alloc_zeroed(const rc_allocator *allocator, size_t count, size_t size);
/* NULL is fine. */
void rc_free(const rc_allocator *allocator, void *block);

/* The same address without `const`, for who takes a pointer that may be written through and only reads there: a context
   of tasks, a member that a view of foreign memory fills. Casts that drop a qualifier are errors everywhere else. */
static inline void *rc_without_const(const void *memory)
{
    return (void *)(uintptr_t)memory;
}

/* *out = a * b. Returns false and leaves *out alone when the product does not fit. */
bool rc_size_mul(size_t a, size_t b, size_t *out);
/* *out = a + b, likewise. */
bool rc_size_add(size_t a, size_t b, size_t *out);

/* How many blocks rc_alloc has handed out since the program started, and how many bytes of them are still held. A
   training step must not change the first one. */
uint64_t rc_allocation_count(void);
size_t rc_bytes_allocated(void);

/* The most bytes that this thread lets the process hold: an rc_alloc that would go beyond fails, and its message says
   how to allow more. SIZE_MAX, the default: no limit. Every thread has a limit of its own. */
void rc_memory_set_budget(size_t bytes);
size_t rc_memory_budget(void);
/* Bytes that can still be allocated: what is left of the budget, and no more than is free. */
size_t rc_memory_left(void);

typedef struct rc_arena {
    char *base;       /* NULL while measuring */
    size_t size;      /* of the block; while measuring: 0 */
    size_t used;      /* bytes taken, always a multiple of RC_ALIGNMENT; after measuring: what the block must hold */
    const char *name; /* of the lifetime, for messages; not copied */
    bool overflow;    /* a take did not fit; stays set until the arena is measured anew */
} rc_arena;

/* An arena that counts and gives out NULL. */
rc_arena rc_arena_measure(const char *name);
/* An arena over memory that somebody else owns; `base` must be aligned to RC_ALIGNMENT. */
rc_arena rc_arena_over(const char *name, void *base, size_t size);
/* The next `bytes` bytes, aligned to RC_ALIGNMENT. NULL while measuring, and when they do not fit. */
void *rc_arena_take(rc_arena *arena, size_t bytes);
/* rc_arena_take of count * size bytes, overflow checked. */
void *rc_arena_take_array(rc_arena *arena, size_t count, size_t size);
/* RC_OUT_OF_MEMORY with the arena's name and sizes if any take failed. */
rc_status rc_arena_status(const rc_arena *arena);

#endif
