/* Pictures that the program draws itself: a textured, coloured shape somewhere on a noisy ground. A class is a
 * combination of shape, texture and colour; position, size, rotation, brightness, ground, clutter and noise are random.
 * Only additions, multiplications and divisions are used, so the pictures are the same bytes on every machine. */
#ifndef RC_DATA_PROCEDURAL_H
#define RC_DATA_PROCEDURAL_H

#include <stddef.h>
#include <stdint.h>

/* Grey pictures have at most 60 classes, because beyond those only colour tells classes apart. */
enum { RC_PROCEDURAL_COLOUR_CLASSES = 420, RC_PROCEDURAL_GREY_CLASSES = 60 };

/* Picture `index` of a class; pictures for testing (`test`) differ from those for training. out: (size, size,
 * channels). */
void rc_procedural_draw(uint64_t seed, int label, uint32_t index, int test, int size, int channels, uint8_t *out);

/* "ring-striped-red"; without the colour where there is one channel. */
void rc_procedural_name(int label, int channels, char *text, size_t size);

#endif
