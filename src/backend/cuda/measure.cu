/* What the device can do at best: the mark that the bench measures kernels by. Multiply-adds from registers, by the
 * instruction that the kernels use (mma.sync on the tensor cores in bf16, which a newer card's own instructions for
 * large products surpass; FMA in fp32), and copying memory that is larger than the caches. */
#include <math.h>

#include "backend/cuda/product/mma.cuh"

enum { PEAK_THREADS = 256, PEAK_BLOCKS = 4 /* of a multiprocessor */, PEAK_SUMS = 8, PEAK_ROUNDS = 4096 };

__global__ static void mma_kernel(float *out)
{
    float sum[PEAK_SUMS][4] = {};
    unsigned a[4] = {threadIdx.x, threadIdx.x + 1, threadIdx.x + 2, threadIdx.x + 3}, b[2] = {blockIdx.x, threadIdx.x};
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma unroll
        for (int i = 0; i < PEAK_SUMS; i++)
            multiply_add(sum[i], a, b);
    float all = 0;
    for (int i = 0; i < PEAK_SUMS; i++)
        all += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
    if (all == 1.5f) /* hardly: but the compiler does not know */
        *out = all;
}

__global__ static void fma_kernel(float *out)
{
    float sum[PEAK_SUMS], a = (float)threadIdx.x * 1e-3f, b = (float)blockIdx.x * 1e-3f;
    for (int i = 0; i < PEAK_SUMS; i++)
        sum[i] = (float)i;
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma unroll
        for (int i = 0; i < PEAK_SUMS; i++)
            sum[i] = fmaf(sum[i], a, b);
    float all = 0;
    for (int i = 0; i < PEAK_SUMS; i++)
        all += sum[i];
    if (all == 1.5f)
        *out = all;
}

/* Something to time: one enqueued piece of it, and its FLOPs or bytes. */
struct load {
    float *out;
    void *memory; /* (2, half) bytes; NULL: arithmetic */
    size_t half;
    double work;
};

static void enqueue(rc_cuda *cuda, const load &l)
{
    dim3 grid((unsigned)(cuda->multiprocessors * PEAK_BLOCKS));
    if (l.memory)
        rc_cuda_check(cuda,
                      cudaMemcpyAsync((char *)l.memory + l.half, l.memory, l.half, cudaMemcpyDeviceToDevice,
                                      rc_cuda_stream(cuda)),
                      "measuring");
    else
        rc_cuda_launch(cuda, "measuring", cuda->bf16 ? mma_kernel : fma_kernel, grid, PEAK_THREADS, 0, l.out);
}

/* Seconds that `times` pieces take. */
static double time_load(rc_cuda *cuda, const load &l, int times)
{
    cudaEvent_t begin = NULL, end = NULL;
    float milliseconds = 0;
    if (rc_cuda_check(cuda, cudaEventCreate(&begin), "measuring") &&
        rc_cuda_check(cuda, cudaEventCreate(&end), "measuring")) {
        rc_cuda_check(cuda, cudaEventRecord(begin, cuda->stream[0]), "measuring");
        for (int i = 0; i < times; i++)
            enqueue(cuda, l);
        rc_cuda_check(cuda, cudaEventRecord(end, cuda->stream[0]), "measuring");
        if (rc_cuda_wait(cuda, "measuring"))
            rc_cuda_check(cuda, cudaEventElapsedTime(&milliseconds, begin, end), "measuring");
    }
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    return (double)milliseconds * 1e-3;
}

/* Two halves, as large as there is room for. */
static bool take_halves(rc_cuda *cuda, load *l)
{
    enum { LEAST = 1 << 20 };
    l->half = (size_t)256 << 20;
    while (rc_cuda_take_free(cuda, 2 * l->half, &l->memory) != RC_OK) {
        l->half /= 2;
        if (l->half < LEAST)
            return false;
    }
    l->work = 2 * (double)l->half;
    return true;
}

/* GFLOP/s of multiply-adds from registers, or GB/s of copying. */
static double measure_load(rc_cuda *cuda, double seconds, bool arithmetic)
{
    load l = {(float *)rc_cuda_workspace(cuda, sizeof(float), "measuring"), NULL, 0, 0};
    double in_a_round = cuda->bf16 ? 2.0 * 16 * 8 * 16 / 32 : 2.0; /* FLOPs of a thread */
    l.work = in_a_round * PEAK_SUMS * PEAK_ROUNDS * PEAK_THREADS * PEAK_BLOCKS * cuda->multiprocessors;
    if (!arithmetic && !take_halves(cuda, &l))
        return 0;
    time_load(cuda, l, 1); /* warms up */
    double one = time_load(cuda, l, 1);
    int times = one > 0 ? (int)fmin(fmax(ceil(seconds / one), 1), 1000) : 1;
    double took = time_load(cuda, l, times);
    if (l.memory)
        rc_cuda_give_back(cuda, l.memory);
    return took > 0 ? times * l.work / took * 1e-9 : 0;
}

static double measure_now(rc_backend *be, double seconds)
{
    return measure_load(rc_cuda_of(be), seconds, true);
}

static rc_peak measure(rc_backend *be)
{
    static const double seconds = 0.2; /* each */
    rc_cuda *cuda = rc_cuda_of(be);
    rc_peak peak = {measure_load(cuda, seconds, true), measure_load(cuda, seconds, false), true};
    return peak;
}

void rc_cuda_fill_measure(rc_cuda *cuda)
{
    cuda->table.measure = measure;
    cuda->table.measure_now = measure_now;
}
