/* How the fast convolutions cut their maps, and how a tile of a lazy map comes into shared memory.
 *
 * A tile is tile_h x tile_w base positions (conv_taps.h) of one image, or whole small images; its source pixels, halo
 * included, lie in shared memory as (images, rows, columns) pixels of `pitch` bytes. A pixel's channels are padded by
 * 16 bytes, so that the eight rows of a matrix that ldmatrix reads fall on different banks.
 * Tiles of one group of images are dealt in turn to the blocks of that group; block r of group g writes row r, group g
 * of `partial`. The cut depends on the shape and the card alone. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_TILE_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_TILE_CUH

#include "backend/cuda/convolution/conv_source.cuh"
#include "backend/cuda/convolution/conv_taps.h"

enum { CONV_THREADS = 256, CONV_WARPS = CONV_THREADS / 32, CONV_TAPS = 64 /* over all phases */ };

/* Bytes of a pixel of so many channels in shared memory. */
__host__ __device__ constexpr int pixel_pitch(int channels)
{
    return channels == 8 ? 16 : channels * 2 + 16;
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

struct tile_cut {
    int base_h, base_w;         /* positions of one phase */
    int tile_h, tile_w, images; /* positions of a tile, at most */
    int tiles_y, tiles_x;       /* tiles of an image */
    int rows, columns;          /* source pixels of a tile */
    int low, source_step, out_step;
    int source_h, source_w, out_h, out_w;
    int image_tiles, group_tiles[RC_MAX_GROUPS];
    unsigned by_tiles_x, by_tiles_y, by_rows, by_columns;
    /* Reciprocals for the clipped tiles in column EDGE_FIRST and EDGE_LAST of an image, or between. Several images are
     * in a tile only if all of the image is. */
    unsigned by_inside_width[4], by_inside_height;
    unsigned by_width[RC_PHASES][4], by_height[RC_PHASES]; /* positions */
    group_view groups;
    int blocks[RC_MAX_GROUPS]; /* blocks that share the tiles of a group */
    int most_blocks;           /* of any group: the rows of `partial` */
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

template <typename Cut> __device__ inline tile_share share_of_block(const Cut &cut, int block)
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
                          position_extent(cut, at.base_x, cut.tile_w, cut.out_w, phase % 2), cut.by_height[phase / 2],
                          cut.by_width[phase % 2][at.edge]);
}

/* Their results in the map, */
__device__ inline line line_of_results(const tile_cut &cut, const rectangle &positions, tile_place at, int phase)
{
    return line_of_map(positions, at.image, at.base_y * cut.out_step + phase / 2, at.base_x * cut.out_step + phase % 2,
                       cut.out_step, cut.out_h, cut.out_w);
}

/* and their source pixels in shared memory, before a tap is added. */
__device__ inline line line_of_sources(const tile_cut &cut, const rectangle &positions)
{
    line l = {0, cut.source_step, cut.source_step * (cut.columns - positions.width),
              (cut.rows - positions.height * cut.source_step) * cut.columns};
    return l;
}

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* What of a tile's pixels in shared memory exists in the map. The rest, around it, is zeros (clear_tile). */
struct tile_window {
    rectangle inside;
    int image, y, x, step; /* of the first pixel, and how far apart in the map */
    int top, left;         /* of the first pixel in the tile */
    int rows, columns;     /* of the tile, for each image */
    int own_row, own_rows; /* the rows and columns that are nobody else's: they fill the value */
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
