/* What this machine can do at best with these instructions: the mark that the bench measures kernels by. Compiled with
 * the flags of the kernels, so that a lost flag shows here too. */
#include <string.h>

#include "backend/cpu/fast/isa.h"
#include "base/clock.h"

/* Chains that do not wait for each other: latency times units is 8 to 20 on the machines we know, and they must fit
 * the registers (16 with AVX2 and SSE2, else 32) beside two constants. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { CHAINS = 24 };
#else
enum { CHAINS = 12 };
#endif
enum { ROUNDS = 200000, SHORT_ROUNDS = 5000, TRIES = 25, COPY_BYTES = 64 << 20 };

/* What one thread works on, and the best it did: the rates of all threads, measured at the same time, are added up.
 * A try is shorter than a time slice, so that other work on the machine spoils some of them but not the best. */
typedef struct mark {
    volatile float factor;
    char *from, *to;
    size_t bytes;
    double burning, copying; /* least seconds */
    double seconds, gflops;  /* for so long, and what it did */
} mark;

/* rounds * CHAINS * RC_LANES multiply-adds. Each chain takes a little of its neighbour, so that no product can be
 * computed ahead and none is waited for; the numbers stay near where they begin. */
static float burn(float start, int rounds)
{
    vec factor = vec_set(start), chain[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        chain[i] = vec_set((float)(i + 1));
    for (int round = 0; round < rounds; round++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            chain[i] += chain[(i + 1) % CHAINS] * factor;
    }
    vec sum = chain[0];
    for (int i = 1; i < CHAINS; i++)
        sum += chain[i];
    float lanes[RC_LANES];
    vec_store(lanes, sum);
    return lanes[0];
}

static double gflops(double rounds, double seconds)
{
    return 2 * rounds * CHAINS * RC_LANES / seconds * 1e-9;
}

static void measure_thread(void *context, int task, int worker)
{
    (void)worker;
    mark *m = (mark *)context + task;
    m->burning = m->copying = 1e9;
    for (int i = 0; i < TRIES; i++) {
        double began = rc_now();
        volatile float sink = burn(m->factor, ROUNDS);
        double burnt = rc_now();
        memcpy(m->to, m->from, m->bytes);
        double copied = rc_now();
        (void)sink;
        m->burning = burnt - began < m->burning ? burnt - began : m->burning;
        m->copying = copied - burnt < m->copying ? copied - burnt : m->copying;
    }
}

static void burn_for_a_while(void *context, int task, int worker)
{
    (void)worker;
    mark *m = (mark *)context + task;
    double began = rc_now(), taken, rounds = 0;
    do {
        volatile float sink = burn(m->factor, SHORT_ROUNDS);
        (void)sink;
        rounds += SHORT_ROUNDS;
        taken = rc_now() - began;
    } while (taken < m->seconds);
    m->gflops = gflops(rounds, taken);
}

/* (1 + 2^-12)^2 needs 25 bits: what is left after taking the rounded square away is lost unless the multiply-add
 * rounds once. */
static bool multiply_adds_are_fused(void)
{
    volatile float seed = 1 + 0x1p-12f; /* read anew each time: the compiler must not know that it is the same */
    float lanes[RC_LANES];
    vec_store(lanes, vec_set(seed) * vec_set(seed));
    volatile float rounded = lanes[0];
    vec_store(lanes, vec_set(seed) * vec_set(seed) - vec_set(rounded));
    return lanes[0] != 0;
}

static rc_peak measure(rc_backend *backend)
{
    rc_pool *pool = rc_cpu_of(backend)->pool;
    rc_peak peak = {.fused = multiply_adds_are_fused()};
    int threads = rc_pool_threads(pool);
    size_t each = COPY_BYTES / (size_t)threads;
    mark *marks = rc_alloc_zeroed(NULL, (size_t)threads, sizeof *marks);
    char *memory = rc_alloc_zeroed(NULL, 2 * COPY_BYTES, 1);
    for (int i = 0; marks && memory && i < threads; i++) {
        char *from = memory + (size_t)i * each;
        marks[i] = (mark){.factor = 1e-9f, .from = from, .to = from + COPY_BYTES, .bytes = each};
    }
    if (marks && memory)
        rc_pool_run(pool, threads, measure_thread, marks);
    for (int i = 0; marks && memory && i < threads; i++) {
        peak.gflops += gflops(ROUNDS, marks[i].burning);
        peak.gbytes += 2.0 * (double)each / marks[i].copying * 1e-9;
    }
    rc_free(NULL, marks);
    rc_free(NULL, memory);
    return peak;
}

static double measure_now(rc_backend *backend, double seconds)
{
    rc_pool *pool = rc_cpu_of(backend)->pool;
    int threads = rc_pool_threads(pool);
    double sum = 0;
    mark *marks = rc_alloc_zeroed(NULL, (size_t)threads, sizeof *marks);
    for (int i = 0; marks && i < threads; i++)
        marks[i] = (mark){.factor = 1e-9f, .seconds = seconds};
    if (marks)
        rc_pool_run(pool, threads, burn_for_a_while, marks);
    for (int i = 0; marks && i < threads; i++)
        sum += marks[i].gflops;
    rc_free(NULL, marks);
    return sum;
}

void RC_FAST(fill_peak)(rc_backend *table)
{
    table->measure = measure;
    table->measure_now = measure_now;
}
