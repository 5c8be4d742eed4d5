/* How the fast convolutions cut their maps, and how a tile of a lazy map comes into shared memory.
 *
 * A tile is tile_h x tile_w base positions (conv_taps.h) of one image, or whole small images; its source pixels, halo
 * included, lie in shared memory as (images, rows, columns) pixels of `pitch` bytes. A pixel's channels are padded by
 * 16 bytes, so that the eight rows of a matrix that ldmatrix reads fall on different banks.
 * Tiles of one group of images are dealt in turn to the blocks of that group; block r of group g writes row r, group g
 * of `partial`. The cut depends on the shape and the card alone.
 *
 * Addresses are what such a kernel computes most, so they are linear: the elements of a rectangle are numbered through,
 * and every map that they come from or go to is a base, a step per element, and a little extra per row and image. */
#ifndef RC_BACKEND_CUDA_CONV_TILE_CUH
#define RC_BACKEND_CUDA_CONV_TILE_CUH

#include "backend/cuda/conv_taps.h"
#include "backend/cuda/mma.cuh"

typedef __nv_bfloat16 bf16;

enum { CONV_THREADS = 256, CONV_WARPS = CONV_THREADS / 32, CONV_TAPS = 64 /* over all phases */ };

/* Bytes of a pixel of so many channels in shared memory. */
__host__ __device__ constexpr int pixel_pitch(int channels)
{
    return channels == 8 ? 16 : channels * 2 + 16;
}

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

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

struct tile_cut {
    int base_h, base_w;                  /* positions of one phase */
    int tile_h, tile_w, images;          /* positions of a tile, at most */
    int tiles_y, tiles_x;                /* tiles of an image */
    int rows, columns;                   /* source pixels of a tile */
    int low, source_step, out_step;
    int source_h, source_w, out_h, out_w;
    int image_tiles, group_tiles[RC_MAX_GROUPS];
    unsigned by_tiles_x, by_tiles_y, by_rows, by_columns;
    /* Reciprocals for the clipped tiles in column EDGE_FIRST and EDGE_LAST of an image, or between. Several images are
     * in a tile only if all of the image is. */
    unsigned by_inside_width[4], by_inside_height;
    unsigned by_width[RC_PHASES][4], by_height[RC_PHASES]; /* positions */
    group_view groups;
    int blocks[RC_MAX_GROUPS];           /* blocks that share the tiles of a group */
    int most_blocks;                     /* of any group: the rows of `partial` */
};

enum { EDGE_FIRST = 1, EDGE_LAST = 2 };

/* The part of a tile that lies in the map, along one axis: source pixels, and positions of a phase. */
struct extent {
    int first, count;
};

__host__ __device__ inline extent inside_extent(const tile_cut &cut, int base, int length, int source)
{
    int first = base * cut.source_step + cut.low, end = first + length;
    first = first > 0 ? first : 0;
    end = end < source ? end : source;
    extent e = {first, end > first ? end - first : 0};
    return e;
}

__host__ __device__ inline int position_extent(const tile_cut &cut, int base, int tile, int out, int phase)
{
    int left = (cut.out_step == 2 ? (out - phase + 1) >> 1 : out) - base;
    return left < tile ? left : tile;
}

/* What a block works on. */
struct tile_share {
    int group, row, tiles; /* tiles row, row + blocks, .. of the group's tiles */
};

struct tile_place {
    int image, images;  /* the first, and how many there are */
    int base_y, base_x; /* first position */
    int edge;           /* EDGE_FIRST, EDGE_LAST: the first or last column of tiles */
};

__device__ inline tile_share share_of_block(const tile_cut &cut, int block)
{
    int group = 0;
    while (group < cut.groups.count - 1 && block >= cut.blocks[group])
        block -= cut.blocks[group++];
    tile_share share = {group, block, cut.group_tiles[group]};
    return share;
}

__device__ inline tile_place place_of_tile(const tile_cut &cut, int group, int tile)
{
    int row = quotient(tile, cut.by_tiles_x), column = tile - row * cut.tiles_x, pack = quotient(row, cut.by_tiles_y);
    int image = group_begin(cut.groups, group) + pack * cut.images, left = cut.groups.end[group] - image;
    tile_place place = {image, left < cut.images ? left : cut.images, (row - pack * cut.tiles_y) * cut.tile_h,
                        column * cut.tile_w, (column == 0) * EDGE_FIRST + (column == cut.tiles_x - 1) * EDGE_LAST};
    return place;
}

/* The positions of a tile that exist in a phase. */
__device__ inline rectangle positions_of(const tile_cut &cut, tile_place at, int phase)
{
    return make_rectangle(at.images, position_extent(cut, at.base_y, cut.tile_h, cut.out_h, phase / 2),
                          position_extent(cut, at.base_x, cut.tile_w, cut.out_w, phase % 2),
                          cut.by_height[phase / 2], cut.by_width[phase % 2][at.edge]);
}

/* Their results in the map, */
__device__ inline line line_of_results(const tile_cut &cut, const rectangle &positions, tile_place at, int phase)
{
    return line_of_map(positions, at.image, at.base_y * cut.out_step + phase / 2,
                       at.base_x * cut.out_step + phase % 2, cut.out_step, cut.out_h, cut.out_w);
}

/* and their source pixels in shared memory, before a tap is added. */
__device__ inline line line_of_sources(const tile_cut &cut, const rectangle &positions)
{
    line l = {0, cut.source_step, cut.source_step * (cut.columns - positions.width),
              (cut.rows - positions.height * cut.source_step) * cut.columns};
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

/* The slope of a piecewise linear activation below 0. */
__host__ __device__ inline float slope_below(rc_act act)
{
    return act == RC_ACT_RELU ? 0.0f : act == RC_ACT_LEAKY_RELU ? 0.2f : 1.0f;
}

static inline bool piecewise_linear(rc_act act)
{
    return act == RC_ACT_NONE || act == RC_ACT_RELU || act == RC_ACT_LEAKY_RELU;
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
        return pack8(z);
    }

    __device__ void fill(uint4 value, const lines &l, element e) const
    {
        *(uint4 *)(x.fill + (unsigned)place_on(l.map, e)) = value;
    }
};

/* False: not for these kernels. */
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
    bool usual = source->x.scale && !source->x.skip;
    bool sum = source->x.scale && source->x.skip && source->x.skip_stride == 1 && source->x.skip_cp == source->x.cp &&
               source->x.act == RC_ACT_NONE;
    source->what = none ? PENDING_NOTHING : usual ? PENDING_USUAL : sum ? PENDING_SUM : PENDING_ANY;
    source->below = slope_below(source->x.act);
    return piecewise_linear(source->x.act) && source->x.skip_offset % 8 == 0;
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
        bool sign = dy.y.scale && !dy.y.stored && dy.y.act != RC_ACT_NONE;
        row[A] = dy.a ? dy.a[at] : 1;
        row[B] = dy.a ? dy.b[at] : 0;
        row[C] = dy.a ? dy.c[at] : 0;
        row[SCALE] = sign ? dy.y.scale[at] : 1;
        row[SHIFT] = sign ? dy.y.shift[at] : 0;
    }

    __device__ lines walk(const rectangle &r, int image, int row, int column, int step, int channel) const
    {
        return scaled(line_of_map(r, image, row, column, step, dy.y.h, dy.y.w), dy.y.cp, channel);
    }

    template <pending WHAT> __device__ fetched fetch(const lines &l, element e, int) const
    {
        unsigned at = (unsigned)place_on(l, e);
        fetched f = {};
        f.g = load16(dy.g + at);
        if (WHAT != PENDING_NOTHING)
            f.raw = load16(dy.y.raw + at);
        if (WHAT == PENDING_ANY && dy.y.act != RC_ACT_NONE && dy.y.stored)
            f.stored = load16(dy.y.stored + at);
        return f;
    }

    template <pending WHAT> __device__ uint4 finish(const fetched &f, const coefficients &by) const
    {
        if (WHAT == PENDING_NOTHING)
            return f.g;
        float8 dz = unpack8(f.g), raw = unpack8(f.raw), z = raw;
        if (WHAT == PENDING_ANY && dy.y.act == RC_ACT_TANH) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                dz.v[i] *= act_slope(RC_ACT_TANH, tanhf(raw.v[i]));
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

    __device__ void fill(uint4, const lines &, element) const {}
};

/* Of the other activations only tanh without normalisation is taken: the last layer of a generator. */
static inline bool view_source(const rc_grad *dy, gradient_source *source)
{
    source->dy = view_grad<bf16>(dy);
    const tensor_view<bf16> *y = &source->dy.y;
    bool linear = y->act == RC_ACT_NONE;
    source->below = slope_below(y->act);
    source->what = !source->dy.a && linear ? PENDING_NOTHING
                   : source->dy.a && (linear || (y->scale && !y->stored)) && piecewise_linear(y->act) ? PENDING_USUAL
                                                                                                      : PENDING_ANY;
    if (y->act == RC_ACT_TANH)
        return !y->scale && !y->skip;
    return piecewise_linear(y->act) && (linear || !y->skip || y->stored);
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

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* What of a tile's pixels in shared memory exists in the map. The rest, around it, is zeros (clear_tile). */
struct tile_window {
    rectangle inside;
    int image, y, x, step;          /* of the first pixel, and how far apart in the map */
    int top, left;                  /* of the first pixel in the tile */
    int rows, columns;              /* of the tile, for each image */
    int own_row, own_rows;          /* the rows and columns that are nobody else's: they fill the value */
    int own_column, own_columns;
    bool fill;
};

template <int C, int MOST, pending WHAT, typename Source>
__device__ inline void load_pending(const Source &source, const float *table, const tile_window &window, int channel,
                                    char *tile)
{
    constexpr int VECTORS = C / 8, STEP = CONV_THREADS / VECTORS, PITCH = pixel_pitch(C);
    constexpr int WANTED = vectors_at_once<WHAT>(Source::LOADS), UNROLL = WANTED < MOST ? WANTED : MOST;
    const rectangle &inside = window.inside;
    channel += threadIdx.x % VECTORS * 8;
    typename Source::lines lines = source.walk(inside, window.image, window.y, window.x, window.step, channel);
    line in_tile = {window.top * window.columns + window.left, 1, window.columns - inside.width,
                    (window.rows - inside.height) * window.columns};
    in_tile = scaled(in_tile, PITCH, threadIdx.x % VECTORS * 16);
    table += channel;
#pragma unroll 1
    for (int first = threadIdx.x / VECTORS; first < inside.count; first += UNROLL * STEP) {
        typename Source::fetched fetched[UNROLL];
        element at[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            at[u] = element_of(inside, first + u * STEP);
            fetched[u] = {}; /* or the registers stay in use all along */
            if (at[u].index < inside.count)
                fetched[u] = source.template fetch<WHAT>(lines, at[u], channel);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (at[u].index >= inside.count)
                break;
            uint4 value = source.template finish<WHAT>(fetched[u], coefficients_at(source, table));
            *(uint4 *)(tile + place_on(in_tile, at[u])) = value;
            if (window.fill) {
                int row = at[u].row - at[u].image * inside.height, column = at[u].index - at[u].row * inside.width;
                if ((unsigned)(row - window.own_row) < (unsigned)window.own_rows &&
                    (unsigned)(column - window.own_column) < (unsigned)window.own_columns)
                    source.fill(value, lines, at[u]);
            }
        }
    }
}

/* Loads channels [channel, channel + C) of a window to shared memory. Thread t always has the same eight channels, and
 * at most MOST vectors on their way. */
template <int C, int MOST, typename Source>
__device__ inline void load_window(const Source &source, const float *table, const tile_window &window, int channel,
                                   char *tile)
{
    if (source.what == PENDING_USUAL)
        load_pending<C, MOST, PENDING_USUAL>(source, table, window, channel, tile);
    else if (source.what == PENDING_NOTHING)
        load_pending<C, MOST, PENDING_NOTHING>(source, table, window, channel, tile);
    else if (Source::LOADS == 1 && source.what == PENDING_SUM)
        load_pending<C, MOST, PENDING_SUM>(source, table, window, channel, tile);
    else
        load_pending<C, MOST, PENDING_ANY>(source, table, window, channel, tile);
}

__device__ inline void clear_tile(char *tile, int bytes)
{
    for (int i = threadIdx.x * 16; i < bytes; i += CONV_THREADS * 16)
        *(uint4 *)(tile + i) = make_uint4(0, 0, 0, 0);
}

/* Makes a table in shared memory, (ROWS, width) float, of what `source` reads for each channel from `first` on. */
template <int THREADS = CONV_THREADS, typename Source>
__device__ inline void make_table(const Source &source, int group, int first, int width, float *table)
{
#pragma unroll 1
    for (int channel = threadIdx.x; channel < width; channel += THREADS) {
        float row[Source::ROWS];
        source.read(row, group, first + channel);
#pragma unroll
        for (int i = 0; i < Source::ROWS; i++)
            table[i * width + channel] = row[i];
    }
}

/* The source pixels of a tile with their halo. */
__device__ inline tile_window source_window(const tile_cut &cut, tile_place at, bool fill)
{
    int y = at.base_y * cut.source_step, x = at.base_x * cut.source_step;
    bool last_y = at.base_y + cut.tile_h >= cut.base_h, last_x = at.edge >= EDGE_LAST;
    extent rows = inside_extent(cut, at.base_y, cut.rows, cut.source_h);
    extent columns = inside_extent(cut, at.base_x, cut.columns, cut.source_w);
    tile_window window;
    window.inside = make_rectangle(at.images, rows.count, columns.count, cut.by_inside_height,
                                   cut.by_inside_width[at.edge]);
    window.image = at.image;
    window.y = rows.first;
    window.x = columns.first;
    window.step = 1;
    window.top = rows.first - (y + cut.low);
    window.left = columns.first - (x + cut.low);
    window.rows = cut.rows;
    window.columns = cut.columns;
    window.own_row = y - window.y;
    window.own_rows = last_y ? cut.source_h - y : cut.tile_h * cut.source_step;
    window.own_column = x - window.x;
    window.own_columns = last_x ? cut.source_w - x : cut.tile_w * cut.source_step;
    window.fill = fill;
    return window;
}

/* A map at the positions of a tile, in one phase: without a border, one after the other. */
__device__ inline tile_window positions_window(const tile_cut &cut, const rectangle &positions, tile_place at,
                                               int phase)
{
    tile_window window = {};
    window.inside = positions;
    window.image = at.image;
    window.y = at.base_y * cut.out_step + phase / 2;
    window.x = at.base_x * cut.out_step + phase % 2;
    window.step = cut.out_step;
    window.rows = positions.height;
    window.columns = positions.width;
    return window;
}

/* Clears what was loaded by positions, from the last one to a multiple of 16. */
template <int C> __device__ inline void clear_rest(int positions, char *tile)
{
    int i = threadIdx.x / (C / 8) + positions;
    if (i < (positions + 15) / 16 * 16)
        *(uint4 *)(tile + i * pixel_pitch(C) + threadIdx.x % (C / 8) * 16) = make_uint4(0, 0, 0, 0);
}

#endif
