/* Drawing on pictures: text in a small font of our own, images enlarged by whole factors, filled rectangles. A canvas
 * is an rc_image of three channels. What lies outside of it is not drawn. */
#ifndef RC_DATA_CANVAS_H
#define RC_DATA_CANVAS_H

#include "data/image.h"

typedef struct rc_colour {
    uint8_t red, green, blue;
} rc_colour;

/* A canvas filled with one colour. Fails if our own reader would refuse a picture of that size (RC_IMAGE_MAX_SIDE,
 * RC_IMAGE_MAX_PIXELS); check alone asks for nothing but that. Free it with rc_image_free. */
rc_status rc_canvas_check(long long h, long long w);
rc_status rc_canvas_make(long long h, long long w, rc_colour colour, rc_image *canvas);

void rc_canvas_fill(const rc_image *canvas, int top, int left, int h, int w, rc_colour colour);

/* Pixels (h, w, c), each of which becomes a square of scale x scale. Grey ones become grey colours. */
void rc_canvas_draw(const rc_image *canvas, int top, int left, const rc_image *image, int scale);

/* A character takes RC_FONT_WIDTH x RC_FONT_HEIGHT pixels times the scale. The last column and the last row of that are
 * empty, so that characters and lines do not touch. The baseline is below row RC_FONT_CAPITAL. */
enum { RC_FONT_WIDTH = 6, RC_FONT_HEIGHT = 10, RC_FONT_CAPITAL = 7 };

/* A text from outside in the characters that the font has, at most `most` (3 or more) of them; a longer text is cut and
 * ends with dots. Printable ASCII stays as it is. Latin letters lose their accents, combining marks vanish. All else
 * becomes RC_FONT_BOX, one for each character. `out` has room for most + 1 bytes. Returns the number of characters. */
enum { RC_FONT_BOX = 0x7F };
int rc_font_fit(const char *text, int most, char *out);

/* Text that rc_font_fit has made, or of our own. */
int rc_canvas_text_width(const char *text, int scale); /* without the empty column behind the last character */
void rc_canvas_text(const rc_image *canvas, int top, int left, const char *text, int scale, rc_colour colour);

/* The rows of a character, from the top, its leftmost pixel in bit 4. What is not printable ASCII is the box. */
enum { RC_FONT_ROWS = 9 };
const uint8_t *rc_font_rows(unsigned char character);

#endif
