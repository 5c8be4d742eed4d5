/* Device memory: allocations with accounting, the workspace of each lane, copies and conversions between host and
 * device. Copies are enqueued on lane 0, where they wait for what is there; the caller's buffer is free when a write
 * returns and filled when a read returns.
 *
 * Memory comes from the pool of the device, in the order of a stream of its own: to take some or to give some back
 * waits neither for what other backends have enqueued nor, as cudaFree would, for the whole device. */
#include <cuda_bf16.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/convolution/pack.h"

/* ---- allocations ------------------------------------------------------------------------------------------------ */

struct rc_cuda_block {
    struct rc_cuda_block *next;
    void *memory;
    size_t bytes;
};

static double mib(size_t bytes)
{
    return (double)bytes / (1024 * 1024);
}

static rc_status out_of_memory(const rc_cuda *cuda, size_t bytes)
{
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    if (cuda->limit_bytes && bytes > cuda->limit_bytes - cuda->bytes)
        cuda->host.set_message("cuda: no %.1f MiB left of the %.1f MiB that the setting 'device_memory' allows: %.1f "
                               "MiB are held; allow more, or use a smaller batch",
                               mib(bytes), mib(cuda->limit_bytes), mib(cuda->bytes));
    else
        cuda->host.set_message("cuda: no %.1f MiB left on %s: %.1f MiB are held, %.1f of %.1f MiB are free; use a "
                               "smaller batch, or end other programs on the GPU (nvidia-smi lists them)",
                               mib(bytes), cuda->device_name, mib(cuda->bytes), mib(available), mib(total));
    return RC_OUT_OF_MEMORY;
}

/* From here on the memory may be used on any stream. */
static cudaError_t take_from_pool(rc_cuda *cuda, size_t bytes, void **memory)
{
    cudaError_t error = cudaMallocAsync(memory, bytes, cuda->supply);
    if (error == cudaErrorMemoryAllocation) { /* what lies in the pool in pieces may do as a whole */
        cudaGetLastError();                   /* running out of memory does not spoil what follows */
        cudaStreamSynchronize(cuda->supply);
        cudaMemPoolTrimTo(cuda->pool, 0);
        error = cudaMallocAsync(memory, bytes, cuda->supply);
    }
    if (error == cudaErrorMemoryAllocation)
        cudaGetLastError();
    return error == cudaSuccess ? cudaStreamSynchronize(cuda->supply) : error;
}

/* Once all lanes are done with it. */
static cudaError_t return_to_pool(rc_cuda *cuda, void *memory)
{
    cudaError_t error = cudaSuccess;
    for (int lane = 0; lane < RC_CUDA_LANES && error == cudaSuccess && !cuda->capturing; lane++) {
        error = cudaEventRecord(cuda->passed[lane], cuda->stream[lane]);
        if (error == cudaSuccess)
            error = cudaStreamWaitEvent(cuda->supply, cuda->passed[lane], 0);
    }
    return error == cudaSuccess ? cudaFreeAsync(memory, cuda->supply) : error;
}

rc_status rc_cuda_take_free(rc_cuda *cuda, size_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes == 0)
        bytes = 1;
    if (cuda->limit_bytes && (bytes > cuda->limit_bytes || cuda->bytes > cuda->limit_bytes - bytes))
        return out_of_memory(cuda, bytes);
    struct rc_cuda_block *block = (struct rc_cuda_block *)malloc(sizeof *block);
    if (!block) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *block);
        return RC_OUT_OF_MEMORY;
    }
    cudaError_t error = take_from_pool(cuda, bytes, memory);
    if (error != cudaSuccess) {
        free(block);
        *memory = NULL;
        return error == cudaErrorMemoryAllocation ? out_of_memory(cuda, bytes)
                                                  : rc_cuda_fail(cuda, error, "allocating device memory");
    }
    block->memory = *memory;
    block->bytes = bytes;
    block->next = cuda->blocks;
    cuda->blocks = block;
    cuda->bytes += bytes;
    return RC_OK;
}

rc_status rc_cuda_take(rc_cuda *cuda, size_t bytes, void **memory)
{
    rc_status status = rc_cuda_take_free(cuda, bytes, memory);
    while (status == RC_OUT_OF_MEMORY && rc_cuda_move_images(cuda))
        status = rc_cuda_take_free(cuda, bytes, memory);
    return status;
}

void rc_cuda_give_back(rc_cuda *cuda, void *memory)
{
    for (struct rc_cuda_block **at = &cuda->blocks; *at; at = &(*at)->next) {
        struct rc_cuda_block *block = *at;
        if (block->memory != memory)
            continue;
        *at = block->next;
        cuda->bytes -= block->bytes;
        rc_cuda_check(cuda, return_to_pool(cuda, memory), "releasing device memory");
        free(block);
        return;
    }
}

static rc_status memory_alloc(rc_backend *be, size_t bytes, void **memory)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_drop_graphs(cuda);
    rc_status status = rc_cuda_take(cuda, bytes, memory);
    if (status != RC_OK)
        return status;
    rc_cuda_check(cuda, cudaMemsetAsync(*memory, 0, bytes, cuda->stream[0]), "clearing memory");
    return RC_OK;
}

static void memory_release(rc_backend *be, void *memory)
{
    rc_cuda *cuda = rc_cuda_of(be);
    if (!memory)
        return;
    rc_cuda_drop_graphs(cuda);
    struct rc_cuda_images *images = rc_cuda_find_images(cuda, memory);
    if (images) {
        rc_cuda_release_images(cuda, images);
        return;
    }
    for (const struct rc_cuda_block *block = cuda->blocks; block; block = block->next)
        if (block->memory == memory) {
            rc_cuda_forget_packed(cuda, memory, block->bytes);
            break;
        }
    rc_cuda_give_back(cuda, memory);
}

void rc_cuda_release_all(rc_cuda *cuda)
{
    while (cuda->images)
        rc_cuda_release_images(cuda, cuda->images);
    while (cuda->blocks)
        rc_cuda_give_back(cuda, cuda->blocks->memory);
}

/* ---- workspace -------------------------------------------------------------------------------------------------- */

/* Replaces the workspaces whose size is to change; on failure those are gone. */
static rc_status exchange_workspaces(rc_cuda *cuda, const size_t bytes[RC_CUDA_LANES])
{
    bool changes[RC_CUDA_LANES];
    for (int lane = 0; lane < RC_CUDA_LANES; lane++) {
        changes[lane] = bytes[lane] != cuda->workspace_bytes[lane];
        if (!changes[lane])
            continue;
        rc_cuda_give_back(cuda, cuda->workspace[lane]);
        cuda->workspace[lane] = NULL;
        cuda->workspace_bytes[lane] = 0;
    }
    for (int lane = 0; lane < RC_CUDA_LANES; lane++) {
        if (!changes[lane] || bytes[lane] == 0)
            continue;
        rc_status status = rc_cuda_take(cuda, bytes[lane], &cuda->workspace[lane]);
        if (status != RC_OK)
            return status;
        cuda->workspace_bytes[lane] = bytes[lane];
    }
    return RC_OK;
}

rc_status rc_cuda_reserve_beside(rc_cuda *cuda, size_t bytes, size_t side_bytes)
{
    size_t before[RC_CUDA_LANES], wanted[RC_CUDA_LANES];
    bool grows = false;
    for (int lane = 0; lane < RC_CUDA_LANES; lane++) {
        size_t least = lane == RC_CUDA_SUM_LANE ? 0 : lane == RC_SIDE_LANE ? side_bytes : bytes;
        before[lane] = cuda->workspace_bytes[lane];
        wanted[lane] = least > before[lane] ? least : before[lane];
        grows = grows || least > before[lane];
    }
    if (!grows)
        return RC_OK;
    rc_cuda_drop_graphs(cuda);
    rc_status status = exchange_workspaces(cuda, wanted);
    if (status != RC_OK) /* earlier reservations stay valid; the message stays that of the failure */
        exchange_workspaces(cuda, before);
    return status;
}

rc_status rc_cuda_reserve(rc_cuda *cuda, size_t bytes)
{
    return rc_cuda_reserve_beside(cuda, bytes, bytes);
}

void *rc_cuda_workspace(rc_cuda *cuda, size_t bytes, const char *operation)
{
    size_t reserved = cuda->workspace_bytes[cuda->lane];
    if (bytes <= reserved)
        return cuda->workspace[cuda->lane];
    if (cuda->status == RC_OK) {
        cuda->status = RC_INTERNAL;
        snprintf(cuda->message, sizeof cuda->message, "cuda: %s needs %zu bytes of workspace, %zu were reserved",
                 operation, bytes, reserved);
    }
    return NULL;
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

static void write_bytes(rc_backend *be, void *to, const void *from, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_weights_written(cuda, to, bytes);
    rc_cuda_enqueue_deferred(cuda);
    if (bytes && cuda->status == RC_OK)
        rc_cuda_check(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cuda->stream[0]),
                      "writing device memory");
}

static void read_bytes(rc_backend *be, void *to, const void *from, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    /* The copy itself would wait, too, but with a core at full speed. */
    if (!bytes || cuda->status != RC_OK || !rc_cuda_wait(cuda, "reading device memory"))
        return;
    if (rc_cuda_check(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, cuda->stream[0]),
                      "reading device memory"))
        rc_cuda_check(cuda, cudaStreamSynchronize(cuda->stream[0]), "reading device memory");
}

static void write_real(rc_backend *be, void *to, const float *from, size_t count)
{
    write_bytes(be, to, from, count * sizeof *from);
}

static void read_real(rc_backend *be, float *to, const void *from, size_t count)
{
    read_bytes(be, to, from, count * sizeof *to);
}

/* Host memory for a conversion; NULL and a sticky error if there is none. */
static void *scratch(rc_cuda *cuda, size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    if (!block && cuda->status == RC_OK) {
        cuda->status = RC_OUT_OF_MEMORY;
        snprintf(cuda->message, sizeof cuda->message, "out of memory for %zu bytes", bytes);
    }
    return block;
}

static void write_real64(rc_backend *be, void *to, const double *from, size_t count)
{
    float *narrow = (float *)scratch(rc_cuda_of(be), count * sizeof *narrow);
    if (!narrow)
        return;
    for (size_t i = 0; i < count; i++)
        narrow[i] = (float)from[i];
    write_real(be, to, narrow, count);
    free(narrow);
}

static void read_real64(rc_backend *be, double *to, const void *from, size_t count)
{
    float *narrow = (float *)scratch(rc_cuda_of(be), count * sizeof *narrow);
    if (!narrow)
        return;
    for (size_t i = 0; i < count; i++)
        narrow[i] = 0;
    read_real(be, narrow, from, count);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)narrow[i];
    free(narrow);
}

static void put(float *to, double x)
{
    *to = (float)x;
}

static void put(__nv_bfloat16 *to, double x)
{
    *to = __float2bfloat16_rn((float)x);
}

static double get(float x)
{
    return (double)x;
}

static double get(__nv_bfloat16 x)
{
    return (double)__bfloat162float(x);
}

/* (n, h, w, c) -> to->raw (n, h, w, cp), pad channels zero. */
template <typename Act> static void write_act(rc_backend *be, rc_tensor *to, const double *from)
{
    size_t c = (size_t)to->c, cp = (size_t)rc_cuda_padded(to->c);
    size_t pixels = (size_t)to->n * (size_t)to->h * (size_t)to->w;
    Act *padded = (Act *)scratch(rc_cuda_of(be), pixels * cp * sizeof *padded);
    if (!padded)
        return;
    for (size_t p = 0; p < pixels; p++)
        for (size_t i = 0; i < cp; i++)
            put(&padded[p * cp + i], i < c ? from[p * c + i] : 0);
    write_bytes(be, to->raw, padded, pixels * cp * sizeof *padded);
    free(padded);
}

/* (n, h, w, cp) -> (n, h, w, c). */
template <typename Act> static void read_act(rc_backend *be, double *to, const rc_tensor *shape, const void *from)
{
    size_t c = (size_t)shape->c, cp = (size_t)rc_cuda_padded(shape->c);
    size_t pixels = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w;
    Act *padded = (Act *)scratch(rc_cuda_of(be), pixels * cp * sizeof *padded);
    if (!padded)
        return;
    for (size_t i = 0; i < pixels * cp; i++)
        put(&padded[i], 0);
    read_bytes(be, padded, from, pixels * cp * sizeof *padded);
    for (size_t p = 0; p < pixels; p++)
        for (size_t i = 0; i < c; i++)
            to[p * c + i] = get(padded[p * cp + i]);
    free(padded);
}

/* ---- inside a step ---------------------------------------------------------------------------------------------- */

static void memory_zero(rc_backend *be, void *memory, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_weights_written(cuda, memory, bytes);
    if (bytes && cuda->status == RC_OK)
        rc_cuda_check(cuda, cudaMemsetAsync(memory, 0, bytes, rc_cuda_stream(cuda)), "zero");
}

static void memory_copy(rc_backend *be, void *to, const void *from, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_cuda_weights_written(cuda, to, bytes);
    if (bytes && cuda->status == RC_OK)
        rc_cuda_check(cuda, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, rc_cuda_stream(cuda)), "copy");
}

static size_t partial_bytes(rc_backend *be, int n, int h, int w, int c)
{
    size_t sum = rc_cuda_of(be)->bf16 ? sizeof(float) : sizeof(double);
    size_t row = RC_MAX_GROUPS * 2 * (size_t)rc_cuda_padded(c) * sum;
    return 64 + (size_t)rc_cuda_partial_rows(n * h * w) * row;
}

void rc_cuda_fill_memory(rc_cuda *cuda)
{
    rc_backend *table = &cuda->table;
    table->alloc = memory_alloc;
    table->release = memory_release;
    table->write_bytes = write_bytes;
    table->read_bytes = read_bytes;
    table->write_real = write_real;
    table->read_real = read_real;
    table->write_real64 = write_real64;
    table->read_real64 = read_real64;
    table->write_act = cuda->bf16 ? write_act<__nv_bfloat16> : write_act<float>;
    table->read_act = cuda->bf16 ? read_act<__nv_bfloat16> : read_act<float>;
    table->zero = memory_zero;
    table->copy = memory_copy;
    table->partial_bytes = partial_bytes;
}
