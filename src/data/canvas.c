#include "data/canvas.h"

#include <string.h>

#include "base/memory.h"

enum { CHANNELS = 3 };

rc_status rc_canvas_check(long long h, long long w)
{
    if (h > RC_IMAGE_MAX_SIDE || w > RC_IMAGE_MAX_SIDE || h * w > (long long)RC_IMAGE_MAX_PIXELS)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "a picture of %lld x %lld pixels is too large, expected at most %d a side and %zu in all", w, h,
                       RC_IMAGE_MAX_SIDE, RC_IMAGE_MAX_PIXELS);
    return RC_OK;
}

rc_status rc_canvas_make(long long h, long long w, rc_colour colour, rc_image *canvas)
{
    *canvas = (rc_image){0};
    RC_TRY(rc_canvas_check(h, w));
    uint8_t *pixels = rc_alloc(NULL, (size_t)h * (size_t)w * CHANNELS);
    if (pixels == NULL)
        return RC_OUT_OF_MEMORY;
    *canvas = (rc_image){.h = (int)h, .w = (int)w, .c = CHANNELS, .pixels = pixels};
    rc_canvas_fill(canvas, 0, 0, canvas->h, canvas->w, colour);
    return RC_OK;
}

void rc_canvas_fill(const rc_image *canvas, int top, int left, int h, int w, rc_colour colour)
{
    const uint8_t bytes[CHANNELS] = {colour.red, colour.green, colour.blue};
    for (int y = top < 0 ? 0 : top; y < top + h && y < canvas->h; y++)
        for (int x = left < 0 ? 0 : left; x < left + w && x < canvas->w; x++)
            memcpy(canvas->pixels + ((size_t)y * (size_t)canvas->w + (size_t)x) * CHANNELS, bytes, CHANNELS);
}

void rc_canvas_draw(const rc_image *canvas, int top, int left, const rc_image *image, int scale)
{
    for (int y = 0; y < image->h; y++)
        for (int x = 0; x < image->w; x++) {
            const uint8_t *at = image->pixels + ((size_t)y * (size_t)image->w + (size_t)x) * (size_t)image->c;
            const rc_colour colour = {at[0], at[image->c == 1 ? 0 : 1], at[image->c == 1 ? 0 : 2]};
            rc_canvas_fill(canvas, top + y * scale, left + x * scale, scale, scale, colour);
        }
}

int rc_canvas_text_width(const char *text, int scale)
{
    int characters = (int)strlen(text);
    return characters > 0 ? (characters * RC_FONT_WIDTH - 1) * scale : 0;
}

void rc_canvas_text(const rc_image *canvas, int top, int left, const char *text, int scale, rc_colour colour)
{
    for (; *text != '\0'; text++, left += RC_FONT_WIDTH * scale) {
        const uint8_t *row = rc_font_rows((unsigned char)*text);
        for (int y = 0; y < RC_FONT_ROWS; y++)
            for (int x = 0; x < RC_FONT_WIDTH - 1; x++)
                if (row[y] >> (RC_FONT_WIDTH - 2 - x) & 1)
                    rc_canvas_fill(canvas, top + y * scale, left + x * scale, scale, scale, colour);
    }
}
