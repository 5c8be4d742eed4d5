#include "backend/cuda/convolution/conv_reduce.h"

#include "backend/cuda/device.cuh"

/* Lanes: at most. Enough threads fill a card of 132 multiprocessors. */
enum { REDUCE_THREADS = 256, REDUCE_LANES = 32, REDUCE_ENOUGH = 128 * 1024 };

__device__ static inline float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* Grid: (c_out x c_in elements, positions of the kernel, layers). So many lanes share four neighbouring elements: lane
 * l adds blocks l, l + lanes, .. of every term, and then they add theirs in halves. */
__global__ static void __launch_bounds__(REDUCE_THREADS)
    reduce_kernel(const __grid_constant__ reduce_arguments a, int lanes)
{
    __shared__ float4 space[REDUCE_THREADS];
    int columns = REDUCE_THREADS / lanes, column = threadIdx.x % columns, lane = threadIdx.x / columns;
    int element = (blockIdx.x * columns + column) * 4, elements = a.co_padded * a.ci_padded;
    float4 sum = make_float4(0, 0, 0, 0);
    wait_for_kernel_before();
    start_kernel_after();
    if (element < elements)
        for (int term = 0; term < a.terms; term++) {
            size_t tap = (size_t)blockIdx.z * a.blocks * a.taps + a.term[blockIdx.y][term];
            const float *from = a.sums + tap * elements + element;
#pragma unroll 4
            for (int block = lane; block < a.blocks; block += lanes)
                sum = add4(sum, *(const float4 *)(from + (size_t)block * a.taps * elements));
        }
    for (int half = lanes / 2; half > 0; half /= 2) {
        space[threadIdx.x] = sum;
        __syncthreads();
        if (lane < half)
            sum = add4(sum, space[threadIdx.x + half * columns]);
        __syncthreads();
    }
    int o = element / a.ci_padded, i = element % a.ci_padded;
    if (lane > 0 || o >= a.co)
        return;
    const float four[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int pair = a.transposed ? (i + e) * a.co + o : o * a.ci + i + e;
        if (i + e < a.ci)
            a.dweight[blockIdx.z][(size_t)pair * a.k * a.k + blockIdx.y] = four[e];
    }
}

/* The same where taps share positions of the kernel: everything is read once. Block: 32 neighbouring elements at all
 * taps, thread: four of them at every 16th tap, in every second block of the sums. */
enum { JOIN_COLUMNS = 8, JOIN_LANES = 2, JOIN_TAPS = REDUCE_THREADS / (JOIN_COLUMNS * JOIN_LANES), JOIN_MOST = 64 };

__global__ static void __launch_bounds__(REDUCE_THREADS) join_kernel(const __grid_constant__ reduce_arguments a)
{
    __shared__ float4 space[JOIN_LANES][JOIN_MOST][JOIN_COLUMNS];
    int column = threadIdx.x % JOIN_COLUMNS, lane = threadIdx.x / JOIN_COLUMNS % JOIN_LANES;
    int first = blockIdx.x * JOIN_COLUMNS * 4, elements = a.co_padded * a.ci_padded, positions = a.k * a.k;
    wait_for_kernel_before();
    start_kernel_after();
    for (int tap = threadIdx.x / (JOIN_COLUMNS * JOIN_LANES); tap < a.taps; tap += JOIN_TAPS) {
        float4 sum = make_float4(0, 0, 0, 0);
        if (first + column * 4 < elements) {
            const float *from = a.sums + (size_t)tap * elements + first + column * 4;
#pragma unroll 8
            for (int block = lane; block < a.blocks; block += JOIN_LANES)
                sum = add4(sum, *(const float4 *)(from + (size_t)block * a.taps * elements));
        }
        space[lane][tap][column] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < JOIN_COLUMNS * 4 * positions; i += REDUCE_THREADS) {
        int element = i / positions, position = i % positions, at = first + element;
        int o = at / a.ci_padded, c = at % a.ci_padded;
        float sum = 0;
        for (int term = 0; term < a.terms; term++)
            for (int l = 0; l < JOIN_LANES; l++)
                sum += ((const float *)space[l][a.term[position][term]])[element];
        if (o < a.co && c < a.ci)
            a.dweight[0][(size_t)(a.transposed ? c * a.co + o : o * a.ci + c) * positions + position] = sum;
    }
}

bool rc_cuda_list_terms(const axis_taps *taps, reduce_arguments *reduce)
{
    int phases = taps->out_step, count[RC_KERNEL_MAX * RC_KERNEL_MAX] = {0};
    for (int phase = 0; phase < phases * phases; phase++) {
        int y = phases == 1 ? 0 : phase / 2, x = phases == 1 ? 0 : phase % 2;
        for (int i = 0; i < taps->count[y] * taps->count[x]; i++, reduce->taps++)
            for (int k = 0; k < reduce->k * reduce->k; k++)
                if (taps->kernel[y][i / taps->count[x]] >> (k / reduce->k) &
                    taps->kernel[x][i % taps->count[x]] >> (k % reduce->k) & 1) {
                    if (count[k] == RC_REDUCE_TERMS)
                        return false;
                    reduce->term[k][count[k]++] = (signed char)reduce->taps;
                }
    }
    reduce->terms = count[0]; /* one for each phase that the kernel position meets: the same everywhere */
    for (int k = 0; k < reduce->k * reduce->k; k++)
        if (count[k] != reduce->terms)
            return false;
    return true;
}

void rc_cuda_reduce_weight(rc_cuda *cuda, const reduce_arguments *arguments)
{
    int vectors = arguments->co_padded * arguments->ci_padded / 4, positions = arguments->k * arguments->k, lanes = 1;
    int layers = 1 + arguments->further;
    while (lanes < REDUCE_LANES && lanes * 4 < arguments->blocks &&
           layers * vectors * positions * lanes < REDUCE_ENOUGH)
        lanes *= 2;
    if (arguments->terms > 1 && arguments->taps <= JOIN_MOST) {
        dim3 runs((unsigned)((vectors + JOIN_COLUMNS - 1) / JOIN_COLUMNS));
        rc_cuda_launch_early(cuda, "conv_backward_weight", join_kernel, runs, REDUCE_THREADS, 0, *arguments);
        return;
    }
    int columns = REDUCE_THREADS / lanes;
    dim3 grid((unsigned)((vectors + columns - 1) / columns), (unsigned)positions, (unsigned)layers);
    rc_cuda_launch_early(cuda, "conv_backward_weight", reduce_kernel, grid, REDUCE_THREADS, 0, *arguments, lanes);
}
