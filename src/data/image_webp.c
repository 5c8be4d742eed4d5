/* WebP through libwebp. An animation becomes its first frame. Whatever the file holds becomes RGB: the format knows no
 * grey. */
#include "data/image_format.h"

#if RC_HAS_WEBP

#include <string.h>
#include <webp/decode.h>

#include "data/exif.h"

/* A file is "RIFF", a size, "WEBP", and chunks: four letters, a size, and so many bytes, one more if they are odd. */
enum { FILE_HEADER = 12, CHUNK_HEADER = 8, FRAME_HEADER = 16 };

typedef struct chunk {
    const uint8_t *data;
    size_t size;
} chunk;

static size_t number_at(const uint8_t *at, int bytes)
{
    size_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

/* The first chunk of that name; data NULL: there is none. */
static chunk find_chunk(const uint8_t *data, size_t size, const char *name)
{
    for (size_t at = 0; at < size && size - at >= CHUNK_HEADER;) {
        size_t bytes = number_at(data + at + 4, 4);
        at += CHUNK_HEADER;
        if (bytes > size - at)
            break;
        if (memcmp(data + at - CHUNK_HEADER, name, 4) == 0)
            return (chunk){data + at, bytes};
        at += bytes + (bytes & 1);
    }
    return (chunk){NULL, 0};
}

static void find_orientation(rc_image_request *request)
{
    static const char mark[6] = "Exif\0"; /* which some programs put before the block, as in a JPEG */
    chunk c = find_chunk(request->data + FILE_HEADER, request->size - FILE_HEADER, "EXIF");
    size_t skip = c.size > sizeof mark && memcmp(c.data, mark, sizeof mark) == 0 ? sizeof mark : 0;
    if (c.data != NULL && request->want_orientation)
        request->orientation = rc_exif_orientation(c.data + skip, c.size - skip);
}

static rc_status failed(VP8StatusCode code)
{
    static const char *const reasons[] = {
        [VP8_STATUS_INVALID_PARAM] = "a parameter is invalid",
        [VP8_STATUS_BITSTREAM_ERROR] = "the data is damaged",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "it uses what libwebp does not know",
        [VP8_STATUS_SUSPENDED] = "the data ends before the picture does",
        [VP8_STATUS_USER_ABORT] = "decoding was stopped",
        [VP8_STATUS_NOT_ENOUGH_DATA] = "the data ends before the picture does",
    };
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory for decoding a WebP");
    bool known = (size_t)code < sizeof reasons / sizeof *reasons && reasons[code] != NULL;
    return rc_fail(RC_FORMAT, "broken WebP: %s", known ? reasons[code] : "libwebp refuses it");
}

/* Decodes a picture of w x h pixels into the place at `out` of the image. */
static rc_status decode_into(chunk c, int h, int w, const rc_image *image, uint8_t *out)
{
    WebPDecoderConfig config;
    size_t stride = (size_t)image->w * 3;
    if (!WebPInitDecoderConfig(&config))
        return rc_fail(RC_UNSUPPORTED, "libwebp is of another version than the one that recollect was built with");
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = (size_t)(h - 1) * stride + (size_t)w * 3;
    VP8StatusCode code = WebPDecode(c.data, c.size, &config);
    WebPFreeDecBuffer(&config.output);
    return code == VP8_STATUS_OK ? RC_OK : failed(code);
}

/* The first frame of an animation, which need not cover all of the picture. The rest stays black. */
static rc_status decode_frame(const rc_image_request *request, const rc_image *image)
{
    chunk frame = find_chunk(request->data + FILE_HEADER, request->size - FILE_HEADER, "ANMF");
    if (number_at(request->data + 4, 4) > request->size - CHUNK_HEADER) /* libwebp looks at this in other files */
        return failed(VP8_STATUS_NOT_ENOUGH_DATA);
    if (frame.data == NULL || frame.size < FRAME_HEADER)
        return failed(VP8_STATUS_NOT_ENOUGH_DATA);
    /* Its place is given in steps of two pixels. */
    size_t left = 2 * number_at(frame.data, 3), top = 2 * number_at(frame.data + 3, 3);
    size_t w = number_at(frame.data + 6, 3) + 1, h = number_at(frame.data + 9, 3) + 1;
    if (w > (size_t)image->w || left > (size_t)image->w - w || h > (size_t)image->h || top > (size_t)image->h - h)
        return rc_fail(RC_FORMAT, "broken WebP: the first frame does not lie in the picture");
    const uint8_t *inside = frame.data + FRAME_HEADER;
    chunk c = find_chunk(inside, frame.size - FRAME_HEADER, "VP8 ");
    if (c.data == NULL)
        c = find_chunk(inside, frame.size - FRAME_HEADER, "VP8L");
    if (c.data == NULL)
        return failed(VP8_STATUS_NOT_ENOUGH_DATA);
    c = (chunk){c.data - CHUNK_HEADER, c.size + CHUNK_HEADER}; /* libwebp reads a chunk without a file around it */
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(c.data, c.size, &features);
    if (code != VP8_STATUS_OK)
        return failed(code);
    if ((size_t)features.width != w || (size_t)features.height != h)
        return rc_fail(RC_FORMAT, "broken WebP: the first frame has %d x %d pixels, but was announced with %zu x %zu",
                       features.width, features.height, w, h);
    memset(image->pixels, 0, (size_t)image->h * (size_t)image->w * 3);
    return decode_into(c, (int)h, (int)w, image, image->pixels + (top * (size_t)image->w + left) * 3);
}

rc_status rc_webp_decode(rc_image_request *request, rc_image *image)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(request->data, request->size, &features);
    if (code != VP8_STATUS_OK)
        return failed(code);
    RC_TRY(rc_image_allocate(request, (uint64_t)features.height, (uint64_t)features.width, 3, image));
    RC_TRY(rc_image_check_memory(image));
    find_orientation(request);
    if (features.has_animation)
        return decode_frame(request, image);
    return decode_into((chunk){request->data, request->size}, image->h, image->w, image, image->pixels);
}

#endif
