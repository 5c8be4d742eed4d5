#include "backend/cpu/fast/convolution/band.h"

#include <string.h>

#include "backend/cpu/fast/ints.h"

static void clear_pixels(float *to, int pixels, int channels)
{
    memset(to, 0, (size_t)pixels * (size_t)channels * sizeof(float));
}

static const value_source *shape_of(const row_band *band)
{
    return band->values ? band->values : &band->gradients->y;
}

static void clear_row(const row_band *band, int row)
{
    for (int b = 0; b < band_blocks(band); b++)
        clear_pixels(band_row(band, row, b), band->width, band_pixel(band, b));
}

static bool row_is_stored(const row_band *band, int row)
{
    return band->values && band->values->store && row >= band->store_first && row < band->store_end;
}

/* Puts rows of the image where row `place` and the ones after it belong. All of them are stored or none. */
static void load_rows(const row_band *band, int row, int rows, int place)
{
    const value_source *shape = shape_of(band);
    value_source values = *shape;
    if (!row_is_stored(band, row))
        values.store = NULL;
    for (int b = 0; b < band_blocks(band); b++) {
        int pixel = band_pixel(band, b), first = band->channel + b * band->block;
        int last = band->compact ? shape->cp : first + pixel, right = band->width - band->left - shape->w;
        ptrdiff_t floats = (ptrdiff_t)band->width * pixel;
        float *to = band_row(band, place, b), *inside = to + band->left * pixel;
        if (band->values)
            RC_FAST(load_value_rows)(&values, row, rows, first, last, inside, pixel, floats);
        else
            RC_FAST(load_gradient_rows)(band->gradients, row, rows, first, last, inside, pixel, floats);
        for (int r = 0; r < rows; r++, to += floats) {
            clear_pixels(to, band->left, pixel);
            clear_pixels(to + (band->width - right) * pixel, right, pixel);
        }
    }
}

static bool row_is_read(const row_band *band, int row)
{
    return (row - band->read_first) % band->read_step < band->read_span;
}

void RC_FAST(band_load)(row_band *band, int first, int last)
{
    /* The rows that stay move to the top when the new ones would not fit below. */
    if (last - band->top > band->rows) {
        int stay = band->next > first ? band->next - first : 0;
        for (int b = 0; stay > 0 && b < band_blocks(band); b++)
            memmove(band_row(band, band->top, b), band_row(band, first, b),
                    (size_t)stay * (size_t)band->width * (size_t)band_pixel(band, b) * sizeof(float));
        band->top = first;
    }
    for (int rows; band->next < last; band->next += rows) {
        int row = band->next, h = shape_of(band)->h;
        rows = 1;
        if (row < first) {
            if (row_is_stored(band, row))
                load_rows(band, row, 1, band->top); /* to store it; row `top` comes later or is done with */
        } else if (row < 0 || row >= h) {
            clear_row(band, row);
        } else if (row_is_stored(band, row) || row_is_read(band, row)) {
            bool stored = row_is_stored(band, row);
            while (row + rows < smaller(last, h) && row_is_stored(band, row + rows) == stored &&
                   (stored || row_is_read(band, row + rows)))
                rows++;
            load_rows(band, row, rows, row);
        }
    }
}
