/* Depthwise convolutions: every channel has a window of its own, so that there is nothing for the tensor cores, and a
 * map is worth reading once.
 *
 * A block takes a tile of one map, some vectors of eight channels wide. It brings the pixels that the tile reads to
 * shared memory, with everything pending applied, and zeros where the map ends. A thread then has one vector and, at a
 * time, a strip: STRIP neighbouring results of a row, so that a pixel is read from shared memory once for all of them.
 * The tiles of a group of images are dealt to its blocks in turn; block r writes row r of `partial` (map.cuh). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_DEPTHWISE_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_DEPTHWISE_CUH

#include "backend/cuda/convolution/depthwise.h"
#include "backend/cuda/map/map.cuh"
#include "backend/cuda/product/mma.cuh"

enum {
    STRIP = 4,       /* results of a thread at a time */
    TILE_VECTORS = 8 /* of a block, at most: neighbouring threads read whole lines of memory */
};

/* ---- which results read which pixels ---------------------------------------------------------------------------- */

/* Along one axis, in a tile whose first result is `first`. All numbers of results and pixels count from the first of
 * the tile, and no division has a rest:
 *     forward          result r reads, through tap t, pixel  r * S + t               of those from  first * S - pad
 *     data gradient    result r reads, through tap t, pixel  (r - t) / S + REACH     of those from  (first + pad) / S
 *                      - REACH, where S divides r - t; S divides first + pad */
template <int K, int S, bool FORWARD> struct depthwise_axis {
    static constexpr int REACH = (K - 1) / S;

    /* How many pixels so many results read; a strip's begin where its first result's do. */
    __host__ __device__ static constexpr int pixels(int results)
    {
        return FORWARD ? (results - 1) * S + K : (results - 1) / S + REACH + 1;
    }
    __host__ __device__ static int first_pixel(int first, int pad)
    {
        return FORWARD ? first * S - pad : (first + pad) / S - REACH;
    }
    __device__ static int strip_pixel(int result)
    {
        return FORWARD ? result * S : result / S;
    }

    /* The tap through which result `result` of a strip reads pixel `pixel` of it; outside of [0, K): it does not. */
    __device__ static constexpr int tap(int result, int pixel)
    {
        return FORWARD ? pixel - result * S : result - (pixel - REACH) * S;
    }

    /* The taps of a row of results: the first, and how far apart they are; and the row that one reads. */
    static constexpr int TAP_STEP = FORWARD ? 1 : S;
    __device__ static int first_tap(int result)
    {
        return FORWARD ? 0 : result % S;
    }
    __device__ static int row_of_tap(int result, int tap)
    {
        return FORWARD ? result * S + tap : (result - tap) / S + REACH;
    }
};

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

struct depthwise_cut {
    map_cut map;        /* width: vectors of a block; slots: blocks of a group; tiles: of channels */
    int h, w;           /* of the results */
    int first;          /* result of the first tile, along both axes: 0, or before the map (see depthwise_axis) */
    int tile_h, tile_w; /* results; tile_w is whole strips */
    int images;         /* of a tile: several only where a tile has all of the map */
    int tiles_y, tiles_x;
    int source_h, source_w, pad;
    int rows, columns; /* pixels of a tile, of each image */
    unsigned by_tiles_x, by_tiles_y, by_rows, by_columns, by_tile_h, by_tile_w, by_strips;
};

struct depthwise_place {
    int image, images, y, x; /* the first image and how many there are; the first result */
};

__host__ __device__ inline int tiles_of_group(const depthwise_cut &cut, int group)
{
    int images = cut.map.groups.end[group] - group_begin(cut.map.groups, group);
    return (images + cut.images - 1) / cut.images * cut.tiles_y * cut.tiles_x;
}

__device__ inline depthwise_place place_of_tile(const depthwise_cut &cut, int group, int tile)
{
    int row = quotient(tile, cut.by_tiles_x), pack = quotient(row, cut.by_tiles_y);
    int image = group_begin(cut.map.groups, group) + pack * cut.images, left = cut.map.groups.end[group] - image;
    depthwise_place at = {image, left < cut.images ? left : cut.images,
                          cut.first + (row - pack * cut.tiles_y) * cut.tile_h,
                          cut.first + (tile - row * cut.tiles_x) * cut.tile_w};
    return at;
}

/* A strip of a tile, by its number: image, row and first column, counted from those of the tile. */
struct depthwise_strip {
    int image, row, column;
};

__device__ inline depthwise_strip strip_of(const depthwise_cut &cut, int number)
{
    int row = quotient(number, cut.by_strips), image = quotient(row, cut.by_tile_h);
    depthwise_strip strip = {image, row - image * cut.tile_h, (number - row * (cut.tile_w / STRIP)) * STRIP};
    return strip;
}

/* What a thread of a block does: everything with the same eight channels. */
struct depthwise_thread {
    int vector, lane, lanes; /* of the block's; lanes share what there is to do */
    int channel;
    bool idle;
};

__device__ inline depthwise_thread thread_of(const depthwise_cut &cut)
{
    depthwise_thread mine;
    mine.vector = (int)threadIdx.x % cut.map.width;
    mine.lane = (int)threadIdx.x / cut.map.width;
    mine.lanes = MAP_THREADS / cut.map.width;
    mine.channel = ((int)blockIdx.z * cut.map.width + mine.vector) * 8;
    mine.idle = mine.lane >= mine.lanes || mine.channel >= cut.map.cp;
    return mine;
}

/* ---- sources: what is pending is read once by a block, and lies in shared memory --------------------------------- */

template <typename Act> struct depthwise_value {
    tensor_view<Act> map;
    typedef float8 fetched;
    typedef scale8 pending;

    __device__ pending read(int group, int channel) const
    {
        return load_scale8(map, group, channel);
    }

    __device__ fetched fetch(place at, int channel) const
    {
        return fetch_value8(map, at, channel);
    }

    __device__ float8 finish(const pending &by, const fetched &f, place at, int channel) const
    {
        return map.stored ? f : finish8(map, f, by, at, channel);
    }

    __device__ place at(int image, int y, int x) const
    {
        return place_at(map, image, y, x);
    }
};

template <typename Act> struct depthwise_gradient {
    grad_view<Act> dy;
    typedef draw8 fetched;
    typedef coefficients8 pending;

    __device__ pending read(int group, int channel) const
    {
        return load_coefficients8(dy, group, channel);
    }

    __device__ fetched fetch(place at, int channel) const
    {
        return fetch_draw8(dy, at, channel);
    }

    __device__ float8 finish(const pending &by, const fetched &f, place at, int channel) const
    {
        return finish_draw8(dy, f, by, at, channel);
    }

    __device__ place at(int image, int y, int x) const
    {
        return place_at(dy.y, image, y, x);
    }
};

/* A rectangle of pixels of one or several images, some of them outside of the map. */
struct depthwise_window {
    int image, images, y, x; /* the first */
    int rows, columns, h, w; /* of the rectangle, and of the map */
    unsigned by_rows, by_columns;
};

/* Of the channels of a block; the caller synchronises. */
template <typename Source>
__device__ inline void read_pending(const Source &source, int group, const depthwise_thread &mine,
                                    typename Source::pending *to)
{
    if (!mine.idle && mine.lane == 0)
        to[mine.vector] = source.read(group, mine.channel);
}

/* Brings a window to `to`, (images, rows, columns, width vectors), with zeros outside. A thread has several vectors on
 * their way at once. */
template <typename Act, typename Source>
__device__ inline void load_window(const Source &source, const typename Source::pending *pending,
                                   const depthwise_window &window, const depthwise_thread &mine, int width, Act *to)
{
    constexpr int AT_ONCE = sizeof(typename Source::fetched) > sizeof(float8) ? 2 : 4;
    int count = window.images * window.rows * window.columns;
#pragma unroll 1
    for (int first = mine.lane; first < count; first += AT_ONCE * mine.lanes) {
        typename Source::fetched fetched[AT_ONCE];
        place at[AT_ONCE];
        bool inside[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int index = first + u * mine.lanes, row = quotient(index, window.by_columns);
            int image = quotient(row, window.by_rows);
            int y = window.y + row - image * window.rows, x = window.x + index - row * window.columns;
            inside[u] = index < count && (unsigned)y < (unsigned)window.h && (unsigned)x < (unsigned)window.w;
            at[u] = source.at(window.image + image, y, x);
            fetched[u] = {};
            if (inside[u])
                fetched[u] = source.fetch(at[u], mine.channel);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int index = first + u * mine.lanes;
            float8 value = zero8();
            if (inside[u])
                value = source.finish(pending[mine.vector], fetched[u], at[u], mine.channel);
            if (index < count)
                store8(to + (index * width + mine.vector) * 8, value);
        }
    }
}

/* ---- cutting ---------------------------------------------------------------------------------------------------- */

/* Kernel and stride that the compiler knows. */
template <int KERNEL, int STRIDE> struct depthwise_shape {
    static constexpr int K = KERNEL, S = STRIDE;
};

/* Calls `call` with the shape of the convolution; false: it has none of them. */
template <typename Call> static bool with_depthwise_shape(const rc_conv *conv, Call call)
{
    if (conv->k == 3 && conv->stride == 1)
        return call(depthwise_shape<3, 1>());
    if (conv->k == 3 && conv->stride == 2)
        return call(depthwise_shape<3, 2>());
    if (conv->k == 5 && conv->stride == 1)
        return call(depthwise_shape<5, 1>());
    if (conv->k == 5 && conv->stride == 2)
        return call(depthwise_shape<5, 2>());
    return false;
}

static inline int rounded_up(int x, int multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

/* The channels of a block: as even shares as there are. */
static inline void cut_channels(map_cut *map, int c)
{
    int vectors = rc_cuda_padded(c) / 8;
    map->cp = rc_cuda_padded(c);
    map->tiles = (vectors + TILE_VECTORS - 1) / TILE_VECTORS;
    map->width = (vectors + map->tiles - 1) / map->tiles;
}

/* Cuts the results of `batch` images. `pixel_bytes` and `result_bytes`: of shared memory, for each pixel and for each
 * result of a tile, of which there are `bytes`. False: not even the smallest tile fits. The cut has blocks for all
 * tiles of the largest group, but at most `most_blocks`. */
template <typename Axis>
static bool cut_depthwise(const rc_conv *conv, bool forward, const rc_tensor *batch, int pixel_bytes, int result_bytes,
                          int bytes, int most_blocks, depthwise_cut *cut)
{
    enum { WIDEST = 32, BLOCKS = 264 /* two for each of 132 multiprocessors */, LEAST = MAP_THREADS / TILE_VECTORS };
    int step = forward ? 1 : conv->stride;
    cut->map.groups = view_groups(batch);
    cut->h = forward ? conv->oh : conv->h;
    cut->w = forward ? conv->ow : conv->w;
    cut->map.image_pixels = cut->h * cut->w;
    cut->source_h = forward ? conv->h : conv->oh;
    cut->source_w = forward ? conv->w : conv->ow;
    cut->pad = conv->pad;
    cut->first = forward ? 0 : -(conv->pad % conv->stride);
    int high = rounded_up(cut->h - cut->first, step), wide = rounded_up(cut->w - cut->first, STRIP);
    auto taken = [&](int h, int w) { return Axis::pixels(h) * Axis::pixels(w) * pixel_bytes + h * w * result_bytes; };
    int most = batch->n * high * wide / BLOCKS * cut->map.tiles, results = LEAST * STRIP;
    results = most > results ? most : results;
    int columns = (wide + WIDEST - 1) / WIDEST;
    cut->tile_w = rounded_up((wide + columns - 1) / columns, STRIP);
    while (cut->tile_w > STRIP && taken(step, cut->tile_w) > bytes)
        cut->tile_w = rounded_up(cut->tile_w / 2, STRIP);
    cut->tiles_x = (wide + cut->tile_w - 1) / cut->tile_w;
    int rows = rounded_up(results / cut->tile_w > 1 ? results / cut->tile_w : 1, step);
    rows = rows < high ? rows : high;
    while (rows > step && taken(rows, cut->tile_w) > bytes)
        rows -= step;
    cut->tiles_y = (high + rows - 1) / rows;
    cut->tile_h = rounded_up((high + cut->tiles_y - 1) / cut->tiles_y, step);
    cut->rows = Axis::pixels(cut->tile_h);
    cut->columns = Axis::pixels(cut->tile_w);
    cut->images = 1;
    int all = taken(cut->tile_h, cut->tile_w);
    if (all > bytes)
        return false;
    if (cut->tiles_y == 1 && cut->tiles_x == 1) {
        int wanted = results / (cut->tile_h * cut->tile_w), fit = bytes / all;
        wanted = wanted < fit ? wanted : fit;
        cut->images = wanted > 1 ? wanted : 1;
    }
    cut->by_tiles_x = reciprocal(cut->tiles_x);
    cut->by_tiles_y = reciprocal(cut->tiles_y);
    cut->by_rows = reciprocal(cut->rows);
    cut->by_columns = reciprocal(cut->columns);
    cut->by_tile_h = reciprocal(cut->tile_h);
    cut->by_tile_w = reciprocal(cut->tile_w);
    cut->by_strips = reciprocal(cut->tile_w / STRIP);
    int largest = 1;
    for (int g = 0; g < cut->map.groups.count; g++) {
        int tiles = tiles_of_group(*cut, g);
        largest = tiles > largest ? tiles : largest;
    }
    int rounds = (largest + most_blocks - 1) / most_blocks;
    cut->map.slots = (largest + rounds - 1) / rounds;
    return true;
}

#endif
