/* One decoder for each kind of picture file. They fill h, w and c, allocate the pixels and may leave them allocated on
 * failure: image.c frees them. Nothing is turned or converted yet. */
#ifndef RC_DATA_IMAGE_FORMAT_H
#define RC_DATA_IMAGE_FORMAT_H

#include "data/image.h"

typedef struct rc_image_request {
    const uint8_t *data;
    size_t size;
    size_t max_pixels;
    bool want_orientation;
    int orientation; /* out: 1 to 8, as EXIF has it; set to 1 before */
} rc_image_request;

rc_status rc_jpeg_decode(rc_image_request *request, rc_image *image);
rc_status rc_png_decode(rc_image_request *request, rc_image *image);
rc_status rc_pnm_decode(rc_image_request *request, rc_image *image);
rc_status rc_bmp_decode(rc_image_request *request, rc_image *image);
/* These take a library that a build need not have: RC_HAS_WEBP, RC_HAS_TIFF and RC_HAS_GIF are 1 where it has. */
rc_status rc_webp_decode(rc_image_request *request, rc_image *image);
rc_status rc_tiff_decode(rc_image_request *request, rc_image *image);
rc_status rc_gif_decode(rc_image_request *request, rc_image *image);

/* Is there as much memory as a library takes for the picture, which is allocated already? Some libraries crash when
 * they run out of memory half-way: libtiff 4.5.0 and libwebp 1.2.4 do. */
rc_status rc_image_check_memory(const rc_image *image);

/* Refuses what is too large. */
rc_status rc_image_check_size(const rc_image_request *request, uint64_t h, uint64_t w);
/* Does so, then allocates the pixels. */
rc_status rc_image_allocate(const rc_image_request *request, uint64_t h, uint64_t w, int c, rc_image *image);

#endif
