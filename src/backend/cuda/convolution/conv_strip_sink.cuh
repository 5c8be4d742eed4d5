/* What becomes of the results of conv_strip.cuh: the sinks of conv_sink.cuh, with the sums where products leave them.
 * A lane has two channels there, and up to 32 positions of each: coefficients are two registers, and sums over
 * positions need no other lane. Results become bf16 before they change hands through shared memory, so that whole lines
 * of the map are written. What a sink reads comes the other way, by the same space.
 *
 * A piece is what a warp has of 16 positions. Lane 4 g + t has four pairs of neighbouring positions, 2t and 2t + 1 of
 * the first or the last eight, of one of its two channels:
 *     pair 0: channel g, first     1: channel g + 8, first     2: channel g, last     3: channel g + 8, last */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_SINK_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_STRIP_SINK_CUH

#include "backend/cuda/convolution/conv_sink.cuh"
#include "backend/cuda/convolution/conv_strip.h"
#include "backend/cuda/product/wgmma.cuh"

enum { STRIP_PIECE_BYTES = 16 * WGMMA_ROW };

/* The first of the two channels of a lane, eight apart. */
__device__ inline int lane_channel()
{
    return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

/* A value of a pair. */
__device__ inline float half_of_pair(unsigned pair, int half)
{
    return __uint_as_float(half ? pair & 0xffff0000u : pair << 16);
}

/* Coefficients of the two channels of a lane: of rows (SINK_ROWS, STRIP_N) the one from the lane's first channel on; or
 * from memory. */
struct strip_row_pair {
    float of[2];

    __device__ explicit strip_row_pair(const float *from) : of{from[0], from[8]}
    {
    }

    __device__ strip_row_pair(const float *table, int row) : of{table[row * STRIP_N], table[row * STRIP_N + 8]}
    {
    }
};

/* What a lane adds up for its two channels. */
struct strip_sums {
    float first[2], second[2];
};

/* Each thread has a position. */
__device__ inline void list_place(int pixel, strip_places &places)
{
    unsigned exist = __ballot_sync(0xffffffffu, pixel >= 0);
    places.pixel[threadIdx.x / 128][threadIdx.x % 16][threadIdx.x % 128 / 16] = pixel;
    if (threadIdx.x % 32 == 0)
        places.exist[threadIdx.x / 32] = exist;
}

/* Shared memory for 64 channels of the positions of four warps, a row of 128 bytes for each as in operand.cuh. A thread
 * copies eight channels of every sixteenth position; a warp takes 16 channels, piece by piece. */
template <int WIDTH> struct strip_space {
    static constexpr int PIECES = WIDTH / 16;
    unsigned line, piece; /* of this thread, and of this lane */
    int pixel[PIECES];    /* of the thread's positions in the map of results; -1: none */
    unsigned exists[4];   /* bit i: has position i of 32 a pixel? From the lane's first position on. */

    /* space: of all positions of a tile. */
    __device__ strip_space(unsigned space, const strip_places &places)
    {
        int four = threadIdx.x / 128, position = threadIdx.x % 128 / 8, lane = threadIdx.x % 32;
        int row = lane / 16 * 8 + lane % 8, channels = threadIdx.x % 128 / 32 * 2 + lane / 8 % 2;
        space += four * WIDTH * WGMMA_ROW;
        line = space + position * WGMMA_ROW + (threadIdx.x % 8 ^ position % 8) * 16;
        piece = space + row * WGMMA_ROW + (channels ^ row % 8) * 16;
#pragma unroll
        for (int i = 0; i < PIECES; i += 4) {
            uint4 four_of = *(const uint4 *)(places.pixel[four][position] + i);
            const int of[4] = {(int)four_of.x, (int)four_of.y, (int)four_of.z, (int)four_of.w};
#pragma unroll
            for (int j = 0; j < 4 && i + j < PIECES; j++)
                pixel[i + j] = of[j];
        }
        uint4 bits = *(const uint4 *)(places.exist + four * 4);
        exists[0] = bits.x >> lane % 4 * 2;
        exists[1] = bits.y >> lane % 4 * 2;
        exists[2] = bits.z >> lane % 4 * 2;
        exists[3] = bits.w >> lane % 4 * 2;
    }

    /* Is there a pixel at a position of a pair? */
    __device__ bool has(int p, int pair, int half) const
    {
        return (exists[p / 2] & 1u << (p % 2 * 16 + pair / 2 * 8 + half)) != 0;
    }

    /* The thread's first channel, of 64. */
    __device__ static int vector()
    {
        return threadIdx.x % 8 * 8;
    }

    /* A pixel of a map of c channels: bytes from its first pixel on. */
    __device__ size_t offset(int i, int c) const
    {
        return (size_t)(unsigned)(pixel[i] > 0 ? pixel[i] : 0) * (unsigned)(c * 2);
    }

    /* Brings what a map of c channels has at these pixels, 0 where there is none. The four warps call it together when
     * none of them reads the space. */
    __device__ void bring(const bf16 *map, int c, int channel) const
    {
        const char *from = (const char *)(map + channel + vector());
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            copy16_async_if(pixel[i], line + i * STRIP_PIECE_BYTES, from + offset(i, c));
        wait_for_copies();
        join_four_warps();
    }

    /* The same of a skip, whose pixels and channels may be others than the result's. */
    __device__ void bring_skip(const tensor_view<bf16> &y, int channel) const
    {
        if (y.skip_stride == 1 && y.skip_cp == y.cp && y.skip_offset == 0) {
            bring(y.skip, y.cp, channel);
            return;
        }
        int from = channel + vector() - y.skip_offset;
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int row = pixel[i] / y.w, image = row / y.h;
            int at = (image * y.skip_h + (row - image * y.h) * y.skip_stride) * y.skip_w +
                     (pixel[i] - row * y.w) * y.skip_stride;
            at = pixel[i] >= 0 && from >= 0 && from < y.skip_cp ? at * y.skip_cp + from : -1;
            copy16_async_if(at, line + i * STRIP_PIECE_BYTES, y.skip + (unsigned)(at > 0 ? at : 0));
        }
        wait_for_copies();
        join_four_warps();
    }

    __device__ void load(unsigned (&pairs)[4], int p) const
    {
        load_matrices_transposed(pairs, piece + p * STRIP_PIECE_BYTES);
    }

    __device__ void store(const unsigned *pairs, int p) const
    {
        store_matrices_transposed(piece + p * STRIP_PIECE_BYTES, pairs);
    }

    /* Writes what the four warps have stored to a map. */
    __device__ void write(bf16 *map, int c, int channel) const
    {
        char *to = (char *)(map + channel + vector());
        join_four_warps();
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            unsigned bits[4];
            load_shared16(bits, line + i * STRIP_PIECE_BYTES);
            store16_if(pixel[i], to + offset(i, c), bits);
        }
    }
};

/* Adds what has been brought. */
template <int WIDTH> __device__ inline void add_brought(const strip_space<WIDTH> &space, float (&v)[WIDTH / 2])
{
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned pairs[4];
        space.load(pairs, p);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[p * 8 + i] += half_of_pair(pairs[i / 2], i % 2);
    }
    __syncwarp();
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Applies normalisation and skip, and the activation if it is more than being cut at 0. */
template <int WIDTH>
__device__ inline void finish_results(const forward_sink &sink, float (&v)[WIDTH / 2], const strip_space<WIDTH> &space,
                                      const float *table, int channel)
{
    const tensor_view<bf16> &y = sink.y;
    strip_row_pair scale(table, ROW_SCALE), shift(table, ROW_SHIFT);
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++)
        v[i] = v[i] * scale.of[i / 2 % 2] + shift.of[i / 2 % 2];
    if (y.skip) {
        space.bring_skip(y, channel);
        add_brought(space, v);
    }
    if (is_curved(y.act)) {
#pragma unroll
        for (int i = 0; i < WIDTH / 2; i++)
            v[i] = activate_curved(y.act, v[i]);
    } else if (sink.below != 0) {
#pragma unroll
        for (int i = 0; i < WIDTH / 2; i++)
            v[i] = fmaxf(v[i], sink.below * v[i]);
    }
}

template <bool CUT, int WIDTH>
__device__ inline void store_results(const float (&v)[WIDTH / 2], const strip_space<WIDTH> &space)
{
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned pairs[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float low = v[p * 8 + 2 * i], high = v[p * 8 + 2 * i + 1];
            pairs[i] = CUT ? pack_rectified(low, high) : pack_bf16(low, high);
        }
        space.store(pairs, p);
    }
}

/* Stores the sums of products as they are. */
template <int WIDTH>
__device__ inline void store_raw(const forward_sink &sink, const float (&v)[WIDTH / 2], const strip_space<WIDTH> &space,
                                 const float *table, strip_sums &sums)
{
    strip_row_pair center(table, ROW_CENTER);
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned pairs[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[i] = pack_bf16(v[p * 8 + 2 * i], v[p * 8 + 2 * i + 1]);
        space.store(pairs, p);
        if (!sink.partial)
            continue;
#pragma unroll
        for (int i = 0; i < 8; i++) { /* of what readers will see */
            int pair = i / 2;
            float s = half_of_pair(pairs[pair], i % 2) - center.of[pair % 2];
            if (space.has(p, pair, i % 2)) {
                sums.first[pair % 2] += s;
                sums.second[pair % 2] += s * s;
            }
        }
    }
}

/* Makes the value of raw, as the kernels that read raw do. skip: what has been brought; CUT: ReLU. */
template <bool CUT>
__device__ inline void finish_pairs(const forward_sink &sink, unsigned *pairs, const unsigned (&skip)[4],
                                    const strip_row_pair &scale, const strip_row_pair &shift)
{
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
        float z[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            z[half] = half_of_pair(pairs[pair], half) * scale.of[pair % 2] + shift.of[pair % 2];
            z[half] += half_of_pair(skip[pair], half);
            z[half] = CUT ? z[half] : fmaxf(z[half], sink.below * z[half]);
        }
        pairs[pair] = CUT ? pack_rectified(z[0], z[1]) : pack_bf16(z[0], z[1]);
    }
}

/* Raw has been written, and lies in the space: writes its value, too. */
template <int WIDTH>
__device__ inline void write_values(const forward_sink &sink, const strip_space<WIDTH> &space, const float *table,
                                    int channel)
{
    unsigned pairs[WIDTH / 16][4];
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++)
        space.load(pairs[p], p);
    join_four_warps(); /* the space is free */
    if (sink.y.skip)
        space.bring_skip(sink.y, channel);
    strip_row_pair scale(table, ROW_SCALE), shift(table, ROW_SHIFT);
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned skip[4] = {};
        if (sink.y.skip)
            space.load(skip, p);
        if (sink.below == 0)
            finish_pairs<true>(sink, pairs[p], skip, scale, shift);
        else
            finish_pairs<false>(sink, pairs[p], skip, scale, shift);
        __syncwarp(); /* nobody reads this piece of the space any more */
        space.store(pairs[p], p);
    }
    space.write(sink.value, sink.y.cp, channel);
}

/* v: the sums of a lane. table: of the sink, from the lane's first channel on; channel: the first of the 64. */
template <int WIDTH>
__device__ inline void take_results(const forward_sink &sink, float (&v)[WIDTH / 2], const strip_space<WIDTH> &space,
                                    const float *table, int channel, strip_sums &sums)
{
    if (!sink.apply) {
        store_raw(sink, v, space, table, sums);
    } else {
        finish_results(sink, v, space, table, channel);
        if (sink.below == 0)
            store_results<true>(v, space);
        else
            store_results<false>(v, space);
    }
    space.write(sink.raw, sink.y.cp, channel);
    if (sink.value)
        write_values(sink, space, table, channel);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* Adds a dz of a channel, by its slope or where its slope is 1. */
__device__ inline void add_gradient(strip_sums &sums, int row, bool exists, float dz, float raw, bool passes)
{
    if (exists && passes) {
        sums.first[row] += dz;
        sums.second[row] += dz * raw;
    }
}

__device__ inline void add_gradient(strip_sums &sums, int row, bool exists, float dz, float raw, float slope)
{
    add_gradient(sums, row, exists, dz * slope, raw, true);
}

/* Brings raw, and adds dz and dz (raw - mean); slope: of z, as add_gradient() takes it. */
template <int WIDTH, typename Slope>
__device__ inline void add_gradients(const gradient_sink &sink, const unsigned (&pairs)[WIDTH / 4],
                                     const strip_space<WIDTH> &space, const float *table, int channel, strip_sums &sums,
                                     Slope slope)
{
    strip_row_pair mean(table, ROW_CENTER), scale(table, ROW_SCALE), shift(table, ROW_SHIFT);
    space.bring(sink.y.raw, sink.y.cp, channel);
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned brought[4];
        space.load(brought, p);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int pair = i / 2, half = i % 2, row = pair % 2;
            float raw = half_of_pair(brought[pair], half), dz = half_of_pair(pairs[p * 4 + pair], half);
            add_gradient(sums, row, space.has(p, pair, half), dz, raw - mean.of[row],
                         slope(raw * scale.of[row] + shift.of[row]));
        }
    }
    __syncwarp();
}

/* Brings the values of x, and makes dz of the gradient. */
template <int WIDTH>
__device__ inline void multiply_slopes(const gradient_sink &sink, const unsigned (&pairs)[WIDTH / 4],
                                       unsigned (&dz)[WIDTH / 4], const strip_space<WIDTH> &space, int channel)
{
    unsigned below = pack_bf16(sink.below, sink.below);
    space.bring(sink.y.stored, sink.y.cp, channel);
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned brought[4];
        space.load(brought, p);
#pragma unroll
        for (int i = p * 4; i < p * 4 + 4; i++) {
            unsigned above = positive_halves(brought[i % 4]);
            dz[i] = (pairs[i] & above) | (multiply_halves(pairs[i], below) & ~above);
        }
    }
    join_four_warps(); /* the space is free again */
}

/* Brings raw, and makes dL/draw of the gradient. */
template <int WIDTH>
__device__ inline void finish_gradients(const gradient_sink &sink, unsigned (&pairs)[WIDTH / 4],
                                        const strip_space<WIDTH> &space, const float *table, int channel)
{
    int first = channel + lane_channel();
    space.bring(sink.y.raw, sink.y.cp, channel);
    strip_row_pair scale(table, ROW_SCALE), shift(table, ROW_SHIFT);
    strip_row_pair a(sink.by[0] + first), b(sink.by[1] + first), c(sink.by[2] + first);
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++) {
        unsigned brought[4];
        space.load(brought, p);
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            float draw[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = pair % 2;
                float raw = half_of_pair(brought[pair], half), dz = half_of_pair(pairs[p * 4 + pair], half);
                dz = raw * scale.of[row] + shift.of[row] > 0 ? dz : sink.below * dz;
                draw[half] = a.of[row] * dz + (b.of[row] * raw + c.of[row]);
            }
            pairs[p * 4 + pair] = pack_bf16(draw[0], draw[1]);
        }
    }
    __syncwarp();
}

template <int WIDTH>
__device__ inline void write_gradients(bf16 *to, const unsigned (&pairs)[WIDTH / 4], const strip_space<WIDTH> &space,
                                       int c, int channel)
{
#pragma unroll
    for (int p = 0; p < WIDTH / 16; p++)
        space.store(pairs + p * 4, p);
    space.write(to, c, channel);
}

template <int WIDTH>
__device__ inline void take_results(const gradient_sink &sink, float (&v)[WIDTH / 2], const strip_space<WIDTH> &space,
                                    const float *table, int channel, strip_sums &sums)
{
    const tensor_view<bf16> &y = sink.y;
    float below = sink.below;
    unsigned pairs[WIDTH / 4];
    if (sink.addend) {
        space.bring(sink.addend, y.cp, channel);
        add_brought(space, v);
        join_four_warps(); /* the space is free again */
    }
#pragma unroll
    for (int i = 0; i < WIDTH / 4; i++)
        pairs[i] = pack_bf16(v[2 * i], v[2 * i + 1]);
    if (sink.partial && !sink.slopes) {
        add_gradients(sink, pairs, space, table, channel, sums, [](float) { return true; });
    } else if (sink.partial && is_curved(y.act)) {
        add_gradients(sink, pairs, space, table, channel, sums, [&](float z) { return slope_of_curved(y.act, z); });
    } else if (sink.partial && y.stored) {
        unsigned dz[WIDTH / 4];
        multiply_slopes(sink, pairs, dz, space, channel);
        add_gradients(sink, dz, space, table, channel, sums, [](float) { return true; });
    } else if (sink.partial && below == 0) {
        add_gradients(sink, pairs, space, table, channel, sums, [](float z) { return z > 0; });
    } else if (sink.partial) {
        add_gradients(sink, pairs, space, table, channel, sums, [&](float z) { return z > 0 ? 1.0f : below; });
    }
    if (sink.draw != sink.dx)
        write_gradients(sink.dx, pairs, space, y.cp, channel);
    if (!sink.draw)
        return;
    if (sink.draw != sink.dx)
        join_four_warps(); /* the space is free again */
    finish_gradients(sink, pairs, space, table, channel);
    write_gradients(sink.draw, pairs, space, y.cp, channel);
}

#endif
