/* Batches of images, random numbers, labels. */
#include <math.h>

#include "backend/cpu/reference/value.h"
#include "backend/vary.h"
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
    return order + rc_step_first(step, n);
}

/* What is drawn for one image. */
typedef struct view {
    const rc_augment *augment;
    const uint8_t *image; /* (h, w, c) */
    int crop_row, crop_column;
    bool flip;
    uint32_t cut, top, left; /* of zoom, in 2^-32 of a side */
    double brightness, contrast, saturation;
} view;

static double colour_factor(const rc_augment *augment, rc_rng rng, uint64_t index)
{
    return 1 + (double)augment->colour * (2 * (double)rc_rng_uniform(rng, index) - 1);
}

static view draw_view(const rc_augment *augment, const uint8_t *image, const rc_step *step, uint64_t b)
{
    rc_rng rng = stream_of(step, augment->stream), strong = stream_of(step, augment->stream | RC_STREAM_STRONG);
    uint64_t first = draw_index(step, 4 * b), first_strong = draw_index(step, 8 * b);
    uint32_t offsets = 2 * (uint32_t)augment->pad + 1;
    view v = {.augment = augment, .image = image};
    v.crop_row = (int)rc_rng_below(rng, first, offsets);
    v.crop_column = (int)rc_rng_below(rng, first + 1, offsets);
    v.flip = augment->flip && rc_rng_bits(rng, first + 2) >> 31;
    v.cut = rc_rng_below(strong, first_strong, augment->zoom + 1);
    v.top = rc_rng_below(strong, first_strong + 1, v.cut + 1);
    v.left = rc_rng_below(strong, first_strong + 2, v.cut + 1);
    v.brightness = colour_factor(augment, strong, first_strong + 4);
    v.contrast = colour_factor(augment, strong, first_strong + 5);
    v.saturation = augment->c == 3 ? colour_factor(augment, strong, first_strong + 6) : 1;
    return v;
}

/* byte' = k b (s byte + (1 - s) grey) + 127.5 (1 - k), clipped */
static double coloured(const view *v, const uint8_t *pixel, int channel)
{
    double grey = v->augment->c == 3 ? 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2] : 0;
    double byte = v->contrast * v->brightness * (v->saturation * pixel[channel] + (1 - v->saturation) * grey) +
                  127.5 * (1 - v->contrast);
    return byte < 0 ? 0 : byte > 255 ? 255 : byte;
}

/* The normalised image is surrounded by `pad` zeros; the crop starts at (crop row, crop column) of that. */
static double of_crop(const view *v, int y, int x, int channel)
{
    const rc_augment *a = v->augment;
    int row = y + v->crop_row - a->pad, column = x + v->crop_column - a->pad;
    if (row < 0 || row >= a->h || column < 0 || column >= a->w)
        return 0;
    double byte = coloured(v, v->image + at(a->h, a->w, a->c, 0, row, column, 0), channel);
    return (byte / 255 - (double)a->mean[channel]) / (double)a->std[channel];
}

/* Pixel i of the zoomed side of `length` pixels lies between two of the crop: sets the first one, returns the weight of
 * the second. */
static double place(const view *v, int i, int length, uint32_t start, int *first)
{
    const int64_t one = INT64_C(1) << 32;
    int64_t position = (int64_t)length * start + i * (one - v->cut) - v->cut / 2, end = (length - 1) * one;
    position = position < 0 ? 0 : position > end ? end : position;
    *first = (int)(position / one);
    return (double)(position % one) / (double)one;
}

/* Pixel (y, x) of the crop after zoom. Where nothing is zoomed every weight is 0. */
static double zoomed(const view *v, int y, int x, int channel)
{
    int h = v->augment->h, w = v->augment->w, row, column;
    double below = place(v, y, h, v->top, &row), right = place(v, x, w, v->left, &column);
    int next_row = row + 1 < h ? row + 1 : row, next_column = column + 1 < w ? column + 1 : column;
    return (1 - below) *
               ((1 - right) * of_crop(v, row, column, channel) + right * of_crop(v, row, next_column, channel)) +
           below * ((1 - right) * of_crop(v, next_row, column, channel) +
                    right * of_crop(v, next_row, next_column, channel));
}

/* images (count, h, w, c) bytes */
static void augment(rc_backend *be, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *step, rc_tensor *out)
{
    int h = augment->h, w = augment->w, c = augment->c, cp = rc_padded(be, c);
    const rc_cpu_lent *lent = rc_cpu_read_lent(rc_cpu_of(be), images, order, rc_step_first(step, n), n);
    for (int b = 0; b < n; b++) {
        const uint8_t *image = rc_cpu_image(lent, images, (size_t)h * (size_t)w * (size_t)c, batch_of(order, step, n),
                                            b);
        view v = draw_view(augment, image, step, rc_step_place(step, n) + (uint64_t)b);
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int channel = 0; channel < cp; channel++) {
                    double value = channel < c ? zoomed(&v, y, v.flip ? w - 1 - x : x, channel) : 0;
                    ((real *)out->raw)[at(h, w, cp, b, y, x, channel)] = (real)value;
                }
    }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void vary_image(const rc_vary *vary, const rc_look *look, const uint8_t *image, uint8_t *out)
{
    int h = vary->h, w = vary->w, c = vary->c;
    for (int channel = 0; channel < c; channel++) {
        int32_t count[256] = {0};
        uint8_t table[256];
        for (int i = 0; rc_vary_counts(look) && i < h * w; i++) {
            const uint8_t *pixel = image + (size_t)i * (size_t)c;
            count[look->kind == RC_VARY_CONTRAST ? rc_vary_grey(pixel, c) : pixel[channel]]++;
        }
        for (int byte = 0; byte < 256; byte++)
            table[byte] = rc_vary_byte(look, count, byte);
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                out[at(h, w, c, 0, y, x, channel)] = rc_vary_pixel(look, image, h, w, c, table, y, x, channel);
    }
}

static void vary(rc_backend *be, const rc_vary *vary, const uint8_t *images, const int32_t *order, int n,
                 const rc_step *step, const int32_t *labels, uint8_t *out, int32_t *turned)
{
    size_t bytes = (size_t)vary->h * (size_t)vary->w * (size_t)vary->c;
    rc_rng rng = stream_of(step, vary->stream);
    const rc_cpu_lent *lent = rc_cpu_read_lent(rc_cpu_of(be), images, order, rc_step_first(step, n), n);
    for (int b = 0; b < n; b++) {
        uint64_t first = draw_index(step, 4 * (rc_step_place(step, n) + (uint64_t)b));
        uint32_t draw[4];
        for (int i = 0; i < 4; i++)
            draw[i] = rc_rng_bits(rng, first + (uint64_t)i);
        rc_look look = rc_vary_look(vary->h, vary->w, vary->trivial, vary->turns, draw);
        vary_image(vary, &look, rc_cpu_image(lent, images, bytes, batch_of(order, step, n), b),
                   out + (size_t)b * bytes);
        if (turned != NULL)
            turned[b] = rc_vary_label(&look, vary->n_old, vary->classes, labels[batch_of(order, step, n)[b]]);
    }
}

/* ---- squares of zeros, and two images in one -------------------------------------------------------------------- */

/* Pixels [top, bottom) x [left, right). */
typedef struct box {
    int top, bottom, left, right;
} box;

/* height by width pixels around a centre, as far as they lie in an image of h by w. */
static box box_around(int row, int column, int height, int width, int h, int w)
{
    int top = row - height / 2, left = column - width / 2;
    return (box){.top = top > 0 ? top : 0,
                 .bottom = top + height < h ? top + height : h,
                 .left = left > 0 ? left : 0,
                 .right = left + width < w ? left + width : w};
}

static bool is_inside(box area, int y, int x)
{
    return y >= area.top && y < area.bottom && x >= area.left && x < area.right;
}

/* Beta(a, a) out of two uniforms and a sign (backend.h). */
static double symmetric_beta(double a, uint32_t first, uint32_t second)
{
    const double turn = 6.283185307179586476925286766559;
    double u = (first + 0.5) * 0x1p-32, cosine = cos(turn * (second + 0.5) * 0x1p-32);
    double spread = (pow(u, -1 / a) - 1) * cosine * cosine;
    return 0.5 + (second & 1 ? 0.5 : -0.5) / sqrt(1 + 1 / spread);
}

/* How a pair is mixed: outside the box each pixel keeps `share` of itself, inside it takes the other's. */
typedef struct blend {
    double share, label_share;
    box swapped;
} blend;

static blend draw_blend(const rc_mix *mix, rc_rng rng, uint64_t first, int h, int w)
{
    bool boxed = mix->cutmix > 0 && (mix->mixup <= 0 || rc_rng_bits(rng, first + 2) >> 31);
    double lambda = symmetric_beta((double)(boxed ? mix->cutmix : mix->mixup), rc_rng_bits(rng, first + 3),
                                   rc_rng_bits(rng, first + 4));
    if (!boxed)
        return (blend){.share = lambda, .label_share = lambda};
    double side = sqrt(1 - lambda);
    box area = box_around((int)rc_rng_below(rng, first + 5, (uint32_t)h),
                          (int)rc_rng_below(rng, first + 6, (uint32_t)w), (int)(h * side), (int)(w * side), h, w);
    double pixels = (double)(area.bottom - area.top) * (area.right - area.left);
    return (blend){.share = 1, .label_share = 1 - pixels / ((double)h * w), .swapped = area};
}

static void mix(rc_backend *be, const rc_mix *mix, const int32_t *labels, const rc_step *step, rc_tensor *images,
                int32_t *partner, void *share)
{
    int n = images->n, h = images->h, w = images->w, cp = rc_padded(be, images->c);
    rc_rng rng = stream_of(step, mix->stream);
    uint64_t place = rc_step_place(step, n);
    real *value = images->raw;
    for (int b = 0; b < n && mix->cutout > 0; b++) {
        uint64_t first = draw_index(step, 8 * (place + (uint64_t)b));
        box hole = box_around((int)rc_rng_below(rng, first, (uint32_t)h),
                              (int)rc_rng_below(rng, first + 1, (uint32_t)w), mix->cutout, mix->cutout, h, w);
        for (int y = hole.top; y < hole.bottom; y++)
            for (int x = hole.left; x < hole.right; x++)
                for (int channel = 0; channel < cp; channel++)
                    value[at(h, w, cp, b, y, x, channel)] = 0;
    }
    for (int b = 0; b < n && partner != NULL; b += 2) {
        int other = b + 1 < n ? b + 1 : b;
        blend pair = {.share = 1, .label_share = 1};
        if (other != b)
            pair = draw_blend(mix, rng, draw_index(step, 8 * (place + (uint64_t)b)), h, w);
        partner[b] = labels[other];
        partner[other] = labels[b];
        ((real *)share)[b] = ((real *)share)[other] = (real)pair.label_share;
        for (int y = 0; other != b && y < h; y++)
            for (int x = 0; x < w; x++) {
                double own = is_inside(pair.swapped, y, x) ? 0 : pair.share;
                for (int channel = 0; channel < cp; channel++) {
                    real *mine = value + at(h, w, cp, b, y, x, channel);
                    real *its = value + at(h, w, cp, other, y, x, channel);
                    double mixed = own * *mine + (1 - own) * *its;
                    *its = (real)(own * *its + (1 - own) * *mine);
                    *mine = (real)mixed;
                }
            }
    }
}

static void random_normal(rc_backend *be, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    rc_rng rng = stream_of(step, stream);
    int cp = rc_padded(be, out->c);
    uint64_t e = rc_step_place(step, out->n) * (uint64_t)out->h * (uint64_t)out->w * (uint64_t)out->c;
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
    table->vary = vary;
    table->mix = mix;
    table->random_normal = random_normal;
    table->gather_labels = gather_labels;
    table->roll = roll;
}
