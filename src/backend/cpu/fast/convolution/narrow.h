/* Convolutions of step 1 with few outputs: the last layer of a generator, the gradient of an image.
 *
 * Three outputs fill a vector badly. But the products of an input pixel with all taps, k * k * outputs numbers, are
 * one matrix product (pixels, in) x (in, taps * out) without waste, and an output is the sum of those that its taps
 * made. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_NARROW_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_NARROW_H

#include "backend/cpu/fast/convolution/band.h"
#include "backend/cpu/fast/convolution/conv_plan.h"

bool RC_FAST(narrow_fits)(const tap_geometry *taps, int in_cp, int out_c);

size_t RC_FAST(narrow_floats)(const conv_plan *plan, int rows); /* of workspace, for `rows` output rows */
size_t RC_FAST(narrow_packed_floats)(const conv_plan *plan);
void RC_FAST(pack_narrow)(const conv_plan *plan, const float *weight, float *packed);

/* Output rows [first, last) of an image from a band that holds their input rows. start (4): what the sums start from;
 * NULL: from what out (out_h, out_w, 4) holds. */
void RC_FAST(run_narrow)(const conv_plan *plan, const row_band *band, const float *packed, const float *start,
                         float *out, int first, int last, float *workspace);

#endif
