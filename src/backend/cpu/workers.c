/* The CPU backend as one of several processes (workers.h).
 *
 * join_workers puts the functions below in front of operations that depend on the whole batch. Each of them brings
 * together what all processes have, and calls the operation that was there before on the whole:
 *
 *   losses on logits and features, class statistics, counts of labels    the rows of all processes, in their order; of
 *                                                                        the gradient a process keeps its own rows
 *   losses that are means over images                                    the mean of all processes' means
 *   normalisation                                                        the sums of all processes
 *   gradients of parameters                                              are summed (sum_workers)
 *
 * So every process knows the values of the whole batch, and all processes change their models by the same bits. Sums
 * are taken in the order of the processes, whatever the network does. The memory grows with the first step, and then
 * stays as it is. Without memory there is no step, and all processes end. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/workers.h"

enum { SLOTS = 5 }; /* blocks that one operation needs at a time */

struct rc_cpu_joined {
    rc_backend plain; /* the operations that were there before */
    void *block[SLOTS];
    size_t bytes[SLOTS];
};

static rc_backend *plain_of(rc_backend *be)
{
    return &rc_cpu_of(be)->joined->plain;
}

static size_t count_of(const rc_backend *be)
{
    return (size_t)be->parts;
}

/* ---- memory and what comes together in it ---------------------------------------------------------------------- */

static void *block_of(rc_backend *be, int slot, size_t bytes)
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

/* What all processes have, in their order. */
static void *gathered(rc_backend *be, int slot, const void *mine, size_t bytes)
{
    void *all = block_of(be, slot, bytes * count_of(be));
    be->workers->gather(be->workers, mine, all, bytes);
    return all;
}

static void *gathered_reals(rc_backend *be, int slot, const void *mine, size_t count)
{
    return gathered(be, slot, mine, count * be->real_bytes);
}

static int32_t *gathered_labels(rc_backend *be, int slot, const int32_t *mine, int n)
{
    return gathered(be, slot, mine, (size_t)n * sizeof *mine);
}

/* A gradient of the whole batch, `count` reals of which belong to a process: 0 until a loss adds to it. */
static void *cleared(rc_backend *be, int slot, size_t count)
{
    size_t bytes = count * be->real_bytes * count_of(be);
    return memset(block_of(be, slot, bytes), 0, bytes);
}

/* Adds this process's part of it. */
static void add_part(const rc_backend *be, void *to, const void *whole, size_t count)
{
    size_t first = (size_t)be->part * count;
    if (be->real_bytes == sizeof(double))
        for (size_t i = 0; i < count; i++)
            ((double *)to)[i] += ((const double *)whole)[first + i];
    else
        for (size_t i = 0; i < count; i++)
            ((float *)to)[i] += ((const float *)whole)[first + i];
}

/* ---- gradients of parameters ----------------------------------------------------------------------------------- */

/* Every process sums a part of the numbers, which the others send to it, then sends the sums to the others: each number
 * travels twice, however many processes there are. */
static void sum_workers(rc_backend *be, void *real, size_t count)
{
    size_t processes = count_of(be), part = (count + processes - 1) / processes, bytes = part * be->real_bytes;
    char *whole = block_of(be, 0, bytes * processes), *parts = block_of(be, 1, bytes * processes);
    memcpy(whole, real, count * be->real_bytes);
    memset(whole + count * be->real_bytes, 0, (part * processes - count) * be->real_bytes);
    be->workers->exchange(be->workers, whole, parts, bytes);
    for (size_t i = 0; i < part; i++) {
        double sum = 0;
        for (size_t p = 0; p < processes; p++)
            sum += be->real_bytes == sizeof(double) ? ((const double *)(void *)parts)[p * part + i]
                                                    : (double)((const float *)(void *)parts)[p * part + i];
        if (be->real_bytes == sizeof(double))
            ((double *)(void *)parts)[i] = sum;
        else
            ((float *)(void *)parts)[i] = (float)sum;
    }
    be->workers->gather(be->workers, parts, whole, bytes);
    memcpy(real, whole, count * be->real_bytes);
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
    double *mine = block_of(be, 0, groups * row * sizeof *mine);
    memset(mine, 0, groups * row * sizeof *mine);
    for (int image = 0, group = 0; image < y->n; image++) {
        const double *of_image = (const double *)partial + (size_t)image * row;
        group += image == y->group_end[group];
        for (size_t i = 0; i < row; i++)
            mine[(size_t)group * row + i] += of_image[i];
    }
    const double *all = gathered(be, 1, mine, groups * row * sizeof *mine);
    double *whole = block_of(be, 2, (size_t)y->n * count_of(be) * row * sizeof *whole);
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
    plain_of(be)->bn_train(be, bn, &whole, &of_whole);
}

static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    const rc_tensor whole = whole_of(be, y);
    plain_of(be)->bn_statistics(be, &whole, whole_sums(be, y, partial), center, mean, var);
}

/* The gradients of gamma and beta are whole already; sum_workers will add those of all processes, so one has them and
 * the others have 0. */
static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_backward of_whole = *back;
    if (back->partial != NULL)
        of_whole.partial = whole_sums(be, y, back->partial);
    plain_of(be)->bn_backward(be, &whole, train, &of_whole);
    if (back->dgamma != NULL && be->part > 0)
        memset(back->dgamma, 0, (size_t)y->c * be->real_bytes);
    if (back->dbeta != NULL && be->part > 0)
        memset(back->dbeta, 0, (size_t)y->c * be->real_bytes);
}

/* ---- losses on logits ------------------------------------------------------------------------------------------ */

static void loss_cross_entropy(rc_backend *be, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)ce->n * (size_t)ce->stride;
    rc_cross_entropy whole = *ce;
    void *gradient = cleared(be, 2, count);
    whole.n *= be->parts;
    if (ce->partner != NULL) {
        whole.partner = gathered_labels(be, 3, ce->partner, ce->n);
        whole.share = gathered_reals(be, 4, ce->share, (size_t)ce->n);
    }
    plain_of(be)->loss_cross_entropy(be, &whole, gathered_reals(be, 0, logits, count),
                                     gathered_labels(be, 1, labels, ce->n), class_weight, weight, value, gradient);
    add_part(be, dlogits, gradient, count);
}

static void loss_decoupled(rc_backend *be, int n, int stride, int n_old, int classes, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    void *gradient = cleared(be, 2, count);
    plain_of(be)->loss_decoupled(be, n * be->parts, stride, n_old, classes, gathered_reals(be, 0, logits, count),
                                 gathered_labels(be, 1, labels, n), inter_weight, intra_weight, inter_value,
                                 intra_value, gradient);
    add_part(be, dlogits, gradient, count);
}

static void loss_hkd(rc_backend *be, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    void *gradient = cleared(be, 2, count);
    plain_of(be)->loss_hkd(be, n * be->parts, n_old, gathered_reals(be, 0, logits, count), stride,
                           gathered_reals(be, 1, teacher, (size_t)n * (size_t)teacher_stride), teacher_stride, weight,
                           value, gradient);
    add_part(be, dlogits, gradient, count);
}

static void loss_kd(rc_backend *be, const rc_distillation *kd, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)kd->n * (size_t)kd->student_stride;
    rc_distillation whole = *kd;
    void *gradient = cleared(be, 2, count);
    whole.n *= be->parts;
    plain_of(be)->loss_kd(be, &whole, gathered_reals(be, 0, logits, count),
                          gathered_reals(be, 1, teacher, (size_t)kd->n * (size_t)kd->teacher_stride), weight, value,
                          gradient);
    add_part(be, dlogits, gradient, count);
}

static void loss_diversity(rc_backend *be, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    void *gradient = cleared(be, 2, count);
    plain_of(be)->loss_diversity(be, n * be->parts, classes, stride, gathered_reals(be, 0, logits, count), epsilon,
                                 weight, value, gradient);
    add_part(be, dlogits, gradient, count);
}

static rc_status reserve_losses(rc_backend *be, int n, int classes, int h, int w, int c)
{
    return plain_of(be)->reserve_losses(be, n * be->parts, classes, h, w, c);
}

/* ---- losses on features ---------------------------------------------------------------------------------------- */

static void loss_feature(rc_backend *be, int n, int d, int n_old, const void *features, const void *teacher_features,
                         const void *head, void *workspace, const float *weight, void *value, void *dfeatures)
{
    size_t count = (size_t)n * (size_t)d, rows = (size_t)n * count_of(be);
    void *gradient = cleared(be, 2, count);
    (void)workspace; /* of a part */
    plain_of(be)->loss_feature(be, n * be->parts, d, n_old, gathered_reals(be, 0, features, count),
                               gathered_reals(be, 1, teacher_features, count), head,
                               block_of(be, 3, rows * (size_t)n_old * be->real_bytes), weight, value, gradient);
    add_part(be, dfeatures, gradient, count);
}

static void loss_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    size_t count = (size_t)n * (size_t)d;
    void *of_student = cleared(be, 2, count), *of_teacher = cleared(be, 3, count);
    plain_of(be)->loss_rkd(be, n * be->parts, d, gathered_reals(be, 0, student, count),
                           gathered_reals(be, 1, teacher, count), workspace, weight, value, of_student, of_teacher);
    add_part(be, dstudent, of_student, count);
    add_part(be, dteacher, of_teacher, count);
}

static size_t rkd_workspace(rc_backend *be, int n, int d)
{
    return plain_of(be)->rkd_workspace(be, n * be->parts, d);
}

static void loss_dce(rc_backend *be, const rc_dce *dce, const void *features, const int32_t *labels,
                     const float *weight, void *value, void *dfeatures)
{
    size_t count = (size_t)dce->n * (size_t)dce->d;
    rc_dce whole = *dce;
    void *gradient = cleared(be, 2, count);
    whole.n *= be->parts;
    plain_of(be)->loss_dce(be, &whole, gathered_reals(be, 0, features, count), gathered_labels(be, 1, labels, dce->n),
                           weight, value, gradient);
    add_part(be, dfeatures, gradient, count);
}

static size_t dce_workspace(rc_backend *be, int n, int d, int classes)
{
    return plain_of(be)->dce_workspace(be, n * be->parts, d, classes);
}

static void class_statistics(rc_backend *be, int n, int d, int classes, const void *features, const int32_t *labels,
                             const void *center, int32_t *count, double *sum, double *outer)
{
    plain_of(be)->class_statistics(be, n * be->parts, d, classes,
                                   gathered_reals(be, 0, features, (size_t)n * (size_t)d),
                                   gathered_labels(be, 1, labels, n), center, count, sum, outer);
}

static void count_labels(rc_backend *be, int n, const int32_t *labels, int classes, int32_t *count)
{
    plain_of(be)->count_labels(be, n * be->parts, gathered_labels(be, 1, labels, n), classes, count);
}

/* ---- losses on images ------------------------------------------------------------------------------------------ */

/* Of a mean over the images of all processes, each has the share 1 / processes. */
static float shared_weight(const rc_backend *be, const float *weight)
{
    return *weight / (float)be->parts;
}

static void average_value(rc_backend *be, void *value)
{
    const void *all = gathered_reals(be, 0, value, 1);
    double sum = 0;
    for (size_t p = 0; p < count_of(be); p++)
        sum += be->real_bytes == sizeof(double) ? ((const double *)all)[p] : (double)((const float *)all)[p];
    if (be->real_bytes == sizeof(double))
        *(double *)value = sum / be->parts;
    else
        *(float *)value = (float)(sum / be->parts);
}

static void loss_smoothing(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    const float shared = shared_weight(be, weight);
    plain_of(be)->loss_smoothing(be, x, &shared, value, dx);
    average_value(be, value);
}

static void loss_reconstruction(rc_backend *be, const rc_tensor *x, const rc_tensor *target, const void *sample_weight,
                                const float *weight, void *value, void *dx)
{
    const float shared = shared_weight(be, weight);
    plain_of(be)->loss_reconstruction(be, x, target, sample_weight, &shared, value, dx);
    average_value(be, value);
}

static void loss_latent(rc_backend *be, const rc_tensor *mean, const rc_tensor *log_variance, float scale,
                        const float *weight, void *value, void *dmean, void *dlog_variance)
{
    const float shared = shared_weight(be, weight);
    plain_of(be)->loss_latent(be, mean, log_variance, scale, &shared, value, dmean, dlog_variance);
    average_value(be, value);
}

/* Norms over all pixels of the batch: the images themselves come together. */
typedef void image_loss(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx);

static void norm_of_images(rc_backend *be, image_loss *loss, const rc_tensor *x, const float *weight, void *value,
                           void *dx)
{
    size_t count = rc_act_count(be, x->n, x->h, x->w, x->c); /* acts are reals here */
    rc_tensor whole = {.n = x->n * be->parts, .h = x->h, .w = x->w, .c = x->c, .groups = 1};
    whole.group_end[0] = whole.n;
    whole.raw = gathered_reals(be, 0, x->stored ? x->value : x->raw, count);
    void *gradient = cleared(be, 1, count);
    loss(be, &whole, weight, value, gradient);
    add_part(be, dx, gradient, count);
}

static void loss_total_variation(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    norm_of_images(be, plain_of(be)->loss_total_variation, x, weight, value, dx);
}

static void loss_image_norm(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    norm_of_images(be, plain_of(be)->loss_image_norm, x, weight, value, dx);
}

/* ---- joining ---------------------------------------------------------------------------------------------------- */

void rc_cpu_leave_workers(rc_cpu *cpu)
{
    for (int i = 0; cpu->joined != NULL && i < SLOTS; i++)
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
    be->sum_workers = sum_workers;
    be->bn_train = bn_train;
    be->bn_statistics = bn_statistics;
    be->bn_backward = bn_backward;
    be->loss_cross_entropy = loss_cross_entropy;
    be->loss_decoupled = loss_decoupled;
    be->loss_hkd = loss_hkd;
    be->loss_kd = loss_kd;
    be->loss_diversity = loss_diversity;
    be->reserve_losses = reserve_losses;
    be->loss_feature = loss_feature;
    be->loss_rkd = loss_rkd;
    be->rkd_workspace = rkd_workspace;
    be->loss_dce = loss_dce;
    be->dce_workspace = dce_workspace;
    be->class_statistics = class_statistics;
    be->count_labels = count_labels;
    be->loss_smoothing = loss_smoothing;
    be->loss_reconstruction = loss_reconstruction;
    be->loss_latent = loss_latent;
    be->loss_total_variation = loss_total_variation;
    be->loss_image_norm = loss_image_norm;
    return RC_OK;
}
