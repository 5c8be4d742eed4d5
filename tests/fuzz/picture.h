/* What the targets of the picture formats share: whatever decodes has its pixels, and becomes a square. */
#ifndef RC_TESTS_FUZZ_PICTURE_H
#define RC_TESTS_FUZZ_PICTURE_H

#include "data/image.h"
#include "fuzz/fuzz.h"

/* Few pixels are enough for every path, and leave time for more files. */
static const size_t fuzz_largest_picture = (size_t)1 << 16;

static inline void fuzz_decode(const uint8_t *data, size_t size, int channels)
{
    rc_image image;
    uint8_t square[8 * 8 * 3];
    rc_image_options options = {.channels = channels, .max_pixels = fuzz_largest_picture};
    rc_status status = rc_image_decode(data, size, &options, &image);
    FUZZ_EXPECT((status == RC_OK) == (image.pixels != NULL));
    if (status != RC_OK) {
        FUZZ_EXPECT(rc_message()[0] != 0);
        return;
    }
    FUZZ_EXPECT(image.h > 0 && image.w > 0 && (image.c == 1 || image.c == 3));
    FUZZ_EXPECT(channels == 0 || image.c == channels);
    FUZZ_EXPECT(rc_image_fit_into(&image, &(rc_image_fit){.resize = 9, .size = 8, .channels = 3}, square) == RC_OK);
    rc_image_free(&image);
}

#endif
