/* Convolutions from eight channels to 64 or a multiple (conv_stem.h): a first layer forward, and the data gradient of a
 * last layer that makes images. What they write is eight times what they multiply, so they are to run at the speed of
 * memory: what counts is how many instructions a result takes.
 *
 * Every warp works for itself. It has 32 of the block's 64 channels and walks down a strip of 32 columns, a line at a
 * time. The lines of the image travel to a ring of its own (cp.async), STEM_AHEAD lines before they are used, with a
 * column more on each side; the lane that has copied a pixel applies what is pending there. conv_stem.cuh has the
 * products.
 *
 * Results go to memory as they leave the products (warp_shape in conv_gather.cuh): four lanes have the 32 channels of a
 * pixel. A gradient's sums need raw of the same pixels: a lane copies what it will need itself to another ring. */
#include "backend/cuda/convolution/conv_stem.cuh"

#include "backend/cuda/convolution/conv_launch.cuh"

enum {
    STEM_LINE = (STEM_POSITIONS + 2) * 16,
    STEM_WARP_BYTES = STEM_LINES * STEM_LINE,
    STEM_RAW_LINES = STEM_AHEAD + 1,         /* a power of two, too */
    STEM_RAW_LINE = STEM_POSITIONS * 32 * 2, /* 32 channels of a warp */
    STEM_RAW_BYTES = STEM_RAW_LINES * STEM_RAW_LINE,
    STEM_TABLE = SINK_ROWS * STEM_CHANNELS * 4,
    STEM_SOURCE_TABLE = (int)value_source::ROWS * 8 * 4,
    STEM_RESERVED = 1024 /* bytes of shared memory that nvcc keeps for itself from sm_90 on */
};
static_assert((int)(CONV_WARPS * STEM_WARP_BYTES) >= (int)FINISH_NORM_BYTES, "finish_norm has room");

template <typename Sink> struct stem_arguments {
    tile_cut cut;        /* tiles are lines of a strip */
    const bf16 *x;       /* (n, h, w, 8) */
    value_source source; /* x, if something is pending */
    Sink sink;
    unsigned *tickets; /* these are as in gather_arguments */
    typename Sink::norm norm;
    bool hurries;
    const char *weights;
};

/* Where a warp works: `lines` lines of a strip from `row` on. */
struct stem_piece {
    int image, row, column, lines;
};

template <pending WHAT> struct stem_reader {
    const value_source &source;
    const float *table; /* of the source's coefficients, in shared memory */
    const bf16 *from;   /* this lane's pixel of the line that is copied next */
    char *space;        /* the ring, from that pixel's column on */
    unsigned to, ring;
    bf16 *fill;               /* the value of this lane's pixel of the line that is finished next; NULL: not wanted */
    int row, h, lines;        /* of the first line, and how many there are in the map, and of results */
    bool inside, last_inside; /* the pixel, and the one that lies 32 further on, of the first two lanes */

    template <typename Sink>
    __device__ stem_reader(const stem_arguments<Sink> &a, const stem_piece &piece, const float *coefficients,
                           char *shared)
        : source(a.source), table(coefficients), row(piece.row - 1), h(a.cut.source_h), lines(piece.lines)
    {
        int lane = threadIdx.x % 32, w = a.cut.source_w, x = piece.column - 1 + lane;
        inside = (unsigned)x < (unsigned)w;
        last_inside = lane < 2 && x + STEM_POSITIONS < w;
        long long first = ((long long)(piece.image * h + row) * w + x) * 8;
        from = a.x + first;
        bool fills = source.x.fill && blockIdx.y == 0 && threadIdx.x / 32 % stem_shape::WARPS_N == 0;
        fill = fills ? source.x.fill + first : NULL;
        space = shared + lane * 16;
        to = shared_address(space);
        ring = shared_address(shared) + lane % 16 * 16 + lane / 16 * 16; /* half of the rows are the second tap's */
    }

    __device__ bool exists(int line) const
    {
        return (unsigned)(row + line) < (unsigned)h;
    }

    __device__ static int place(int line)
    {
        return line % STEM_LINES * STEM_LINE;
    }

    /* The next line of the image, number `line` of the piece; the first is the one above the first result. */
    __device__ void copy(const tile_cut &cut, int line)
    {
        unsigned at = to + place(line);
        copy16_async_part(at, from, exists(line) && inside ? 16 : 0);
        if (threadIdx.x % 32 < 2)
            copy16_async_part(at + STEM_POSITIONS * 16, from + STEM_POSITIONS * 8,
                              exists(line) && last_inside ? 16 : 0);
        from += cut.source_w * 8;
    }

    /* Applies what is pending to what this lane has copied of a line, one after the other. Fills the value of pixels
     * that are results' places: not of those on either side, nor above and below. */
    __device__ void finish(const tile_cut &cut, int line)
    {
        if constexpr (WHAT != PENDING_NOTHING) {
            bool between = fill && line > 0 && line <= lines;
#pragma unroll
            for (int more = 0; more < 2; more++) {
                uint4 *at = (uint4 *)(space + place(line) + more * STEM_POSITIONS * 16);
                value_source::fetched f = {};
                if (!exists(line) || !(more ? last_inside : inside)) /* stays 0 */
                    continue;
                f.raw = *at;
                uint4 value = source.template finish<WHAT>(f, coefficients_at(source, table));
                *at = value;
                if (between && (threadIdx.x % 32 == 0) == (more == 1))
                    *(uint4 *)(fill + more * STEM_POSITIONS * 8) = value;
            }
            if (fill)
                fill += cut.source_w * 8;
        }
    }

    /* Results of 16 positions of a line, from number 16 tile on. */
    __device__ void multiply(int line, int tile, const stem_weights &weights,
                             float (&sum)[stem_shape::TILES_N][4]) const
    {
        unsigned address[STEM_PRODUCTS];
#pragma unroll
        for (int y = 0; y < 3; y++)
            address[y] = ring + place(line + y) + tile * 256;
        address[3] = threadIdx.x % 32 < 16 ? address[0] + 32 : address[1] + 16;
        address[4] = address[2] + 16;
        multiply_stem(address, weights, sum);
    }
};

/* ---- what a lane does with eight channels of a pixel ------------------------------------------------------------- */

/* The finished value, after ReLU. */
struct stem_value {
    typedef forward_sink sink;
    static constexpr int TABLE = 0, RING = 0; /* bytes of shared memory: of the block, and of a warp */
    float8 scale, shift;                      /* the bias is part of the shift */

    __device__ stem_value(const stem_arguments<sink> &a, int group, int channel, char *, char *)
    {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float row[SINK_ROWS];
            a.sink.read(row, group, channel + k);
            scale.v[k] = row[ROW_SCALE];
            shift.v[k] = row[ROW_BIAS] * row[ROW_SCALE] + row[ROW_SHIFT];
        }
    }

    __device__ bf16 *begin(const sink &to, size_t at)
    {
        return to.raw + at;
    }

    template <bool WHOLE> __device__ void copy(const tile_cut &, int, int, int)
    {
    }

    __device__ void add_bias(const sink &, int, float (&)[stem_shape::TILES_N][4]) const
    {
    }

    __device__ void take(float8 v, bf16 *to, int, int)
    {
#pragma unroll
        for (int k = 0; k < 8; k++)
            v.v[k] = v.v[k] * scale.v[k] + shift.v[k];
        *(uint4 *)to = make_uint4(pack_rectified(v.v[0], v.v[1]), pack_rectified(v.v[2], v.v[3]),
                                  pack_rectified(v.v[4], v.v[5]), pack_rectified(v.v[6], v.v[7]));
    }

    __device__ void write(const stem_arguments<sink> &, tile_share, int, char *)
    {
    }
};

/* Writes the block's sums, and does the normalisation that has joined. */
template <typename Sink>
__device__ inline void write_stem_sums(const stem_arguments<Sink> &a, tile_share share, int channel, lane_sums<8> &sums,
                                       char *space)
{
    int cp = a.sink.y.cp;
    if (a.sink.partial)
        write_sums<STEM_CHANNELS, false>(a.sink.partial, a.cut, share, 0, cp, channel, sums, (float *)space);
    if (a.tickets)
        finish_norm<STEM_CHANNELS>(a.norm, a.tickets + blockIdx.y, a.sink.partial, a.cut.most_blocks, cp, channel,
                                   (double *)space);
}

/* Raw, with its sums. */
struct stem_raw {
    typedef forward_sink sink;
    static constexpr int TABLE = 0, RING = 0;
    float8 center;
    lane_sums<8> sums;

    __device__ stem_raw(const stem_arguments<sink> &a, int group, int channel, char *, char *)
    {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float row[SINK_ROWS];
            a.sink.read(row, group, channel + k);
            center.v[k] = row[ROW_CENTER];
        }
        sums = {};
    }

    __device__ bf16 *begin(const sink &to, size_t at)
    {
        return to.raw + at;
    }

    template <bool WHOLE> __device__ void copy(const tile_cut &, int, int, int)
    {
    }

    __device__ void add_bias(const sink &to, int channel, float (&sum)[stem_shape::TILES_N][4]) const
    {
        if (!to.bias)
            return;
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j++) {
            float even = __ldg(to.bias + channel + 2 * j), odd = __ldg(to.bias + channel + 2 * j + 1);
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[j][k] += k % 2 ? odd : even;
        }
    }

    __device__ void take(float8 v, bf16 *to, int, int)
    {
        v = store_rounded8(to, v); /* sums are of what readers will see */
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float s = v.v[k] - center.v[k];
            sums.first.v[k] += s;
            sums.second.v[k] += s * s;
        }
    }

    __device__ void write(const stem_arguments<sink> &a, tile_share share, int channel, char *space)
    {
        write_stem_sums(a, share, channel, sums, space);
    }
};

/* A gradient, with the sums that the normalisation of its layer needs. */
struct stem_gradient {
    typedef gradient_sink sink;
    static constexpr int TABLE = STEM_TABLE, RING = STEM_RAW_BYTES;
    const float *table; /* of this lane's channels */
    unsigned ring;      /* from this lane's vectors on */
    const bf16 *from;   /* raw of this lane's first pixel of the line that is copied next */
    float below;
    lane_sums<8> sums;

    __device__ stem_gradient(const stem_arguments<sink> &a, int group, int channel, char *shared, char *warp_ring)
    {
        int first = channel / STEM_CHANNELS * STEM_CHANNELS;
        make_table(a.sink, group, first, STEM_CHANNELS, (float *)shared);
        table = (const float *)shared + channel - first;
        ring = shared_address(warp_ring) + threadIdx.x % 32 * 16;
        below = a.sink.below;
        sums = {};
    }

    __device__ bf16 *begin(const sink &to, size_t at)
    {
        from = to.y.raw + at;
        return to.dx + at;
    }

    template <bool WHOLE> __device__ void copy(const tile_cut &cut, int cp, int column, int line)
    {
#pragma unroll
        for (int place = 0; place < STEM_POSITIONS; place += 8) {
            unsigned to = ring + line % STEM_RAW_LINES * STEM_RAW_LINE + place * 64;
            if (WHOLE)
                copy16_async(to, from + place * cp);
            else
                copy16_async_part(to, from + place * cp, column + place < cut.out_w ? 16 : 0);
        }
        from += cut.out_w * cp;
    }

    __device__ void add_bias(const sink &, int, float (&)[stem_shape::TILES_N][4]) const
    {
    }

    __device__ void take(float8 v, bf16 *to, int line, int place)
    {
        uint4 bits;
        load_shared16((unsigned *)&bits, ring + line % STEM_RAW_LINES * STEM_RAW_LINE + place * 64);
        float8 raw = unpack8(bits);
        lane_rows<8> rows = rows_at(table, STEM_CHANNELS);
        v = store_rounded8(to, v);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float z = raw.v[k] * rows.scale.v[k] + rows.shift.v[k];
            float dz = z > 0 ? v.v[k] : below * v.v[k];
            sums.first.v[k] += dz;
            sums.second.v[k] += dz * (raw.v[k] - rows.center.v[k]);
        }
    }

    __device__ void write(const stem_arguments<sink> &a, tile_share share, int channel, char *space)
    {
        write_stem_sums(a, share, channel, sums, space);
    }
};

/* ---- a block ----------------------------------------------------------------------------------------------------- */

/* WHOLE: all positions of the strip exist. */
template <bool WHOLE, pending WHAT, typename Writer>
__device__ inline void run_piece(const stem_arguments<typename Writer::sink> &a, const stem_piece &piece,
                                 const float *table, char *shared, int channel, const stem_weights &weights,
                                 Writer &writer)
{
    int cp = a.sink.y.cp, column = piece.column + threadIdx.x % 32 / 4;
    size_t row = (size_t)(piece.image * a.cut.out_h + piece.row);
    bf16 *to = writer.begin(a.sink, (row * a.cut.out_w + column) * cp + channel);
    stem_reader<WHAT> reader(a, piece, table, shared);
    __syncwarp(); /* nobody reads the piece before any more */
    reader.copy(a.cut, 0);
    reader.copy(a.cut, 1);
#pragma unroll
    for (int line = 0; line < STEM_AHEAD; line++) {
        if (line < piece.lines) {
            reader.copy(a.cut, line + 2);
            writer.template copy<WHOLE>(a.cut, cp, column, line);
        }
        close_copies();
    }
    if (WHAT != PENDING_NOTHING) {
        wait_for_older_copies<STEM_AHEAD - 1>();
        reader.finish(a.cut, 0);
        reader.finish(a.cut, 1);
    }
#pragma unroll 1
    for (int line = 0; line < piece.lines; line++, to += a.cut.out_w * cp) {
        wait_for_older_copies<STEM_AHEAD - 1>();
        reader.finish(a.cut, line + 2);
        __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
        if (line + STEM_AHEAD < piece.lines) {
            reader.copy(a.cut, line + STEM_AHEAD + 2);
            writer.template copy<WHOLE>(a.cut, cp, column, line + STEM_AHEAD);
        }
        close_copies();
#pragma unroll
        for (int i = 0; i < stem_shape::TILES_M; i++) {
            float sum[stem_shape::TILES_N][4] = {};
            reader.multiply(line, i, weights, sum);
            writer.add_bias(a.sink, channel, sum);
#pragma unroll
            for (int low = 0; low < 2; low++) { /* the upper eight of the positions, the lower eight */
                float8 v;
                int place = i * 16 + low * 8;
#pragma unroll
                for (int k = 0; k < 8; k++)
                    v.v[k] = sum[k / 2][low * 2 + k % 2];
                if (WHOLE || column + place < a.cut.out_w)
                    writer.take(v, to + place * cp, line, place);
            }
        }
    }
}

template <pending WHAT, typename Writer> struct stem_space { /* bytes of shared memory */
    static constexpr int TABLES = Writer::TABLE + (WHAT == PENDING_NOTHING ? 0 : STEM_SOURCE_TABLE);
    static constexpr int WARP = STEM_WARP_BYTES + Writer::RING; /* its ring, and the writer's */
    static constexpr int ALL = TABLES + CONV_WARPS * WARP;
};

/* Grid: (blocks, tiles of results). */
template <pending WHAT, typename Writer>
__global__ void __launch_bounds__(CONV_THREADS, 2)
    stem_kernel(const __grid_constant__ stem_arguments<typename Writer::sink> a)
{
    using space = stem_space<WHAT, Writer>;
    char *shared = dynamic_shared();
    float *table = (float *)(shared + Writer::TABLE); /* of the source */
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block_channel = blockIdx.y * STEM_CHANNELS;
    int half = warp % stem_shape::WARPS_N, channel = block_channel + half * stem_shape::CHANNELS + lane % 4 * 8;
    char *mine = shared + space::TABLES + warp * space::WARP;
    tile_share share = share_of_block(a.cut, blockIdx.x);
    /* Weights are older than the kernel before: they travel while that one ends. */
    stem_weights weights;
    load_weights(a.weights, blockIdx.y, half, weights);
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    Writer writer(a, share.group, channel, shared, mine + STEM_WARP_BYTES);
    if (WHAT != PENDING_NOTHING)
        make_table(a.source, share.group, 0, 8, table);
    if (space::TABLES > 0)
        __syncthreads();
    int all = a.cut.blocks[share.group] * stem_shape::WARPS_M, number = share.row * stem_shape::WARPS_M + warp / 2;
    int next = (int)((long long)share.tiles * number / all), end = (int)((long long)share.tiles * (number + 1) / all);
    while (next < end) {
        int strip = next / a.cut.out_h, row = next - strip * a.cut.out_h, image = strip / a.cut.tiles_x;
        int left = a.cut.out_h - row < end - next ? a.cut.out_h - row : end - next;
        stem_piece piece = {group_begin(a.cut.groups, share.group) + image, row,
                            (strip - image * a.cut.tiles_x) * STEM_POSITIONS, left};
        if (piece.column + STEM_POSITIONS <= a.cut.out_w)
            run_piece<true, WHAT>(a, piece, table, mine, channel, weights, writer);
        else
            run_piece<false, WHAT>(a, piece, table, mine, channel, weights, writer);
        next += left;
    }
    writer.write(a, share, block_channel, shared);
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

/* source NULL: nothing is pending of x. */
template <pending WHAT, typename Writer>
static bool launch_stem(rc_cuda *cuda, const char *operation, const rc_conv *conv, bool forward, const bf16 *x,
                        const value_source *source, const typename Writer::sink &sink, const rc_tensor *batch,
                        const float *weight)
{
    typedef stem_arguments<typename Writer::sink> arguments;
    constexpr int BYTES = stem_space<WHAT, Writer>::ALL;
    axis_taps taps;
    if (BYTES + STEM_RESERVED > cuda->shared_bytes ||
        !(forward ? rc_cuda_forward_taps(conv, &taps) : rc_cuda_backward_taps(conv, &taps)))
        return false;
    arguments *a = held_launch<arguments>::begin(cuda);
    a->x = x;
    if (source)
        a->source = *source;
    a->sink = sink;
    int blocks = rc_cuda_cut_lines(&a->cut, conv, forward, &taps, batch, STEM_POSITIONS, 2 * cuda->multiprocessors);
    conv_form form = stem_form(conv, forward, &taps);
    held_launch<arguments>::hold(cuda, operation, stem_kernel<WHAT, Writer>, CONV_THREADS, form, weight,
                                 dim3((unsigned)blocks, (unsigned)form.tiles), BYTES);
    return true;
}

bool rc_cuda_stem_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                          const rc_tensor *y, const float *weight)
{
    static const char operation[] = "conv_forward";
    const bf16 *x = source.x.raw;
    bool plain = source.what == PENDING_NOTHING;
    bool simple = sink.apply ? plain && !sink.y.skip && sink.y.act == RC_ACT_RELU
                             : plain || source.what == PENDING_USUAL;
    bool fills = !source.x.fill || (!plain && conv->oh == conv->h && conv->ow == conv->w);
    if (!rc_cuda_is_first_layer(conv) || !fills || !simple)
        return false;
    return sink.apply ? launch_stem<PENDING_NOTHING, stem_value>(cuda, operation, conv, true, x, NULL, sink, y, weight)
           : plain    ? launch_stem<PENDING_NOTHING, stem_raw>(cuda, operation, conv, true, x, NULL, sink, y, weight)
                      : launch_stem<PENDING_USUAL, stem_raw>(cuda, operation, conv, true, x, &source, sink, y, weight);
}

bool rc_cuda_stem_backward_data(rc_cuda *cuda, const rc_conv *conv, const gradient_source &source,
                                const gradient_sink &sink, const rc_tensor *x, const float *weight)
{
    /* The slope is that of two lines, and raw tells it. */
    bool simple = !sink.slopes || (!is_curved(sink.y.act) && !sink.y.stored);
    if (!rc_cuda_is_last_layer(conv) || source.what != PENDING_NOTHING || !sink.partial || sink.addend || !simple)
        return false;
    return launch_stem<PENDING_NOTHING, stem_gradient>(cuda, "conv_backward_data", conv, false, source.dy.g, NULL, sink,
                                                       x, weight);
}
