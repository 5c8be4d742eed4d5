/* Image priors and reconstruction, one range of images per slot. The formulas are those of reference/image_losses.c.
 *
 * A row of an image is w * cp floats, and neighbouring pixels are cp floats apart, so that all channels are done at
 * once, pads included: they hold zeros and stay zeros. The inner loops are plain, over restrict pointers. */
#include <math.h>
#include <string.h>

#include "backend/cpu/fast/loss/losses.h"
#include "backend/cpu/fast/vector_math.h"

enum { TAPS = 5, RADIUS = 2, DIRECTIONS = 4 };

typedef struct images {
    const rc_cpu *cpu;
    const float *x; /* (n, h, w, cp) */
    float *dx;
    int n, h, w, cp, row; /* row = w * cp */
    int slots;
    float tap[TAPS], factor[DIRECTIONS];
    double value[RC_MAX_SLOTS][DIRECTIONS];
} images;

static images images_of(rc_backend *backend, const rc_tensor *x, void *dx)
{
    int cp = rc_padded(backend, x->c);
    return (images){.cpu = rc_cpu_of(backend),
                    .x = x->stored ? x->value : x->raw,
                    .dx = dx,
                    .n = x->n,
                    .h = x->h,
                    .w = x->w,
                    .cp = cp,
                    .row = x->w * cp,
                    .slots = rc_slots(x->n, 8.0 * x->h * x->w * cp)};
}

static double sum_direction(const images *m, int direction)
{
    double sum = 0;
    for (int i = 0; i < m->slots; i++)
        sum += m->value[i][direction];
    return sum;
}

/* sum (a - b)^2; b NULL: sum a^2 */
static double sum_squares(int count, const float *a, const float *b)
{
    vec sum[2] = {{0}, {0}};
    int i = 0;
    for (; i + 2 * RC_LANES <= count; i += 2 * RC_LANES) {
        for (int v = 0; v < 2; v++) {
            vec d = vec_load(a + i + v * RC_LANES);
            if (b)
                d -= vec_load(b + i + v * RC_LANES);
            sum[v] += d * d;
        }
    }
    double total = vec_sum(sum[0] + sum[1]);
    for (; i < count; i++) {
        float d = b ? a[i] - b[i] : a[i];
        total += d * d;
    }
    return total;
}

/* ---- smoothing --------------------------------------------------------------------------------------------
 * S = vertical after horizontal smoothing, so S^T = horizontal^T after vertical^T. */

static int reflect(int i, int size)
{
    if (i < 0)
        return -i;
    return i < size ? i : 2 * size - 2 - i;
}

/* Two images and a row with RADIUS pixels on both sides. */
size_t RC_FAST(smoothing_scratch)(int h, int w, int cp)
{
    return (2 * (size_t)h * (size_t)w + (size_t)w + 2 * RADIUS) * (size_t)cp * sizeof(float);
}

/* out_x = sum_t k_t padded_{x + t cp} */
static void convolve_row(int row, int cp, const float *tap, const float *restrict padded, float *restrict out)
{
    float outer = tap[0], inner = tap[1], middle = tap[2];
    for (int x = 0; x < row; x++)
        out[x] = outer * (padded[x] + padded[x + 4 * cp]) + inner * (padded[x + cp] + padded[x + 3 * cp]) +
                 middle * padded[x + 2 * cp];
}

static void smooth_row(const images *m, const float *in, float *padded, float *out)
{
    size_t pixel = (size_t)m->cp;
    memcpy(padded + RADIUS * pixel, in, (size_t)m->row * sizeof *in);
    for (int t = 1; t <= RADIUS; t++) {
        memcpy(padded + (size_t)(RADIUS - t) * pixel, in + (size_t)t * pixel, pixel * sizeof *in);
        memcpy(padded + (size_t)(RADIUS + m->w - 1 + t) * pixel, in + (size_t)(m->w - 1 - t) * pixel,
               pixel * sizeof *in);
    }
    convolve_row(m->row, m->cp, m->tap, padded, out);
}

/* The transpose: zeros outside, and what fell outside is added where it came from. */
static void smooth_row_transposed(const images *m, const float *in, float *padded, float *out)
{
    size_t pixel = (size_t)m->cp;
    memset(padded, 0, RADIUS * pixel * sizeof *padded);
    memset(padded + RADIUS * pixel + (size_t)m->row, 0, RADIUS * pixel * sizeof *padded);
    memcpy(padded + RADIUS * pixel, in, (size_t)m->row * sizeof *in);
    convolve_row(m->row, m->cp, m->tap, padded, out);
    for (int t = 1; t <= RADIUS; t++) {                  /* the pixel outside at distance t, */
        for (int from = 0; from + t <= RADIUS; from++) { /* reached from this many pixels inside */
            const float *left = in + (size_t)from * pixel, *right = in + (size_t)(m->w - 1 - from) * pixel;
            for (size_t c = 0; c < pixel; c++) {
                out[(size_t)t * pixel + c] += m->tap[RADIUS - from - t] * left[c];
                out[(size_t)(m->w - 1 - t) * pixel + c] += m->tap[RADIUS - from - t] * right[c];
            }
        }
    }
}

static void combine_rows(int row, const float *const in[TAPS], const float weight[TAPS], float *restrict out)
{
    const float *restrict a = in[0], *restrict b = in[1], *restrict c = in[2];
    const float *restrict d = in[3], *restrict e = in[4];
    for (int x = 0; x < row; x++)
        out[x] = weight[0] * a[x] + weight[1] * b[x] + weight[2] * c[x] + weight[3] * d[x] + weight[4] * e[x];
}

/* Row i of vertical smoothing of (h, row), or of its transpose. */
static void smooth_column(const images *m, const float *in, int i, bool transposed, float *out)
{
    const float *source[TAPS];
    float weight[TAPS];
    for (int s = 0; s < TAPS; s++) {
        int from = transposed ? i + s - RADIUS : reflect(i + s - RADIUS, m->h);
        bool inside = from >= 0 && from < m->h;
        source[s] = in + (size_t)(inside ? from : i) * (size_t)m->row;
        weight[s] = transposed ? 0 : m->tap[s];
        for (int t = 0; t < TAPS && transposed && inside; t++)
            weight[s] += reflect(from + t - RADIUS, m->h) == i ? m->tap[t] : 0;
    }
    combine_rows(m->row, source, weight, out);
}

static void smoothing_slot(void *context, int slot, int worker)
{
    images *m = context;
    size_t image = (size_t)m->h * (size_t)m->row;
    float *smooth = rc_cpu_scratch(m->cpu, worker), *residual = smooth + image, *padded = residual + image;
    double value = 0;
    for (int b = rc_slot_begin(m->n, m->slots, slot); b < rc_slot_begin(m->n, m->slots, slot + 1); b++) {
        const float *x = m->x + (size_t)b * image;
        for (int i = 0; i < m->h; i++)
            smooth_row(m, x + (size_t)i * (size_t)m->row, padded, smooth + (size_t)i * (size_t)m->row);
        for (int i = 0; i < m->h; i++) {
            float *restrict to = residual + (size_t)i * (size_t)m->row;
            const float *restrict from = x + (size_t)i * (size_t)m->row;
            smooth_column(m, smooth, i, false, to);
            for (int j = 0; j < m->row; j++)
                to[j] = from[j] - to[j];
            value += sum_squares(m->row, to, NULL);
        }
        for (int i = 0; i < m->h; i++) {
            float *row = smooth + m->row; /* of `smooth` two rows serve as memory now */
            float *restrict dx = m->dx + (size_t)b * image + (size_t)i * (size_t)m->row;
            const float *restrict own = residual + (size_t)i * (size_t)m->row;
            smooth_column(m, residual, i, true, smooth);
            smooth_row_transposed(m, smooth, padded, row);
            for (int j = 0; j < m->row; j++)
                dx[j] += m->factor[0] * (own[j] - row[j]);
        }
    }
    m->value[slot][0] = value;
}

static void loss_smoothing(rc_backend *backend, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    rc_cpu *cpu = rc_cpu_of(backend);
    images m = images_of(backend, x, dx);
    if (cpu->scratch_bytes < RC_FAST(smoothing_scratch)(m.h, m.w, m.cp)) {
        rc_cpu_set_error(cpu, RC_INTERNAL, "loss_smoothing: reserve_losses() was not called for images of this size");
        return;
    }
    double sum = 0, count = (double)x->n * x->h * x->w * x->c;
    for (int t = 0; t < TAPS; t++)
        sum += exp(-(t - RADIUS) * (t - RADIUS) / 4.0);
    for (int t = 0; t < TAPS; t++)
        m.tap[t] = (float)(exp(-(t - RADIUS) * (t - RADIUS) / 4.0) / sum);
    m.factor[0] = (float)(2 * *weight / count);
    rc_pool_run(cpu->pool, m.slots, smoothing_slot, &m);
    *(float *)value = (float)(sum_direction(&m, 0) / count);
}

/* ---- total variation ----------------------------------------------------------------------------------- */

static const struct {
    int down, right;
} directions[DIRECTIONS] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};

static void variation_slot(void *context, int slot, int worker)
{
    (void)worker;
    images *m = context;
    for (int r = 0; r < DIRECTIONS; r++) {
        int down = directions[r].down, right = directions[r].right, begin = right < 0 ? m->cp : 0;
        int length = right ? m->row - m->cp : m->row;
        double value = 0;
        for (int b = rc_slot_begin(m->n, m->slots, slot); b < rc_slot_begin(m->n, m->slots, slot + 1); b++)
            for (int i = 0; i + down < m->h; i++) {
                const float *row = m->x + ((size_t)b * (size_t)m->h + (size_t)i) * (size_t)m->row + begin;
                value += sum_squares(length, row, row + (ptrdiff_t)down * m->row + (ptrdiff_t)right * m->cp);
            }
        m->value[slot][r] = value;
    }
}

static void add_differences(int count, float factor, const float *restrict x, const float *restrict neighbour,
                            float *restrict dx)
{
    for (int i = 0; i < count; i++)
        dx[i] += factor * (x[i] - neighbour[i]);
}

/* Every pixel gathers from its eight neighbours, so that each is written once per direction and sign. */
static void variation_gradient_slot(void *context, int slot, int worker)
{
    (void)worker;
    const images *m = context;
    for (int b = rc_slot_begin(m->n, m->slots, slot); b < rc_slot_begin(m->n, m->slots, slot + 1); b++) {
        for (int i = 0; i < m->h; i++) {
            size_t row = ((size_t)b * (size_t)m->h + (size_t)i) * (size_t)m->row;
            for (int r = 0; r < 2 * DIRECTIONS; r++) {
                int sign = r < DIRECTIONS ? 1 : -1;
                int down = sign * directions[r % DIRECTIONS].down, right = sign * directions[r % DIRECTIONS].right;
                if (i + down < 0 || i + down >= m->h)
                    continue;
                const float *x = m->x + row + (right < 0 ? m->cp : 0);
                add_differences(right ? m->row - m->cp : m->row, m->factor[r % DIRECTIONS], x,
                                x + (ptrdiff_t)down * m->row + (ptrdiff_t)right * m->cp,
                                m->dx + row + (right < 0 ? m->cp : 0));
            }
        }
    }
}

static void loss_total_variation(rc_backend *backend, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    images m = images_of(backend, x, dx);
    double total = 0;
    rc_pool_run(m.cpu->pool, m.slots, variation_slot, &m);
    for (int r = 0; r < DIRECTIONS; r++) {
        double norm = sqrt(sum_direction(&m, r));
        m.factor[r] = norm > 0 ? (float)(*weight / norm) : 0;
        total += norm;
    }
    rc_pool_run(m.cpu->pool, m.slots, variation_gradient_slot, &m);
    *(float *)value = (float)total;
}

/* ---- norm ---------------------------------------------------------------------------------------------- */

static void norm_slot(void *context, int slot, int worker)
{
    (void)worker;
    images *m = context;
    int rows = m->n * m->h;
    double value = 0;
    for (int i = rc_slot_begin(rows, m->slots, slot); i < rc_slot_begin(rows, m->slots, slot + 1); i++)
        value += sum_squares(m->row, m->x + (size_t)i * (size_t)m->row, NULL);
    m->value[slot][0] = value;
}

static void norm_gradient_slot(void *context, int slot, int worker)
{
    (void)worker;
    const images *m = context;
    size_t image = (size_t)m->h * (size_t)m->row;
    size_t begin = (size_t)rc_slot_begin(m->n, m->slots, slot) * image;
    size_t end = (size_t)rc_slot_begin(m->n, m->slots, slot + 1) * image;
    const float *restrict x = m->x;
    float *restrict dx = m->dx, factor = m->factor[0];
    for (size_t i = begin; i < end; i++)
        dx[i] += factor * x[i];
}

static void loss_image_norm(rc_backend *backend, const rc_tensor *x, const float *weight, void *value, void *dx)
{
    images m = images_of(backend, x, dx);
    rc_pool_run(m.cpu->pool, m.slots, norm_slot, &m);
    double norm = sqrt(sum_direction(&m, 0));
    m.factor[0] = norm > 0 ? (float)(*weight / norm) : 0;
    rc_pool_run(m.cpu->pool, m.slots, norm_gradient_slot, &m);
    *(float *)value = (float)norm;
}

/* ---- reconstruction ---------------------------------------------------------------------------------------- */

typedef struct reconstruction {
    const float *x, *target, *sample_weight; /* (n, h, w, cp) both, (n) */
    float *dx;
    int n, count, slots;  /* count = floats of an image; pads are 0 in both, which costs 0 and has gradient 0 */
    double share, weight; /* share = 1 / (n P) */
    double value[RC_MAX_SLOTS];
} reconstruction;

/* -BCE of a vector of pixels, with logarithms cut off at -100; its gradient is added. */
RC_INLINE vec reconstruct(vec x, vec t, vec factor, float *dx)
{
    vec one = vec_set(1), spread = x * (one - x);
    spread = vec_select(spread > vec_set(1e-12f), spread, vec_set(1e-12f));
    vec_store(dx, vec_load(dx) + factor * (x - t) / spread);
    return t * vec_log_of_fraction(x) + (one - t) * vec_log_of_fraction(one - x);
}

static void reconstruction_slot(void *context, int slot, int worker)
{
    (void)worker;
    reconstruction *r = context;
    double value = 0;
    for (int b = rc_slot_begin(r->n, r->slots, slot); b < rc_slot_begin(r->n, r->slots, slot + 1); b++) {
        size_t image = (size_t)b * (size_t)r->count;
        double share = (r->sample_weight ? r->sample_weight[b] : 1) * r->share, sum = 0;
        vec factor = vec_set((float)(r->weight * share));
        int i = 0;
        for (; i + RC_LANES <= r->count; i += RC_LANES)
            sum += vec_sum(reconstruct(vec_load(r->x + image + i), vec_load(r->target + image + i), factor,
                                       r->dx + image + i));
        if (i < r->count) { /* images of an odd number of pixels, on wide vectors */
            size_t left = (size_t)(r->count - i) * sizeof(float);
            float x[RC_LANES] = {0}, target[RC_LANES] = {0}, dx[RC_LANES] = {0};
            memcpy(x, r->x + image + i, left);
            memcpy(target, r->target + image + i, left);
            memcpy(dx, r->dx + image + i, left);
            sum += vec_sum(reconstruct(vec_load(x), vec_load(target), factor, dx));
            memcpy(r->dx + image + i, dx, left);
        }
        value -= share * sum;
    }
    r->value[slot] = value;
}

static void loss_reconstruction(rc_backend *backend, const rc_tensor *x, const rc_tensor *target,
                                const void *sample_weight, const float *weight, void *value, void *dx)
{
    int pixels = x->h * x->w, count = pixels * rc_padded(backend, x->c);
    reconstruction r = {.x = x->stored ? x->value : x->raw,
                        .target = target->stored ? target->value : target->raw,
                        .sample_weight = sample_weight,
                        .dx = dx,
                        .n = x->n,
                        .count = count,
                        .slots = rc_slots(x->n, 16.0 * count),
                        .share = 1 / ((double)x->n * pixels * x->c),
                        .weight = *weight};
    rc_pool_run(rc_cpu_of(backend)->pool, r.slots, reconstruction_slot, &r);
    *(float *)value = (float)rc_sum_slots(r.value, r.slots);
}

void RC_FAST(fill_image_losses)(rc_backend *table)
{
    table->loss_smoothing = loss_smoothing;
    table->loss_total_variation = loss_total_variation;
    table->loss_image_norm = loss_image_norm;
    table->loss_reconstruction = loss_reconstruction;
}
