/* Pictures as bytes: decoding, turning, resizing, writing. Results are those of Pillow and torchvision, which the
 * published experiments were made with: grey from colour is (19595 R + 38470 G + 7471 B + 32768) >> 16, transparency is
 * dropped, 16 bits become the upper 8, resizing is antialiased bilinear in Pillow's fixed-point arithmetic. */
#ifndef RC_DATA_IMAGE_H
#define RC_DATA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rc_image {
    int h, w, c;     /* c: 1 grey, 3 RGB */
    uint8_t *pixels; /* (h, w, c) */
} rc_image;

/* A small file may claim to be a huge picture. PNG packs at most so many pixels into a byte: one bit of each, and
 * deflate's 1032 to 1. Other formats reach more (WebP, fax in TIFF) with pictures of one colour alone, which nobody
 * misses, so a file that claims more is refused. Whatever the file, decoding takes at most the pixels three times and
 * RC_IMAGE_MAX_WORK. */
#define RC_IMAGE_MAX_SIDE            20000
#define RC_IMAGE_MAX_PIXELS          ((size_t)1 << 26)
#define RC_IMAGE_MAX_PIXELS_PER_BYTE ((size_t)8 * 1056)
/* What libjpeg may take for the coefficients of a progressive file, and libtiff and libwebp for what they work on. */
#define RC_IMAGE_MAX_WORK ((size_t)1 << 29)
/* The largest file that is read at all. */
#define RC_IMAGE_MAX_FILE ((size_t)1 << 28)

typedef struct rc_image_options {
    int channels;      /* 1 or 3; 0: as the file has it */
    bool ignore_exif;  /* do not turn the picture as its EXIF orientation says */
    size_t max_pixels; /* 0: RC_IMAGE_MAX_PIXELS */
} rc_image_options;

/* JPEG, PNG, PPM, PGM, BMP and, where the build has the libraries, WebP, TIFF and GIF, recognised by their first bytes
 * (data/image_kind.h). A file of several pictures is its first one. `options` may be NULL: all zero. On failure
 * image->pixels is NULL and the message does not name the file: the caller knows it. */
rc_status rc_image_decode(const uint8_t *data, size_t size, const rc_image_options *options, rc_image *image);
/* rc_image_decode of a file, which messages name. */
rc_status rc_image_read(const char *path, const rc_image_options *options, rc_image *image);
void rc_image_free(rc_image *image);

#if RC_HAS_WEBP
#define RC_IMAGE_WEBP " .webp"
#else
#define RC_IMAGE_WEBP ""
#endif
#if RC_HAS_TIFF
#define RC_IMAGE_TIFF " .tif .tiff"
#else
#define RC_IMAGE_TIFF ""
#endif
#if RC_HAS_GIF
#define RC_IMAGE_GIF " .gif"
#else
#define RC_IMAGE_GIF ""
#endif
/* How the names of pictures that this build reads end. */
#define RC_IMAGE_ENDINGS ".jpg .jpeg .png .ppm .pgm .pnm .bmp" RC_IMAGE_WEBP RC_IMAGE_TIFF RC_IMAGE_GIF
/* Does the name end like one of them, in upper or lower case? */
bool rc_image_name(const char *name);

/* Grey to RGB, RGB to grey. Pixels (count, from) to (count, to), 1 or 3 each. */
void rc_image_convert(const uint8_t *in, int from, size_t count, int to, uint8_t *out);

/* The filter that resizes, as wide as the reduction asks for: Pillow's of that name. */
typedef enum rc_interpolation { RC_BILINEAR, RC_BICUBIC } rc_interpolation;

/* How a picture becomes a square of the net's size: channels first, then the shorter side becomes `resize` pixels (and
 * the longer one int(resize * long / short), as torchvision has it), then the middle is cut out. */
typedef struct rc_image_fit {
    int resize; /* less than size, as 0 is, counts as size */
    int size;
    int channels; /* 1 or 3; 0: as they are */
    rc_interpolation interpolation;
} rc_image_fit;

/* out: (size, size, channels). Fails only for want of memory. */
rc_status rc_image_fit_into(const rc_image *image, const rc_image_fit *fit, uint8_t *out);

/* The pixels [top, top + out->h) x [left, left + out->w) of `image` resized to h x w. */
rc_status rc_image_resize(const rc_image *image, rc_interpolation how, int h, int w, int top, int left,
                          const rc_image *out);

/* Makes or replaces `path`, atomically; or appends the bytes of the file to a writer. */
struct rc_file_writer;
rc_status rc_image_write_png(const char *path, const rc_image *image);
rc_status rc_image_append_png(const rc_image *image, struct rc_file_writer *writer);

#endif
