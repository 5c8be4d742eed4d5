/* How the pixels of a convolution meet, along one axis; both axes are alike.
 *
 * Every pass over the map has one form: the result at position  base * out_step + phase  is the sum over the taps of
 * that phase of  weight * source at  base * source_step + offset. Several positions of the kernel may fall together in
 * one tap: enlarging by two and convolving with k = 3 is four convolutions with 2 x 2 taps on the small map.
 *     forward                      out_step  source_step        data gradient
 *     stride s                     1         s                  s            1
 *     enlarged by 2                2         1                  1            2
 *     transposed, stride s         s         1                  1            s */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_TAPS_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_TAPS_H

#include "backend/cuda/cuda.h"

enum { RC_KERNEL_MAX = 7, RC_AXIS_TAPS = RC_KERNEL_MAX + 1 /* enlarged, backward */, RC_PHASES = 2 };

typedef struct axis_taps {
    int out_step, source_step;
    int count[RC_PHASES];
    int offset[RC_PHASES][RC_AXIS_TAPS];
    unsigned char kernel[RC_PHASES][RC_AXIS_TAPS]; /* bit i: position i of the kernel belongs to the tap */
    int low, high;                                 /* least and greatest offset */
} axis_taps;

/* False: not of this form. */
bool rc_cuda_forward_taps(const rc_conv *conv, axis_taps *taps);
bool rc_cuda_backward_taps(const rc_conv *conv, axis_taps *taps);

#endif
