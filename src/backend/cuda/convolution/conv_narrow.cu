/* Convolutions from 64 channels to at most four (conv_narrow.h). Nearly all that they move is the source, so every
 * pixel of it is to be read once: a pixel's 64 channels are multiplied with 36 columns, four results at each of nine
 * taps, and what a pixel gives to its neighbours is added up in shared memory.
 *
 * Every warp works for itself. It walks down a strip, a line of 32 pixels at a time, one of which lies on each side of
 * its results. Lane 4 g + t has channels 8 t to 8 t + 7 and 32 + 8 t to 32 + 8 t + 7 of pixels g, g + 8, g + 16 and
 * g + 24: these are whole operands once what is pending has been applied, as the inner dimension of a product may be in
 * any order. So a lane reads from shared memory what it copied there itself (cp.async), some lines before. Column
 * 12 x + 4 y + r of the products is result r at column x and row y of the taps. They go to shared memory, (32, 36)
 * float, where a lane adds those of one result: over x at once, and over y in registers from line to line. */
#include "backend/cuda/convolution/conv_narrow.h"

#include "backend/cuda/convolution/conv_plan.h"

enum {
    NARROW_WARPS = 10, /* of a block, at most */
    NARROW_CHANNELS = 64,
    NARROW_RESULTS = 4,
    NARROW_PIXELS = 32,               /* of a line */
    NARROW_STRIP = NARROW_PIXELS - 2, /* results of a line, at most */
    NARROW_COLUMNS = 9 * NARROW_RESULTS,
    NARROW_TILES = 5, /* of eight columns */
    NARROW_STEPS = NARROW_CHANNELS / 16,
    NARROW_MAP_LINE = NARROW_PIXELS * NARROW_CHANNELS * 2,
    NARROW_RING = 4 * NARROW_MAP_LINE,
    NARROW_SUMS = NARROW_PIXELS * NARROW_COLUMNS * 4,
    NARROW_WARP_BYTES = NARROW_RING + NARROW_SUMS
};

template <typename Source, typename Sink> struct narrow_arguments {
    tile_cut cut; /* tiles are lines of a strip */
    Source source;
    Sink sink;
    bool hurries;
    const char *weights;
};

/* ---- the two sources, and sinks ---------------------------------------------------------------------------------- */

__device__ inline const bf16 *first_map(const value_source &source)
{
    return source.x.raw;
}

__device__ inline const bf16 *second_map(const value_source &)
{
    return NULL;
}

__device__ inline value_source::fetched fetched_from(const value_source &, uint4 first, uint4)
{
    value_source::fetched f = {};
    f.raw = first;
    return f;
}

__device__ inline const bf16 *first_map(const gradient_source &source)
{
    return source.dy.g;
}

__device__ inline const bf16 *second_map(const gradient_source &source)
{
    return source.dy.y.raw;
}

__device__ inline gradient_source::fetched fetched_from(const gradient_source &, uint4 first, uint4 second)
{
    gradient_source::fetched f = {};
    f.g = first;
    f.raw = second;
    return f;
}

/* Where the sinks write. */
__device__ inline bf16 *results_of(const forward_sink &sink)
{
    return sink.raw;
}

__device__ inline bf16 *results_of(const gradient_sink &sink)
{
    return sink.dx;
}

/* ---- a warp ------------------------------------------------------------------------------------------------------ */

typedef unsigned narrow_weights[NARROW_STEPS][NARROW_TILES][2];

/* From the packed weights (pack.h): of tap 3 y + x and 16 channels, lanes have a result and two pairs of channels. */
__device__ inline void load_weights(const char *packed, narrow_weights &weights)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < NARROW_TILES; j++) {
        int column = j * 8 + g, x = column / 12, y = column % 12 / 4, result = column % 4;
        int first = ((y * 3 + x) * NARROW_STEPS * 32 + result * 4) * 2 + t % 2;
#pragma unroll
        for (int word = 0; word < 2 * NARROW_STEPS; word++) {
            int at = first + ((word / 4 * 2 + t / 2) * 32 + word % 4) * 2;
            weights[word / 2][j][word % 2] = column < NARROW_COLUMNS ? ((const unsigned *)packed)[at] : 0;
        }
    }
}

/* Where a warp works: `lines` lines of `count` results from (row, column) on. */
struct narrow_piece {
    int image, row, column, lines, count;
};

template <pending WHAT, typename Source> struct narrow_reader {
    static constexpr int MAPS = WHAT == PENDING_NOTHING ? 1 : Source::LOADS;
    static constexpr int LINES = NARROW_RING / (MAPS * NARROW_MAP_LINE), AHEAD = LINES - 1;
    const Source &source;
    unsigned ring; /* from this lane's vectors on */
    int first;     /* of this lane's channels in the line above the first, in the map */
    int row, h, line_step;
    bool inside[4];

    __device__ narrow_reader(const Source &from, const tile_cut &cut, const narrow_piece &piece, unsigned shared)
        : source(from), ring(shared + threadIdx.x % 32 * 16), row(piece.row - 1), h(cut.source_h),
          line_step(cut.source_w * NARROW_CHANNELS)
    {
        int lane = threadIdx.x % 32, x = piece.column - 1 + lane / 4;
        first = ((piece.image * h + row) * cut.source_w + x) * NARROW_CHANNELS + lane % 4 * 8;
#pragma unroll
        for (int i = 0; i < 4; i++) /* the last of a strip is nobody's, if it is not as wide as it may be */
            inside[i] = (unsigned)(x + i * 8) < (unsigned)cut.source_w && lane / 4 + i * 8 < piece.count + 2;
    }

    __device__ bool exists(int line, int i) const
    {
        return inside[i] && (unsigned)(row + line) < (unsigned)h;
    }

    __device__ static constexpr int place(int i, int half)
    {
        return i * 8 * NARROW_CHANNELS + half * 32;
    }

    /* Line `line` of the source, of which there are `lines`; the first is the one above the first results. */
    __device__ void copy(int line, int lines) const
    {
        if (line < lines) {
            unsigned to = ring + line % LINES * (MAPS * NARROW_MAP_LINE);
            long long at = first + (long long)line * line_step;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int bytes = exists(line, i) ? 16 : 0;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    long long from = at + place(i, half);
                    copy16_async_part(to + (i * 2 + half) * 512, first_map(source) + from, bytes);
                    if (MAPS == 2)
                        copy16_async_part(to + NARROW_MAP_LINE + (i * 2 + half) * 512, second_map(source) + from,
                                          bytes);
                }
            }
        }
        close_copies();
    }

    /* Eight channels of pixel i. */
    __device__ uint4 read(int line, int i, int half, const typename Source::coefficients &by) const
    {
        unsigned from = ring + line % LINES * (MAPS * NARROW_MAP_LINE) + (i * 2 + half) * 512;
        uint4 map[2] = {};
        load_shared16((unsigned *)&map[0], from);
        if (MAPS == 2)
            load_shared16((unsigned *)&map[1], from + NARROW_MAP_LINE);
        uint4 value = source.template finish<WHAT>(fetched_from(source, map[0], map[1]), by);
        if (!exists(line, i)) /* what is pending may have made something of it */
            value = make_uint4(0, 0, 0, 0);
        return value;
    }

    /* The products of a line, to shared memory. */
    __device__ void multiply(int line, const float *table, const narrow_weights &weights, float *sums) const
    {
        int lane = threadIdx.x % 32;
        float sum[2][NARROW_TILES][4] = {};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            typename Source::coefficients by;
            if (WHAT != PENDING_NOTHING)
                by = coefficients_at(source, table + half * 32 + lane % 4 * 8);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                uint4 low = read(line, 2 * m, half, by), high = read(line, 2 * m + 1, half, by);
                unsigned operand[2][4] = {{low.x, high.x, low.y, high.y}, {low.z, high.z, low.w, high.w}};
#pragma unroll
                for (int step = 0; step < 2; step++)
#pragma unroll
                    for (int j = 0; j < NARROW_TILES; j++)
                        multiply_add(sum[m][j], operand[step], weights[half * 2 + step][j]);
            }
        }
        float *mine = sums + lane / 4 * NARROW_COLUMNS + lane % 4 * 2;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int j = 0; j < NARROW_TILES; j++)
                if (j * 8 + lane % 4 * 2 < NARROW_COLUMNS) {
                    float *to = mine + m * 16 * NARROW_COLUMNS + j * 8;
                    *(float2 *)to = make_float2(sum[m][j][0], sum[m][j][1]);
                    *(float2 *)(to + 8 * NARROW_COLUMNS) = make_float2(sum[m][j][2], sum[m][j][3]);
                }
    }
};

__device__ inline float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* What the line gives to row y of the taps of this lane's result. */
__device__ inline float4 sum_of_row(const float *sums, int y)
{
    const float *from = sums + threadIdx.x % 32 * NARROW_COLUMNS + y * NARROW_RESULTS;
    float4 left = *(const float4 *)from, middle = *(const float4 *)(from + NARROW_COLUMNS + 12);
    return add4(add4(left, middle), *(const float4 *)(from + 2 * NARROW_COLUMNS + 24));
}

/* Shared memory: the coefficients of the source and of the sink, then the ring and the sums of each warp. */
template <typename Source> __host__ __device__ constexpr int narrow_tables()
{
    return ((int)Source::ROWS * NARROW_CHANNELS + SINK_ROWS * 8) * 4;
}

template <pending WHAT, typename Source, typename Sink>
__device__ inline void run_piece(const narrow_arguments<Source, Sink> &a, const narrow_piece &piece, const float *table,
                                 char *space, const narrow_weights &weights)
{
    typedef narrow_reader<WHAT, Source> reader_type;
    int lane = threadIdx.x % 32, lines = piece.lines + 2;
    const float *sink_table = table + (int)Source::ROWS * NARROW_CHANNELS;
    float *sums = (float *)(space + NARROW_RING);
    reader_type reader(a.source, a.cut, piece, shared_address(space));
    float4 next = make_float4(0, 0, 0, 0), now = next; /* what the result has of the lines so far, and the one below */
    lane_sums<NARROW_RESULTS> none = {};
#pragma unroll
    for (int line = 0; line < reader_type::AHEAD; line++)
        reader.copy(line, lines);
#pragma unroll 1
    for (int line = 0; line < lines; line++) {
        wait_for_older_copies<reader_type::AHEAD - 1>();
        reader.copy(line + reader_type::AHEAD, lines);
        reader.multiply(line, table, weights, sums);
        __syncwarp(); /* the products of all lanes are there */
        if (lane < piece.count) {
            float4 result = add4(now, sum_of_row(sums, 2));
            now = add4(next, sum_of_row(sums, 1));
            next = sum_of_row(sums, 0);
            if (line >= 2) {
                int pixel[1] = {(piece.image * a.cut.out_h + piece.row + line - 2) * a.cut.out_w + piece.column + lane};
                float4 bias = *(const float4 *)(sink_table + ROW_BIAS * 8);
                floats<NARROW_RESULTS> v[1] = {
                    {{result.x + bias.x, result.y + bias.y, result.z + bias.z, result.w + bias.w}}};
                typename Sink::template ahead_of<NARROW_RESULTS> ahead[1];
                a.sink.fetch(ahead, pixel, 0);
                a.sink.take(v, ahead, rows_at<NARROW_RESULTS>(sink_table, 8), pixel, 0, none);
                *(uint2 *)(results_of(a.sink) + (unsigned)(pixel[0] * 8 + NARROW_RESULTS)) = uint2();
            }
        }
        __syncwarp(); /* nobody reads them any more */
    }
}

template <pending WHAT, typename Source, typename Sink>
__global__ void __launch_bounds__(NARROW_WARPS * 32, 1)
    narrow_kernel(const __grid_constant__ narrow_arguments<Source, Sink> a)
{
    char *shared = dynamic_shared();
    float *table = (float *)shared, *sink_table = table + (int)Source::ROWS * NARROW_CHANNELS;
    int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    tile_share share = share_of_block(a.cut, blockIdx.x);
    /* Weights are older than the kernel before: they travel while that one ends. */
    narrow_weights weights;
    load_weights(a.weights, weights);
    wait_for_kernel_before();
    if (a.hurries)
        start_kernel_after();
    if (threadIdx.x < 32) {
        make_table<32>(a.source, share.group, 0, NARROW_CHANNELS, table);
        make_table<32>(a.sink, share.group, 0, 8, sink_table);
    }
    __syncthreads();
    int all = a.cut.blocks[share.group] * warps, number = share.row * warps + warp;
    int next = (int)((long long)share.tiles * number / all), end = (int)((long long)share.tiles * (number + 1) / all);
    while (next < end) {
        int strip = next / a.cut.out_h, row = next - strip * a.cut.out_h, image = strip / a.cut.tiles_x;
        int left = a.cut.out_h - row < end - next ? a.cut.out_h - row : end - next;
        int column = (strip - image * a.cut.tiles_x) * a.cut.tile_w, count = a.cut.out_w - column;
        narrow_piece piece = {group_begin(a.cut.groups, share.group) + image, row, column, left,
                              count < a.cut.tile_w ? count : a.cut.tile_w};
        run_piece<WHAT>(a, piece, table, shared + narrow_tables<Source>() + warp * NARROW_WARP_BYTES, weights);
        next += left;
    }
}

/* ---- plan and launch --------------------------------------------------------------------------------------------- */

template <typename Source, typename Sink>
static bool launch_narrow(rc_cuda *cuda, const char *operation, const rc_conv *conv, bool forward, const Source &source,
                          const Sink &sink, const rc_tensor *batch, const float *weight)
{
    axis_taps taps;
    int from = forward ? conv->c_in : conv->c_out, to = forward ? conv->c_out : conv->c_in;
    bool shape = conv->k == 3 && conv->stride == 1 && conv->pad == 1 && conv->up == 1 && !conv->transposed;
    bool takes = source.what == PENDING_NOTHING || source.what == PENDING_USUAL;
    int warps = (rc_cuda_shared(cuda, CONV_SHARED_MOST) - narrow_tables<Source>()) / NARROW_WARP_BYTES;
    warps = warps < NARROW_WARPS ? warps : NARROW_WARPS;
    if (!shape || !takes || from != NARROW_CHANNELS || to > NARROW_RESULTS || sink.partial || warps == 0 ||
        !(forward ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return false;
    narrow_arguments<Source, Sink> a = {};
    a.source = source;
    a.sink = sink;
    a.hurries = cuda->lane == RC_MAIN_LANE;
    tile_cut *cut = &a.cut;
    int blocks = rc_cuda_cut_lines(cut, conv, forward, &taps, batch, NARROW_STRIP, cuda->multiprocessors);
    cut->tile_w = (cut->out_w + cut->tiles_x - 1) / cut->tiles_x;
    conv_form form;
    rc_cuda_set_form(conv, forward, &taps, &form);
    form.chunk_c = NARROW_CHANNELS;
    form.tile_c = 8;
    form.chunks = form.tiles = 1;
    bool fresh;
    a.weights = (const char *)rc_cuda_packed_weights(cuda, &form, weight, &fresh);
    void (*kernel)(narrow_arguments<Source, Sink>) = source.what == PENDING_NOTHING
                                                         ? narrow_kernel<PENDING_NOTHING, Source, Sink>
                                                         : narrow_kernel<PENDING_USUAL, Source, Sink>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_as(cuda, !fresh, operation, kernel, dim3((unsigned)blocks), warps * 32,
                      (size_t)(narrow_tables<Source>() + warps * NARROW_WARP_BYTES), a);
    return true;
}

bool rc_cuda_narrow_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                            const rc_tensor *batch, const float *weight)
{
    return !source.x.fill && launch_narrow(cuda, "conv_forward", conv, true, source, sink, batch, weight);
}

bool rc_cuda_narrow_backward_data(rc_cuda *cuda, const rc_conv *conv, const gradient_source &source,
                                  const gradient_sink &sink, const rc_tensor *batch, const float *weight)
{
    return launch_narrow(cuda, "conv_backward_data", conv, false, source, sink, batch, weight);
}
