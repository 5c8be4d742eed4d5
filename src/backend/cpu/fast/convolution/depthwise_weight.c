/* Weight gradient of a depthwise convolution: dweight[c][tap] = sum over images and pixels of dL/draw * value of x. A
 * task takes a chunk of channels through some of the images; the results of the images' slots are added in order. */
#include <string.h>

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/convolution/depthwise.h"
#include "backend/cpu/fast/ints.h"

enum { WEIGHT_SLOTS = 8 };

typedef struct weight_job {
    rc_cpu *cpu;
    const rc_conv *conv;
    int cp, chunks, slots, n;
    const rc_tensor *x;
    const rc_grad *dy;
    double *sums; /* (slots, taps + 1, cp); the last is for the bias */
    float *dweight, *dbias;
} weight_job;

static int slots_of(int n)
{
    return smaller(n, WEIGHT_SLOTS);
}

size_t RC_FAST(depthwise_weight_doubles)(const rc_conv *conv, int n)
{
    return (size_t)slots_of(n) * (size_t)(conv->k * conv->k + 1) * (size_t)round_up(conv->c_in, 4);
}

/* Rows of both skips, the ring of x, a row of gradients. */
size_t RC_FAST(depthwise_weight_floats)(const rc_conv *conv)
{
    size_t cp = (size_t)round_up(conv->c_in, 4);
    return line_floats((size_t)conv->w * cp) + line_floats((size_t)conv->ow * cp) +
           (size_t)conv->k * (size_t)conv->w * CHUNK + (size_t)conv->ow * CHUNK;
}

/* One row of gradients against one row of x: pixel p of d meets column p * stride - pad + t. One vector of channels;
 * `pixel` floats from pixel to pixel of both, adds to sums (taps) cp apart. */
RC_INLINE void row_vector(const rc_conv *conv, const int lanes, const int taps, const float *d, const float *x,
                          int d_pixel, int x_pixel, double *sums, int cp)
{
    vec sum[DEPTH_TAPS];
    for (int t = 0; t < taps; t++)
        sum[t] = vec_set(0);
    for (int p = 0; p < conv->ow; p++) {
        vec g = vec_load_lanes(lanes, d + (ptrdiff_t)p * d_pixel);
        int column = p * conv->stride - conv->pad;
        const float *at = x + (ptrdiff_t)column * x_pixel;
        if (column >= 0 && column + taps <= conv->w) {
            for (int t = 0; t < taps; t++)
                sum[t] += g * vec_load_lanes(lanes, at + t * x_pixel);
        } else {
            for (int t = larger(-column, 0); t < smaller(taps, conv->w - column); t++)
                sum[t] += g * vec_load_lanes(lanes, at + t * x_pixel);
        }
    }
    for (int t = 0; t < taps; t++)
        for (int l = 0; l < lanes; l++)
            sums[(ptrdiff_t)t * cp + l] += (double)sum[t][l];
}

RC_INLINE void row_channels(const rc_conv *conv, const int taps, const float *d, const float *x, int d_pixel,
                            int x_pixel, int channels, double *sums, int cp)
{
    int c = 0;
    for (; c + RC_LANES <= channels; c += RC_LANES)
        row_vector(conv, RC_LANES, taps, d + c, x + c, d_pixel, x_pixel, sums + c, cp);
    for (; c < channels; c += 4)
        row_vector(conv, 4, taps, d + c, x + c, d_pixel, x_pixel, sums + c, cp);
}

static void row_pair(const rc_conv *conv, const float *d, const float *x, int d_pixel, int x_pixel, int channels,
                     double *sums, int cp)
{
    if (conv->k == 3)
        row_channels(conv, 3, d, x, d_pixel, x_pixel, channels, sums, cp);
    else if (conv->k == 5)
        row_channels(conv, 5, d, x, d_pixel, x_pixel, channels, sums, cp);
    else
        row_channels(conv, conv->k, d, x, d_pixel, x_pixel, channels, sums, cp);
}

static void add_row(const float *d, int pixel, int pixels, int channels, double *sums)
{
    for (int c = 0; c < channels; c++) {
        float sum = 0;
        for (int p = 0; p < pixels; p++)
            sum += d[(ptrdiff_t)p * pixel + c];
        sums[c] += (double)sum;
    }
}

static void weight_image(const weight_job *job, int image, int first, int channels, float *scratch, double *sums)
{
    const rc_conv *conv = job->conv;
    int cp = job->cp, k = conv->k;
    float *skip_y = scratch + line_floats((size_t)conv->w * (size_t)cp);
    float *rows = skip_y + line_floats((size_t)conv->ow * (size_t)cp), *d = rows + (ptrdiff_t)k * conv->w * CHUNK;
    value_source x = RC_FAST(value_source)(job->x, cp, image, scratch);
    x.store = NULL;
    gradient_source dy = RC_FAST(gradient_source)(job->dy, cp, image, skip_y);
    const float *plain = RC_FAST(plain_gradients)(&dy);
    row_ring ring = {.values = &x,
                     .direct = RC_FAST(plain_values)(&x), .memory = rows, .h = conv->h, .w = conv->w, .cp = cp,
                                       .slots = k, .first = first, .channels = channels};
    int x_pixel = ring.direct ? cp : channels, x_first = ring.direct ? first : 0, d_pixel = plain ? cp : channels;
    for (int oy = 0; oy < conv->oh; oy++) {
        int top = oy * conv->stride - conv->pad;
        RC_FAST(ring_load)(&ring, top, top + k);
        const float *row = plain ? plain + (ptrdiff_t)oy * conv->ow * cp + first : d;
        if (!plain)
            load_gradient_row(&dy, oy, first, first + channels, d, channels);
        for (int ky = larger(-top, 0); ky < smaller(k, conv->h - top); ky++)
            row_pair(conv, row, ring_row(&ring, top + ky) + x_first, d_pixel, x_pixel, channels,
                     sums + (ptrdiff_t)ky * k * cp, cp);
        if (job->dbias)
            add_row(row, d_pixel, conv->ow, channels, sums + (ptrdiff_t)k * k * cp);
    }
}

static void weight_task(void *context, int task, int worker)
{
    const weight_job *job = context;
    int slot = task / job->chunks, first = task % job->chunks * CHUNK, taps = job->conv->k * job->conv->k;
    int channels = smaller(CHUNK, job->cp - first);
    double *sums = job->sums + (ptrdiff_t)slot * (taps + 1) * job->cp + first;
    for (int tap = 0; tap <= taps; tap++)
        memset(sums + (ptrdiff_t)tap * job->cp, 0, (size_t)channels * sizeof *sums);
    for (int image = job->n * slot / job->slots; image < job->n * (slot + 1) / job->slots; image++)
        weight_image(job, image, first, channels, rc_cpu_scratch(job->cpu, worker), sums);
}

static double sum_of_slots(const weight_job *job, int tap, int c)
{
    int taps = job->conv->k * job->conv->k;
    double sum = 0;
    for (int slot = 0; slot < job->slots; slot++)
        sum += job->sums[((ptrdiff_t)slot * (taps + 1) + tap) * job->cp + c];
    return sum;
}

void RC_FAST(depthwise_backward_weight)(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                        void *dweight, void *dbias)
{
    int cp = round_up(conv->c_in, 4), taps = conv->k * conv->k, n = x->n;
    weight_job job = {.cpu = rc_cpu_of(table),
                      .conv = conv,
                      .cp = cp,
                      .chunks = (cp + CHUNK - 1) / CHUNK,
                      .slots = slots_of(n),
                      .n = n,
                      .x = x,
                      .dy = dy,
                      .sums = rc_cpu_of(table)->shared,
                      .dweight = dweight,
                      .dbias = dbias};
    rc_pool_run(job.cpu->pool, job.slots * job.chunks, weight_task, &job);
    for (int c = 0; c < conv->c_in; c++) {
        for (int tap = 0; tap < taps; tap++)
            job.dweight[(size_t)c * (size_t)taps + (size_t)tap] = (float)sum_of_slots(&job, tap, c);
        if (dbias)
            job.dbias[c] = (float)sum_of_slots(&job, taps, c);
    }
}
