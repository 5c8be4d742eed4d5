/* Looks at a picture of a page: has it the size, the ground in its corner, enough of a colour, and many others?
 *
 * usage: look_at_page PNG WIDTH HEIGHT GROUND COLOUR    colours as six digits: f6f5f1 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/image.h"

static unsigned pixel(const rc_image *image, int x, int y)
{
    const uint8_t *p = image->pixels + ((size_t)y * (size_t)image->w + (size_t)x) * (size_t)image->c;
    return image->c < 3 ? p[0] * 0x10101u : (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
}

/* Pixels of the colour; and in how many rows there is anything but the ground. */
static void count(const rc_image *image, unsigned ground, unsigned colour, int *found, int *rows)
{
    *found = *rows = 0;
    for (int y = 0; y < image->h; y++) {
        bool empty = true;
        for (int x = 0; x < image->w; x++) {
            *found += pixel(image, x, y) == colour;
            empty = empty && pixel(image, x, y) == ground;
        }
        *rows += !empty;
    }
}

int main(int argc, char **argv)
{
    rc_image image;
    if (argc != 6 || rc_image_read(argv[1], NULL, &image) != RC_OK) {
        fprintf(stderr, "look_at_page: %s\n", argc != 6 ? "usage" : rc_message());
        return 2;
    }
    int width = atoi(argv[2]), height = atoi(argv[3]), found, rows;
    unsigned ground = (unsigned)strtoul(argv[4], NULL, 16), colour = (unsigned)strtoul(argv[5], NULL, 16);
    count(&image, ground, colour, &found, &rows);
    bool good = image.w == width && image.h == height && pixel(&image, 2, 2) == ground && found >= 100 &&
                rows >= height / 2;
    if (!good)
        fprintf(stderr, "look_at_page: %d x %d, corner %06x, %d pixels of %s, %d rows with something\n", image.w,
                image.h, pixel(&image, 2, 2), found, argv[5], rows);
    rc_image_free(&image);
    return good ? 0 : 1;
}
