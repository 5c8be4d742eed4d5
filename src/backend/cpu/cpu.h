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
    void *scratch;            /* threads blocks of scratch_bytes each */
    size_t scratch_bytes;     /* per thread, a multiple of RC_ALIGNMENT */
    size_t begun, held, most; /* bytes, where they are only counted (sizing.c): at first, now, and at most */
    unsigned turn;            /* of convolutions, which go through the images up and down */
} rc_cpu;

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
