#include "backend/cpu/fast/convolution/enlarged.h"

#include "backend/cpu/fast/ints.h"
#include "backend/cpu/fast/product/tile.h"

bool RC_FAST(enlarged_fits)(const rc_conv *conv)
{
    enum { FEWEST = 8 };
    return conv->up == 2 && conv->k == 3 && conv->stride == 1 && conv->pad == 1 && !conv->transposed &&
           conv->oh == 2 * conv->h && conv->ow == 2 * conv->w && conv->c_in >= FEWEST && conv->c_out >= FEWEST;
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

typedef enum factor { S, Q, R } factor;

static const struct {
    factor row, column;
} kernels[ENLARGED_KERNELS] = {{S, S}, {S, R}, {S, Q}, {R, S}, {Q, S}, {R, R}, {R, Q}, {Q, R}, {Q, Q}};

static float combine(factor f, float w0, float w1, float w2)
{
    return f == S ? w0 + w1 + w2 : f == Q ? -w0 : w2;
}

static float kernel_value(int kernel, const float w[9])
{
    factor column = kernels[kernel].column;
    return combine(kernels[kernel].row, combine(column, w[0], w[1], w[2]), combine(column, w[3], w[4], w[5]),
                   combine(column, w[6], w[7], w[8]));
}

/* Forward the kernels of a plane lie side by side among the outputs, backward one after the other among the inputs:
 * packed is (plane, output block, kernel, in, out of the block) in both, and forward takes kernels one at a time. */
static size_t packed_at(const conv_plan *plan, int out, int kernel)
{
    size_t width = (size_t)tile_width(plan->out_cp - out, TILE_WIDTH), in = (size_t)plan->in_cp;
    return ((size_t)out * ENLARGED_KERNELS + (size_t)kernel * width) * in;
}

static void pack_task(void *context, int task, int worker)
{
    (void)worker;
    const pack_job *job = context;
    const conv_plan *plan = job->plan;
    /* The layout of the plan counts 4 x 4 taps, the weights have 3 x 3. */
    size_t out_stride = plan->weights.out_stride / 16 * 9, in_stride = plan->weights.in_stride / 16 * 9;
    int out = task * TILE_WIDTH, width = tile_width(plan->out_cp - out, TILE_WIDTH);
    for (int kernel = 0; kernel < ENLARGED_KERNELS; kernel++) {
        float *to = job->packed + packed_at(plan, out, kernel);
        for (int c = 0; c < plan->in_cp; c++)
            for (int o = 0; o < width; o++, to++) {
                bool known = c < plan->in_c && out + o < plan->out_c;
                *to = known ? kernel_value(kernel, job->weight + (size_t)(out + o) * out_stride + (size_t)c * in_stride)
                            : 0;
            }
    }
}

rc_phase RC_FAST(pack_enlarged)(pack_job *job)
{
    return (rc_phase){(job->plan->out_cp + TILE_WIDTH - 1) / TILE_WIDTH, pack_task, job};
}

void RC_FAST(enlarged_taps)(const float *gradients, size_t plane, int count, float *taps)
{
    enum { SS, SR, SQ, RS, QS, RR, RQ, QR, QQ };
    static const int of[3][3] = {[S] = {[S] = SS, [Q] = SQ, [R] = SR},
                                 [Q] = {[S] = QS, [Q] = QQ, [R] = QR},
                                 [R] = {[S] = RS, [Q] = RQ, [R] = RR}};
    for (int i = 0; i < count; i++) {
        float half[3][3]; /* (factor along rows, tap along columns) */
        for (int f = 0; f < 3; f++) {
            float s = gradients[(size_t)of[f][S] * plane + i];
            half[f][0] = s - gradients[(size_t)of[f][Q] * plane + i];
            half[f][1] = s;
            half[f][2] = s + gradients[(size_t)of[f][R] * plane + i];
        }
        for (int x = 0; x < 3; x++) {
            taps[(size_t)x * plane + i] = half[S][x] - half[Q][x];
            taps[(size_t)(3 + x) * plane + i] = half[S][x];
            taps[(size_t)(6 + x) * plane + i] = half[S][x] + half[R][x];
        }
    }
}

/* ---- planes ---------------------------------------------------------------------------------------------------- */

/* A row of the band begins with its border: in it, difference i - 1 belongs to place i. */
void RC_FAST(enlarged_differences)(const row_band *x, int b, int w, int first, int last,
                                   float *const to[ENLARGED_PLANES])
{
    size_t c = (size_t)band_pixel(x, b), inside = (size_t)w * c, across = inside + c;
    for (int y = first - 1; y < last; y++) {
        const float *row = band_row(x, y, b), *below = band_row(x, y + 1, b);
        float *along = to[1] + (size_t)(y - first) * across, *down = to[2] + (size_t)(y - first + 1) * inside;
        float *both = to[3] + (size_t)(y - first + 1) * across;
        for (size_t i = 0; y >= first && i < across; i++)
            along[i] = row[i + c] - row[i];
        for (size_t i = 0; i < inside; i++)
            down[i] = below[i + c] - row[i + c];
        for (size_t i = 0; i < across; i++)
            both[i] = (below[i + c] - below[i]) - (row[i + c] - row[i]);
    }
}

/* to (pixels, c) = sums of neighbours. */
static void sum_pairs(const float *restrict from, int pixels, int c, float *restrict to)
{
    for (int x = 0; x < pixels; x++, to += c, from += 2 * c)
        for (int i = 0; i < c; i++)
            to[i] = from[i] + from[c + i];
}

void RC_FAST(enlarged_sums)(const row_band *dy, int b, int w, int first, int last, float *const to[ENLARGED_PLANES])
{
    int c = band_pixel(dy, b);
    size_t across = (size_t)(2 * w + 2) * (size_t)c;
    for (int y = first; y < last; y++) {
        const float *even = band_row(dy, 2 * y, b), *odd = band_row(dy, 2 * y + 1, b);
        float *rows = to[1] + (size_t)(y - first) * across;
        for (size_t i = 0; i < across; i++)
            rows[i] = even[i] + odd[i];
        sum_pairs(rows + c, w, c, to[0] + (ptrdiff_t)(y - first) * w * c);
    }
    for (int row = 2 * first - 1; row < 2 * last + 1; row++)
        sum_pairs(band_row(dy, row, b) + c, w, c, to[2] + (ptrdiff_t)(row - 2 * first + 1) * w * c);
}

/* ---- workspace ------------------------------------------------------------------------------------------------- */

/* Inputs of a plane and their products, each (pixels, ...). */
typedef struct planes {
    float *in[ENLARGED_PLANES], *product[ENLARGED_PLANES];
} planes;

/* Forward: the three planes of differences, and products of all kernels. Backward: pairs of pixels summed along rows,
 * along columns (two rows each, and one more), and along both; and one product for every plane. */
static size_t carve(const conv_plan *plan, int rows, float *workspace, planes *p)
{
    int w = plan->taps.scatter ? plan->in_w : plan->out_w, in = plan->in_cp, out = plan->out_cp;
    size_t used = 0;
    for (int plane = 0; plane < ENLARGED_PLANES; plane++) {
        int pixels = enlarged_pixels(plane, rows, w), kernels_met = enlarged_kernels(plane);
        int inputs_pixels = plan->taps.scatter ? (plane == 0 ? 0 : pixels) : enlarged_sum_pixels(plane, rows, w);
        size_t inputs = (size_t)inputs_pixels * (size_t)in;
        p->in[plane] = workspace + used;
        used += line_floats(inputs);
        p->product[plane] = workspace + used;
        used += line_floats((size_t)pixels * (size_t)((plan->taps.scatter ? kernels_met : 1) * out));
    }
    return used;
}

size_t RC_FAST(enlarged_floats)(const conv_plan *plan, int rows)
{
    planes p;
    static float nothing[1];
    return carve(plan, rows, nothing, &p);
}

/* One product on the tiles: `pixels` pixels, the runs of `kernels` from number `kernel` on, to out channels from y. */
static void multiply(const conv_plan *plan, const tile_row *inputs, const float *packed, int kernel, float *y,
                     ptrdiff_t y_pixel)
{
    static const float zeros[TILE_WIDTH];
    for (int out = 0; out < plan->out_cp; out += TILE_WIDTH) {
        tile_row row = *inputs;
        row.w = packed + packed_at(plan, out, kernel);
        row.x_chunk = TILE_CHUNK;
        row.start = zeros;
        row.y = y + out;
        row.y_pixel = y_pixel;
        row.width = tile_width(plan->out_cp - out, TILE_WIDTH);
        row.channels = smaller(row.width, plan->out_cp - out);
        row.batch = 1;
        RC_FAST(tile_row)(&row);
    }
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

/* to (c) = start + a + b + c + d. */
static void add_four(const float *restrict start, const float *restrict a, const float *restrict b,
                     const float *restrict c, const float *restrict d, int count, float *restrict to)
{
    for (int i = 0; i < count; i++)
        to[i] = start[i] + ((a[i] + b[i]) + (c[i] + d[i]));
}

/* The four outputs of every pixel of row y. */
static void finish_outputs(const conv_plan *plan, const planes *p, int y, int first, const float *start, float *out)
{
    int w = plan->in_w, c = plan->out_cp;
    ptrdiff_t out_row = (ptrdiff_t)plan->out_w * c;
    float *to = out + 2 * y * out_row;
    const float *x = p->product[0] + (ptrdiff_t)(y - first) * w * c;
    const float *dx = p->product[1] + (ptrdiff_t)(y - first) * (w + 1) * 2 * c;                       /* (R, Q) */
    const float *dy = p->product[2] + (ptrdiff_t)(y - first) * w * 2 * c;                             /* row y - 1 */
    const float *dxy = p->product[3] + (ptrdiff_t)(y - first) * (w + 1) * 4 * c;                      /* row y - 1 */
    const float *dy_below = dy + (ptrdiff_t)w * 2 * c, *dxy_below = dxy + (ptrdiff_t)(w + 1) * 4 * c; /* row y */
    for (int i = 0; i < w; i++, to += 2 * c, x += c, dx += 2 * c, dy += 2 * c, dxy += 4 * c) {
        /* dx and dxy stand at difference i - 1; the next one is i. Of four: RR, RQ, QR, QQ. */
        add_four(start, x, dx + c, dy + c, dxy + 3 * c, c, to);
        add_four(start, x, dx + 2 * c, dy + c, dxy + 4 * c + 2 * c, c, to + c);
        add_four(start, x, dx + c, dy_below, dxy_below + c, c, to + out_row);
        add_four(start, x, dx + 2 * c, dy_below, dxy_below + 4 * c, c, to + out_row + c);
        dy_below += 2 * c;
        dxy_below += 4 * c;
    }
}

void RC_FAST(enlarged_forward)(const conv_plan *plan, const row_band *band, const float *packed, const float *start,
                               float *out, int first, int last, float *workspace)
{
    planes p;
    int rows = last - first, w = plan->in_w, in = plan->in_cp, out_cp = plan->out_cp, kernel = 0;
    carve(plan, rows, workspace, &p);
    RC_FAST(enlarged_differences)(band, 0, w, first, last, p.in);
    for (int y = first; y < last; y++) {
        tile_row row = {.x = band_row(band, y, 0) + in, .x_pixel = in, .rows = 1, .run = in, .pixels = w};
        multiply(plan, &row, packed, 0, p.product[0] + (ptrdiff_t)(y - first) * w * out_cp, out_cp);
    }
    for (int plane = 0; plane < ENLARGED_PLANES; kernel += enlarged_kernels(plane++))
        for (int k = 0; plane > 0 && k < enlarged_kernels(plane); k++) {
            tile_row row = {
                .x = p.in[plane], .x_pixel = in, .rows = 1, .run = in, .pixels = enlarged_pixels(plane, rows, w)};
            multiply(plan, &row, packed, kernel + k, p.product[plane] + k * out_cp,
                     (ptrdiff_t)enlarged_kernels(plane) * out_cp);
        }
    for (int y = first; y < last; y++)
        finish_outputs(plan, &p, y, first, start, out);
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* dx of row y. */
static void finish_pixels(const conv_plan *plan, const planes *p, int y, int first, bool add, float *out)
{
    int w = plan->out_w, c = plan->out_cp;
    ptrdiff_t across = (ptrdiff_t)(w + 1) * c;
    float *to = out + (ptrdiff_t)y * w * c;
    const float *x = p->product[0] + (ptrdiff_t)(y - first) * w * c, *dx = p->product[1] + (y - first) * across;
    const float *dy = p->product[2] + (ptrdiff_t)(y - first) * w * c, *dxy = p->product[3] + (y - first) * across;
    for (int i = 0; i < w * c; i++) {
        /* Differences i - 1 and i lie c apart, those of rows y - 1 and y a row. */
        float sum = (x[i] + (dx[i] - dx[i + c])) + (dy[i] - dy[i + (ptrdiff_t)w * c]) +
                    ((dxy[i] - dxy[i + c]) - (dxy[i + across] - dxy[i + across + c]));
        to[i] = add ? to[i] + sum : sum;
    }
}

void RC_FAST(enlarged_backward)(const conv_plan *plan, const row_band *band, const float *packed, bool add, float *out,
                                int first, int last, float *workspace)
{
    planes p;
    int rows = last - first, w = plan->out_w, in = plan->in_cp, c = plan->out_cp;
    ptrdiff_t band_width = (ptrdiff_t)band->width * in;
    carve(plan, rows, workspace, &p);
    RC_FAST(enlarged_sums)(band, 0, w, first, last, p.in);
    tile_row both = {.x = p.in[0], .x_pixel = in, .rows = 1, .run = in, .pixels = rows * w};
    multiply(plan, &both, packed, 0, p.product[0], c);
    /* Difference i meets R at column 2 i + 1 and Q at 2 i + 2, which are neighbours; so are the rows. */
    for (int y = 0; y < rows; y++) {
        tile_row row = {.x = p.in[1] + (ptrdiff_t)y * (2 * w + 2) * in,
                        .x_pixel = 2 * in,
                        .rows = 1,
                        .run = 2 * in,
                        .pixels = w + 1};
        multiply(plan, &row, packed, 1, p.product[1] + (ptrdiff_t)y * (w + 1) * c, c);
    }
    for (int y = 0; y < rows + 1; y++) {
        tile_row row = {.x = p.in[2] + (ptrdiff_t)(2 * y) * w * in,
                        .x_pixel = in,
                        .x_row = (ptrdiff_t)w * in,
                        .rows = 2,
                        .run = in,
                        .pixels = w};
        multiply(plan, &row, packed, 3, p.product[2] + (ptrdiff_t)y * w * c, c);
    }
    for (int y = 0; y < rows + 1; y++) {
        tile_row row = {.x = band_row(band, 2 * (first + y) - 1, 0),
                        .x_pixel = 2 * in,
                        .x_row = band_width,
                        .rows = 2,
                        .run = 2 * in,
                        .pixels = w + 1};
        multiply(plan, &row, packed, 5, p.product[3] + (ptrdiff_t)y * (w + 1) * c, c);
    }
    for (int y = first; y < last; y++)
        finish_pixels(plan, &p, y, first, add, out);
}
