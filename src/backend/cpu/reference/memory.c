/* Memory and control: backend memory is host memory, operations run when they are called. */
#include <string.h>

#include "backend/cpu/reference/reference.h"
#include "base/stop.h"

static rc_status memory_alloc(rc_backend *backend, size_t bytes, void **memory)
{
    static const size_t piece = (size_t)64 << 20; /* activations of large images take seconds to fill */
    const rc_allocator *allocator = rc_cpu_of(backend)->allocator;
    char *block = rc_alloc(allocator, bytes ? bytes : 1);
    *memory = NULL;
    if (block == NULL)
        return RC_OUT_OF_MEMORY;
    for (size_t done = 0, now; done < bytes; done += now) {
        if (rc_stop_poll()) {
            rc_free(allocator, block);
            return rc_fail(RC_CANCELLED, "stopped while memory was prepared");
        }
        now = bytes - done < piece ? bytes - done : piece;
        memset(block + done, 0, now);
    }
    *memory = block;
    return RC_OK;
}

static void memory_release(rc_backend *backend, void *memory)
{
    rc_cpu *cpu = rc_cpu_of(backend);
    rc_cpu_lent *lent = memory != NULL ? rc_cpu_find_lent(cpu, memory) : NULL;
    if (lent != NULL)
        rc_cpu_release_lent(cpu, lent);
    else
        rc_free(cpu->allocator, memory);
}

static void memory_copy(rc_backend *backend, void *to, const void *from, size_t bytes)
{
    (void)backend;
    if (bytes)
        memmove(to, from, bytes);
}

static void memory_zero(rc_backend *backend, void *memory, size_t bytes)
{
    (void)backend;
    if (bytes)
        memset(memory, 0, bytes);
}

static void write_real(rc_backend *backend, void *to, const float *from, size_t count)
{
    (void)backend;
    real *out = to;
    for (size_t i = 0; i < count; i++)
        out[i] = (real)from[i];
}

static void read_real(rc_backend *backend, float *to, const void *from, size_t count)
{
    (void)backend;
    const real *in = from;
    for (size_t i = 0; i < count; i++)
        to[i] = (float)in[i];
}

static void write_real64(rc_backend *backend, void *to, const double *from, size_t count)
{
    (void)backend;
    real *out = to;
    for (size_t i = 0; i < count; i++)
        out[i] = (real)from[i];
}

static void read_real64(rc_backend *backend, double *to, const void *from, size_t count)
{
    (void)backend;
    const real *in = from;
    for (size_t i = 0; i < count; i++)
        to[i] = (double)in[i];
}

/* (n, h, w, c) -> to->raw (n, h, w, cp), pad channels zero. */
static void write_act(rc_backend *backend, rc_tensor *to, const double *from)
{
    int cp = rc_padded(backend, to->c);
    size_t pixels = (size_t)to->n * (size_t)to->h * (size_t)to->w;
    real *out = to->raw;
    for (size_t p = 0; p < pixels; p++) {
        for (int c = 0; c < cp; c++)
            out[p * (size_t)cp + (size_t)c] = c < to->c ? (real)from[p * (size_t)to->c + (size_t)c] : 0;
    }
}

/* (n, h, w, cp) -> (n, h, w, c). */
static void read_act(rc_backend *backend, double *to, const rc_tensor *shape, const void *from)
{
    int cp = rc_padded(backend, shape->c);
    size_t pixels = (size_t)shape->n * (size_t)shape->h * (size_t)shape->w;
    const real *in = from;
    for (size_t p = 0; p < pixels; p++) {
        for (int c = 0; c < shape->c; c++)
            to[p * (size_t)shape->c + (size_t)c] = (double)in[p * (size_t)cp + (size_t)c];
    }
}

static rc_status control_sync(rc_backend *backend)
{
    const rc_cpu *cpu = rc_cpu_of(backend);
    if (cpu->status == RC_OK && rc_stopped())
        return rc_fail(RC_CANCELLED, "stopped in the midst of computing");
    return cpu->status == RC_OK ? RC_OK : rc_fail(cpu->status, "%s", cpu->message);
}

static rc_status control_repeat(rc_backend *backend, void (*step)(void *context), void *context, int times)
{
    const rc_cpu *cpu = rc_cpu_of(backend);
    for (int i = 0; i < times && cpu->status == RC_OK && !rc_stop_poll(); i++)
        step(context);
    return control_sync(backend);
}

/* One lane: work runs in the order in which it is enqueued. */
static void control_lane(rc_backend *backend, int lane)
{
    (void)backend;
    (void)lane;
}

static void control_sum_workers(rc_backend *backend, void *reals, size_t count)
{
    (void)backend;
    (void)reals;
    (void)count;
}

static void control_wait_workers(rc_backend *backend)
{
    (void)backend;
}

/* From "just before" (UINT32_MAX) the first call makes step 0 of the stage and batch 0 of the epoch current. */
static void control_step_begin(rc_backend *backend, rc_step *step)
{
    (void)backend;
    step->step++;
    step->batch++;
}

static rc_status reserve_conv(rc_backend *backend, const rc_conv *conv, int n)
{
    (void)backend;
    (void)conv;
    (void)n;
    return RC_OK;
}

static rc_status reserve_linear(rc_backend *backend, const rc_linear *linear, int n)
{
    (void)backend;
    (void)linear;
    (void)n;
    return RC_OK;
}

static rc_status reserve_dense(rc_backend *backend, int n, int in, int out)
{
    (void)backend;
    (void)n;
    (void)in;
    (void)out;
    return RC_OK;
}

static size_t partial_bytes(rc_backend *backend, int n, int h, int w, int c)
{
    (void)h;
    (void)w;
    return rc_cpu_partial_count(n, rc_padded(backend, c)) * sizeof(double);
}

void RC_REFERENCE(fill_memory)(rc_backend *table)
{
    table->alloc = memory_alloc;
    table->alloc_images = memory_alloc;
    rc_cpu_fill_lent(table);
    table->release = memory_release;
    table->write_bytes = memory_copy;
    table->read_bytes = memory_copy;
    table->write_real = write_real;
    table->read_real = read_real;
    table->write_real64 = write_real64;
    table->read_real64 = read_real64;
    table->write_act = write_act;
    table->read_act = read_act;
    table->zero = memory_zero;
    table->copy = memory_copy;
    table->sync = control_sync;
    table->repeat = control_repeat;
    table->fork = control_lane;
    table->join = control_lane;
    table->sum_workers = control_sum_workers;
    table->wait_workers = control_wait_workers;
    table->step_begin = control_step_begin;
    table->reserve_conv = reserve_conv;
    table->reserve_depthwise = reserve_conv;
    table->reserve_linear = reserve_linear;
    table->reserve_dense = reserve_dense;
    table->partial_bytes = partial_bytes;
}
