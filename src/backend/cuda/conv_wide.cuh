/* Convolution of wide layers, 64 channels and more, on large maps: the sources and sinks of conv_gather.cuh around
 * another loop. What it is about is the traffic between memories, which a multiprocessor with 1400 multiply-adds a
 * clock does not see if
 * - a warp has 112 positions x 32 channels of sums: 4.5 kB of operands from shared memory for 57 thousand products;
 * - a block of four warps has 224 positions x 64 channels: whole rows of maps that are 14, 28, 56 or 112 wide;
 * - the weights of a tap travel (cp.async) while those of the taps before are used;
 * - what is pending of eight channels is read once for all pixels of a tile;
 * - there are two blocks on a multiprocessor, each of which multiplies while the other loads or stores.
 *
 * A source that is read at every second pixel (stride 2, and the gradient of an enlarged map) is taken in parts, one
 * for each of its phases along both axes: a part is a map of its own with the taps that fall on it, read without
 * gaps. */
#ifndef RC_BACKEND_CUDA_CONV_WIDE_CUH
#define RC_BACKEND_CUDA_CONV_WIDE_CUH

#include "backend/cuda/conv_ahead.cuh"
#include "backend/cuda/conv_gather.cuh"
#include "backend/cuda/conv_wide.h"

template <typename Source, typename Sink> struct wide_arguments {
    Source source;
    Sink sink;
    unsigned *tickets; /* as in gather_arguments */
    typename Sink::norm norm;
    bool hurries;
    const char *weights;
    wide_cut wide;
};

/* The weights of taps, one after the other and round again, on their way through a ring in shared memory. */
struct weight_ring {
    unsigned ring;
    const char *from;
    const unsigned char *order; /* in which the taps of a chunk are used */
    int chunks, steps, chunk, step, slot;

    __device__ void copy_next()
    {
        const char *next = from + (size_t)(chunk * steps + order[step]) * WIDE_STEP;
        unsigned to = ring + slot * WIDE_STEP;
#pragma unroll
        for (int i = 0; i < WIDE_STEP / (WIDE_THREADS * 16); i++) {
            int at = (i * WIDE_THREADS + threadIdx.x) * 16;
            copy16_async(to + at, next + at);
        }
        close_copies();
        slot = slot + 1 == WIDE_STAGES ? 0 : slot + 1;
        if (++step == steps) {
            step = 0;
            chunk = chunk + 1 == chunks ? 0 : chunk + 1;
        }
    }
};

/* The positions of a warp. */
template <typename Sink> struct wide_warp {
    unsigned row_address[WIDE_TILES_M];
    float sum[WIDE_TILES_M][4][4];

    __device__ static int first_position()
    {
        return threadIdx.x / 32 / (WIDE_N / WIDE_CHANNELS) * WIDE_POSITIONS;
    }

    __device__ void begin(const tile_cut &cut, const rectangle &positions, unsigned tile, const float *bias)
    {
        int lane = threadIdx.x % 32;
        line sources = scaled(line_of_sources(cut, positions), pixel_pitch(WIDE_CHUNK), lane / 16 * 16);
#pragma unroll
        for (int i = 0; i < WIDE_TILES_M; i++) {
            int index = first_position() + i * 16 + lane % 16;
            row_address[i] = tile + place_on(sources, element_of(positions, index < positions.count ? index : 0));
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    sum[i][j][k] = bias[2 * j + k % 2];
        }
    }

    /* All channels of the chunk at one tap. */
    __device__ void multiply(int offset, unsigned weights)
    {
#pragma unroll
        for (int product = 0; product < WIDE_CHUNK / 16; product++) {
            unsigned b[4][2];
            load_shared16(b[0], weights + product * WIDE_N * 32);
            load_shared16(b[2], weights + product * WIDE_N * 32 + 512);
#pragma unroll
            for (int i = 0; i < WIDE_TILES_M; i++) {
                unsigned a[4];
                load_matrices(a, row_address[i] + offset + product * 32);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply_add(sum[i][j], a, b[j]);
            }
        }
    }

    /* A lane has eight neighbouring channels of positions lane / 4 and lane / 4 + 8 of every sixteen. */
    __device__ static int pixel_of(const rectangle &positions, const line &results, int tile, int half)
    {
        element e = element_of(positions, first_position() + tile * 16 + half * 8 + threadIdx.x % 32 / 4);
        return e.index < positions.count ? place_on(results, e) : -1;
    }

    __device__ void take(const Sink &sink, const rectangle &positions, const line &results, const sink_rows &rows,
                         int channel, sink_sums &sums) const
    {
#pragma unroll
        for (int i = 0; i < WIDE_TILES_M; i++) {
            typename Sink::ahead ahead[2];
            int pixel[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                pixel[half] = pixel_of(positions, results, i, half);
                ahead[half] = {};
                if (pixel[half] >= 0)
                    ahead[half] = sink.fetch(pixel[half], channel);
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float8 v;
#pragma unroll
                for (int k = 0; k < 8; k++)
                    v.v[k] = sum[i][k / 2][half * 2 + k % 2];
                if (pixel[half] >= 0)
                    sink.take(v, ahead[half], rows, pixel[half], channel, sums);
            }
        }
    }
};

/* Loads one part of the source pixels of a tile. */
template <pending WHAT, typename Source>
__device__ inline void load_part(const Source &source, const ahead_window &window, int group, int channel, char *tile)
{
    /* Vectors on their way, as far as the registers last beside the sums. */
    constexpr int UNROLL = WHAT == PENDING_ANY ? 2 : Source::LOADS == 1 ? 8 : 4;
    ahead_loader<WIDE_THREADS, WIDE_CHUNK, UNROLL, WHAT, Source> loader;
    loader.begin(source, window, 1, channel, tile);
    typename Source::coefficients by = coefficients_of(source, group, loader.channel);
    while (loader.left()) {
        loader.fetch(source);
        loader.finish(source, by);
    }
}

/* Grid: (blocks of all groups, tiles of channels, phases of the result). */
template <pending WHAT, typename Source, typename Sink>
__global__ void __launch_bounds__(WIDE_THREADS, 2) wide_kernel(const __grid_constant__ wide_arguments<Source, Sink> a)
{
    constexpr int WARPS_N = WIDE_N / WIDE_CHANNELS;
    const tile_cut &cut = a.wide.cut;
    const wide_parts &list = a.wide.parts;
    char *shared = dynamic_shared(), *tile = shared + WIDE_STAGES * WIDE_STEP;
    float *table = (float *)(tile + a.wide.tile_bytes);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, phase = blockIdx.z;
    int lane_channel = warp % WARPS_N * WIDE_CHANNELS + lane % 4 * 8, block_channel = blockIdx.y * WIDE_N;
    tile_share share = share_of_block(cut, blockIdx.x);
    bool divided = a.wide.source_step == 2; /* otherwise parts are phases of the result */
    int first_part = divided ? 0 : phase, end_part = divided ? list.count : phase + 1;
    int first_step = list.first_step[first_part];

    weight_ring ring = {shared_address(shared),
                        a.weights + (size_t)(blockIdx.y * list.all_steps + first_step) * a.wide.chunks * WIDE_STEP,
                        list.order + first_step, a.wide.chunks, divided ? list.all_steps : list.steps[phase], 0, 0, 0};
    /* Weights are older than the kernel before: they travel while that one ends. */
    for (int i = 0; i < WIDE_STAGES - 1 && ring.steps > 0; i++)
        ring.copy_next();
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    make_table<WIDE_THREADS>(a.sink, share.group, block_channel, WIDE_N, table);
    __syncthreads();

    bool fill = blockIdx.y == 0 && phase == 0 && a.source.fills();
    int slot = 0;
    sink_sums sums = {};
    wide_warp<Sink> mine;
    unsigned warp_weights = shared_address(shared) + warp % WARPS_N * (WIDE_CHANNELS * 32) + lane * 16;
    for (int t = share.row; t < share.tiles; t += cut.blocks[share.group]) {
        tile_place at = place_of_tile(cut, share.group, t);
        rectangle positions = positions_of(cut, at, phase);
        mine.begin(cut, positions, shared_address(tile), table + ROW_BIAS * WIDE_N + lane_channel);
        bool busy = mine.first_position() < positions.count;
        for (int chunk = 0; chunk < a.wide.chunks; chunk++)
            for (int part = first_part; part < end_part && list.steps[part] > 0; part++) {
                __syncthreads(); /* what was in the tile has been used */
                load_part<WHAT>(a.source,
                                window_ahead(cut, at, a.wide.source_step, list.y[part], list.x[part], a.wide.source_h,
                                             a.wide.source_w, fill),
                                share.group, chunk * WIDE_CHUNK, tile);
                for (int step = list.first_step[part]; step < list.first_step[part] + list.steps[part]; step++) {
                    wait_for_older_copies<WIDE_STAGES - 2>();
                    __syncthreads(); /* the tap's weights are there, first of all the tile; the tap before is done */
                    ring.copy_next();
                    if (busy)
                        mine.multiply(list.offset[step], warp_weights + slot * WIDE_STEP);
                    slot = slot + 1 == WIDE_STAGES ? 0 : slot + 1;
                }
            }
        if (busy)
            mine.take(a.sink, positions, line_of_results(cut, positions, at, phase),
                      rows_at(table + lane_channel, WIDE_N), block_channel + lane_channel, sums);
    }
    wait_for_copies();
    if (a.sink.partial)
        write_sums<WIDE_N, true, WIDE_THREADS>(a.sink.partial, cut, share, phase, a.sink.y.cp, block_channel, sums,
                                               (float *)tile);
    if (a.tickets)
        finish_norm<WIDE_N, WIDE_THREADS>(a.norm, a.tickets + blockIdx.y, a.sink.partial,
                                          cut.most_blocks * gridDim.z, a.sink.y.cp, block_channel, (double *)tile);
}

#endif
