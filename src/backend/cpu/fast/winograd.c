#include "backend/cpu/fast/winograd.h"

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/tile.h"

enum { ELEMENTS = WINOGRAD_ELEMENTS };

bool RC_FAST(winograd_fits)(const tap_geometry *taps, int in_cp, int out_cp)
{
    return taps->k == 3 && taps->stride == 1 && in_cp >= CHUNK && out_cp >= CHUNK;
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

/* One row of G applied to three numbers. */
static void transform_kernel(const float g[3], float to[4])
{
    to[0] = g[0];
    to[1] = 0.5f * (g[0] + g[1] + g[2]);
    to[2] = 0.5f * (g[0] - g[1] + g[2]);
    to[3] = g[2];
}

typedef struct pack_job {
    const conv_plan *plan;
    const float *weight;
    float *packed;
} pack_job;

static void pack_task(void *context, int task, int worker)
{
    (void)worker;
    const pack_job *job = context;
    const conv_plan *plan = job->plan;
    const weight_layout *layout = &plan->weights;
    int out = task * TILE_WIDTH, width = tile_width(plan->out_cp - out, TILE_WIDTH);
    float *to = job->packed + (size_t)out * (size_t)plan->in_cp * ELEMENTS;
    size_t plane = (size_t)plan->in_cp * (size_t)width;
    for (int c = 0; c < plan->in_cp; c++)
        for (int o = 0; o < width; o++, to++) {
            float half[3][4], whole[4], column[3];
            bool known = c < plan->in_c && out + o < plan->out_c;
            const float *from = job->weight + (known ? (size_t)(out + o) * layout->out_stride +
                                                           (size_t)c * layout->in_stride : 0);
            for (int y = 0; y < 3; y++) {
                for (int x = 0; x < 3; x++) {
                    int tap_y = plan->y[0].kernel_first + y * plan->y[0].kernel_step;
                    int tap_x = plan->x[0].kernel_first + x * plan->x[0].kernel_step;
                    column[x] = known ? from[tap_y * 3 + tap_x] : 0;
                }
                transform_kernel(column, half[y]);
            }
            for (int x = 0; x < 4; x++) {
                for (int y = 0; y < 3; y++)
                    column[y] = half[y][x];
                transform_kernel(column, whole);
                for (int y = 0; y < 4; y++)
                    to[(size_t)(y * 4 + x) * plane] = whole[y];
            }
        }
}

void RC_FAST(pack_winograd)(rc_cpu *cpu, const conv_plan *plan, const float *weight, float *packed)
{
    pack_job job = {plan, weight, packed};
    rc_pool_run(cpu->pool, (plan->out_cp + TILE_WIDTH - 1) / TILE_WIDTH, pack_task, &job);
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

/* B^T times a column of four pixels. */
RC_INLINE void transform_column(const float *d, ptrdiff_t width, vec to[4])
{
    vec d0 = vec_load(d), d1 = vec_load(d + width), d2 = vec_load(d + 2 * width), d3 = vec_load(d + 3 * width);
    to[0] = d0 - d2;
    to[1] = d1 + d2;
    to[2] = d2 - d1;
    to[3] = d1 - d3;
}

/* The columns of a tile, times B, to its 16 places. */
RC_INLINE void store_tile(const vec c0[4], const vec c1[4], const vec c2[4], const vec c3[4], float *to,
                          const element_layout *layout)
{
    for (int i = 0; i < 4; i++, to += layout->row) {
        vec_store(to, c0[i] - c2[i]);
        vec_store(to + layout->column, c1[i] + c2[i]);
        vec_store(to + 2 * layout->column, c2[i] - c1[i]);
        vec_store(to + 3 * layout->column, c1[i] - c3[i]);
    }
}

void RC_FAST(transform_inputs)(const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels, float *to,
                               const element_layout *given)
{
    element_layout layout = *given;
    if (TILE_FOURS)
        layout.column = RC_LANES; /* as it is: a constant for the compiler */
    for (int c = 0; c < channels; c += RC_LANES, row += RC_LANES, to += layout.vector) {
        const float *from = row;
        float *at = to;
        /* Neighbours share two columns: each is transformed once. Two tiles a turn, so that nothing has to be moved. */
        vec a[4], b[4], p[4], q[4];
        transform_column(from, width, a);
        transform_column(from + pixel, width, b);
        int t = 0;
        for (; t + 2 <= tiles; t += 2, from += 4 * pixel, at += 2 * layout.tile) {
            transform_column(from + 2 * pixel, width, p);
            transform_column(from + 3 * pixel, width, q);
            store_tile(a, b, p, q, at, &layout);
            transform_column(from + 4 * pixel, width, a);
            transform_column(from + 5 * pixel, width, b);
            store_tile(p, q, a, b, at + layout.tile, &layout);
        }
        if (t < tiles) {
            transform_column(from + 2 * pixel, width, p);
            transform_column(from + 3 * pixel, width, q);
            store_tile(a, b, p, q, at, &layout);
        }
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* The four combinations of two numbers that the rows of A make. */
RC_INLINE void transform_pair(vec y0, vec y1, vec to[4])
{
    to[0] = y0;
    to[1] = y0 + y1;
    to[2] = y0 - y1;
    to[3] = y1;
}

void RC_FAST(transform_gradients)(const float *row, ptrdiff_t pixel, ptrdiff_t width, int tiles, int channels,
                                  float *to, const element_layout *given)
{
    element_layout layout = *given;
    if (TILE_FOURS)
        layout.column = RC_LANES;
    for (int c = 0; c < channels; c += RC_LANES, row += RC_LANES, to += layout.vector)
        for (int t = 0; t < tiles; t++) {
            const float *from = row + 2 * t * pixel;
            float *at = to + t * layout.tile;
            vec left[4], right[4];
            transform_pair(vec_load(from), vec_load(from + width), left);
            transform_pair(vec_load(from + pixel), vec_load(from + width + pixel), right);
            for (int i = 0; i < 4; i++, at += layout.row) {
                vec whole[4];
                transform_pair(left[i], right[i], whole);
                for (int j = 0; j < 4; j++)
                    vec_store(at + j * layout.column, whole[j]);
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
    float *out;     /* (2, out_w, out_cp): the first channel of the block */
    ptrdiff_t row, pixel;
    int out_w;
    bool below;     /* the second row exists */
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
    return lay_out_elements(plan->tiles, round_up(plan->in_cp, RC_LANES), round_up(plan->in_cp, RC_LANES));
}

/* Products are (output blocks, elements, tiles, TILE_WIDTH): floats from element to element, a line more than the
 * tiles so that the elements of a tile do not share places in the cache. */
static ptrdiff_t product_plane(const conv_plan *plan)
{
    return (ptrdiff_t)plan->tiles * TILE_WIDTH + CHUNK;
}

static float *products_of(const conv_plan *plan, const float *workspace, int out)
{
    return (float *)(uintptr_t)workspace + element_floats(plan->tiles, round_up(plan->in_cp, RC_LANES)) +
           (ptrdiff_t)(out / TILE_WIDTH) * ELEMENTS * product_plane(plan);
}

size_t RC_FAST(winograd_floats)(const conv_plan *plan)
{
    int blocks = (plan->out_cp + TILE_WIDTH - 1) / TILE_WIDTH;
    return element_floats(plan->tiles, round_up(plan->in_cp, RC_LANES)) +
           (size_t)blocks * ELEMENTS * (size_t)product_plane(plan);
}

void RC_FAST(winograd_inputs)(const conv_plan *plan, const band *band, int first, int last, int tile, float *workspace)
{
    int across = (plan->out_w + 1) / 2, pixel = band_pixel(band, 0);
    element_layout layout = layout_of_inputs(plan);
    for (int y = first; y < last; y += 2, tile += across)
        RC_FAST(transform_inputs)(band_row(band, y + plan->first_y, 0), pixel, (ptrdiff_t)band->width * pixel, across,
                                  plan->in_cp, workspace + tile * layout.tile, &layout);
}

/* A row of elements at a time: its inputs stay in the first cache over all outputs. */
void RC_FAST(winograd_multiply)(const conv_plan *plan, const float *packed, int tiles, float *workspace)
{
    static const float zeros[TILE_WIDTH];
    element_layout layout = layout_of_inputs(plan);
    for (int i = 0; i < 4; i++)
        for (int out = 0; out < plan->out_cp; out += TILE_WIDTH) {
            int width = tile_width(plan->out_cp - out, TILE_WIDTH);
            ptrdiff_t weights = (ptrdiff_t)plan->in_cp * width;
            tile_row row = {.x = workspace + i * layout.row, .x_pixel = layout.tile, .rows = 1, .run = plan->in_cp,
                            .x_four = TILE_FOURS ? layout.vector : 4,
                            .w = packed + (size_t)out * (size_t)plan->in_cp * ELEMENTS + 4 * i * weights,
                            .start = zeros, .y = products_of(plan, workspace, out) + 4 * i * product_plane(plan),
                            .y_pixel = width, .pixels = tiles, .width = width, .channels = width, .batch = 4,
                            .x_batch = layout.column, .w_batch = weights, .y_batch = product_plane(plan)};
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
            output_row finished = {.m = products_of(plan, workspace, c) + tile * width, .plane = product_plane(plan),
                                   .width = width, .tiles = across, .out = out + y * row + c, .row = row,
                                   .pixel = plan->out_cp, .out_w = plan->out_w, .below = y + 1 < plan->out_h,
                                   .start = start ? start + c : NULL};
            finish_tiles(&finished, smaller(width, plan->out_cp - c));
        }
}
