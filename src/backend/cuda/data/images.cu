/* Images of a data set: in device memory while there is room for them, else in pinned host memory, which kernels read
 * over the bus. Those that a supply can make again are not kept on the host: they come batch by batch (feed.cu).
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
    void *device; /* one of the two is NULL, or both are where images come batch by batch */
    void *host;
    size_t bytes;
    struct rc_cuda_supplied *supplied; /* NULL: not so; lent has their facts */
    rc_lent_images lent;
    void *more; /* the handle of those that follow them */
};

struct rc_cuda_supplied *rc_cuda_supplied_of(const struct rc_cuda_images *images)
{
    return images->supplied;
}

/* Nothing that was enqueued reads them any more. While a step is captured, nothing runs: capture() has waited. */
static bool wait_for_lanes(rc_cuda *cuda)
{
    for (int lane = 0; lane < RC_CUDA_LANES && !cuda->capturing; lane++)
        if (!rc_cuda_check(cuda, cudaStreamSynchronize(cuda->stream[lane]), "waiting for the readers of images"))
            return false;
    return true;
}

static void tell(const rc_cuda *cuda, const struct rc_cuda_images *images)
{
    const rc_log *log = &cuda->host.log;
    char line[RC_LOG_LINE_SIZE];
    if (!log->write || log->level > RC_LOG_WARN)
        return;
    snprintf(line, sizeof line, "backend cuda: %.1f MiB of images stay in %s", (double)images->bytes / (1024 * 1024),
             images->supplied ? "their file, from which batches are copied while the GPU trains"
                              : "host memory, where the GPU reads them");
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

/* They need no other place: from now on their batches come from where they lie. */
static bool let_go(rc_cuda *cuda, struct rc_cuda_images *images)
{
    if (cuda->status != RC_OK || !wait_for_lanes(cuda))
        return false;
    rc_cuda_show_supplied(cuda, images->supplied, NULL);
    rc_cuda_give_back(cuda, images->device);
    images->device = NULL;
    tell(cuda, images);
    return cuda->status == RC_OK;
}

static bool move(rc_cuda *cuda, struct rc_cuda_images *images)
{
    if (images->supplied)
        return let_go(cuda, images);
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
    tell(cuda, images);
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
    if (images->supplied) /* only what follows the lent ones can be written */
        write_images(be, images->more, offset - images->bytes, from, bytes);
    else if (images->device)
        be->write_bytes(be, (char *)images->device + offset, from, bytes);
    else if (cuda->status == RC_OK && wait_for_lanes(cuda))
        memcpy((char *)images->host + offset, from, bytes);
}

/* A part of an image that is on no device. */
static void read_lent(rc_cuda *cuda, const rc_lent_images *lent, size_t i, size_t inside, uint8_t *to, size_t bytes)
{
    int32_t number = lent->index ? lent->index[i] : (int32_t)i;
    uint8_t *made = lent->from ? NULL : (uint8_t *)malloc(lent->bytes);
    rc_status status = RC_OK;
    if (lent->from)
        status = lent->check ? lent->check(lent->owner, number) : RC_OK;
    else if (made)
        status = lent->supply->read(lent->owner, number, made);
    else
        cuda->host.set_message("out of memory for %zu bytes", lent->bytes);
    if (!lent->from && !made)
        status = RC_OUT_OF_MEMORY;
    if (status == RC_OK)
        memcpy(to, (made ? made : lent->from + (size_t)number * lent->bytes) + inside, bytes);
    else if (cuda->status == RC_OK) {
        cuda->status = status;
        snprintf(cuda->message, sizeof cuda->message, "%s", cuda->host.message());
    }
    free(made);
}

static void read_images(rc_backend *be, uint8_t *to, const void *handle, size_t offset, size_t bytes)
{
    const struct rc_cuda_images *images = rc_cuda_find_images(rc_cuda_of(be), handle);
    size_t image = images->supplied ? images->lent.bytes : 0;
    for (size_t now; images->supplied && bytes > 0 && offset < images->bytes; bytes -= now, offset += now, to += now) {
        now = image - offset % image < bytes ? image - offset % image : bytes;
        if (images->device)
            be->read_bytes(be, to, (const char *)images->device + offset, now);
        else
            read_lent(rc_cuda_of(be), &images->lent, offset / image, offset % image, to, now);
    }
    if (bytes == 0)
        return;
    if (images->supplied)
        read_images(be, to, images->more, offset - images->bytes, bytes);
    else if (images->device)
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
    rc_cuda_close_supplied(cuda, images->supplied);
    struct rc_cuda_images *more = images->more ? rc_cuda_find_images(cuda, images->more) : NULL;
    if (more) /* else it went before, with everything */
        rc_cuda_release_images(cuda, more);
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

/* Device memory for all of them, if there is room. */
static rc_status place_on_device(rc_cuda *cuda, struct rc_cuda_images *images)
{
    rc_status status = rc_cuda_take_free(cuda, images->bytes, &images->device);
    if (status != RC_OK)
        return status;
    if (images->supplied)
        rc_cuda_show_supplied(cuda, images->supplied, images->device);
    cudaError_t error = set_cell(cuda, images, images->device);
    return error == cudaSuccess ? RC_OK : rc_cuda_fail(cuda, error, "placing images");
}

/* Finds a place for them. */
static rc_status place(rc_cuda *cuda, struct rc_cuda_images *images)
{
    rc_status status = rc_cuda_take(cuda, sizeof(void *), &images->cell);
    if (status == RC_OK)
        status = place_on_device(cuda, images);
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
    tell(cuda, images);
    return RC_OK;
}

/* The same for those that a supply makes, which need none. */
static rc_status place_supplied(rc_cuda *cuda, struct rc_cuda_images *images, const rc_lent_images *lent, size_t more)
{
    images->lent = *lent;
    rc_status status = rc_cuda_take(cuda, sizeof(void *), &images->cell);
    if (status == RC_OK && more > 0)
        status = cuda->table.alloc_images(&cuda->table, more, &images->more);
    if (status == RC_OK)
        status = rc_cuda_open_supplied(cuda, lent, images->more, &images->supplied);
    if (status != RC_OK || !lent->from)
        return status;
    status = place_on_device(cuda, images);
    if (status != RC_OUT_OF_MEMORY)
        return status;
    tell(cuda, images);
    return RC_OK;
}

/* supplied: NULL, or what lies before `bytes` more. */
static rc_status make_images(rc_cuda *cuda, size_t bytes, const rc_lent_images *supplied, void **handle)
{
    *handle = NULL;
    rc_cuda_drop_graphs(cuda);
    struct rc_cuda_images *images = (struct rc_cuda_images *)calloc(1, sizeof *images);
    if (!images) {
        cuda->host.set_message("out of memory for %zu bytes", sizeof *images);
        return RC_OUT_OF_MEMORY;
    }
    images->bytes = supplied ? (size_t)supplied->count * supplied->bytes : bytes;
    images->bytes = images->bytes ? images->bytes : 1;
    images->next = cuda->images;
    cuda->images = images;
    rc_status status = supplied ? place_supplied(cuda, images, supplied, bytes) : place(cuda, images);
    if (status == RC_OK)
        *handle = images->cell;
    else
        rc_cuda_release_images(cuda, images);
    return status;
}

static rc_status alloc_images(rc_backend *be, size_t bytes, void **handle)
{
    return make_images(rc_cuda_of(be), bytes, NULL, handle);
}

/* Runs of neighbours are copied, straight from where they are. */
static rc_status copy_lent(rc_backend *be, const rc_lent_images *lent, void *handle)
{
    const struct rc_cuda_images *images = rc_cuda_find_images(rc_cuda_of(be), handle);
    rc_status status = RC_OK;
    for (int i = 0, run; i < lent->count && status == RC_OK; i += run) {
        int first = lent->index ? lent->index[i] : i;
        for (run = 0; i + run < lent->count && status == RC_OK; run++) {
            if ((lent->index ? lent->index[i + run] : i + run) != first + run)
                break;
            if (lent->check)
                status = lent->check(lent->owner, first + run);
        }
        size_t at = (size_t)i * lent->bytes, bytes = (size_t)run * lent->bytes;
        const uint8_t *from = lent->from + (size_t)first * lent->bytes;
        if (status == RC_OK && images->device)
            be->write_bytes(be, (char *)images->device + at, from, bytes);
        else if (status == RC_OK)
            be->write_images(be, handle, at, from, bytes);
    }
    return status;
}

/* The device has memory of its own. */
static rc_status lend_images(rc_backend *be, const rc_lent_images *lent, size_t more, void **handle)
{
    rc_cuda *cuda = rc_cuda_of(be);
    rc_status status = lent->supply ? make_images(cuda, more, lent, handle)
                                    : alloc_images(be, (size_t)lent->count * lent->bytes + more, handle);
    if (status == RC_OK && (!lent->supply || rc_cuda_find_images(cuda, *handle)->device))
        status = copy_lent(be, lent, *handle);
    if (status != RC_OK && *handle) {
        be->release(be, *handle);
        *handle = NULL;
    }
    return status;
}

/* Others were copied when they were lent. */
static rc_status expect_images(rc_backend *be, const void *handle, const int32_t *order, size_t count,
                               const rc_image_view *view)
{
    const struct rc_cuda_images *images = rc_cuda_find_images(rc_cuda_of(be), handle);
    return images && images->supplied ? rc_cuda_expect_supplied(rc_cuda_of(be), images->supplied, order, count, view)
                                      : RC_OK;
}

void rc_cuda_fill_images(rc_cuda *cuda)
{
    cuda->table.lend_images = lend_images;
    cuda->table.expect_images = expect_images;
    cuda->table.alloc_images = alloc_images;
    cuda->table.write_images = write_images;
    cuda->table.read_images = read_images;
}
