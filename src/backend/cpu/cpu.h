/* Inside the CPU backend: what its files share. No file outside backend/cpu includes this.
 *
 * cpu.c opens a backend: the reference fills every entry of the table, then the kernels of the chosen instruction set
 * overwrite the entries they have. Reference files (reference/) are compiled twice, for float and for double; kernel
 * files (fast/) once per instruction set. */
#ifndef RC_BACKEND_CPU_CPU_H
#define RC_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "base/memory.h"
#include "base/pool.h"

typedef struct rc_cpu {
    rc_backend table; /* first, so that an rc_backend * is an rc_cpu * */
    rc_pool *pool;
    rc_log log;
    const rc_allocator *allocator; /* NULL: the heap */
    rc_allocator given;            /* what it points to otherwise */
    rc_status status;              /* sticky; comes out of sync() */
    char message[RC_MESSAGE_SIZE];
    void *shared; /* workspace of the operation that runs */
    size_t shared_bytes;
    void *scratch;                /* threads blocks of scratch_bytes each */
    size_t scratch_bytes;         /* per thread, a multiple of RC_ALIGNMENT */
    size_t begun, held, most;     /* bytes, where they are only counted (sizing.c): at first, now, and at most */
    unsigned turn;                /* of convolutions, which go through the images up and down */
    struct rc_cpu_lent *lent;     /* images that are lent to it */
    struct rc_cpu_joined *joined; /* one of several processes (workers.c); NULL: not so */
} rc_cpu;

/* An order of images that a supply makes. */
typedef struct rc_cpu_feed {
    struct rc_cpu_feed *next;
    const int32_t *order;
    void *reader;
} rc_cpu_feed;

/* Images that are lent (lent.c). NULL stands for those that lie at `images` itself. */
typedef struct rc_cpu_lent {
    struct rc_cpu_lent *next; /* its address is the handle */
    rc_lent_images given;
    uint8_t *more; /* what follows them */
    struct rc_ahead *ahead;
    const int32_t *expected; /* the order that is read ahead, the first of which that was said */
    rc_cpu_feed *feeds;
    bool supplied;       /* then image b of the batch at hand is number place[b] of those at `from` */
    const uint8_t *from; /* NULL: nothing came, and `none` stands for all */
    uint8_t *none;
    const int32_t *place;
} rc_cpu_lent;

void rc_cpu_fill_lent(rc_backend *table);
/* Those that augment is about to read: n of order, from `first` on. Checks them; keeps a failure for sync(). */
const rc_cpu_lent *rc_cpu_read_lent(rc_cpu *cpu, const uint8_t *images, const int32_t *order, size_t first, int n);
/* Those with that handle; NULL: nothing of the kind. */
rc_cpu_lent *rc_cpu_find_lent(const rc_cpu *cpu, const void *images);
void rc_cpu_release_lent(rc_cpu *cpu, rc_cpu_lent *lent);

/* Image b of the batch that has been read, number order[b] of a handle, `bytes` bytes. */
static inline const uint8_t *rc_cpu_image(const rc_cpu_lent *lent, const uint8_t *images, size_t bytes,
                                          const int32_t *order, int b)
{
    int32_t i = order[b];
    if (lent == NULL)
        return images + (size_t)i * bytes;
    const rc_lent_images *given = &lent->given;
    if (i >= given->count)
        return lent->more + (size_t)(i - given->count) * bytes;
    if (lent->supplied)
        return lent->from != NULL ? lent->from + (size_t)lent->place[b] * bytes : lent->none;
    return given->from + (size_t)(given->index != NULL ? given->index[i] : i) * bytes;
}

/* Scratch that every thread has without a reserve: a few rows of any map in use. */
enum { RC_CPU_MIN_SCRATCH = 256 * 1024 };

static inline rc_cpu *rc_cpu_of(rc_backend *backend)
{
    return (rc_cpu *)backend;
}

static inline void *rc_cpu_scratch(const rc_cpu *cpu, int worker)
{
    return (char *)cpu->scratch + (size_t)worker * cpu->scratch_bytes;
}

/* Grows the workspace to at least these sizes; contents are lost. Called while passes are built, never in a step. */
rc_status rc_cpu_reserve(rc_cpu *cpu, size_t shared_bytes, size_t scratch_bytes);

/* Counts bytes that would be allocated, and then those that would be freed; what has no number is SIZE_MAX. */
void rc_cpu_count(rc_cpu *cpu, size_t more, size_t fewer);

/* The entry join_workers, and the end of it. */
rc_status rc_cpu_join_workers(rc_backend *backend, struct rc_workers *workers);
void rc_cpu_leave_workers(rc_cpu *cpu);

/* Keeps the first failure for sync(). */
void rc_cpu_set_error(rc_cpu *cpu, rc_status status, const char *message);

/* The layout of `partial`, the same for reference and kernels: double (n, 2, cp), per image the sums of (raw - center)
 * and of its square; in backward those of dz and dz * (raw - mean). A reader adds the images in order. */
static inline size_t rc_cpu_partial_count(int n, int cp)
{
    return (size_t)n * 2 * (size_t)cp;
}

static inline double *rc_cpu_partial(void *partial, int image, int cp)
{
    return (double *)partial + rc_cpu_partial_count(image, cp);
}

void rc_reference_fill_float(rc_backend *table);
void rc_reference_fill_double(rc_backend *table);

#if defined(__aarch64__)
void rc_fast_fill_neon(rc_backend *table);
#elif defined(__x86_64__)
void rc_fast_fill_sse2(rc_backend *table);
void rc_fast_fill_avx2(rc_backend *table);
void rc_fast_fill_avx512(rc_backend *table);
#endif

/* Which group of t an image belongs to. */
static inline int rc_group_of(const rc_tensor *t, int image)
{
    int group = 0;
    while (group < t->groups - 1 && image >= t->group_end[group])
        group++;
    return group;
}

#endif
