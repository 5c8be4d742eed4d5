#include "base/matrix.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"

/* ---- sums of products ----------------------------------------------------------------------------------------- */

enum { STRIPE = 8 }; /* rows of the result that a task computes */

typedef struct products {
    int n, a, b;
    const float *x, *y;
    double *out;
} products;

static void add_products(void *context, int task, int worker)
{
    const products *p = context;
    int first = task * STRIPE, end = first + STRIPE < p->a ? first + STRIPE : p->a;
    (void)worker;
    for (int row = 0; row < p->n; row++) {
        const float *y = p->y + (size_t)row * (size_t)p->b, *x = p->x + (size_t)row * (size_t)p->a;
        for (int i = first; i < end; i++) {
            double *out = p->out + (size_t)i * (size_t)p->b, factor = (double)x[i];
            for (int j = 0; j < p->b; j++)
                out[j] += factor * (double)y[j];
        }
    }
}

static rc_status finish(void)
{
    return rc_stopped() ? rc_fail(RC_CANCELLED, "stopped") : RC_OK;
}

rc_status rc_cross_products(rc_pool *pool, int n, int a, const float *x, int b, const float *y, double *out)
{
    products p = {.n = n, .a = a, .b = b, .x = x, .y = y, .out = out};
    memset(out, 0, (size_t)a * (size_t)b * sizeof *out);
    rc_pool_run(pool, (a + STRIPE - 1) / STRIPE, add_products, &p);
    return finish();
}

/* ---- factorisation -------------------------------------------------------------------------------------------- */

/* false: a pivot is too small. */
static bool cholesky(int d, double *m)
{
    for (int i = 0; i < d; i++) {
        double *row = m + (size_t)i * (size_t)d, smallest = RC_SMALLEST_PIVOT * row[i];
        for (int j = 0; j <= i; j++) {
            const double *other = m + (size_t)j * (size_t)d;
            double sum = row[j];
            for (int k = 0; k < j; k++)
                sum -= row[k] * other[k];
            if (i == j && !(sum > smallest))
                return false;
            row[j] = i == j ? sqrt(sum) : sum / other[j];
        }
        for (int j = i + 1; j < d; j++)
            row[j] = 0;
    }
    return true;
}

static rc_status mean_of_diagonal(int d, const double *m, double *mean)
{
    *mean = 0;
    for (int i = 0; i < d; i++)
        *mean += m[(size_t)i * (size_t)d + (size_t)i] / d;
    for (size_t i = 0; i < (size_t)d * (size_t)d; i++)
        if (!isfinite(m[i]))
            return rc_fail(RC_NUMERIC,
                           "a covariance of %d features has the entry %g, expected finite numbers: the "
                           "model's weights are damaged, or too large",
                           d, m[i]);
    return *mean > 0 ? RC_OK : rc_fail(RC_NUMERIC, "all %d features are constant: they have no covariance", d);
}

rc_status rc_factorise(int d, double *matrix, double *ridge)
{
    size_t count = (size_t)d * (size_t)d;
    double mean;
    *ridge = 0;
    RC_TRY(mean_of_diagonal(d, matrix, &mean));
    double *copy = rc_alloc(NULL, count * sizeof *copy);
    if (copy == NULL)
        return RC_OUT_OF_MEMORY;
    memcpy(copy, matrix, count * sizeof *copy);
    bool whole = cholesky(d, matrix);
    for (double add = RC_SMALLEST_RIDGE; !whole && add <= 1; add *= 10) {
        memcpy(matrix, copy, count * sizeof *copy);
        for (int i = 0; i < d; i++) {
            double *entry = &matrix[(size_t)i * (size_t)d + (size_t)i];
            *entry += add * (*entry > 0 ? *entry : mean);
        }
        whole = cholesky(d, matrix);
        *ridge = add;
    }
    rc_free(NULL, copy);
    return whole ? RC_OK : rc_fail(RC_NUMERIC, "a matrix of %d features is no covariance: it is not positive", d);
}

void rc_solve_lower(int d, const double *lower, double *x)
{
    for (int i = 0; i < d; i++) {
        const double *row = lower + (size_t)i * (size_t)d;
        double sum = x[i];
        for (int k = 0; k < i; k++)
            sum -= row[k] * x[k];
        x[i] = sum / row[i];
    }
}

void rc_solve(int d, const double *lower, double *x)
{
    rc_solve_lower(d, lower, x);
    for (int i = d; i-- > 0;) {
        const double *row = lower + (size_t)i * (size_t)d;
        x[i] /= row[i];
        for (int k = 0; k < i; k++)
            x[k] -= row[k] * x[i];
    }
}

bool rc_covariance_varies(int d, const double *covariance, int classes, const double *mean)
{
    const double rounding = 1e-12; /* of sums of doubles */
    double trace = 0, squares = 0;
    for (size_t i = 0; i < (size_t)d; i++)
        trace += covariance[i * (size_t)d + i];
    for (size_t i = 0; i < (size_t)classes * (size_t)d; i++)
        squares += isnan(mean[i]) ? 0 : mean[i] * mean[i] / classes;
    return !(fabs(trace) <= rounding * squares);
}

double rc_log_determinant(int d, const double *lower)
{
    double sum = 0;
    for (int i = 0; i < d; i++)
        sum += log(lower[(size_t)i * (size_t)d + (size_t)i]);
    return sum;
}

/* ---- regression ----------------------------------------------------------------------------------------------- */

/* x less its mean, as floats. */
static void centre(int n, int d, const float *x, double *mean, float *out)
{
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (size_t i = 0; i < (size_t)n * (size_t)d; i++)
        mean[i % (size_t)d] += (double)x[i];
    for (int j = 0; j < d; j++)
        mean[j] /= n;
    for (size_t i = 0; i < (size_t)n * (size_t)d; i++)
        out[i] = (float)((double)x[i] - mean[i % (size_t)d]);
}

/* With S = sum of products of the centred x, C of x and y, Y of y:
 *     A^T = (S + n ridge I)^-1 C,  b = mean y - A mean x,  n residual = Y - A C - C^T A^T + A S A^T */
static rc_status solve_map(int n, int d, double *s, const double *c, const double *y, rc_affine_map *map)
{
    size_t count = (size_t)d * (size_t)d, D = (size_t)d;
    double trace = 0, added, *lower = rc_alloc(NULL, 2 * count * sizeof *lower);
    if (lower == NULL)
        return RC_OUT_OF_MEMORY;
    double *column = lower + count;
    for (size_t i = 0; i < D; i++)
        trace += s[i * D + i];
    if (trace == 0) { /* x does not vary */
        for (size_t i = 0; i < D; i++)
            map->matrix[i * D + i] = 1;
        for (size_t i = 0; i < count; i++)
            map->residual[i] = y[i] / n;
        rc_free(NULL, lower);
        return RC_OK;
    }
    memcpy(lower, s, count * sizeof *lower);
    for (size_t i = 0; i < D; i++)
        lower[i * D + i] += RC_MAP_RIDGE * trace / d;
    rc_status status = rc_factorise(d, lower, &added);
    for (size_t j = 0; status == RC_OK && j < D; j++) { /* row j of A is the solution for column j of C */
        for (size_t i = 0; i < D; i++)
            column[i] = c[i * D + j];
        rc_solve(d, lower, column);
        memcpy(map->matrix + j * D, column, D * sizeof *column);
    }
    for (size_t i = 0; status == RC_OK && i < D; i++) { /* row i of A S, then of the residual */
        const double *a = map->matrix + i * D;
        for (size_t j = 0; j < D; j++) {
            column[j] = 0;
            for (size_t k = 0; k < D; k++)
                column[j] += a[k] * s[k * D + j];
        }
        for (size_t j = 0; j < D; j++) {
            const double *b = map->matrix + j * D;
            double sum = y[i * D + j];
            for (size_t k = 0; k < D; k++)
                sum += (column[k] - c[k * D + i]) * b[k] - a[k] * c[k * D + j];
            map->residual[i * D + j] = sum / n;
        }
    }
    rc_free(NULL, lower);
    return status;
}

static rc_status fit(rc_pool *pool, int n, int d, const float *x, const float *y, rc_affine_map *map)
{
    size_t count = (size_t)d * (size_t)d, size;
    double *sums = rc_alloc_zeroed(NULL, 3 * count + 2 * (size_t)d, sizeof *sums);
    float *centred = rc_size_mul((size_t)n * (size_t)d, 2 * sizeof *centred, &size) ? rc_alloc(NULL, size) : NULL;
    if (sums == NULL || centred == NULL) {
        rc_free(NULL, sums);
        rc_free(NULL, centred);
        return RC_OUT_OF_MEMORY;
    }
    double *mean = sums + 3 * count;
    float *other = centred + (size_t)n * (size_t)d;
    centre(n, d, x, mean, centred);
    centre(n, d, y, mean + d, other);
    rc_status status = rc_cross_products(pool, n, d, centred, d, centred, sums);
    if (status == RC_OK)
        status = rc_cross_products(pool, n, d, centred, d, other, sums + count);
    if (status == RC_OK)
        status = rc_cross_products(pool, n, d, other, d, other, sums + 2 * count);
    if (status == RC_OK)
        status = solve_map(n, d, sums, sums + count, sums + 2 * count, map);
    for (int i = 0; status == RC_OK && i < d; i++) {
        map->shift[i] = mean[d + i];
        for (int k = 0; k < d; k++)
            map->shift[i] -= map->matrix[(size_t)i * (size_t)d + (size_t)k] * mean[k];
    }
    rc_free(NULL, centred);
    rc_free(NULL, sums);
    return status;
}

rc_status rc_affine_map_fit(rc_pool *pool, int n, int d, const float *x, const float *y, rc_affine_map *map)
{
    size_t count = (size_t)d * (size_t)d;
    *map = (rc_affine_map){.d = d};
    map->matrix = rc_alloc_zeroed(NULL, 2 * count + (size_t)d, sizeof *map->matrix);
    if (map->matrix == NULL)
        return RC_OUT_OF_MEMORY;
    map->residual = map->matrix + count;
    map->shift = map->residual + count;
    rc_status status = fit(pool, n, d, x, y, map);
    if (status != RC_OK)
        rc_affine_map_destroy(map);
    return status;
}

void rc_affine_map_destroy(rc_affine_map *map)
{
    rc_free(NULL, map->matrix);
    *map = (rc_affine_map){0};
}

/* out = A x. */
static void multiply(const rc_affine_map *map, const double *x, size_t stride, double *out)
{
    for (int i = 0; i < map->d; i++) {
        const double *row = map->matrix + (size_t)i * (size_t)map->d;
        out[i] = 0;
        for (int k = 0; k < map->d; k++)
            out[i] += row[k] * x[(size_t)k * stride];
    }
}

rc_status rc_affine_map_mean(const rc_affine_map *map, double *mean)
{
    double *out = rc_alloc(NULL, (size_t)map->d * sizeof *out);
    if (out == NULL)
        return RC_OUT_OF_MEMORY;
    multiply(map, mean, 1, out);
    for (int i = 0; i < map->d; i++)
        mean[i] = out[i] + map->shift[i];
    rc_free(NULL, out);
    return RC_OK;
}

rc_status rc_affine_map_covariance(const rc_affine_map *map, double *covariance)
{
    size_t d = (size_t)map->d;
    double *half = rc_alloc(NULL, (d * d + d) * sizeof *half);
    if (half == NULL)
        return RC_OUT_OF_MEMORY;
    double *column = half + d * d;
    for (size_t i = 0; i < d; i++) /* row i is A times row i of the symmetric covariance, so `half` is (A C)^T */
        multiply(map, covariance + i * d, 1, half + i * d);
    for (size_t j = 0; j < d; j++) {
        multiply(map, half + j, d, column);
        for (size_t i = 0; i < d; i++)
            covariance[i * d + j] = column[i] + map->residual[i * d + j];
    }
    rc_free(NULL, half);
    return RC_OK;
}
