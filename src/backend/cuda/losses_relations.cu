/* RKD: angles between embeddings, from their distances. Formulas and names are those of cpu/reference/feature_losses.c:
 *     a_ijk = 1/2 (q_ij + q_ik - q_jk) v_ij v_ik          L = sum_ijk |a^s_ijk - a^t_ijk| / n^3
 *     apex_ij = sum_k s_ijk (v_ij v_ik - a_ijk v_ij^2)    base_jk = sum_i s_ijk v_ij v_ik
 *     w_ij = (apex_ij + apex_ji - base_ij) / n^3          dL/de_i = 2 sum_j w_ij (e_i - e_j)
 *
 * Three kernels: distances; all angles, once with i fixed (apex, value) and once with j fixed (base), so that every sum
 * has one owner; the gradient. In double, since only the sign of the small difference a^s - a^t counts. */
#include "backend/cuda/losses.cuh"

/* (n, n) each, symmetric where the name has no order. */
struct relation_side {
    const float *embedding; /* (n, d) */
    double *squared, *inverse, *apex, *base;
    float *gradient; /* (n, d) */
};

struct relations {
    relation_side side[2]; /* student, teacher */
    int n, d;
    const float *weight;
    double *parts; /* (n) */
    float *value;
};

__device__ static const double smallest_norm = 1e-12;

static size_t rkd_workspace(rc_backend *, int n, int)
{
    return (8 * (size_t)n * (size_t)n + (size_t)n) * sizeof(double);
}

static relations view_relations(int n, int d, const void *student, const void *teacher, void *workspace,
                                const float *weight, void *value, void *dstudent, void *dteacher)
{
    size_t matrix = (size_t)n * (size_t)n;
    double *space = (double *)workspace;
    relations r = {};
    for (int s = 0; s < 2; s++) {
        relation_side side = {(const float *)(s ? teacher : student), space, space + matrix, space + 2 * matrix,
                              space + 3 * matrix, (float *)(s ? dteacher : dstudent)};
        r.side[s] = side;
        space += 4 * matrix;
    }
    r.n = n;
    r.d = d;
    r.weight = weight;
    r.parts = space;
    r.value = (float *)value;
    return r;
}

/* ---- distances -------------------------------------------------------------------------------------------------- */

enum { TILE = 16 };

/* Block (tile j, tile i, side), TILE x TILE threads: embeddings pass through shared memory, TILE coordinates at a
 * time. */
__global__ static void distance_kernel(relations r)
{
    __shared__ float rows[TILE][TILE + 1], columns[TILE][TILE + 1];
    const relation_side &side = r.side[blockIdx.z];
    int y = (int)threadIdx.x / TILE, x = (int)threadIdx.x % TILE;
    int i = (int)blockIdx.y * TILE + y, j = (int)blockIdx.x * TILE + x, j_row = (int)blockIdx.x * TILE + y;
    double sum = 0;
    for (int first = 0; first < r.d; first += TILE) {
        bool inside = first + x < r.d;
        rows[y][x] = inside && i < r.n ? side.embedding[(size_t)i * r.d + first + x] : 0;
        columns[y][x] = inside && j_row < r.n ? side.embedding[(size_t)j_row * r.d + first + x] : 0;
        __syncthreads();
        for (int c = 0; c < TILE; c++) {
            double difference = (double)columns[x][c] - (double)rows[y][c];
            sum += difference * difference;
        }
        __syncthreads();
    }
    if (i >= r.n || j >= r.n)
        return;
    double norm = sqrt(sum);
    side.squared[(size_t)i * r.n + j] = sum;
    side.inverse[(size_t)i * r.n + j] = sum > 0 ? 1 / (norm > smallest_norm ? norm : smallest_norm) : 0;
}

/* ---- angles ----------------------------------------------------------------------------------------------------- */

/* What one side contributes at (i, j, k). */
struct triangle {
    double q_ij, v_ij, v_ik, angle;
};

__device__ static triangle look_at(const relation_side &side, int n, int i, int j, int k)
{
    size_t ij = (size_t)i * n + j, ik = (size_t)i * n + k, jk = (size_t)j * n + k;
    triangle t = {side.squared[ij], side.inverse[ij], side.inverse[ik], 0};
    if (j == k && t.q_ij > smallest_norm * smallest_norm)
        t.angle = 1; /* the square of a unit vector, without rounding */
    else
        t.angle = 0.5 * (t.q_ij + side.squared[ik] - side.squared[jk]) * t.v_ij * t.v_ik;
    return t;
}

__device__ static double sign_of(double x)
{
    return (x > 0) - (x < 0);
}

/* s (v_ij v_ik - a v_ij^2); below the smallest norm the direction does not vary. */
__device__ static double apex_of(triangle t)
{
    return t.v_ij * t.v_ik - (t.q_ij > smallest_norm * smallest_norm ? t.angle * t.v_ij * t.v_ij : 0);
}

/* Block i: a warp per j, its lanes over k. */
__device__ static void apex_block(const relations &r, int i)
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    double value = 0;
    for (int j = warp; j < r.n; j += LOSS_ROWS) {
        double student = 0, teacher = 0;
        for (int k = lane; k < r.n; k += 32) {
            triangle s = look_at(r.side[0], r.n, i, j, k), t = look_at(r.side[1], r.n, i, j, k);
            double sign = sign_of(s.angle - t.angle);
            value += fabs(s.angle - t.angle);
            student += j != k ? sign * apex_of(s) : 0;
            teacher -= j != k ? sign * apex_of(t) : 0;
        }
        student = warp_sum(student);
        teacher = warp_sum(teacher);
        if (lane == 0) {
            r.side[0].apex[(size_t)i * r.n + j] = student;
            r.side[1].apex[(size_t)i * r.n + j] = teacher;
        }
    }
    value = block_sum(value);
    if (threadIdx.x == 0)
        r.parts[i] = value;
}

/* Block j: a thread per k, over all i. */
__device__ static void base_block(const relations &r, int j)
{
    for (int k = (int)threadIdx.x; k < r.n; k += LOSS_THREADS) {
        double student = 0, teacher = 0;
        for (int i = 0; i < r.n && j != k; i++) {
            triangle s = look_at(r.side[0], r.n, i, j, k), t = look_at(r.side[1], r.n, i, j, k);
            double sign = sign_of(s.angle - t.angle);
            student += sign * s.v_ij * s.v_ik;
            teacher -= sign * t.v_ij * t.v_ik;
        }
        r.side[0].base[(size_t)j * r.n + k] = student;
        r.side[1].base[(size_t)j * r.n + k] = teacher;
    }
}

__global__ static void angle_kernel(relations r, unsigned *ticket)
{
    if ((int)blockIdx.x < r.n)
        apex_block(r, (int)blockIdx.x);
    else
        base_block(r, (int)blockIdx.x - r.n);
    if (!last_block(ticket))
        return;
    double total = 0;
    for (int i = (int)threadIdx.x; i < r.n; i += LOSS_THREADS)
        total += __ldcg(r.parts + i);
    total = block_sum(total);
    if (threadIdx.x == 0)
        *r.value = (float)(total / ((double)r.n * r.n * r.n));
}

/* ---- gradient --------------------------------------------------------------------------------------------------- */

/* Block (i, coordinates, side): the row w_i goes through shared memory, a thread per coordinate. */
__global__ static void gradient_kernel(relations r)
{
    __shared__ double slope[LOSS_THREADS];
    const relation_side &side = r.side[blockIdx.z];
    int i = (int)blockIdx.x, c = (int)(blockIdx.y * LOSS_THREADS + threadIdx.x);
    double here = c < r.d ? (double)side.embedding[(size_t)i * r.d + c] : 0, sum = 0;
    for (int first = 0; first < r.n; first += LOSS_THREADS) {
        int j = first + (int)threadIdx.x;
        __syncthreads();
        if (j < r.n) {
            size_t ij = (size_t)i * r.n + j, ji = (size_t)j * r.n + i;
            slope[threadIdx.x] = side.apex[ij] + side.apex[ji] - side.base[ij];
        }
        __syncthreads();
        for (int k = 0; k < LOSS_THREADS && first + k < r.n && c < r.d; k++)
            sum += slope[k] * (here - (double)side.embedding[(size_t)(first + k) * r.d + c]);
    }
    if (c < r.d)
        side.gradient[(size_t)i * r.d + c] += (float)(2 * (double)*r.weight / ((double)r.n * r.n * r.n) * sum);
}

static void loss_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    rc_cuda *cuda = rc_cuda_of(be);
    relations r = view_relations(n, d, student, teacher, workspace, weight, value, dstudent, dteacher);
    unsigned tiles = (unsigned)(n + TILE - 1) / TILE;
    rc_cuda_launch(cuda, "loss_rkd", distance_kernel, dim3(tiles, tiles, 2), TILE * TILE, 0, r);
    rc_cuda_launch(cuda, "loss_rkd", angle_kernel, dim3(2 * (unsigned)n), LOSS_THREADS, 0, r, loss_ticket(cuda));
    rc_cuda_launch(cuda, "loss_rkd", gradient_kernel,
                   dim3((unsigned)n, (unsigned)(d + LOSS_THREADS - 1) / LOSS_THREADS, 2), LOSS_THREADS, 0, r);
}

void rc_cuda_fill_relation_losses(rc_cuda *cuda)
{
    cuda->table.loss_rkd = loss_rkd;
    cuda->table.rkd_workspace = rkd_workspace;
}
