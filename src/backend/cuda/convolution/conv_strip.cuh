/* Convolution of wide layers on sm_90: what conv_wide.cuh computes, with products that take both operands from shared
 * memory (wgmma.cuh). A tile is pixels in a row and the pixels around them (conv_strip.h), 64 channels of each: a tap
 * is an operand that begins some rows later.
 *
 * What is not a product costs: the tensor cores wait for it. So nothing keeps all warps together from tap to tap. One
 * thread asks for the weights of a tap with one instruction, and the warps wait for them where they need them. Once a
 * stage all warps ask for the pixels of the next. Where these are in the map is listed in shared memory, once for all
 * chunks of a tile, and each once instead of once for every eight channels. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_CUH

#include "backend/cuda/convolution/conv_strip_sink.cuh"
#include "backend/cuda/convolution/conv_wide.cuh"
#include "backend/cuda/product/bulk.cuh"

template <typename Sink> struct strip_arguments {
    const bf16 *map; /* (n, source_h, source_w, source_c) */
    Sink sink;
    unsigned *tickets; /* as in gather_arguments */
    typename Sink::norm norm;
    bool hurries;
    const char *weights;
    const bf16 *beside; /* of the same shape as map, and its weights: see rc_cuda_plan_beside */
    const char *beside_weights;
    strip_cut cut;

    /* The map from the channels of a chunk on. */
    __device__ const bf16 *channels(int chunk) const
    {
        return chunk < cut.chunks ? map + chunk * STRIP_CHUNK : beside + (chunk - cut.chunks) * STRIP_CHUNK;
    }
};

/* A place in the row of a strip: image of the group, line, and column from the first position on. */
struct strip_place {
    int image, y, x;
};

__device__ inline strip_place place_in_row(const strip_row &row, int index)
{
    int line = quotient(index, row.by_columns), image = quotient(line, row.by_lines);
    strip_place place = {image, line - image * row.lines, index - line * row.columns - row.left};
    return place;
}

/* What a block does: tiles row, row + blocks, .. of a group's, for one phase of the result. */
struct strip_share : tile_share {
    int phase, blocks;

    __device__ strip_share(const strip_cut &cut, int block)
    {
        group = phase = 0;
        while (block >= cut.blocks[phase][group]) {
            block -= cut.blocks[phase][group++];
            phase += group == cut.groups.count;
            group = group == cut.groups.count ? 0 : group;
        }
        row = block;
        tiles = cut.group_tiles[group];
        blocks = cut.blocks[phase][group];
    }
};

/* The rows of `partial` that the blocks of a phase write, for write_block_sums. */
struct strip_sum_rows {
    group_view groups;
    const int *blocks;
    int most_blocks;
};

/* A tile: its strip, and its first position in the row. */
struct strip_tile {
    int x, first;

    __device__ strip_tile(const strip_cut &cut, int tile)
    {
        int number = quotient(tile, cut.by_strips);
        x = (tile - number * cut.strips) * cut.strip_w;
        first = number * STRIP_TEAMS * cut.width;
    }
};

/* The result of this thread's position, by its number in the map; -1: there is none. */
__device__ inline int result_of(const strip_cut &cut, int group, const strip_tile &tile, int phase)
{
    int position = threadIdx.x % STRIP_WIDTH;
    strip_place at = place_in_row(cut, tile.first + threadIdx.x / STRIP_WIDTH * cut.width + position);
    int image = group_begin(cut.groups, group) + at.image;
    int y = at.y * cut.out_step + phase / 2, x = (tile.x + at.x) * cut.out_step + phase % 2;
    bool exists = position < cut.width && image < cut.groups.end[group] && y < cut.out_h &&
                  (unsigned)at.x < (unsigned)cut.strip_w && x < cut.out_w;
    return exists ? (image * cut.out_h + y) * cut.out_w + x : -1;
}

/* Lists where the source pixels of a stage are in the map, in vectors of eight channels; -1: the map has none. */
__device__ inline void list_pixels(const strip_cut &cut, int group, const wide_stage &stage, int *list)
{
    strip_tile tile(cut, stage.tile);
    int first = tile.first - cut.columns - 1, step = cut.source_step;
    int part_y = cut.parts.y[stage.part], part_x = tile.x * step + cut.parts.x[stage.part];
    int image_0 = group_begin(cut.groups, group), images = cut.groups.end[group] - image_0;
#pragma unroll 1
    for (int i = threadIdx.x; i < cut.pixels; i += STRIP_THREADS) {
        int index = first + i;
        strip_place at = place_in_row(cut, index > 0 ? index : 0);
        int y = at.y * step + part_y, x = at.x * step + part_x;
        bool exists = index >= 0 && at.image < images && y < cut.source_h && (unsigned)x < (unsigned)cut.source_w;
        int pixel = ((image_0 + at.image) * cut.source_h + y) * cut.source_w + x;
        list[i] = exists ? pixel * (cut.source_c / 8) : -1;
    }
}

/* Starts to copy the pixels of a list, zeros where there is none. map: from the channels of the stage on. A thread has
 * eight channels of four neighbouring rows at a time, the first of which is at a multiple of four rows. */
__device__ inline void copy_strip(const bf16 *map, const strip_cut &cut, const int *list, unsigned to)
{
    constexpr int VECTORS = STRIP_CHUNK / 8, STEP = STRIP_THREADS / VECTORS * 4;
    int vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS * 4;
    const uint4 *from = (const uint4 *)map + vector;
    to += row * WGMMA_ROW;
    to += (vector ^ to / WGMMA_ROW % 8) * 16;
#pragma unroll 1
    do {
        uint4 four = *(const uint4 *)(list + row);
        const int at[4] = {(int)four.x, (int)four.y, (int)four.z, (int)four.w};
#pragma unroll
        for (int j = 0; j < 4; j++)
            copy16_async_if(at[j], (to ^ j * 16) + j * WGMMA_ROW, from + (unsigned)(at[j] > 0 ? at[j] : 0));
        row += STEP;
        to += STEP * WGMMA_ROW;
    } while (row < cut.pixels);
}

/* The weights of taps, one after the other and round again, on their way through a ring in shared memory. Each of its
 * slots has two barriers. There is one phase of both for each tap that lies in the slot: the weights have arrived; and
 * all warps have begun to multiply the tap, and have done with those before. */
struct strip_ring {
    unsigned ring, barriers;
    const char *from;
    const char *const &beside;  /* of the chunks that the map beside has, and a single tap, */
    const int &own;             /* which come after those of the map */
    const unsigned char *order; /* in which the taps of a chunk are used */
    int chunks, steps;
    int chunk, step; /* to be copied next */
    int slot;        /* of the tap that is multiplied, */
    unsigned parity; /* and of its phases */

    __device__ unsigned long long weights() const
    {
        return operand_after(operand_at(ring), slot * STRIP_STEP);
    }

    __device__ unsigned arrived(int place) const
    {
        return barriers + place * BULK_BARRIER;
    }

    __device__ unsigned reached(int place) const
    {
        return barriers + (STRIP_STAGES + place) * BULK_BARRIER;
    }

    /* One warp opens the barriers, and asks for all but the last slot. */
    __device__ void begin()
    {
        if (threadIdx.x % 32 == 0)
            open();
        for (int i = 0; i < STRIP_STAGES - 1 && steps > 0; i++)
            copy_next(i);
    }

    __device__ void open() const
    {
        for (int i = 0; i < STRIP_STAGES; i++) {
            open_barrier(arrived(i), 1);
            open_barrier(reached(i), STRIP_WARPS);
        }
        show_barriers();
    }

    __device__ void copy_next(int to)
    {
        const char *next = chunk < own ? from + (size_t)(chunk * steps + order[step]) * STRIP_STEP
                                       : beside + (size_t)(blockIdx.y * own + chunk - own) * STRIP_STEP;
        if (threadIdx.x % 32 == 0)
            copy_bulk(ring + to * STRIP_STEP, next, STRIP_STEP, arrived(to));
        if (++step == steps) {
            step = 0;
            chunk = chunk + 1 == chunks ? 0 : chunk + 1;
        }
    }

    __device__ void wait_for_weights() const
    {
        wait_for_phase(arrived(slot), parity);
    }

    /* A warp calls it when its products of the taps before are done. */
    __device__ void reach() const
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            arrive_at_barrier(reached(slot));
    }

    __device__ void wait_for_warps() const
    {
        wait_for_phase(reached(slot), parity);
    }

    /* Into the slot of the tap before: one warp, after all have reached this one. */
    __device__ void refill()
    {
        copy_next(slot == 0 ? STRIP_STAGES - 1 : slot - 1);
    }

    __device__ void go_on()
    {
        slot = slot + 1 == STRIP_STAGES ? 0 : slot + 1;
        parity ^= slot == 0;
    }

    /* Nothing may be on its way when the block ends. */
    __device__ void end()
    {
        for (int i = 0; i < STRIP_STAGES - 1 && steps > 0; i++, go_on())
            wait_for_weights();
    }
};

/* Asks for what the sink will read of 64 channels of a pixel, a line of each map: it need not wait for memory then. */
__device__ inline void ask_for_pixel(const forward_sink &sink, int pixel, int channel)
{
    const tensor_view<bf16> &y = sink.y;
    if (pixel >= 0 && (sink.apply || sink.value) && y.skip && y.skip_stride == 1 && y.skip_cp == y.cp)
        prefetch_line(y.skip + (unsigned)(pixel * y.cp + channel));
}

__device__ inline void ask_for_pixel(const gradient_sink &sink, int pixel, int channel)
{
    const tensor_view<bf16> &y = sink.y;
    unsigned at = (unsigned)(pixel * y.cp + channel);
    if (pixel < 0)
        return;
    if (sink.addend)
        prefetch_line(sink.addend + at);
    if (sink.partial || sink.draw)
        prefetch_line(y.raw + at);
    if (sink.partial && sink.slopes && y.stored)
        prefetch_line(y.stored + at);
}

/* The sums of four warps: 64 channels by WIDTH positions. Rows of the products are channels, so that few channels make
 * a product as wide as many do. */
template <int WIDTH, typename Sink> struct strip_products {
    float sum[WIDTH / 2];

    __device__ static int first_position()
    {
        return threadIdx.x / 128 * WIDTH;
    }

    __device__ void begin(const float *bias)
    {
        float low = Sink::BACKWARD ? 0 : bias[lane_channel()];
        float high = Sink::BACKWARD ? 0 : bias[lane_channel() + 8];
#pragma unroll
        for (int j = 0; j < WIDTH / 2; j++)
            sum[j] = j % 4 < 2 ? low : high;
    }

    /* All channels of the chunk at one tap. */
    __device__ void multiply(unsigned long long weights, unsigned long long pixels)
    {
        fence_sums();
#pragma unroll
        for (int product = 0; product < STRIP_CHUNK / 16; product++)
            multiply_rows(sum, operand_after(weights, product * 32), operand_after(pixels, product * 32));
        close_products();
    }
};

/* Adds the sums of the lanes that have the same channels, and leaves those of each four warps, (2, STRIP_N). */
__device__ inline void share_sums(strip_sums &mine, int channel, float *to)
{
    float all[4] = {mine.first[0], mine.first[1], mine.second[0], mine.second[1]};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        all[i] += __shfl_xor_sync(0xffffffffu, all[i], 1);
        all[i] += __shfl_xor_sync(0xffffffffu, all[i], 2);
        if (threadIdx.x % 4 == 0)
            to[i / 2 * STRIP_N + channel + i % 2 * 8] = all[i];
    }
}

/* The tiles of a block. */
template <int WIDTH, typename Sink> __device__ inline void multiply_tiles(const strip_arguments<Sink> &a)
{
    constexpr int N = STRIP_N;
    const strip_cut &cut = a.cut;
    const wide_parts &list = cut.parts;
    char *shared = operand_memory(), *tiles = shared + STRIP_STAGES * STRIP_STEP;
    float *table = (float *)(tiles + 2 * cut.tile_bytes);
    strip_places *places = (strip_places *)(table + SINK_ROWS * N);
    char *barriers = (char *)(places + 2);
    int *pixels = (int *)(barriers + 2 * STRIP_STAGES * BULK_BARRIER);
    int block_channel = blockIdx.y * N, warp = same_in_warp(threadIdx.x / 32);
    strip_share share(cut, blockIdx.x);
    int phase = share.phase;
    bool divided = cut.source_step == 2; /* otherwise parts are phases of the result */
    wide_stages stages = {share.blocks, cut.phase_chunks[phase], divided ? 0 : phase, divided ? list.count : phase + 1};
    int first_step = list.first_step[stages.first_part];

    strip_ring ring = {shared_address(shared),
                       shared_address(barriers),
                       a.weights + (size_t)(blockIdx.y * list.all_steps + first_step) * cut.chunks * STRIP_STEP,
                       a.beside_weights,
                       cut.chunks,
                       list.order + first_step,
                       stages.chunks,
                       divided ? list.all_steps : list.steps[phase],
                       0,
                       0,
                       0,
                       0};
    /* Weights are older than the kernel before: they travel while that one ends. A phase without taps has none, and
     * needs no pixels. */
    if (warp == 0)
        ring.begin();
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    make_table<STRIP_THREADS>(a.sink, share.group, block_channel, N, table);
    strip_products<WIDTH, Sink> mine;
    strip_sums sums = {};
    unsigned tile_address = shared_address(tiles);
    wide_stage stage = {share.row, 0, stages.first_part, 0};
    int turn = 0;
    if (stage.tile < share.tiles)
        list_pixels(cut, share.group, stage, pixels);
    __syncthreads();
    if (stage.tile < share.tiles && ring.steps > 0)
        copy_strip(a.map, cut, pixels, tile_address);
    while (stage.tile < share.tiles) {
        int place = result_of(cut, share.group, strip_tile(cut, stage.tile), phase);
        list_place(place, places[turn]);
        ask_for_pixel(a.sink, place, block_channel);
        mine.begin(table + ROW_BIAS * N);
        for (bool ends = false; !ends; stage = stages.after(stage)) {
            wide_stage next = stages.after(stage);
            int first = list.first_step[stage.part], end = first + list.steps[stage.part];
            ends = stages.ends_tile(stage);
            unsigned long long tile = operand_at(tile_address + stage.buffer * cut.tile_bytes +
                                                 same_in_warp(mine.first_position()) * WGMMA_ROW);
            wait_for_copies();
            show_products();
            __syncthreads(); /* the pixels are there, and nobody reads the list any more */
            for (int step = first; step < end; step++) {
                bool sends = step == first && next.tile < share.tiles;
                ring.wait_for_weights();
                mine.multiply(ring.weights(), operand_after(tile, list.offset[step]));
                if (sends && (next.tile != stage.tile || next.part != stage.part))
                    list_pixels(cut, share.group, next, pixels);
                wait_for_products<1>();
                ring.reach();
                if (sends || warp == 0)
                    ring.wait_for_warps(); /* nobody reads the weights of the tap before any more, nor its pixels */
                if (warp == 0)
                    ring.refill();
                if (sends)
                    copy_strip(a.channels(next.chunk), cut, pixels, tile_address + next.buffer * cut.tile_bytes);
                ring.go_on();
            }
        }
        wait_for_products<0>();
        take_sums(mine.sum);
        __syncthreads(); /* nobody reads the last stage's pixels any more: results take their place */
        strip_space<WIDTH> space(tile_address + (stage.buffer ^ 1) * cut.tile_bytes, places[turn]);
        take_results(a.sink, mine.sum, space, table + lane_channel(), block_channel, sums);
        turn ^= 1; /* others may still read the places of this tile */
    }
    ring.end();
    if (a.sink.partial) {
        __syncthreads(); /* nobody reads the tiles any more: sums, (groups of four warps, 2, N), take their place */
        share_sums(sums, lane_channel(), (float *)tiles + threadIdx.x / 128 * 2 * N);
        __syncthreads();
        strip_sum_rows rows = {cut.groups, cut.blocks[phase], cut.most_blocks[phase]};
        write_block_sums<N>(a.sink.partial, rows, share, cut.rows, cut.rows_before[phase] + share.row, a.sink.y.cp,
                            block_channel, STRIP_THREADS / 128, (const float *)tiles);
    }
    if (a.tickets)
        finish_norm<N, STRIP_THREADS>(a.norm, a.tickets + blockIdx.y, a.sink.partial, cut.rows, a.sink.y.cp,
                                      block_channel, (double *)tiles);
}

/* Grid: (blocks of all phases and groups, tiles of channels). */
template <typename Sink>
__global__ void __launch_bounds__(STRIP_THREADS, STRIP_BLOCKS)
    strip_kernel(const __grid_constant__ strip_arguments<Sink> a)
{
    switch (a.cut.width) {
    case STRIP_WIDTH: multiply_tiles<STRIP_WIDTH>(a); break;
    case 112: multiply_tiles<112>(a); break;
    case 96: multiply_tiles<96>(a); break;
    default: multiply_tiles<80>(a); break;
    }
}

#endif
