/* Antialiased resizing, bit for bit what Pillow's Image.resize gives on 8-bit pictures with BILINEAR and BICUBIC: a
 * filter whose width grows with the reduction, weights as integers of 22 fractional bits, rows first, then
 * columns, each pass rounded to 8 bits. (Pillow begins with the columns where a picture is more than 100 times as high
 * as wide, and version 13 in other cases, too; the published experiments were made with older ones.) Only the part that
 * is wanted is computed. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "data/image.h"

enum { WEIGHT_BITS = 22 };

/* One axis: output i is the weighted sum of inputs first[i] .. first[i] + count[i] - 1. */
typedef struct axis {
    int outputs;
    int width;              /* room for weights per output */
    int32_t *first, *count; /* (outputs) */
    int32_t *weight;        /* (outputs, width) */
    double *scratch;        /* (width) */
} axis;

static void axis_free(axis *a)
{
    rc_free(NULL, a->first);
    rc_free(NULL, a->count);
    rc_free(NULL, a->weight);
    rc_free(NULL, a->scratch);
    *a = (axis){0};
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic convolution with a = -1/2: negative from 1 to 2. */
static double cubic(double x)
{
    static const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static const struct {
    double (*weight)(double x);
    double support; /* the weight is 0 from there on */
} filters[] = {[RC_BILINEAR] = {triangle, 1}, [RC_BICUBIC] = {cubic, 2}};

/* Weights of the outputs [begin, begin + outputs) of an axis that goes from `in` to `out` pixels. */
static rc_status axis_create(axis *a, rc_interpolation how, int in, int out, int begin, int outputs)
{
    double scale = (double)in / out, filter_scale = scale < 1.0 ? 1.0 : scale;
    double support = filters[how].support * filter_scale;
    *a = (axis){.outputs = outputs, .width = (int)ceil(support) * 2 + 1};
    a->first = rc_alloc_zeroed(NULL, (size_t)outputs, sizeof *a->first);
    a->count = rc_alloc_zeroed(NULL, (size_t)outputs, sizeof *a->count);
    a->weight = rc_alloc_zeroed(NULL, (size_t)outputs * (size_t)a->width, sizeof *a->weight);
    a->scratch = rc_alloc_zeroed(NULL, (size_t)a->width, sizeof *a->scratch);
    if (a->first == NULL || a->count == NULL || a->weight == NULL || a->scratch == NULL) {
        axis_free(a);
        return RC_OUT_OF_MEMORY;
    }
    for (int i = 0; i < outputs; i++) {
        double centre = (begin + i + 0.5) * scale, sum = 0.0;
        int low = (int)(centre - support + 0.5), high = (int)(centre + support + 0.5);
        low = low < 0 ? 0 : low;
        high = high > in ? in : high;
        for (int x = low; x < high; x++) {
            a->scratch[x - low] = filters[how].weight((x - centre + 0.5) * (1.0 / filter_scale));
            sum += a->scratch[x - low];
        }
        a->first[i] = low;
        a->count[i] = high - low;
        for (int x = 0; x < high - low; x++) {
            double weight = sum != 0.0 ? a->scratch[x] / sum : a->scratch[x];
            a->weight[i * a->width + x] = (int32_t)((weight < 0 ? -0.5 : 0.5) + weight * (1 << WEIGHT_BITS));
        }
    }
    return RC_OK;
}

/* The weights sum to about 1: where none is negative, the sum can pass 255 by rounding only. Of a cubic filter the
 * absolute values sum to less than 1.5, so 32 bits hold the sum. */
static uint8_t rounded(int32_t sum)
{
    sum >>= WEIGHT_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* One row: in (*, c), out (a->outputs, c). */
static void resize_row(const axis *a, const uint8_t *in, int c, uint8_t *out)
{
    for (int i = 0; i < a->outputs; i++) {
        const int32_t *weight = a->weight + (size_t)i * (size_t)a->width;
        const uint8_t *pixel = in + (size_t)a->first[i] * (size_t)c;
        int32_t sum[3] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1)};
        for (int x = 0; x < a->count[i]; x++)
            for (int k = 0; k < c; k++)
                sum[k] += *pixel++ * weight[x];
        for (int k = 0; k < c; k++)
            *out++ = rounded(sum[k]);
    }
}

/* Columns: in (rows, bytes), whose first row is row `offset` of the picture; out (a->outputs, bytes). */
static void resize_columns(const axis *a, const uint8_t *in, int offset, size_t bytes, uint8_t *out)
{
    for (int i = 0; i < a->outputs; i++) {
        const int32_t *weight = a->weight + (size_t)i * (size_t)a->width;
        const uint8_t *first = in + (size_t)(a->first[i] - offset) * bytes;
        for (size_t b = 0; b < bytes; b++) {
            int32_t sum = 1 << (WEIGHT_BITS - 1);
            for (int y = 0; y < a->count[i]; y++)
                sum += first[(size_t)y * bytes + b] * weight[y];
            *out++ = rounded(sum);
        }
    }
}

/* Both passes; where a side keeps its length, its pass is a copy. */
static rc_status resize_with(const rc_image *image, const axis *columns, const axis *rows, int top, int left,
                             const rc_image *out)
{
    int begin = rows ? rows->first[0] : top, end = top + out->h;
    if (rows)
        end = rows->first[rows->outputs - 1] + rows->count[rows->outputs - 1];
    size_t bytes = (size_t)out->w * (size_t)image->c;
    uint8_t *middle = rows ? rc_alloc(NULL, (size_t)(end - begin) * bytes) : out->pixels;
    if (middle == NULL)
        return RC_OUT_OF_MEMORY;
    for (int y = begin; y < end; y++) {
        const uint8_t *in = image->pixels + (size_t)y * (size_t)image->w * (size_t)image->c;
        uint8_t *to = middle + (size_t)(y - begin) * bytes;
        if (columns)
            resize_row(columns, in, image->c, to);
        else
            memcpy(to, in + (size_t)left * (size_t)image->c, bytes);
    }
    if (rows) {
        resize_columns(rows, middle, begin, bytes, out->pixels);
        rc_free(NULL, middle);
    }
    return RC_OK;
}

rc_status rc_image_resize(const rc_image *image, rc_interpolation how, int h, int w, int top, int left,
                          const rc_image *out)
{
    axis columns = {0}, rows = {0};
    rc_status status = RC_OK;
    if (w != image->w)
        status = axis_create(&columns, how, image->w, w, left, out->w);
    if (status == RC_OK && h != image->h)
        status = axis_create(&rows, how, image->h, h, top, out->h);
    if (status == RC_OK)
        status = resize_with(image, w != image->w ? &columns : NULL, h != image->h ? &rows : NULL, top, left, out);
    axis_free(&columns);
    axis_free(&rows);
    return status;
}

/* int(round(margin / 2.0)) of Python, which rounds halves to even. */
static int half_to_even(int margin)
{
    int half = margin / 2;
    return margin % 2 == 1 && half % 2 == 1 ? half + 1 : half;
}

rc_status rc_image_fit_into(const rc_image *image, const rc_image_fit *fit, uint8_t *out)
{
    int channels = fit->channels > 0 ? fit->channels : image->c;
    int side = fit->resize > fit->size ? fit->resize : fit->size;
    size_t pixels = (size_t)image->h * (size_t)image->w;
    rc_image source = *image;
    uint8_t *converted = NULL;
    if (channels != image->c) {
        converted = rc_alloc(NULL, pixels * (size_t)channels);
        if (converted == NULL)
            return RC_OUT_OF_MEMORY;
        rc_image_convert(image->pixels, image->c, pixels, channels, converted);
        source = (rc_image){image->h, image->w, channels, converted};
    }
    int h = side, w = side;
    if (source.h > source.w)
        h = (int)((int64_t)side * source.h / source.w);
    else
        w = (int)((int64_t)side * source.w / source.h);
    rc_image target = {fit->size, fit->size, channels, out};
    rc_status status = rc_image_resize(&source, fit->interpolation, h, w, half_to_even(h - fit->size),
                                       half_to_even(w - fit->size), &target);
    rc_free(NULL, converted);
    return status;
}
