/* Which images of a data set are held out, to be scored and not trained on. */
#ifndef RC_DATA_HOLD_OUT_H
#define RC_DATA_HOLD_OUT_H

#include <stdint.h>

#include "base/status.h"

/* held_out[i] (count), which must be cleared, becomes 1 for a part of every class: the nearest number of images, but
 * one is left where part is below 1. Which: the first of a permutation that depends on the seed, the label and the
 * number of images. */
rc_status rc_hold_out(const int32_t *labels, int count, int classes, double part, uint64_t seed, int8_t *held_out);

#endif
