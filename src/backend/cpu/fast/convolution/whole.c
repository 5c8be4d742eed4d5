#include "backend/cpu/fast/convolution/whole.h"

#include "backend/cpu/fast/product/product.h"
#include "backend/cpu/fast/rows.h"

bool RC_FAST(whole_fits)(const rc_conv *conv)
{
    return !conv->transposed && conv->up == 1 && conv->pad == 0 && conv->k == conv->h && conv->k == conv->w &&
           conv->oh == 1 && conv->ow == 1;
}

static int map_floats(const rc_conv *conv)
{
    return conv->c_in * conv->h * conv->w;
}

/* From map to map: not a power of two, which would put a column of all maps into the same few lines of a cache. */
static ptrdiff_t map_stride(const rc_conv *conv)
{
    enum { LINE = 16 };
    return round_up(map_floats(conv), LINE) + LINE;
}

/* Shared: maps, outputs, and values packed for the weight gradient. Of a worker: a map, and a row of its skip. */
workspace RC_FAST(whole_workspace)(const rc_conv *conv, int n)
{
    size_t in_cp = (size_t)round_up(conv->c_in, 4), out_cp = (size_t)round_up(conv->c_out, 4);
    size_t map = (size_t)(conv->h * conv->w) * in_cp, product_floats = RC_FAST(product_scratch)(n);
    size_t rows = line_floats(map) + (size_t)(conv->w + 1) * in_cp + 2 * out_cp;
    return (workspace){.shared = (size_t)n * (size_t)map_stride(conv) + line_floats((size_t)n * out_cp) +
                                 RC_FAST(outer_packed_floats)(n, map_floats(conv)),
                                         .scratch = rows > product_floats ? rows : product_floats};
}

typedef struct whole_job {
    rc_cpu *cpu;
    const rc_conv *conv;
    float *maps;        /* (n, map_stride): (c_in, h, w) of each image */
    const rc_tensor *x; /* what they are loaded from, ... */
    float *dx;          /* ... or where they go */
    const rc_back_epilogue *back_epilogue;
    const rc_tensor *y;
    const rc_epilogue *epilogue;
} whole_job;

static void load_task(void *context, int image, int worker)
{
    const whole_job *job = context;
    const rc_conv *conv = job->conv;
    int cp = round_up(conv->c_in, 4), pixels = conv->h * conv->w;
    float *map = rc_cpu_scratch(job->cpu, worker), *skip_row = map + line_floats((size_t)pixels * (size_t)cp);
    value_source source = RC_FAST(value_source)(job->x, cp, image, skip_row);
    if (!source.value)
        RC_FAST(load_value_rows)(&source, 0, conv->h, 0, cp, map, cp, (ptrdiff_t)conv->w * cp);
    RC_FAST(pack_transposed)(source.value ? source.value : map, (size_t)cp, conv->c_in, pixels, pixels,
                             job->maps + image * map_stride(conv));
}

static void finish_forward_task(void *context, int image, int worker)
{
    const whole_job *job = context;
    RC_FAST(finish_forward)(job->y, round_up(job->conv->c_out, 4), image, job->epilogue,
                            rc_cpu_scratch(job->cpu, worker));
}

/* One image of dx (n, h, w, cp), from its map. */
static void finish_backward_task(void *context, int image, int worker)
{
    const whole_job *job = context;
    const rc_conv *conv = job->conv;
    int cp = round_up(conv->c_in, 4), pixels = conv->h * conv->w;
    float *scratch = rc_cpu_scratch(job->cpu, worker), *dx = job->dx + (ptrdiff_t)image * pixels * cp;
    bool add = job->back_epilogue->add;
    RC_FAST(pack_transposed)(job->maps + image * map_stride(conv), (size_t)pixels, pixels, conv->c_in, cp,
                             add ? scratch : dx);
    if (add)
        RC_FAST(add_floats)(dx, scratch, pixels * cp);
    RC_FAST(finish_backward)(job->back_epilogue, cp, image, job->dx, scratch);
}

void RC_FAST(whole_forward)(rc_cpu *cpu, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                            rc_tensor *y, const rc_epilogue *epilogue)
{
    whole_job job = {.cpu = cpu, .conv = conv, .maps = cpu->shared, .x = x, .y = y, .epilogue = epilogue};
    dense_weights weights = {weight, bias, map_floats(conv), conv->c_out};
    int cp = round_up(conv->c_out, 4);
    product p = {.cpu = cpu,
                 .a = job.maps,
                 .a_row = map_stride(conv),
                 .rows = x->n,
                 .depth = map_floats(conv),
                 .c = y->raw,
                 .c_row = cp,
                 .segments = 1,
                 .columns = cp,
                 .pack = RC_FAST(pack_outputs), .context = &weights};
    rc_pool_run(cpu->pool, x->n, load_task, &job);
    RC_FAST(product)(&p);
    x->stored = x->value != NULL;
    if (epilogue->partial || epilogue->apply)
        rc_pool_run(cpu->pool, y->n, finish_forward_task, &job);
}

void RC_FAST(whole_backward_data)(rc_cpu *cpu, const rc_conv *conv, const rc_grad *dy, const float *weight, float *dx,
                                  const rc_back_epilogue *epilogue)
{
    int n = dy->y->n;
    float *maps = cpu->shared, *gradients = maps + n * map_stride(conv);
    whole_job job = {.cpu = cpu, .conv = conv, .maps = maps, .dx = dx, .back_epilogue = epilogue};
    dense_weights weights = {weight, NULL, map_floats(conv), conv->c_out};
    product p = {.cpu = cpu,
                 .a = RC_FAST(finished_gradients)(cpu, dy, gradients), .a_row = round_up(conv->c_out, 4), .rows = n,
                              .depth = conv->c_out, .c = maps, .c_row = map_stride(conv), .segments = 1,
                              .columns = map_floats(conv), .pack = RC_FAST(pack_inputs), .context = &weights};
    RC_FAST(product)(&p);
    rc_pool_run(cpu->pool, n, finish_backward_task, &job);
}

void RC_FAST(whole_backward_weight)(rc_cpu *cpu, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                    float *dweight, float *dbias)
{
    int n = x->n, cp = round_up(conv->c_out, 4);
    float *maps = cpu->shared, *gradients = maps + n * map_stride(conv);
    rc_tensor unstored = *x; /* storing values is forward's business */
    if (!unstored.stored)
        unstored.value = NULL;
    whole_job job = {.cpu = cpu, .conv = conv, .maps = maps, .x = &unstored};
    outer_product p = {.cpu = cpu,
                       .count = n,
                       .a = RC_FAST(finished_gradients)(cpu, dy, gradients), .a_row = cp, .segments = 1,
                                    .outs = conv->c_out, .b = maps, .b_row = map_stride(conv), .ins = map_floats(conv),
                                    .packed_b = gradients + line_floats((size_t)n * (size_t)cp), .d = dweight,
                                    .d_out = (size_t)map_floats(conv), .sums = dbias, .sums_out = 1};
    rc_pool_run(cpu->pool, n, load_task, &job);
    RC_FAST(outer_product)(&p);
}
