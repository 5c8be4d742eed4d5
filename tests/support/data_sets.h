/* Small CIFAR and idx sets, as bytes of their files. Image i is random_image(i). */
#ifndef RC_TESTS_SUPPORT_DATA_SETS_H
#define RC_TESTS_SUPPORT_DATA_SETS_H

#include "support/data_files.h"

/* Three planes of 32 x 32 bytes. */
void data_planes(int image, uint8_t *planes);

/* `count` records; image `first` + i has label (first + i) % classes. */
data_bytes data_cifar_binary(int first, int count, int label_bytes, int classes);

/* The same as Python 2 (or 3, as protocol 2 does it there) pickles it: {"data": array, labels: [...]}; the array may be
 * stored columns first. */
typedef struct data_pickle_style {
    bool python3, fortran;
} data_pickle_style;
data_bytes data_cifar_pickle(int first, int count, const char *labels, int classes, data_pickle_style style);
/* {key: ["name0", "name1", ...]} */
data_bytes data_names_pickle(const char *key, int count);
/* "name0\nname1\n..." */
data_bytes data_names_text(int count);

/* Idx files: random images of h x w, and labels i % classes. */
data_bytes data_idx_images(int count, int h, int w);
data_bytes data_idx_labels(int count, int classes);

#endif
