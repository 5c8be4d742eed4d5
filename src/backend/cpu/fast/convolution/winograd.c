#include "backend/cpu/fast/convolution/winograd.h"

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

enum { ELEMENTS = WINOGRAD_ELEMENTS };

bool RC_FAST(winograd_fits)(const tap_geometry *taps, int in_cp, int out_cp)
{
    return taps->k == 3 && taps->stride == 1 && in_cp >= CHUNK && out_cp >= CHUNK;
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

/* One row of G applied to three numbers. */
RC_INLINE void transform_kernel(vec g0, vec g1, vec g2, vec to[4])
{
    vec half = vec_set(0.5f);
    to[0] = g0;
    to[1] = half * ((g0 + g2) + g1);
    to[2] = half * ((g0 + g2) - g1);
    to[3] = g2;
}

/* The kernels of input channel c and the outputs [out, out + width): to (9, width). */
static void collect_kernels(const pack_job *job, int out, int width, int c, float *to)
{
    const conv_plan *plan = job->plan;
    const weight_layout *layout = &plan->weights;
    int known = c < plan->in_c ? smaller(width, plan->out_c - out) : 0;
    const float *from = job->weight + (size_t)out * layout->out_stride + (size_t)c * layout->in_stride;
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++, to += width) {
            int tap_y = plan->y[0].kernel_first + y * plan->y[0].kernel_step;
            int tap_x = plan->x[0].kernel_first + x * plan->x[0].kernel_step;
            const float *tap = from + tap_y * 3 + tap_x;
            for (int o = 0; o < known; o++)
                to[o] = tap[(size_t)o * layout->out_stride];
            for (int o = known; o < width; o++)
                to[o] = 0;
        }
}

static void pack_task(void *context, int task, int worker)
{
    (void)worker;
    const pack_job *job = context;
    const conv_plan *plan = job->plan;
    int out = task / job->parts * TILE_WIDTH, part = task % job->parts;
    int width = tile_width(plan->out_cp - out, TILE_WIDTH);
    int first = plan->in_cp * part / job->parts, last = plan->in_cp * (part + 1) / job->parts;
    float *to = job->packed + (size_t)out * (size_t)plan->in_cp * ELEMENTS;
    size_t plane = (size_t)plan->in_cp * (size_t)width;
    float kernel[9 * TILE_WIDTH];
    for (int c = first; c < last; c++) {
        collect_kernels(job, out, width, c, kernel);
        for (int o = 0; o < width; o += RC_LANES) {
            vec half[3][4], whole[4];
            for (int y = 0; y < 3; y++) {
                const float *g = kernel + 3 * y * width + o;
                transform_kernel(vec_load(g), vec_load(g + width), vec_load(g + 2 * width), half[y]);
            }
            for (int x = 0; x < 4; x++) {
                transform_kernel(half[0][x], half[1][x], half[2][x], whole);
                for (int y = 0; y < 4; y++)
                    vec_store(to + (size_t)(y * 4 + x) * plane + (size_t)(c * width + o), whole[y]);
            }
        }
    }
}

rc_phase RC_FAST(pack_winograd)(pack_job *job)
{
    enum { CHANNELS = 4 }; /* of a task, at least */
    const conv_plan *plan = job->plan;
    job->parts = (plan->in_cp + CHANNELS - 1) / CHANNELS;
    return (rc_phase){(plan->out_cp + TILE_WIDTH - 1) / TILE_WIDTH * job->parts, pack_task, job};
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

/* Row i of B^T is the difference of two rows of pixels, or their sum (i = 1). */
static const struct {
    int first, second;
} input_rows[4] = {{0, 2}, {1, 2}, {2, 1}, {1, 3}};

/* One column of it. */
RC_INLINE vec input_column(const bool sum, const float *first, const float *second)
{
    return sum ? vec_load(first) + vec_load(second) : vec_load(first) - vec_load(second);
}

/* Four columns, times B, to the four elements of the row. */
RC_INLINE void store_elements(vec c0, vec c1, vec c2, vec c3, float *to, ptrdiff_t column)
{
    vec_store(to, c0 - c2);
    vec_store(to + column, c1 + c2);
    vec_store(to + 2 * column, c2 - c1);
    vec_store(to + 3 * column, c1 - c3);
}

/* One vector of channels. Neighbours share two columns. */
RC_INLINE void transform_input_row(const bool sum, const float *first, const float *second, ptrdiff_t pixel, int tiles,
                                   float *to, ptrdiff_t tile, ptrdiff_t column)
{
    vec c0 = input_column(sum, first, second), c1 = input_column(sum, first + pixel, second + pixel);
    for (int t = 0; t < tiles; t++, first += 2 * pixel, second += 2 * pixel, to += tile) {
        vec c2 = input_column(sum, first + 2 * pixel, second + 2 * pixel);
        vec c3 = input_column(sum, first + 3 * pixel, second + 3 * pixel);
        store_elements(c0, c1, c2, c3, to, column);
        c0 = c2;
        c1 = c3;
    }
}

void RC_FAST(transform_inputs)(int i, const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels,
                               float *to, const element_layout *layout)
{
    const float *first = row + input_rows[i].first * width, *second = row + input_rows[i].second * width;
    ptrdiff_t column = TILE_FOURS ? RC_LANES : layout->column; /* a constant for the compiler */
    for (int c = 0; c < channels; c += RC_LANES) {
        float *at = to + element_channel(layout, c);
        if (i == 1)
            transform_input_row(true, first + c, second + c, pixel, tiles, at, layout->tile, column);
        else
            transform_input_row(false, first + c, second + c, pixel, tiles, at, layout->tile, column);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* Number i of the four combinations of two numbers that the rows of A make. */
RC_INLINE vec combine(const int i, const float *y0, const float *y1)
{
    switch (i) {
    case 0: return vec_load(y0);
    case 1: return vec_load(y0) + vec_load(y1);
    case 2: return vec_load(y0) - vec_load(y1);
    default: return vec_load(y1);
    }
}

RC_INLINE void transform_gradient_row(const int i, const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles,
                                      float *to, ptrdiff_t tile, ptrdiff_t column)
{
    for (int t = 0; t < tiles; t++, row += 2 * pixel, to += tile) {
        vec left = combine(i, row, row + width), right = combine(i, row + pixel, row + width + pixel);
        vec_store(to, left);
        vec_store(to + column, left + right);
        vec_store(to + 2 * column, left - right);
        vec_store(to + 3 * column, right);
    }
}

void RC_FAST(transform_gradients)(int i, const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels,
                                  float *to, const element_layout *layout)
{
    ptrdiff_t column = TILE_FOURS ? RC_LANES : layout->column, tile = layout->tile;
    for (int c = 0; c < channels; c += RC_LANES, row += RC_LANES) {
        float *at = to + element_channel(layout, c);
        switch (i) {
        case 0: transform_gradient_row(0, row, pixel, width, tiles, at, tile, column); break;
        case 1: transform_gradient_row(1, row, pixel, width, tiles, at, tile, column); break;
        case 2: transform_gradient_row(2, row, pixel, width, tiles, at, tile, column); break;
        default: transform_gradient_row(3, row, pixel, width, tiles, at, tile, column); break;
        }
    }
}

void RC_FAST(winograd_taps)(const float *m, size_t plane, int count, float *taps)
{
    for (int i = 0; i < count; i++) {
        float half[3][4];
        for (int x = 0; x < 4; x++) {
            const float *e = m + (size_t)x * plane + i;
            float m0 = e[0], m1 = e[4 * plane], m2 = e[8 * plane], m3 = e[12 * plane];
            half[0][x] = m0 + 0.5f * (m1 + m2);
            half[1][x] = 0.5f * (m1 - m2);
            half[2][x] = 0.5f * (m1 + m2) - m3;
        }
        for (int y = 0; y < 3; y++) {
            const float *h = half[y];
            float *to = taps + (size_t)(3 * y) * plane + i;
            to[0] = h[0] + 0.5f * (h[1] + h[2]);
            to[plane] = 0.5f * (h[1] - h[2]);
            to[2 * plane] = 0.5f * (h[1] + h[2]) - h[3];
        }
    }
}

/* ---- outputs --------------------------------------------------------------------------------------------------- */

/* Where the results of a row of tiles go, and what they start from. */
typedef struct output_row {
    const float *m; /* (elements, tiles, width) */
    ptrdiff_t plane, width;
    int tiles;
    float *out; /* (2, out_w, out_cp): the first channel of the block */
    ptrdiff_t row, pixel;
    int out_w;
    bool below; /* the second row exists */
    const float *start;
} output_row;

/* A^T m A of one tile and a few vectors of channels; the results of a pixel are stored together. */
RC_INLINE void transform_outputs(const int lanes, const int vectors, const output_row *o, int tile, int c)
{
    vec result[4][CHUNK / RC_LANES];
    for (int v = 0; v < vectors; v++) {
        const float *m = o->m + tile * o->width + c + v * lanes;
        vec left[4], right[4];
        for (int i = 0; i < 4; i++, m += 4 * o->plane) {
            vec m0 = vec_load_lanes(lanes, m), m1 = vec_load_lanes(lanes, m + o->plane);
            vec m2 = vec_load_lanes(lanes, m + 2 * o->plane), m3 = vec_load_lanes(lanes, m + 3 * o->plane);
            left[i] = (m1 + m2) + m0;
            right[i] = (m1 - m2) - m3;
        }
        result[0][v] = (left[1] + left[2]) + left[0];
        result[1][v] = (right[1] + right[2]) + right[0];
        result[2][v] = (left[1] - left[2]) - left[3];
        result[3][v] = (right[1] - right[2]) - right[3];
    }
    float *out = o->out + 2 * tile * o->pixel + c;
    bool beside = 2 * tile + 1 < o->out_w;
    for (int p = 0; p < 4; p++) {
        if ((p % 2 == 1 && !beside) || (p / 2 == 1 && !o->below))
            continue;
        float *to = out + p / 2 * o->row + p % 2 * o->pixel;
        for (int v = 0; v < vectors; v++) {
            vec from = vec_load_lanes(lanes, (o->start ? o->start + c : to) + v * lanes);
            vec_store_lanes(lanes, to + v * lanes, result[p][v] + from);
        }
    }
}

static void finish_tiles(const output_row *o, int channels)
{
    int whole = channels / CHUNK * CHUNK;
    for (int tile = 0; tile < o->tiles; tile++) {
        for (int c = 0; c < whole; c += CHUNK)
            transform_outputs(RC_LANES, CHUNK / RC_LANES, o, tile, c);
        for (int c = whole; c < channels; c += 4)
            transform_outputs(4, 1, o, tile, c);
    }
}

/* ---- the three steps ------------------------------------------------------------------------------------------- */

static element_layout layout_of_inputs(const conv_plan *plan)
{
    return lay_out_elements(plan->tiles, plan->in_cp, plan->in_cp);
}

/* Products are (output blocks, elements, tiles, TILE_WIDTH): floats from element to element, a line more than the
 * tiles so that the elements of a tile do not share places in the cache. */
static ptrdiff_t product_plane(const conv_plan *plan)
{
    return (ptrdiff_t)plan->tiles * TILE_WIDTH + CHUNK;
}

/* Where those of the block of output channel `out` begin in the workspace. */
static ptrdiff_t products_of(const conv_plan *plan, int out)
{
    return (ptrdiff_t)element_floats(plan->tiles, plan->in_cp) +
           (ptrdiff_t)(out / TILE_WIDTH) * ELEMENTS * product_plane(plan);
}

size_t RC_FAST(winograd_floats)(const conv_plan *plan)
{
    int blocks = (plan->out_cp + TILE_WIDTH - 1) / TILE_WIDTH;
    return element_floats(plan->tiles, plan->in_cp) + (size_t)blocks * ELEMENTS * (size_t)product_plane(plan);
}

void RC_FAST(winograd_inputs)(const conv_plan *plan, const row_band *band, int first, int last, int tile, int i,
                              float *workspace)
{
    int across = (plan->out_w + 1) / 2, pixel = band_pixel(band, 0);
    element_layout layout = layout_of_inputs(plan);
    for (int y = first; y < last; y += 2, tile += across)
        RC_FAST(transform_inputs)(i, band_row(band, y + plan->first_y, 0), pixel, (ptrdiff_t)band->width * pixel,
                                  across, plan->in_cp, workspace + tile * layout.tile, &layout);
}

void RC_FAST(winograd_multiply)(const conv_plan *plan, const float *packed, int tiles, int i, float *workspace)
{
    static const float zeros[TILE_WIDTH];
    element_layout layout = layout_of_inputs(plan);
    for (int out = 0; out < plan->out_cp; out += TILE_WIDTH) {
        int width = tile_width(plan->out_cp - out, TILE_WIDTH);
        ptrdiff_t weights = (ptrdiff_t)plan->in_cp * width;
        tile_row row = {.x = workspace,
                        .x_pixel = layout.tile,
                        .rows = 1,
                        .run = plan->in_cp,
                        .x_chunk = layout.chunk,
                        .w = packed + (size_t)out * (size_t)plan->in_cp * ELEMENTS + 4 * i * weights,
                        .start = zeros,
                        .y = workspace + products_of(plan, out) + 4 * i * product_plane(plan),
                        .y_pixel = width,
                        .pixels = tiles,
                        .width = width,
                        .channels = width,
                        .batch = 4,
                        .x_batch = layout.column,
                        .w_batch = weights,
                        .y_batch = product_plane(plan)};
        RC_FAST(tile_row)(&row);
    }
}

void RC_FAST(winograd_outputs)(const conv_plan *plan, const float *start, float *out, int first, int last, int tile,
                               const float *workspace)
{
    int across = (plan->out_w + 1) / 2;
    ptrdiff_t row = (ptrdiff_t)plan->out_w * plan->out_cp;
    for (int y = first; y < last; y += 2, tile += across)
        for (int c = 0; c < plan->out_cp; c += TILE_WIDTH) {
            int width = tile_width(plan->out_cp - c, TILE_WIDTH);
            output_row finished = {.m = workspace + products_of(plan, c) + tile * width,
                                   .plane = product_plane(plan),
                                   .width = width,
                                   .tiles = across,
                                   .out = out + y * row + c,
                                   .row = row,
                                   .pixel = plan->out_cp,
                                   .out_w = plan->out_w,
                                   .below = y + 1 < plan->out_h,
                                   .start = start ? start + c : NULL};
            finish_tiles(&finished, smaller(width, plan->out_cp - c));
        }
}
