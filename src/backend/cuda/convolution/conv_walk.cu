/* Convolutions from 16 to 16 channels (conv_walk.h). They multiply little for what they move, so they are to run at the
 * speed of memory: every pixel comes once and is finished once, and all that a result takes besides travels ahead.
 *
 * Every warp works for itself. It walks along a strip of 32 columns, a line at a time. The lines of the source travel
 * to a ring of its own (cp.async), AHEAD lines before they are used, with a pixel more on each side; beside each of
 * them the line of what the results that it completes need (skip, gradient to add to, raw). A lane finishes in place
 * what it has copied itself. All weights stay in registers. A line gives its part to the results of three lines, two of
 * which wait in registers for the lines to come: so three ldmatrix serve 18 products. Results go to the map as they
 * leave the products (warp_shape in conv_gather.cuh): four lanes have the 16 channels of a pixel.
 *
 * Lines of all strips and images are dealt evenly. A warp reads a line on either side of its share, which is another's.
 * Every second warp walks upwards, with its weights upside down, so that neighbours meet at the same time, and the
 * second finds the lines in L2.
 *
 * Registers are few: what differs from lane to lane is made once and hidden from the compiler (settle), which would
 * make it again for every use. */
#include "backend/cuda/convolution/conv_walk.h"

#include "backend/cuda/convolution/conv_launch.cuh"
#include "backend/cuda/convolution/conv_walk.cuh"

enum { RING_LINES = 6 /* at most */, RING_MOST = 13056 /* bytes of a warp: 16 of them have a multiprocessor's */ };

template <typename Source, typename Sink> struct walk_arguments {
    tile_cut cut; /* tiles are lines of a strip */
    Source source;
    Sink sink;
    unsigned *tickets; /* these are as in gather_arguments */
    typename Sink::norm norm;
    bool hurries;
    const char *weights;
};

/* ---- a warp ------------------------------------------------------------------------------------------------------ */

template <pending WHAT, typename Source, typename Kind> struct walk_ring {
    static constexpr int MAPS = WHAT == PENDING_NOTHING ? 1 : WHAT == PENDING_SUM ? 2 : Source::LOADS;
    static constexpr int LINE = MAPS * SOURCE_LINE + Kind::MAPS * SINK_LINE, FIT = RING_MOST / LINE;
    static constexpr int LINES = FIT < RING_LINES ? FIT : RING_LINES, AHEAD = LINES - 1, BYTES = LINES * LINE;

    static __device__ unsigned after(unsigned slot)
    {
        return slot == (LINES - 1) * LINE ? 0 : slot + LINE;
    }
};

/* Copies the lines of a share, one after the other. */
template <pending WHAT, typename Source, typename Kind> struct walk_reader {
    typedef walk_ring<WHAT, Source, Kind> ring;
    walk_share walk;
    unsigned slot;
    int line, lines, row; /* the next line of the piece, how many there are, and its row */
    int at;               /* this lane's first vector of it in a map */
    bool beside;

    __device__ explicit walk_reader(const walk_share &share)
        : walk(share), slot(0), line(0), lines(0), row(0), at(0), beside(false)
    {
    }

    /* first, side, sink: where this lane's vectors lie in the ring. */
    __device__ void copy(const tile_cut &cut, const Source &source, const typename Kind::sink &sink, unsigned first,
                         unsigned side, unsigned results)
    {
        int lane = threadIdx.x % 32, line_step = walk.step * cut.source_w * WALK_CHANNELS;
        walk_piece piece;
        if (line == lines && walk.take(cut, piece)) {
            line = 0;
            lines = piece.lines + 2;
            row = piece.row - walk.step;
            at = ((piece.image * cut.source_h + row) * cut.source_w + piece.column) * WALK_CHANNELS + lane * 8;
            beside = has_beside(cut, piece.column);
        }
        if (line < lines) {
            bool exists = (unsigned)row < (unsigned)cut.source_h;
            int to_side = lane < WALK_VECTORS ? -WALK_CHANNELS : (WALK_POSITIONS - 1) * WALK_CHANNELS;
#pragma unroll
            for (int map = 0; map < ring::MAPS; map++) {
                const bf16 *from = source_map(source, map) + at;
                unsigned to = slot + map * SOURCE_LINE;
#pragma unroll
                for (int i = 0; i < WALK_VECTORS; i++)
                    copy16_async_part(first + to + i * WALK_STRETCH, from + i * WALK_STRETCH / 2, exists ? 16 : 0);
                if (lane < 2 * WALK_VECTORS)
                    copy16_async_part(side + to, from + to_side, exists && beside ? 16 : 0);
            }
            if (Kind::MAPS > 0 && line >= 2) { /* for the results that this line completes */
#pragma unroll
                for (int map = 0; map < Kind::MAPS; map++) {
                    const bf16 *from = Kind::map(sink, map) + (at - line_step);
                    unsigned to = results + slot + map * SINK_LINE;
                    copy16_async(to, from);
                    copy16_async(to + SINK_LINE / 2, from + WALK_POSITIONS / 2 * WALK_CHANNELS);
                }
            }
            at += line_step;
            row += walk.step;
            line++;
        }
        slot = ring::after(slot);
        close_copies();
    }
};

/* Row, column, half of the results. */
typedef unsigned walk_weights[3][3][2][2];
typedef float walk_results[2][4]; /* 16 positions */

/* From the packed weights of this lane (pack.h). The first row is that of the line which comes first. */
__device__ inline void load_weights(const char *packed, bool up, walk_weights &weights)
{
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
        int y = tap / 3, x = tap % 3;
        uint4 two = *(const uint4 *)(packed + ((up ? 2 - y : y) * 3 + x) * (WALK_CHANNELS * 32));
        weights[y][x][0][0] = two.x;
        weights[y][x][0][1] = two.y;
        weights[y][x][1][0] = two.z;
        weights[y][x][1][1] = two.w;
    }
}

__device__ inline void add_row(walk_results &sum, const unsigned (&pixels)[3][4], const unsigned (&weights)[3][2][2])
{
#pragma unroll
    for (int x = 0; x < 3; x++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            multiply_add(sum[j], pixels[x], weights[x][j]);
}

__device__ inline void copy_results(walk_results &to, const walk_results &from)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i / 4][i % 4] = from[i / 4][i % 4];
}

__device__ inline bool has_bias(const forward_sink &sink)
{
    return sink.bias != NULL;
}

__device__ inline bool has_bias(const gradient_sink &)
{
    return false;
}

__device__ inline void add_bias(walk_results (&results)[2], floats<4> bias)
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        results[i / 8][i / 4 % 2][i % 4] += bias.v[i / 4 % 2 * 2 + i % 2];
}

template <pending WHAT, typename Source, typename Kind>
__device__ inline void run_share(const walk_arguments<Source, typename Kind::sink> &a, walk_share walk, unsigned tables,
                                 unsigned space, const walk_weights &weights, lane_sums<4> &sums)
{
    typedef walk_ring<WHAT, Source, Kind> ring;
    constexpr int SOURCE_TABLE = (int)Source::ROWS * WALK_CHANNELS * 4, VECTORS = WALK_VECTORS;
    int lane = threadIdx.x % 32, w = a.cut.out_w;
    unsigned table = tables + lane % VECTORS * 32, sink_table = tables + SOURCE_TABLE + lane % 4 * 16;
    unsigned first = space + place_of(1 + lane / VECTORS, lane % VECTORS), operand[3], slot = 0;
    unsigned side = space + place_of(lane < VECTORS ? 0 : WALK_POSITIONS + 1, lane % VECTORS);
    unsigned results = space + ring::MAPS * SOURCE_LINE, copied = results + lane * 16, taken = results + lane * 8;
    settle(first);
    settle(side);
    settle(copied);
#pragma unroll
    for (int x = 0; x < 3; x++) {
        operand[x] = space + place_of(lane % 16 + x, lane / 16);
        settle(operand[x]);
    }
    walk_reader<WHAT, Source, Kind> reader(walk);
    walk_piece piece;
    bool biased = has_bias(a.sink), fills = filled_map(a.source) != NULL;
#pragma unroll 1
    for (int line = 0; line < ring::AHEAD; line++)
        reader.copy(a.cut, a.source, a.sink, first, side, copied);
#pragma unroll 1
    while (walk.take(a.cut, piece)) {
        walk_results now[2] = {}, next[2] = {}; /* of the results that the next line completes, and the one after */
        int row = piece.row - walk.step, pixel = (piece.image * a.cut.source_h + row) * w + piece.column;
        bool beside = has_beside(a.cut, piece.column);
#pragma unroll 1
        for (int line = 0; line < piece.lines + 2; line++) {
            wait_for_older_copies<ring::AHEAD - 1>();
            if (WHAT != PENDING_NOTHING && (unsigned)row < (unsigned)a.cut.source_h) {
                bf16 *fill = fills && line > 0 && line <= piece.lines
                                 ? filled_map(a.source) + (unsigned)(pixel * WALK_CHANNELS + lane * 8)
                                 : NULL;
                finish_line<WHAT, ring::MAPS, WALK_VECTORS + 1>(a.source, table, first + slot, side + slot, beside,
                                                                SOURCE_LINE, fill);
            }
            __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
            reader.copy(a.cut, a.source, a.sink, first, side, copied);
            walk_results result[2], none = {};
#pragma unroll
            for (int i = 0; i < 2; i++) {
                copy_results(result[i], now[i]);
                copy_results(now[i], next[i]);
                copy_results(next[i], none);
                unsigned pixels[3][4];
#pragma unroll
                for (int x = 0; x < 3; x++)
                    load_matrices(pixels[x], operand[x] + slot + i * WALK_TILE);
                add_row(result[i], pixels, weights[2]);
                add_row(now[i], pixels, weights[1]);
                add_row(next[i], pixels, weights[0]);
            }
            if (line >= 2) {
                Kind kind(a.sink, sink_table);
                if (biased)
                    add_bias(result, sink_row(sink_table, ROW_BIAS));
                bf16 *to = Kind::results(a.sink) + (unsigned)((pixel - walk.step * w) * WALK_CHANNELS + lane * 4);
#pragma unroll
                for (int i = 0; i < 4; i++) { /* eight positions each */
                    uint2 more[Kind::MAPS + 1] = {};
#pragma unroll
                    for (int map = 0; map < Kind::MAPS; map++)
                        load_bits(more[map], taken + slot + map * SINK_LINE + i * (8 * WALK_PIXEL));
                    floats<4> v;
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        v.v[k] = result[i / 2][k / 2][i % 2 * 2 + k % 2];
                    *(uint2 *)(to + i * 8 * WALK_CHANNELS) = kind.take(a.sink, v, more, sums);
                }
            }
            slot = ring::after(slot);
            row += walk.step;
            pixel += walk.step * w;
        }
    }
}

/* Shared memory: the coefficients of the source and of the sink, then the rings. */
template <typename Source> __host__ __device__ constexpr int walk_tables()
{
    return ((int)Source::ROWS + SINK_ROWS) * WALK_CHANNELS * 4;
}

template <pending WHAT, typename Source, typename Kind>
__global__ void __launch_bounds__(WALK_THREADS, WALK_BLOCKS)
    walk_kernel(const __grid_constant__ walk_arguments<Source, typename Kind::sink> a)
{
    typedef walk_ring<WHAT, Source, Kind> ring;
    static_assert(CONV_WARPS * (int)ring::BYTES >= (int)FINISH_NORM_BYTES, "finish_norm has room");
    char *shared = dynamic_shared(), *rings = shared + walk_tables<Source>();
    float *table = (float *)shared;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool up = warp % 2 == 1;
    tile_share share = share_of_block(a.cut, blockIdx.x);
    /* Weights are older than the kernel before: they travel while that one ends. */
    walk_weights weights;
    load_weights(a.weights + lane * 16, up, weights);
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    make_table<WALK_THREADS>(a.source, share.group, 0, WALK_CHANNELS, table);
    make_table<WALK_THREADS>(a.sink, share.group, 0, WALK_CHANNELS, table + (int)Source::ROWS * WALK_CHANNELS);
    __syncthreads();
    lane_sums<4> sums = {};
    run_share<WHAT, Source, Kind>(a, share_of_warp(a.cut, share, up ? -1 : 1), shared_address(shared),
                                  shared_address(rings) + warp * ring::BYTES, weights, sums);
    if (a.sink.partial)
        write_sums<WALK_CHANNELS, false, WALK_THREADS>(a.sink.partial, a.cut, share, 0, WALK_CHANNELS, 0, sums,
                                                       (float *)rings);
    if (a.tickets)
        finish_norm<WALK_CHANNELS, WALK_THREADS>(a.norm, a.tickets, a.sink.partial, a.cut.most_blocks, WALK_CHANNELS, 0,
                                                 (double *)rings);
}

/* ---- plan and launch --------------------------------------------------------------------------------------------- */

template <pending WHAT, typename Kind, typename Source>
static bool launch_walk(rc_cuda *cuda, const char *operation, const rc_conv *conv, const Source &source,
                        const typename Kind::sink &sink, const rc_tensor *batch, const float *weight)
{
    typedef walk_arguments<Source, typename Kind::sink> arguments;
    constexpr bool FORWARD = !Kind::sink::BACKWARD;
    int shared_bytes = walk_tables<Source>() + CONV_WARPS * walk_ring<WHAT, Source, Kind>::BYTES;
    axis_taps taps;
    if (shared_bytes > cuda->shared_bytes ||
        !(FORWARD ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return false;
    arguments *a = held_launch<arguments>::begin(cuda);
    a->source = source;
    a->sink = sink;
    int blocks = rc_cuda_cut_lines(&a->cut, conv, FORWARD, &taps, batch, WALK_POSITIONS,
                                   WALK_BLOCKS * cuda->multiprocessors);
    conv_form form;
    rc_cuda_set_form(conv, FORWARD, &taps, &form);
    form.chunk_c = WALK_CHANNELS;
    form.chunks = 1;
    form.tile_c = WALK_CHANNELS;
    form.tiles = 1;
    held_launch<arguments>::hold(cuda, operation, walk_kernel<WHAT, Source, Kind>, WALK_THREADS, form, weight,
                                 dim3((unsigned)blocks), shared_bytes);
    return true;
}

bool rc_cuda_walk_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                          const rc_tensor *batch, const float *weight)
{
    static const char operation[] = "conv_forward";
    const tensor_view<bf16> &y = sink.y;
    bool plain = source.what == PENDING_NOTHING && !source.x.fill;
    bool identity = y.skip && y.skip_stride == 1 && y.skip_offset == 0 && y.skip_cp == y.cp;
    if (!is_walked(conv))
        return false;
    if (sink.apply && plain && !is_curved(y.act) && !y.skip)
        return launch_walk<PENDING_NOTHING, applies<false>>(cuda, operation, conv, source, sink, batch, weight);
    if (sink.apply && plain && !is_curved(y.act) && identity)
        return launch_walk<PENDING_NOTHING, applies<true>>(cuda, operation, conv, source, sink, batch, weight);
    if (sink.apply || !sink.partial)
        return false;
    if (plain)
        return launch_walk<PENDING_NOTHING, takes_sums>(cuda, operation, conv, source, sink, batch, weight);
    if (source.what == PENDING_USUAL && source.x.act == RC_ACT_RELU)
        return launch_walk<PENDING_USUAL, takes_sums>(cuda, operation, conv, source, sink, batch, weight);
    return source.what == PENDING_SUM &&
           launch_walk<PENDING_SUM, takes_sums>(cuda, operation, conv, source, sink, batch, weight);
}

bool rc_cuda_walk_backward_data(rc_cuda *cuda, const rc_conv *conv, const gradient_source &source,
                                const gradient_sink &sink, const rc_tensor *batch, const float *weight)
{
    /* The slope comes from raw, which does not tell that of a sum. */
    bool tells = !sink.slopes || (!is_curved(sink.y.act) && !sink.y.skip && sink.y.scale);
    if (!is_walked(conv) || !tells || source.what != PENDING_USUAL)
        return false;
    return (sink.addend ? (sink.partial ? launch_walk<PENDING_USUAL, gives_back<true, true>, gradient_source>
                                        : launch_walk<PENDING_USUAL, gives_back<true, false>, gradient_source>)
                        : (sink.partial ? launch_walk<PENDING_USUAL, gives_back<false, true>, gradient_source>
                                        : launch_walk<PENDING_USUAL, gives_back<false, false>, gradient_source>))(
        cuda, "conv_backward_data", conv, source, sink, batch, weight);
}
