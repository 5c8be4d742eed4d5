/* Convolution on the tensor cores: forward and data gradient are one kernel with two sources and two sinks.
 *
 * A block loads the source pixels of a tile once (conv_tile.cuh), with everything pending applied. A warp then computes
 * products of (16 positions of the tile) x (16 channels at a tap) with (16 channels) x (8 result channels): shifting by
 * a tap is adding a constant to the addresses that ldmatrix reads. Weights come packed in the order of the operands
 * (pack.h), result channels permuted so that the sums of one thread are neighbouring channels of a pixel and go to
 * memory as one vector.
 *
 * With C source channels at once (C = 8: two taps share a product) a block either holds the weights of all taps and
 * phases (one chunk), or walks over chunks of C channels and has one phase per block (CHUNKED). */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_GATHER_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_GATHER_CUH

#include "backend/cuda/convolution/conv_sink.cuh"
#include "backend/cuda/convolution/conv_tile.cuh"
#include "backend/cuda/convolution/pack.h"

/* How the warps of a block share a tile: N result channels of the block. Lane 4 g + t has VECTOR neighbouring channels,
 * the t-th of the warp's, at positions g and g + 8 of every sixteen: results go to the map as they leave products. */
template <int N, bool CHUNKED> struct warp_shape {
    static constexpr int CHANNELS = N < 32 ? N : 32; /* result channels of a warp */
    static constexpr int TILES_N = CHANNELS / 8;
    static constexpr int WARPS_N = N / CHANNELS, WARPS_M = CONV_WARPS / WARPS_N;
    static constexpr int TILES_M = 2;
    static constexpr int POSITIONS = TILES_M * 16; /* of a warp */
    static constexpr int VECTOR = CHANNELS / 4;
    typedef float sums[TILES_M][TILES_N][4];
};

template <typename Source, typename Sink> struct gather_arguments {
    tile_cut cut;
    Source source;
    Sink sink;
    unsigned *tickets; /* one for each tile of channels; NULL: the sums are all that is asked for */
    typename Sink::norm norm;
    bool hurries; /* the next kernel may begin at once: it is on the main lane, and keeps no other from the device */
    const char *weights;
    int chunks;
    int tile_bytes, weight_bytes; /* of shared memory */
    int steps[4], first_step[4];  /* of each phase: products along the taps */
    int all_steps;
    int offset[CONV_TAPS + 4]; /* of each tap (C = 8: of both taps of a step) in the tile, in bytes */
    int square_row;            /* 3 x 3 taps beside each other: bytes from one row of them to the next; else 0 */
};

/* What one product of a warp's tiles takes. */
template <int N, bool CHUNKED> struct operands {
    using shape = warp_shape<N, CHUNKED>;
    unsigned a[shape::TILES_M][4], b[shape::TILES_N][2];

    __device__ void load(const unsigned *row_address, int offset, unsigned weights)
    {
#pragma unroll
        for (int i = 0; i < shape::TILES_M; i++)
            load_matrices(a[i], row_address[i] + offset);
        if (shape::TILES_N == 1) {
            load_shared8(b[0], weights);
        } else {
#pragma unroll
            for (int j = 0; j < shape::TILES_N; j += 2)
                load_shared16(b[j], weights + j * 256); /* two operands */
        }
    }

    __device__ void multiply(float (&sum)[shape::TILES_M][shape::TILES_N][4]) const
    {
#pragma unroll
        for (int i = 0; i < shape::TILES_M; i++)
#pragma unroll
            for (int j = 0; j < shape::TILES_N; j++)
                multiply_add(sum[i][j], a[i], b[j]);
    }
};

/* Adds all taps of a phase. Several warps share a tensor core, which hides the wait for the operands. */
template <int C, int N, bool CHUNKED>
__device__ inline void add_taps(typename warp_shape<N, CHUNKED>::sums &sum, const unsigned *row_address,
                                const int *offset, int steps, unsigned weights)
{
    constexpr int PRODUCTS = C < 16 ? 1 : C / 16, WIDE = C == 8 ? 2 : 1;
    int odd = C == 8 ? threadIdx.x % 32 / 16 : 0; /* half of the rows are the second tap's */
    int next = offset[odd];
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        int at = next;
        next = offset[(step + 1) * WIDE + odd]; /* under way while this one is used; past the last it is not used */
#pragma unroll
        for (int product = 0; product < PRODUCTS; product++) {
            operands<N, CHUNKED> now;
            now.load(row_address, at + product * 32, weights);
            now.multiply(sum);
            weights += N * 32;
        }
    }
}

/* The same for 3 x 3 taps beside each other: most addresses are constants. */
template <int C, int N, bool CHUNKED>
__device__ inline void add_square(typename warp_shape<N, CHUNKED>::sums &sum, const unsigned *row_address,
                                  int row_bytes, unsigned weights)
{
    constexpr int PRODUCTS = C / 16;
#pragma unroll(PRODUCTS < 4 ? 3 : 1)
    for (int row = 0; row < 3; row++) {
#pragma unroll
        for (int column = 0; column < 3; column++)
#pragma unroll
            for (int product = 0; product < PRODUCTS; product++) {
                operands<N, CHUNKED> now;
                now.load(row_address, row * row_bytes + column * pixel_pitch(C) + product * 32, weights);
                now.multiply(sum);
                weights += N * 32;
            }
    }
}

/* Copies one chunk, or the whole, of the packed weights. */
__device__ inline void copy_weights(unsigned to, const char *from, int bytes)
{
    for (int i = threadIdx.x * 16; i < bytes; i += CONV_THREADS * 16)
        copy16_async(to + i, from + i);
}

/* What a warp does with some positions of one phase of a tile. */
template <int N, bool CHUNKED, typename Sink> struct warp_positions {
    using shape = warp_shape<N, CHUNKED>;
    static constexpr int V = shape::VECTOR, ROUNDS = shape::TILES_M * 2;

    unsigned row_address[shape::TILES_M];
    int pixel[ROUNDS]; /* of the result; -1: none */
    typename Sink::template ahead_of<V> ahead[ROUNDS];
    float sum[shape::TILES_M][shape::TILES_N][4];

    template <int C>
    __device__ void locate(const tile_cut &cut, const rectangle &positions, const line &results, unsigned tile,
                           int first)
    {
        int lane = threadIdx.x % 32;
        line sources = scaled(line_of_sources(cut, positions), pixel_pitch(C), C == 8 ? 0 : lane / 16 * 16);
#pragma unroll
        for (int i = 0; i < shape::TILES_M; i++) {
            int index = first + i * 16 + lane % 16;
            row_address[i] = tile + place_on(sources, element_of(positions, index < positions.count ? index : 0));
        }
        first += lane / 4;
        if (results.row_extra == 0 && (!positions.several || results.image_extra == 0)) {
            /* Tiles as wide as the map need no rows. */
#pragma unroll
            for (int i = 0; i < ROUNDS; i++)
                pixel[i] = results.base + (first + i * 8) * results.step;
        } else {
#pragma unroll
            for (int i = 0; i < ROUNDS; i++)
                pixel[i] = place_on(results, element_of(positions, first + i * 8));
        }
#pragma unroll
        for (int i = 0; i < ROUNDS; i++)
            if (first + i * 8 >= positions.count)
                pixel[i] = -1;
    }

    __device__ void begin(const float *bias)
    {
#pragma unroll
        for (int i = 0; i < shape::TILES_M; i++)
#pragma unroll
            for (int j = 0; j < shape::TILES_N; j++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    sum[i][j][k] = Sink::BACKWARD ? 0 : bias[2 * j + k % 2];
    }

    __device__ void fetch(const Sink &sink, int channel)
    {
        sink.fetch(ahead, pixel, channel);
    }

    __device__ void take(const Sink &sink, const float *table, int channel, lane_sums<V> &sums) const
    {
        floats<V> v[ROUNDS];
#pragma unroll
        for (int i = 0; i < ROUNDS; i++)
#pragma unroll
            for (int k = 0; k < V; k++)
                v[i].v[k] = sum[i / 2][k / 2][i % 2 * 2 + k % 2];
        sink.take(v, ahead, rows_at<V>(table, N), pixel, channel, sums);
    }
};

/* Adds the sums of `count` warps, (count, 2, N), and writes the block's row of `partial`, which has so many rows.
 * Whoever has the row also clears it for groups that have fewer blocks. */
template <int N, typename Cut>
__device__ inline void write_block_sums(void *partial, const Cut &cut, tile_share share, int rows, int row, int cp,
                                        int channel, int count, const float *sums)
{
    if (threadIdx.x < 2 * N) {
        int i = threadIdx.x, at = i / N * cp + channel + i % N;
        float sum = 0;
        for (int w = 0; w < count; w++)
            sum += sums[w * 2 * N + i];
        partial_row(partial, row, cut.groups.count, share.group, cp)[at] = sum;
        for (int g = 0; g < cut.groups.count; g++)
            if (share.row >= cut.blocks[g] && cut.blocks[share.group] == cut.most_blocks)
                partial_row(partial, row, cut.groups.count, g, cp)[at] = 0;
    }
    if (row == 0 && blockIdx.y == 0 && share.group == 0 && threadIdx.x == 0)
        ((partial_header *)partial)->rows = rows;
}

/* Adds the sums of all threads and writes the block's row of `partial`. */
template <int N, bool CHUNKED, int THREADS = CONV_THREADS>
__device__ inline void write_sums(void *partial, const tile_cut &cut, tile_share share, int phase, int cp, int channel,
                                  lane_sums<warp_shape<N, CHUNKED>::VECTOR> &sums, float *space)
{
    using shape = warp_shape<N, CHUNKED>;
    constexpr int V = shape::VECTOR, WARPS_M = THREADS / 32 / shape::WARPS_N;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int rows = cut.most_blocks * (CHUNKED ? gridDim.z : 1), row = share.row * (CHUNKED ? gridDim.z : 1) + phase;
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
#pragma unroll
        for (int i = 0; i < V; i++) {
            sums.first.v[i] += __shfl_xor_sync(0xffffffffu, sums.first.v[i], step);
            sums.second.v[i] += __shfl_xor_sync(0xffffffffu, sums.second.v[i], step);
        }
    __syncthreads(); /* the space was the tile */
    if (lane < 4) {
        float *mine = space + warp / shape::WARPS_N * 2 * N + warp % shape::WARPS_N * shape::CHANNELS + lane * V;
#pragma unroll
        for (int i = 0; i < V; i++) {
            mine[i] = sums.first.v[i];
            mine[N + i] = sums.second.v[i];
        }
    }
    __syncthreads();
    write_block_sums<N>(partial, cut, share, rows, row, cp, channel, WARPS_M, space);
}

enum { FINISH_NORM_BYTES = 12 * 1024 /* four doubles of each thread, and two of each channel and group */ };

/* The block of a tile of channels that finishes last adds the rows of all of them, in order, and does the normalisation
 * that they were taken for. Everybody waits for it, so all groups are on their way at once, in as many loads as there
 * are registers for. `space` has FINISH_NORM_BYTES. */
template <int N, int THREADS = CONV_THREADS, typename Norm>
__device__ inline void finish_norm(const Norm &norm, unsigned *ticket, const void *partial, int rows, int cp,
                                   int first_channel, double *space)
{
    constexpr int AT_ONCE = 16;
    bool *flag = (bool *)space; /* a kernel that may have all the shared memory there is can have none of its own */
    unsigned blocks = gridDim.x * gridDim.z;
    int groups = norm.shape.groups.count, columns = groups * 2 * N, channel = first_channel + (int)threadIdx.x % N;
    /* A thread: four neighbouring sums of every lanes-th row. */
    int vectors = columns / 4, lanes = THREADS / vectors, lane = threadIdx.x / vectors;
    int column = (threadIdx.x - lane * vectors) * 4, group = column / (2 * N), in_group = column % (2 * N);
    int at = in_group < N ? first_channel + in_group : cp + first_channel + in_group - N;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        *flag = atomicInc(ticket, blocks - 1) == blocks - 1;
    __syncthreads();
    if (!*flag)
        return;
    start_kernel_after(); /* not sooner: its many blocks would wait where other lanes could work */
    __threadfence();
    typename Norm::known known = norm.know(channel);
    double four[4] = {};
    for (int first = lane; first < rows && lane < lanes; first += AT_ONCE * lanes) {
        float4 v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int row = first + i * lanes;
            v[i] = make_float4(0, 0, 0, 0);
            if (row < rows) /* not from a cache that other blocks did not write to */
                v[i] = __ldcg((const float4 *)(partial_row(partial, row, groups, group, cp) + at));
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            four[0] += (double)v[i].x;
            four[1] += (double)v[i].y;
            four[2] += (double)v[i].z;
            four[3] += (double)v[i].w;
        }
    }
    __syncthreads(); /* everybody has read the flag */
    for (int i = 0; i < 4 && lane < lanes; i++)
        space[lane * columns + column + i] = four[i];
    __syncthreads();
    double *sums = space + lanes * columns; /* (groups, 2, N) */
    for (int i = threadIdx.x; i < columns; i += THREADS) {
        double sum = 0;
#pragma unroll 8
        for (int l = 0; l < lanes; l++)
            sum += space[l * columns + i];
        sums[i] = sum;
    }
    __syncthreads();
    if (threadIdx.x < N)
        norm.finish(channel, known, sums + threadIdx.x, 2 * N, N);
}

template <int C, int N, bool CHUNKED, typename Source, typename Sink>
__global__ void __launch_bounds__(CONV_THREADS, 2)
    gather_kernel(const __grid_constant__ gather_arguments<Source, Sink> a)
{
    using shape = warp_shape<N, CHUNKED>;
    constexpr int MOST = !CHUNKED ? 8 : Source::LOADS == 1 ? 4 : 2; /* with chunks, sums are in registers already */
    constexpr int STEP = N * 32 * (C < 16 ? 1 : C / 16);            /* bytes of packed weights */
    char *shared = dynamic_shared();
    char *tile = shared + a.weight_bytes;
    float *table = (float *)(tile + a.tile_bytes), *source_table = table + SINK_ROWS * N;
    unsigned weights = shared_address(shared);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, phase = CHUNKED ? blockIdx.z : 0;
    int warp_channel = warp % shape::WARPS_N * shape::CHANNELS, block_channel = blockIdx.y * N; /* the first */
    int lane_channel = warp_channel + lane % 4 * shape::VECTOR, channel = block_channel + lane_channel;
    const float *bias = table + ROW_BIAS * N + lane_channel;
    unsigned warp_weights = weights + warp % shape::WARPS_N * (shape::CHANNELS * 32) + lane * (N == 8 ? 8 : 16);
    const char *packed_weights = a.weights + (size_t)(blockIdx.y * a.all_steps + a.first_step[phase]) * a.chunks * STEP;
    int weight_bytes = (CHUNKED ? a.steps[phase] : a.all_steps) * STEP;
    tile_share share = share_of_block(a.cut, blockIdx.x);

    /* Weights are older than the kernel before: they travel while that one ends. */
    copy_weights(weights, packed_weights, weight_bytes);
    clear_tile(tile, a.tile_bytes);
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    make_table(a.source, share.group, 0, a.source.channels(), source_table);
    make_table(a.sink, share.group, block_channel, N, table);
    __syncthreads(); /* also: the tile is clear */
    lane_sums<shape::VECTOR> sums = {};
    bool fill = blockIdx.y == 0 && phase == 0 && a.source.fills();

    unsigned tile_address = shared_address(tile);
    int first_position = warp / shape::WARPS_N * shape::POSITIONS;
    warp_positions<N, CHUNKED, Sink> mine;
    for (int t = share.row; t < share.tiles; t += a.cut.blocks[share.group]) {
        tile_place at = place_of_tile(a.cut, share.group, t);
        tile_window window = source_window(a.cut, at, fill);
        if (t != share.row) {
            __syncthreads();
            clear_tile(tile, a.tile_bytes); /* tiles at the border have other zeros */
            __syncthreads();
        }
        if (CHUNKED) {
            rectangle positions = positions_of(a.cut, at, phase);
            mine.template locate<C>(a.cut, positions, line_of_results(a.cut, positions, at, phase), tile_address,
                                    first_position);
            for (int chunk = 0; chunk < a.chunks; chunk++) {
                if (chunk > 0 || t != share.row) {
                    __syncthreads();
                    copy_weights(weights, packed_weights + (size_t)chunk * weight_bytes, weight_bytes);
                }
                load_window<C, MOST>(a.source, source_table, window, chunk * C, tile);
                wait_for_copies();
                __syncthreads();
                if (chunk == 0)
                    mine.begin(bias);
                if (first_position < positions.count)
                    add_taps<C, N, CHUNKED>(mine.sum, mine.row_address, a.offset + a.first_step[phase], a.steps[phase],
                                            warp_weights);
            }
            mine.fetch(a.sink, channel);
            mine.take(a.sink, table + lane_channel, channel, sums);
        } else {
            load_window<C, MOST>(a.source, source_table, window, 0, tile);
            wait_for_copies();
            __syncthreads();
            for (int p = 0; p < a.cut.out_step * a.cut.out_step; p++) {
                rectangle positions = positions_of(a.cut, at, p);
                line results = line_of_results(a.cut, positions, at, p);
                for (int first = first_position; first < positions.count; first += shape::WARPS_M * shape::POSITIONS) {
                    mine.template locate<C>(a.cut, positions, results, tile_address, first);
                    mine.fetch(a.sink, channel);
                    mine.begin(bias);
                    if (C > 8 && a.square_row)
                        add_square<C, N, CHUNKED>(mine.sum, mine.row_address, a.square_row, warp_weights);
                    else
                        add_taps<C, N, CHUNKED>(mine.sum, mine.row_address,
                                                a.offset + a.first_step[p] * (C == 8 ? 2 : 1), a.steps[p],
                                                warp_weights + a.first_step[p] * STEP);
                    mine.take(a.sink, table + lane_channel, channel, sums);
                }
            }
        }
    }
    if (a.sink.partial)
        write_sums<N, CHUNKED>(a.sink.partial, a.cut, share, phase, a.sink.y.cp, block_channel, sums, (float *)tile);
    if (a.tickets)
        finish_norm<N>(a.norm, a.tickets + blockIdx.y, a.sink.partial, a.cut.most_blocks * (CHUNKED ? gridDim.z : 1),
                       a.sink.y.cp, block_channel, (double *)tile);
}

#endif
