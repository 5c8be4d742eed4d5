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
    const rc_cpu *cpu;
    const rc_augment *augment;
    const uint8_t *images;
    const rc_cpu_lent *lent;
    const int32_t *order; /* of this batch */
    const rc_step *step;
    uint64_t place; /* of the first sample in the whole batch */
    float *out;     /* (n, h, w, cp) */
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

/* The bytes of sample b. */
static const uint8_t *image_of(const augment_job *batch, int b)
{
    const rc_augment *augment = batch->augment;
    size_t bytes = (size_t)augment->h * (size_t)augment->w * (size_t)augment->c;
    return rc_cpu_image(batch->lent, batch->images, bytes, batch->order, b);
}

typedef struct crop {
    int top, from; /* where the window starts, in pixels of the image */
    bool flip;
} crop;

static crop draw_crop(const augment_job *batch, int b)
{
    const rc_augment *augment = batch->augment;
    rc_rng rng = stream_of(batch->step, augment->stream);
    uint64_t first = ((uint64_t)batch->step->step << 32) + 4 * (batch->place + (uint64_t)b);
    uint32_t offsets = 2 * (uint32_t)augment->pad + 1;
    return (crop){.top = (int)rc_rng_below(rng, first, offsets) - augment->pad,
                  .from = (int)rc_rng_below(rng, first + 1, offsets) - augment->pad,
                  .flip = augment->flip && rc_rng_bits(rng, first + 2) >> 31};
}

static void augment_image(void *context, int b, int worker)
{
    (void)worker;
    const augment_job *batch = context;
    const rc_augment *augment = batch->augment;
    int h = augment->h, w = augment->w;
    const uint8_t *image = image_of(batch, b);
    crop window = draw_crop(batch, b);
    size_t row_floats = (size_t)w * (size_t)batch->cp;
    for (int y = 0; y < h; y++) {
        float *out = batch->out + ((size_t)b * (size_t)h + (size_t)y) * row_floats;
        int row = y + window.top;
        if (row < 0 || row >= h)
            memset(out, 0, row_floats * sizeof(float));
        else
            augment_row(batch, image + (size_t)row * (size_t)w * (size_t)augment->c, window.from, window.flip, out);
    }
}

/* ---- zoom and colour ------------------------------------------------------------------------------------------- */

/* Four channels: what a pixel of an image is padded to. */
typedef float pixel4 __attribute__((vector_size(16), may_alias));
typedef int32_t mask4 __attribute__((vector_size(16)));

/* One image on its way. A row of the crop is coloured and normalised into `row`, then zoomed and flipped into `above`
 * or `below`, and a row of the result lies between these two. So every row is read once. */
typedef struct strong_job {
    const augment_job *batch;
    const uint8_t *image;
    crop window;
    uint32_t cut, top, left;   /* in 2^-32 of a side */
    float own, shared, offset; /* byte' = own * byte + shared * grey + offset, clipped */
    pixel4 *row;               /* (w + 1): the last is read with weight 0 alone */
    pixel4 *above, *below;     /* (w) */
    int32_t *column;           /* (w): the first of two pixels of `row` */
    float *weight;             /* (w): of the second */
} strong_job;

static float colour_factor(const rc_augment *augment, uint32_t bits)
{
    return 1 + augment->colour * (2 * rc_uniform_from_bits(bits) - 1);
}

static void draw_strong(strong_job *job, int b)
{
    const rc_augment *augment = job->batch->augment;
    rc_rng rng = stream_of(job->batch->step, augment->stream | RC_STREAM_STRONG);
    uint64_t block = ((uint64_t)job->batch->step->step << 30) + 2 * (job->batch->place + (uint64_t)b);
    rc_philox place = rc_rng_block(rng, block), colour = rc_rng_block(rng, block + 1);
    job->cut = rc_below_from_bits(place.lane[0], augment->zoom + 1);
    job->top = rc_below_from_bits(place.lane[1], job->cut + 1);
    job->left = rc_below_from_bits(place.lane[2], job->cut + 1);
    float brightness = colour_factor(augment, colour.lane[0]), contrast = colour_factor(augment, colour.lane[1]);
    float saturation = augment->c == 3 ? colour_factor(augment, colour.lane[2]) : 1;
    job->own = contrast * brightness * saturation;
    job->shared = contrast * brightness * (1 - saturation);
    job->offset = 127.5f * (1 - contrast);
}

/* Pixel i of a zoomed side of `length` pixels lies between two of the crop: returns the first one and sets the weight
 * of the second. */
RC_INLINE int32_t place(const strong_job *job, int i, int length, uint32_t start, float *weight)
{
    const int64_t one = INT64_C(1) << 32;
    int64_t position = (int64_t)length * start + i * (one - job->cut) - job->cut / 2, end = (length - 1) * one;
    position = position < 0 ? 0 : position > end ? end : position;
    *weight = (float)(uint32_t)position * 0x1p-32f;
    return (int32_t)(position >> 32);
}

RC_INLINE pixel4 clip(pixel4 value)
{
    const pixel4 most = {255, 255, 255, 255};
    value = (pixel4)((mask4)value & (value > 0));
    mask4 above = value > most;
    return (pixel4)(((mask4)most & above) | ((mask4)value & ~above));
}

/* Pixels of c bytes, coloured and normalised; the pads become zero. */
static void colour_pixels(const strong_job *job, const uint8_t *from, int count, pixel4 *to)
{
    const augment_job *batch = job->batch;
    const float *factor = batch->factor, *offset = batch->offset;
    pixel4 scale = {factor[0], factor[1], factor[2], factor[3]}, shift = {offset[0], offset[1], offset[2], offset[3]};
    int c = batch->augment->c;
    if (c == 3)
        for (int x = 0; x < count; x++, from += 3) {
            float red = from[0], green = from[1], blue = from[2];
            float grey = 0.299f * red + 0.587f * green + 0.114f * blue;
            pixel4 value = (pixel4){red, green, blue, 0} * job->own + (job->shared * grey + job->offset);
            to[x] = clip(value) * scale + shift;
        }
    else
        for (int x = 0; x < count; x++, from += c) {
            pixel4 value = {0};
            for (int channel = 0; channel < c; channel++)
                value[channel] = from[channel];
            to[x] = clip(value * job->own + job->offset) * scale + shift;
        }
}

/* Row y of the crop, zoomed in width and flipped. */
static void strong_row(const strong_job *job, int y, pixel4 *out)
{
    const rc_augment *augment = job->batch->augment;
    int w = augment->w, row = y + job->window.top, from = job->window.from;
    int begin = from < 0 ? -from : 0, end = from > 0 ? w - from : w; /* of the crop, what lies inside the image */
    if (row < 0 || row >= augment->h || end <= begin) {
        memset(out, 0, (size_t)w * sizeof *out);
        return;
    }
    memset(job->row, 0, (size_t)begin * sizeof *job->row);
    colour_pixels(job, job->image + ((size_t)row * (size_t)w + (size_t)(from + begin)) * (size_t)augment->c,
                  end - begin, job->row + begin);
    memset(job->row + end, 0, (size_t)(w + 1 - end) * sizeof *job->row);
    for (int x = 0; x < w; x++) {
        pixel4 left = job->row[job->column[x]], right = job->row[job->column[x] + 1];
        out[x] = left + job->weight[x] * (right - left);
    }
}

/* Every row of the result lies between two of the crop, at or below those of the row before. */
static void strong_image(void *context, int b, int worker)
{
    const augment_job *batch = context;
    int h = batch->augment->h, w = batch->augment->w;
    char *scratch = rc_cpu_scratch(batch->cpu, worker); /* of 72 bytes a pixel; a row has 1024 at most */
    size_t row_bytes = (size_t)w * sizeof(pixel4);
    strong_job job = {.batch = batch, .image = image_of(batch, b), .window = draw_crop(batch, b)};
    job.above = (pixel4 *)(void *)scratch;
    job.below = (pixel4 *)(void *)(scratch + row_bytes);
    job.row = (pixel4 *)(void *)(scratch + 2 * row_bytes);
    job.column = (int32_t *)(job.row + w + 1);
    job.weight = (float *)(job.column + w);
    draw_strong(&job, b);
    for (int x = 0; x < w; x++)
        job.column[x] = place(&job, job.window.flip ? w - 1 - x : x, w, job.left, &job.weight[x]);
    pixel4 *out = (pixel4 *)(void *)(batch->out + (size_t)b * (size_t)h * (size_t)w * (size_t)batch->cp);
    int held = -2; /* the row that lies in `above`; the next one lies in `below` */
    for (int y = 0; y < h; y++, out += w) {
        float weight;
        int first = place(&job, y, h, job.top, &weight);
        if (first == held + 1) {
            pixel4 *above = job.below;
            job.below = job.above;
            job.above = above;
        } else if (first != held)
            strong_row(&job, first, job.above);
        if (first != held && first + 1 < h)
            strong_row(&job, first + 1, job.below);
        held = first;
        if (weight > 0)
            for (int x = 0; x < w; x++)
                out[x] = job.above[x] + weight * (job.below[x] - job.above[x]);
        else
            memcpy(out, job.above, row_bytes);
    }
}

static void augment(rc_backend *be, const rc_augment *augment, const uint8_t *images, const int32_t *order, int n,
                    const rc_step *step, rc_tensor *out)
{
    augment_job batch = {.cpu = rc_cpu_of(be),
                         .augment = augment,
                         .images = images,
                         .lent = rc_cpu_read_lent(rc_cpu_of(be), images, order, rc_step_first(step, n), n),
                         .order = order + rc_step_first(step, n),
                         .step = step,
                         .place = rc_step_place(step, n),
                         .out = out->raw,
                         .cp = rc_padded(be, augment->c)};
    for (int channel = 0; channel < augment->c; channel++) {
        double std = (double)augment->std[channel];
        batch.factor[channel] = (float)(1 / (255 * std));
        batch.offset[channel] = (float)(-(double)augment->mean[channel] / std);
    }
    bool strong = augment->zoom > 0 || augment->colour > 0;
    rc_pool_run(rc_cpu_of(be)->pool, n, strong ? strong_image : augment_image, &batch);
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
                           .first = ((uint64_t)step->step << 32) +
                                    rc_step_place(step, out->n) * (uint64_t)(out->h * out->w) * (uint64_t)out->c,
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
