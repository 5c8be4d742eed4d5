/* CIFAR-10 and CIFAR-100: images as three planes of 32 x 32 bytes, in records or in pickled arrays. */
#ifndef RC_DATA_CIFAR_H
#define RC_DATA_CIFAR_H

#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"

enum { RC_CIFAR_SIDE = 32, RC_CIFAR_PIXELS = RC_CIFAR_SIDE * RC_CIFAR_SIDE, RC_CIFAR_BYTES = 3 * RC_CIFAR_PIXELS };

/* These append the images of one file to the split; `name` is what messages call the file, labels are below
 * `classes`. */

/* The binary layout: records of `label_bytes` labels, of which the last counts, and an image. */
rc_status rc_cifar_parse_binary(const char *name, const uint8_t *data, size_t size, int label_bytes, int classes,
                                rc_split *split);
/* The python layout: a pickled dictionary with "data", an array of bytes (n, 3072), and `labels`, a list of n
 * numbers. */
rc_status rc_cifar_parse_pickle(const char *name, const uint8_t *data, size_t size, const char *labels, int classes,
                                rc_split *split);

#endif
