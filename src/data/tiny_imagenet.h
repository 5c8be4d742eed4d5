/* The two texts of Tiny-ImageNet's tree. Both are changed while they are read; the byte after the last must be zero,
 * and `name` is what messages call them. */
#ifndef RC_DATA_TINY_IMAGENET_H
#define RC_DATA_TINY_IMAGENET_H

#include "data/image_files.h"

/* wnids.txt: the names of the classes, one on each line. */
rc_status rc_tiny_imagenet_parse_classes(const char *name, char *text, size_t size, rc_dataset *dataset);

/* val_annotations.txt: the pictures in `folder` and their classes, which the data set has. */
rc_status rc_tiny_imagenet_parse_annotations(const char *name, char *text, size_t size, const char *folder,
                                             const rc_dataset *dataset, rc_image_files *files);

#endif
