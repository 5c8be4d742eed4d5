#include "backend/cpu/fast/convolution/narrow.h"

#include <string.h>

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/product/tile.h"

bool RC_FAST(narrow_fits)(const tap_geometry *taps, int in_cp, int out_c)
{
    bool fills_badly = RC_LANES > 4; /* vectors of four are filled well enough */
    return fills_badly && taps->stride == 1 && taps->k > 1 && out_c <= 4 && in_cp >= 16;
}

/* Products of a pixel: tap t of output o is number t * out + o; whole vectors. */
static int products(const conv_plan *plan)
{
    int count = plan->taps.k * plan->taps.k * plan->out_c;
    return (count + RC_LANES - 1) / RC_LANES * RC_LANES;
}

size_t RC_FAST(narrow_floats)(const conv_plan *plan, int rows)
{
    /* Four numbers are read where there may be one. */
    return (size_t)(rows + plan->taps.k - 1) * (size_t)plan->width * (size_t)products(plan) + 4;
}

size_t RC_FAST(narrow_packed_floats)(const conv_plan *plan)
{
    return (size_t)plan->in_cp * (size_t)products(plan);
}

/* (blocks of products, in, products of the block) */
void RC_FAST(pack_narrow)(const conv_plan *plan, const float *weight, float *packed)
{
    int k = plan->taps.k, count = k * k * plan->out_c;
    for (int first = 0; first < products(plan); first += TILE_WIDTH) {
        int width = tile_width(products(plan) - first, TILE_WIDTH);
        for (int c = 0; c < plan->in_cp; c++)
            for (int p = first; p < first + width; p++, packed++) {
                int tap = p / plan->out_c, out = p % plan->out_c;
                int tap_y = plan->y[0].kernel_first + tap / k * plan->y[0].kernel_step;
                int tap_x = plan->x[0].kernel_first + tap % k * plan->x[0].kernel_step;
                bool known = p < count && c < plan->in_c;
                *packed = known ? weight[(size_t)out * plan->weights.out_stride + (size_t)c * plan->weights.in_stride +
                                         (size_t)(tap_y * k + tap_x)]
                                : 0;
            }
    }
}

/* The products of one row of the band, borders included, to (width, products). */
static void multiply_row(const conv_plan *plan, const row_band *band, const float *packed, int row, float *to)
{
    static const float zeros[TILE_WIDTH];
    int count = products(plan), right = band->width - band->left - plan->in_w;
    if (row < 0 || row >= plan->in_h) {
        memset(to, 0, (size_t)(band->width * count) * sizeof(float));
        return;
    }
    memset(to, 0, (size_t)(band->left * count) * sizeof(float));
    memset(to + (band->width - right) * count, 0, (size_t)(right * count) * sizeof(float));
    for (int first = 0; first < count; first += TILE_WIDTH) {
        int width = tile_width(count - first, TILE_WIDTH);
        tile_row tiles = {.x = band_row(band, row, 0) + band->left * plan->in_cp,
                          .x_pixel = plan->in_cp,
                          .rows = 1,
                          .run = plan->in_cp,
                          .x_chunk = TILE_CHUNK,
                          .w = packed + (ptrdiff_t)first * plan->in_cp,
                          .start = zeros,
                          .y = to + band->left * count + first,
                          .y_pixel = count,
                          .pixels = plan->in_w,
                          .width = width,
                          .channels = width,
                          .batch = 1};
        RC_FAST(tile_row)(&tiles);
    }
}

/* An output row from the products of the k rows that it reads. */
static void sum_row(const conv_plan *plan, const float *rows, const float *start, float *out)
{
    int k = plan->taps.k, count = products(plan);
    vec_four keep = {0}, from = {0};
    for (int o = 0; o < plan->out_c; o++)
        keep[o] = 1;
    if (start)
        from = *(const vec_four *)start;
    for (int x = 0; x < plan->out_w; x++, out += 4) {
        vec_four sum = {0};
        for (int ky = 0; ky < k; ky++) {
            const float *pixel = rows + ((ptrdiff_t)ky * plan->width + x) * count + ky * k * plan->out_c;
            for (int kx = 0; kx < k; kx++, pixel += count + plan->out_c)
                sum += *(const vec_four *)pixel;
        }
        /* Beyond the outputs there are products of the next tap. */
        *(vec_four *)out = sum * keep + (start ? from : *(const vec_four *)out);
    }
}

void RC_FAST(run_narrow)(const conv_plan *plan, const row_band *band, const float *packed, const float *start,
                         float *out, int first, int last, float *workspace)
{
    ptrdiff_t row = (ptrdiff_t)plan->width * products(plan);
    int shift = band->left + plan->x[0].first; /* 0, unless the border is wider than the taps reach */
    for (int y = first; y < last + plan->taps.k - 1; y++)
        multiply_row(plan, band, packed, y + plan->first_y, workspace + (y - first) * row);
    for (int y = first; y < last; y++)
        sum_row(plan, workspace + (y - first) * row + shift * products(plan), start,
                out + (ptrdiff_t)y * plan->out_w * 4);
}
