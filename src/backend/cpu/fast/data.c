/* Batches of images and random numbers, one task per image. */
#include <string.h>

#include "backend/cpu/fast/isa.h"
#include "base/rng.h"

static rc_rng stream_of(const rc_step *step, uint32_t stream)
{
    return (rc_rng){step->seed, (uint64_t)step->task << 32 | stream};
}

/* ---- augmentation ---------------------------------------------------------------------------------------------- */

typedef struct augment_job {
    const rc_augment *augment;
    const uint8_t *images;
    const int32_t *order; /* of this batch */
    const rc_step *step;
    float *out; /* (n, h, w, cp) */
    int cp;
    float factor[4], offset[4]; /* byte * factor + offset = (byte / 255 - mean) / std */
} augment_job;

/* `count` pixels of `c` bytes, from one to the next `step` bytes, to pixels of cp floats; the pads become zero. */
static void convert(const augment_job *batch, const uint8_t *from, ptrdiff_t step, int count, float *to)
{
    int c = batch->augment->c, cp = batch->cp;
    for (int x = 0; x < count; x++, from += step, to += cp) {
        for (int channel = 0; channel < c; channel++)
            to[channel] = (float)from[channel] * batch->factor[channel] + batch->offset[channel];
        for (int channel = c; channel < cp; channel++)
            to[channel] = 0;
    }
}

/* One row of the window: pixels [from, from + w) of an image row with zeros on both sides, mirrored if asked for. */
static void augment_row(const augment_job *batch, const uint8_t *row, int from, bool flip, float *out)
{
    int w = batch->augment->w, c = batch->augment->c;
    size_t pixel = (size_t)batch->cp * sizeof(float);
    /* the part of the window that lies inside the image, in pixels of the window */
    int begin = from < 0 ? -from : 0, end = from > 0 ? w - from : w;
    if (end <= begin) { /* a pad as wide as the image */
        memset(out, 0, (size_t)w * pixel);
        return;
    }
    int left = flip ? w - end : begin, right = flip ? begin : w - end;
    memset(out, 0, (size_t)left * pixel);
    if (flip)
        convert(batch, row + (ptrdiff_t)(from + end - 1) * c, -c, end - begin, out + (ptrdiff_t)left * batch->cp);
    else
        convert(batch, row + (ptrdiff_t)(from + begin) * c, c, end - begin, out + (ptrdiff_t)left * batch->cp);
    memset(out + (ptrdiff_t)(w - right) * batch->cp, 0, (size_t)right * pixel);
}

static void augment_image(void *context, int b, int worker)
{
    (void)worker;
    const augment_job *batch = context;
    const rc_augment *augment = batch->augment;
    int h = augment->h, w = augment->w;
    size_t image_bytes = (size_t)h * (size_t)w * (size_t)augment->c;
    const uint8_t *image = batch->images + (size_t)batch->order[b] * image_bytes;
    rc_rng rng = stream_of(batch->step, augment->stream);
    uint64_t first = ((uint64_t)batch->step->step << 32) + 4 * (uint64_t)b;
    uint32_t offsets = 2 * (uint32_t)augment->pad + 1;
    int top = (int)rc_rng_below(rng, first, offsets) - augment->pad;
    int from = (int)rc_rng_below(rng, first + 1, offsets) - augment->pad;
    bool flip = augment->flip && rc_rng_bits(rng, first + 2) >> 31;
    size_t row_floats = (size_t)w * (size_t)batch->cp;
    for (int y = 0; y < h; y++) {
        float *out = batch->out + ((size_t)b * (size_t)h + (size_t)y) * row_floats;
        int row = y + top;
        if (row < 0 || row >= h)
            memset(out, 0, row_floats * sizeof(float));
        else
            augment_row(batch, image + (size_t)row * (size_t)w * (size_t)augment->c, from, flip, out);
    }
}

static void augment(rc_backend *be, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *step, rc_tensor *out)
{
    augment_job batch = {.augment = augment,
                         .images = images,
                         .order = order + (size_t)step->batch * (size_t)n,
                         .step = step,
                         .out = out->raw,
                         .cp = rc_padded(be, augment->c)};
    for (int channel = 0; channel < augment->c; channel++) {
        double std = (double)augment->std[channel];
        batch.factor[channel] = (float)(1 / (255 * std));
        batch.offset[channel] = (float)(-(double)augment->mean[channel] / std);
    }
    rc_pool_run(rc_cpu_of(be)->pool, n, augment_image, &batch);
}

/* ---- normals --------------------------------------------------------------------------------------------------- */

typedef struct normals_job {
    rc_rng rng;
    uint64_t first; /* index of the first draw of the step */
    float *out;     /* (n, h, w, cp) */
    int pixels, c, cp;
} normals_job;

static void normals_image(void *context, int image, int worker)
{
    (void)worker;
    const normals_job *normals = context;
    int c = normals->c, cp = normals->cp;
    for (int p = 0; p < normals->pixels; p++) {
        size_t pixel = (size_t)image * (size_t)normals->pixels + (size_t)p;
        float *out = normals->out + pixel * (size_t)cp;
        rc_rng_fill_normal(normals->rng, normals->first + pixel * (uint64_t)c, out, (size_t)c);
        for (int channel = c; channel < cp; channel++)
            out[channel] = 0;
    }
}

static void random_normal(rc_backend *be, uint32_t stream, const rc_step *step, rc_tensor *out)
{
    normals_job normals = {.rng = stream_of(step, stream),
                           .first = (uint64_t)step->step << 32,
                           .out = out->raw,
                           .pixels = out->h * out->w,
                           .c = out->c,
                           .cp = rc_padded(be, out->c)};
    rc_pool_run(rc_cpu_of(be)->pool, out->n, normals_image, &normals);
}

/* ---- moving images --------------------------------------------------------------------------------------------- */

typedef struct roll_job {
    const float *from;
    float *to;
    int h, row, column;  /* where the first pixel comes from */
    size_t width, pixel; /* floats of a row, of a pixel */
} roll_job;

static void roll_image(void *context, int image, int worker)
{
    (void)worker;
    const roll_job *r = context;
    size_t first = (size_t)image * (size_t)r->h, head = (size_t)r->column * r->pixel, tail = r->width - head;
    for (int i = 0; i < r->h; i++) {
        const float *from = r->from + (first + (size_t)((i + r->row) % r->h)) * r->width;
        float *to = r->to + (first + (size_t)i) * r->width;
        memcpy(to, from + head, tail * sizeof *to);
        memcpy(to + tail, from, head * sizeof *to);
    }
}

static void roll(rc_backend *be, uint32_t stream, int range, bool back, const rc_step *step, const rc_tensor *x,
                 void *y)
{
    rc_rng rng = stream_of(step, stream);
    uint64_t first = (uint64_t)step->step << 32;
    int rows = (int)rc_rng_below(rng, first, 2 * (uint32_t)range + 1) - range;
    int columns = (int)rc_rng_below(rng, first + 1, 2 * (uint32_t)range + 1) - range, h = x->h, w = x->w;
    size_t pixel = (size_t)rc_padded(be, x->c);
    roll_job rolling = {.from = x->raw,
                        .to = y,
                        .h = h,
                        .row = ((back ? rows : -rows) % h + h) % h,
                        .column = ((back ? columns : -columns) % w + w) % w,
                        .width = (size_t)w * pixel,
                        .pixel = pixel};
    rc_pool_run(rc_cpu_of(be)->pool, x->n, roll_image, &rolling);
}

void RC_FAST(fill_data)(rc_backend *table)
{
    table->augment = augment;
    table->random_normal = random_normal;
    table->roll = roll;
}
