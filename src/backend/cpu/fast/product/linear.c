/* Linear layers inside a net: (n, 1, 1, c_in) -> (n, h, w, c). PyTorch orders the rows of the weights (c, h, w), the
 * map is NHWC: packing the weights pixel by pixel absorbs the difference. What is pending on a tensor is applied first,
 * into the workspace; it is small next to the weights. */
#include <string.h>

#include "backend/cpu/fast/convolution/conv.h"
#include "backend/cpu/fast/product/product.h"
#include "backend/cpu/fast/rows.h"

static int padded(int c)
{
    return (c + 3) / 4 * 4;
}

/* ---- lazy tensors to matrices ---------------------------------------------------------------------------------- */

typedef struct load_job {
    rc_cpu *cpu;
    const rc_tensor *x; /* one of them */
    const rc_grad *dy;
    float *to; /* (n, h, w, cp) */
} load_job;

static void load_task(void *context, int image, int worker)
{
    const load_job *job = context;
    const rc_tensor *t = job->x ? job->x : job->dy->y;
    int cp = padded(t->c);
    size_t row_floats = (size_t)t->w * (size_t)cp;
    float *skip_row = rc_cpu_scratch(job->cpu, worker), *to = job->to + (size_t)image * (size_t)t->h * row_floats;
    if (job->x) {
        value_source source = RC_FAST(value_source)(t, cp, image, skip_row);
        for (int row = 0; row < t->h; row++)
            load_value_row(&source, row, 0, cp, to + (size_t)row * row_floats, cp);
    } else {
        gradient_source source = RC_FAST(gradient_source)(job->dy, cp, image, skip_row);
        for (int row = 0; row < t->h; row++)
            load_gradient_row(&source, row, 0, cp, to + (size_t)row * row_floats, cp);
    }
}

/* The finished values of x: where they are, or in `memory`. */
static const float *finished_values(rc_cpu *cpu, const rc_tensor *x, float *memory)
{
    value_source source = RC_FAST(value_source)(x, padded(x->c), 0, NULL);
    if (source.value)
        return source.value;
    load_job job = {.cpu = cpu, .x = x, .to = memory};
    rc_pool_run(cpu->pool, x->n, load_task, &job);
    return memory;
}

const float *RC_FAST(finished_gradients)(rc_cpu *cpu, const rc_grad *dy, float *memory)
{
    if (dy->y->act == RC_ACT_NONE && !dy->a)
        return dy->g;
    load_job job = {.cpu = cpu, .dy = dy, .to = memory};
    rc_pool_run(cpu->pool, dy->y->n, load_task, &job);
    return memory;
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

typedef struct linear_weights {
    const rc_linear *linear;
    const float *weight, *bias;
} linear_weights;

/* Row of the weights for a channel of a pixel; the next channel lies h * w rows further. */
static size_t weight_row(const rc_linear *linear, int channel, int pixel)
{
    return (size_t)channel * (size_t)(linear->h * linear->w) + (size_t)pixel;
}

static void pack_forward(const void *context, int first_depth, int depth, int pixel, int channel, int channels,
                         int width, float *to, float *start)
{
    const linear_weights *w = context;
    const rc_linear *linear = w->linear;
    size_t stride = weight_row(linear, 1, 0) * (size_t)linear->c_in;
    const float *from = w->weight + weight_row(linear, channel, pixel) * (size_t)linear->c_in + first_depth;
    int known = linear->c - channel < channels ? linear->c - channel : channels; /* the others are padding */
    RC_FAST(pack_transposed)(from, stride, depth, known, width, to);
    for (int j = 0; start && j < width; j++)
        start[j] = w->bias && j < known ? w->bias[weight_row(linear, channel + j, pixel)] : 0;
}

typedef struct finish_job {
    rc_cpu *cpu;
    const rc_tensor *y;
    const rc_epilogue *epilogue;
    const rc_back_epilogue *back_epilogue;
    const float *dx;
} finish_job;

static void finish_forward_task(void *context, int image, int worker)
{
    const finish_job *job = context;
    RC_FAST(finish_forward)(job->y, padded(job->y->c), image, job->epilogue, rc_cpu_scratch(job->cpu, worker));
}

static void linear_forward(rc_backend *table, const rc_linear *linear, rc_tensor *x, const void *weight,
                           const void *bias, rc_tensor *y, const rc_epilogue *epilogue)
{
    rc_cpu *cpu = rc_cpu_of(table);
    int cp = padded(linear->c), pixels = linear->h * linear->w;
    linear_weights weights = {linear, weight, bias};
    product p = {.cpu = cpu,
                 .a = finished_values(cpu, x, cpu->shared),
                 .a_row = padded(linear->c_in),
                 .rows = x->n,
                 .depth = linear->c_in,
                 .c = y->raw,
                 .c_row = (ptrdiff_t)pixels * cp,
                 .c_segment = cp,
                 .segments = pixels,
                 .columns = cp,
                 .pack = pack_forward,
                 .context = &weights};
    RC_FAST(product)(&p);
    x->stored = x->value != NULL;
    finish_job job = {.cpu = cpu, .y = y, .epilogue = epilogue};
    if (epilogue->partial || epilogue->apply)
        rc_pool_run(cpu->pool, y->n, finish_forward_task, &job);
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* Depth counts dy's (h, w, cp). */
static void pack_backward(const void *context, int first_depth, int depth, int segment, int column, int columns,
                          int width, float *to, float *start)
{
    (void)segment;
    const linear_weights *w = context;
    const rc_linear *linear = w->linear;
    int cp = padded(linear->c);
    int known = linear->c_in - column < columns ? linear->c_in - column : columns;
    for (int d = first_depth; d < first_depth + depth; d++, to += width) {
        int channel = d % cp, valid = channel < linear->c ? known : 0;
        if (valid > 0)
            memcpy(to, w->weight + weight_row(linear, channel, d / cp) * (size_t)linear->c_in + column,
                   (size_t)valid * sizeof(float));
        memset(to + valid, 0, (size_t)(width - valid) * sizeof(float));
    }
    if (start)
        memset(start, 0, (size_t)width * sizeof(float));
}

static void finish_backward_task(void *context, int image, int worker)
{
    const finish_job *job = context;
    RC_FAST(finish_backward)(job->back_epilogue, padded(job->back_epilogue->x->c), image, job->dx,
                             rc_cpu_scratch(job->cpu, worker));
}

static void linear_backward_data(rc_backend *table, const rc_linear *linear, const rc_grad *dy, const void *weight,
                                 void *dx, const rc_back_epilogue *epilogue)
{
    rc_cpu *cpu = rc_cpu_of(table);
    int cp_in = padded(linear->c_in), depth = linear->h * linear->w * padded(linear->c);
    linear_weights weights = {linear, weight, NULL};
    product p = {.cpu = cpu,
                 .a = RC_FAST(finished_gradients)(cpu, dy, cpu->shared), .a_row = depth, .rows = dy->y->n,
                              .depth = depth, .c = dx, .c_row = cp_in, .segments = 1, .columns = cp_in,
                              .add = epilogue->add, .pack = pack_backward, .context = &weights};
    RC_FAST(product)(&p);
    finish_job job = {.cpu = cpu, .back_epilogue = epilogue, .dx = dx};
    if (epilogue->partial)
        rc_pool_run(cpu->pool, dy->y->n, finish_backward_task, &job);
}

static void linear_backward_weight(rc_backend *table, const rc_linear *linear, const rc_tensor *x, const rc_grad *dy,
                                   void *dweight, void *dbias)
{
    rc_cpu *cpu = rc_cpu_of(table);
    int n = x->n, cp = padded(linear->c), cp_in = padded(linear->c_in), pixels = linear->h * linear->w;
    float *gradients = cpu->shared, *values = gradients + line_floats((size_t)n * (size_t)(pixels * cp));
    rc_tensor unstored = *x; /* storing values is forward's business */
    if (!unstored.stored)
        unstored.value = NULL;
    outer_product p = {.cpu = cpu,
                       .count = n,
                       .a = RC_FAST(finished_gradients)(cpu, dy, gradients), .a_row = (ptrdiff_t)pixels * cp,
                                    .a_segment = cp, .segments = pixels, .outs = linear->c,
                                    .b = finished_values(cpu, &unstored, values), .b_row = cp_in, .ins = linear->c_in,
                                    .packed_b = values + line_floats((size_t)n * (size_t)cp_in), .d = dweight,
                                    .d_segment = (size_t)linear->c_in,
                                    .d_out = weight_row(linear, 1, 0) * (size_t)linear->c_in, .sums = dbias,
                                    .sums_segment = 1, .sums_out = weight_row(linear, 1, 0)};
    RC_FAST(outer_product)(&p);
}

static rc_status reserve_linear(rc_backend *table, const rc_linear *linear, int n)
{
    int cp = padded(linear->c), cp_in = padded(linear->c_in);
    size_t shared = line_floats((size_t)n * (size_t)(linear->h * linear->w * cp)) +
                    line_floats((size_t)n * (size_t)cp_in) + RC_FAST(outer_packed_floats)(n, linear->c_in);
    size_t scratch = RC_FAST(product_scratch)(n), row = (size_t)(linear->w + 1) * (size_t)cp + (size_t)cp_in;
    return rc_cpu_reserve(rc_cpu_of(table), shared * sizeof(float), (scratch > row ? scratch : row) * sizeof(float));
}

void RC_FAST(fill_linear)(rc_backend *table)
{
    table->reserve_linear = reserve_linear;
    table->linear_forward = linear_forward;
    table->linear_backward_data = linear_backward_data;
    table->linear_backward_weight = linear_backward_weight;
}
