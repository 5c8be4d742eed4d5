/* Batches of images, random numbers, labels. */
#include "backend/cpu/reference/value.h"
#include "base/rng.h"

/* Draw e of a step. */
static uint64_t draw_index(const rc_step *step, uint64_t e)
{
    return ((uint64_t)step->step << 32) + e;
}

static rc_rng stream_of(const rc_step *step, uint32_t stream)
{
    return (rc_rng){step->seed, (uint64_t)step->task << 32 | stream};
}

/* The batch's part of the epoch's order. */
static const int32_t *batch_of(const int32_t *order, const rc_step *step, int n)
{
    return order + (size_t)step->batch * (size_t)n;
}

/* images (count, h, w, c) bytes. The normalised image is surrounded by `pad` zeros; the window starts at
 * (crop row, crop column) of that, and is then flipped. */
static void augment(rc_backend *be, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *step, rc_tensor *out)
{
    int h = augment->h, w = augment->w, c = augment->c, cp = rc_padded(be, c);
    rc_rng rng = stream_of(step, augment->stream);
    uint32_t offsets = 2 * (uint32_t)augment->pad + 1;
    for (int b = 0; b < n; b++) {
        const uint8_t *image = images + (size_t)batch_of(order, step, n)[b] * (size_t)h * (size_t)w * (size_t)c;
        uint64_t first = 4 * (uint64_t)b;
        int crop_row = (int)rc_rng_below(rng, draw_index(step, first), offsets);
        int crop_column = (int)rc_rng_below(rng, draw_index(step, first + 1), offsets);
        bool flip = augment->flip && rc_rng_bits(rng, draw_index(step, first + 2)) >> 31;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int channel = 0; channel < cp; channel++) {
                    int row = y + crop_row - augment->pad;
                    int column = (flip ? w - 1 - x : x) + crop_column - augment->pad;
                    bool inside = row >= 0 && row < h && column >= 0 && column < w && channel < c;
                    double value = 0;
                    if (inside)
                        value = ((double)image[at(h, w, c, 0, row, column, channel)] / 255 -
                                 (double)augment->mean[channel]) /
                                (double)augment->std[channel];
                    ((real *)out->raw)[at(h, w, cp, b, y, x, channel)] = (real)value;
                }
    }
}

static void random_normal(rc_backend *be, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    rc_rng rng = stream_of(step, stream);
    int cp = rc_padded(be, out->c);
    uint64_t e = 0;
    for (int image = 0; image < out->n; image++)
        for (int y = 0; y < out->h; y++)
            for (int x = 0; x < out->w; x++)
                for (int channel = 0; channel < cp; channel++)
                    ((real *)out->raw)[at(out->h, out->w, cp, image, y, x, channel)] = channel < out->c
                                                                                           ? (real)rc_rng_normal(
                                                                                                 rng,
                                                                                                 draw_index(step, e++))
                                                                                           : 0;
}

static void gather_labels(rc_backend *be, const int32_t *labels, const int32_t *order, int n, const rc_step *step,
                          int32_t *out)
{
    (void)be;
    for (int b = 0; b < n; b++)
        out[b] = labels[batch_of(order, step, n)[b]];
}

/* y(i, j) = x((i - rows) mod h, (j - columns) mod w) */
static void roll(rc_backend *be, uint32_t stream, int range, bool back, const rc_step *step, const rc_tensor *x,
                 void *y)
{
    int h = x->h, w = x->w, cp = rc_padded(be, x->c);
    rc_rng rng = stream_of(step, stream);
    int rows = (int)rc_rng_below(rng, draw_index(step, 0), 2 * (uint32_t)range + 1) - range;
    int columns = (int)rc_rng_below(rng, draw_index(step, 1), 2 * (uint32_t)range + 1) - range;
    int from_row = ((back ? rows : -rows) % h + h) % h, from_column = ((back ? columns : -columns) % w + w) % w;
    for (int image = 0; image < x->n; image++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < w; j++)
                for (int channel = 0; channel < cp; channel++)
                    ((real *)y)[at(h, w, cp, image, i, j, channel)] =
                        ((const real *)x->raw)[at(h, w, cp, image, (i + from_row) % h, (j + from_column) % w, channel)];
}

void RC_REFERENCE(fill_data)(rc_backend *table)
{
    table->augment = augment;
    table->random_normal = random_normal;
    table->gather_labels = gather_labels;
    table->roll = roll;
}
