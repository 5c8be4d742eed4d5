/* The weight gradient of a 3 x 3 convolution on an enlarged input, kernel by kernel (enlarged.h). In the words of
 * weight_plan.h, big is dy and small is x. */
#include "backend/cpu/fast/convolution/conv_weight.h"
#include "backend/cpu/fast/convolution/enlarged.h"
#include "backend/cpu/fast/product/tile.h"

/* The transformed bands of an image: (blocks, planes, pixels, channels of the block), sums of dy, then planes of x. */
static float *big_planes(const weight_group *group, int image, int b, float *to[ENLARGED_PLANES])
{
    const weight_plan *plan = group->plan;
    float *at = group->transformed + (size_t)image * plan->big_pixels * (size_t)plan->big_cp +
                (size_t)(b * plan->big_block) * plan->big_pixels;
    for (int plane = 0; plane < ENLARGED_PLANES; plane++) {
        to[plane] = at;
        at += enlarged_sum_pixels(plane, plan->rows, plan->small_w) * big_pixel(plan, b);
    }
    return to[0];
}

static float *small_planes(const weight_group *group, int image, int b, float *to[ENLARGED_PLANES])
{
    const weight_plan *plan = group->plan;
    float *at = group->transformed + (size_t)plan->images * plan->big_pixels * (size_t)plan->big_cp +
                (size_t)image * plan->small_pixels * (size_t)plan->small_cp +
                (size_t)(b * plan->small_block) * plan->small_pixels;
    to[0] = at;
    for (int plane = 1; plane < ENLARGED_PLANES; plane++) {
        to[plane] = at;
        at += enlarged_pixels(plane, plan->rows, plan->small_w) * band_pixel(&group->small[0], b);
    }
    return to[0];
}

static void transform_bands(const weight_group *group, int first, int last)
{
    int w = group->plan->small_w;
    for (int i = 0; i < group->images; i++) {
        float *to[ENLARGED_PLANES];
        for (int b = 0; b < band_blocks(&group->big[i]); b++) {
            big_planes(group, i, b, to);
            RC_FAST(enlarged_sums)(&group->big[i], b, w, first, last, to);
        }
        for (int b = 0; b < band_blocks(&group->small[i]); b++) {
            small_planes(group, i, b, to);
            RC_FAST(enlarged_differences)(&group->small[i], b, w, first, last, to);
        }
    }
}

/* What a kernel multiplies: block p->b of dy's sums with a block of x's planes. Differences of rows begin with that of
 * row first - 1; where an earlier band has met it already, with the next. */
static tile_outer operands(const weight_group *group, const weight_piece *p, int small_block, int first, int last)
{
    static const struct {
        int plane, row, column; /* of its plane; 0: R, the odd pixel of a pair, 1: Q, the even one after it */
    } kernels[ENLARGED_KERNELS] = {{0, 0, 0}, {1, 0, 0}, {1, 0, 1}, {2, 0, 0}, {2, 1, 0},
                                   {3, 0, 0}, {3, 0, 1}, {3, 1, 0}, {3, 1, 1}};
    const weight_plan *plan = group->plan;
    const row_band *big = &group->big[0], *small = &group->small[0];
    int plane = kernels[p->line].plane, row = kernels[p->line].row, column = kernels[p->line].column;
    int w = plan->small_w, pixel = big_pixel(plan, p->b), small_pixel = band_pixel(small, small_block);
    int met = plane >= 2 && first > 0, rows = last - first + (plane >= 2 ? 1 : 0) - met;
    float *sums[ENLARGED_PLANES], *planes[ENLARGED_PLANES];
    big_planes(group, 0, p->b, sums);
    small_planes(group, 0, small_block, planes);
    tile_outer t = {.images = group->images,
                    .rows = rows,
                    .pixels = w + plane % 2,
                    .add = group->add,
                    .a_four = 4,
                    .b_vector = RC_LANES,
                    .a_image = (ptrdiff_t)(plan->big_pixels * (size_t)plan->big_cp),
                    .b_image = (ptrdiff_t)(plan->small_pixels * (size_t)plan->small_cp),
                    .a_pixel = pixel,
                    .b_pixel = small_pixel,
                    .b_row = (ptrdiff_t)(w + plane % 2) * small_pixel};
    switch (plane) {
    case 0:
        t.a = sums[0];
        t.a_row = (ptrdiff_t)w * pixel;
        t.b = band_row(small, first, small_block) + small_pixel;
        t.b_row = (ptrdiff_t)plan->small_width * small_pixel;
        t.b_image = (ptrdiff_t)plan->small_floats;
        return t;
    case 1:
        t.a = sums[1] + column * pixel;
        t.a_pixel = 2 * pixel;
        t.a_row = (ptrdiff_t)(2 * w + 2) * pixel;
        break;
    case 2:
        t.a = sums[2] + (ptrdiff_t)(row + 2 * met) * w * pixel;
        t.a_row = (ptrdiff_t)(2 * w) * pixel;
        break;
    default:
        t.a = band_row(big, 2 * (first + met) - 1 + row, p->b) + column * pixel;
        t.a_pixel = 2 * pixel;
        t.a_row = (ptrdiff_t)(2 * plan->width) * pixel;
        t.a_image = (ptrdiff_t)plan->big_floats;
        break;
    }
    t.b = planes[plane] + met * t.b_row;
    return t;
}

void RC_FAST(run_enlarged_pieces)(const weight_group *group, int first, int last, float *slot)
{
    const weight_plan *plan = group->plan;
    transform_bands(group, first, last);
    weight_piece p = {0};
    for (p.line = 0; p.line < plan->lines; p.line++) {
        p.at = (size_t)group->channel * plan->row_floats + (size_t)p.line * plan->line_floats;
        for (p.s = group->channel; p.s < group->channel + group->channels; p.s += p.channels)
            for (p.b = 0; p.b < big_blocks(plan); p.b++) {
                int in_group = p.s - group->channel, b = in_group / plan->small_block;
                tile_outer outer = operands(group, &p, b, first, last);
                const float *a = outer.a;
                outer.b += in_group - b * plan->small_block;
                for (p.f = 0; p.f < RC_FAST(run_of_block)(plan, p.b); p.f += p.floats) {
                    RC_FAST(size_piece)(plan, &p);
                    outer.a = a + p.f;
                    outer.d = slot + p.at;
                    outer.scalars = p.floats;
                    outer.width = p.channels;
                    RC_FAST(tile_outer)(&outer);
                    p.at += piece_size(&p);
                }
            }
    }
}
