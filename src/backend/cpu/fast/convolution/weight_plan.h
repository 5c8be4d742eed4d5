/* The plan of a convolution's weight gradient (conv_weight.c).
 *
 * Of the two tensors that meet in a convolution one is read with taps, `big`, the other pixel by pixel, `small`:
 *     dW[t][i][j] = sum over pixels p of small of big[p * stride - pad + t][i] * small[p][j]
 * For a plain convolution x is big and dy is small, for a transposed one the other way round. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_WEIGHT_PLAN_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_WEIGHT_PLAN_H

#include "backend/cpu/fast/convolution/conv_plan.h"

enum { SLOTS = 16, MAX_IMAGES = 8, MOST_LANES = 2 * SLOTS, MOST_SPARES = 64 };

typedef struct weight_plan {
    tap_geometry taps;
    int big_h, big_w, big_c, big_cp;
    int small_h, small_w, small_c, small_cp;
    size_t big_stride, small_stride; /* in the weights */
    bool compact;                    /* big has fewer than 4 channels, side by side without padding */
    bool swap;                       /* direct only: vectors run along big, scalars along small */
    int big_block, small_block;      /* channels that lie side by side in the bands */
    int width, left;                 /* of the bands of big, `left` columns of it border */
    int small_width, small_left;     /* of those of small; a border has as many rows as columns */
    int rows, big_rows, images;      /* rows of small, the rows of big that they meet, images in the bands at a time */
    int lines;                       /* lines of the gradient: tap rows, or elements of a tile */
    int bands, units;                /* bands of an image; units of a slot, at most: what the bands hold at a time */
    int most_units;                  /* of a slot, if there are fewer images, too */
    int slots, splits, spares;       /* tasks are slots x splits; spare gradients for those who help */
    size_t slot_floats, big_floats, small_floats; /* floats of a slot, and of one image's bands */

    bool winograd, enlarged;         /* winograd.h, enlarged.h: bands are transformed, lines are elements or kernels */
    int tiles;                       /* winograd: of all images in the bands */
    size_t big_pixels, small_pixels; /* enlarged: what one image's bands are transformed to */
    size_t transformed_floats;
    size_t row_floats, line_floats; /* of the gradient in a slot: see weight_piece */
} weight_plan;

weight_plan RC_FAST(plan_weights)(const rc_conv *conv, int n);

/* The gradient in a slot is cut into pieces: floats [f, f + floats) of the run of line `line` and block b of big, small
 * channels [s, s + channels). In memory a piece is (floats, channels), or (channels, floats) when swapped, and pieces
 * follow each other in this order, the last index fastest: direct (s, b, line, f); transformed (line, s, b, f), because
 * all that belongs to one element or kernel is worked on at a time. Channels s begin at s * row_floats, line l at
 * l * line_floats. */
typedef struct weight_piece {
    int s, channels, b, line, f, floats;
    size_t at; /* where it begins in a slot */
} weight_piece;

/* Sets channels and floats of the piece that begins where the other members say. */
void RC_FAST(size_piece)(const weight_plan *plan, weight_piece *piece);
/* The floats of big that a pixel of small meets in one line of the gradient, of block b. */
int RC_FAST(run_of_block)(const weight_plan *plan, int b);

static inline bool weights_are_transformed(const weight_plan *plan)
{
    return plan->winograd || plan->enlarged;
}

/* Channels of big that are computed with. */
static inline int big_channels(const weight_plan *plan)
{
    return plan->compact ? plan->big_c : plan->big_cp;
}

/* Channels of block b of big, which is also the floats between its pixels. */
static inline int big_pixel(const weight_plan *plan, int b)
{
    int left = big_channels(plan) - b * plan->big_block;
    return left < plan->big_block ? left : plan->big_block;
}

static inline int big_blocks(const weight_plan *plan)
{
    return (big_channels(plan) + plan->big_block - 1) / plan->big_block;
}

#endif
