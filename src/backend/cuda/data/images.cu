/* Images of a data set: in device memory while there is room for them, else in pinned host memory, which kernels read
 * over the bus.
 *
 * augment() reads each byte of a batch once, in lines of 16 bytes: 128 images of 32 x 32 pixels are 0.4 MB a step, 8 us
 * at 50 GB/s; 64 of 224 x 224 are 9.6 MB, 0.2 ms of a step of 25 ms. So nothing is copied ahead, the captured step
 * stays as it is, and the bits are those of images on the device.
 *
 * A handle is a cell of device memory that holds the address of the images. When memory runs out for something else,
 * they make room; kernels, those in captured steps too, find them through the cell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

struct rc_cuda_images {
    struct rc_cuda_images *next;
    void *cell;   /* (1) address, in device memory */
    void *device; /* one of the two is NULL */
    void *host;
    size_t bytes;
};

/* Nothing that was enqueued reads them any more. While a step is captured, nothing runs: capture() has waited. */
static bool wait_for_lanes(rc_cuda *cuda)
{
    for (int lane = 0; lane < RC_CUDA_LANES && !cuda->capturing; lane++)
        if (!rc_cuda_check(cuda, cudaStreamSynchronize(cuda->stream[lane]), "waiting for the readers of images"))
            return false;
    return true;
}

static void tell(const rc_cuda *cuda, size_t bytes)
{
    const rc_log *log = &cuda->host.log;
    char line[RC_LOG_LINE_SIZE];
    if (!log->write || log->level > RC_LOG_WARN)
        return;
    snprintf(line, sizeof line, "backend cuda: %.1f MiB of images stay in host memory, where the GPU reads them",
             (double)bytes / (1024 * 1024));
    log->write(log->user, RC_LOG_WARN, line);
}

static cudaError_t set_cell(rc_cuda *cuda, const struct rc_cuda_images *images, const void *address)
{
    cudaError_t error = cudaMemcpyAsync(images->cell, &address, sizeof address, cudaMemcpyHostToDevice, cuda->supply);
    return error == cudaSuccess ? cudaStreamSynchronize(cuda->supply) : error;
}

/* Pinned memory, and the cell set to it. */
static cudaError_t take_host(rc_cuda *cuda, struct rc_cuda_images *images, void **host)
{
    void *address;
    cudaError_t error = cudaHostAlloc(host, images->bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    if (error != cudaSuccess) {
        cudaGetLastError();
        *host = NULL;
        return error;
    }
    error = cudaHostGetDevicePointer(&address, *host, 0);
    return error == cudaSuccess ? set_cell(cuda, images, address) : error;
}

/* ---- from the device to the host --------------------------------------------------------------------------------- */

static bool move(rc_cuda *cuda, struct rc_cuda_images *images)
{
    if (cuda->status != RC_OK || !wait_for_lanes(cuda) || take_host(cuda, images, &images->host) != cudaSuccess)
        return false;
    cudaError_t error = cudaMemcpyAsync(images->host, images->device, images->bytes, cudaMemcpyDeviceToHost,
                                        cuda->supply);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda->supply);
    if (!rc_cuda_check(cuda, error, "moving images to host memory"))
        return false;
    rc_cuda_give_back(cuda, images->device);
    images->device = NULL;
    tell(cuda, images->bytes);
    return true;
}

bool rc_cuda_move_images(rc_cuda *cuda)
{
    for (struct rc_cuda_images *images = cuda->images; images; images = images->next)
        if (images->device && move(cuda, images))
            return true;
    return false;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct rc_cuda_images *rc_cuda_find_images(const rc_cuda *cuda, const void *handle)
{
    struct rc_cuda_images *images = cuda->images;
    while (images && images->cell != handle)
        images = images->next;
    return images;
}

static void write_images(rc_backend *be, void *handle, size_t offset, const uint8_t *from, size_t bytes)
{
    rc_cuda *cuda = rc_cuda_of(be);
    const struct rc_cuda_images *images = rc_cuda_find_images(cuda, handle);
    if (images->device)
        be->write_bytes(be, (char *)images->device + offset, from, bytes);
    else if (cuda->status == RC_OK && wait_for_lanes(cuda))
        memcpy((char *)images->host + offset, from, bytes);
}

static void read_images(rc_backend *be, uint8_t *to, const void *handle, size_t offset, size_t bytes)
{
    const struct rc_cuda_images *images = rc_cuda_find_images(rc_cuda_of(be), handle);
    if (images->device)
        be->read_bytes(be, to, (const char *)images->device + offset, bytes);
    else
        memcpy(to, (const char *)images->host + offset, bytes);
}

void rc_cuda_release_images(rc_cuda *cuda, struct rc_cuda_images *images)
{
    struct rc_cuda_images **at = &cuda->images;
    while (*at != images)
        at = &(*at)->next;
    *at = images->next;
    if (images->device)
        rc_cuda_give_back(cuda, images->device);
    if (images->host) {
        wait_for_lanes(cuda);
        rc_cuda_check(cuda, cudaFreeHost(images->host), "releasing images");
    }
    if (images->cell)
        rc_cuda_give_back(cuda, images->cell);
    free(images);
}

/* Finds a place for them. */
static rc_status place(rc_cuda *cuda, struct rc_cuda_images *images)
{
    rc_status status = rc_cuda_take(cuda, sizeof(void *), &images->cell);
    if (status == RC_OK)
        status = rc_cuda_take_free(cuda, images->bytes, &images->device);
    if (status == RC_OK) {
        cudaError_t error = set_cell(cuda, images, images->device);
        return error == cudaSuccess ? RC_OK : rc_cuda_fail(cuda, error, "placing images");
    }
    if (status != RC_OUT_OF_MEMORY || !images->cell)
        return status;
    cudaError_t error = take_host(cuda, images, &images->host);
    if (error == cudaErrorMemoryAllocation) {
        cuda->host.set_message("cuda: the images fit neither on %s nor into host memory: %.1f MiB", cuda->device_name,
                               (double)images->bytes / (1024 * 1024));
        return RC_OUT_OF_MEMORY;
    }
    if (error != cudaSuccess)
        return rc_cuda_fail(cuda, error, "placing images in host memory");
    tell(cuda, images->bytes);
    return RC_OK;
}

static rc_status alloc_images(rc_backend *be, size_t bytes, void **handle)
{
    rc_cuda *cuda = rc_cuda_of(be);
    *handle = NULL;
    rc_cuda_drop_graphs(cuda);
    struct rc_cuda_images *images = (struct rc_cuda_images *)calloc(1, sizeof *images);
    if (!images) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *images);
        return RC_OUT_OF_MEMORY;
    }
    images->bytes = bytes ? bytes : 1;
    images->next = cuda->images;
    cuda->images = images;
    rc_status status = place(cuda, images);
    if (status == RC_OK)
        *handle = images->cell;
    else
        rc_cuda_release_images(cuda, images);
    return status;
}

/* The device has memory of its own: runs of neighbours are copied, straight from where they are. */
static rc_status lend_images(rc_backend *be, const rc_lent_images *lent, size_t more, void **handle)
{
    *handle = NULL;
    if (lent->supply) {
        rc_cuda_of(be)->host.set_message(
            "cuda: images that are decoded when they are read (the setting 'decode') are for "
            "backend cpu; a pack serves a GPU");
        return RC_UNSUPPORTED;
    }
    rc_status status = alloc_images(be, (size_t)lent->count * lent->bytes + more, handle);
    for (int i = 0, run; i < lent->count && status == RC_OK; i += run) {
        int first = lent->index ? lent->index[i] : i;
        for (run = 0; i + run < lent->count && status == RC_OK; run++) {
            if ((lent->index ? lent->index[i + run] : i + run) != first + run)
                break;
            if (lent->check)
                status = lent->check(lent->owner, first + run);
        }
        if (status == RC_OK)
            be->write_images(be, *handle, (size_t)i * lent->bytes, lent->from + (size_t)first * lent->bytes,
                             (size_t)run * lent->bytes);
    }
    if (status != RC_OK && *handle) {
        be->release(be, *handle);
        *handle = NULL;
    }
    return status;
}

/* They were copied when they were lent. */
static rc_status expect_images(rc_backend *, void *, const int32_t *, size_t, const rc_image_view *)
{
    return RC_OK;
}

void rc_cuda_fill_images(rc_cuda *cuda)
{
    cuda->table.lend_images = lend_images;
    cuda->table.expect_images = expect_images;
    cuda->table.alloc_images = alloc_images;
    cuda->table.write_images = write_images;
    cuda->table.read_images = read_images;
}
