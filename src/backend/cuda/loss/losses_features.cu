/* Losses on features, on the head's weights and on statistics: ABD's feature distillation, WAR, DCE, BN. Formulas as in
 * cpu/reference/feature_losses.c. Each adds weight * gradient and overwrites its value slot; the BN loss overwrites its
 * gradients too. */
#include "backend/cuda/loss/losses.cuh"
#include "backend/cuda/product/product.cuh"

/* ---- ABD: importance-weighted feature distillation -------------------------------------------------------------- */

/* f - f_teacher */
struct difference_source {
    static const bool by_row = false;
    const float *features, *teacher;
    int d;
    __device__ float operator()(int i, int k) const
    {
        size_t at = (size_t)i * d + k;
        return features[at] - teacher[at];
    }
};

/* df += weight * 2 / (n n_old) * sum */
struct scaled_store {
    float *to;
    int stride;
    const float *weight;
    float factor;
    __device__ void operator()(int i, int j, float sum) const
    {
        to[(size_t)i * stride + j] += *weight * factor * sum;
    }
};

struct squares_of_rows {
    static const int values = 1;
    const float *matrix;
    int columns;
    double count;
    float *value;

    __device__ void row(int b, int lane, double sum[1]) const
    {
        double total = 0;
        for (int k = lane; k < columns; k += 32) {
            double x = (double)matrix[(size_t)b * columns + k];
            total += x * x;
        }
        sum[0] = warp_sum(total);
    }

    __device__ void finish(const double total[1]) const
    {
        *value = (float)(total[0] / count);
    }
};

static void loss_feature(rc_backend *be, int n, int d, int n_old, const void *features, const void *teacher_features,
                         const void *head, void *workspace, const float *weight, void *value, void *dfeatures)
{
    rc_cuda *cuda = rc_cuda_of(be);
    double count = (double)n * n_old;
    difference_source differences = {(const float *)features, (const float *)teacher_features, d};
    row_source rows = {(const float *)head, d}, along = {(const float *)workspace, n_old};
    column_source columns = {(const float *)head, d};
    real_store to_workspace = {(float *)workspace, n_old, NULL, false};
    scaled_store to_gradient = {(float *)dfeatures, d, weight, (float)(2 / count)};
    squares_of_rows squares = {(const float *)workspace, n_old, count, (float *)value};
    launch_product(cuda, "loss_feature", n, n_old, d, differences, rows, to_workspace);
    launch_product(cuda, "loss_feature", n, d, n_old, along, columns, to_gradient);
    launch_rows(cuda, "loss_feature", squares, n);
}

/* ---- WAR: old and new rows of the head get norms alike ---------------------------------------------------------- */

struct war {
    int classes, n_old, d;
    double divisor;
    const float *head, *weight;
    double *norm; /* (classes) */
    float *value, *dhead;
};

__device__ static double sign_of(double x)
{
    return (x > 0) - (x < 0);
}

enum { WAR_ROWS = 4 }; /* whose loads are on their way at once */

/* One block: norms, the two means, the signs, the gradient. A warp has every LOSS_ROWS-th row. */
__global__ static void war_kernel(war w)
{
    begin_after_kernel_before();
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    double old_rows = w.n_old, new_rows = w.classes - w.n_old;
    for (int first = warp; first < w.classes; first += WAR_ROWS * LOSS_ROWS) {
        double squares[WAR_ROWS] = {};
        for (int i = lane; i < w.d; i += 32) {
            float x[WAR_ROWS];
#pragma unroll
            for (int e = 0; e < WAR_ROWS; e++) {
                int k = first + e * LOSS_ROWS;
                x[e] = k < w.classes ? w.head[(size_t)k * w.d + i] : 0;
            }
#pragma unroll
            for (int e = 0; e < WAR_ROWS; e++)
                squares[e] += (double)x[e] * (double)x[e];
        }
#pragma unroll
        for (int e = 0; e < WAR_ROWS; e++) {
            squares[e] = warp_sum(squares[e]);
            if (lane == 0 && first + e * LOSS_ROWS < w.classes)
                w.norm[first + e * LOSS_ROWS] = sqrt(squares[e]);
        }
    }
    __syncthreads();
    double old_sum = 0, new_sum = 0, old_signs = 0, new_signs = 0, total = 0;
    for (int k = (int)threadIdx.x; k < w.classes; k += LOSS_THREADS) {
        old_sum += k < w.n_old ? w.norm[k] : 0;
        new_sum += k < w.n_old ? 0 : w.norm[k];
    }
    double old_mean = block_sum(old_sum) / old_rows, new_mean = block_sum(new_sum) / new_rows;
    for (int k = (int)threadIdx.x; k < w.classes; k += LOSS_THREADS) {
        double difference = w.norm[k] - (k < w.n_old ? new_mean : old_mean), sign = sign_of(difference);
        old_signs += k < w.n_old ? sign : 0;
        new_signs += k < w.n_old ? 0 : sign;
        total += fabs(difference);
    }
    old_signs = block_sum(old_signs);
    new_signs = block_sum(new_signs);
    total = block_sum(total);
    if (threadIdx.x == 0)
        *w.value = (float)(total / w.divisor);
    double by = (double)*w.weight / w.divisor;
    for (int first = warp; first < w.classes; first += WAR_ROWS * LOSS_ROWS) {
        double factor[WAR_ROWS];
#pragma unroll
        for (int e = 0; e < WAR_ROWS; e++) { /* 0: no gradient */
            int k = first + e * LOSS_ROWS;
            double norm = k < w.classes ? w.norm[k] : 0;
            double slope = k < w.n_old ? sign_of(norm - new_mean) - new_signs / old_rows
                                       : sign_of(norm - old_mean) - old_signs / new_rows;
            factor[e] = norm > 0 ? by * slope / norm : 0;
        }
        for (int i = lane; i < w.d; i += 32) {
            float x[WAR_ROWS], before[WAR_ROWS];
#pragma unroll
            for (int e = 0; e < WAR_ROWS; e++) {
                int k = first + e * LOSS_ROWS;
                size_t at = (size_t)k * w.d + i;
                x[e] = k < w.classes ? w.head[at] : 0;
                before[e] = k < w.classes ? w.dhead[at] : 0;
            }
#pragma unroll
            for (int e = 0; e < WAR_ROWS; e++) {
                int k = first + e * LOSS_ROWS;
                if (k < w.classes)
                    w.dhead[(size_t)k * w.d + i] = before[e] + (float)(factor[e] * (double)x[e]);
            }
        }
    }
}

static void loss_war(rc_backend *be, int classes, int n_old, int d, bool paper, const void *head, const float *weight,
                     void *value, void *dhead)
{
    rc_cuda *cuda = rc_cuda_of(be);
    double *norm = (double *)rc_cuda_workspace(cuda, (size_t)classes * sizeof(double), "loss_war");
    war w = {classes,        n_old,         d, paper ? (double)classes : 1, (const float *)head, weight, norm,
             (float *)value, (float *)dhead};
    if (norm)
        rc_cuda_launch_early(cuda, "loss_war", war_kernel, dim3(1), LOSS_THREADS, 0, w);
}

/* ---- DCE: features of dreams keep class means and covariance ---------------------------------------------------- */

enum {
    DCE_TILE = 8,                                      /* of the covariance, (8, 8), */
    DCE_SHARES = LOSS_THREADS / (DCE_TILE * DCE_TILE), /* by as many threads for each entry, */
    DCE_SAMPLES = 128,                                 /* from so many samples at a time */
    DCE_COLUMNS = 64,                                  /* coordinates of a block of the gradient, */
    DCE_PARTS = LOSS_THREADS / DCE_COLUMNS,            /* by as many threads for each */
    DCE_BATCH = 16,                                    /* loads of a thread that are on their way at once */
    DCE_MEMBERS = 8                                    /* the same, of members of a class */
};

struct dce_space {
    double *mean;                    /* (classes, d): of the batch */
    double *offset;                  /* (classes, d): differences r_k - u_k */
    double *slope;                   /* (d, d): R - C */
    double *members;                 /* (classes): samples in the batch */
    double *squares;                 /* (classes): |r_k - u_k|^2 */
    double *tiles;                   /* (tiles): sums of squares of the slope */
    double *keep;                    /* share of the old averages */
    double *by_covariance, *by_mean; /* 1 / |R - C|_F; 1 / norm of all means (0: no gradient) */
};

static int dce_tiles(int d)
{
    int side = (d + DCE_TILE - 1) / DCE_TILE;
    return side * side;
}

static size_t dce_workspace(rc_backend *, int, int d, int classes)
{
    size_t k = (size_t)classes, f = (size_t)d;
    return ((2 * k + f) * f + 2 * k + (size_t)dce_tiles(d) + 3) * sizeof(double);
}

static dce_space split_dce_workspace(const rc_dce *dce)
{
    dce_space space;
    space.mean = (double *)dce->workspace;
    space.offset = space.mean + (size_t)dce->classes * (size_t)dce->d;
    space.slope = space.offset + (size_t)dce->classes * (size_t)dce->d;
    space.members = space.slope + (size_t)dce->d * (size_t)dce->d;
    space.squares = space.members + dce->classes;
    space.tiles = space.squares + dce->classes;
    space.keep = space.tiles + dce_tiles(dce->d);
    space.by_covariance = space.keep + 1;
    space.by_mean = space.keep + 2;
    return space;
}

__device__ static double dce_divisor(const rc_dce &dce)
{
    return dce.paper ? dce.n : dce.n > 1 ? dce.n - 1 : 1;
}

/* Members of class k among labels [first, first + LOSS_THREADS), in order, by the whole block. */
struct members {
    int count;
    short index[LOSS_THREADS];
};

__device__ static void list_members(const int *labels, int n, int first, int k, members *list)
{
    __shared__ int in_warp[LOSS_ROWS];
    int b = first + (int)threadIdx.x, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, before = 0, all = 0;
    bool member = b < n && labels[b] == k;
    unsigned votes = __ballot_sync(0xffffffffu, member);
    __syncthreads();
    if (lane == 0)
        in_warp[warp] = __popc(votes);
    __syncthreads();
    for (int w = 0; w < LOSS_ROWS; w++) {
        before += w < warp ? in_warp[w] : 0;
        all += in_warp[w];
    }
    if (member)
        list->index[before + __popc(votes & ((1u << lane) - 1))] = (short)threadIdx.x;
    if (threadIdx.x == 0)
        list->count = all;
    __syncthreads();
}

/* How much of the old averages is kept: nothing until every class has been seen. */
__device__ static double dce_keep(const rc_dce &dce)
{
    bool unseen = dce.paper;
    for (int c = (int)threadIdx.x; c < dce.classes && !dce.paper; c += LOSS_THREADS)
        unseen = unseen || !dce.seen[c];
    return block_sum(unseen ? 1 : 0) == 0 ? (double)dce.momentum : 0;
}

/* Features of every parts-th of the listed members, from `part` on, at coordinate i: their sum, in order. */
__device__ static double sum_members(const rc_dce &dce, const members &list, int first, int i, int part, int parts,
                                     const float *features)
{
    double sum = 0;
    for (int m = part; m < list.count; m += parts * DCE_MEMBERS) {
        float batch[DCE_MEMBERS];
#pragma unroll
        for (int e = 0; e < DCE_MEMBERS; e++) {
            int member = m + e * parts;
            batch[e] = member < list.count ? features[(size_t)(first + list.index[member]) * dce.d + i] : 0;
        }
#pragma unroll
        for (int e = 0; e < DCE_MEMBERS; e++)
            sum += (double)batch[e];
    }
    return sum;
}

/* Block k: members, mean, moving average and difference of class k. A class may have all samples, so threads that have
 * no coordinate share the members with those that have one. `seen` changes when the covariance is done. */
__global__ static void dce_mean_kernel(rc_dce dce, dce_space space, const float *features, const int *labels)
{
    begin_after_kernel_before();
    __shared__ members list;
    __shared__ double space_of_parts[LOSS_THREADS];
    int k = (int)blockIdx.x, count = 0, thread = (int)threadIdx.x;
    int columns = dce.d > DCE_COLUMNS ? (int)LOSS_THREADS : (int)DCE_COLUMNS, parts = LOSS_THREADS / columns;
    const float *target = (const float *)dce.class_mean + (size_t)k * dce.d;
    float *running = (float *)dce.running_mean + (size_t)k * dce.d;
    bool known = !isnan(target[0]); /* on its way while members are listed */
    double keep = dce_keep(dce), squares = 0;
    for (int first = 0; first < dce.n; first += LOSS_THREADS) {
        list_members(labels, dce.n, first, k, &list);
        count += list.count;
    }
    for (int begin = 0; begin < dce.d; begin += columns) {
        int i = begin + thread % columns, at = i < dce.d ? i : 0;
        float goal = target[at], before = running[at];
        double sum = 0;
        for (int first = 0; first < dce.n && count > 0; first += LOSS_THREADS) {
            if (dce.n > LOSS_THREADS) /* otherwise the list is there */
                list_members(labels, dce.n, first, k, &list);
            sum += sum_members(dce, list, first, at, thread / columns, parts, features);
        }
        __syncthreads();
        space_of_parts[thread] = sum;
        __syncthreads();
        if (thread >= columns || i >= dce.d)
            continue;
        for (int part = 1; part < parts; part++)
            sum += space_of_parts[thread + part * columns];
        double mean = count > 0 ? sum / count : 0, average = mean;
        if (!dce.paper && count > 0) {
            average = (keep > 0 ? keep * (double)before : 0) + (1 - keep) * mean;
            running[i] = (float)average;
        }
        double offset = count > 0 && known ? average - (double)goal : 0;
        space.mean[(size_t)k * dce.d + i] = mean;
        space.offset[(size_t)k * dce.d + i] = offset;
        squares += offset * offset;
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        space.members[k] = count;
        space.squares[k] = squares;
        if (k == 0)
            *space.keep = keep;
    }
}

/* One thread: the value, and what the differences are divided by. */
__device__ static void finish_dce(const rc_dce &dce, dce_space space, double covariance, double means, float *value)
{
    *space.by_covariance = covariance > 0 ? 1 / sqrt(covariance) : 0;
    *space.by_mean = means > 0 ? 1 / sqrt(means) : 0;
    *value = (float)((dce.paper ? means : sqrt(means)) + sqrt(covariance));
}

/* What the covariance is made of: features less the mean of their class in the batch. */
struct dce_residuals {
    const float *features;
    const int *labels;
    const double *mean;
    int d;

    __device__ double at(int b, int i) const
    {
        return (double)features[(size_t)b * d + i] - mean[(size_t)labels[b] * d + i];
    }
};

/* Residuals of DCE_SAMPLES samples from `sample` on, DCE_TILE coordinates from `first` on; zeros past the ends. */
__device__ static void stage_residuals(double tile[DCE_SAMPLES][DCE_TILE], const rc_dce &dce,
                                       const dce_residuals &residuals, int sample, int first)
{
    enum { EACH = DCE_SAMPLES * DCE_TILE / LOSS_THREADS };
    double staged[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int index = (int)threadIdx.x + e * LOSS_THREADS, b = sample + index / DCE_TILE, i = first + index % DCE_TILE;
        staged[e] = b < dce.n && i < dce.d ? residuals.at(b, i) : 0;
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int index = (int)threadIdx.x + e * LOSS_THREADS;
        tile[index / DCE_TILE][index % DCE_TILE] = staged[e];
    }
}

/* sum_b residual_bi residual_bj of this block's tile: thread (share, i, j) has its part of it, those of share 0 return
 * the whole. */
__device__ static double sum_products(const rc_dce &dce, const dce_residuals &residuals, int first_i, int first_j)
{
    __shared__ double left[DCE_SAMPLES][DCE_TILE], right[DCE_SAMPLES][DCE_TILE], shares[LOSS_THREADS];
    int x = (int)threadIdx.x % DCE_TILE, y = (int)threadIdx.x / DCE_TILE % DCE_TILE;
    int share = (int)threadIdx.x / (DCE_TILE * DCE_TILE);
    double sum = 0;
    for (int first = 0; first < dce.n; first += DCE_SAMPLES) {
        __syncthreads();
        stage_residuals(left, dce, residuals, first, first_i);
        stage_residuals(right, dce, residuals, first, first_j);
        __syncthreads();
#pragma unroll 8
        for (int b = share; b < DCE_SAMPLES; b += DCE_SHARES)
            sum += left[b][y] * right[b][x];
    }
    shares[threadIdx.x] = sum;
    __syncthreads();
    for (int s = 1; s < DCE_SHARES && share == 0; s++)
        sum += shares[threadIdx.x + s * DCE_TILE * DCE_TILE];
    return sum;
}

/* Block (tile of the covariance): batch covariance, moving average, difference; the last block sums up. */
__global__ static void dce_covariance_kernel(rc_dce dce, dce_space space, const float *features, const int *labels,
                                             float *value, unsigned *ticket)
{
    begin_after_kernel_before();
    int side = (dce.d + DCE_TILE - 1) / DCE_TILE;
    int first_i = (int)blockIdx.x / side * DCE_TILE, first_j = (int)blockIdx.x % side * DCE_TILE;
    int i = first_i + (int)threadIdx.x / DCE_TILE, j = first_j + (int)threadIdx.x % DCE_TILE;
    bool owner = (int)threadIdx.x < DCE_TILE * DCE_TILE && i < dce.d && j < dce.d;
    size_t at = owner ? (size_t)i * dce.d + j : 0;
    float *running = (float *)dce.running_covariance + at;
    float before = *running, goal = ((const float *)dce.covariance)[at];
    dce_residuals residuals = {features, labels, space.mean, dce.d};
    double keep = *space.keep, squares = 0, sum = sum_products(dce, residuals, first_i, first_j);
    if (owner) {
        double entry = sum / dce_divisor(dce);
        if (!dce.paper) {
            entry = (keep > 0 ? keep * (double)before : 0) + (1 - keep) * entry;
            *running = (float)entry;
        }
        entry -= (double)goal;
        space.slope[at] = entry;
        squares = entry * entry;
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0)
        space.tiles[blockIdx.x] = squares;
    if (!last_block(ticket))
        return;
    double of_tiles = 0, of_means = 0;
    for (int t = (int)threadIdx.x; t < (int)gridDim.x; t += LOSS_THREADS)
        of_tiles += __ldcg(space.tiles + t);
    for (int k = (int)threadIdx.x; k < dce.classes; k += LOSS_THREADS)
        of_means += dce.paper ? sqrt(space.squares[k]) : space.squares[k];
    of_tiles = block_sum(of_tiles);
    of_means = block_sum(of_means);
    if (threadIdx.x == 0)
        finish_dce(dce, space, of_tiles, of_means, value);
    for (int b = (int)threadIdx.x; b < dce.n && !dce.paper; b += LOSS_THREADS)
        dce.seen[labels[b]] = 1;
}

/* Block (sample, DCE_COLUMNS coordinates): a thread takes one coordinate and every DCE_PARTS-th row of the slope. */
__global__ static void dce_gradient_kernel(rc_dce dce, dce_space space, const float *features, const int *labels,
                                           const float *weight, float *dfeatures)
{
    begin_after_kernel_before();
    __shared__ double parts[DCE_PARTS][DCE_COLUMNS];
    int b = (int)blockIdx.x, column = (int)threadIdx.x % DCE_COLUMNS, part = (int)threadIdx.x / DCE_COLUMNS;
    int i = (int)blockIdx.y * DCE_COLUMNS + column, inside = i < dce.d ? i : 0, k = labels[b];
    const float *here = features + (size_t)b * dce.d;
    const double *mean = space.mean + (size_t)k * dce.d;
    double along = 0;
    for (int first = part; first < dce.d; first += DCE_PARTS * DCE_BATCH) {
        double slope[DCE_BATCH], center[DCE_BATCH];
        float feature[DCE_BATCH];
#pragma unroll
        for (int e = 0; e < DCE_BATCH; e++) { /* the slope is symmetric: rows are read side by side */
            int j = first + e * DCE_PARTS;
            slope[e] = j < dce.d ? space.slope[(size_t)j * dce.d + inside] : 0;
            feature[e] = j < dce.d ? here[j] : 0;
            center[e] = j < dce.d ? mean[j] : 0;
        }
#pragma unroll
        for (int e = 0; e < DCE_BATCH; e++)
            along += slope[e] * ((double)feature[e] - center[e]);
    }
    parts[part][column] = along;
    double squares = space.squares[k], offset = space.offset[(size_t)k * dce.d + inside];
    __syncthreads();
    if (part != 0 || i >= dce.d)
        return;
    for (int p = 1; p < DCE_PARTS; p++)
        along += parts[p][column];
    double by_mean = dce.paper ? (squares > 0 ? 1 / sqrt(squares) : 0) : *space.by_mean;
    double of_mean = offset * by_mean / space.members[k];
    double of_covariance = 2 / dce_divisor(dce) * along * *space.by_covariance;
    dfeatures[(size_t)b * dce.d + i] += (float)((double)*weight * (1 - *space.keep) * (of_mean + of_covariance));
}

static void loss_dce(rc_backend *be, const rc_dce *dce, const void *features, const int32_t *labels,
                     const float *weight, void *value, void *dfeatures)
{
    rc_cuda *cuda = rc_cuda_of(be);
    dce_space space = split_dce_workspace(dce);
    rc_cuda_launch_early(cuda, "loss_dce", dce_mean_kernel, dim3((unsigned)dce->classes), LOSS_THREADS, 0, *dce, space,
                         (const float *)features, labels);
    rc_cuda_launch_early(cuda, "loss_dce", dce_covariance_kernel, dim3((unsigned)dce_tiles(dce->d)), LOSS_THREADS, 0,
                         *dce, space, (const float *)features, labels, (float *)value, loss_ticket(cuda));
    rc_cuda_launch_early(cuda, "loss_dce", dce_gradient_kernel,
                         dim3((unsigned)dce->n, (unsigned)(dce->d + DCE_COLUMNS - 1) / DCE_COLUMNS), LOSS_THREADS, 0,
                         *dce, space, (const float *)features, labels, weight, (float *)dfeatures);
}

/* ---- statistics of BN inputs ------------------------------------------------------------------------------------ */

enum { BN_LAYERS = 48 }; /* in the arguments of one kernel */

struct bn_layers {
    rc_bn_stat layer[BN_LAYERS];
    rc_bn_loss_form form;
    double share; /* of a layer in the value */
};

__device__ static const double bn_epsilon = RC_BN_LOSS_EPSILON;

__device__ static double bn_divergence(const rc_bn_stat &layer, double factor)
{
    const float *mean = (const float *)layer.mean, *var = (const float *)layer.var;
    const float *running_mean = (const float *)layer.running_mean, *running_var = (const float *)layer.running_var;
    double sum = 0;
    for (int c = (int)threadIdx.x; c < layer.c; c += LOSS_THREADS) {
        double v = (double)var[c] + bn_epsilon, shift = (double)mean[c] - (double)running_mean[c];
        double stored = (double)running_var[c] + bn_epsilon, ratio = (stored + shift * shift) / v;
        sum += log(v / stored) + ratio - 1;
        ((float *)layer.dmean)[c] = (float)(factor * shift / (v * layer.c));
        ((float *)layer.dvar)[c] = (float)(factor * 0.5 * (1 - ratio) / (v * layer.c));
    }
    return 0.5 * block_sum(sum) / layer.c;
}

__device__ static double bn_distance(const rc_bn_stat &layer, double factor)
{
    const float *mean = (const float *)layer.mean, *var = (const float *)layer.var;
    const float *running_mean = (const float *)layer.running_mean, *running_var = (const float *)layer.running_var;
    double of_means = 0, of_variances = 0;
    for (int c = (int)threadIdx.x; c < layer.c; c += LOSS_THREADS) {
        double shift = (double)mean[c] - (double)running_mean[c];
        double stretch = (double)var[c] + bn_epsilon - (double)running_var[c];
        of_means += shift * shift;
        of_variances += stretch * stretch;
    }
    of_means = sqrt(block_sum(of_means));
    of_variances = sqrt(block_sum(of_variances));
    for (int c = (int)threadIdx.x; c < layer.c; c += LOSS_THREADS) {
        double shift = (double)mean[c] - (double)running_mean[c];
        double stretch = (double)var[c] + bn_epsilon - (double)running_var[c];
        ((float *)layer.dmean)[c] = (float)(of_means > 0 ? factor * shift / of_means : 0);
        ((float *)layer.dvar)[c] = (float)(of_variances > 0 ? factor * stretch / of_variances : 0);
    }
    return of_means + of_variances;
}

/* Block (layer). parts (all layers); the last block of the last launch adds them. */
__global__ static void bn_kernel(bn_layers layers, int first, int all, const float *weight, double *parts, float *value,
                                 unsigned *ticket)
{
    begin_after_kernel_before();
    const rc_bn_stat &layer = layers.layer[blockIdx.x];
    double factor = (double)*weight * layers.share;
    double part = layers.form == RC_BN_L2 ? bn_distance(layer, factor) : bn_divergence(layer, factor);
    for (int c = layer.c + (int)threadIdx.x; c < (layer.c + 7) / 8 * 8; c += LOSS_THREADS)
        ((float *)layer.dmean)[c] = ((float *)layer.dvar)[c] = 0;
    if (threadIdx.x == 0)
        parts[first + (int)blockIdx.x] = part * layers.share;
    if (!last_block(ticket) || first + (int)gridDim.x < all || threadIdx.x != 0)
        return;
    double total = 0;
    for (int l = 0; l < all; l++)
        total += __ldcg(parts + l);
    *value = (float)total;
}

static void loss_bn(rc_backend *be, rc_bn_loss_form form, const rc_bn_stat *layers, int count, const float *weight,
                    void *value)
{
    rc_cuda *cuda = rc_cuda_of(be);
    double *parts = (double *)rc_cuda_workspace(cuda, (size_t)count * sizeof(double), "loss_bn");
    for (int first = 0; parts && first < count; first += BN_LAYERS) {
        bn_layers some = {};
        int here = count - first < BN_LAYERS ? count - first : BN_LAYERS;
        for (int i = 0; i < here; i++)
            some.layer[i] = layers[first + i];
        some.form = form;
        some.share = form == RC_BN_KL ? 1.0 / count : 1;
        rc_cuda_launch_early(cuda, "loss_bn", bn_kernel, dim3((unsigned)here), LOSS_THREADS, 0, some, first, count,
                             weight, parts, (float *)value, loss_ticket(cuda));
    }
}

void rc_cuda_fill_feature_losses(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->loss_feature = loss_feature;
    table->loss_war = loss_war;
    table->loss_dce = loss_dce;
    table->dce_workspace = dce_workspace;
    table->loss_bn = loss_bn;
}
