/* RKD: angles between embeddings. The formulas and their names are those of reference/feature_losses.c; here is only
 * how the n^3 angles are walked.
 *
 *     half_ij = q_ij / 2        a_ijk = (half_ij + half_ik - half_jk) v_ij v_ik
 *
 * One task takes one j, so that everything that it sums over i and k has a place of its own: for each i a vector loop
 * over k makes the angles of student and teacher, the sign s of their difference, and adds
 *     base_jk += s v_ij v_ik        into row j
 *     apex_ij  = sum_k s v_ij v_ik - v_ij^2 sum_k s a_ijk
 * The symmetry a_ijk = a_ikj would halve the angles but give base two writers; the row is worth more.
 * Rows are whole vectors; v is 0 in the pads and for i = j, which makes those angles 0 on both sides. */
#include <math.h>

#include "backend/cpu/fast/loss/losses.h"

static const float smallest_norm = 1e-12f;

/* Matrices (n, stride). */
typedef struct relations {
    const float *embedding; /* (n, d) */
    float *gradient;        /* (n, d) */
    float *half, *inverse;  /* half the squared distance and 1 / distance */
    float *apex, *base;     /* row j: apex_ij over i, base_jk over k */
} relations;

typedef struct rkd {
    relations side[2]; /* student, teacher */
    double *value;     /* (n): sum of |a^s - a^t| of task j */
    int n, d, stride;
    double scale; /* weight / n^3 */
} rkd;

static size_t rkd_workspace(rc_backend *backend, int n, int d)
{
    (void)backend;
    (void)d;
    return (size_t)n * sizeof(double) + 8 * (size_t)n * (size_t)rc_whole_vectors(n) * sizeof(float);
}

static float squared_distance(int d, const float *a, const float *b)
{
    vec sum[2] = {{0}, {0}};
    int c = 0;
    for (; c + 2 * RC_LANES <= d; c += 2 * RC_LANES) {
        vec first = vec_load(a + c) - vec_load(b + c);
        vec second = vec_load(a + c + RC_LANES) - vec_load(b + c + RC_LANES);
        sum[0] += first * first;
        sum[1] += second * second;
    }
    float total = vec_sum(sum[0] + sum[1]);
    for (; c < d; c++)
        total += (a[c] - b[c]) * (a[c] - b[c]);
    return total;
}

/* Row and column i of the distances from i on; task = side * n + i. */
static void measure_distances(void *context, int task, int worker)
{
    (void)worker;
    const rkd *r = context;
    const relations *side = &r->side[task / r->n];
    int i = task % r->n, stride = r->stride;
    float *half = side->half, *inverse = side->inverse;
    for (int j = i; j < r->n; j++) {
        float q = j == i ? 0
                         : squared_distance(r->d, side->embedding + (size_t)i * (size_t)r->d,
                                            side->embedding + (size_t)j * (size_t)r->d);
        float norm = sqrtf(q);
        float v = q > 0 ? 1 / (norm > smallest_norm ? norm : smallest_norm) : 0;
        half[(size_t)i * (size_t)stride + (size_t)j] = half[(size_t)j * (size_t)stride + (size_t)i] = 0.5f * q;
        inverse[(size_t)i * (size_t)stride + (size_t)j] = inverse[(size_t)j * (size_t)stride + (size_t)i] = v;
    }
    for (int j = r->n; j < stride; j++)
        half[(size_t)i * (size_t)stride + (size_t)j] = inverse[(size_t)i * (size_t)stride + (size_t)j] = 0;
}

/* 1, -1, or 0 where x is smaller than the rounding of an angle: a - b may be computed as one fused operation, which
 * then is not 0 for equal angles but the rounding error of b. */
RC_INLINE vec vec_sign(vec x)
{
    const veci one = (veci)vec_set(1), sign_bit = (veci)vec_set(-0.0f);
    vec magnitude = (vec)((veci)x & ~sign_bit);
    return (vec)((((veci)x & sign_bit) | one) & (magnitude > vec_set(0x1p-24f)));
}

/* One i and j: the rows that the loop over k reads, what is fixed in it, and its four sums. */
typedef struct triangle {
    const float *half_i[2], *half_j[2], *inverse_i[2]; /* student, teacher */
    float *base_j[2];
    vec half[2], inverse[2]; /* half_ij, v_ij */
    vec student, teacher;    /* s v_ij v_ik */
    vec angle, value;        /* s a^s_ijk, |a^s - a^t| */
} triangle;

/* A vector of k; lanes that are not in `included` do not count. */
RC_INLINE void walk_vector(triangle *t, int k, veci included)
{
    vec scale_s = t->inverse[0] * vec_load(t->inverse_i[0] + k);
    vec scale_t = t->inverse[1] * vec_load(t->inverse_i[1] + k);
    /* At k = i the differences cancel exactly, for the matrix is symmetric bit by bit. */
    vec a = (vec_load(t->half_i[0] + k) - vec_load(t->half_j[0] + k) + t->half[0]) * scale_s;
    vec b = (vec_load(t->half_i[1] + k) - vec_load(t->half_j[1] + k) + t->half[1]) * scale_t;
    vec difference = a - b, sign = (vec)((veci)vec_sign(difference) & included);
    t->student += sign * scale_s;
    t->teacher += sign * scale_t;
    t->angle += sign * a;
    t->value += sign * difference;
    vec_store(t->base_j[0] + k, vec_load(t->base_j[0] + k) + sign * scale_s);
    vec_store(t->base_j[1] + k, vec_load(t->base_j[1] + k) + sign * scale_t);
}

/* The entry k = j is left out: it has no gradient, and it would be 1 but for rounding. `others` is the vector with j
 * in it, without j. */
RC_INLINE triangle walk_angles(const rkd *r, int i, int j, veci others)
{
    size_t row_i = (size_t)i * (size_t)r->stride, row_j = (size_t)j * (size_t)r->stride;
    triangle t = {0};
    for (int s = 0; s < 2; s++) {
        const relations *side = &r->side[s];
        t.half_i[s] = side->half + row_i;
        t.half_j[s] = side->half + row_j;
        t.inverse_i[s] = side->inverse + row_i;
        t.base_j[s] = side->base + row_j;
        t.half[s] = vec_set(t.half_i[s][j]);
        t.inverse[s] = vec_set(t.inverse_i[s][j]);
    }
    const veci all = ~(veci){0};
    int own = j - j % RC_LANES;
    for (int k = 0; k < own; k += RC_LANES)
        walk_vector(&t, k, all);
    walk_vector(&t, own, others);
    for (int k = own + RC_LANES; k < r->stride; k += RC_LANES)
        walk_vector(&t, k, all);
    return t;
}

/* sum - v^2 along, without the second term where v does not vary with the distance. */
static float apex_of(float half, float inverse, float sum, float along)
{
    return half > 0.5f * smallest_norm * smallest_norm ? sum - inverse * inverse * along : sum;
}

/* a_ijj: the square of a unit vector, or of less than one. */
static float own_angle(float half, float inverse)
{
    return half > 0.5f * smallest_norm * smallest_norm ? 1 : 2 * half * inverse * inverse;
}

static void walk_row(void *context, int j, int worker)
{
    (void)worker;
    const rkd *r = context;
    const relations *s = &r->side[0], *t = &r->side[1];
    size_t row = (size_t)j * (size_t)r->stride;
    for (size_t at = row; at < row + (size_t)r->stride; at++)
        s->base[at] = t->base[at] = s->apex[at] = t->apex[at] = 0;
    veci others;
    for (int lane = 0; lane < RC_LANES; lane++)
        others[lane] = lane == j % RC_LANES ? 0 : -1;
    double value = 0;
    for (int i = 0; i < r->n; i++) {
        if (i == j)
            continue;
        triangle sums = walk_angles(r, i, j, others);
        float along = vec_sum(sums.angle), difference = vec_sum(sums.value);
        size_t at = row + (size_t)i;
        /* sum s a^t = sum s a^s - sum |a^s - a^t|; the teacher's sign is the other one. */
        s->apex[at] = apex_of(s->half[at], s->inverse[at], vec_sum(sums.student), along);
        t->apex[at] = -apex_of(t->half[at], t->inverse[at], vec_sum(sums.teacher), along - difference);
        value += difference + fabsf(own_angle(s->half[at], s->inverse[at]) - own_angle(t->half[at], t->inverse[at]));
    }
    for (size_t at = row; at < row + (size_t)r->stride; at++)
        t->base[at] = -t->base[at];
    r->value[j] = value;
}

/* dL/de_i = 2 sum_j w_ij (e_i - e_j), w_ij = apex_ij + apex_ji - base_ij; base is symmetric but for rounding, and
 * taking the mean of both makes w exactly so. task = side * n + i. */
static void add_gradient(void *context, int task, int worker)
{
    (void)worker;
    enum { VECTORS = 4, CHUNK = VECTORS * RC_LANES };
    const rkd *r = context;
    const relations *side = &r->side[task / r->n];
    int i = task % r->n, n = r->n, d = r->d;
    size_t stride = (size_t)r->stride;
    const float *own = side->embedding + (size_t)i * (size_t)d;
    float *gradient = side->gradient + (size_t)i * (size_t)d, *slope = side->half + (size_t)i * stride;
    for (int j = 0; j < n; j++) { /* the distances are not needed any more: w takes the place of row i */
        size_t ij = (size_t)i * stride + (size_t)j, ji = (size_t)j * stride + (size_t)i;
        slope[j] = side->apex[ij] + side->apex[ji] - 0.5f * (side->base[ij] + side->base[ji]);
    }
    float scale = (float)(2 * r->scale);
    int c = 0;
    for (; c + CHUNK <= d; c += CHUNK) {
        vec sum[VECTORS] = {{0}};
        for (int j = 0; j < n; j++) {
            const float *other = side->embedding + (size_t)j * (size_t)d + c;
            vec w = vec_set(slope[j]);
            for (int v = 0; v < VECTORS; v++)
                sum[v] += w * (vec_load(own + c + v * RC_LANES) - vec_load(other + v * RC_LANES));
        }
        for (int v = 0; v < VECTORS; v++) {
            float *to = gradient + c + v * RC_LANES;
            vec_store(to, vec_load(to) + scale * sum[v]);
        }
    }
    for (; c < d; c++) {
        float sum = 0;
        for (int j = 0; j < n; j++)
            sum += slope[j] * (own[c] - side->embedding[(size_t)j * (size_t)d + (size_t)c]);
        gradient[c] += scale * sum;
    }
}

static void loss_rkd(rc_backend *backend, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    rc_pool *pool = rc_cpu_of(backend)->pool;
    double count = (double)n * n * n;
    rkd r = {.n = n, .d = d, .stride = rc_whole_vectors(n), .value = workspace, .scale = *weight / count};
    size_t matrix = (size_t)n * (size_t)r.stride;
    float *space = (float *)(r.value + n);
    for (int i = 0; i < 2; i++) {
        r.side[i] = (relations){.embedding = i ? teacher : student,
                                .gradient = i ? dteacher : dstudent,
                                .half = space,
                                .inverse = space + matrix,
                                .apex = space + 2 * matrix,
                                .base = space + 3 * matrix};
        space += 4 * matrix;
    }
    rc_pool_run(pool, 2 * n, measure_distances, &r);
    rc_pool_run(pool, n, walk_row, &r);
    rc_pool_run(pool, 2 * n, add_gradient, &r);
    *(float *)value = (float)(rc_sum_slots(r.value, n) / count);
}

void RC_FAST(fill_rkd)(rc_backend *table)
{
    table->loss_rkd = loss_rkd;
    table->rkd_workspace = rkd_workspace;
}
