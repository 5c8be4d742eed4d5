/* Forward convolution of a first layer (conv_stem.h). It writes eight times what it reads and multiplies little, so it
 * is to run at the speed of memory: what counts is how many instructions a result takes.
 *
 * Every warp works for itself. It has 32 of the block's 64 channels and walks down a strip of 32 columns, a line at a
 * time. The lines of the image travel to a ring of its own (cp.async), STEM_AHEAD lines before they are used, with a
 * column more on each side. All weights stay in registers: two taps of eight channels make a product, five products all
 * nine. Positions are the rows of the products. Rows 0 to 15 of the first tap lie beside those of the second in shared
 * memory, or a line below, so that ldmatrix finds both:
 *
 *     product     0      1      2      3      4          tap 3 y + x is line y, column x
 *     taps       0, 1   3, 4   6, 7   2, 5   -, 8
 *
 * Results go to memory as they leave the products (warp_shape in conv_gather.cuh): four lanes have the 32 channels of a
 * pixel. */
#include "backend/cuda/convolution/conv_stem.h"

#include "backend/cuda/convolution/conv_launch.cuh"

enum {
    STEM_POSITIONS = 32, /* of a line */
    STEM_PRODUCTS = 5,
    STEM_AHEAD = 3,
    STEM_LINES = 8, /* three in use and those on their way, a power of two */
    STEM_LINE = (STEM_POSITIONS + 2) * 16,
    STEM_WARP_BYTES = STEM_LINES * STEM_LINE,
    STEM_SHARED = CONV_WARPS * STEM_WARP_BYTES
};
static_assert(STEM_LINES >= STEM_AHEAD + 3, "the ring holds what is in use and what is on its way");
static_assert((int)STEM_SHARED >= (int)FINISH_NORM_BYTES, "finish_norm has room");

struct stem_arguments {
    tile_cut cut;  /* tiles are lines of a strip */
    const bf16 *x; /* (n, h, w, 8) */
    forward_sink sink;
    unsigned *tickets; /* these are as in gather_arguments */
    train_norm norm;
    bool hurries;
    const char *weights;
};

typedef warp_shape<STEM_CHANNELS, false> stem_shape;
typedef unsigned stem_weights[STEM_PRODUCTS][stem_shape::TILES_N][2];

/* From the packed weights of this lane (pack.h), whose products have taps 2 p and 2 p + 1; tap 9 is zeros. */
__device__ inline void load_weights(const char *packed, stem_weights &weights)
{
    constexpr int TAP[STEM_PRODUCTS][2] = {{0, 1}, {3, 4}, {6, 7}, {2, 5}, {9, 8}};
    unsigned word[2 * STEM_PRODUCTS][stem_shape::TILES_N];
#pragma unroll
    for (int product = 0; product < STEM_PRODUCTS; product++)
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j += 2) {
            uint4 two = *(const uint4 *)(packed + product * (STEM_CHANNELS * 32) + j * 256);
            word[2 * product][j] = two.x;
            word[2 * product + 1][j] = two.y;
            word[2 * product][j + 1] = two.z;
            word[2 * product + 1][j + 1] = two.w;
        }
#pragma unroll
    for (int product = 0; product < STEM_PRODUCTS; product++)
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                weights[product][j][k] = word[TAP[product][k]][j];
}

/* Where a warp works: `lines` lines of a strip from `row` on. */
struct stem_piece {
    int image, row, column, lines;
};

struct stem_reader {
    const bf16 *from; /* this lane's pixel of the line that is copied next */
    unsigned to, ring;
    int y;                    /* that line */
    bool inside, last_inside; /* the pixel, and the one that lies 32 further on, of the first two lanes */

    __device__ stem_reader(const stem_arguments &a, const stem_piece &piece, unsigned shared)
    {
        int lane = threadIdx.x % 32, w = a.cut.source_w, x = piece.column - 1 + lane;
        y = piece.row - 1;
        inside = (unsigned)x < (unsigned)w;
        last_inside = x + STEM_POSITIONS < w;
        from = a.x + ((long long)(piece.image * a.cut.source_h + y) * w + x) * 8;
        to = shared + lane * 16;
        ring = shared + lane % 16 * 16 + lane / 16 * 16; /* half of the rows are the second tap's */
    }

    /* The next line of the image, number `line` of the piece; the first is the one above the first result. */
    __device__ void copy(const stem_arguments &a, int line)
    {
        unsigned place = to + line % STEM_LINES * STEM_LINE;
        bool exists = (unsigned)y < (unsigned)a.cut.source_h;
        copy16_async_part(place, from, exists && inside ? 16 : 0);
        if (threadIdx.x % 32 < 2)
            copy16_async_part(place + STEM_POSITIONS * 16, from + STEM_POSITIONS * 8, exists && last_inside ? 16 : 0);
        from += a.cut.source_w * 8;
        y++;
    }

    /* Results of 16 positions of a line, from number 16 tile on. */
    __device__ void multiply(int line, int tile, const stem_weights &weights,
                             float (&sum)[stem_shape::TILES_N][4]) const
    {
        unsigned address[STEM_PRODUCTS];
#pragma unroll
        for (int row = 0; row < 3; row++)
            address[row] = ring + (line + row) % STEM_LINES * STEM_LINE + tile * 256;
        address[3] = threadIdx.x % 32 < 16 ? address[0] + 32 : address[1] + 16;
        address[4] = address[2] + 16;
#pragma unroll
        for (int product = 0; product < STEM_PRODUCTS; product++) {
            unsigned pixels[4];
            load_matrices(pixels, address[product]);
#pragma unroll
            for (int j = 0; j < stem_shape::TILES_N; j++)
                multiply_add(sum[j], pixels, weights[product][j]);
        }
    }
};

/* What a lane does with eight channels of a pixel. */
template <bool APPLY> struct stem_writer;

/* The finished value, after ReLU. */
template <> struct stem_writer<true> {
    float8 scale, shift; /* the bias is part of the shift */

    __device__ stem_writer(const forward_sink &sink, int group, int channel)
    {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float row[SINK_ROWS];
            sink.read(row, group, channel + k);
            scale.v[k] = row[ROW_SCALE];
            shift.v[k] = row[ROW_BIAS] * row[ROW_SCALE] + row[ROW_SHIFT];
        }
    }

    __device__ void add_bias(const forward_sink &, int, float (&)[stem_shape::TILES_N][4]) const
    {
    }

    __device__ void take(float8 v, bf16 *to)
    {
#pragma unroll
        for (int k = 0; k < 8; k++)
            v.v[k] = v.v[k] * scale.v[k] + shift.v[k];
        *(uint4 *)to = make_uint4(pack_rectified(v.v[0], v.v[1]), pack_rectified(v.v[2], v.v[3]),
                                  pack_rectified(v.v[4], v.v[5]), pack_rectified(v.v[6], v.v[7]));
    }

    __device__ void write(const stem_arguments &, tile_share, int, char *)
    {
    }
};

/* Raw, with its sums. */
template <> struct stem_writer<false> {
    float8 center;
    lane_sums<8> sums;

    __device__ stem_writer(const forward_sink &sink, int group, int channel)
    {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float row[SINK_ROWS];
            sink.read(row, group, channel + k);
            center.v[k] = row[ROW_CENTER];
        }
        sums = {};
    }

    __device__ void add_bias(const forward_sink &sink, int channel, float (&sum)[stem_shape::TILES_N][4]) const
    {
        if (!sink.bias)
            return;
#pragma unroll
        for (int j = 0; j < stem_shape::TILES_N; j++) {
            float even = __ldg(sink.bias + channel + 2 * j), odd = __ldg(sink.bias + channel + 2 * j + 1);
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[j][k] += k % 2 ? odd : even;
        }
    }

    __device__ void take(float8 v, bf16 *to)
    {
        v = store_rounded8(to, v); /* sums are of what readers will see */
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float s = v.v[k] - center.v[k];
            sums.first.v[k] += s;
            sums.second.v[k] += s * s;
        }
    }

    __device__ void write(const stem_arguments &a, tile_share share, int channel, char *space)
    {
        int cp = a.sink.y.cp;
        if (a.sink.partial)
            write_sums<STEM_CHANNELS, false>(a.sink.partial, a.cut, share, 0, cp, channel, sums, (float *)space);
        if (a.tickets)
            finish_norm<STEM_CHANNELS>(a.norm, a.tickets + blockIdx.y, a.sink.partial, a.cut.most_blocks, cp, channel,
                                       (double *)space);
    }
};

/* WHOLE: all positions of the strip exist. */
template <bool WHOLE, typename Writer>
__device__ inline void run_piece(const stem_arguments &a, const stem_piece &piece, unsigned shared, int channel,
                                 const stem_weights &weights, Writer &writer)
{
    int cp = a.sink.y.cp, column = piece.column + threadIdx.x % 32 / 4;
    bf16 *to = a.sink.raw + ((long long)(piece.image * a.cut.out_h + piece.row) * a.cut.out_w + column) * cp + channel;
    stem_reader reader(a, piece, shared);
    __syncwarp(); /* nobody reads the piece before any more */
    reader.copy(a, 0);
    reader.copy(a, 1);
#pragma unroll
    for (int line = 0; line < STEM_AHEAD; line++) {
        if (line < piece.lines)
            reader.copy(a, line + 2);
        close_copies();
    }
#pragma unroll 1
    for (int line = 0; line < piece.lines; line++, to += a.cut.out_w * cp) {
        wait_for_older_copies<STEM_AHEAD - 1>();
        __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
        if (line + STEM_AHEAD < piece.lines)
            reader.copy(a, line + STEM_AHEAD + 2);
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
                    writer.take(v, to + place * cp);
            }
        }
    }
}

/* Grid: (blocks, tiles of c_out). */
template <bool APPLY>
__global__ void __launch_bounds__(CONV_THREADS, 2) stem_kernel(const __grid_constant__ stem_arguments a)
{
    char *shared = dynamic_shared();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block_channel = blockIdx.y * STEM_CHANNELS;
    int half = warp % stem_shape::WARPS_N, channel = block_channel + half * stem_shape::CHANNELS + lane % 4 * 8;
    tile_share share = share_of_block(a.cut, blockIdx.x);
    /* Weights are older than the kernel before: they travel while that one ends. */
    stem_weights weights;
    load_weights(a.weights + blockIdx.y * (STEM_PRODUCTS * STEM_CHANNELS * 32) + half * (stem_shape::CHANNELS * 32) +
                     lane * 16,
                 weights);
    wait_for_kernel_before();
    if (a.hurries && !a.tickets)
        start_kernel_after();
    stem_writer<APPLY> writer(a.sink, share.group, channel);
    int all = a.cut.blocks[share.group] * stem_shape::WARPS_M, number = share.row * stem_shape::WARPS_M + warp / 2;
    int next = (int)((long long)share.tiles * number / all), end = (int)((long long)share.tiles * (number + 1) / all);
    while (next < end) {
        int strip = next / a.cut.out_h, row = next - strip * a.cut.out_h, image = strip / a.cut.tiles_x;
        int left = a.cut.out_h - row < end - next ? a.cut.out_h - row : end - next;
        stem_piece piece = {group_begin(a.cut.groups, share.group) + image, row,
                            (strip - image * a.cut.tiles_x) * STEM_POSITIONS, left};
        if (piece.column + STEM_POSITIONS <= a.cut.out_w)
            run_piece<true>(a, piece, shared_address(shared) + warp * STEM_WARP_BYTES, channel, weights, writer);
        else
            run_piece<false>(a, piece, shared_address(shared) + warp * STEM_WARP_BYTES, channel, weights, writer);
        next += left;
    }
    writer.write(a, share, block_channel, shared);
}

bool rc_cuda_stem_forward(rc_cuda *cuda, const rc_conv *conv, const value_source &source, const forward_sink &sink,
                          const rc_tensor *y, const float *weight)
{
    axis_taps taps;
    bool plain = source.what == PENDING_NOTHING && !source.x.fill;
    bool simple = !sink.apply || (!sink.y.skip && sink.y.act == RC_ACT_RELU);
    if (!rc_cuda_is_first_layer(conv) || !plain || !simple || !rc_cuda_forward_taps(conv, &taps))
        return false;
    stem_arguments *a = held_launch<stem_arguments>::begin(cuda);
    a->x = source.x.raw;
    a->sink = sink;
    tile_cut *cut = &a->cut;
    cut->groups = view_groups(y);
    rc_cuda_set_maps(cut, conv, true, &taps, 1);
    cut->images = 1;
    cut->tiles_y = cut->out_h;
    cut->tiles_x = (cut->out_w + STEM_POSITIONS - 1) / STEM_POSITIONS;
    int rows = rc_cuda_partial_rows(y->n * cut->out_h * cut->out_w), blocks = 2 * cuda->multiprocessors;
    blocks = blocks < rows ? blocks : rows;
    blocks = rc_cuda_deal_tiles(cut, blocks > cut->groups.count ? blocks : cut->groups.count);
    conv_form form;
    rc_cuda_set_form(conv, true, &taps, &form);
    form.chunk_c = 8;
    form.chunks = 1;
    form.tile_c = STEM_CHANNELS;
    form.tiles = conv->c_out / STEM_CHANNELS;
    held_launch<stem_arguments>::hold(cuda, "conv_forward", sink.apply ? stem_kernel<true> : stem_kernel<false>,
                                      CONV_THREADS, form, weight, dim3((unsigned)blocks, (unsigned)form.tiles),
                                      STEM_SHARED);
    return true;
}
