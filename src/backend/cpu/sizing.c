/* A CPU backend that takes no memory. The same code builds nets, passes and steps on it as on a real one, and it adds
 * up what they would take. That is the forecast that is compared with what is allowed, before anything is
 * allocated. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/open.h"

/* In place of memory: an address that is never read, and how many bytes would lie there. */
typedef struct stand_in {
    size_t bytes;
} stand_in;

static rc_status count_memory(rc_backend *backend, size_t bytes, void **memory)
{
    stand_in *block = rc_alloc(NULL, sizeof *block);
    *memory = block;
    if (block == NULL)
        return RC_OUT_OF_MEMORY;
    block->bytes = bytes;
    rc_cpu_count(rc_cpu_of(backend), bytes, 0);
    return RC_OK;
}

static void forget_memory(rc_backend *backend, void *memory)
{
    if (memory != NULL)
        rc_cpu_count(rc_cpu_of(backend), 0, ((stand_in *)memory)->bytes);
    rc_free(NULL, memory);
}

/* They lie where their owner has them; what follows them takes memory. */
static rc_status lend_images(rc_backend *backend, const rc_lent_images *given, size_t more, void **images)
{
    (void)given;
    return count_memory(backend, more, images);
}

static rc_status expect_images(rc_backend *backend, const void *images, const int32_t *order, size_t count,
                               const rc_image_view *view)
{
    (void)backend, (void)images, (void)order, (void)count, (void)view;
    return RC_OK;
}

static void write_images(rc_backend *backend, void *images, size_t offset, const uint8_t *from, size_t bytes)
{
    (void)backend, (void)images, (void)offset, (void)from, (void)bytes;
}

static void read_images(rc_backend *backend, uint8_t *to, const void *images, size_t offset, size_t bytes)
{
    (void)backend, (void)images, (void)offset;
    memset(to, 0, bytes);
}

static void write_bytes(rc_backend *backend, void *to, const void *from, size_t bytes)
{
    (void)backend, (void)to, (void)from, (void)bytes;
}

static void read_bytes(rc_backend *backend, void *to, const void *from, size_t bytes)
{
    (void)backend, (void)from;
    memset(to, 0, bytes);
}

static void write_real(rc_backend *backend, void *to, const float *from, size_t count)
{
    (void)backend, (void)to, (void)from, (void)count;
}

static void read_real(rc_backend *backend, float *to, const void *from, size_t count)
{
    (void)backend, (void)from;
    memset(to, 0, count * sizeof *to);
}

static void write_real64(rc_backend *backend, void *to, const double *from, size_t count)
{
    (void)backend, (void)to, (void)from, (void)count;
}

static void read_real64(rc_backend *backend, double *to, const void *from, size_t count)
{
    (void)backend, (void)from;
    memset(to, 0, count * sizeof *to);
}

static void write_act(rc_backend *backend, rc_tensor *to, const double *from)
{
    (void)backend, (void)to, (void)from;
}

static void zero(rc_backend *backend, void *memory, size_t bytes)
{
    (void)backend, (void)memory, (void)bytes;
}

static rc_status sync(rc_backend *backend)
{
    (void)backend;
    return RC_OK;
}

static rc_status repeat(rc_backend *backend, void (*step)(void *context), void *context, int times)
{
    (void)backend, (void)step, (void)context, (void)times;
    return rc_fail(RC_INTERNAL, "a step was to run where memory is only counted");
}

static void bn_eval(rc_backend *backend, const rc_bn *bn, const rc_tensor *y, const rc_bn_forward *f)
{
    (void)backend, (void)bn, (void)y, (void)f;
}

static void destroy(rc_backend *backend)
{
    rc_free(NULL, backend);
}

rc_status rc_backend_open_sizing(rc_backend *like, rc_backend **sizing)
{
    *sizing = NULL;
    if (like->about.device_memory)
        return RC_OK;
    rc_cpu *cpu = rc_alloc_zeroed(NULL, 1, sizeof *cpu);
    if (cpu == NULL)
        return RC_OUT_OF_MEMORY;
    rc_backend *table = &cpu->table;
    *table = *like;
    table->sizing = true;
    cpu->joined = rc_cpu_of(like)->joined;             /* it only asks for sizes, and `like` frees it */
    cpu->shared_bytes = rc_cpu_of(like)->shared_bytes; /* it has these */
    cpu->scratch_bytes = rc_cpu_of(like)->scratch_bytes;
    cpu->begun = cpu->held = cpu->most = cpu->shared_bytes + cpu->scratch_bytes * (size_t)table->about.threads;
    table->destroy = destroy;
    table->alloc = table->alloc_images = count_memory;
    table->release = forget_memory;
    table->lend_images = lend_images;
    table->expect_images = expect_images;
    table->write_images = write_images;
    table->read_images = read_images;
    table->write_bytes = table->copy = write_bytes;
    table->read_bytes = read_bytes;
    table->write_real = write_real;
    table->read_real = read_real;
    table->write_real64 = write_real64;
    table->read_real64 = read_real64;
    table->write_act = write_act;
    table->zero = zero;
    table->sync = sync;
    table->repeat = repeat;
    table->bn_eval = bn_eval;
    *sizing = table;
    return RC_OK;
}

rc_status rc_backend_count_scratch(rc_backend *sizing, size_t bytes)
{
    rc_cpu_count(rc_cpu_of(sizing), bytes, bytes);
    return RC_OK;
}

size_t rc_backend_most_bytes(rc_backend *sizing)
{
    const rc_cpu *cpu = rc_cpu_of(sizing);
    return cpu->most - cpu->begun;
}
