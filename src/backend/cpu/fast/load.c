#include "backend/cpu/fast/load.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/fast/activation.h"
#include "backend/cpu/fast/ints.h"

enum { CHUNK_VECTORS = CHUNK / RC_LANES };

/* ---- sources --------------------------------------------------------------------------------------------------- */

static bool skip_is_direct(const rc_skip *skip, int c)
{
    return skip->stride == 1 && skip->channel_offset == 0 && skip->c == c;
}

size_t RC_FAST(skip_row_floats)(const rc_tensor *t, int cp)
{
    if (!t->skip.value || skip_is_direct(&t->skip, t->c))
        return 0;
    return (size_t)t->w * (size_t)cp;
}

value_source RC_FAST(value_source)(const rc_tensor *t, int cp, int image, float *skip_row)
{
    size_t offset = (size_t)image * (size_t)t->h * (size_t)t->w * (size_t)cp;
    size_t vectors = (size_t)rc_group_of(t, image) * (size_t)cp;
    value_source source = {.h = t->h, .w = t->w, .c = t->c, .cp = cp, .act = t->act};
    source.raw = (const float *)t->raw + offset;
    if (t->mean)
        source.mean = (const float *)t->mean + vectors;
    if (t->stored) {
        source.value = (const float *)t->value + offset;
        return source;
    }
    if (!t->scale && !t->skip.value && t->act == RC_ACT_NONE && !t->value) {
        source.value = source.raw;
        return source;
    }
    if (t->scale) {
        source.scale = (const float *)t->scale + vectors;
        source.shift = (const float *)t->shift + vectors;
    }
    if (t->skip.value) {
        source.skip_w = t->skip.w;
        source.skip_c = t->skip.c;
        source.skip_cp = (t->skip.c + 3) / 4 * 4;
        source.skip_stride = t->skip.stride;
        source.skip_offset = t->skip.channel_offset;
        source.skip = (const float *)t->skip.value +
                      (size_t)image * (size_t)t->skip.h * (size_t)t->skip.w * (size_t)source.skip_cp;
        source.skip_row = skip_is_direct(&t->skip, t->c) ? NULL : skip_row;
    }
    if (t->value)
        source.store = (float *)t->value + offset;
    return source;
}

gradient_source RC_FAST(gradient_source)(const rc_grad *dy, int cp, int image, float *skip_row)
{
    const rc_tensor *y = dy->y;
    rc_tensor lazy = *y;
    if (y->act == RC_ACT_SILU) { /* its slope is not found from its value */
        lazy.value = NULL;
        lazy.stored = false;
    }
    gradient_source source = {.y = RC_FAST(value_source)(&lazy, cp, image, skip_row)};
    source.g = (const float *)dy->g + (size_t)image * (size_t)y->h * (size_t)y->w * (size_t)cp;
    if (dy->a) {
        size_t vectors = (size_t)rc_group_of(y, image) * (size_t)cp;
        source.a = (const float *)dy->a + vectors;
        source.b = (const float *)dy->b + vectors;
        source.c = (const float *)dy->c + vectors;
    }
    return source;
}

/* A row of the skip, (w, cp). */
static const float *skip_row(const value_source *x, int row)
{
    if (!x->skip)
        return NULL;
    const float *from = x->skip + (size_t)(row * x->skip_stride) * (size_t)x->skip_w * (size_t)x->skip_cp;
    if (!x->skip_row)
        return from;
    memset(x->skip_row, 0, (size_t)x->w * (size_t)x->cp * sizeof(float));
    for (int p = 0; p < x->w; p++)
        memcpy(x->skip_row + p * x->cp + x->skip_offset, from + p * x->skip_stride * x->skip_cp,
               (size_t)x->skip_c * sizeof(float));
    return x->skip_row;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* One chunk of channels over the pixels of a few rows; the pointers are at its first channel. */
typedef struct piece {
    int rows, pixels;
    ptrdiff_t pixel, to_pixel; /* floats from pixel to pixel, in the tensors and in the target */
    ptrdiff_t row, to_row;     /* and from row to row */
    const float *raw, *value, *skip, *g;
    const float *scale, *shift, *mean;
    const float *a, *b, *c;
    rc_act act;
    int channels; /* without padding */
    float *store, *to;
    double *sums, *products;
} piece;

/* A band is loaded between two stretches of multiplying, in which the memory has nothing to do: each pixel asks for one
 * that the next band will want, a cache line per chunk, into the second cache. */
RC_INLINE void fetch_ahead(const float *p)
{
    enum { AHEAD = 4096 }; /* floats */
    __builtin_prefetch(p + AHEAD, 0, 2);
}

RC_INLINE vec load_at(const int lanes, const float *p, int v)
{
    return vec_load_lanes(lanes, p + v * lanes);
}

/* Only sigmoid makes something of the zeros in pad channels. */
RC_INLINE vec clear_pads(const piece *p, int first, vec x)
{
    if (first + RC_LANES <= p->channels)
        return x;
    for (int l = 0; l < RC_LANES; l++)
        if (first + l >= p->channels)
            x[l] = 0;
    return x;
}

RC_INLINE void value_loop(const piece *given, const int lanes, const int vectors, const bool scaled, const bool skip,
                          const bool store, const rc_act act)
{
    const piece here = *given, *p = &here; /* no store can change it: what it holds stays in registers */
    vec scale[CHUNK_VECTORS], shift[CHUNK_VECTORS];
    for (int v = 0; v < vectors; v++) {
        scale[v] = scaled ? load_at(lanes, p->scale, v) : vec_set(1);
        shift[v] = scaled ? load_at(lanes, p->shift, v) : vec_set(0);
    }
    for (int r = 0; r < p->rows; r++) {
        const float *raw = p->raw + r * p->row;
        float *to = p->to + r * p->to_row;
        for (int i = 0; i < p->pixels; i++, raw += p->pixel, to += p->to_pixel) {
            ptrdiff_t offset = raw - p->raw;
            fetch_ahead(raw);
            if (skip)
                fetch_ahead(p->skip + offset);
            for (int v = 0; v < vectors; v++) {
                vec x = load_at(lanes, raw, v);
                if (scaled)
                    x = x * scale[v] + shift[v];
                if (skip)
                    x += load_at(lanes, p->skip + offset, v);
                x = vec_activate(act, x);
                if (act == RC_ACT_SIGMOID)
                    x = clear_pads(p, v * lanes, x);
                vec_store_lanes(lanes, to + v * lanes, x);
                if (store)
                    vec_store_lanes(lanes, p->store + offset + v * lanes, x);
            }
        }
    }
}

RC_INLINE void value_piece_act(const piece *p, const int lanes, const int vectors, const rc_act act)
{
    if (p->skip && p->store)
        value_loop(p, lanes, vectors, p->scale != NULL, true, true, act);
    else if (p->skip)
        value_loop(p, lanes, vectors, p->scale != NULL, true, false, act);
    else if (p->scale && p->store)
        value_loop(p, lanes, vectors, true, false, true, act);
    else if (p->scale)
        value_loop(p, lanes, vectors, true, false, false, act);
    else
        value_loop(p, lanes, vectors, false, false, p->store != NULL, act);
}

RC_INLINE void value_piece(const piece *p, const int lanes, const int vectors)
{
    if (p->act == RC_ACT_NONE)
        value_piece_act(p, lanes, vectors, RC_ACT_NONE);
    else if (p->act == RC_ACT_RELU)
        value_piece_act(p, lanes, vectors, RC_ACT_RELU);
    else if (p->act == RC_ACT_RELU6)
        value_piece_act(p, lanes, vectors, RC_ACT_RELU6);
    else
        value_loop(p, lanes, vectors, p->scale != NULL, p->skip != NULL, p->store != NULL, p->act);
}

static void value_sixteen(const piece *p)
{
    value_piece(p, RC_LANES, CHUNK_VECTORS);
}

static void value_four(const piece *p)
{
    value_piece(p, 4, 1);
}

RC_INLINE const float *at_channel(const float *p, int channel)
{
    return p ? p + channel : NULL;
}

/* Enough pixels to pay for setting out, and not so many that a chunk's neighbours leave the cache before their turn
 * comes. A strided or shifted skip has one row at a time. */
static int rows_at_once(const value_source *x, bool skips)
{
    enum { FLOATS = 2048 };
    return skips && x->skip_row ? 1 : larger(FLOATS / (x->w * x->cp), 1);
}

/* Rows that can be loaded at once. */
static void load_values(const value_source *x, int row, int rows, int first, int last, float *to, int to_pixel,
                        ptrdiff_t to_row)
{
    size_t offset = (size_t)row * (size_t)x->w * (size_t)x->cp;
    const float *skip = skip_row(x, row);
    for (int c = first, step; c < last; c += step) {
        step = c + CHUNK <= last ? CHUNK : 4;
        piece p = {.rows = rows,
                   .pixels = x->w,
                   .pixel = x->cp,
                   .row = (ptrdiff_t)x->w * x->cp,
                   .channels = x->c - c,
                   .to = to + (c - first),
                   .to_pixel = to_pixel,
                   .to_row = to_row};
        if (x->value) {
            p.raw = x->value + offset + c;
        } else {
            p.raw = x->raw + offset + c;
            p.scale = at_channel(x->scale, c);
            p.shift = at_channel(x->shift, c);
            p.skip = at_channel(skip, c);
            p.act = x->act;
            p.store = x->store ? x->store + offset + c : NULL;
        }
        if (step == CHUNK)
            value_sixteen(&p);
        else
            value_four(&p);
    }
}

void RC_FAST(load_value_rows)(const value_source *x, int row, int rows, int first, int last, float *to, int to_pixel,
                              ptrdiff_t to_row)
{
    int step = rows_at_once(x, x->skip != NULL);
    for (int r = 0; r < rows; r += step)
        load_values(x, row + r, smaller(step, rows - r), first, last, to + r * to_row, to_pixel, to_row);
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* How dz is made of g. */
typedef enum slope_kind {
    SLOPE_ONE,        /* no activation */
    SLOPE_RELU_VALUE, /* ReLU or ReLU6, the value at hand */
    SLOPE_RELU_SCALE, /* ReLU or ReLU6, raw * scale + shift decides */
    SLOPE_ANY         /* everything else */
} slope_kind;

static slope_kind slope_of(const piece *p)
{
    if (p->act == RC_ACT_NONE)
        return SLOPE_ONE;
    if (p->act != RC_ACT_RELU && p->act != RC_ACT_RELU6)
        return SLOPE_ANY;
    if (p->value)
        return SLOPE_RELU_VALUE;
    return p->scale && !p->skip ? SLOPE_RELU_SCALE : SLOPE_ANY;
}

/* g where x, z or act(z), lies above 0, and for ReLU6 below 6. */
RC_INLINE vec within_kinks(const piece *p, vec x, vec g)
{
    vec high = vec_set(p->act == RC_ACT_RELU6 ? 0x1.7ffffep2f : INFINITY); /* the largest float below 6 */
    return (vec)((x > vec_set(0)) & (x <= high) & (veci)g);
}

/* dz of vector v of pixel i. */
RC_INLINE vec dz_at(const piece *p, const int lanes, const slope_kind slope, ptrdiff_t offset, int v, vec raw,
                    vec scale, vec shift)
{
    vec g = load_at(lanes, p->g + offset, v);
    if (slope == SLOPE_ONE)
        return g;
    if (slope == SLOPE_RELU_VALUE)
        return within_kinks(p, load_at(lanes, p->value + offset, v), g);
    if (slope == SLOPE_RELU_SCALE)
        return within_kinks(p, raw * scale + shift, g);
    if (p->value)
        return vec_activate_back(p->act, load_at(lanes, p->value + offset, v), g);
    vec z = p->scale ? raw * scale + shift : raw;
    if (p->skip)
        z += load_at(lanes, p->skip + offset, v);
    return vec_activate_back(p->act, p->act == RC_ACT_SILU ? z : vec_activate(p->act, z), g);
}

RC_INLINE void gradient_loop(const piece *given, const int lanes, const int vectors, const slope_kind slope,
                             const bool coefficients)
{
    const piece here = *given, *p = &here; /* no store can change it: what it holds stays in registers */
    vec a[CHUNK_VECTORS], b[CHUNK_VECTORS], c[CHUNK_VECTORS], scale[CHUNK_VECTORS], shift[CHUNK_VECTORS];
    for (int v = 0; v < vectors; v++) {
        a[v] = coefficients ? load_at(lanes, p->a, v) : vec_set(1);
        b[v] = coefficients ? load_at(lanes, p->b, v) : vec_set(0);
        c[v] = coefficients ? load_at(lanes, p->c, v) : vec_set(0);
        scale[v] = p->scale ? load_at(lanes, p->scale, v) : vec_set(1);
        shift[v] = p->scale ? load_at(lanes, p->shift, v) : vec_set(0);
    }
    for (int r = 0; r < p->rows; r++) {
        ptrdiff_t offset = r * p->row;
        float *to = p->to + r * p->to_row;
        for (int i = 0; i < p->pixels; i++, offset += p->pixel, to += p->to_pixel) {
            fetch_ahead(p->g + offset);
            if (coefficients || slope >= SLOPE_RELU_SCALE)
                fetch_ahead(p->raw + offset);
            if (slope == SLOPE_RELU_VALUE)
                fetch_ahead(p->value + offset);
            for (int v = 0; v < vectors; v++) {
                vec raw = coefficients || slope >= SLOPE_RELU_SCALE ? load_at(lanes, p->raw + offset, v) : vec_set(0);
                vec x = dz_at(p, lanes, slope, offset, v, raw, scale[v], shift[v]);
                if (coefficients)
                    x = a[v] * x + (b[v] * raw + c[v]);
                vec_store_lanes(lanes, to + v * lanes, x);
            }
        }
    }
}

RC_INLINE void gradient_piece(const piece *p, const int lanes, const int vectors)
{
    switch (slope_of(p)) {
    case SLOPE_ONE:
        if (p->a)
            gradient_loop(p, lanes, vectors, SLOPE_ONE, true);
        else
            gradient_loop(p, lanes, vectors, SLOPE_ONE, false);
        break;
    case SLOPE_RELU_VALUE:
        if (p->a)
            gradient_loop(p, lanes, vectors, SLOPE_RELU_VALUE, true);
        else
            gradient_loop(p, lanes, vectors, SLOPE_RELU_VALUE, false);
        break;
    case SLOPE_RELU_SCALE:
        if (p->a)
            gradient_loop(p, lanes, vectors, SLOPE_RELU_SCALE, true);
        else
            gradient_loop(p, lanes, vectors, SLOPE_RELU_SCALE, false);
        break;
    case SLOPE_ANY: gradient_loop(p, lanes, vectors, SLOPE_ANY, p->a != NULL); break;
    }
}

static void gradient_sixteen(const piece *p)
{
    gradient_piece(p, RC_LANES, CHUNK_VECTORS);
}

static void gradient_four(const piece *p)
{
    gradient_piece(p, 4, 1);
}

/* The piece that begins at channel c of a row. */
static piece gradient_piece_at(const gradient_source *dy, int row, int c, const float *skip)
{
    const value_source *y = &dy->y;
    size_t offset = (size_t)row * (size_t)y->w * (size_t)y->cp + (size_t)c;
    piece p = {
        .rows = 1, .pixels = y->w, .pixel = y->cp, .row = (ptrdiff_t)y->w * y->cp, .channels = y->c - c, .act = y->act};
    p.g = dy->g + offset;
    p.raw = y->raw + offset;
    if (y->value) {
        p.value = y->value + offset;
    } else {
        p.scale = at_channel(y->scale, c);
        p.shift = at_channel(y->shift, c);
        p.skip = at_channel(skip, c);
    }
    p.mean = at_channel(y->mean, c);
    p.a = at_channel(dy->a, c);
    p.b = at_channel(dy->b, c);
    p.c = at_channel(dy->c, c);
    return p;
}

/* The skip is looked at only where the slope depends on it. */
static bool needs_skip(const gradient_source *dy)
{
    return dy->y.skip && dy->y.act != RC_ACT_NONE && !dy->y.value;
}

static const float *skip_row_for_slope(const gradient_source *dy, int row)
{
    return needs_skip(dy) ? skip_row(&dy->y, row) : NULL;
}

static void load_gradients(const gradient_source *dy, int row, int rows, int first, int last, float *to, int to_pixel,
                           ptrdiff_t to_row)
{
    const float *skip = skip_row_for_slope(dy, row);
    for (int c = first, step; c < last; c += step) {
        step = c + CHUNK <= last ? CHUNK : 4;
        piece p = gradient_piece_at(dy, row, c, skip);
        p.rows = rows;
        p.to = to + (c - first);
        p.to_pixel = to_pixel;
        p.to_row = to_row;
        if (step == CHUNK)
            gradient_sixteen(&p);
        else
            gradient_four(&p);
    }
}

void RC_FAST(load_gradient_rows)(const gradient_source *dy, int row, int rows, int first, int last, float *to,
                                 int to_pixel, ptrdiff_t to_row)
{
    int step = rows_at_once(&dy->y, needs_skip(dy));
    for (int r = 0; r < rows; r += step)
        load_gradients(dy, row + r, smaller(step, rows - r), first, last, to + r * to_row, to_pixel, to_row);
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

/* Float adds up eight pixels, double the rest: sums that should cancel, as those of a gradient behind a batch
 * normalisation do, leave hardly more than the rounding of their terms. */
enum { FLOAT_PIXELS = 8 };

/* A vector in double, as two: gcc would keep one of twice the size in memory. */
typedef double vec_double __attribute__((vector_size(RC_VECTOR_BYTES)));
typedef float vec_half __attribute__((vector_size(RC_VECTOR_BYTES / 2)));
typedef struct vec_wide {
    vec_double low, high;
} vec_wide;

#if RC_VECTOR_BYTES == 64
#define LOW_LANES  0, 1, 2, 3, 4, 5, 6, 7
#define HIGH_LANES 8, 9, 10, 11, 12, 13, 14, 15
#elif RC_VECTOR_BYTES == 32
#define LOW_LANES  0, 1, 2, 3
#define HIGH_LANES 4, 5, 6, 7
#else
#define LOW_LANES  0, 1
#define HIGH_LANES 2, 3
#endif

RC_INLINE void add_wide(vec_wide *to, vec x)
{
    vec_half low = __builtin_shufflevector(x, x, LOW_LANES), high = __builtin_shufflevector(x, x, HIGH_LANES);
    to->low += __builtin_convertvector(low, vec_double);
    to->high += __builtin_convertvector(high, vec_double);
}

RC_INLINE double wide_lane(const vec_wide *x, int lane)
{
    return lane < RC_LANES / 2 ? x->low[lane] : x->high[lane - RC_LANES / 2];
}

/* A variance is a difference of two sums, and a mean far from the center would take up their digits. So the loop
 * measures from the first pixel, s = y - pivot, and moves to the center in the end, d = pivot - center:
 *     sum (y - center) = sum s + m d        sum (y - center)^2 = sum s^2 + 2 d sum s + m d^2 */
RC_INLINE void sum_value_loop(const piece *p, const int lanes, const int vectors)
{
    vec pivot[CHUNK_VECTORS];
    vec_wide sums[CHUNK_VECTORS] = {0}, squares[CHUNK_VECTORS] = {0};
    for (int v = 0; v < vectors; v++)
        pivot[v] = load_at(lanes, p->raw, v);
    const float *raw = p->raw;
    for (int first = 0; first < p->pixels; first += FLOAT_PIXELS) {
        int last = first + FLOAT_PIXELS < p->pixels ? first + FLOAT_PIXELS : p->pixels;
        vec sum[CHUNK_VECTORS] = {0}, square[CHUNK_VECTORS] = {0};
        for (int i = first; i < last; i++, raw += p->pixel)
            for (int v = 0; v < vectors; v++) {
                vec x = load_at(lanes, raw, v) - pivot[v];
                sum[v] += x;
                square[v] += x * x;
            }
        for (int v = 0; v < vectors; v++) {
            add_wide(&sums[v], sum[v]);
            add_wide(&squares[v], square[v]);
        }
    }
    for (int c = 0; c < vectors * lanes; c++) {
        double d = (double)p->raw[c] - (double)p->mean[c], s = wide_lane(&sums[c / lanes], c % lanes);
        p->sums[c] += s + p->pixels * d;
        p->products[c] += wide_lane(&squares[c / lanes], c % lanes) + 2 * d * s + p->pixels * d * d;
    }
}

void RC_FAST(sum_values)(const float *y, int cp, int pixels, int first, int last, const float *center, double *sums)
{
    for (int c = first, step; c < last; c += step) {
        step = c + CHUNK <= last ? CHUNK : 4;
        piece p = {.pixels = pixels,
                   .pixel = cp,
                   .raw = y + c,
                   .mean = center + c,
                   .sums = sums + c,
                   .products = sums + cp + c};
        if (step == CHUNK)
            sum_value_loop(&p, RC_LANES, CHUNK_VECTORS);
        else
            sum_value_loop(&p, 4, 1);
    }
}

RC_INLINE void sum_gradient_loop(const piece *p, const int lanes, const int vectors, const slope_kind slope)
{
    vec mean[CHUNK_VECTORS], scale[CHUNK_VECTORS], shift[CHUNK_VECTORS];
    vec_wide sums[CHUNK_VECTORS] = {0}, products[CHUNK_VECTORS] = {0};
    for (int v = 0; v < vectors; v++) {
        mean[v] = p->mean ? load_at(lanes, p->mean, v) : vec_set(0);
        scale[v] = p->scale ? load_at(lanes, p->scale, v) : vec_set(1);
        shift[v] = p->scale ? load_at(lanes, p->shift, v) : vec_set(0);
    }
    for (int first = 0; first < p->pixels; first += FLOAT_PIXELS) {
        int last = first + FLOAT_PIXELS < p->pixels ? first + FLOAT_PIXELS : p->pixels;
        vec sum[CHUNK_VECTORS] = {0}, product[CHUNK_VECTORS] = {0};
        for (int i = first; i < last; i++) {
            ptrdiff_t offset = i * p->pixel;
            fetch_ahead(p->raw + offset);
            if (slope == SLOPE_RELU_VALUE)
                fetch_ahead(p->value + offset);
            for (int v = 0; v < vectors; v++) {
                vec raw = load_at(lanes, p->raw + offset, v);
                vec dz = dz_at(p, lanes, slope, offset, v, raw, scale[v], shift[v]);
                sum[v] += dz;
                product[v] += dz * (raw - mean[v]);
            }
        }
        for (int v = 0; v < vectors; v++) {
            add_wide(&sums[v], sum[v]);
            add_wide(&products[v], product[v]);
        }
    }
    for (int c = 0; c < vectors * lanes; c++) {
        p->sums[c] += wide_lane(&sums[c / lanes], c % lanes);
        p->products[c] += wide_lane(&products[c / lanes], c % lanes);
    }
}

RC_INLINE void sum_gradient_piece(const piece *p, const int lanes, const int vectors)
{
    switch (slope_of(p)) {
    case SLOPE_ONE: sum_gradient_loop(p, lanes, vectors, SLOPE_ONE); break;
    case SLOPE_RELU_VALUE: sum_gradient_loop(p, lanes, vectors, SLOPE_RELU_VALUE); break;
    case SLOPE_RELU_SCALE: sum_gradient_loop(p, lanes, vectors, SLOPE_RELU_SCALE); break;
    case SLOPE_ANY: sum_gradient_loop(p, lanes, vectors, SLOPE_ANY); break;
    }
}

static void sum_gradient_sixteen(const piece *p)
{
    sum_gradient_piece(p, RC_LANES, CHUNK_VECTORS);
}

static void sum_gradient_four(const piece *p)
{
    sum_gradient_piece(p, 4, 1);
}

void RC_FAST(sum_gradients)(const gradient_source *dy, int row, int rows, int first, int last, double *sums)
{
    const value_source *y = &dy->y;
    bool whole = !y->skip_row; /* rows follow each other: no need to stop between them */
    for (int r = row; r < row + rows; r += whole ? rows : 1) {
        const float *skip = skip_row_for_slope(dy, r);
        for (int c = first, step; c < last; c += step) {
            step = c + CHUNK <= last ? CHUNK : 4;
            piece p = gradient_piece_at(dy, r, c, skip);
            p.pixels = whole ? rows * y->w : y->w;
            p.sums = sums + c;
            p.products = sums + y->cp + c;
            if (step == CHUNK)
                sum_gradient_sixteen(&p);
            else
                sum_gradient_four(&p);
        }
    }
}
