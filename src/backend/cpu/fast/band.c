#include "backend/cpu/fast/band.h"

#include <string.h>

static void clear_pixels(float *to, int pixels, int channels)
{
    memset(to, 0, (size_t)pixels * (size_t)channels * sizeof(float));
}

/* Puts a row of the image, or of the zeros around it, where row `place` belongs. */
static void load_row(const band *band, int row, int place)
{
    const value_source *shape = band->values ? band->values : &band->gradients->y;
    for (int b = 0; b < band_blocks(band); b++) {
        int pixel = band_pixel(band, b), first = band->channel + b * band->block;
        int last = band->compact ? shape->cp : first + pixel, right = band->width - band->left - shape->w;
        float *to = band_row(band, place, b), *inside = to + band->left * pixel;
        if (row < 0 || row >= shape->h) {
            clear_pixels(to, band->width, pixel);
            continue;
        }
        if (band->values)
            RC_FAST(load_value_row)(band->values, row, first, last, inside, pixel);
        else
            RC_FAST(load_gradient_row)(band->gradients, row, first, last, inside, pixel);
        clear_pixels(to, band->left, pixel);
        clear_pixels(to + (band->width - right) * pixel, right, pixel);
    }
}

static bool row_is_read(const band *band, int row)
{
    return (row - band->read_first) % band->read_step < band->read_span;
}

void RC_FAST(band_load)(band *band, int first, int last)
{
    bool store = band->values && band->values->store;
    /* The rows that stay move to the top when the new ones would not fit below. */
    if (last - band->top > band->rows) {
        int stay = band->next > first ? band->next - first : 0;
        for (int b = 0; stay > 0 && b < band_blocks(band); b++)
            memmove(band_row(band, band->top, b), band_row(band, first, b),
                    (size_t)stay * (size_t)band->width * (size_t)band_pixel(band, b) * sizeof(float));
        band->top = first;
    }
    for (; band->next < last; band->next++) {
        int row = band->next;
        if (row >= first && (store || row_is_read(band, row)))
            load_row(band, row, row);
        else if (row < first && store && row >= 0)
            load_row(band, row, band->top); /* for the sake of storing it; row `top` comes later or is done with */
    }
}
