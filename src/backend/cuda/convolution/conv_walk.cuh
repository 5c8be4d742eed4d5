/* How warps walk (conv_walk.cu, conv_walk_weight.cu), what they read, and what they do with results. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_WALK_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_WALK_CUH

#include "backend/cuda/convolution/conv_sink.cuh"
#include "backend/cuda/convolution/conv_tile.cuh"

enum { WALK_CHANNELS = 16 };

enum {
    WALK_POSITIONS = 32, /* of a line */
    WALK_STRETCH = 512,  /* bytes of a line that the lanes of a warp have at once */
    WALK_PIXEL = WALK_CHANNELS * 2,
    SOURCE_LINE = (WALK_POSITIONS + 2) * WALK_PIXEL,
    SINK_LINE = WALK_POSITIONS * WALK_PIXEL,
    WALK_TILE = 16 * WALK_PIXEL, /* the positions of a product */
    WALK_VECTORS = 2,            /* of a pixel, and of a lane in a line */
    WALK_BLOCKS = 2,             /* of a multiprocessor */
    WALK_THREADS = CONV_WARPS * 32
};

/* Is it such a layer? Channels count with those that are padded. */
static inline bool is_walked(const rc_conv *conv)
{
    return conv->k == 3 && conv->stride == 1 && conv->pad == 1 && conv->up == 1 && !conv->transposed &&
           conv->oh == conv->h && conv->ow == conv->w && conv->w % WALK_POSITIONS == 0 &&
           rc_cuda_padded(conv->c_in) == WALK_CHANNELS && rc_cuda_padded(conv->c_out) == WALK_CHANNELS;
}

/* ---- where a warp is --------------------------------------------------------------------------------------------- */

/* Where vector `vector` of column x, counted from the one left of the strip, lies in a line: the eight rows of a matrix
 * are on different banks. */
__device__ inline unsigned place_of(int x, int vector)
{
    return (unsigned)(x * WALK_PIXEL + (vector ^ (x >> 2 & 1)) * 16);
}

__device__ inline void settle(unsigned &value)
{
    asm("" : "+r"(value));
}

/* A share of all lines, cut into pieces: `lines` lines of one strip. */
struct walk_piece {
    int image, row, column, lines; /* row: the first on the way */
};

struct walk_share {
    int next, end, first_image;
    int step; /* 1: down, -1: up */

    __device__ bool take(const tile_cut &cut, walk_piece &piece)
    {
        if (next >= end)
            return false;
        int at = step > 0 ? next : end - 1, strip = at / cut.out_h, row = at - strip * cut.out_h;
        int image = strip / cut.tiles_x, most = step > 0 ? cut.out_h - row : row + 1;
        int lines = most < end - next ? most : end - next;
        piece = {first_image + image, row, (strip - image * cut.tiles_x) * WALK_POSITIONS, lines};
        next += step > 0 ? lines : 0;
        end -= step > 0 ? 0 : lines;
        return true;
    }
};

/* What a warp of the block has of the group's lines. */
__device__ inline walk_share share_of_warp(const tile_cut &cut, const tile_share &share, int step)
{
    int all = cut.blocks[share.group] * CONV_WARPS, number = share.row * CONV_WARPS + threadIdx.x / 32;
    walk_share walk = {(int)((long long)share.tiles * number / all), (int)((long long)share.tiles * (number + 1) / all),
                       group_begin(cut.groups, share.group), step};
    return walk;
}

/* Of a line a lane has WALK_VECTORS vectors, WALK_STRETCH bytes from one to the next. The first lanes also have one of
 * the pixel left of the strip or right of it: does that exist? */
__device__ inline bool has_beside(const tile_cut &cut, int column)
{
    int lane = threadIdx.x % 32;
    return lane < WALK_VECTORS ? column > 0 : lane < 2 * WALK_VECTORS && column + WALK_POSITIONS < cut.source_w;
}

/* V float of a table, or bits of a map. */
template <int V> __device__ inline floats<V> load_floats(unsigned address)
{
    floats<V> row;
#pragma unroll
    for (int i = 0; i < V; i += 4)
        load_shared16((unsigned *)(row.v + i), address + i * 4);
    return row;
}

__device__ inline void load_bits(uint2 &bits, unsigned address)
{
    load_shared8((unsigned *)&bits, address);
}

__device__ inline void load_bits(uint4 &bits, unsigned address)
{
    load_shared16((unsigned *)&bits, address);
}

__device__ inline void store_bits(unsigned address, const uint2 &bits)
{
    store_shared8(address, (const unsigned *)&bits);
}

__device__ inline void store_bits(unsigned address, const uint4 &bits)
{
    store_shared16(address, (const unsigned *)&bits);
}

/* ---- the two sources --------------------------------------------------------------------------------------------- */

/* The maps that a source has: the one that it is finished in, and one more. */
__device__ inline const bf16 *source_map(const value_source &source, int map)
{
    return map ? source.x.skip : source.x.raw;
}

__device__ inline const bf16 *source_map(const gradient_source &source, int map)
{
    return map ? source.dy.y.raw : source.dy.g;
}

__device__ inline bf16 *filled_map(const value_source &source)
{
    return source.x.fill;
}

__device__ inline bf16 *filled_map(const gradient_source &)
{
    return NULL;
}

/* V channels of what a reader sees, as value_source and gradient_source say. `second` is of the second map. */
template <pending WHAT, int V>
__device__ inline typename packed<V>::type finish_part(const value_source &, typename packed<V>::type first,
                                                       typename packed<V>::type second,
                                                       const floats<V> (&by)[value_source::ROWS])
{
    typename packed<V>::type rectified;
    floats<V> z = unpack<V>(first), skip = unpack<V>(second);
#pragma unroll
    for (int i = 0; i < V; i++) {
        z.v[i] = z.v[i] * by[value_source::SCALE].v[i] + by[value_source::SHIFT].v[i];
        if (WHAT == PENDING_SUM)
            z.v[i] += skip.v[i];
    }
#pragma unroll
    for (int i = 0; i < V / 2; i++)
        ((unsigned *)&rectified)[i] = pack_rectified(z.v[2 * i], z.v[2 * i + 1]);
    return WHAT == PENDING_SUM ? pack<V>(z) : rectified;
}

template <pending WHAT, int V>
__device__ inline typename packed<V>::type finish_part(const gradient_source &source, typename packed<V>::type first,
                                                       typename packed<V>::type second,
                                                       const floats<V> (&by)[gradient_source::ROWS])
{
    floats<V> dz = unpack<V>(first), raw = unpack<V>(second);
    if (source.dy.y.act != RC_ACT_NONE) {
#pragma unroll
        for (int i = 0; i < V; i++) {
            float z = raw.v[i] * by[gradient_source::SCALE].v[i] + by[gradient_source::SHIFT].v[i];
            dz.v[i] = z > 0 ? dz.v[i] : source.below * dz.v[i];
        }
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        dz.v[i] = by[gradient_source::A].v[i] * dz.v[i] +
                  (by[gradient_source::B].v[i] * raw.v[i] + by[gradient_source::C].v[i]);
    return pack<V>(dz);
}

/* What is pending, of this lane's vectors of a line: those in the strip and, if there are more, one beside it. more:
 * where the second map is, from the first on. fill: where the value of those in the strip goes; or NULL. */
template <pending WHAT, int MAPS, int VECTORS, typename Source>
__device__ inline void finish_line(const Source &source, unsigned table, unsigned first, unsigned side, bool beside,
                                   unsigned more, bf16 *fill)
{
    constexpr int V = Source::ROWS > 2 ? 4 : 8; /* registers have no room for more coefficients at once */
    typedef typename packed<V>::type vector;
    /* Lanes 128 bytes apart have the two parts of a vector in turn, or they would meet in a bank. */
    unsigned turn = V == 8 ? 0 : threadIdx.x / 8 % 2 * 8;
#pragma unroll
    for (int part = 0; part < 8; part += V) {
        unsigned begin = turn ^ (unsigned)(part * 2); /* bytes */
        floats<V> by[Source::ROWS];
#pragma unroll
        for (int i = 0; i < Source::ROWS; i++)
            by[i] = load_floats<V>(table + i * WALK_CHANNELS * 4 + begin * 2);
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            if (i == WALK_VECTORS && !beside)
                continue;
            unsigned mine = (i == WALK_VECTORS ? side : first + i * WALK_STRETCH) + begin;
            vector map[2] = {};
            load_bits(map[0], mine);
            if (MAPS == 2)
                load_bits(map[1], mine + more);
            vector value = finish_part<WHAT, V>(source, map[0], map[1], by);
            store_bits(mine, value);
            if (i < WALK_VECTORS && fill)
                *(vector *)(fill + i * WALK_STRETCH / 2 + begin / 2) = value;
        }
    }
}

/* ---- what becomes of four channels of a pixel -------------------------------------------------------------------- */

/* Rows of the sink's table, of this lane's channels. */
__device__ inline floats<4> sink_row(unsigned table, int row)
{
    return load_floats<4>(table + row * (WALK_CHANNELS * 4));
}

/* Forward: raw, with its sums. */
struct takes_sums {
    static constexpr int MAPS = 0;
    typedef forward_sink sink;
    floats<4> center;

    __device__ takes_sums(const forward_sink &, unsigned table) : center(sink_row(table, ROW_CENTER))
    {
    }

    static __device__ const bf16 *map(const forward_sink &, int)
    {
        return NULL;
    }

    static __device__ bf16 *results(const forward_sink &s)
    {
        return s.raw;
    }

    __device__ uint2 take(const forward_sink &, floats<4> v, const uint2 *, lane_sums<4> &sums) const
    {
        uint2 bits = pack<4>(v);
        v = unpack<4>(bits); /* sums are of what readers will see */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float s = v.v[i] - center.v[i];
            sums.first.v[i] += s;
            sums.second.v[i] += s * s;
        }
        return bits;
    }
};

/* Forward: the finished value. */
template <bool SKIP> struct applies {
    static constexpr int MAPS = SKIP;
    typedef forward_sink sink;
    floats<4> scale, shift;

    __device__ applies(const forward_sink &, unsigned table)
        : scale(sink_row(table, ROW_SCALE)), shift(sink_row(table, ROW_SHIFT))
    {
    }

    static __device__ const bf16 *map(const forward_sink &s, int)
    {
        return s.y.skip;
    }

    static __device__ bf16 *results(const forward_sink &s)
    {
        return s.raw;
    }

    __device__ uint2 take(const forward_sink &s, floats<4> v, const uint2 *more, lane_sums<4> &) const
    {
        floats<4> skip = unpack<4>(more[0]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float z = v.v[i] * scale.v[i] + (SKIP ? shift.v[i] + skip.v[i] : shift.v[i]);
            v.v[i] = fmaxf(z, s.below * z);
        }
        return pack<4>(v);
    }
};

/* Data gradient. The slope that its sums need comes from raw. */
template <bool ADD, bool SUMS> struct gives_back {
    static constexpr int MAPS = (int)ADD + (int)SUMS;
    typedef gradient_sink sink;
    floats<4> center, scale, shift;

    __device__ gives_back(const gradient_sink &s, unsigned table)
    {
        if (SUMS)
            center = sink_row(table, ROW_CENTER);
        if (SUMS && s.slopes) {
            scale = sink_row(table, ROW_SCALE);
            shift = sink_row(table, ROW_SHIFT);
        }
    }

    static __device__ const bf16 *map(const gradient_sink &s, int map)
    {
        return ADD && map == 0 ? s.addend : s.y.raw;
    }

    static __device__ bf16 *results(const gradient_sink &s)
    {
        return s.dx;
    }

    __device__ uint2 take(const gradient_sink &s, floats<4> v, const uint2 *more, lane_sums<4> &sums) const
    {
        if (ADD) {
            floats<4> old = unpack<4>(more[0]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                v.v[i] += old.v[i];
        }
        uint2 bits = pack<4>(v);
        if (!SUMS)
            return bits;
        floats<4> raw = unpack<4>(more[ADD]);
        v = unpack<4>(bits);
        if (s.slopes) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                v.v[i] = raw.v[i] * scale.v[i] + shift.v[i] > 0 ? v.v[i] : s.below * v.v[i];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums.first.v[i] += v.v[i];
            sums.second.v[i] += v.v[i] * (raw.v[i] - center.v[i]);
        }
        return bits;
    }
};

#endif
