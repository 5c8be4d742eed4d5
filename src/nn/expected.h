/* What the features of a net are like on the images that it was trained on, as far as its weights tell. A normalisation
 * knows its own: over these images and all pixels its result has the mean beta and the deviation |gamma|. Taken as a
 * normal distribution, it goes through the activation in closed form. A residual sum adds means and, as if both parts
 * were independent, variances. Pooling keeps the mean. docs/pretrained.md has what it is worth. */
#ifndef RC_NN_EXPECTED_H
#define RC_NN_EXPECTED_H

#include "nn/model.h"

/* Mean and variance of a channel. */
typedef struct rc_moments {
    double mean, variance;
} rc_moments;

/* Of min(max(x, low), high), where x is normal with these moments. Either limit may be infinite. */
rc_moments rc_moments_clipped(rc_moments x, double low, double high);

/* mean (channels of the net's last layer): the features that are to be expected. A channel that no normalisation tells
 * of is NaN. Waits for the backend. */
rc_status rc_expected_features(const rc_model *model, double *mean);

#endif
