/* How the losses are cut. A loss has a value, which is a sum over everything, and a gradient; both take one kernel:
 * every block leaves its part of the sum in the workspace, and the block that finishes last adds the parts, in order.
 *
 *   rows: a warp per row (one sample's logits)
 *   maps: a thread per pixel
 *
 * What is done per row or pixel is a small struct with
 *     static const int values;                          sums that are taken
 *     void row(int b, int lane, double sum[values])     sum is that of the whole warp, or counts for lane 0 alone
 *     void pixel(int p, double sum[values])
 *     void finish(const double total[values])           called by one thread, at the end */
#ifndef RC_BACKEND_CUDA_LOSS_LOSSES_CUH
#define RC_BACKEND_CUDA_LOSS_LOSSES_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/reduce.cuh"

enum { LOSS_THREADS = REDUCE_THREADS, LOSS_ROWS = LOSS_THREADS / 32, LOSS_MAX_BLOCKS = 512, LOSS_MAX_VALUES = 4 };

/* True in all threads of the block that comes here last; it sees what the others wrote. The ticket is 0 again then. */
__device__ inline bool last_block(unsigned *ticket)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    __threadfence();
    return last;
}

/* The last block's part: parts (values, count) are added and handed to finish. */
template <typename Loss>
__device__ inline void finish_loss(const Loss &loss, const double *parts, int count, unsigned *ticket)
{
    if (!last_block(ticket))
        return;
    double total[Loss::values];
    for (int v = 0; v < Loss::values; v++) {
        double sum = 0;
        for (int i = (int)threadIdx.x; i < count; i += LOSS_THREADS)
            sum += __ldcg(parts + (size_t)v * count + i); /* not from a cache that the other blocks did not write to */
        total[v] = block_sum(sum);
    }
    if (threadIdx.x == 0)
        loss.finish(total);
}

template <typename Loss> __global__ static void row_loss_kernel(Loss loss, int n, double *parts, unsigned *ticket)
{
    begin_after_kernel_before();
    int lane = (int)threadIdx.x % 32, b = (int)blockIdx.x * LOSS_ROWS + (int)threadIdx.x / 32;
    if (b < n) {
        double sum[Loss::values];
        loss.row(b, lane, sum);
        for (int v = 0; v < Loss::values && lane == 0; v++)
            parts[(size_t)v * n + b] = sum[v];
    }
    finish_loss(loss, parts, n, ticket);
}

template <typename Loss> __global__ static void map_loss_kernel(Loss loss, int pixels, double *parts, unsigned *ticket)
{
    begin_after_kernel_before();
    double sum[Loss::values];
    for (int v = 0; v < Loss::values; v++)
        sum[v] = 0;
    for (int p = (int)(blockIdx.x * LOSS_THREADS + threadIdx.x); p < pixels; p += (int)gridDim.x * LOSS_THREADS)
        loss.pixel(p, sum);
    for (int v = 0; v < Loss::values; v++) {
        double part = block_sum(sum[v]);
        if (threadIdx.x == 0)
            parts[(size_t)v * gridDim.x + blockIdx.x] = part;
    }
    finish_loss(loss, parts, (int)gridDim.x, ticket);
}

/* Workspace that the parts take, from its beginning; what a loss needs besides comes after. */
static inline size_t loss_parts_bytes(int rows)
{
    int count = rows > LOSS_MAX_BLOCKS ? rows : LOSS_MAX_BLOCKS;
    return ((size_t)count * LOSS_MAX_VALUES * sizeof(double) + 255) / 256 * 256;
}

static inline unsigned *loss_ticket(rc_cuda *cuda)
{
    return cuda->tickets + cuda->lane * RC_CUDA_TICKETS;
}

template <typename Loss> static void launch_rows(rc_cuda *cuda, const char *operation, Loss loss, int n)
{
    double *parts = (double *)rc_cuda_workspace(cuda, loss_parts_bytes(n), operation);
    if (parts)
        rc_cuda_launch_early(cuda, operation, row_loss_kernel<Loss>, dim3((unsigned)(n + LOSS_ROWS - 1) / LOSS_ROWS),
                             LOSS_THREADS, 0, loss, n, parts, loss_ticket(cuda));
}

template <typename Loss> static void launch_pixels(rc_cuda *cuda, const char *operation, Loss loss, int pixels)
{
    double *parts = (double *)rc_cuda_workspace(cuda, loss_parts_bytes(0), operation);
    int blocks = (pixels + LOSS_THREADS - 1) / LOSS_THREADS;
    if (parts)
        rc_cuda_launch_early(cuda, operation, map_loss_kernel<Loss>,
                             dim3((unsigned)(blocks < LOSS_MAX_BLOCKS ? blocks : LOSS_MAX_BLOCKS)), LOSS_THREADS, 0,
                             loss, pixels, parts, loss_ticket(cuda));
}

/* log sum_k exp(z_k / T) over the lanes of a warp; -infinity for no classes. */
__device__ inline double log_sum_exp(const float *z, int count, double temperature, int lane)
{
    if (count <= 0)
        return -HUGE_VAL;
    double largest = -HUGE_VAL, sum = 0;
    for (int k = lane; k < count; k += 32)
        largest = (double)z[k] > largest ? (double)z[k] : largest;
    largest = warp_max(largest);
    for (int k = lane; k < count; k += 32)
        sum += exp(((double)z[k] - largest) / temperature);
    return largest / temperature + log(warp_sum(sum));
}

#endif
