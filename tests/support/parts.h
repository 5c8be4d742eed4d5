/* Batches that several processes make, each its part. */
#ifndef RC_TESTS_SUPPORT_PARTS_H
#define RC_TESTS_SUPPORT_PARTS_H

#include "backend/backend.h"

/* The three parts of a batch, images (with and without zoom and colour), noise and labels, are those of the batch that
 * is made at once, to the last bit. */
void assert_parts_make_the_batch(rc_backend *be);

#endif
