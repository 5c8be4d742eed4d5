/* The CPU backend as one of several processes (workers.h).
 *
 * join_workers puts functions in front of the operations that depend on the whole batch: those of whole_batch.h, and
 * for normalisation and gradients of parameters those below, which take the sums of all processes.
 *
 * So every process knows the values of the whole batch, and all processes change their models by the same bits. Sums
 * are taken in the order of the processes, whatever the network does. The memory grows with the first step, and then
 * stays as it is. Without memory there is no step, and all processes end. */
#include "backend/whole_batch.h"

#include "backend/cpu/cpu.h"
#include "backend/workers.h"

/* Numbers that are being summed. */
typedef struct bucket {
    void *real;
    size_t count;       /* 0: none */
    char *whole, *part; /* (processes, part): what goes out, and then all sums; what comes in, and then the own sums */
} bucket;

enum { BUCKET_BYTES = 4 << 20, BUCKETS = RC_TALK_SLOTS, BLOCKS = WHOLE_BLOCKS + 2 * BUCKETS };

struct rc_cpu_joined {
    rc_backend plain; /* the operations that were there before */
    void *block[BLOCKS];
    size_t bytes[BLOCKS];
    bucket bucket[BUCKETS];
    int newest; /* bucket */
    whole_memory known;
    float share; /* of a weight */
};

static size_t count_of(const rc_backend *be)
{
    return (size_t)be->parts;
}

/* ---- hooks of whole_batch.h ------------------------------------------------------------------------------------ */

static rc_backend *whole_plain(rc_backend *be)
{
    return &rc_cpu_of(be)->joined->plain;
}

static whole_memory *whole_known(rc_backend *be, int *lane)
{
    *lane = 0;
    return &rc_cpu_of(be)->joined->known;
}

static bool whole_fine(rc_backend *be)
{
    (void)be;
    return true;
}

static void *whole_block(rc_backend *be, int slot, size_t bytes)
{
    struct rc_cpu_joined *j = rc_cpu_of(be)->joined;
    const rc_allocator *allocator = rc_cpu_of(be)->allocator;
    if (j->bytes[slot] < bytes) {
        rc_free(allocator, j->block[slot]);
        j->block[slot] = rc_alloc(allocator, bytes);
        j->bytes[slot] = j->block[slot] != NULL ? bytes : 0;
        if (j->block[slot] == NULL)
            be->workers->fail(be->workers, "no memory for what the processes exchange");
    }
    return j->block[slot];
}

static void whole_gather(rc_backend *be, const void *mine, void *all, size_t bytes)
{
    be->workers->gather(be->workers, mine, all, bytes);
}

static void whole_bundle(rc_backend *be, bool begin)
{
    (void)be;
    (void)begin;
}

/* Acts are reals here. */
static void whole_add(rc_backend *be, void *to, const void *whole, size_t count, bool acts)
{
    size_t first = (size_t)be->part * count;
    (void)acts;
    if (be->real_bytes == sizeof(double))
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] += ((const double *)whole)[first + i];
    else
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)whole)[first + i];
}

static const float *whole_share(rc_backend *be, const float *weight)
{
    float *share = &rc_cpu_of(be)->joined->share;
    *share = *weight / (float)be->parts;
    return share;
}

static void whole_average(rc_backend *be, void *value)
{
    const void *all = whole_reals(be, 0, value, 1);
    double sum = 0;
    for (int p = 0; p < be->parts; p++)
        sum += be->real_bytes == sizeof(double) ? ((const double *)all)[p] : (double)((const float *)all)[p];
    if (be->real_bytes == sizeof(double))
        *(double *)value = sum / be->parts;
    else
        *(float *)value = (float)(sum / be->parts);
}

/* ---- gradients of parameters ----------------------------------------------------------------------------------- */

static size_t part_of(const rc_backend *be, size_t count)
{
    return (count + count_of(be) - 1) / count_of(be);
}

/* part[i] becomes the sum of all processes' part[i], in their order. */
static void sum_part(const rc_backend *be, void *parts, size_t part)
{
    for (size_t i = 0; i < part; i++) {
        double sum = 0;
        for (size_t p = 0; p < count_of(be); p++)
            sum += be->real_bytes == sizeof(double) ? ((const double *)parts)[p * part + i]
                                                    : (double)((const float *)parts)[p * part + i];
        if (be->real_bytes == sizeof(double))
            ((double *)parts)[i] = sum;
        else
            ((float *)parts)[i] = (float)sum;
    }
}

/* Every process sums a part of the numbers, which the others send to it, then sends the sums to the others: each number
 * travels twice, however many processes there are. Two buckets are under way: the newest brings the parts together
 * while the sums of the one before it travel. Talks begin and end at the same calls in all processes, so that their
 * order is the same everywhere. */
static void advance_buckets(rc_backend *be)
{
    struct rc_cpu_joined *j = rc_cpu_of(be)->joined;
    rc_workers *workers = be->workers;
    int newest = j->newest, before = (newest + 1) % BUCKETS;
    bucket *ends = &j->bucket[before], *goes_on = &j->bucket[newest];
    if (ends->count > 0) {
        workers->finish(workers, before);
        memcpy(ends->real, ends->whole, ends->count * be->real_bytes);
        ends->count = 0;
    }
    if (goes_on->count > 0) {
        size_t part = part_of(be, goes_on->count);
        workers->finish(workers, newest);
        sum_part(be, goes_on->part, part);
        workers->begin_gather(workers, newest, goes_on->part, goes_on->whole, part * be->real_bytes);
    }
    j->newest = before;
}

static void sum_workers(rc_backend *be, void *real, size_t count)
{
    struct rc_cpu_joined *j = rc_cpu_of(be)->joined;
    size_t part = part_of(be, count), bytes = part * be->real_bytes, all = bytes * count_of(be);
    advance_buckets(be);
    int slot = j->newest;
    bucket *b = &j->bucket[slot];
    *b = (bucket){.real = real,
                  .count = count,
                  .whole = whole_block(be, WHOLE_BLOCKS + 2 * slot, all),
                  .part = whole_block(be, WHOLE_BLOCKS + 2 * slot + 1, all)};
    memcpy(b->whole, real, count * be->real_bytes);
    memset(b->whole + count * be->real_bytes, 0, all - count * be->real_bytes);
    be->workers->begin_exchange(be->workers, slot, b->whole, b->part, bytes);
}

static void wait_workers(rc_backend *be)
{
    for (int i = 0; i < BUCKETS; i++)
        advance_buckets(be);
}

/* ---- normalisation --------------------------------------------------------------------------------------------- */

/* The tensor of the whole batch, as far as statistics look at one. */
static rc_tensor whole_of(const rc_backend *be, const rc_tensor *y)
{
    rc_tensor whole = *y;
    whole.n *= be->parts;
    for (int group = 0; group < y->groups; group++)
        whole.group_end[group] *= be->parts;
    return whole;
}

/* Sums of the whole batch. Those that a process has of a group travel as one row, and take the place of its first image
 * there; the rows of its other images are 0. */
static const void *whole_sums(rc_backend *be, const rc_tensor *y, const void *partial)
{
    size_t row = rc_cpu_partial_count(1, rc_padded(be, y->c)), groups = (size_t)y->groups;
    double *mine = whole_block(be, 0, groups * row * sizeof *mine);
    memset(mine, 0, groups * row * sizeof *mine);
    for (int image = 0, group = 0; image < y->n; image++) {
        const double *of_image = (const double *)partial + (size_t)image * row;
        group += image == y->group_end[group];
        for (size_t i = 0; i < row; i++)
            mine[(size_t)group * row + i] += of_image[i];
    }
    const double *all = whole_of_all(be, 1, mine, groups * row * sizeof *mine);
    double *whole = whole_block(be, 2, (size_t)y->n * count_of(be) * row * sizeof *whole);
    memset(whole, 0, (size_t)y->n * count_of(be) * row * sizeof *whole);
    for (size_t process = 0; process < count_of(be); process++)
        for (int group = 0; group < y->groups; group++) {
            size_t begin = group > 0 ? (size_t)y->group_end[group - 1] : 0, end = (size_t)y->group_end[group];
            memcpy(whole + (begin * count_of(be) + process * (end - begin)) * row,
                   all + (process * groups + (size_t)group) * row, row * sizeof *whole);
        }
    return whole;
}

static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_forward of_whole = *f;
    of_whole.partial = whole_sums(be, y, f->partial);
    whole_plain(be)->bn_train(be, bn, &whole, &of_whole);
}

static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    const rc_tensor whole = whole_of(be, y);
    whole_plain(be)->bn_statistics(be, &whole, whole_sums(be, y, partial), center, mean, var);
}

/* The gradients of gamma and beta are whole already; sum_workers will add those of all processes, so one has them and
 * the others have 0. */
static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_backward of_whole = *back;
    if (back->partial != NULL)
        of_whole.partial = whole_sums(be, y, back->partial);
    whole_plain(be)->bn_backward(be, &whole, train, &of_whole);
    if (back->dgamma != NULL && be->part > 0)
        memset(back->dgamma, 0, (size_t)y->c * be->real_bytes);
    if (back->dbeta != NULL && be->part > 0)
        memset(back->dbeta, 0, (size_t)y->c * be->real_bytes);
}

/* ---- joining ---------------------------------------------------------------------------------------------------- */

void rc_cpu_leave_workers(rc_cpu *cpu)
{
    for (int i = 0; cpu->joined != NULL && i < BLOCKS; i++)
        rc_free(cpu->allocator, cpu->joined->block[i]);
    rc_free(cpu->allocator, cpu->joined);
}

rc_status rc_cpu_join_workers(rc_backend *be, struct rc_workers *workers)
{
    rc_cpu *cpu = rc_cpu_of(be);
    cpu->joined = rc_alloc_zeroed(cpu->allocator, 1, sizeof *cpu->joined);
    if (cpu->joined == NULL)
        return RC_OUT_OF_MEMORY;
    cpu->joined->plain = *be;
    be->workers = workers;
    be->part = workers->index;
    be->parts = workers->count;
    be->bucket_bytes = BUCKET_BYTES;
    be->sum_workers = sum_workers;
    be->wait_workers = wait_workers;
    be->bn_train = bn_train;
    be->bn_statistics = bn_statistics;
    be->bn_backward = bn_backward;
    whole_fill(be);
    return RC_OK;
}
