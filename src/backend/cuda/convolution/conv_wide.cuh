/* Convolution of wide layers, 64 channels and more: the sinks of conv_sink.cuh behind another loop, which reads a
 * plain map (conv_plain.h). What it is about is the traffic between memories, which a multiprocessor with 1400
 * multiply-adds a clock does not see if
 * - a warp has 112 positions x 32 channels of sums: 4.5 kB of operands from shared memory for 57 thousand products;
 * - a block of four warps has 224 positions x 64 channels: whole rows of maps that are 14, 28 or 56 wide, half ones
 *   of 112; or 256, maps of 8, 16, 32 or 64; or 128, where these are too few;
 * - the weights of a tap travel (cp.async) while those of the taps before are used, and so does the next tile, the same
 *   pixels in the next 32 channels, or other pixels;
 * - there are two blocks on a multiprocessor, each of which multiplies while the other stores.
 *
 * A source that is read at every second pixel (stride 2, and the gradient of an enlarged map) is taken in parts, one
 * for each of its phases along both axes: a part is a map of its own with the taps that fall on it, read without
 * gaps. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_WIDE_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_WIDE_CUH

#include "backend/cuda/convolution/conv_gather.cuh"
#include "backend/cuda/convolution/conv_wide.h"

template <typename Sink> struct wide_arguments {
    const bf16 *map; /* (n, source_h, source_w, source_c) */
    Sink sink;
    unsigned *tickets; /* as in gather_arguments */
    typename Sink::norm norm;
    bool hurries;
    const char *weights;
    wide_cut wide;
};

/* The weights of taps, STEP bytes each, one after the other and round again, on their way through a ring of STAGES of
 * them in shared memory. */
template <int THREADS, int STAGES, int STEP> struct weight_ring {
    unsigned ring;
    const char *from;
    const unsigned char *order; /* in which the taps of a chunk are used */
    int chunks, steps, chunk, step, slot;

    __device__ void copy_next()
    {
        const char *next = from + (size_t)(chunk * steps + order[step]) * STEP;
        unsigned to = ring + slot * STEP;
#pragma unroll
        for (int i = 0; i < STEP / (THREADS * 16); i++) {
            int at = (i * THREADS + threadIdx.x) * 16;
            copy16_async(to + at, next + at);
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        if (++step == steps) {
            step = 0;
            chunk = chunk + 1 == chunks ? 0 : chunk + 1;
        }
    }
};

/* The positions of a warp. */
template <int TILES_M, typename Sink> struct wide_warp {
    unsigned row_address[TILES_M];
    float sum[TILES_M][4][4];

    __device__ static int first_position()
    {
        return threadIdx.x / 32 / (WIDE_N / WIDE_CHANNELS) * TILES_M * 16;
    }

    __device__ void begin(const tile_cut &cut, const rectangle &positions, unsigned tile, const float *bias)
    {
        int lane = threadIdx.x % 32;
        line sources = scaled(line_of_sources(cut, positions), pixel_pitch(WIDE_CHUNK), lane / 16 * 16);
#pragma unroll
        for (int i = 0; i < TILES_M; i++) {
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
            for (int i = 0; i < TILES_M; i++) {
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
        for (int i = 0; i < TILES_M; i++) {
            typename Sink::ahead ahead[2];
            float8 v[2];
            int pixel[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                pixel[half] = pixel_of(positions, results, i, half);
#pragma unroll
                for (int k = 0; k < 8; k++)
                    v[half].v[k] = sum[i][k / 2][half * 2 + k % 2];
            }
            sink.fetch(ahead, pixel, channel);
            sink.take(v, ahead, rows, pixel, channel, sums);
        }
    }
};

/* What is multiplied at once: a tile in some channels and one part of the source, which is in one of two buffers. */
struct wide_stage {
    int tile, chunk, part, buffer;
};

/* Where a block's stages begin and end. */
struct wide_stages {
    int step, chunks, first_part, end_part; /* step: from a tile to the next */

    __device__ bool begins_tile(const wide_stage &s) const
    {
        return s.chunk == 0 && s.part == first_part;
    }

    __device__ bool ends_tile(const wide_stage &s) const
    {
        return s.chunk == chunks - 1 && s.part == end_part - 1;
    }

    __device__ wide_stage after(wide_stage s) const
    {
        s.buffer ^= 1;
        if (++s.part < end_part)
            return s;
        s.part = first_part;
        if (++s.chunk < chunks)
            return s;
        s.chunk = 0;
        s.tile += step;
        return s;
    }
};

/* Starts to copy the source pixels of a stage, zeros where the map has none. */
__device__ inline void copy_tile(const bf16 *map, const wide_cut &wide, int group, const wide_stage &stage, unsigned to)
{
    constexpr int VECTORS = WIDE_CHUNK / 8, STEP = WIDE_THREADS / VECTORS, PITCH = pixel_pitch(WIDE_CHUNK);
    const tile_cut &cut = wide.cut;
    tile_place at = place_of_tile(cut, group, stage.tile);
    int step = wide.source_step, phase_y = wide.parts.y[stage.part], phase_x = wide.parts.x[stage.part];
    int height = step == 2 ? (wide.source_h - phase_y + 1) >> 1 : wide.source_h; /* of the part, in pixels */
    int width = step == 2 ? (wide.source_w - phase_x + 1) >> 1 : wide.source_w;
    int y = at.base_y + cut.low, x = at.base_x + cut.low, vector = threadIdx.x % VECTORS;
    rectangle whole = make_rectangle(at.images, cut.rows, cut.columns, cut.by_rows, cut.by_columns);
    line pixels = line_of_map(whole, at.image, y * step + phase_y, x * step + phase_x, step, wide.source_h,
                              wide.source_w);
    pixels = scaled(pixels, wide.source_c, stage.chunk * WIDE_CHUNK + vector * 8);
    to += vector * 16;
    for (int i = threadIdx.x / VECTORS; i < whole.count; i += STEP) {
        element e = element_of(whole, i);
        int row = y + e.row - e.image * whole.height, column = x + i - e.row * whole.width;
        bool exists = (unsigned)row < (unsigned)height && (unsigned)column < (unsigned)width;
        copy16_async_part(to + i * PITCH, exists ? map + (unsigned)place_on(pixels, e) : map, exists ? 16 : 0);
    }
}

/* Grid: (blocks of all groups, tiles of channels, phases of the result). */
template <int TILES_M, typename Sink>
__global__ void __launch_bounds__(WIDE_THREADS, 2) wide_kernel(const __grid_constant__ wide_arguments<Sink> a)
{
    constexpr int WARPS_N = WIDE_N / WIDE_CHANNELS;
    const tile_cut &cut = a.wide.cut;
    const wide_parts &list = a.wide.parts;
    char *shared = dynamic_shared(), *tiles = shared + WIDE_STAGES * WIDE_STEP;
    float *table = (float *)(tiles + 2 * a.wide.tile_bytes);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, phase = blockIdx.z;
    int lane_channel = warp % WARPS_N * WIDE_CHANNELS + lane % 4 * 8, block_channel = blockIdx.y * WIDE_N;
    tile_share share = share_of_block(cut, blockIdx.x);
    bool divided = a.wide.source_step == 2; /* otherwise parts are phases of the result */
    wide_stages stages = {cut.blocks[share.group], a.wide.chunks, divided ? 0 : phase,
                          divided ? list.count : phase + 1};
    int first_step = list.first_step[stages.first_part];

    weight_ring<WIDE_THREADS, WIDE_STAGES, WIDE_STEP> ring = {
        shared_address(shared),
        a.weights + (size_t)(blockIdx.y * list.all_steps + first_step) * a.wide.chunks * WIDE_STEP,
        list.order + first_step,
        a.wide.chunks,
        divided ? list.all_steps : list.steps[phase],
        0,
        0,
        0};
    /* Weights are older than the kernel before: they travel while that one ends. */
    for (int i = 0; i < WIDE_STAGES - 1 && ring.steps > 0; i++) {
        ring.copy_next();
        close_copies();
    }
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    make_table<WIDE_THREADS>(a.sink, share.group, block_channel, WIDE_N, table);
    __syncthreads();

    int slot = 0, steps_before = 0;
    sink_sums sums = {};
    wide_warp<TILES_M, Sink> mine;
    rectangle positions = {};
    unsigned tile_address = shared_address(tiles);
    unsigned warp_weights = shared_address(shared) + warp % WARPS_N * (WIDE_CHANNELS * 32) + lane * 16;
    wide_stage stage = {share.row, 0, stages.first_part, 0};
    if (stage.tile < share.tiles && ring.steps > 0)
        copy_tile(a.map, a.wide, share.group, stage, tile_address);
    close_copies();
    while (stage.tile < share.tiles) {
        wide_stage next = stages.after(stage);
        if (stages.begins_tile(stage)) {
            positions = positions_of(cut, place_of_tile(cut, share.group, stage.tile), phase);
            mine.begin(cut, positions, tile_address, table + ROW_BIAS * WIDE_N + lane_channel);
        }
        bool busy = mine.first_position() < positions.count;
        int first = list.first_step[stage.part], end = first + list.steps[stage.part];
        for (int step = first; step < end; step++) {
            if (step == first && steps_before < WIDE_STAGES - 1)
                wait_for_copies(); /* the tile has been asked for after some of the weights */
            else
                wait_for_older_copies<WIDE_STAGES - 2>();
            __syncthreads(); /* the tap's weights are there, and the tile; the tap before is done */
            ring.copy_next();
            if (step == first && next.tile < share.tiles)
                copy_tile(a.map, a.wide, share.group, next, tile_address + next.buffer * a.wide.tile_bytes);
            close_copies();
            if (busy)
                mine.multiply(list.offset[step] + stage.buffer * a.wide.tile_bytes, warp_weights + slot * WIDE_STEP);
            slot = slot + 1 == WIDE_STAGES ? 0 : slot + 1;
        }
        if (busy && stages.ends_tile(stage))
            mine.take(a.sink, positions,
                      line_of_results(cut, positions, place_of_tile(cut, share.group, stage.tile), phase),
                      rows_at(table + lane_channel, WIDE_N), block_channel + lane_channel, sums);
        steps_before = list.steps[stage.part];
        stage = next;
    }
    wait_for_copies();
    if (a.sink.partial)
        write_sums<WIDE_N, true, WIDE_THREADS>(a.sink.partial, cut, share, phase, a.sink.y.cp, block_channel, sums,
                                               (float *)tiles);
    if (a.tickets)
        finish_norm<WIDE_N, WIDE_THREADS>(a.norm, a.tickets + blockIdx.y, a.sink.partial, cut.most_blocks * gridDim.z,
                                          a.sink.y.cp, block_channel, (double *)tiles);
}

#endif
