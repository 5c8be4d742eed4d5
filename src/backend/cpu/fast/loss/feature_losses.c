/* ABD's feature distillation, DCE and class statistics: matrix products in disguise. The formulas are those of
 * reference/feature_losses.c and reference/statistics.c. */
#include <math.h>
#include <string.h>

#include "backend/cpu/fast/loss/losses.h"

/* ---- ABD: importance-weighted feature distillation ----------------------------------------------------- */

typedef struct feature_loss {
    const float *features, *teacher, *head; /* (n, d), (n, d), (n_old, d) */
    float *projected, *gradient;            /* (n, n_old), (n, d) */
    int n, d, n_old, slots;
    float scale;
    double value[RC_MAX_SLOTS];
} feature_loss;

/* out_k = <a - b, w_k> for `count` rows of w (count, d), GROUP at a time so that a - b is made once for all. */
enum { GROUP = 4 };

static void project_difference(int count, int d, const float *a, const float *b, const float *w, float *out)
{
    for (int k = 0; k < count; k += GROUP) {
        const float *row[GROUP];
        for (int g = 0; g < GROUP; g++) /* beyond the last row: once more the last */
            row[g] = w + (size_t)(k + g < count ? k + g : count - 1) * (size_t)d;
        vec sum[GROUP] = {{0}};
        int i = 0;
        for (; i + RC_LANES <= d; i += RC_LANES) {
            vec difference = vec_load(a + i) - vec_load(b + i);
            for (int g = 0; g < GROUP; g++)
                sum[g] += difference * vec_load(row[g] + i);
        }
        for (int g = 0; g < GROUP && k + g < count; g++) {
            float total = vec_sum(sum[g]);
            for (int rest = i; rest < d; rest++)
                total += (a[rest] - b[rest]) * row[g][rest];
            out[k + g] = total;
        }
    }
}

/* to += scale * sum_k factor_k row_k, rows (count, d) */
static void add_weighted_rows(int count, int d, const float *factor, const float *rows, float scale, float *to)
{
    int i = 0;
    for (; i + GROUP * RC_LANES <= d; i += GROUP * RC_LANES) {
        vec sum[GROUP] = {{0}};
        for (int k = 0; k < count; k++)
            for (int g = 0; g < GROUP; g++)
                sum[g] += factor[k] * vec_load(rows + (size_t)k * (size_t)d + i + g * RC_LANES);
        for (int g = 0; g < GROUP; g++)
            vec_store(to + i + g * RC_LANES, vec_load(to + i + g * RC_LANES) + scale * sum[g]);
    }
    for (; i < d; i++) {
        float sum = 0;
        for (int k = 0; k < count; k++)
            sum += factor[k] * rows[(size_t)k * (size_t)d + (size_t)i];
        to[i] += scale * sum;
    }
}

static void feature_slot(void *context, int slot, int worker)
{
    (void)worker;
    feature_loss *f = context;
    double value = 0;
    for (int b = rc_slot_begin(f->n, f->slots, slot); b < rc_slot_begin(f->n, f->slots, slot + 1); b++) {
        size_t row = (size_t)b * (size_t)f->d;
        float *projected = f->projected + (size_t)b * (size_t)f->n_old;
        project_difference(f->n_old, f->d, f->features + row, f->teacher + row, f->head, projected);
        for (int k = 0; k < f->n_old; k++)
            value += (double)projected[k] * projected[k];
        add_weighted_rows(f->n_old, f->d, projected, f->head, f->scale, f->gradient + row);
    }
    f->value[slot] = value;
}

static void loss_feature(rc_backend *backend, int n, int d, int n_old, const void *features,
                         const void *teacher_features, const void *head, void *workspace, const float *weight,
                         void *value, void *dfeatures)
{
    double count = (double)n * n_old;
    feature_loss f = {.features = features,
                      .teacher = teacher_features,
                      .head = head,
                      .projected = workspace,
                      .gradient = dfeatures,
                      .n = n,
                      .d = d,
                      .n_old = n_old,
                      .slots = rc_slots(n, 2.0 * d * n_old),
                      .scale = (float)(2 * *weight / count)};
    rc_pool_run(rc_cpu_of(backend)->pool, f.slots, feature_slot, &f);
    *(float *)value = (float)(rc_sum_slots(f.value, f.slots) / count);
}

/* ---- DCE --------------------------------------------------------------------------------------------------
 * Two products: S = X^T X of the residuals X (n, d), and X D with the symmetric difference D = R - C (d, d). Both are
 * tiles of ROWS x COLUMNS vectors in registers: out_rc = sum_k a_kr b_kc. Rows of X and D are whole vectors long. */
enum { ROWS = 4 };
#if defined(__ARM_NEON) || defined(__AVX512F__)
enum { COLUMNS = 4 }; /* 32 registers */
#else
enum { COLUMNS = 2 };
#endif

/* a(k, r) = a[k * a_step + r * a_row], k < count. Rows and columns beyond the edge must be readable. */
RC_INLINE void multiply_tile(int count, const float *a, size_t a_step, size_t a_row, const float *b, size_t b_step,
                             vec out[ROWS][COLUMNS])
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            out[r][c] = vec_set(0);
    for (int k = 0; k < count; k++, a += a_step, b += b_step) {
        vec column[COLUMNS];
        for (int c = 0; c < COLUMNS; c++)
            column[c] = vec_load(b + c * RC_LANES);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                out[r][c] += a[(size_t)r * a_row] * column[c];
    }
}

typedef struct dce_step {
    const rc_dce *dce;
    const int32_t *labels;
    const float *features;
    float *gradient;
    int stride;        /* of residual and slope: whole tiles */
    float *mean;       /* (classes, d): batch means, then r_k - u_k */
    float *factor;     /* (classes): what r_k - u_k is multiplied with in the gradient */
    int32_t *members;  /* (classes) */
    float *residual;   /* (n rounded up to ROWS, stride) */
    float *slope;      /* (d rounded up to ROWS, stride): R - C */
    double *squares;   /* one for each ROWS rows of slope */
    float keep, scale; /* share of the old averages; factor of the second product */
} dce_step;

enum { TILE_WIDTH = COLUMNS * RC_LANES };

/* Without a share for the old value it may be anything. */
static float average(float keep, float old, float now)
{
    return keep > 0 ? keep * old + (1 - keep) * now : now;
}

static int whole(int count, int unit)
{
    return (count + unit - 1) / unit * unit;
}

static size_t dce_workspace(rc_backend *backend, int n, int d, int classes)
{
    (void)backend;
    size_t rows = (size_t)whole(n, ROWS) + (size_t)whole(d, ROWS);
    return (size_t)whole(d, ROWS) / ROWS * sizeof(double) +
           (rows * (size_t)whole(d, TILE_WIDTH) + (size_t)classes * ((size_t)d + 2)) * sizeof(float);
}

static void split_dce_workspace(dce_step *s)
{
    const rc_dce *dce = s->dce;
    s->stride = whole(dce->d, TILE_WIDTH);
    s->squares = dce->workspace;
    s->residual = (float *)(s->squares + whole(dce->d, ROWS) / ROWS);
    s->slope = s->residual + (size_t)whole(dce->n, ROWS) * (size_t)s->stride;
    s->mean = s->slope + (size_t)whole(dce->d, ROWS) * (size_t)s->stride;
    s->factor = s->mean + (size_t)dce->classes * (size_t)dce->d;
    s->members = (int32_t *)(s->factor + dce->classes);
}

/* Members and means of the classes in the batch; the others' means are left as they are. */
static void batch_means(dce_step *s)
{
    const rc_dce *dce = s->dce;
    size_t d = (size_t)dce->d;
    memset(s->members, 0, (size_t)dce->classes * sizeof *s->members);
    for (int b = 0; b < dce->n; b++) {
        const float *feature = s->features + (size_t)b * d;
        float *mean = s->mean + (size_t)s->labels[b] * d;
        if (s->members[s->labels[b]]++ == 0)
            memset(mean, 0, d * sizeof *mean);
        for (size_t i = 0; i < d; i++)
            mean[i] += feature[i];
    }
    for (int k = 0; k < dce->classes; k++)
        for (size_t i = 0; i < d && s->members[k] > 0; i++)
            s->mean[(size_t)k * d + i] /= (float)s->members[k];
}

/* Rows and columns beyond the batch are zeros. */
static void residuals(dce_step *s)
{
    int n = s->dce->n, d = s->dce->d;
    for (int b = 0; b < whole(n, ROWS); b++) {
        float *row = s->residual + (size_t)b * (size_t)s->stride;
        int filled = b < n ? d : 0;
        const float *feature = s->features + (size_t)b * (size_t)d;
        const float *mean = s->mean + (size_t)(b < n ? s->labels[b] : 0) * (size_t)d;
        for (int i = 0; i < filled; i++)
            row[i] = feature[i] - mean[i];
        memset(row + filled, 0, (size_t)(s->stride - filled) * sizeof *row);
    }
}

/* Moving averages of the means, their distance from the stored ones, and the factors of the gradient. */
static double compare_means(dce_step *s)
{
    const rc_dce *dce = s->dce;
    const float *target = dce->class_mean;
    float *running = dce->running_mean;
    size_t d = (size_t)dce->d;
    double all = 0, sum_of_norms = 0;
    for (int k = 0; k < dce->classes; k++) {
        double squares = 0;
        s->factor[k] = 0;
        for (size_t at = (size_t)k * d; at < (size_t)(k + 1) * d && s->members[k] > 0; at++) {
            if (!dce->paper)
                running[at] = s->mean[at] = average(s->keep, running[at], s->mean[at]);
            s->mean[at] -= isnan(target[(size_t)k * d]) ? s->mean[at] : target[at];
            squares += (double)s->mean[at] * s->mean[at];
        }
        if (squares > 0)
            s->factor[k] = (1 - s->keep) / (float)s->members[k] / (dce->paper ? (float)sqrt(squares) : 1);
        all += squares;
        sum_of_norms += sqrt(squares);
    }
    for (int k = 0; k < dce->classes && !dce->paper && all > 0; k++)
        s->factor[k] /= (float)sqrt(all);
    return dce->paper ? sum_of_norms : sqrt(all);
}

/* ROWS rows of R - C, their squares, and the moving average. */
static void covariance_rows(void *context, int task, int worker)
{
    (void)worker;
    dce_step *s = context;
    const rc_dce *dce = s->dce;
    int n = dce->n, d = dce->d, first = task * ROWS;
    size_t stride = (size_t)s->stride;
    float share = 1 / (float)(dce->paper ? n : n > 1 ? n - 1 : 1);
    double squares = 0;
    for (int j = 0; j < s->stride; j += TILE_WIDTH) {
        vec tile[ROWS][COLUMNS];
        multiply_tile(n, s->residual + first, stride, 1, s->residual + j, stride, tile);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                vec_store(s->slope + (size_t)(first + r) * stride + j + c * RC_LANES, share * tile[r][c]);
    }
    for (int i = first; i < first + ROWS && i < d; i++) {
        const float *target = (const float *)dce->covariance + (size_t)i * (size_t)d;
        float *row = s->slope + (size_t)i * stride;
        float *running = (float *)dce->running_covariance + (size_t)i * (size_t)d;
        if (!dce->paper)
            for (int j = 0; j < d; j++)
                running[j] = row[j] = average(s->keep, running[j], row[j]);
        for (int j = 0; j < d; j++) {
            row[j] -= target[j];
            squares += (double)row[j] * row[j];
        }
    }
    s->squares[task] = squares;
}

/* ROWS rows of the gradient: X D, and the pull towards the class means. */
static void gradient_rows(void *context, int task, int worker)
{
    (void)worker;
    const dce_step *s = context;
    int n = s->dce->n, d = s->dce->d, first = task * ROWS;
    size_t stride = (size_t)s->stride;
    for (int j = 0; j < d; j += TILE_WIDTH) {
        vec tile[ROWS][COLUMNS];
        float rows[ROWS][TILE_WIDTH];
        multiply_tile(d, s->residual + (size_t)first * stride, 1, stride, s->slope + j, stride, tile);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                vec_store(&rows[r][c * RC_LANES], s->scale * tile[r][c]);
        int width = d - j < TILE_WIDTH ? d - j : TILE_WIDTH;
        for (int b = first; b < first + ROWS && b < n; b++)
            for (int c = 0; c < width; c++)
                s->gradient[(size_t)b * (size_t)d + (size_t)(j + c)] += rows[b - first][c];
    }
    for (int b = first; b < first + ROWS && b < n; b++) {
        const float *difference = s->mean + (size_t)s->labels[b] * (size_t)d;
        float factor = s->factor[s->labels[b]];
        for (int i = 0; i < d; i++)
            s->gradient[(size_t)b * (size_t)d + (size_t)i] += factor * difference[i];
    }
}

static void loss_dce(rc_backend *backend, const rc_dce *dce, const void *features, const int32_t *labels,
                     const float *weight, void *value, void *dfeatures)
{
    rc_pool *pool = rc_cpu_of(backend)->pool;
    int n = dce->n, tasks = whole(dce->d, ROWS) / ROWS;
    dce_step s = {.dce = dce, .labels = labels, .features = features, .gradient = dfeatures};
    split_dce_workspace(&s);
    bool all_seen = !dce->paper;
    for (int k = 0; k < dce->classes; k++)
        all_seen = all_seen && dce->seen[k];
    s.keep = all_seen ? dce->momentum : 0;
    batch_means(&s);
    residuals(&s);
    double of_means = compare_means(&s);
    rc_pool_run(pool, tasks, covariance_rows, &s);
    double of_covariance = sqrt(rc_sum_slots(s.squares, tasks));
    double divisor = dce->paper ? n : n > 1 ? n - 1 : 1;
    for (int k = 0; k < dce->classes; k++)
        s.factor[k] *= *weight;
    s.scale = of_covariance > 0 ? (float)(*weight * 2 * (1 - s.keep) / (divisor * of_covariance)) : 0;
    rc_pool_run(pool, whole(n, ROWS) / ROWS, gradient_rows, &s);
    for (int b = 0; b < n && !dce->paper; b++)
        dce->seen[labels[b]] = 1;
    *(float *)value = (float)(of_means + of_covariance);
}

/* ---- class statistics ---------------------------------------------------------------------------------- */

typedef struct class_sums {
    const float *features, *center;
    double *outer;
    int n, d;
} class_sums;

/* Rows task, d - 1 - task of the upper triangle: together they have d + 1 entries, so that tasks are alike. */
static void outer_rows(void *context, int task, int worker)
{
    (void)worker;
    const class_sums *s = context;
    int d = s->d;
    for (int side = 0; side < 2; side++) {
        int i = side ? d - 1 - task : task;
        if (side && i <= task)
            return;
        double *restrict row = s->outer + (size_t)i * (size_t)d;
        for (int b = 0; b < s->n; b++) {
            const float *restrict feature = s->features + (size_t)b * (size_t)d;
            const float *restrict center = s->center;
            double r = (double)feature[i] - (center ? center[i] : 0);
            if (center)
                for (int j = i; j < d; j++)
                    row[j] += r * ((double)feature[j] - center[j]);
            else
                for (int j = i; j < d; j++)
                    row[j] += r * feature[j];
        }
    }
}

static void class_statistics(rc_backend *backend, int n, int d, int classes, const void *features,
                             const int32_t *labels, const void *center, int32_t *count, double *sum, double *outer)
{
    (void)classes;
    class_sums s = {.features = features, .center = center, .outer = outer, .n = n, .d = d};
    for (int b = 0; b < n; b++) {
        const float *feature = s.features + (size_t)b * (size_t)d;
        double *class_sum = sum + (size_t)labels[b] * (size_t)d;
        count[labels[b]]++;
        for (int i = 0; i < d; i++)
            class_sum[i] += (double)feature[i] - (s.center ? s.center[i] : 0);
    }
    rc_pool_run(rc_cpu_of(backend)->pool, (d + 1) / 2, outer_rows, &s);
}

void RC_FAST(fill_feature_losses)(rc_backend *table)
{
    table->loss_feature = loss_feature;
    table->loss_dce = loss_dce;
    table->dce_workspace = dce_workspace;
    table->class_statistics = class_statistics;
}
