#ifndef RC_CIL_VIEWS_H
#define RC_CIL_VIEWS_H

#include <stdbool.h>

/* What is asked about for an image: it, its mirror image, and each of them moved by so many pixels up, down, left and
 * right; the pixels that come in have the mean of the data, to the nearest byte, as those around a crop in training
 * have. Zeroed: the image alone. */
typedef struct rc_views {
    bool mirror;
    int shift;
} rc_views;

#endif
