/* BMP: a header of the file (14 bytes), one of the picture (12 to 124 bytes, which its first four bytes say), masks or
 * a palette, and rows of 1, 4, 8, 16, 24 or 32 bits a pixel, the last row first unless the height is negative. Numbers
 * have their lowest byte first. No library reads it for us: the format is simple, and the libraries that know it bring
 * dozens of other formats along. Compressed files (RLE), which hardly any program writes, are refused. */
#include "data/image_format.h"

#include <string.h>

enum { FILE_HEADER = 14, OLD_HEADER = 12, HEADER = 40, MOST_COLOURS = 256 };
enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, MASKS = 3, JPEG_INSIDE = 4, PNG_INSIDE = 5, MASKS_AND_ALPHA = 6 };

typedef struct header {
    size_t size;    /* of the picture's header */
    int64_t h, w;   /* h below 0: the first row comes first */
    unsigned bits;  /* of a pixel */
    uint32_t kind;  /* of compression */
    uint64_t begin; /* of the pixels, in the file */
    uint32_t mask[3];
    unsigned colours;
    uint8_t colour[MOST_COLOURS][3]; /* red, green, blue */
    bool grey;                       /* all of them are */
} header;

/* The caller has checked that the file has these bytes. */
static uint32_t number_at(const uint8_t *at, int bytes)
{
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static rc_status truncated(const rc_image_request *request, const char *what)
{
    return rc_fail(RC_FORMAT, "truncated BMP: %zu bytes end before %s", request->size, what);
}

static rc_status check_kind(const header *h)
{
    bool masked = h->kind == MASKS || h->kind == MASKS_AND_ALPHA;
    bool deep = h->bits == 16 || h->bits == 32;
    if (h->kind == RLE8 || h->kind == RLE4)
        return rc_fail(RC_UNSUPPORTED, "BMP with run-length compression (RLE%d) is not read; convert it to PNG",
                       h->kind == RLE8 ? 8 : 4);
    if (h->kind == JPEG_INSIDE || h->kind == PNG_INSIDE)
        return rc_fail(RC_UNSUPPORTED, "BMP with a %s inside is not read; convert it to PNG",
                       h->kind == JPEG_INSIDE ? "JPEG" : "PNG");
    if (h->bits != 1 && h->bits != 4 && h->bits != 8 && h->bits != 24 && !deep)
        return rc_fail(RC_FORMAT, "broken BMP: %u bits a pixel, expected 1, 4, 8, 16, 24 or 32", h->bits);
    if (h->kind != PLAIN && !(masked && deep))
        return rc_fail(RC_FORMAT, "broken BMP: compression %u of %u bits a pixel", (unsigned)h->kind, h->bits);
    return RC_OK;
}

/* Where each colour lies in a pixel of 16 or 32 bits. Behind a header of the oldest kind that has masks they follow it;
 * in the later ones they are a part of it, at the same place. */
static rc_status read_masks(const rc_image_request *request, header *h)
{
    static const uint32_t usual[2][3] = {{0x7C00, 0x03E0, 0x001F}, {0xFF0000, 0xFF00, 0xFF}};
    memcpy(h->mask, usual[h->bits == 32], sizeof h->mask);
    if (h->kind == PLAIN)
        return RC_OK;
    if (request->size < FILE_HEADER + HEADER + 12)
        return truncated(request, "its masks");
    for (int c = 0; c < 3; c++) {
        uint32_t mask = number_at(request->data + FILE_HEADER + HEADER + 4 * c, 4), low = mask & (~mask + 1u);
        if (mask == 0 || ((mask + low) & mask) != 0) /* a sum that carries out of the mask leaves nothing of it */
            return rc_fail(RC_FORMAT, "broken BMP: mask 0x%08X, expected bits side by side", (unsigned)mask);
        h->mask[c] = mask;
    }
    return RC_OK;
}

static rc_status read_palette(const rc_image_request *request, uint32_t claimed, header *h, size_t at)
{
    size_t bytes = h->size == OLD_HEADER ? 3 : 4;
    h->colours = 1u << h->bits;
    if (claimed > 0 && claimed < h->colours)
        h->colours = claimed;
    if (at > request->size || (request->size - at) / bytes < h->colours)
        return truncated(request, "its palette");
    h->grey = true;
    for (unsigned i = 0; i < h->colours; i++, at += bytes) {
        const uint8_t *entry = request->data + at; /* blue, green, red */
        for (int c = 0; c < 3; c++)
            h->colour[i][c] = entry[2 - c];
        h->grey = h->grey && entry[0] == entry[1] && entry[1] == entry[2];
    }
    return RC_OK;
}

static rc_status read_header(const rc_image_request *request, header *h)
{
    const uint8_t *data = request->data;
    if (request->size < FILE_HEADER + OLD_HEADER)
        return truncated(request, "its header");
    h->begin = number_at(data + 10, 4);
    h->size = number_at(data + FILE_HEADER, 4);
    if (h->size > request->size - FILE_HEADER)
        return truncated(request, "its header");
    data += FILE_HEADER;
    uint32_t colours = 0;
    if (h->size == OLD_HEADER) {
        h->w = (int64_t)number_at(data + 4, 2);
        h->h = (int64_t)number_at(data + 6, 2);
        h->bits = number_at(data + 10, 2);
    } else if (h->size >= HEADER) {
        h->w = (int32_t)number_at(data + 4, 4);
        h->h = (int32_t)number_at(data + 8, 4);
        h->bits = number_at(data + 14, 2);
        h->kind = number_at(data + 16, 4);
        colours = number_at(data + 32, 4);
    } else {
        return rc_fail(RC_FORMAT, "broken BMP: a header of %zu bytes", h->size);
    }
    RC_TRY(check_kind(h));
    if (h->bits <= 8)
        return read_palette(request, colours, h, FILE_HEADER + h->size);
    return h->bits != 24 ? read_masks(request, h) : RC_OK;
}

/* ---- pixels ----------------------------------------------------------------------------------------------------- */

/* A colour that the palette lacks is black. */
static void read_indices(const header *h, const uint8_t *row, size_t w, uint8_t *out)
{
    static const uint8_t black[3];
    unsigned per_byte = 8 / h->bits, last = (1u << h->bits) - 1;
    size_t channels = h->grey ? 1 : 3;
    for (size_t x = 0; x < w; x++, out += channels) {
        unsigned shift = (per_byte - 1 - (unsigned)(x % per_byte)) * h->bits;
        unsigned index = row[x / per_byte] >> shift & last;
        memcpy(out, index < h->colours ? h->colour[index] : black, channels);
    }
}

/* The bits of a mask, as a part of 255, rounded down as Pillow has it. */
static uint8_t part_of(uint32_t pixel, uint32_t mask)
{
    uint64_t low = mask & (~mask + 1u), most = mask / low, value = (pixel & mask) / low;
    return (uint8_t)(value * 255 / most);
}

static void read_colours(const header *h, const uint8_t *row, size_t w, uint8_t *out)
{
    size_t bytes = h->bits / 8;
    for (size_t x = 0; x < w; x++, row += bytes, out += 3) {
        uint32_t pixel = number_at(row, (int)bytes);
        for (int c = 0; c < 3; c++)
            out[c] = h->bits == 24 ? row[2 - c] : part_of(pixel, h->mask[c]);
    }
}

rc_status rc_bmp_decode(rc_image_request *request, rc_image *image)
{
    header h = {0};
    RC_TRY(read_header(request, &h));
    uint64_t rows = (uint64_t)(h.h < 0 ? -h.h : h.h);
    if (h.w < 1 || rows < 1)
        return rc_fail(RC_FORMAT, "broken BMP: %lld x %lld pixels", (long long)h.w, (long long)h.h);
    uint64_t stride = ((uint64_t)h.w * h.bits + 31) / 32 * 4; /* rows begin at multiples of four bytes */
    /* Checked before memory is taken: a pixel has at least a bit, so a short file cannot promise much. */
    if (h.begin > request->size || (request->size - h.begin) / stride < rows)
        return truncated(request, "its pixels");
    RC_TRY(rc_image_allocate(request, rows, (uint64_t)h.w, h.bits <= 8 && h.grey ? 1 : 3, image));
    size_t w = (size_t)image->w, line = w * (size_t)image->c;
    for (size_t y = 0; y < rows; y++) {
        const uint8_t *row = request->data + h.begin + y * stride;
        uint8_t *out = image->pixels + (h.h < 0 ? y : rows - 1 - y) * line;
        if (h.bits <= 8)
            read_indices(&h, row, w, out);
        else
            read_colours(&h, row, w, out);
    }
    return RC_OK;
}
