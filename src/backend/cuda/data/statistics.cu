/* Labels and statistics: softmax and argmax of logits, label counts and class weights, class means and the tied
 * covariance. */
#include "backend/cuda/loss/losses.cuh"

static dim3 row_grid(int n)
{
    return dim3((unsigned)(n + LOSS_ROWS - 1) / LOSS_ROWS);
}

/* ---- logits: a warp per row ------------------------------------------------------------------------------------- */

__global__ static void softmax_kernel(int n, int classes, int stride, const float *logits, float *probabilities)
{
    begin_after_kernel_before();
    int lane = (int)threadIdx.x % 32, b = (int)blockIdx.x * LOSS_ROWS + (int)threadIdx.x / 32;
    if (b >= n)
        return;
    const float *z = logits + (size_t)b * stride;
    double normaliser = log_sum_exp(z, classes, 1, lane);
    for (int k = lane; k < classes; k += 32)
        probabilities[(size_t)b * classes + k] = (float)exp((double)z[k] - normaliser);
}

static void softmax(rc_backend *be, int n, int classes, int stride, const void *logits, void *probabilities)
{
    rc_cuda_launch_early(rc_cuda_of(be), "softmax", softmax_kernel, row_grid(n), LOSS_THREADS, 0, n, classes, stride,
                         (const float *)logits, (float *)probabilities);
}

/* The first of equal maxima. */
__global__ static void argmax_kernel(int n, int classes, int stride, const float *logits, int *labels)
{
    begin_after_kernel_before();
    int lane = (int)threadIdx.x % 32, b = (int)blockIdx.x * LOSS_ROWS + (int)threadIdx.x / 32;
    if (b >= n)
        return;
    const float *z = logits + (size_t)b * stride;
    int best = lane < classes ? lane : 0;
    for (int k = lane + 32; k < classes; k += 32)
        best = z[k] > z[best] ? k : best;
    float largest = z[best];
    for (int distance = 16; distance > 0; distance /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, largest, distance);
        int other_best = __shfl_xor_sync(0xffffffffu, best, distance);
        if (other > largest || (other == largest && other_best < best)) {
            largest = other;
            best = other_best;
        }
    }
    if (lane == 0)
        labels[b] = best;
}

static void argmax(rc_backend *be, int n, int classes, int stride, const void *logits, int32_t *labels)
{
    rc_cuda_launch_early(rc_cuda_of(be), "argmax", argmax_kernel, row_grid(n), LOSS_THREADS, 0, n, classes, stride,
                         (const float *)logits, labels);
}

/* ---- labels ----------------------------------------------------------------------------------------------------- */

__global__ static void count_kernel(int n, const int *labels, int classes, int *count)
{
    begin_after_kernel_before();
    int b = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (b < n && labels[b] >= 0 && labels[b] < classes)
        atomicAdd(count + labels[b], 1); /* integers: the order does not matter */
}

static void count_labels(rc_backend *be, int n, const int32_t *labels, int classes, int32_t *count)
{
    rc_cuda_launch_early(rc_cuda_of(be), "count_labels", count_kernel,
                         dim3((unsigned)(n + LOSS_THREADS - 1) / LOSS_THREADS), LOSS_THREADS, 0, n, labels, classes,
                         count);
}

/* One block. w_k = largest count / max(count_k, 1) */
__global__ static void balance_kernel(int classes, const int *count, float *class_weight)
{
    begin_after_kernel_before();
    double most = 1;
    for (int k = (int)threadIdx.x; k < classes; k += LOSS_THREADS)
        most = count[k] > most ? count[k] : most;
    most = block_max(most);
    for (int k = (int)threadIdx.x; k < classes; k += LOSS_THREADS)
        class_weight[k] = (float)(most / (count[k] > 1 ? count[k] : 1));
}

static void balance_weights(rc_backend *be, int classes, const int32_t *count, void *class_weight)
{
    rc_cuda_launch_early(rc_cuda_of(be), "balance_weights", balance_kernel, dim3(1), LOSS_THREADS, 0, classes, count,
                         (float *)class_weight);
}

/* ---- class means and covariance --------------------------------------------------------------------------------- */

__device__ static double centered(const float *features, const float *center, int d, int b, int i)
{
    return (double)features[(size_t)b * d + i] - (center ? (double)center[i] : 0);
}

/* Block k: a thread per coordinate adds the features of class k, in order. */
__global__ static void class_sum_kernel(int n, int d, const float *features, const int *labels, const float *center,
                                        int *count, double *sum)
{
    begin_after_kernel_before();
    int k = (int)blockIdx.x;
    for (int i = (int)threadIdx.x; i < d; i += LOSS_THREADS) {
        double total = sum[(size_t)k * d + i];
        for (int b = 0; b < n; b++)
            total += labels[b] == k ? centered(features, center, d, b, i) : 0;
        sum[(size_t)k * d + i] = total;
    }
    double members = 0;
    for (int b = (int)threadIdx.x; b < n; b += LOSS_THREADS)
        members += labels[b] == k;
    members = block_sum(members);
    if (threadIdx.x == 0)
        count[k] += (int)members;
}

/* Thread (i, j), i <= j. */
__global__ static void outer_kernel(int n, int d, const float *features, const float *center, double *outer)
{
    begin_after_kernel_before();
    int at = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x), i = at / d, j = at % d;
    if (i >= d || j < i)
        return;
    double total = outer[at];
    for (int b = 0; b < n; b++)
        total += centered(features, center, d, b, i) * centered(features, center, d, b, j);
    outer[at] = total;
}

static dim3 matrix_grid(int d)
{
    return dim3((unsigned)(((size_t)d * d + LOSS_THREADS - 1) / LOSS_THREADS));
}

static void class_statistics(rc_backend *be, int n, int d, int classes, const void *features, const int32_t *labels,
                             const void *center, int32_t *count, double *sum, double *outer)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_launch_early(cuda, "class_statistics", class_sum_kernel, dim3((unsigned)classes), LOSS_THREADS, 0, n, d,
                         (const float *)features, labels, (const float *)center, count, sum);
    rc_cuda_launch_early(cuda, "class_statistics", outer_kernel, matrix_grid(d), LOSS_THREADS, 0, n, d,
                         (const float *)features, (const float *)center, outer);
}

/* Thread (k, i): u_k = center + sum_k / count_k, NaN for a class with no sample. */
__global__ static void class_mean_kernel(int d, int classes, const float *center, const int *count, const double *sum,
                                         float *class_mean)
{
    begin_after_kernel_before();
    int at = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x), k = at / d, i = at % d;
    if (k >= classes)
        return;
    class_mean[at] = count[k] > 0 ? (float)((center ? (double)center[i] : 0) + sum[at] / count[k]) : nanf("");
}

/* Thread (i, j): ( outer - sum_k sum_k sum_k^T / count_k ) / (total - unbiased). */
__global__ static void covariance_kernel(int d, int classes, const int *count, const double *sum, const double *outer,
                                         int unbiased, float *covariance)
{
    begin_after_kernel_before();
    int at = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x), i = at / d, j = at % d;
    if (i >= d || j < i)
        return;
    double scatter = outer[at], divisor = -unbiased;
    for (int k = 0; k < classes; k++) {
        const double *s = sum + (size_t)k * d;
        divisor += count[k];
        scatter -= count[k] > 0 ? s[i] * s[j] / count[k] : 0;
    }
    float entry = (float)(divisor > 0 ? scatter / divisor : 0);
    covariance[at] = entry;
    covariance[(size_t)j * d + i] = entry;
}

static void class_statistics_finish(rc_backend *be, int d, int classes, const void *center, const int32_t *count,
                                    const double *sum, const double *outer, bool unbiased, void *class_mean,
                                    void *covariance)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_launch_early(cuda, "class_statistics_finish", class_mean_kernel,
                         dim3((unsigned)(((size_t)classes * d + LOSS_THREADS - 1) / LOSS_THREADS)), LOSS_THREADS, 0, d,
                         classes, (const float *)center, count, sum, (float *)class_mean);
    rc_cuda_launch_early(cuda, "class_statistics_finish", covariance_kernel, matrix_grid(d), LOSS_THREADS, 0, d,
                         classes, count, sum, outer, unbiased ? 1 : 0, (float *)covariance);
}

void rc_cuda_fill_statistics(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->softmax = softmax;
    table->argmax = argmax;
    table->count_labels = count_labels;
    table->balance_weights = balance_weights;
    table->class_statistics = class_statistics;
    table->class_statistics_finish = class_statistics_finish;
}
