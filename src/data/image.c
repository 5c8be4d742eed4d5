#include "data/image.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/image_format.h"
#include "data/image_kind.h"

void rc_image_convert(const uint8_t *in, int from, size_t count, int to, uint8_t *out)
{
    if (from == to) {
        memcpy(out, in, count * (size_t)from);
    } else if (from == 1) {
        for (size_t i = 0; i < count; i++)
            out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = (uint8_t)((19595u * in[3 * i] + 38470u * in[3 * i + 1] + 7471u * in[3 * i + 2] + 0x8000u) >> 16);
    }
}

rc_status rc_image_check_size(const rc_image_request *request, uint64_t h, uint64_t w)
{
    if (h < 1 || w < 1)
        return rc_fail(RC_FORMAT, "the picture has %llu x %llu pixels", (unsigned long long)w, (unsigned long long)h);
    if (h > RC_IMAGE_MAX_SIDE || w > RC_IMAGE_MAX_SIDE || h * w > request->max_pixels)
        return rc_fail(RC_UNSUPPORTED, "the picture has %llu x %llu pixels, more than %d on a side or %zu in all",
                       (unsigned long long)w, (unsigned long long)h, RC_IMAGE_MAX_SIDE, request->max_pixels);
    if (h * w / RC_IMAGE_MAX_PIXELS_PER_BYTE > request->size)
        return rc_fail(RC_FORMAT, "%zu bytes cannot hold a picture of %llu x %llu pixels", request->size,
                       (unsigned long long)w, (unsigned long long)h);
    return RC_OK;
}

rc_status rc_image_allocate(const rc_image_request *request, uint64_t h, uint64_t w, int c, rc_image *image)
{
    RC_TRY(rc_image_check_size(request, h, w));
    image->h = (int)h;
    image->w = (int)w;
    image->c = c;
    image->pixels = rc_alloc(NULL, (size_t)(h * w) * (size_t)c);
    return image->pixels == NULL ? RC_OUT_OF_MEMORY : RC_OK;
}

rc_status rc_image_check_memory(const rc_image *image)
{
    /* 16 bits of RGBA, and room for tables. Nobody writes to it, so it costs next to nothing. */
    void *block = rc_alloc(NULL, (size_t)image->h * (size_t)image->w * 8 + ((size_t)1 << 20));
    rc_free(NULL, block);
    return block != NULL ? RC_OK : RC_OUT_OF_MEMORY;
}

void rc_image_free(rc_image *image)
{
    rc_free(NULL, image->pixels);
    *image = (rc_image){0};
}

/* ---- turning ---------------------------------------------------------------------------------------------------- */

/* Which pixel of a picture of h x w comes to row y and column x when it is turned upright. */
static size_t source_of(int orientation, size_t h, size_t w, size_t y, size_t x)
{
    switch (orientation) {
    case 2: return y * w + (w - 1 - x);
    case 3: return (h - 1 - y) * w + (w - 1 - x);
    case 4: return (h - 1 - y) * w + x;
    case 5: return x * w + y;
    case 6: return (h - 1 - x) * w + y;
    case 7: return (h - 1 - x) * w + (w - 1 - y);
    case 8: return x * w + (w - 1 - y);
    default: return y * w + x;
    }
}

static rc_status turn(rc_image *image, int orientation)
{
    if (orientation == 1)
        return RC_OK;
    rc_image turned = *image;
    if (orientation >= 5) {
        turned.h = image->w;
        turned.w = image->h;
    }
    size_t bytes = (size_t)image->c;
    turned.pixels = rc_alloc(NULL, (size_t)image->h * (size_t)image->w * bytes);
    if (turned.pixels == NULL)
        return RC_OUT_OF_MEMORY;
    uint8_t *to = turned.pixels;
    for (size_t y = 0; y < (size_t)turned.h; y++)
        for (size_t x = 0; x < (size_t)turned.w; x++, to += bytes)
            memcpy(to, image->pixels + source_of(orientation, (size_t)image->h, (size_t)image->w, y, x) * bytes, bytes);
    rc_image_free(image);
    *image = turned;
    return RC_OK;
}

static rc_status change_channels(rc_image *image, int channels)
{
    if (channels == 0 || channels == image->c)
        return RC_OK;
    size_t pixels = (size_t)image->h * (size_t)image->w;
    uint8_t *converted = rc_alloc(NULL, pixels * (size_t)channels);
    if (converted == NULL)
        return RC_OUT_OF_MEMORY;
    rc_image_convert(image->pixels, image->c, pixels, channels, converted);
    rc_free(NULL, image->pixels);
    image->pixels = converted;
    image->c = channels;
    return RC_OK;
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static rc_status refuse(const rc_image_kind *kind, const char *name)
{
    char reason[RC_IMAGE_KIND_TEXT];
    rc_image_kind_explain(kind, name, reason, sizeof reason);
    return rc_fail(RC_FORMAT, "no picture that this build of recollect reads: %s", reason);
}

rc_status rc_image_decode(const uint8_t *data, size_t size, const rc_image_options *options, rc_image *image)
{
    static const rc_image_options none;
    if (options == NULL)
        options = &none;
    *image = (rc_image){0};
    rc_image_request request = {.data = data, .size = size, .orientation = 1};
    request.max_pixels = options->max_pixels > 0 ? options->max_pixels : RC_IMAGE_MAX_PIXELS;
    request.want_orientation = !options->ignore_exif;
    const rc_image_kind *kind = rc_image_kind_of(data, size, NULL);
    if (kind->decode == NULL)
        return refuse(kind, NULL);
    rc_status status = kind->decode(&request, image);
    if (status == RC_OK)
        status = change_channels(image, options->channels);
    if (status == RC_OK && request.want_orientation)
        status = turn(image, request.orientation);
    if (status != RC_OK)
        rc_image_free(image);
    return status;
}

/* Looks at the beginning of a file, so that no memory is taken for one that is no picture. */
static rc_status look_at_beginning(const char *path)
{
    const rc_image_kind *kind;
    RC_TRY(rc_image_kind_at(path, &kind));
    if (kind->decode != NULL)
        return RC_OK;
    rc_status status = refuse(kind, path); /* first: its message is part of the other */
    return rc_fail(status, "cannot decode '%.600s': %s", path, rc_message());
}

rc_status rc_image_read(const char *path, const rc_image_options *options, rc_image *image)
{
    char *data;
    size_t size;
    *image = (rc_image){0};
    RC_TRY(look_at_beginning(path));
    RC_TRY(rc_file_read(path, RC_IMAGE_MAX_FILE, &data, &size));
    rc_status status = rc_image_decode((const uint8_t *)data, size, options, image);
    rc_free(NULL, data);
    if (status != RC_OK)
        return rc_fail(status, "cannot decode '%.600s': %s", path, rc_message());
    return RC_OK;
}
