/* Images of a data set that are there twice: the same bytes, once they have been brought to one size. */
#ifndef RC_DATA_TWINS_H
#define RC_DATA_TWINS_H

#include "data/dataset.h"

typedef struct rc_twins {
    int divided;    /* images that lie in two classes or more, each counted wherever it lies */
    int classes[2]; /* two native classes that share such an image: of those that share one, the first in the set */
    int held_out;   /* test images that are training images, too */
} rc_twins;

/* For images that lie in memory. */
rc_status rc_dataset_find_twins(const rc_dataset *data, rc_twins *twins);

#endif
