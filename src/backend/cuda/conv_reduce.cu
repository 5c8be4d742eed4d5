#include "backend/cuda/conv_reduce.h"

#include "backend/cuda/device.cuh"

enum { REDUCE_LANES = 8, REDUCE_COLUMNS = 32 };

/* Grid: (c_out x c_in elements, positions of the kernel). Eight threads share an element: thread l adds blocks l,
 * l + 8, .., and the first adds them all. */
__global__ static void reduce_kernel(const __grid_constant__ reduce_arguments a)
{
    __shared__ float space[REDUCE_LANES][REDUCE_COLUMNS];
    int column = threadIdx.x % REDUCE_COLUMNS, lane = threadIdx.x / REDUCE_COLUMNS;
    int element = blockIdx.x * REDUCE_COLUMNS + column, elements = a.co_padded * a.ci_padded;
    float sum = 0;
    wait_for_kernel_before();
    start_kernel_after();
    if (element < elements)
        for (int i = 0; i < a.terms; i++) {
            const float *from = a.sums + (size_t)a.term[blockIdx.y][i] * elements + element;
#pragma unroll 8
            for (int block = lane; block < a.blocks; block += REDUCE_LANES)
                sum += from[(size_t)block * a.taps * elements];
        }
    space[lane][column] = sum;
    __syncthreads();
    int o = element / a.ci_padded, i = element % a.ci_padded;
    if (lane > 0 || o >= a.co || i >= a.ci)
        return;
    for (int l = 1; l < REDUCE_LANES; l++)
        sum += space[l][column];
    int pair = a.transposed ? i * a.co + o : o * a.ci + i;
    a.dweight[(size_t)pair * a.k * a.k + blockIdx.y] = sum;
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
    int elements = arguments->co_padded * arguments->ci_padded;
    dim3 grid((unsigned)((elements + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS), (unsigned)(arguments->k * arguments->k));
    rc_cuda_launch_early(cuda, "conv_backward_weight", reduce_kernel, grid, REDUCE_COLUMNS * REDUCE_LANES, 0,
                         *arguments);
}
