/* Nearest neighbour x 2 followed by a 3 x 3 convolution with a border of 1: 9 multiplications per input pixel for its 4
 * outputs, where the enlarged image would take 36.
 *
 * Along one axis, with taps w0, w1, w2, pixel i makes the outputs
 *     even:  x[i-1] w0 + x[i] (w1 + w2)   =  x[i] S + D[i-1] Q        S = w0 + w1 + w2, Q = -w0
 *     odd:   x[i] (w0 + w1) + x[i+1] w2   =  x[i] S + D[i] R          R = w2,  D[i] = x[i+1] - x[i]
 * which are three products for two outputs. In two dimensions every factor is one along the rows times one along the
 * columns: four planes of inputs, x, its differences along columns, rows and both, meet nine kernels
 *     plane x: SS      plane Dx: SR SQ      plane Dy: RS QS      plane Dxy: RR RQ QR QQ
 * and each output is a sum of four products. Around x there are zeros, so D runs from -1 to the last pixel.
 *
 * The gradients are the same scheme read backwards. For the data, every kernel meets the gradients of the outputs that
 * it made, for S summed over both, and dx[i] = (of x)[i] + (of D)[i-1] - (of D)[i]. For the weights, every plane meets
 * the same sums, and w0, w1, w2 collect S - Q, S, S + R. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_ENLARGED_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_ENLARGED_H

#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/conv_plan.h"

enum { ENLARGED_PLANES = 4, ENLARGED_KERNELS = 9 };

/* How many kernels meet a plane; they are numbered in the order above. */
static inline int enlarged_kernels(int plane)
{
    return plane == 0 ? 1 : plane == 3 ? 4 : 2;
}

/* Pixels of a plane for `rows` rows of `w` pixels. */
static inline int enlarged_pixels(int plane, int rows, int w)
{
    return (rows + plane / 2) * (w + plane % 2);
}

/* Whether the convolution has this form and enough channels to pay. */
bool RC_FAST(enlarged_fits)(const rc_conv *conv);

size_t RC_FAST(enlarged_floats)(const conv_plan *plan, int rows); /* of workspace, for `rows` rows of pixels */
rc_phase RC_FAST(pack_enlarged)(pack_job *job);

/* Pixel rows [first, last) of an image, forward to their outputs or backward from them. The band holds what they read.
 * start (out channels, padded): what the sums start from; NULL: from what out holds. */
void RC_FAST(enlarged_forward)(const conv_plan *plan, const row_band *band, const float *packed, const float *start,
                               float *out, int first, int last, float *workspace);
void RC_FAST(enlarged_backward)(const conv_plan *plan, const row_band *band, const float *packed, bool add, float *out,
                                int first, int last, float *workspace);

/* The planes of inputs made of block b of a band of x, to[1 .. 3], each (rows, pixels, channels of the block); plane 0
 * is the band itself. `w` pixels in a row. */
void RC_FAST(enlarged_differences)(const row_band *x, int b, int w, int first, int last,
                                   float *const to[ENLARGED_PLANES]);
/* What the kernels of a plane meet, made of block b of a band of dy: to[0] (rows, w), pairs of rows and columns summed;
 * to[1] (rows, 2 w + 2), pairs of rows, borders included; to[2] (2 rows + 2, w), pairs of columns, from row
 * 2 first - 1 on. Plane 3 is the band itself. */
void RC_FAST(enlarged_sums)(const row_band *dy, int b, int w, int first, int last, float *const to[ENLARGED_PLANES]);
/* Pixels of to[plane]. */
static inline int enlarged_sum_pixels(int plane, int rows, int w)
{
    return plane == 0 ? rows * w : plane == 1 ? rows * (2 * w + 2) : plane == 2 ? (2 * rows + 2) * w : 0;
}

/* The gradients of the kernels to those of the taps, for `count` weights side by side; kernels and taps are `plane`
 * floats apart. */
void RC_FAST(enlarged_taps)(const float *gradients, size_t plane, int count, float *taps);

#endif
