/* Batch normalisation's statistics. A convolution leaves the sums of every image, each in the cache of the core that
 * made them; one thread alone would fetch them line by line while the others wait. So all threads add up a few images
 * each, the same ones whose sums they have, and the reference's code works on what is left. */
#include "backend/cpu/fast/isa.h"

enum { FOLDED = 8 }; /* images that become one */

typedef struct fold_job {
    int row; /* doubles of an image */
    const double *from;
    double *to;
} fold_job;

static void fold_images(void *context, int task, int worker)
{
    (void)worker;
    const fold_job *job = context;
    const double *from = job->from + (size_t)task * FOLDED * (size_t)job->row;
    double *to = job->to + (size_t)task * (size_t)job->row;
    for (int i = 0; i < job->row; i++)
        to[i] = from[i];
    for (int image = 1; image < FOLDED; image++)
        for (int i = 0; i < job->row; i++)
            to[i] += from[(size_t)image * (size_t)job->row + (size_t)i];
}

/* Whether it pays and fits: a question of the shape alone, so that any number of threads adds in the same order. */
static bool folds(const rc_tensor *y, int cp, const void *partial)
{
    enum { FEWEST_CHANNELS = 32, FEWEST_IMAGES = 4 * FOLDED };
    for (int group = 0; group < y->groups; group++)
        if (y->group_end[group] % FOLDED != 0)
            return false;
    return partial && cp >= FEWEST_CHANNELS && y->n >= FEWEST_IMAGES &&
           rc_cpu_partial_count(y->n / FOLDED, cp) * sizeof(double) <= RC_CPU_MIN_SCRATCH;
}

/* Makes `folded` a tensor of fewer, higher images that has the same statistics as y. Returns its sums. */
static const void *fold(rc_backend *be, const rc_tensor *y, const void *partial, rc_tensor *folded)
{
    rc_cpu *cpu = rc_cpu_of(be);
    int cp = rc_padded(be, y->c);
    *folded = *y;
    if (!folds(y, cp, partial))
        return partial;
    folded->n /= FOLDED;
    folded->h *= FOLDED;
    for (int group = 0; group < y->groups; group++)
        folded->group_end[group] /= FOLDED;
    fold_job job = {.row = 2 * cp, .from = partial, .to = rc_cpu_scratch(cpu, 0)};
    rc_pool_run(cpu->pool, folded->n, fold_images, &job);
    return job.to;
}

static rc_backend reference_operations(void)
{
    rc_backend table = {0};
    rc_reference_fill_float(&table);
    return table;
}

static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    rc_tensor folded;
    rc_bn_forward of_folded = *f;
    of_folded.partial = fold(be, y, f->partial, &folded);
    reference_operations().bn_train(be, bn, &folded, &of_folded);
}

static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    rc_tensor folded;
    partial = fold(be, y, partial, &folded);
    reference_operations().bn_statistics(be, &folded, partial, center, mean, var);
}

static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    rc_tensor folded;
    rc_bn_backward of_folded = *back;
    of_folded.partial = fold(be, y, back->partial, &folded);
    reference_operations().bn_backward(be, &folded, train, &of_folded);
}

void RC_FAST(fill_statistics)(rc_backend *table)
{
    table->bn_train = bn_train;
    table->bn_statistics = bn_statistics;
    table->bn_backward = bn_backward;
}
