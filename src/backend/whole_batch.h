/* Operations of a backend that is one of several processes (workers.h), as far as backends do them alike: losses on
 * logits, features and images, class statistics, counts of labels. cpu/workers.c and cuda/workers.cu include this, once
 * each, after they have defined the hooks:
 *
 *     whole_plain    the table of operations as it was before the processes joined
 *     whole_known    where this file keeps what it knows of gathered rows
 *     whole_fine     false: an error is set, and nothing is enqueued any more
 *     whole_block    memory of the backend of at least so many bytes, by slot; it keeps what it holds until the slot is
 *                    asked for more. NULL: an error is set
 *     whole_gather   the bytes of all processes, one after the other in their order
 *     whole_bundle   begins or ends what the backend may gather as one: nothing reads it before the end
 *     whole_add      adds this process's part of `whole` to `to`: `count` reals, or acts
 *     whole_share    the weight that a part has of a mean over images; whole_average: the mean of all parts' values
 *
 * Each function brings together what all processes have, and calls the operation that was there before on the whole:
 *
 *   losses on logits and features, class statistics, counts of labels    the rows of all processes; of the gradient a
 *                                                                        process keeps its own rows
 *   losses that are means over images                                    the mean of all processes' means
 *   losses that are norms of images                                      the images of all processes
 *
 * Several losses of a step read the same logits. They are gathered once, and known until something writes to them: a
 * dense layer, a copy from the host, zero, copy, the next step, or the end of some memory. */
#ifndef RC_BACKEND_WHOLE_BATCH_H
#define RC_BACKEND_WHOLE_BATCH_H

#include <string.h>

#include "backend/backend.h"

/* Blocks: those that one operation needs at a time, and those of logits that are known. */
enum { WHOLE_SLOTS = 5, WHOLE_KNOWN = 4, WHOLE_BLOCKS = WHOLE_SLOTS + WHOLE_KNOWN };

/* Of a lane, because another one may be ahead. */
typedef struct whole_rows {
    const char *mine[WHOLE_KNOWN]; /* NULL: nothing is known */
    size_t bytes[WHOLE_KNOWN];
    int next; /* the one that makes room */
} whole_rows;

typedef struct whole_memory {
    whole_rows lane[4];
} whole_memory;

static rc_backend *whole_plain(rc_backend *be);
static whole_memory *whole_known(rc_backend *be, int *lane);
static bool whole_fine(rc_backend *be);
static void *whole_block(rc_backend *be, int slot, size_t bytes);
static void whole_gather(rc_backend *be, const void *mine, void *all, size_t bytes);
static void whole_bundle(rc_backend *be, bool begin);
static void whole_add(rc_backend *be, void *to, const void *whole, size_t count, bool acts);
static const float *whole_share(rc_backend *be, const float *weight);
static void whole_average(rc_backend *be, void *value);

/* ---- what comes together ---------------------------------------------------------------------------------------- */

/* What all processes have, in their order. */
static void *whole_of_all(rc_backend *be, int slot, const void *mine, size_t bytes)
{
    void *all = whole_block(be, slot, bytes * (size_t)be->parts);
    if (all)
        whole_gather(be, mine, all, bytes);
    return all;
}

static void *whole_reals(rc_backend *be, int slot, const void *mine, size_t count)
{
    return whole_of_all(be, slot, mine, count * be->real_bytes);
}

static int32_t *whole_labels(rc_backend *be, int slot, const int32_t *mine, int n)
{
    return (int32_t *)whole_of_all(be, slot, mine, (size_t)n * sizeof *mine);
}

/* Logits, gathered once. */
static void *whole_logits(rc_backend *be, const void *mine, size_t count)
{
    int lane;
    whole_rows *known = &whole_known(be, &lane)->lane[lane];
    size_t bytes = count * be->real_bytes;
    for (int i = 0; i < WHOLE_KNOWN; i++)
        if (known->mine[i] == mine && known->bytes[i] == bytes)
            return whole_block(be, WHOLE_SLOTS + i, bytes * (size_t)be->parts);
    int i = known->next;
    known->next = (i + 1) % WHOLE_KNOWN;
    known->mine[i] = (const char *)mine;
    known->bytes[i] = bytes;
    return whole_of_all(be, WHOLE_SLOTS + i, mine, bytes);
}

/* What was gathered of these bytes counts no more. */
static void whole_forget(rc_backend *be, const void *memory, size_t bytes)
{
    int here;
    whole_memory *known = whole_known(be, &here);
    const char *begin = (const char *)memory, *end = begin + bytes;
    for (size_t lane = 0; lane < sizeof known->lane / sizeof *known->lane; lane++)
        for (int i = 0; i < WHOLE_KNOWN; i++) {
            const char *mine = known->lane[lane].mine[i];
            if (mine && mine < end && begin < mine + known->lane[lane].bytes[i])
                known->lane[lane].mine[i] = NULL;
        }
}

static void whole_forget_all(rc_backend *be)
{
    int here;
    whole_memory *known = whole_known(be, &here);
    for (size_t lane = 0; lane < sizeof known->lane / sizeof *known->lane; lane++)
        for (int i = 0; i < WHOLE_KNOWN; i++)
            known->lane[lane].mine[i] = NULL;
}

/* A gradient of the whole batch, of which `bytes` belong to a process: 0 until a loss adds to it. */
static void *whole_cleared(rc_backend *be, int slot, size_t bytes)
{
    void *whole = whole_block(be, slot, bytes * (size_t)be->parts);
    if (whole)
        whole_plain(be)->zero(be, whole, bytes * (size_t)be->parts);
    return whole;
}

static void *whole_gradient(rc_backend *be, int slot, size_t count)
{
    return whole_cleared(be, slot, count * be->real_bytes);
}

/* ---- what writes to logits -------------------------------------------------------------------------------------- */

static void whole_dense_forward(rc_backend *be, int n, int in, int out, const void *x, const void *weight,
                                const void *bias, void *y, int y_stride)
{
    whole_forget(be, y, (size_t)n * (size_t)y_stride * be->real_bytes);
    whole_plain(be)->dense_forward(be, n, in, out, x, weight, bias, y, y_stride);
}

static void whole_write_bytes(rc_backend *be, void *to, const void *from, size_t bytes)
{
    whole_forget(be, to, bytes);
    whole_plain(be)->write_bytes(be, to, from, bytes);
}

static void whole_write_real(rc_backend *be, void *to, const float *from, size_t count)
{
    whole_forget(be, to, count * be->real_bytes);
    whole_plain(be)->write_real(be, to, from, count);
}

static void whole_write_real64(rc_backend *be, void *to, const double *from, size_t count)
{
    whole_forget(be, to, count * be->real_bytes);
    whole_plain(be)->write_real64(be, to, from, count);
}

static void whole_zero(rc_backend *be, void *memory, size_t bytes)
{
    whole_forget(be, memory, bytes);
    whole_plain(be)->zero(be, memory, bytes);
}

static void whole_copy(rc_backend *be, void *to, const void *from, size_t bytes)
{
    whole_forget(be, to, bytes);
    whole_plain(be)->copy(be, to, from, bytes);
}

static void whole_release(rc_backend *be, void *memory)
{
    whole_forget_all(be);
    whole_plain(be)->release(be, memory);
}

static void whole_step_begin(rc_backend *be, rc_step *step)
{
    whole_forget_all(be);
    whole_plain(be)->step_begin(be, step);
}

/* ---- losses on logits ------------------------------------------------------------------------------------------- */

static void whole_cross_entropy(rc_backend *be, const rc_cross_entropy *ce, const void *logits, const int32_t *labels,
                                const void *class_weight, const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)ce->n * (size_t)ce->stride;
    rc_cross_entropy whole = *ce;
    whole.n *= be->parts;
    whole_bundle(be, true);
    const void *all = whole_logits(be, logits, count);
    const int32_t *of_all = whole_labels(be, 0, labels, ce->n);
    if (ce->partner != NULL) {
        whole.partner = whole_labels(be, 2, ce->partner, ce->n);
        whole.share = whole_reals(be, 3, ce->share, (size_t)ce->n);
    }
    whole_bundle(be, false);
    void *gradient = whole_gradient(be, 1, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_cross_entropy(be, &whole, all, of_all, class_weight, weight, value, gradient);
    whole_add(be, dlogits, gradient, count, false);
}

static void whole_decoupled(rc_backend *be, int n, int stride, int n_old, int classes, const void *logits,
                            const int32_t *labels, const float *inter_weight, const float *intra_weight,
                            void *inter_value, void *intra_value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    whole_bundle(be, true);
    const void *all = whole_logits(be, logits, count);
    const int32_t *of_all = whole_labels(be, 0, labels, n);
    whole_bundle(be, false);
    void *gradient = whole_gradient(be, 1, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_decoupled(be, n * be->parts, stride, n_old, classes, all, of_all, inter_weight, intra_weight,
                                    inter_value, intra_value, gradient);
    whole_add(be, dlogits, gradient, count, false);
}

static void whole_hkd(rc_backend *be, int n, int n_old, const void *logits, int stride, const void *teacher,
                      int teacher_stride, const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    whole_bundle(be, true);
    const void *all = whole_logits(be, logits, count);
    const void *of_teacher = whole_logits(be, teacher, (size_t)n * (size_t)teacher_stride);
    whole_bundle(be, false);
    void *gradient = whole_gradient(be, 1, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_hkd(be, n * be->parts, n_old, all, stride, of_teacher, teacher_stride, weight, value,
                              gradient);
    whole_add(be, dlogits, gradient, count, false);
}

static void whole_kd(rc_backend *be, const rc_distillation *kd, const void *logits, const void *teacher,
                     const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)kd->n * (size_t)kd->student_stride;
    rc_distillation whole = *kd;
    whole.n *= be->parts;
    whole_bundle(be, true);
    const void *all = whole_logits(be, logits, count);
    const void *of_teacher = whole_logits(be, teacher, (size_t)kd->n * (size_t)kd->teacher_stride);
    whole_bundle(be, false);
    void *gradient = whole_gradient(be, 1, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_kd(be, &whole, all, of_teacher, weight, value, gradient);
    whole_add(be, dlogits, gradient, count, false);
}

static void whole_diversity(rc_backend *be, int n, int classes, int stride, const void *logits, float epsilon,
                            const float *weight, void *value, void *dlogits)
{
    size_t count = (size_t)n * (size_t)stride;
    const void *all = whole_logits(be, logits, count);
    void *gradient = whole_gradient(be, 1, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_diversity(be, n * be->parts, classes, stride, all, epsilon, weight, value, gradient);
    whole_add(be, dlogits, gradient, count, false);
}

static rc_status whole_reserve_losses(rc_backend *be, int n, int classes, int h, int w, int c)
{
    return whole_plain(be)->reserve_losses(be, n * be->parts, classes, h, w, c);
}

/* ---- losses on features ----------------------------------------------------------------------------------------- */

static void whole_feature(rc_backend *be, int n, int d, int n_old, const void *features, const void *teacher_features,
                          const void *head, void *workspace, const float *weight, void *value, void *dfeatures)
{
    size_t count = (size_t)n * (size_t)d, rows = (size_t)n * (size_t)be->parts;
    whole_bundle(be, true);
    const void *all = whole_reals(be, 0, features, count);
    const void *of_teacher = whole_reals(be, 1, teacher_features, count);
    whole_bundle(be, false);
    void *gradient = whole_gradient(be, 2, count);
    (void)workspace; /* of a part */
    void *of_whole = whole_block(be, 3, rows * (size_t)n_old * be->real_bytes);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_feature(be, n * be->parts, d, n_old, all, of_teacher, head, of_whole, weight, value,
                                  gradient);
    whole_add(be, dfeatures, gradient, count, false);
}

static void whole_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                      const float *weight, void *value, void *dstudent, void *dteacher)
{
    size_t count = (size_t)n * (size_t)d;
    whole_bundle(be, true);
    const void *all = whole_reals(be, 0, student, count), *of_teacher = whole_reals(be, 1, teacher, count);
    whole_bundle(be, false);
    void *by_student = whole_gradient(be, 2, count), *by_teacher = whole_gradient(be, 3, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_rkd(be, n * be->parts, d, all, of_teacher, workspace, weight, value, by_student, by_teacher);
    whole_add(be, dstudent, by_student, count, false);
    whole_add(be, dteacher, by_teacher, count, false);
}

static size_t whole_rkd_workspace(rc_backend *be, int n, int d)
{
    return whole_plain(be)->rkd_workspace(be, n * be->parts, d);
}

static void whole_dce(rc_backend *be, const rc_dce *dce, const void *features, const int32_t *labels,
                      const float *weight, void *value, void *dfeatures)
{
    size_t count = (size_t)dce->n * (size_t)dce->d;
    rc_dce whole = *dce;
    whole.n *= be->parts;
    whole_bundle(be, true);
    const void *all = whole_reals(be, 0, features, count);
    const int32_t *of_all = whole_labels(be, 1, labels, dce->n);
    whole_bundle(be, false);
    void *gradient = whole_gradient(be, 2, count);
    if (!whole_fine(be))
        return;
    whole_plain(be)->loss_dce(be, &whole, all, of_all, weight, value, gradient);
    whole_add(be, dfeatures, gradient, count, false);
}

static size_t whole_dce_workspace(rc_backend *be, int n, int d, int classes)
{
    return whole_plain(be)->dce_workspace(be, n * be->parts, d, classes);
}

static void whole_class_statistics(rc_backend *be, int n, int d, int classes, const void *features,
                                   const int32_t *labels, const void *center, int32_t *count, double *sum,
                                   double *outer)
{
    whole_bundle(be, true);
    const void *all = whole_reals(be, 0, features, (size_t)n * (size_t)d);
    const int32_t *of_all = whole_labels(be, 1, labels, n);
    whole_bundle(be, false);
    if (whole_fine(be))
        whole_plain(be)->class_statistics(be, n * be->parts, d, classes, all, of_all, center, count, sum, outer);
}

static void whole_count_labels(rc_backend *be, int n, const int32_t *labels, int classes, int32_t *count)
{
    const int32_t *of_all = whole_labels(be, 0, labels, n);
    if (whole_fine(be))
        whole_plain(be)->count_labels(be, n * be->parts, of_all, classes, count);
}

/* ---- losses on images ------------------------------------------------------------------------------------------- */

static void whole_smoothing(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    const float *shared = whole_share(be, weight);
    if (!shared)
        return;
    whole_plain(be)->loss_smoothing(be, x, shared, value, dx);
    whole_average(be, value);
}

static void whole_reconstruction(rc_backend *be, const rc_tensor *x, const rc_tensor *target, const void *sample_weight,
                                 const float *weight, void *value, void *dx)
{
    const float *shared = whole_share(be, weight);
    if (!shared)
        return;
    whole_plain(be)->loss_reconstruction(be, x, target, sample_weight, shared, value, dx);
    whole_average(be, value);
}

static void whole_latent(rc_backend *be, const rc_tensor *mean, const rc_tensor *log_variance, float scale,
                         const float *weight, void *value, void *dmean, void *dlog_variance)
{
    const float *shared = whole_share(be, weight);
    if (!shared)
        return;
    whole_plain(be)->loss_latent(be, mean, log_variance, scale, shared, value, dmean, dlog_variance);
    whole_average(be, value);
}

/* Norms over all pixels of the batch: the images themselves come together. */
typedef void whole_image_loss(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx);

static void whole_norm(rc_backend *be, whole_image_loss *loss, const rc_tensor *x, const float *weight, void *value,
                       void *dx)
{
    size_t count = rc_act_count(be, x->n, x->h, x->w, x->c), bytes = count * be->act_bytes;
    rc_tensor whole;
    memset(&whole, 0, sizeof whole);
    whole.n = whole.group_end[0] = x->n * be->parts;
    whole.h = x->h;
    whole.w = x->w;
    whole.c = x->c;
    whole.groups = 1;
    whole.raw = whole_of_all(be, 0, x->stored ? x->value : x->raw, bytes);
    void *gradient = whole_cleared(be, 1, bytes);
    if (!whole_fine(be))
        return;
    loss(be, &whole, weight, value, gradient);
    whole_add(be, dx, gradient, count, true);
}

static void whole_total_variation(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    whole_norm(be, whole_plain(be)->loss_total_variation, x, weight, value, dx);
}

static void whole_image_norm(rc_backend *be, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    whole_norm(be, whole_plain(be)->loss_image_norm, x, weight, value, dx);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static void whole_fill(rc_backend *be)
{
    be->dense_forward = whole_dense_forward;
    be->write_bytes = whole_write_bytes;
    be->write_real = whole_write_real;
    be->write_real64 = whole_write_real64;
    be->zero = whole_zero;
    be->copy = whole_copy;
    be->release = whole_release;
    be->step_begin = whole_step_begin;
    be->loss_cross_entropy = whole_cross_entropy;
    be->loss_decoupled = whole_decoupled;
    be->loss_hkd = whole_hkd;
    be->loss_kd = whole_kd;
    be->loss_diversity = whole_diversity;
    be->reserve_losses = whole_reserve_losses;
    be->loss_feature = whole_feature;
    be->loss_rkd = whole_rkd;
    be->rkd_workspace = whole_rkd_workspace;
    be->loss_dce = whole_dce;
    be->dce_workspace = whole_dce_workspace;
    be->class_statistics = whole_class_statistics;
    be->count_labels = whole_count_labels;
    be->loss_smoothing = whole_smoothing;
    be->loss_reconstruction = whole_reconstruction;
    be->loss_latent = whole_latent;
    be->loss_total_variation = whole_total_variation;
    be->loss_image_norm = whole_image_norm;
}

#endif
