/* Losses on features, on the head's weights and on statistics: ABD's feature distillation, RKD, WAR, DCE, BN.
 *
 * Each adds weight * gradient to what it is given and overwrites its value slot, except that the BN loss overwrites
 * its gradients too. Sums are taken in double, whatever `real` is.
 */
#include <math.h>

#include "backend/cpu/reference/reference.h"

/* ---- ABD: importance-weighted feature distillation --------------------------------------------------------
 * D = (f - f_teacher) W^T, (n, n_old): the old head (n_old, d) says which directions of the features matter.
 *     L = sum D^2 / (n n_old)        dL/df = 2 D W / (n n_old) */
static void loss_feature(rc_backend *backend, int n, int d, int n_old, const void *features,
                         const void *teacher_features, const void *head, void *workspace, const float *weight,
                         void *value, void *dfeatures)
{
    (void)backend;
    const real *f = features, *t = teacher_features, *w = head;
    real *difference = workspace, *df = dfeatures;
    double total = 0, count = (double)n * n_old;
    for (int b = 0; b < n; b++) {
        for (int k = 0; k < n_old; k++) {
            double sum = 0;
            for (int i = 0; i < d; i++)
                sum += ((double)f[(size_t)b * (size_t)d + (size_t)i] - t[(size_t)b * (size_t)d + (size_t)i]) *
                       w[(size_t)k * (size_t)d + (size_t)i];
            difference[(size_t)b * (size_t)n_old + (size_t)k] = (real)sum;
            total += sum * sum;
        }
        for (int i = 0; i < d; i++) {
            double sum = 0;
            for (int k = 0; k < n_old; k++)
                sum += (double)difference[(size_t)b * (size_t)n_old + (size_t)k] * w[(size_t)k * (size_t)d + (size_t)i];
            df[(size_t)b * (size_t)d + (size_t)i] += (real)(*weight * 2 * sum / count);
        }
    }
    *(real *)value = (real)(total / count);
}

/* ---- RKD: angles between embeddings -----------------------------------------------------------------------
 * For embeddings e_1..e_n let d_ij = e_j - e_i, q_ij = |d_ij|^2, v_ij = 1 / max(|d_ij|, 1e-12). The angle at i is
 *     a_ijk = <d_ij, d_ik> v_ij v_ik = 1/2 (q_ij + q_ik - q_jk) v_ij v_ik          (law of cosines)
 *     L = sum_ijk |a^s_ijk - a^t_ijk| / n^3
 * The numerator is the centred Gram matrix' g_jk - g_ij - g_ik + g_ii, written with the distances: it is exactly 0
 * for i = j and i = k, needs no centring and stays exact for equal embeddings. Those have no direction: v = 0, hence
 * angle 0 and no gradient (as for i = j).
 *
 * With s_ijk = sign(a^s - a^t), which is symmetric in j and k, and dv_ij/dq_ij = -1/2 v_ij^3:
 *     apex_ij = sum_k s_ijk (v_ij v_ik - a_ijk v_ij^2)          both sides that meet at i
 *     base_jk = sum_i s_ijk v_ij v_ik                           the side opposite of i
 *     w_ij = dL/dq_ij = (apex_ij + apex_ji - base_ij) / n^3
 *     dL/de_i = 2 sum_j w_ij (e_i - e_j)                        sums to 0 over i, since w is symmetric
 * The entries j = k are constant (a = 1) and give no gradient. For the teacher the same with -s. Below 1e-12 v is a
 * constant, so the second term of apex is absent. */
typedef struct angles {
    double *squared, *inverse, *slope; /* (n, n): q, v and w */
} angles;

static const double smallest_norm = 1e-12;

static void measure_distances(int n, int d, const real *e, angles to)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int c = 0; c < d; c++) {
                double difference = (double)e[(size_t)j * (size_t)d + (size_t)c] - e[(size_t)i * (size_t)d + (size_t)c];
                sum += difference * difference;
            }
            double norm = sqrt(sum);
            size_t at = (size_t)i * (size_t)n + (size_t)j;
            to.squared[at] = sum;
            to.inverse[at] = sum > 0 ? 1 / (norm > smallest_norm ? norm : smallest_norm) : 0;
            to.slope[at] = 0;
        }
    }
}

static double angle(int n, angles of, int i, int j, int k)
{
    size_t ij = (size_t)i * (size_t)n + (size_t)j, ik = (size_t)i * (size_t)n + (size_t)k;
    size_t jk = (size_t)j * (size_t)n + (size_t)k;
    if (j == k && of.squared[ij] > smallest_norm * smallest_norm)
        return 1; /* the square of a unit vector, without rounding */
    return 0.5 * (of.squared[ij] + of.squared[ik] - of.squared[jk]) * of.inverse[ij] * of.inverse[ik];
}

/* Adds what the entry (i, j, k), j != k, of sign s gives to w_ij and w_jk. w_ik gets its part from (i, k, j), and each
 * of those two gives half of base_jk. */
static void add_slopes(int n, angles to, int i, int j, int k, double a, double s)
{
    size_t ij = (size_t)i * (size_t)n + (size_t)j, ji = (size_t)j * (size_t)n + (size_t)i;
    size_t jk = (size_t)j * (size_t)n + (size_t)k, kj = (size_t)k * (size_t)n + (size_t)j;
    double vij = to.inverse[ij], vik = to.inverse[(size_t)i * (size_t)n + (size_t)k];
    bool direction_varies = to.squared[ij] > smallest_norm * smallest_norm;
    double apex = s * (vij * vik - (direction_varies ? a * vij * vij : 0));
    double base = s * vij * vik;
    to.slope[ij] += apex;
    to.slope[ji] += apex;
    to.slope[jk] -= 0.5 * base;
    to.slope[kj] -= 0.5 * base;
}

static void add_embedding_gradient(int n, int d, const real *e, angles of, double scale, real *de)
{
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < d; c++) {
            double sum = 0;
            for (int j = 0; j < n; j++)
                sum += of.slope[(size_t)i * (size_t)n + (size_t)j] *
                       ((double)e[(size_t)i * (size_t)d + (size_t)c] - e[(size_t)j * (size_t)d + (size_t)c]);
            de[(size_t)i * (size_t)d + (size_t)c] += (real)(scale * 2 * sum);
        }
    }
}

static size_t rkd_workspace(rc_backend *backend, int n, int d)
{
    (void)backend;
    (void)d;
    return 6 * (size_t)n * (size_t)n * sizeof(double);
}

static void loss_rkd(rc_backend *backend, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    (void)backend;
    size_t matrix = (size_t)n * (size_t)n;
    double *space = workspace, total = 0, count = (double)n * n * n;
    angles of_student = {space, space + matrix, space + 2 * matrix};
    angles of_teacher = {space + 3 * matrix, space + 4 * matrix, space + 5 * matrix};
    measure_distances(n, d, student, of_student);
    measure_distances(n, d, teacher, of_teacher);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            for (int k = 0; k < n; k++) {
                double a = angle(n, of_student, i, j, k), b = angle(n, of_teacher, i, j, k);
                double sign = (a > b) - (a < b);
                total += fabs(a - b);
                if (j != k && sign != 0) {
                    add_slopes(n, of_student, i, j, k, a, sign);
                    add_slopes(n, of_teacher, i, j, k, b, -sign);
                }
            }
        }
    }
    add_embedding_gradient(n, d, student, of_student, *weight / count, dstudent);
    add_embedding_gradient(n, d, teacher, of_teacher, *weight / count, dteacher);
    *(real *)value = (real)(total / count);
}

/* ---- WAR: old and new rows of the head get norms alike ----------------------------------------------------
 * n_k = |w_k|, m_old and m_new the means over old and new rows:
 *     L = sum_{k old} |n_k - m_new| + sum_{k new} |n_k - m_old|        [ / classes: the printed form ]
 * The means take part in the gradient. With s_k the sign of row k's term:
 *     dL/dn_k = s_k - (sum of s over the other set) / (rows in k's set)        dn_k/dw_k = w_k / n_k, 0 at 0 */
static double row_norm(const real *row, int d)
{
    double sum = 0;
    for (int i = 0; i < d; i++)
        sum += (double)row[i] * row[i];
    return sqrt(sum);
}

static void loss_war(rc_backend *backend, int classes, int n_old, int d, bool paper, const void *head,
                     const float *weight, void *value, void *dhead)
{
    (void)backend;
    const real *rows = head;
    real *drows = dhead;
    double mean[2] = {0, 0}, signs[2] = {0, 0}, total = 0, divisor = paper ? classes : 1; /* [0] old, [1] new */
    double rows_in[2] = {n_old, classes - n_old};
    for (int k = 0; k < classes; k++)
        mean[k >= n_old] += row_norm(rows + (size_t)k * (size_t)d, d) / rows_in[k >= n_old];
    for (int k = 0; k < classes; k++) {
        double difference = row_norm(rows + (size_t)k * (size_t)d, d) - mean[k < n_old];
        signs[k >= n_old] += (difference > 0) - (difference < 0);
        total += fabs(difference);
    }
    for (int k = 0; k < classes; k++) {
        double norm = row_norm(rows + (size_t)k * (size_t)d, d), difference = norm - mean[k < n_old];
        double slope = (difference > 0) - (difference < 0) - signs[k < n_old] / rows_in[k >= n_old];
        for (int i = 0; i < d && norm > 0; i++)
            drows[(size_t)k * (size_t)d + (size_t)i] += (real)(*weight * slope / divisor *
                                                               rows[(size_t)k * (size_t)d + (size_t)i] / norm);
    }
    *(real *)value = (real)(total / divisor);
}

/* ---- DCE: features of dreams keep class means and covariance ----------------------------------------------
 * Of the batch, with y the pseudo-labels and n_k samples of class k:
 *     m_k = mean of h_b over y_b = k        r_b = h_b - m_{y_b}        S = sum_b r_b r_b^T / (n - 1)
 * (the residuals of every class sum to 0, so centring them once more changes nothing).
 * Moving averages: r_k := m_k, R := S until every class has been dreamt in an earlier step; from then on
 *     r_k := momentum r_k + (1 - momentum) m_k for the classes of the batch,   R := momentum R + (1 - momentum) S,
 * where the old values are constants, so the gradient reaches the batch by the factor g = 1 - momentum (or 1).
 *     L = sqrt( sum_{k in batch, u_k known} |r_k - u_k|^2 ) + |R - C|_F                         u, C: stored
 *     dL/dh_b = g (r_k - u_k) / (n_k first norm) + 2 g / (n - 1) * (R - C) / |R - C|_F * r_b,   k = y_b
 * with a norm of 0 giving no gradient. The printed form: a sum of norms per class, divisor n, no moving averages. */
typedef struct dce_space {
    double *mean;     /* (classes, d): batch means, then the differences r_k - u_k over their norm */
    double *residual; /* (n, d) */
    double *slope;    /* (d, d): S, then (R - C) / |R - C|_F */
    double *members;  /* (classes): samples in the batch */
} dce_space;

static size_t dce_workspace(rc_backend *backend, int n, int d, int classes)
{
    (void)backend;
    size_t rows = (size_t)classes + (size_t)n + (size_t)d;
    return (rows * (size_t)d + (size_t)classes) * sizeof(double);
}

static dce_space split_dce_workspace(const rc_dce *dce)
{
    dce_space space;
    space.mean = dce->workspace;
    space.residual = space.mean + (size_t)dce->classes * (size_t)dce->d;
    space.slope = space.residual + (size_t)dce->n * (size_t)dce->d;
    space.members = space.slope + (size_t)dce->d * (size_t)dce->d;
    return space;
}

/* Members, means, residuals and covariance of the batch. */
static void batch_statistics(const rc_dce *dce, const real *features, const int32_t *labels, dce_space space)
{
    int n = dce->n, d = dce->d, classes = dce->classes;
    for (int k = 0; k < classes; k++)
        space.members[k] = 0;
    for (int b = 0; b < n; b++)
        space.members[labels[b]]++;
    for (size_t i = 0; i < (size_t)classes * (size_t)d; i++)
        space.mean[i] = 0;
    for (int b = 0; b < n; b++)
        for (int i = 0; i < d; i++)
            space.mean[(size_t)labels[b] * (size_t)d + (size_t)i] += features[(size_t)b * (size_t)d + (size_t)i] /
                                                                     space.members[labels[b]];
    for (int b = 0; b < n; b++)
        for (int i = 0; i < d; i++)
            space.residual[(size_t)b * (size_t)d + (size_t)i] = features[(size_t)b * (size_t)d + (size_t)i] -
                                                                space.mean[(size_t)labels[b] * (size_t)d + (size_t)i];
    double divisor = dce->paper ? n : n > 1 ? n - 1 : 1;
    for (int i = 0; i < d; i++) {
        for (int j = 0; j < d; j++) {
            double sum = 0;
            for (int b = 0; b < n; b++)
                sum += space.residual[(size_t)b * (size_t)d + (size_t)i] *
                       space.residual[(size_t)b * (size_t)d + (size_t)j];
            space.slope[(size_t)i * (size_t)d + (size_t)j] = sum / divisor;
        }
    }
}

/* Replaces batch values by moving averages, in the workspace and in the state; `keep` is the share of the old. */
static void average_statistics(const rc_dce *dce, double keep, dce_space space)
{
    real *running_mean = dce->running_mean, *running_covariance = dce->running_covariance;
    size_t d = (size_t)dce->d;
    for (int k = 0; k < dce->classes; k++) {
        for (size_t i = 0; i < d && space.members[k] > 0; i++) {
            size_t at = (size_t)k * d + i;
            space.mean[at] = (keep > 0 ? keep * running_mean[at] : 0) + (1 - keep) * space.mean[at];
            running_mean[at] = (real)space.mean[at];
        }
    }
    for (size_t at = 0; at < d * d; at++) {
        space.slope[at] = (keep > 0 ? keep * running_covariance[at] : 0) + (1 - keep) * space.slope[at];
        running_covariance[at] = (real)space.slope[at];
    }
}

/* Means -> differences divided by their norm, one norm over all classes or one for each; returns the value. */
static double normalise_means(const rc_dce *dce, dce_space space)
{
    const real *target = dce->class_mean;
    size_t d = (size_t)dce->d;
    double all = 0, sum_of_norms = 0;
    for (int k = 0; k < dce->classes; k++) {
        double squares = 0;
        for (size_t i = 0; i < d; i++) {
            size_t at = (size_t)k * d + i;
            space.mean[at] = space.members[k] > 0 && !isnan(target[(size_t)k * d]) ? space.mean[at] - target[at] : 0;
            squares += space.mean[at] * space.mean[at];
        }
        all += squares;
        sum_of_norms += sqrt(squares);
        for (size_t i = 0; i < d && dce->paper && squares > 0; i++)
            space.mean[(size_t)k * d + i] /= sqrt(squares);
    }
    for (size_t i = 0; i < (size_t)dce->classes * d && !dce->paper && all > 0; i++)
        space.mean[i] /= sqrt(all);
    return dce->paper ? sum_of_norms : sqrt(all);
}

static double normalise_covariance(const rc_dce *dce, dce_space space)
{
    const real *target = dce->covariance;
    size_t entries = (size_t)dce->d * (size_t)dce->d;
    double squares = 0;
    for (size_t at = 0; at < entries; at++) {
        space.slope[at] -= target[at];
        squares += space.slope[at] * space.slope[at];
    }
    for (size_t at = 0; at < entries && squares > 0; at++)
        space.slope[at] /= sqrt(squares);
    return sqrt(squares);
}

static void loss_dce(rc_backend *backend, const rc_dce *dce, const void *features, const int32_t *labels,
                     const float *weight, void *value, void *dfeatures)
{
    (void)backend;
    int n = dce->n, d = dce->d;
    dce_space space = split_dce_workspace(dce);
    batch_statistics(dce, features, labels, space);
    double keep = 0;
    if (!dce->paper) {
        bool all_seen = true;
        for (int k = 0; k < dce->classes; k++)
            all_seen = all_seen && dce->seen[k];
        keep = all_seen ? dce->momentum : 0;
        average_statistics(dce, keep, space);
        for (int b = 0; b < n; b++)
            dce->seen[labels[b]] = 1;
    }
    double total = normalise_means(dce, space) + normalise_covariance(dce, space);
    double divisor = dce->paper ? n : n > 1 ? n - 1 : 1;
    for (int b = 0; b < n; b++) {
        const double *residual = space.residual + (size_t)b * (size_t)d;
        const double *mean_slope = space.mean + (size_t)labels[b] * (size_t)d;
        real *dh = (real *)dfeatures + (size_t)b * (size_t)d;
        for (int i = 0; i < d; i++) {
            double along = 0;
            for (int j = 0; j < d; j++)
                along += space.slope[(size_t)i * (size_t)d + (size_t)j] * residual[j];
            dh[i] += (real)(*weight * (1 - keep) * (mean_slope[i] / space.members[labels[b]] + 2 / divisor * along));
        }
    }
    *(real *)value = (real)total;
}

/* ---- statistics of BN inputs ------------------------------------------------------------------------------
 * Per layer, with e = bn_epsilon, batch mean m, v = batch variance + e, stored mean M and variance V:
 *     KL:  1/2 mean_c [ log(v / (V + e)) + (V + (M - m)^2 + e) / v - 1 ]
 *          d/dm = (m - M) / (v C)        d/dv = 1/2 [ 1/v - (V + (M - m)^2 + e) / v^2 ] / C
 *     L2:  |M - m|_2 + |V - v|_2         d/dm = (m - M) / |M - m|,  d/dv = (v - V) / |V - v|;  0 at 0
 * KL is averaged over the layers, KL_SUM and L2 are summed. */
static const double bn_epsilon = RC_BN_LOSS_EPSILON;

static double bn_divergence(const rc_bn_stat *layer, double factor)
{
    const real *mean = layer->mean, *var = layer->var;
    const real *running_mean = layer->running_mean, *running_var = layer->running_var;
    real *dmean = layer->dmean, *dvar = layer->dvar;
    double sum = 0;
    for (int c = 0; c < layer->c; c++) {
        double v = var[c] + bn_epsilon, shift = (double)mean[c] - running_mean[c];
        double stored = running_var[c] + bn_epsilon, ratio = (stored + shift * shift) / v;
        sum += log(v / stored) + ratio - 1;
        dmean[c] = (real)(factor * shift / (v * layer->c));
        dvar[c] = (real)(factor * 0.5 * (1 - ratio) / (v * layer->c));
    }
    return 0.5 * sum / layer->c;
}

static double bn_distance(const rc_bn_stat *layer, double factor)
{
    const real *mean = layer->mean, *var = layer->var;
    const real *running_mean = layer->running_mean, *running_var = layer->running_var;
    real *dmean = layer->dmean, *dvar = layer->dvar;
    double of_means = 0, of_variances = 0;
    for (int c = 0; c < layer->c; c++) {
        double shift = (double)mean[c] - running_mean[c], stretch = var[c] + bn_epsilon - running_var[c];
        of_means += shift * shift;
        of_variances += stretch * stretch;
    }
    of_means = sqrt(of_means);
    of_variances = sqrt(of_variances);
    for (int c = 0; c < layer->c; c++) {
        double shift = (double)mean[c] - running_mean[c], stretch = var[c] + bn_epsilon - running_var[c];
        dmean[c] = (real)(of_means > 0 ? factor * shift / of_means : 0);
        dvar[c] = (real)(of_variances > 0 ? factor * stretch / of_variances : 0);
    }
    return of_means + of_variances;
}

static void loss_bn(rc_backend *backend, rc_bn_loss_form form, const rc_bn_stat *layers, int count, const float *weight,
                    void *value)
{
    double share = form == RC_BN_KL ? 1.0 / count : 1, total = 0;
    for (int l = 0; l < count; l++) {
        const rc_bn_stat *layer = &layers[l];
        total += share *
                 (form == RC_BN_L2 ? bn_distance(layer, *weight * share) : bn_divergence(layer, *weight * share));
        for (int c = layer->c; c < rc_padded(backend, layer->c); c++)
            ((real *)layer->dmean)[c] = ((real *)layer->dvar)[c] = 0;
    }
    *(real *)value = (real)total;
}

void RC_REFERENCE(fill_feature_losses)(rc_backend *table)
{
    table->loss_feature = loss_feature;
    table->loss_rkd = loss_rkd;
    table->rkd_workspace = rkd_workspace;
    table->loss_war = loss_war;
    table->loss_dce = loss_dce;
    table->dce_workspace = dce_workspace;
    table->loss_bn = loss_bn;
}
