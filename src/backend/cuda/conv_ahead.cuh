/* A tile of a lazy map that comes into shared memory while another one is multiplied.
 *
 * The threads of a block fetch a few vectors of the next tile into registers, multiply what there is, and only then
 * finish the vectors and store them: the products hide the way to memory. Unlike load_window (conv_tile.cuh) this
 * writes every pixel of the tile, zeros where the map has none, so that nobody clears the tile before. */
#ifndef RC_BACKEND_CUDA_CONV_AHEAD_CUH
#define RC_BACKEND_CUDA_CONV_AHEAD_CUH

#include "backend/cuda/conv_tile.cuh"

/* Pixels first + (row, column) * step of a map, images x rows x columns of them. */
struct ahead_window {
    rectangle whole;
    int image, y, x;     /* the first: its image, and row and column in steps */
    int step, phase_y, phase_x;
    int height, width;   /* rows and columns of this phase that the map has */
    int own_y, own_x;    /* rows and columns before these, and not before the tile itself, are this tile's to fill, */
    int low;             /* whose first pixel is the row and column -low of the window */
    bool fill;
};

/* The source pixels of a tile with their halo, of one phase of the source. */
__device__ inline ahead_window window_ahead(const tile_cut &cut, tile_place at, int step, int phase_y, int phase_x,
                                            int h, int w, bool fill)
{
    ahead_window window;
    window.whole = make_rectangle(at.images, cut.rows, cut.columns, cut.by_rows, cut.by_columns);
    window.image = at.image;
    window.y = at.base_y + cut.low;
    window.x = at.base_x + cut.low;
    window.step = step;
    window.phase_y = phase_y;
    window.phase_x = phase_x;
    window.height = step == 2 ? (h - phase_y + 1) >> 1 : h;
    window.width = step == 2 ? (w - phase_x + 1) >> 1 : w;
    bool last_y = at.base_y + cut.tile_h >= cut.base_h, last_x = at.edge >= EDGE_LAST;
    window.own_y = last_y ? window.height : at.base_y + cut.tile_h;
    window.own_x = last_x ? window.width : at.base_x + cut.tile_w;
    window.low = cut.low;
    window.fill = fill;
    return window;
}

/* A map at the positions of a tile, in one phase, and zeros from the last position to a multiple of 16. */
__device__ inline ahead_window positions_ahead(const tile_cut &cut, const rectangle &positions, tile_place at,
                                              int phase)
{
    ahead_window window = {};
    window.whole = positions;
    window.image = at.image;
    window.y = at.base_y;
    window.x = at.base_x;
    window.step = cut.out_step;
    window.phase_y = phase / 2;
    window.phase_x = phase % 2;
    window.height = window.width = 1 << 30;
    return window;
}

/* WHAT: PENDING_USUAL, or PENDING_ANY; where nothing is pending, either. C channels of each pixel, UNROLL vectors of
 * eight on their way at once. Thread t always has the same eight channels. */
template <int THREADS, int C, int UNROLL, pending WHAT, typename Source> struct ahead_loader {
    static constexpr int VECTORS = C / 8, STEP = THREADS / VECTORS, PITCH = pixel_pitch(C);
    ahead_window window;
    typename Source::lines lines;
    int channel, index, count; /* of pixels: the next, and all of them with the zeros at the end */
    char *to;
    typename Source::fetched fetched[UNROLL];
    unsigned exists; /* bit u: fetched[u] is a pixel of the map */

    __device__ void begin(const Source &source, const ahead_window &next, int padding, int first_channel, char *tile)
    {
        window = next;
        channel = first_channel + threadIdx.x % VECTORS * 8;
        lines = source.walk(window.whole, window.image, window.y * window.step + window.phase_y,
                            window.x * window.step + window.phase_x, window.step, channel);
        index = threadIdx.x / VECTORS;
        count = (window.whole.count + padding - 1) / padding * padding;
        to = tile + index * PITCH + threadIdx.x % VECTORS * 16;
    }

    __device__ bool left() const
    {
        return index - (int)threadIdx.x / VECTORS < count;
    }

    __device__ void fetch(const Source &source)
    {
        exists = 0;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            element e = element_of(window.whole, index + u * STEP);
            int row = e.row - e.image * window.whole.height, column = e.index - e.row * window.whole.width;
            fetched[u] = {};
            if (e.index < window.whole.count && (unsigned)(window.y + row) < (unsigned)window.height &&
                (unsigned)(window.x + column) < (unsigned)window.width) {
                fetched[u] = source.what == PENDING_NOTHING
                                 ? source.template fetch<PENDING_NOTHING>(lines, e, channel)
                                 : source.template fetch<WHAT>(lines, e, channel);
                exists |= 1u << u;
            }
        }
    }

    __device__ void finish(const Source &source, const typename Source::coefficients &by)
    {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (index + u * STEP >= count)
                break;
            uint4 value = make_uint4(0, 0, 0, 0);
            if (exists >> u & 1) {
                value = source.what == PENDING_NOTHING
                            ? source.template finish<PENDING_NOTHING>(fetched[u], by)
                            : source.template finish<WHAT>(fetched[u], by);
                if (window.fill)
                    fill(source, value, u);
            }
            *(uint4 *)(to + u * STEP * PITCH) = value;
        }
        index += UNROLL * STEP;
        to += UNROLL * STEP * PITCH;
    }

    __device__ void fill(const Source &source, uint4 value, int u) const
    {
        element e = element_of(window.whole, index + u * STEP);
        int row = e.row - e.image * window.whole.height, column = e.index - e.row * window.whole.width;
        if (row >= -window.low && window.y + row < window.own_y && column >= -window.low &&
            window.x + column < window.own_x)
            source.fill(value, lines, e);
    }
};

/* make_table for loaders whose coefficients do not fit into registers: of every eight channels first all first halves,
 * then all second ones, so that eight threads with neighbouring vectors read from different banks. */
template <typename Source> __device__ inline void make_halved_table(const Source &source, int group, float *table)
{
    int width = source.channels();
    for (int channel = threadIdx.x; channel < width; channel += CONV_THREADS) {
        float row[Source::ROWS];
        source.read(row, group, channel);
#pragma unroll
        for (int i = 0; i < Source::ROWS; i++)
            table[i * width + channel % 8 / 4 * (width / 2) + channel / 8 * 4 + channel % 4] = row[i];
    }
}

template <typename Source>
__device__ inline typename Source::coefficients halved_coefficients(const Source &source, const float *table,
                                                                    int channel)
{
    typename Source::coefficients by;
    int width = source.channels();
#pragma unroll
    for (int i = 0; i < Source::ROWS; i++) {
        float4 low = *(const float4 *)(table + i * width + channel / 2);
        float4 high = *(const float4 *)(table + i * width + width / 2 + channel / 2);
        float8 both = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
        by.row[i] = both;
    }
    return by;
}

#endif
