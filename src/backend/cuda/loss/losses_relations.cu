/* RKD: angles between embeddings, from their distances. Formulas and names are those of cpu/reference/feature_losses.c:
 *     a_ijk = 1/2 (q_ij + q_ik - q_jk) v_ij v_ik          L = sum_ijk |a^s_ijk - a^t_ijk| / n^3
 *     apex_ij = sum_k s_ijk (v_ij v_ik - a_ijk v_ij^2)    base_jk = sum_i s_ijk v_ij v_ik
 *     w_ij = (apex_ij + apex_ji - base_ij) / n^3          dL/de_i = 2 sum_j w_ij (e_i - e_j)
 *
 * Three kernels: distances; all angles, a block for every j, which owns apex_ij of all i and base_jk of all k; the
 * gradient. Distances are summed in double, the angles computed in float from h = q / 2 and v. */
#include "backend/cuda/loss/losses.cuh"

/* (n, n) each, symmetric where the name has no order. */
struct relation_side {
    const float *embedding; /* (n, d) */
    float *half, *inverse, *apex, *base;
    float *gradient; /* (n, d) */
};

struct relations {
    relation_side side[2]; /* student, teacher */
    int n, d;
    const float *weight;
    double *parts; /* (n) */
    float *value;
};

__device__ static const float smallest_norm = 1e-12f;

/* By a choice: an index would put all of them into local memory. */
__device__ static relation_side side_of(const relations &r, int side)
{
    return side ? r.side[1] : r.side[0];
}

static size_t rkd_workspace(rc_backend *, int n, int)
{
    return (size_t)n * sizeof(double) + 8 * (size_t)n * (size_t)n * sizeof(float);
}

static relations view_relations(int n, int d, const void *student, const void *teacher, void *workspace,
                                const float *weight, void *value, void *dstudent, void *dteacher)
{
    size_t matrix = (size_t)n * (size_t)n;
    relations r = {};
    r.parts = (double *)workspace;
    float *space = (float *)(r.parts + n);
    for (int s = 0; s < 2; s++) {
        relation_side side = {
            (const float *)(s ? teacher : student), space, space + matrix, space + 2 * matrix, space + 3 * matrix,
            (float *)(s ? dteacher : dstudent)};
        r.side[s] = side;
        space += 4 * matrix;
    }
    r.n = n;
    r.d = d;
    r.weight = weight;
    r.value = (float *)value;
    return r;
}

/* ---- distances -------------------------------------------------------------------------------------------------- */

enum { TILE = 16, COORDINATES = 64 };

/* This block's TILE embeddings from `first` on, COORDINATES of each; zeros where there are none. */
__device__ static void stage_embeddings(double tile[TILE][COORDINATES + 1], const relations &r,
                                        const relation_side &side, int first, int first_coordinate)
{
    enum { EACH = TILE * COORDINATES / (TILE * TILE) };
    float staged[EACH]; /* all on their way before the first is used */
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int index = (int)threadIdx.x + e * TILE * TILE;
        int row = first + index / COORDINATES, c = first_coordinate + index % COORDINATES;
        staged[e] = row < r.n && c < r.d ? side.embedding[(size_t)row * r.d + c] : 0;
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int index = (int)threadIdx.x + e * TILE * TILE;
        tile[index / COORDINATES][index % COORDINATES] = (double)staged[e];
    }
}

/* Block (tile j, tile i, side), TILE x TILE threads: embeddings pass through shared memory, as doubles. */
__global__ static void distance_kernel(relations r)
{
    begin_after_kernel_before();
    __shared__ double rows[TILE][COORDINATES + 1], columns[TILE][COORDINATES + 1];
    const relation_side side = side_of(r, (int)blockIdx.z);
    int y = (int)threadIdx.x / TILE, x = (int)threadIdx.x % TILE;
    int i = (int)blockIdx.y * TILE + y, j = (int)blockIdx.x * TILE + x;
    double sum = 0;
    for (int first = 0; first < r.d; first += COORDINATES) {
        __syncthreads();
        stage_embeddings(rows, r, side, (int)blockIdx.y * TILE, first);
        stage_embeddings(columns, r, side, (int)blockIdx.x * TILE, first);
        __syncthreads();
#pragma unroll 16
        for (int c = 0; c < COORDINATES; c++) {
            double difference = columns[x][c] - rows[y][c];
            sum += difference * difference;
        }
    }
    if (i >= r.n || j >= r.n)
        return;
    float norm = (float)sqrt(sum);
    side.half[(size_t)i * r.n + j] = (float)(0.5 * sum);
    side.inverse[(size_t)i * r.n + j] = sum > 0 ? 1 / (norm > smallest_norm ? norm : smallest_norm) : 0;
}

/* ---- angles ----------------------------------------------------------------------------------------------------- */

enum {
    ANGLE_THREADS = 512,
    ANGLE_WARPS = ANGLE_THREADS / 32,
    ANGLE_EACH = 4,                 /* k of a lane, 32 apart */
    ANGLE_COLUMNS = 32 * ANGLE_EACH /* k at a time */
};

/* The sum over a block of ANGLE_THREADS. */
__device__ static double angle_sum(double x)
{
    __shared__ double space[ANGLE_WARPS];
    double sum = 0;
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        space[threadIdx.x / 32] = x;
    __syncthreads();
    for (int warp = 0; warp < ANGLE_WARPS; warp++)
        sum += space[warp];
    return sum;
}

/* One side at (i, j, k). */
struct triangle {
    float scale, angle; /* scale = v_ij v_ik */
};

/* At k = i the halves cancel exactly, for the matrix is symmetric bit by bit. */
__device__ static triangle look_at(float half_ij, float half_ik, float half_jk, float v_ij, float v_ik)
{
    triangle t = {v_ij * v_ik, 0};
    t.angle = ((half_ik - half_jk) + half_ij) * t.scale;
    return t;
}

/* 0 where the difference is smaller than the rounding of an angle: equal angles may differ by as much. */
__device__ static float sign_of(float x)
{
    return fabsf(x) > 0x1p-24f ? copysignf(1, x) : 0;
}

/* The entry k = j has no gradient; its angle is 1, or 0 for equal embeddings. */
__device__ static float own_difference(const relations &r, size_t ij)
{
    return fabsf((r.side[0].inverse[ij] > 0 ? 1.0f : 0.0f) - (r.side[1].inverse[ij] > 0 ? 1.0f : 0.0f));
}

/* What a lane holds of row j, for the k that are its own: distances, and the sums over i of its warp. */
struct columns_of_lane {
    float half_s[ANGLE_EACH], half_t[ANGLE_EACH], base_s[ANGLE_EACH], base_t[ANGLE_EACH];
};

/* All k of this lane at one i: their part of apex_ij = sum_k s v_ij v_ik - v_ij^2 sum_k s a_ijk and of base_jk. Returns
 * the lane's part of the value. */
__device__ static float look_along(const relations &r, int i, int j, int first, bool add, columns_of_lane *columns)
{
    const relation_side &student = r.side[0], &teacher = r.side[1];
    int lane = (int)threadIdx.x % 32;
    size_t row_i = (size_t)i * r.n, ji = (size_t)j * r.n + i;
    float half_s[ANGLE_EACH], half_t[ANGLE_EACH], inverse_s[ANGLE_EACH], inverse_t[ANGLE_EACH];
#pragma unroll
    for (int e = 0; e < ANGLE_EACH; e++) {
        int k = first + 32 * e + lane;
        size_t ik = row_i + (k < r.n ? k : 0);
        half_s[e] = student.half[ik];
        half_t[e] = teacher.half[ik];
        inverse_s[e] = student.inverse[ik];
        inverse_t[e] = teacher.inverse[ik];
    }
    float half_ij_s = student.half[ji], half_ij_t = teacher.half[ji];
    float v_s = student.inverse[ji], v_t = teacher.inverse[ji];
    float scale_s = 0, scale_t = 0, angle_s = 0, angle_t = 0, apart = 0;
#pragma unroll
    for (int e = 0; e < ANGLE_EACH; e++) {
        int k = first + 32 * e + lane;
        triangle s = look_at(half_ij_s, half_s[e], columns->half_s[e], v_s, inverse_s[e]);
        triangle t = look_at(half_ij_t, half_t[e], columns->half_t[e], v_t, inverse_t[e]);
        float sign = k < r.n && k != j ? sign_of(s.angle - t.angle) : 0;
        apart += sign * (s.angle - t.angle);
        scale_s += sign * s.scale;
        scale_t += sign * t.scale;
        angle_s += sign * s.angle;
        angle_t += sign * t.angle;
        columns->base_s[e] += sign * s.scale;
        columns->base_t[e] -= sign * t.scale;
    }
    float apex_s = warp_sum(scale_s - v_s * v_s * angle_s), apex_t = warp_sum(v_t * v_t * angle_t - scale_t);
    if (lane == 0) {
        student.apex[row_i + j] = add ? student.apex[row_i + j] + apex_s : apex_s;
        teacher.apex[row_i + j] = add ? teacher.apex[row_i + j] + apex_t : apex_t;
    }
    return apart;
}

/* base_jk for ANGLE_COLUMNS k from `first` on: the sums of the warps, in order. */
__device__ static void store_base(const relations &r, int j, int first, const columns_of_lane &columns)
{
    __shared__ float space[2][ANGLE_WARPS][ANGLE_COLUMNS];
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < ANGLE_EACH; e++) {
        space[0][warp][32 * e + lane] = columns.base_s[e];
        space[1][warp][32 * e + lane] = columns.base_t[e];
    }
    __syncthreads();
    int column = (int)threadIdx.x % ANGLE_COLUMNS, side = (int)threadIdx.x / ANGLE_COLUMNS;
    if (side >= 2 || first + column >= r.n)
        return;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < ANGLE_WARPS; w++)
        sum += space[side][w][column];
    side_of(r, side).base[(size_t)j * r.n + first + column] = sum;
}

/* Block j: a warp per i, its lanes over k. */
__global__ static void __launch_bounds__(ANGLE_THREADS) angle_kernel(relations r, unsigned *ticket)
{
    begin_after_kernel_before();
    int j = (int)blockIdx.x, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    size_t row_j = (size_t)j * r.n;
    double value = 0;
    for (int first = 0; first < r.n; first += ANGLE_COLUMNS) {
        columns_of_lane columns = {};
#pragma unroll
        for (int e = 0; e < ANGLE_EACH; e++) {
            int k = first + 32 * e + lane;
            columns.half_s[e] = k < r.n ? r.side[0].half[row_j + k] : 0;
            columns.half_t[e] = k < r.n ? r.side[1].half[row_j + k] : 0;
        }
        for (int i = warp; i < r.n; i += ANGLE_WARPS)
            value += (double)look_along(r, i, j, first, first > 0, &columns);
        store_base(r, j, first, columns);
    }
    for (int i = (int)threadIdx.x; i < r.n; i += ANGLE_THREADS)
        value += (double)own_difference(r, row_j + i);
    value = angle_sum(value);
    if (threadIdx.x == 0)
        r.parts[j] = value;
    if (!last_block(ticket))
        return;
    double total = 0;
    for (int i = (int)threadIdx.x; i < r.n; i += ANGLE_THREADS)
        total += __ldcg(r.parts + i);
    total = angle_sum(total);
    if (threadIdx.x == 0)
        *r.value = (float)(total / ((double)r.n * r.n * r.n));
}

/* ---- gradient --------------------------------------------------------------------------------------------------- */

enum { SLOPE_COLUMNS = 64, SLOPE_SHARES = LOSS_THREADS / SLOPE_COLUMNS, SLOPE_BATCH = 16 /* loads at a time */ };

/* Block (i, SLOPE_COLUMNS coordinates, side): the row w_i goes through shared memory; a thread takes one coordinate and
 * every SLOPE_SHARES-th j. */
__global__ static void gradient_kernel(relations r)
{
    begin_after_kernel_before();
    __shared__ double slope[LOSS_THREADS], space[SLOPE_SHARES][SLOPE_COLUMNS];
    const relation_side side = side_of(r, (int)blockIdx.z);
    int column = (int)threadIdx.x % SLOPE_COLUMNS, share = (int)threadIdx.x / SLOPE_COLUMNS;
    int i = (int)blockIdx.x, c = (int)blockIdx.y * SLOPE_COLUMNS + column;
    int inside = c < r.d ? c : 0; /* so that loads need no condition */
    const float *embedding = side.embedding;
    double here = (double)embedding[(size_t)i * r.d + inside], sum = 0;
    for (int first = 0; first < r.n; first += LOSS_THREADS) {
        int j = first + (int)threadIdx.x;
        __syncthreads();
        if (j < r.n) {
            size_t ij = (size_t)i * r.n + j, ji = (size_t)j * r.n + i;
            slope[threadIdx.x] = (double)side.apex[ij] + (double)side.apex[ji] - (double)side.base[ij];
        }
        __syncthreads();
        int end = r.n - first < LOSS_THREADS ? r.n - first : LOSS_THREADS;
        for (int k = share; k < end; k += SLOPE_SHARES * SLOPE_BATCH) {
            float there[SLOPE_BATCH];
#pragma unroll
            for (int e = 0; e < SLOPE_BATCH; e++) {
                int other = k + e * SLOPE_SHARES < end ? k + e * SLOPE_SHARES : k;
                there[e] = embedding[(size_t)(first + other) * r.d + inside];
            }
#pragma unroll
            for (int e = 0; e < SLOPE_BATCH; e++)
                if (k + e * SLOPE_SHARES < end)
                    sum += slope[k + e * SLOPE_SHARES] * (here - (double)there[e]);
        }
    }
    space[share][column] = sum;
    __syncthreads();
    if (share != 0 || c >= r.d)
        return;
    for (int s = 1; s < SLOPE_SHARES; s++)
        sum += space[s][column];
    side.gradient[(size_t)i * r.d + c] += (float)(2 * (double)*r.weight / ((double)r.n * r.n * r.n) * sum);
}

static void loss_rkd(rc_backend *be, int n, int d, const void *student, const void *teacher, void *workspace,
                     const float *weight, void *value, void *dstudent, void *dteacher)
{
    rc_cuda *cuda = rc_cuda_of(be);
    relations r = view_relations(n, d, student, teacher, workspace, weight, value, dstudent, dteacher);
    unsigned tiles = (unsigned)(n + TILE - 1) / TILE;
    rc_cuda_launch_early(cuda, "loss_rkd", distance_kernel, dim3(tiles, tiles, 2), TILE * TILE, 0, r);
    rc_cuda_launch_early(cuda, "loss_rkd", angle_kernel, dim3((unsigned)n), ANGLE_THREADS, 0, r, loss_ticket(cuda));
    rc_cuda_launch_early(cuda, "loss_rkd", gradient_kernel,
                         dim3((unsigned)n, (unsigned)(d + SLOPE_COLUMNS - 1) / SLOPE_COLUMNS, 2), LOSS_THREADS, 0, r);
}

void rc_cuda_fill_relation_losses(rc_cuda *cuda)
{
    cuda->table.loss_rkd = loss_rkd;
    cuda->table.rkd_workspace = rkd_workspace;
}
