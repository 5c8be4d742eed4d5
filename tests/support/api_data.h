/* Small data for tests of the public interface: grey images of 16 x 16 pixels with a pattern for each
 * class and noise. */
#ifndef RC_TESTS_SUPPORT_API_DATA_H
#define RC_TESTS_SUPPORT_API_DATA_H

#include "recollect/recollect.h"

enum { API_SIZE = 16, API_IMAGE = API_SIZE * API_SIZE, API_PATTERNS = 6 };

typedef struct api_data {
    uint8_t *pixels;
    int32_t *labels;
    recollect_images images;
    const char *names[API_PATTERNS];
    int classes;
} api_data;

/* Classes with the patterns first .. first + classes - 1; other noise for another seed. free: a zeroed one
 * is fine. */
void api_data_make(api_data *data, int first, int classes, int per_class, unsigned seed);
void api_data_free(api_data *data);

/* Mirrors every image. */
void api_data_mirror(api_data *data);

/* Options with which learning takes a moment: `steps` of each kind. */
void api_set_quick(recollect_model *model, int steps);

/* Percent of images whose most probable class has the name of theirs. */
double api_accuracy(recollect_model *model, const api_data *data);

#endif
