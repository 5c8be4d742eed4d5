/* Optimisers, in chunks of a fixed size so that every element is computed by the same code on any number of threads.
 * They move 20 and 28 bytes per parameter and compute little: memory sets the pace. */
#include <math.h>

#include "backend/cpu/fast/isa.h"

enum { CHUNK = 16384 };

typedef struct update {
    size_t count;
    float *param, *first, *second;
    const float *grad;
    float rate, keep, decay;                           /* SGD */
    float beta1, beta2, rest1, rest2, correction, eps; /* Adam */
} update;

static int chunks_of(size_t count)
{
    return (int)((count + CHUNK - 1) / CHUNK);
}

/* The elements of chunk `task`: where it begins, how many it has. */
static size_t chunk_begin(const update *u, int task, size_t *count)
{
    size_t begin = (size_t)task * CHUNK;
    *count = u->count - begin < CHUNK ? u->count - begin : CHUNK;
    return begin;
}

/* Plain loops over restrict pointers: both compilers turn them into vectors. */
static void sgd_loop(const update *u, size_t count, float *restrict p, const float *restrict grad, float *restrict v)
{
    float rate = u->rate, keep = u->keep, decay = u->decay;
    for (size_t i = 0; i < count; i++) {
        float g = grad[i] + decay * p[i];
        float moved = keep * v[i] + g;
        v[i] = moved;
        p[i] -= rate * moved;
    }
}

static void sgd_chunk(void *context, int task, int worker)
{
    (void)worker;
    const update *u = context;
    size_t count, begin = chunk_begin(u, task, &count);
    sgd_loop(u, count, u->param + begin, u->grad + begin, u->first + begin);
}

static void sgd(rc_backend *be, const rc_sgd *sgd, const rc_step *step, size_t count, void *param, const void *grad,
                void *momentum)
{
    update u = {.count = count,
                .param = param,
                .first = momentum,
                .grad = grad,
                .rate = step->learning_rate,
                .keep = sgd->momentum,
                .decay = sgd->weight_decay};
    rc_pool_run(rc_cpu_of(be)->pool, chunks_of(count), sgd_chunk, &u);
}

static void adam_loop(const update *u, size_t count, float *restrict p, const float *restrict grad, float *restrict m,
                      float *restrict v)
{
    float beta1 = u->beta1, rest1 = u->rest1, beta2 = u->beta2, rest2 = u->rest2;
    float rate = u->rate, correction = u->correction, eps = u->eps;
    for (size_t i = 0; i < count; i++) {
        float g = grad[i];
        float mean = beta1 * m[i] + rest1 * g;
        float square = beta2 * v[i] + rest2 * g * g;
        m[i] = mean;
        v[i] = square;
        p[i] -= rate * mean / (sqrtf(square) * correction + eps);
    }
}

static void adam_chunk(void *context, int task, int worker)
{
    (void)worker;
    const update *u = context;
    size_t count, begin = chunk_begin(u, task, &count);
    adam_loop(u, count, u->param + begin, u->grad + begin, u->first + begin, u->second + begin);
}

static void adam(rc_backend *be, const rc_adam *adam, const rc_step *step, size_t count, void *param, const void *grad,
                 void *first, void *second)
{
    double t = (double)step->step + 1;
    update u = {.count = count,
                .param = param,
                .first = first,
                .second = second,
                .grad = grad,
                .rate = (float)((double)step->learning_rate / (1 - pow((double)adam->beta1, t))),
                .correction = (float)(1 / sqrt(1 - pow((double)adam->beta2, t))),
                .beta1 = adam->beta1,
                .beta2 = adam->beta2,
                .rest1 = 1 - adam->beta1,
                .rest2 = 1 - adam->beta2,
                .eps = adam->eps};
    rc_pool_run(rc_cpu_of(be)->pool, chunks_of(count), adam_chunk, &u);
}

void RC_FAST(fill_optimiser)(rc_backend *table)
{
    table->sgd = sgd;
    table->adam = adam;
}
