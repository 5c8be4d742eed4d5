/* RKD: angles between embeddings, from their distances. Formulas and names are those of cpu/reference/feature_losses.c:
 *     a_ijk = 1/2 (q_ij + q_ik - q_jk) v_ij v_ik          L = sum_ijk |a^s_ijk - a^t_ijk| / n^3
 *     apex_ij = sum_k s_ijk (v_ij v_ik - a_ijk v_ij^2)    base_jk = sum_i s_ijk v_ij v_ik
 *     w_ij = (apex_ij + apex_ji - base_ij) / n^3          dL/de_i = 2 sum_j w_ij (e_i - e_j)
 *
 * Three kernels: distances; all angles, once with i fixed (apex, value) and once with j fixed (base), so that every sum
 * has one owner; the gradient. Distances are summed in double, the angles computed in float from h = q / 2 and v. */
#include "backend/cuda/losses.cuh"

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
        relation_side side = {(const float *)(s ? teacher : student), space, space + matrix, space + 2 * matrix,
                              space + 3 * matrix, (float *)(s ? dteacher : dstudent)};
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

enum { TILE = 16 };

/* Block (tile j, tile i, side), TILE x TILE threads: embeddings pass through shared memory, TILE coordinates at a
 * time. */
__global__ static void distance_kernel(relations r)
{
    begin_after_kernel_before();
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
    float norm = (float)sqrt(sum);
    side.half[(size_t)i * r.n + j] = (float)(0.5 * sum);
    side.inverse[(size_t)i * r.n + j] = sum > 0 ? 1 / (norm > smallest_norm ? norm : smallest_norm) : 0;
}

/* ---- angles ----------------------------------------------------------------------------------------------------- */

enum { ANGLE_THREADS = 512, ANGLE_WARPS = ANGLE_THREADS / 32 };

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
    float v_ij, scale, angle; /* scale = v_ij v_ik */
};

/* At k = i the halves cancel exactly, for the matrix is symmetric bit by bit. */
__device__ static triangle look_at(float half_ij, float half_ik, float half_jk, float v_ij, float v_ik)
{
    triangle t = {v_ij, v_ij * v_ik, 0};
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

/* Block i: a warp per j, its lanes over k.
 *     apex_ij = sum_k s v_ij v_ik - v_ij^2 sum_k s a_ijk */
__device__ static void apex_block(const relations &r, int i)
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const relation_side &student = r.side[0], &teacher = r.side[1];
    size_t row_i = (size_t)i * r.n;
    double value = 0;
    for (int j = warp; j < r.n; j += ANGLE_WARPS) {
        size_t row_j = (size_t)j * r.n;
        float half_s = student.half[row_i + j], half_t = teacher.half[row_i + j];
        float v_s = student.inverse[row_i + j], v_t = teacher.inverse[row_i + j];
        float scale_s = 0, scale_t = 0, angle_s = 0, angle_t = 0, apart = 0;
#pragma unroll 4
        for (int k = lane; k < r.n; k += 32) {
            triangle s = look_at(half_s, student.half[row_i + k], student.half[row_j + k], v_s,
                                 student.inverse[row_i + k]);
            triangle t = look_at(half_t, teacher.half[row_i + k], teacher.half[row_j + k], v_t,
                                 teacher.inverse[row_i + k]);
            float sign = k != j ? sign_of(s.angle - t.angle) : 0;
            apart += sign * (s.angle - t.angle);
            scale_s += sign * s.scale;
            scale_t += sign * t.scale;
            angle_s += sign * s.angle;
            angle_t += sign * t.angle;
        }
        value += (double)apart + (lane == 0 ? (double)own_difference(r, row_i + j) : 0);
        scale_s = warp_sum(scale_s);
        scale_t = warp_sum(scale_t);
        angle_s = warp_sum(angle_s);
        angle_t = warp_sum(angle_t);
        if (lane == 0) {
            student.apex[row_i + j] = scale_s - v_s * v_s * angle_s;
            teacher.apex[row_i + j] = v_t * v_t * angle_t - scale_t;
        }
    }
    value = angle_sum(value);
    if (threadIdx.x == 0)
        r.parts[i] = value;
}

/* Block j: 64 threads over k, the rest of the block over i. */
__device__ static void base_block(const relations &r, int j)
{
    enum { COLUMNS = 64, SHARES = ANGLE_THREADS / COLUMNS };
    __shared__ float space[2][SHARES][COLUMNS];
    const relation_side &student = r.side[0], &teacher = r.side[1];
    int column = (int)threadIdx.x % COLUMNS, share = (int)threadIdx.x / COLUMNS;
    size_t row_j = (size_t)j * r.n;
    for (int first = 0; first < r.n; first += COLUMNS) {
        int k = first + column;
        float sum_s = 0, sum_t = 0;
        if (k < r.n && k != j) {
            float half_s = student.half[row_j + k], half_t = teacher.half[row_j + k];
#pragma unroll 4
            for (int i = share; i < r.n; i += SHARES) {
                size_t ik = (size_t)i * r.n + k;
                triangle s = look_at(student.half[row_j + i], student.half[ik], half_s, student.inverse[row_j + i],
                                     student.inverse[ik]);
                triangle t = look_at(teacher.half[row_j + i], teacher.half[ik], half_t, teacher.inverse[row_j + i],
                                     teacher.inverse[ik]);
                float sign = sign_of(s.angle - t.angle);
                sum_s += sign * s.scale;
                sum_t -= sign * t.scale;
            }
        }
        __syncthreads();
        space[0][share][column] = sum_s;
        space[1][share][column] = sum_t;
        __syncthreads();
        if (share < 2 && k < r.n) {
            float sum = 0;
            for (int part = 0; part < SHARES; part++)
                sum += space[share][part][column];
            r.side[share].base[row_j + k] = sum;
        }
    }
}

__global__ static void angle_kernel(relations r, unsigned *ticket)
{
    begin_after_kernel_before();
    if ((int)blockIdx.x < r.n)
        apex_block(r, (int)blockIdx.x);
    else
        base_block(r, (int)blockIdx.x - r.n);
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

/* Block (i, coordinates, side): the row w_i goes through shared memory, a thread per coordinate. */
__global__ static void gradient_kernel(relations r)
{
    begin_after_kernel_before();
    __shared__ double slope[LOSS_THREADS];
    const relation_side &side = r.side[blockIdx.z];
    int i = (int)blockIdx.x, c = (int)(blockIdx.y * LOSS_THREADS + threadIdx.x);
    int inside = c < r.d ? c : 0; /* so that loads need no condition */
    double here = (double)side.embedding[(size_t)i * r.d + inside], sum = 0;
    for (int first = 0; first < r.n; first += LOSS_THREADS) {
        int j = first + (int)threadIdx.x;
        __syncthreads();
        if (j < r.n) {
            size_t ij = (size_t)i * r.n + j, ji = (size_t)j * r.n + i;
            slope[threadIdx.x] = (double)side.apex[ij] + (double)side.apex[ji] - (double)side.base[ij];
        }
        __syncthreads();
        int end = r.n - first < LOSS_THREADS ? r.n - first : LOSS_THREADS;
#pragma unroll 16
        for (int k = 0; k < end; k++)
            sum += slope[k] * (here - (double)side.embedding[(size_t)(first + k) * r.d + inside]);
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
    rc_cuda_launch_early(cuda, "loss_rkd", distance_kernel, dim3(tiles, tiles, 2), TILE * TILE, 0, r);
    rc_cuda_launch_early(cuda, "loss_rkd", angle_kernel, dim3(2 * (unsigned)n), ANGLE_THREADS, 0, r, loss_ticket(cuda));
    rc_cuda_launch_early(cuda, "loss_rkd", gradient_kernel,
                         dim3((unsigned)n, (unsigned)(d + LOSS_THREADS - 1) / LOSS_THREADS, 2), LOSS_THREADS, 0, r);
}

void rc_cuda_fill_relation_losses(rc_cuda *cuda)
{
    cuda->table.loss_rkd = loss_rkd;
    cuda->table.rkd_workspace = rkd_workspace;
}
