/* The weight gradient of a 3 x 3 convolution of step 1, on tiles (winograd.h). */
#include "backend/cpu/fast/convolution/conv_weight.h"
#include "backend/cpu/fast/convolution/winograd.h"
#include "backend/cpu/fast/ints.h"

static float *big_tiles(const weight_group *group)
{
    return group->transformed;
}

static float *small_tiles(const weight_group *group)
{
    return group->transformed + element_floats(group->plan->tiles, group->plan->big_cp);
}

/* Transforms the rows [first, last) of the bands, to row i of the elements. Returns the number of tiles. */
static int transform_bands(const weight_group *group, int first, int last, int i)
{
    const weight_plan *plan = group->plan;
    int across = plan->small_width / 2, down = (last - first + 1) / 2, pad = plan->taps.pad;
    for (int image = 0; image < group->images; image++)
        for (int ty = 0; ty < down; ty++) {
            int tile = (image * down + ty) * across, row = first + 2 * ty;
            const row_band *big = &group->big[image], *small = &group->small[image];
            for (int b = 0; b < band_blocks(big); b++) {
                int pixel = band_pixel(big, b);
                element_layout layout = lay_out_elements(plan->tiles, plan->big_cp, pixel);
                float *to = big_tiles(group) + element_block(plan->tiles, plan->big_block, b) + tile * layout.tile;
                RC_FAST(transform_inputs)(i, band_row(big, row - pad, b) + (plan->left - pad) * pixel, pixel,
                                          (ptrdiff_t)big->width * pixel, across, pixel, to, &layout);
            }
            for (int b = 0; b < band_blocks(small); b++) {
                int pixel = band_pixel(small, b);
                element_layout layout = lay_out_elements(plan->tiles, plan->small_cp, pixel);
                float *to = small_tiles(group) + element_block(plan->tiles, plan->small_block, b) + tile * layout.tile;
                RC_FAST(transform_gradients)(i, band_row(small, row, b), pixel, (ptrdiff_t)small->width * pixel, across,
                                             pixel, to, &layout);
            }
        }
    return group->images * down * across;
}

/* One piece of the gradient, for the 4 elements of row i: pixels are tiles, all in one row. */
static void run_tiles_piece(const weight_group *group, const weight_piece *p, int tiles, float *slot)
{
    const weight_plan *plan = group->plan;
    int in_group = p->s - group->channel, b = in_group / plan->small_block;
    element_layout big = lay_out_elements(plan->tiles, plan->big_cp, big_pixel(plan, p->b));
    int small_pixel = band_pixel(&group->small[0], b);
    element_layout small = lay_out_elements(plan->tiles, plan->small_cp, small_pixel);
    const float *a = big_tiles(group) + element_block(plan->tiles, plan->big_block, p->b) + element_channel(&big, p->f);
    const float *v = small_tiles(group) + element_block(plan->tiles, plan->small_block, b) +
                     element_channel(&small, in_group - b * plan->small_block);
    tile_outer outer = {.a_four = TILE_FOURS ? big.chunk : 4,
                        .a_pixel = big.tile,
                        .b_vector = element_channel(&small, RC_LANES),
                        .b_pixel = small.tile,
                        .images = 1,
                        .rows = 1,
                        .pixels = tiles,
                        .add = group->add,
                        .scalars = p->floats,
                        .width = p->channels};
    for (int j = 0; j < 4; j++) {
        outer.a = a + j * big.column;
        outer.b = v + j * small.column;
        outer.d = slot + p->at + (size_t)j * plan->line_floats;
        RC_FAST(tile_outer)(&outer);
    }
}

void RC_FAST(run_winograd_pieces)(const weight_group *group, int first, int last, float *slot)
{
    const weight_plan *plan = group->plan;
    weight_piece p = {0};
    for (int i = 0; i < 4; i++) {
        int tiles = transform_bands(group, first, last, i);
        p.line = 4 * i;
        p.at = (size_t)group->channel * plan->row_floats + (size_t)p.line * plan->line_floats;
        for (p.s = group->channel; p.s < group->channel + group->channels; p.s += p.channels)
            for (p.b = 0; p.b < big_blocks(plan); p.b++)
                for (p.f = 0; p.f < RC_FAST(run_of_block)(plan, p.b); p.f += p.floats) {
                    RC_FAST(size_piece)(plan, &p);
                    run_tiles_piece(group, &p, tiles, slot);
                    p.at += piece_size(&p);
                }
    }
}
