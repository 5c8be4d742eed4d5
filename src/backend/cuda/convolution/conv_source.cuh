/* What a fast convolution reads: eight channels of a lazy map at a time, and where they lie.
 *
 * Addresses are what such a kernel computes most, so they are linear: the elements of a rectangle are numbered through,
 * and every map that they come from or go to is a base, a step per element, and a little extra per row and image. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_SOURCE_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_SOURCE_CUH

#include "backend/cuda/product/mma.cuh"

typedef __nv_bfloat16 bf16;

/* ---- rectangles ------------------------------------------------------------------------------------------------ */

/* images x height x width elements, numbered in that order. */
struct rectangle {
    int count, width, height;
    unsigned by_width, by_height; /* by_height is used for several images only */
    bool several;
};

struct element {
    int index, row, image; /* row counts through the images */
};

__device__ inline rectangle make_rectangle(int images, int height, int width, unsigned by_height, unsigned by_width)
{
    rectangle r = {images * height * width, width, height, by_width, by_height, images > 1};
    return r;
}

__device__ inline element element_of(const rectangle &r, int index)
{
    element e = {index, quotient(index, r.by_width), 0};
    if (r.several)
        e.image = quotient(e.row, r.by_height);
    return e;
}

/* Where the elements of a rectangle lie in a map, in pixels or in whatever it has been scaled to. */
struct line {
    int base, step, row_extra, image_extra;
};

__device__ inline int place_on(const line &l, element e)
{
    return l.base + e.index * l.step + e.row * l.row_extra + e.image * l.image_extra;
}

__device__ inline line scaled(const line &l, int by, int first)
{
    line s = {l.base * by + first, l.step * by, l.row_extra * by, l.image_extra * by};
    return s;
}

/* Every step-th pixel, from (y, x) of image `image` on, of a map (n, h, w). */
__device__ inline line line_of_map(const rectangle &r, int image, int y, int x, int step, int h, int w)
{
    line l = {(image * h + y) * w + x, step, step * (w - r.width), h * w - r.height * step * w};
    return l;
}

/* ---- sources: eight channels of a lazy map, fetched first and finished once they have arrived -------------------
 * The coefficients of all channels lie in shared memory, (ROWS, cp) float: a table that the block makes first. */

__device__ inline uint4 load16(const bf16 *from)
{
    return __ldg((const uint4 *)from);
}

/* V neighbouring channels as one word or vector of words. */
template <int V> struct packed;
template <> struct packed<2> {
    typedef unsigned type;
};
template <> struct packed<4> {
    typedef uint2 type;
};
template <> struct packed<8> {
    typedef uint4 type;
};

template <int V> __device__ inline typename packed<V>::type load_packed(const bf16 *from)
{
    return __ldg((const typename packed<V>::type *)from);
}

template <int V> __device__ inline floats<V> unpack(typename packed<V>::type bits)
{
    const unsigned *word = (const unsigned *)&bits;
    floats<V> x;
#pragma unroll
    for (int i = 0; i < V / 2; i++) { /* see load8 */
        x.v[2 * i] = __uint_as_float(word[i] << 16);
        x.v[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
    }
    return x;
}

template <int V> __device__ inline typename packed<V>::type pack(floats<V> x)
{
    typename packed<V>::type bits;
    unsigned *word = (unsigned *)&bits;
#pragma unroll
    for (int i = 0; i < V / 2; i++)
        word[i] = pack_bf16(x.v[2 * i], x.v[2 * i + 1]);
    return bits;
}

__device__ inline float8 unpack8(uint4 bits)
{
    return unpack<8>(bits);
}

__device__ inline uint4 pack8(float8 x)
{
    return pack<8>(x);
}

/* The slope below 0 of an activation that is one line above and one below; 1 for the others. */
__host__ __device__ inline float slope_below(rc_act act)
{
    return act == RC_ACT_RELU ? 0.0f : act == RC_ACT_LEAKY_RELU ? 0.2f : 1.0f;
}

/* Is it more than the two lines that slope_below tells? Its slope is taken from the value before the activation. */
__host__ __device__ inline bool is_curved(rc_act act)
{
    return act != RC_ACT_NONE && act != RC_ACT_RELU && act != RC_ACT_LEAKY_RELU;
}

/* 1 / (1 + exp(-z)), of which the curved ones are made, by the exponential and quotient of the card: bf16 loses more
 * than they do. Exact ones take registers and room for code from the kernels of nets that have none of these. */
__device__ inline float gate(float z)
{
    return __fdividef(1.0f, 1.0f + __expf(-z));
}

__device__ inline float activate_curved(rc_act act, float z)
{
    if (act == RC_ACT_RELU6)
        return fminf(fmaxf(z, 0.0f), 6.0f);
    float open = gate(act == RC_ACT_TANH ? 2 * z : z);
    return act == RC_ACT_SILU ? z * open : act == RC_ACT_TANH ? 2 * open - 1 : open;
}

__device__ inline float slope_of_curved(rc_act act, float z)
{
    if (act == RC_ACT_RELU6)
        return z > 0 && z < 6 ? 1.0f : 0.0f;
    float open = gate(act == RC_ACT_TANH ? 2 * z : z), shut = 1 - open;
    return act == RC_ACT_SILU ? open * (1 + z * shut) : act == RC_ACT_TANH ? 4 * open * shut : open * shut;
}

/* What a source has to apply. Loops over vectors are compiled once for each of these. */
enum pending {
    PENDING_NOTHING,
    PENDING_USUAL, /* value: normalisation and ReLU or leaky ReLU; gradient: the same of a layer that is not stored */
    PENDING_SUM,   /* value: normalisation and an identity skip */
    PENDING_ANY
};

/* Vectors that a thread has on their way at once, as far as registers last. */
template <pending WHAT> __host__ __device__ constexpr int vectors_at_once(int loads_if_usual)
{
    return WHAT == PENDING_NOTHING || (WHAT == PENDING_USUAL && loads_if_usual == 1) ? 8 : WHAT == PENDING_ANY ? 2 : 4;
}

/* The value of a tensor. The view has nothing pending if the value is stored (view_source). */
struct value_source {
    static constexpr int LOADS = 1; /* of each vector, if what is pending is the usual */
    tensor_view<bf16> x;
    float below;
    pending what;

    enum { SCALE, SHIFT, ROWS };
    struct fetched {
        uint4 raw, skip;
    };
    struct coefficients { /* of eight channels */
        float8 row[ROWS];
    };
    struct lines {
        line map, skip;
    };

    __device__ bool fills() const
    {
        return x.fill != NULL;
    }

    __host__ __device__ int channels() const
    {
        return x.cp;
    }

    __device__ void read(float *row, int group, int channel) const
    {
        row[SCALE] = x.scale ? x.scale[group * x.cp + channel] : 1;
        row[SHIFT] = x.scale ? x.shift[group * x.cp + channel] : 0;
    }

    __device__ lines walk(const rectangle &r, int image, int row, int column, int step, int channel) const
    {
        int stride = x.skip_stride;
        line skip = line_of_map(r, image, row * stride, column * stride, step * stride, x.skip_h, x.skip_w);
        lines l = {scaled(line_of_map(r, image, row, column, step, x.h, x.w), x.cp, channel),
                   scaled(skip, x.skip_cp, channel - x.skip_offset)};
        return l;
    }

    template <pending WHAT> __device__ fetched fetch(const lines &l, element e, int channel) const
    {
        fetched f = {};
        unsigned at = (unsigned)place_on(l.map, e);
        f.raw = load16(x.raw + at);
        if (WHAT == PENDING_SUM)
            f.skip = load16(x.skip + at);
        if (WHAT == PENDING_ANY && x.skip && (unsigned)(channel - x.skip_offset) < (unsigned)x.skip_cp)
            f.skip = load16(x.skip + (unsigned)place_on(l.skip, e));
        return f;
    }

    template <pending WHAT> __device__ uint4 finish(const fetched &f, const coefficients &by) const
    {
        if (WHAT == PENDING_NOTHING)
            return f.raw;
        float8 z = unpack8(f.raw);
        if (WHAT != PENDING_ANY || x.scale) {
            const float8 &scale = by.row[SCALE], &shift = by.row[SHIFT];
#pragma unroll
            for (int i = 0; i < 8; i++)
                z.v[i] = z.v[i] * scale.v[i] + shift.v[i];
        }
        if (WHAT == PENDING_SUM || (WHAT == PENDING_ANY && x.skip)) {
            float8 skip = unpack8(f.skip);
#pragma unroll
            for (int i = 0; i < 8; i++)
                z.v[i] += skip.v[i];
        }
        if (WHAT == PENDING_USUAL || (WHAT == PENDING_ANY && x.act != RC_ACT_NONE)) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                z.v[i] = fmaxf(z.v[i], below * z.v[i]);
        }
        if (WHAT == PENDING_ANY && is_curved(x.act)) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                z.v[i] = activate_curved(x.act, z.v[i]);
        }
        return pack8(z);
    }

    __device__ void fill(uint4 value, const lines &l, element e) const
    {
        *(uint4 *)(x.fill + (unsigned)place_on(l.map, e)) = value;
    }
};

/* False: not for these kernels. Values that crowd near 1 would all be rounded alike, and their sums would show it. */
static inline bool view_source(const rc_tensor *x, value_source *source)
{
    source->x = view_tensor<bf16>(x);
    if (source->x.stored) {
        source->x.raw = source->x.stored;
        source->x.scale = source->x.shift = NULL;
        source->x.skip = NULL;
        source->x.act = RC_ACT_NONE;
    }
    bool none = !source->x.scale && !source->x.skip && source->x.act == RC_ACT_NONE;
    bool usual = source->x.scale && !source->x.skip && !is_curved(source->x.act);
    bool sum = source->x.scale && source->x.skip && source->x.skip_stride == 1 && source->x.skip_cp == source->x.cp &&
               source->x.act == RC_ACT_NONE;
    source->what = none ? PENDING_NOTHING : usual ? PENDING_USUAL : sum ? PENDING_SUM : PENDING_ANY;
    source->below = slope_below(source->x.act);
    bool crowded = source->x.act == RC_ACT_TANH || source->x.act == RC_ACT_SIGMOID;
    return !crowded && source->x.skip_offset % 8 == 0;
}

/* dL/draw of a lazy gradient. */
struct gradient_source {
    static constexpr int LOADS = 2;
    grad_view<bf16> dy;
    float below;
    pending what;

    enum { A, B, C, SCALE, SHIFT, ROWS };
    struct fetched {
        uint4 g, raw, stored;
    };
    struct coefficients {
        float8 row[ROWS];
    };
    typedef line lines;

    __device__ bool fills() const
    {
        return false;
    }

    __host__ __device__ int channels() const
    {
        return dy.y.cp;
    }

    __device__ void read(float *row, int group, int channel) const
    {
        int at = group * dy.y.cp + channel;
        bool sloped = dy.y.scale && dy.y.act != RC_ACT_NONE && (!dy.y.stored || is_curved(dy.y.act));
        row[A] = dy.a ? dy.a[at] : 1;
        row[B] = dy.a ? dy.b[at] : 0;
        row[C] = dy.a ? dy.c[at] : 0;
        row[SCALE] = sloped ? dy.y.scale[at] : 1;
        row[SHIFT] = sloped ? dy.y.shift[at] : 0;
    }

    __device__ lines walk(const rectangle &r, int image, int row, int column, int step, int channel) const
    {
        return scaled(line_of_map(r, image, row, column, step, dy.y.h, dy.y.w), dy.y.cp, channel);
    }

    template <pending WHAT> __device__ fetched fetch(const lines &l, element e, int) const
    {
        unsigned at = (unsigned)place_on(l, e);
        fetched f = {};
        f.g = *(const uint4 *)(dy.g + at); /* which may be overwritten with what it becomes */
        if (WHAT != PENDING_NOTHING)
            f.raw = load16(dy.y.raw + at);
        if (WHAT == PENDING_ANY && dy.y.act != RC_ACT_NONE && !is_curved(dy.y.act) && dy.y.stored)
            f.stored = load16(dy.y.stored + at);
        return f;
    }

    template <pending WHAT> __device__ uint4 finish(const fetched &f, const coefficients &by) const
    {
        if (WHAT == PENDING_NOTHING)
            return f.g;
        float8 dz = unpack8(f.g), raw = unpack8(f.raw), z = raw;
        if (WHAT == PENDING_ANY && is_curved(dy.y.act)) {
            const float8 &scale = by.row[SCALE], &shift = by.row[SHIFT];
#pragma unroll
            for (int i = 0; i < 8; i++)
                dz.v[i] *= slope_of_curved(dy.y.act, raw.v[i] * scale.v[i] + shift.v[i]);
        } else if (dy.y.act != RC_ACT_NONE) {
            if (WHAT == PENDING_ANY && dy.y.stored) {
                z = unpack8(f.stored);
            } else if (WHAT == PENDING_USUAL || dy.y.scale) {
                const float8 &scale = by.row[SCALE], &shift = by.row[SHIFT];
#pragma unroll
                for (int i = 0; i < 8; i++)
                    z.v[i] = raw.v[i] * scale.v[i] + shift.v[i];
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                dz.v[i] = z.v[i] > 0 ? dz.v[i] : below * dz.v[i];
        }
        if (WHAT == PENDING_USUAL || dy.a) {
            const float8 &a = by.row[A], &b = by.row[B], &c = by.row[C];
#pragma unroll
            for (int i = 0; i < 8; i++)
                dz.v[i] = a.v[i] * dz.v[i] + (b.v[i] * raw.v[i] + c.v[i]);
        }
        return pack8(dz);
    }

    __device__ void fill(uint4, const lines &, element) const
    {
    }
};

/* False: the slope is that of a sum, which raw does not tell. */
static inline bool view_source(const rc_grad *dy, gradient_source *source)
{
    source->dy = view_grad<bf16>(dy);
    const tensor_view<bf16> *y = &source->dy.y;
    bool linear = y->act == RC_ACT_NONE;
    source->below = slope_below(y->act);
    source->what = !source->dy.a && linear                                                      ? PENDING_NOTHING
                   : source->dy.a && (linear || (y->scale && !y->stored)) && !is_curved(y->act) ? PENDING_USUAL
                                                                                                : PENDING_ANY;
    return linear || !y->skip || (y->stored && !is_curved(y->act));
}

/* Of the eight channels from which `table` begins. */
template <typename Source>
__device__ inline typename Source::coefficients coefficients_at(const Source &source, const float *table)
{
    typename Source::coefficients by;
#pragma unroll
    for (int i = 0; i < Source::ROWS; i++)
        by.row[i] = load8(table + i * source.channels());
    return by;
}

/* The same without a table. */
template <typename Source>
__device__ inline typename Source::coefficients coefficients_of(const Source &source, int group, int channel)
{
    typename Source::coefficients by;
#pragma unroll
    for (int c = 0; c < 8; c++) {
        float row[Source::ROWS];
        source.read(row, group, channel + c);
#pragma unroll
        for (int i = 0; i < Source::ROWS; i++)
            by.row[i].v[c] = row[i];
    }
    return by;
}

#endif
