/*
 * A timeline of the kernels that a program ran on a GPU, as CSV: when each began and ended, on which stream, how large it was. Unlike
 * ncu, which runs kernels one by one, it shows what overlaps and what waits. The CUDA driver loads it into the program:
 *
 *     gcc -std=c11 -O2 -shared -fPIC -I/usr/local/cuda/include -o timeline.so bench/timeline.c -L/usr/local/cuda/lib64 -lcupti
 *     CUDA_INJECTION64_PATH=$PWD/timeline.so TIMELINE=steps.csv recollect bench --backend cuda --quick --step train_next
 *
 * bench/timeline.py makes a table of one step of it.
 */
#include <cupti.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER = 8 << 20 };

static FILE *out;

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *records)
{
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer ? BUFFER : 0;
    *records = 0;
}

static void write_kernel(const CUpti_ActivityKernel9 *k)
{
    fprintf(out, "%llu,%llu,%u,%d,%d,%d,%d,\"%s\"\n", (unsigned long long)k->start, (unsigned long long)k->end, k->streamId,
            k->gridX * k->gridY * k->gridZ, k->blockX * k->blockY * k->blockZ, k->registersPerThread,
            k->staticSharedMemory + k->dynamicSharedMemory, k->name);
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context, (void)stream, (void)size;
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            write_kernel((const CUpti_ActivityKernel9 *)record);
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(1);
    fclose(out);
}

/* The driver calls this function of CUDA_INJECTION64_PATH before the program's first call of CUDA. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    const char *path = getenv("TIMELINE");
    out = fopen(path ? path : "timeline.csv", "w");
    if (!out)
        return 0;
    fputs("start,end,stream,blocks,threads,registers,shared,name\n", out);
    atexit(finish);
    return cuptiActivityRegisterCallbacks(give, take) == CUPTI_SUCCESS &&
           cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS;
}
