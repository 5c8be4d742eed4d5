/* TIFF through libtiff: the first page. libtiff brings every kind of TIFF to 8 bits of RGBA, and rounds colours of 16
 * bits. Its messages come to functions of this file, for each picture by itself (which takes version 4.5): those that
 * it calls for all pictures of the program would print, and are not ours to change. */
#include "data/image_format.h"

#if RC_HAS_TIFF

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

#include "base/memory.h"

enum { RGBA = 4, OLD_JPEG = 6 };

typedef struct decoder {
    rc_image_request *request;
    rc_image *image;
    TIFF *tiff;
    uint32_t *raster;  /* (h, w): as libtiff packs pixels */
    size_t at;         /* where libtiff reads next */
    char message[256]; /* the first complaint */
} decoder;

/* ---- what libtiff calls ----------------------------------------------------------------------------------------- */

static int on_error(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    decoder *d = user;
    (void)tiff;
    (void)module;
    if (d->message[0] == '\0')
        vsnprintf(d->message, sizeof d->message, format, arguments);
    return 1; /* it goes nowhere else */
}

static int on_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    (void)tiff;
    (void)user;
    (void)module;
    (void)format;
    (void)arguments;
    return 1;
}

static tmsize_t give_bytes(thandle_t handle, void *out, tmsize_t size)
{
    decoder *d = handle;
    size_t left = d->at < d->request->size ? d->request->size - d->at : 0;
    size_t given = size > 0 && (size_t)size < left ? (size_t)size : left;
    if (size <= 0)
        return 0;
    memcpy(out, d->request->data + d->at, given);
    d->at += given;
    return (tmsize_t)given;
}

static tmsize_t take_bytes(thandle_t handle, void *data, tmsize_t size)
{
    (void)handle;
    (void)data;
    (void)size;
    return 0;
}

static toff_t go_to(thandle_t handle, toff_t offset, int whence)
{
    decoder *d = handle;
    uint64_t from = whence == SEEK_CUR ? d->at : whence == SEEK_END ? d->request->size : 0;
    if (whence != SEEK_SET && offset > SIZE_MAX - from)
        return (toff_t)-1;
    d->at = (size_t)(from + offset);
    return d->at;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t tell_size(thandle_t handle)
{
    return ((decoder *)handle)->request->size;
}

/* All bytes are in memory: libtiff need not copy them, however often the strips of a hostile file repeat them. */
static int map_bytes(thandle_t handle, void **base, toff_t *size)
{
    decoder *d = handle;
    *base = rc_without_const(d->request->data);
    *size = d->request->size;
    return 1;
}

static void unmap_nothing(thandle_t handle, void *base, toff_t size)
{
    (void)handle;
    (void)base;
    (void)size;
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

/* libtiff has no code for a lack of memory, only words. A limit of ours is not a lack. */
static rc_status failed(const decoder *d)
{
    const char *text = d->message[0] != '\0' ? d->message : "libtiff refuses it";
    bool limit = strstr(text, "beyond the") != NULL || strstr(text, "too large") != NULL;
    bool memory = strstr(text, "memory") != NULL || strstr(text, "alloc") != NULL || strstr(text, "No space") != NULL;
    return rc_fail(memory && !limit ? RC_OUT_OF_MEMORY : RC_FORMAT, "broken TIFF: %s", text);
}

static rc_status check_compression(TIFF *tiff)
{
    static const uint16_t known[] = {COMPRESSION_NONE,      COMPRESSION_CCITTRLE,      COMPRESSION_CCITTFAX3,
                                     COMPRESSION_CCITTFAX4, COMPRESSION_LZW,           COMPRESSION_JPEG,
                                     COMPRESSION_DEFLATE,   COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS,
                                     COMPRESSION_LZMA,      COMPRESSION_ZSTD,          COMPRESSION_WEBP};
    uint16_t compression = COMPRESSION_NONE;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (compression == known[i] && TIFFIsCODECConfigured(compression))
            return RC_OK;
    return rc_fail(RC_UNSUPPORTED, "TIFF with compression %u%s is not read; convert it to PNG", (unsigned)compression,
                   compression == OLD_JPEG ? " (JPEG of the old kind)" : "");
}

/* Every strip or tile must lie in the file: libtiff makes do with less, and paints what is missing. Those of an honest
 * file do not overlap, and a small file with many that do would take hours. */
static rc_status check_parts(const decoder *d)
{
    uint32_t count = TIFFIsTiled(d->tiff) ? TIFFNumberOfTiles(d->tiff) : TIFFNumberOfStrips(d->tiff);
    uint64_t size = d->request->size, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t begin = TIFFGetStrileOffset(d->tiff, i), bytes = TIFFGetStrileByteCount(d->tiff, i);
        if (begin > size || bytes > size - begin)
            return rc_fail(RC_FORMAT, "truncated TIFF: part %u of %u ends beyond the %zu bytes of the file",
                           (unsigned)i + 1, (unsigned)count, d->request->size);
        sum += bytes;
        if (sum > 2 * size)
            return rc_fail(RC_FORMAT, "broken TIFF: its parts claim more than twice the %zu bytes of the file",
                           d->request->size);
    }
    return RC_OK;
}

/* libtiff multiplies colours by a transparency of this kind; a channel of unknown use it leaves alone. */
static rc_status drop_transparency(const decoder *d)
{
    uint16_t count = 0, *kind = NULL;
    if (!TIFFGetFieldDefaulted(d->tiff, TIFFTAG_EXTRASAMPLES, &count, &kind) || count == 0)
        return RC_OK;
    uint16_t *unknown = rc_alloc_zeroed(NULL, count, sizeof *unknown); /* EXTRASAMPLE_UNSPECIFIED */
    if (unknown == NULL)
        return RC_OUT_OF_MEMORY;
    int set = TIFFSetField(d->tiff, TIFFTAG_EXTRASAMPLES, count, unknown);
    rc_free(NULL, unknown);
    return set != 0 ? RC_OK : failed(d);
}

static bool is_grey(TIFF *tiff)
{
    uint16_t colours = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PHOTOMETRIC, &colours);
    return colours == PHOTOMETRIC_MINISBLACK || colours == PHOTOMETRIC_MINISWHITE;
}

/* libtiff's reader, and the function of it that makes pixels of a strip or a tile. */
typedef struct raster_reader {
    TIFFRGBAImage image; /* first: libtiff hands on its address */
    tileContigRoutine put;
} raster_reader;

/* Row by row: of a tile that reaches beyond the picture, libtiff takes the pixels that it passes over for bytes where
 * they are grey or places in a palette. */
static void put_rows(TIFFRGBAImage *image, uint32_t *out, uint32_t x, uint32_t y, uint32_t w, uint32_t h,
                     int32_t passed_over, int32_t out_skip, unsigned char *in)
{
    const raster_reader *reader = (const raster_reader *)image;
    int64_t from = ((int64_t)w + passed_over) * image->samplesperpixel * image->bitspersample / 8;
    int64_t to = (int64_t)w + out_skip;
    for (uint32_t row = 0; row < h; row++)
        reader->put(image, out + row * to, x, y + row, w, 1, 0, 0, in + row * from);
}

static bool read_raster(decoder *d)
{
    raster_reader reader;
    char message[1024] = "";
    if (!TIFFRGBAImageOK(d->tiff, message) || !TIFFRGBAImageBegin(&reader.image, d->tiff, 1, message)) {
        if (d->message[0] == '\0')
            snprintf(d->message, sizeof d->message, "%.250s", message);
        return false;
    }
    reader.image.req_orientation = reader.image.orientation; /* turning is done for all formats alike */
    bool whole_bytes = reader.image.isContig && reader.image.bitspersample >= 8;
    reader.put = reader.image.put.contig;
    if (whole_bytes && (is_grey(d->tiff) || reader.image.photometric == PHOTOMETRIC_PALETTE))
        reader.image.put.contig = put_rows;
    bool read = TIFFRGBAImageGet(&reader.image, d->raster, (uint32_t)d->image->w, (uint32_t)d->image->h);
    TIFFRGBAImageEnd(&reader.image);
    return read && d->message[0] == '\0';
}

static rc_status decode(decoder *d)
{
    uint32_t h = 0, w = 0;
    uint16_t orientation = 1;
    const uint8_t *raw_version = NULL;
    TIFFGetField(d->tiff, TIFFTAG_IMAGEWIDTH, &w);
    TIFFGetField(d->tiff, TIFFTAG_IMAGELENGTH, &h);
    TIFFGetFieldDefaulted(d->tiff, TIFFTAG_ORIENTATION, &orientation);
    if (TIFFGetField(d->tiff, TIFFTAG_DNGVERSION, &raw_version))
        return rc_fail(RC_UNSUPPORTED, "raw camera file (DNG); convert it to JPEG");
    RC_TRY(check_compression(d->tiff));
    RC_TRY(rc_image_allocate(d->request, h, w, is_grey(d->tiff) ? 1 : 3, d->image));
    RC_TRY(check_parts(d));
    size_t pixels = (size_t)h * w;
    d->raster = rc_alloc_zeroed(NULL, pixels, RGBA);
    if (d->raster == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_image_check_memory(d->image));
    RC_TRY(drop_transparency(d));
    if (!read_raster(d))
        return failed(d);
    uint8_t *out = d->image->pixels;
    for (size_t i = 0; i < pixels; i++) {
        uint32_t pixel = d->raster[i];
        *out++ = (uint8_t)TIFFGetR(pixel);
        if (d->image->c == 1)
            continue;
        *out++ = (uint8_t)TIFFGetG(pixel);
        *out++ = (uint8_t)TIFFGetB(pixel);
    }
    if (d->request->want_orientation && orientation >= 1 && orientation <= 8)
        d->request->orientation = orientation;
    return RC_OK;
}

static rc_status open_and_decode(decoder *d, TIFFOpenOptions *options)
{
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)RC_IMAGE_MAX_WORK);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, d);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, d);
    d->tiff = TIFFClientOpenExt("TIFF", "r", d, give_bytes, take_bytes, go_to, close_nothing, tell_size, map_bytes,
                                unmap_nothing, options);
    if (d->tiff == NULL)
        return failed(d);
    rc_status status = decode(d);
    TIFFClose(d->tiff);
    return status;
}

rc_status rc_tiff_decode(rc_image_request *request, rc_image *image)
{
    decoder d = {.request = request, .image = image};
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (options == NULL)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory for decoding a TIFF");
    rc_status status = open_and_decode(&d, options);
    TIFFOpenOptionsFree(options);
    rc_free(NULL, d.raster);
    return status;
}

#endif
