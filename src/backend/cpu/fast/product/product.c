#include "backend/cpu/fast/product/product.h"

#include <string.h>

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

/* DEPTH: rows of b that are packed at a time; with TILE_WIDTH columns they stay in the first cache. GROUP: blocks of
 * columns that a task takes together, because they are neighbours in memory. OUTS: rows of d that a task takes. */
enum { DEPTH = 256, GROUP = 4, OUTS = 16 };

static int groups_of(const product *p)
{
    return (p->columns + GROUP * TILE_WIDTH - 1) / (GROUP * TILE_WIDTH);
}

static void product_task(void *context, int task, int worker)
{
    const product *p = context;
    float *packed = rc_cpu_scratch(p->cpu, worker), start[TILE_WIDTH];
    int segment = task / groups_of(p), first = task % groups_of(p) * GROUP * TILE_WIDTH;
    int last = smaller(first + GROUP * TILE_WIDTH, p->columns);
    for (int depth = 0; depth < p->depth; depth += DEPTH)
        for (int column = first; column < last; column += TILE_WIDTH) {
            bool starts = depth == 0 && !p->add;
            tile_row row = {.x = p->a + depth,
                            .x_pixel = p->a_row,
                            .rows = 1,
                            .run = smaller(DEPTH, p->depth - depth),
                            .x_chunk = TILE_CHUNK,
                            .w = packed,
                            .start = starts ? start : NULL,
                            .y = p->c + segment * p->c_segment + column,
                            .y_pixel = p->c_row,
                            .pixels = p->rows,
                            .width = tile_width(p->columns - column, TILE_WIDTH),
                            .batch = 1};
            row.channels = smaller(row.width, p->columns - column);
            p->pack(p->context, depth, row.run, segment, column, row.channels, row.width, packed,
                    starts ? start : NULL);
            RC_FAST(tile_row)(&row);
        }
}

void RC_FAST(product)(const product *p)
{
    rc_pool_run(p->cpu->pool, p->segments * groups_of(p), product_task, rc_without_const(p));
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

/* to (4, width) = the transpose of four rows of four. */
static void transpose_four(const float *from, size_t stride, float *to, int width)
{
    vec_four a = *(const vec_four *)from, b = *(const vec_four *)(from + stride);
    vec_four c = *(const vec_four *)(from + 2 * stride), d = *(const vec_four *)(from + 3 * stride);
    vec_four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    vec_four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(vec_four *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(vec_four *)(to + width) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(vec_four *)(to + 2 * width) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(vec_four *)(to + 3 * width) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

void RC_FAST(pack_transposed)(const float *from, size_t stride, int depth, int columns, int width, float *to)
{
    int whole_columns = columns / 4 * 4, whole_depth = depth / 4 * 4;
    for (int j = 0; j < whole_columns; j += 4)
        for (int d = 0; d < whole_depth; d += 4)
            transpose_four(from + (size_t)j * stride + d, stride, to + d * width + j, width);
    for (int d = 0; d < depth; d++) {
        for (int j = d < whole_depth ? whole_columns : 0; j < columns; j++)
            to[d * width + j] = from[(size_t)j * stride + (size_t)d];
        for (int j = columns; j < width; j++)
            to[d * width + j] = 0;
    }
}

void RC_FAST(pack_outputs)(const void *context, int first_depth, int depth, int segment, int column, int columns,
                           int width, float *to, float *start)
{
    (void)segment;
    const dense_weights *w = context;
    const float *from = w->weight + (size_t)column * (size_t)w->in + first_depth;
    int known = smaller(columns, w->out - column);
    RC_FAST(pack_transposed)(from, (size_t)w->in, depth, known, width, to);
    for (int j = 0; start && j < width; j++)
        start[j] = w->bias && j < known ? w->bias[column + j] : 0;
}

void RC_FAST(pack_inputs)(const void *context, int first_depth, int depth, int segment, int column, int columns,
                          int width, float *to, float *start)
{
    (void)segment;
    const dense_weights *w = context;
    for (int d = 0; d < depth; d++, to += width) {
        memcpy(to, w->weight + (size_t)(first_depth + d) * (size_t)w->in + column, (size_t)columns * sizeof(float));
        memset(to + columns, 0, (size_t)(width - columns) * sizeof(float));
    }
    if (start)
        memset(start, 0, (size_t)width * sizeof(float));
}

/* ---- outer products -------------------------------------------------------------------------------------------- */

size_t RC_FAST(outer_packed_floats)(int count, int ins)
{
    int blocks = (ins + OUTER_WIDTH - 1) / OUTER_WIDTH;
    return (size_t)blocks * OUTER_WIDTH * (size_t)count;
}

size_t RC_FAST(product_scratch)(int count)
{
    size_t packed = (size_t)DEPTH * TILE_WIDTH, outs = (size_t)count * OUTS + 64;
    return packed > outs ? packed : outs;
}

/* b (count, ins) -> (blocks of ins, count, OUTER_WIDTH): what a tile reads is contiguous. */
static void pack_b_task(void *context, int block, int worker)
{
    (void)worker;
    const outer_product *p = context;
    int first = block * OUTER_WIDTH, valid = smaller(OUTER_WIDTH, p->ins - first);
    float *to = p->packed_b + (size_t)first * (size_t)p->count;
    for (int i = 0; i < p->count; i++, to += OUTER_WIDTH) {
        memcpy(to, p->b + i * p->b_row + first, (size_t)valid * sizeof(float));
        memset(to + valid, 0, (size_t)(OUTER_WIDTH - valid) * sizeof(float));
    }
}

/* Rows [out, out + scalars) and columns [in, in + valid) of d, from the tile's sums (scalars, OUTER_WIDTH). */
static void write_block(const outer_product *p, int segment, int out, int outs, int in, const float *sums)
{
    int valid = smaller(OUTER_WIDTH, p->ins - in);
    for (int o = 0; o < outs; o++) {
        float *to = p->d + (size_t)segment * p->d_segment + (size_t)(out + o) * p->d_out + in;
        const float *from = sums + o * OUTER_WIDTH;
        if (p->add)
            for (int i = 0; i < valid; i++)
                to[i] += from[i];
        else
            memcpy(to, from, (size_t)valid * sizeof(float));
    }
}

static void sum_columns(const outer_product *p, int segment, int out, int outs, const float *a)
{
    for (int o = 0; o < outs; o++) {
        float *to = p->sums + (size_t)segment * p->sums_segment + (size_t)(out + o) * p->sums_out;
        double sum = p->add ? (double)*to : 0;
        for (int i = 0; i < p->count; i++)
            sum += (double)a[i * OUTS + o];
        *to = (float)sum;
    }
}

static void outer_task(void *context, int task, int worker)
{
    const outer_product *p = context;
    int blocks = (p->outs + OUTS - 1) / OUTS, segment = task / blocks, out = task % blocks * OUTS;
    int outs = smaller(OUTS, p->outs - out);
    float *a = rc_cpu_scratch(p->cpu, worker); /* (count, OUTS) */
    for (int i = 0; i < p->count; i++) {
        memcpy(a + i * OUTS, p->a + i * p->a_row + segment * p->a_segment + out, (size_t)outs * sizeof(float));
        memset(a + i * OUTS + outs, 0, (size_t)(OUTS - outs) * sizeof(float));
    }
    if (p->sums)
        sum_columns(p, segment, out, outs, a);
    for (int in = 0; in < p->ins; in += OUTER_WIDTH)
        for (int o = 0, scalars; o < outs; o += scalars) {
            float sums[16 * OUTER_WIDTH];
            scalars = outer_scalars(outs - o, OUTER_WIDTH);
            tile_outer outer = {.a = a + o,
                                .a_four = 4,
                                .a_pixel = OUTS,
                                .b = p->packed_b + (size_t)in * (size_t)p->count,
                                .b_vector = RC_LANES,
                                .b_pixel = OUTER_WIDTH,
                                .images = 1,
                                .rows = 1,
                                .pixels = p->count,
                                .d = sums,
                                .scalars = scalars,
                                .width = OUTER_WIDTH};
            RC_FAST(tile_outer)(&outer);
            write_block(p, segment, out + o, smaller(scalars, outs - o), in, sums);
        }
}

void RC_FAST(outer_product)(const outer_product *p)
{
    void *context = rc_without_const(p);
    rc_pool_run(p->cpu->pool, (p->ins + OUTER_WIDTH - 1) / OUTER_WIDTH, pack_b_task, context);
    rc_pool_run(p->cpu->pool, p->segments * ((p->outs + OUTS - 1) / OUTS), outer_task, context);
}
