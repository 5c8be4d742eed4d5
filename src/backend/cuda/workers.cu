/* The CUDA backend as one of several processes (backend/workers.h), each with a GPU or a part of one.
 *
 * join_workers puts the functions below in front of the operations that depend on the whole batch, the same ones as
 * cpu/workers.c does, for the same reasons: what all processes have comes together (link.h), and the operation that was
 * there before computes the whole. All of it is enqueued, so a captured step holds it. Sums are taken in the order of
 * the processes. The blocks grow with the first step, and then stay as they are. */
#include <cuda_bf16.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/link.h"
#include "backend/cuda/map/norm.cuh"

enum { SLOTS = 5 /* blocks that one operation needs at a time */, WORKER_THREADS = 256 };

struct rc_cuda_party {
    rc_backend plain; /* the operations that were there before */
    void *block[RC_CUDA_LANES][SLOTS];
    size_t bytes[RC_CUDA_LANES][SLOTS];
};

static rc_backend *plain_of(rc_backend *be)
{
    return &rc_cuda_of(be)->party->plain;
}

static size_t count_of(const rc_backend *be)
{
    return (size_t)be->parts;
}

static dim3 grid_of(size_t count)
{
    const size_t most = 1024, blocks = (count + WORKER_THREADS - 1) / WORKER_THREADS;
    return dim3((unsigned)(blocks < most ? blocks : most));
}

/* ---- memory and what comes together in it ----------------------------------------------------------------------- */

/* Captured steps may refer to a block that was too small: it stays until the backend is closed, and blocks at least
 * double. NULL: an error is set. */
static void *block_of(rc_backend *be, int slot, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    void **block = &cuda->party->block[cuda->lane][slot];
    size_t *held = &cuda->party->bytes[cuda->lane][slot];
    if (*held >= bytes)
        return *block;
    size_t room = bytes < 2 * *held ? 2 * *held : bytes;
    rc_status status = cuda->status == RC_OK ? rc_cuda_take(cuda, room, block) : cuda->status;
    if (status == RC_OK) {
        *held = room;
        return *block;
    }
    *block = NULL;
    *held = 0;
    if (cuda->status == RC_OK) {
        cuda->status = status;
        snprintf(cuda->message, sizeof cuda->message,
                 "cuda: no %zu bytes of device memory for what the processes exchange: use a smaller batch", room);
    }
    return NULL;
}

/* What all processes have, in their order. */
static void *gathered(rc_backend *be, int slot, const void *mine, size_t bytes)
{
    void *all = block_of(be, slot, bytes * count_of(be));
    if (all)
        rc_cuda_gather(rc_cuda_of(be), mine, all, bytes);
    return all;
}

static void *gathered_reals(rc_backend *be, int slot, const void *mine, size_t count)
{
    return gathered(be, slot, mine, count * sizeof(float));
}

static int32_t *gathered_labels(rc_backend *be, int slot, const int32_t *mine, int n)
{
    return (int32_t *)gathered(be, slot, mine, (size_t)n * sizeof *mine);
}

/* A gradient of the whole batch, of which `bytes` belong to a process: 0 until a loss adds to it. */
static void *cleared(rc_backend *be, int slot, size_t bytes)
{
    void *whole = block_of(be, slot, bytes * count_of(be));
    if (whole)
        be->zero(be, whole, bytes * count_of(be));
    return whole;
}

template <typename T> __global__ static void add_part_kernel(T *to, const T *from, size_t count)
{
    begin_after_kernel_before();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        store(to + i, to_float(to[i]) + to_float(from[i]));
}

/* Adds this process's part of it. */
template <typename T> static void add_part(rc_backend *be, void *to, const void *whole, size_t count)
{
    rc_cuda_launch_early(rc_cuda_of(be), "adding a part", add_part_kernel<T>, grid_of(count), WORKER_THREADS, 0,
                         (T *)to, (const T *)whole + (size_t)be->part * count, count);
}

static bool fine(rc_backend *be)
{
    return rc_cuda_of(be)->status == RC_OK;
}

/* ---- gradients of parameters ------------------------------------------------------------------------------------ */

/* parts (processes, count): the first row becomes the sum. */
__global__ static void sum_parts_kernel(float *parts, size_t count, int processes)
{
    begin_after_kernel_before();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        double sum = 0;
        for (int p = 0; p < processes; p++)
            sum += (double)parts[(size_t)p * count + i];
        parts[i] = (float)sum;
    }
}

/* Every process sums a part of the numbers, which the others send to it, then sends the sums to the others. */
static void sum_workers(rc_backend *be, void *real, size_t count)
{
    rc_cuda *cuda = rc_cuda_of(be);
    size_t part = (count + count_of(be) - 1) / count_of(be), bytes = part * sizeof(float);
    float *parts = (float *)block_of(be, 0, bytes * count_of(be));
    if (!parts)
        return;
    rc_cuda_scatter(cuda, real, parts, bytes, count * sizeof(float));
    rc_cuda_launch_early(cuda, "sum_workers", sum_parts_kernel, grid_of(part), WORKER_THREADS, 0, parts, part,
                         be->parts);
    rc_cuda_collect(cuda, parts, real, bytes, count * sizeof(float));
}

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

/* The tensor of the whole batch, as far as statistics look at one. */
static rc_tensor whole_of(const rc_backend *be, const rc_tensor *y)
{
    rc_tensor whole = *y;
    whole.n *= be->parts;
    for (int group = 0; group < y->groups; group++)
        whole.group_end[group] *= be->parts;
    return whole;
}

/* Block (eight channels, group): the rows of `partial` become as many as a double takes of the type of sums, the whole
 * of which is the double's: (pieces, groups, 2, cp). `all` is told how many rows will be there. */
template <typename Sum>
__global__ static void fold_kernel(const void *partial, int groups, int cp, Sum *mine, partial_header *all, int rows)
{
    wait_for_kernel_before();
    start_kernel_after();
    int first = (int)blockIdx.x * 8, group = (int)blockIdx.y, channel = first + (int)threadIdx.x;
    group_sums sums = sum_group<Sum>(partial, groups, group, cp, first);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        all->rows = rows;
    if (threadIdx.x >= 8)
        return;
    for (int piece = 0; piece < (int)(sizeof(double) / sizeof(Sum)); piece++) {
        Sum *at = mine + ((size_t)(piece * groups + group) * 2) * cp + channel;
        at[0] = (Sum)sums.first;
        at[cp] = (Sum)sums.second;
        sums.first -= (double)at[0];
        sums.second -= (double)at[cp];
    }
}

/* Sums of the whole batch, in the layout of `partial`. */
template <typename Sum> static const void *whole_sums(rc_backend *be, const rc_tensor *y, const void *partial)
{
    int cp = rc_cuda_padded(y->c), pieces = (int)(sizeof(double) / sizeof(Sum));
    size_t bytes = (size_t)y->groups * 2 * (size_t)cp * sizeof(double);
    Sum *mine = (Sum *)block_of(be, 0, bytes);
    partial_header *all = (partial_header *)block_of(be, 1, sizeof *all + bytes * count_of(be));
    if (!mine || !all)
        return NULL;
    rc_cuda_launch_early(rc_cuda_of(be), "normalisation of all", fold_kernel<Sum>,
                         dim3((unsigned)cp / 8, (unsigned)y->groups), NORM_THREADS, 0, partial, y->groups, cp, mine,
                         all, be->parts * pieces);
    rc_cuda_gather(rc_cuda_of(be), mine, all + 1, bytes);
    return all;
}

template <typename Sum>
static void bn_train(rc_backend *be, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_forward of_whole = *f;
    of_whole.partial = whole_sums<Sum>(be, y, f->partial);
    if (fine(be))
        plain_of(be)->bn_train(be, bn, &whole, &of_whole);
}

template <typename Sum>
static void bn_statistics(rc_backend *be, const rc_tensor *y, const void *partial, const void *center, void *mean,
                          void *var)
{
    const rc_tensor whole = whole_of(be, y);
    const void *sums = whole_sums<Sum>(be, y, partial);
    if (fine(be))
        plain_of(be)->bn_statistics(be, &whole, sums, center, mean, var);
}

/* The gradients of gamma and beta are whole already; sum_workers will add those of all processes, so one has them and
 * the others have 0. */
template <typename Sum>
static void bn_backward(rc_backend *be, const rc_tensor *y, bool train, const rc_bn_backward *back)
{
    const rc_tensor whole = whole_of(be, y);
    rc_bn_backward of_whole = *back;
    if (back->partial)
        of_whole.partial = whole_sums<Sum>(be, y, back->partial);
    if (!fine(be))
        return;
    plain_of(be)->bn_backward(be, &whole, train, &of_whole);
    if (back->dgamma && be->part > 0)
        be->zero(be, back->dgamma, (size_t)y->c * sizeof(float));
    if (back->dbeta && be->part > 0)
        be->zero(be, back->dbeta, (size_t)y->c * sizeof(float));
}

/* ---- losses on logits ------------------------------------------------------------------------------------------- */

static void loss_cross_entropy(rc_backend *be, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                               const void *class_weight, const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)ce->n * (size_t)ce->stride;
    rc_cross_entropy whole = *ce;
    whole.n *= be->parts;
    const void *all = gathered_reals(be, 0, logits, count);
    const int32_t *of_all = gathered_labels(be, 1, labels, ce->n);
    void *gradient = cleared(be, 2, count * sizeof(float));
    if (ce->partner != NULL) {
        whole.partner = gathered_labels(be, 3, ce->partner, ce->n);
        whole.share = gathered_reals(be, 4, ce->share, (size_t)ce->n);
    }
    if (!fine(be))
        return;
    plain_of(be)->loss_cross_entropy(be, &whole, all, of_all, class_weight, weight, value, gradient);
    add_part<float>(be, dlogits, gradient, count);
}

static void loss_decoupled(rc_backend *be, int n, int stride, int n_old, int classes, const void *logits,
                           const int32_t *labels, const float *inter_weight, const float *intra_weight,
                           void *inter_value, void *intra_value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    const void *all = gathered_reals(be, 0, logits, count);
    const int32_t *of_all = gathered_labels(be, 1, labels, n);
    void *gradient = cleared(be, 2, count * sizeof(float));
    if (!fine(be))
        return;
    plain_of(be)->loss_decoupled(be, n * be->parts, stride, n_old, classes, all, of_all, inter_weight, intra_weight,
                                 inter_value, intra_value, gradient);
    add_part<float>(be, dlogits, gradient, count);
}

static void loss_hkd(rc_backend *be, int n, int n_old, const void *logits, int stride, const void *teacher,
                     int teacher_stride, const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    const void *all = gathered_reals(be, 0, logits, count);
    const void *of_teacher = gathered_reals(be, 1, teacher, (size_t)n * (size_t)teacher_stride);
    void *gradient = cleared(be, 2, count * sizeof(float));
    if (!fine(be))
        return;
    plain_of(be)->loss_hkd(be, n * be->parts, n_old, all, stride, of_teacher, teacher_stride, weight, value, gradient);
    add_part<float>(be, dlogits, gradient, count);
}

static void loss_kd(rc_backend *be, const rc_distillation *kd, const void *logits, const void *teacher,
                    const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)kd->n * (size_t)kd->student_stride;
    rc_distillation whole = *kd;
    whole.n *= be->parts;
    const void *all = gathered_reals(be, 0, logits, count);
    const void *of_teacher = gathered_reals(be, 1, teacher, (size_t)kd->n * (size_t)kd->teacher_stride);
    void *gradient = cleared(be, 2, count * sizeof(float));
    if (!fine(be))
        return;
    plain_of(be)->loss_kd(be, &whole, all, of_teacher, weight, value, gradient);
    add_part<float>(be, dlogits, gradient, count);
}

static void loss_diversity(rc_backend *be, int n, int classes, int stride, const void *logits, float epsilon,
                           const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    const void *all = gathered_reals(be, 0, logits, count);
    void *gradient = cleared(be, 2, count * sizeof(float));
    if (!fine(be))
        return;
    plain_of(be)->loss_diversity(be, n * be->parts, classes, stride, all, epsilon, weight, value, gradient);
    add_part<float>(be, dlogits, gradient, count);
}

static rc_status reserve_losses(rc_backend *be, int n, int classes, int h, int w, int c)
{
    return plain_of(be)->reserve_losses(be, n * be->parts, classes, h, w, c);
}

/* ---- losses on features ----------------------------------------------------------------------------------------- */

static void loss_feature(rc_backend *be, int n, int d, int n_old, const void *features, const void *teacher_features,
                         const void *head, void *, const float *weight, void *value, void *dfeatures)
{
    size_t count = (size_t)n * (size_t)d, rows = (size_t)n * count_of(be);
    const void *all = gathered_reals(be, 0, features, count);
    const void *of_teacher = gathered_reals(be, 1, teacher_features, count);
    void *gradient = cleared(be, 2, count * sizeof(float));
    void *workspace = block_of(be, 3, rows * (size_t)n_old * sizeof(float)); /* the caller's is that of a part */
    if (!fine(be))
        return;
    plain_of(be)->loss_feature(be, n * be->parts, d, n_old, all, of_teacher, head, workspace, weight, value, gradient);
    add_part<float>(be, dfeatures, gradient, count);
}

static void loss_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    size_t count = (size_t)n * (size_t)d;
    const void *all = gathered_reals(be, 0, student, count), *of_teacher = gathered_reals(be, 1, teacher, count);
    void *by_student = cleared(be, 2, count * sizeof(float)), *by_teacher = cleared(be, 3, count * sizeof(float));
    if (!fine(be))
        return;
    plain_of(be)->loss_rkd(be, n * be->parts, d, all, of_teacher, workspace, weight, value, by_student, by_teacher);
    add_part<float>(be, dstudent, by_student, count);
    add_part<float>(be, dteacher, by_teacher, count);
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
    whole.n *= be->parts;
    const void *all = gathered_reals(be, 0, features, count);
    const int32_t *of_all = gathered_labels(be, 1, labels, dce->n);
    void *gradient = cleared(be, 2, count * sizeof(float));
    if (!fine(be))
        return;
    plain_of(be)->loss_dce(be, &whole, all, of_all, weight, value, gradient);
    add_part<float>(be, dfeatures, gradient, count);
}

static size_t dce_workspace(rc_backend *be, int n, int d, int classes)
{
    return plain_of(be)->dce_workspace(be, n * be->parts, d, classes);
}

static void class_statistics(rc_backend *be, int n, int d, int classes, const void *features, const int32_t *labels,
                             const void *center, int32_t *count, double *sum, double *outer)
{
    const void *all = gathered_reals(be, 0, features, (size_t)n * (size_t)d);
    const int32_t *of_all = gathered_labels(be, 1, labels, n);
    if (fine(be))
        plain_of(be)->class_statistics(be, n * be->parts, d, classes, all, of_all, center, count, sum, outer);
}

static void count_labels(rc_backend *be, int n, const int32_t *labels, int classes, int32_t *count)
{
    const int32_t *of_all = gathered_labels(be, 1, labels, n);
    if (fine(be))
        plain_of(be)->count_labels(be, n * be->parts, of_all, classes, count);
}

/* ---- losses on images ------------------------------------------------------------------------------------------- */

/* Of a mean over the images of all processes, each has the share 1 / processes. */
__global__ static void share_kernel(const float *weight, int processes, float *shared)
{
    begin_after_kernel_before();
    *shared = *weight / (float)processes;
}

static const float *shared_weight(rc_backend *be, const float *weight)
{
    float *shared = (float *)block_of(be, 0, sizeof *shared);
    if (shared)
        rc_cuda_launch_early(rc_cuda_of(be), "weight of a part", share_kernel, dim3(1), 1, 0, weight, be->parts,
                             shared);
    return shared;
}

__global__ static void average_kernel(const float *all, int processes, float *value)
{
    begin_after_kernel_before();
    double sum = 0;
    for (int p = 0; p < processes; p++)
        sum += (double)all[p];
    *value = (float)(sum / processes);
}

static void average_value(rc_backend *be, void *value)
{
    const float *all = (const float *)gathered_reals(be, 1, value, 1);
    if (fine(be))
        rc_cuda_launch_early(rc_cuda_of(be), "mean of parts", average_kernel, dim3(1), 1, 0, all, be->parts,
                             (float *)value);
}

static void loss_smoothing(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    const float *shared = shared_weight(be, weight);
    if (!shared)
        return;
    plain_of(be)->loss_smoothing(be, x, shared, value, dx);
    average_value(be, value);
}

static void loss_reconstruction(rc_backend *be, const rc_tensor *x, const rc_tensor *target, const void *sample_weight,
                                const float *weight, void *value, void *dx)
{
    const float *shared = shared_weight(be, weight);
    if (!shared)
        return;
    plain_of(be)->loss_reconstruction(be, x, target, sample_weight, shared, value, dx);
    average_value(be, value);
}

static void loss_latent(rc_backend *be, const rc_tensor *mean, const rc_tensor *log_variance, float scale,
                        const float *weight, void *value, void *dmean, void *dlog_variance)
{
    const float *shared = shared_weight(be, weight);
    if (!shared)
        return;
    plain_of(be)->loss_latent(be, mean, log_variance, scale, shared, value, dmean, dlog_variance);
    average_value(be, value);
}

/* Norms over all pixels of the batch: the images themselves come together. */
typedef void image_loss(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx);

static void norm_of_images(rc_backend *be, image_loss *loss, const rc_tensor *x, const float *weight, void *value,
                           void *dx)
{
    size_t count = rc_act_count(be, x->n, x->h, x->w, x->c), bytes = count * be->act_bytes;
    rc_tensor whole = {};
    whole.n = x->n * be->parts;
    whole.h = x->h;
    whole.w = x->w;
    whole.c = x->c;
    whole.groups = 1;
    whole.group_end[0] = whole.n;
    whole.raw = gathered(be, 0, x->stored ? x->value : x->raw, bytes);
    void *gradient = cleared(be, 1, bytes);
    if (!fine(be))
        return;
    loss(be, &whole, weight, value, gradient);
    if (rc_cuda_of(be)->bf16)
        add_part<__nv_bfloat16>(be, dx, gradient, count);
    else
        add_part<float>(be, dx, gradient, count);
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

void rc_cuda_leave_workers(rc_cuda *cuda)
{
    rc_cuda_close_talks(cuda);
    free(cuda->party); /* the blocks go with all other memory */
    cuda->party = NULL;
}

template <typename Sum> static void fill_norm(rc_backend *table)
{
    table->bn_train = bn_train<Sum>;
    table->bn_statistics = bn_statistics<Sum>;
    table->bn_backward = bn_backward<Sum>;
}

/* One process has the whole batch. It still sends gradients, to itself. */
static void bring_batches_together(rc_cuda *cuda)
{
    rc_backend *be = &cuda->table;
    if (cuda->bf16)
        fill_norm<sum_of<__nv_bfloat16>::type>(be);
    else
        fill_norm<sum_of<float>::type>(be);
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
}

rc_status rc_cuda_join_workers(rc_backend *be, struct rc_workers *workers)
{
    rc_cuda *cuda = rc_cuda_of(be);
    cuda->party = (struct rc_cuda_party *)calloc(1, sizeof *cuda->party);
    if (!cuda->party) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *cuda->party);
        return RC_OUT_OF_MEMORY;
    }
    cuda->party->plain = *be;
    be->workers = workers;
    be->part = workers->index;
    be->parts = workers->count;
    be->link_workers = rc_cuda_link_workers;
    be->sum_workers = sum_workers;
    if (workers->count > 1)
        bring_batches_together(cuda);
    return rc_cuda_open_talks(cuda);
}
