/* GIF through giflib: the first frame, which need not cover all of the picture; the rest has the colour of the
 * background. Transparency is dropped, as it is for PNG: a pixel has the colour that its file gives it. */
#include "data/image_format.h"

#if RC_HAS_GIF

#include <gif_lib.h>
#include <string.h>

#include "base/memory.h"

typedef struct decoder {
    rc_image_request *request;
    rc_image *image;
    size_t at;
    uint8_t *row; /* (w): places in the palette */
} decoder;

static int give_bytes(GifFileType *gif, GifByteType *out, int size)
{
    decoder *d = gif->UserData;
    size_t left = d->request->size - d->at, given = size > 0 && (size_t)size < left ? (size_t)size : left;
    if (size <= 0)
        return 0;
    memcpy(out, d->request->data + d->at, given);
    d->at += given;
    return (int)given;
}

static rc_status failed(int code)
{
    const char *text = GifErrorString(code);
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return rc_fail(RC_OUT_OF_MEMORY, "no memory for decoding a GIF");
    return rc_fail(RC_FORMAT, "broken GIF: %s", text != NULL ? text : "the data ends before the picture does");
}

/* Goes on to the first frame: what stands before it says nothing about pixels. */
static rc_status find_frame(GifFileType *gif)
{
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    for (;;) {
        int code;
        GifByteType *block;
        if (DGifGetRecordType(gif, &record) != GIF_OK)
            return failed(gif->Error);
        if (record == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(gif) == GIF_OK ? RC_OK : failed(gif->Error);
        if (record != EXTENSION_RECORD_TYPE)
            return rc_fail(RC_FORMAT, "broken GIF: it holds no picture");
        if (DGifGetExtension(gif, &code, &block) != GIF_OK)
            return failed(gif->Error);
        while (block != NULL)
            if (DGifGetExtensionNext(gif, &block) != GIF_OK)
                return failed(gif->Error);
    }
}

/* A place that the palette lacks is black. */
static const GifColorType *colour_at(const ColorMapObject *map, int place)
{
    static const GifColorType black;
    return place < map->ColorCount ? &map->Colors[place] : &black;
}

static void put_pixel(const GifColorType *colour, int channels, uint8_t *out)
{
    out[0] = colour->Red;
    if (channels == 3) {
        out[1] = colour->Green;
        out[2] = colour->Blue;
    }
}

/* Are all colours of the palettes grey? */
static bool is_grey(const ColorMapObject *map)
{
    for (int i = 0; map != NULL && i < map->ColorCount; i++)
        if (map->Colors[i].Red != map->Colors[i].Green || map->Colors[i].Green != map->Colors[i].Blue)
            return false;
    return true;
}

/* The row of the frame that comes as number `index`. Interlaced files have every eighth row first, then those between
 * them. */
static int place_of_row(int index, int rows)
{
    static const int first[4] = {0, 4, 2, 1}, step[4] = {8, 8, 4, 2};
    for (int pass = 0; pass < 4; pass++) {
        int count = first[pass] < rows ? (rows - first[pass] + step[pass] - 1) / step[pass] : 0;
        if (index < count)
            return first[pass] + index * step[pass];
        index -= count;
    }
    return rows - 1;
}

static rc_status read_rows(decoder *d, GifFileType *gif, const ColorMapObject *map)
{
    const GifImageDesc *frame = &gif->Image;
    size_t channels = (size_t)d->image->c, stride = (size_t)d->image->w * channels;
    d->row = rc_alloc(NULL, (size_t)frame->Width);
    if (d->row == NULL)
        return RC_OUT_OF_MEMORY;
    for (int i = 0; i < frame->Height; i++) {
        int y = frame->Top + (frame->Interlace ? place_of_row(i, frame->Height) : i);
        uint8_t *out = d->image->pixels + (size_t)y * stride + (size_t)frame->Left * channels;
        if (DGifGetLine(gif, d->row, frame->Width) != GIF_OK)
            return failed(gif->Error);
        for (int x = 0; x < frame->Width; x++, out += channels)
            put_pixel(colour_at(map, d->row[x]), d->image->c, out);
    }
    return RC_OK;
}

static rc_status decode(decoder *d, GifFileType *gif)
{
    RC_TRY(find_frame(gif));
    const GifImageDesc *frame = &gif->Image;
    const ColorMapObject *map = frame->ColorMap != NULL ? frame->ColorMap : gif->SColorMap;
    if (map == NULL)
        return rc_fail(RC_FORMAT, "broken GIF: it has no palette");
    if (frame->Width < 1 || frame->Height < 1 || frame->Left < 0 || frame->Top < 0 ||
        frame->Width > gif->SWidth - frame->Left || frame->Height > gif->SHeight - frame->Top)
        return rc_fail(RC_FORMAT,
                       "broken GIF: the first frame, of %d x %d pixels, does not lie in the %d x %d of the file",
                       frame->Width, frame->Height, gif->SWidth, gif->SHeight);
    int channels = is_grey(map) && is_grey(gif->SColorMap) ? 1 : 3;
    RC_TRY(rc_image_allocate(d->request, (uint64_t)gif->SHeight, (uint64_t)gif->SWidth, channels, d->image));
    const GifColorType *background = colour_at(gif->SColorMap != NULL ? gif->SColorMap : map, gif->SBackGroundColor);
    for (size_t i = 0; i < (size_t)gif->SHeight * (size_t)gif->SWidth; i++)
        put_pixel(background, channels, d->image->pixels + i * (size_t)channels);
    return read_rows(d, gif, map);
}

rc_status rc_gif_decode(rc_image_request *request, rc_image *image)
{
    decoder d = {.request = request, .image = image};
    int code = D_GIF_SUCCEEDED;
    GifFileType *gif = DGifOpen(&d, give_bytes, &code);
    if (gif == NULL)
        return failed(code);
    rc_status status = decode(&d, gif);
    DGifCloseFile(gif, &code);
    rc_free(NULL, d.row);
    return status;
}

#endif
