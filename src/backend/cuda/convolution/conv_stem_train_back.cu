/* The way back through the pooling behind a first layer and through the layer itself, to the gradients of its weights
 * and of its normalisation (conv_stem_train.h). dz is never in memory: it is made of the gradient of the windows.
 *
 * As in conv_stem_weight.cu, every warp works for itself and walks down a strip of 16 columns, of which two warps share
 * the channels. It takes two lines at a time, those of a row of windows: 16 positions of a line are the inner dimension
 * of its products, 32 channels of dz by eight of the image at each tap, and by ones, which gives the sum of dz. What it
 * reads travels to rings of its own (cp.async), ROWS_AHEAD rows of windows before it is used.
 *
 *     row g of product m: channel 4 g + 2 m     row g + 8: channel 4 g + 2 m + 1     lane = 4 g + t
 *     positions of lane 4 g + t: 2 t, 2 t + 1, 2 t + 8, 2 t + 9
 *
 * The four pixels of window (y, x), (2 y, 2 x) to (2 y + 1, 2 x + 1), are in its reach and in that of the next ones
 * below and to the right. So a lane reads windows t, t + 1, t + 4 and t + 5 of nine, four channels of each; in the ring
 * vectors of eight channels change places so that no two lanes read the same bank. */
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/conv_splits.cuh"
#include "backend/cuda/convolution/conv_stem.h"
#include "backend/cuda/convolution/conv_stem_train.h"

enum {
    BACK_SHARES = 8, /* of the rows, for a block */
    BACK_HALVES = 2, /* of the channels */
    BACK_WARPS = BACK_SHARES * BACK_HALVES,
    BACK_THREADS = BACK_WARPS * 32,
    BACK_POSITIONS = 16,
    BACK_HALF = STEM_CHANNELS / BACK_HALVES,
    BACK_TAPS = GRAM_TAPS + 1, /* the last: ones */
    ROWS_AHEAD = 2,
    ROWS_IN_RING = ROWS_AHEAD + 2,  /* two in use and those on their way: a power of two, as the next */
    PAIRS_IN_RING = ROWS_AHEAD + 2, /* of lines of the image */
    ROW_WINDOWS = BACK_POSITIONS / 2 + 1,
    ROW_GRADIENTS = ROW_WINDOWS * BACK_HALF * 2, /* bytes, and then of the taps */
    ROW_BYTES = ROW_GRADIENTS + ROW_WINDOWS * BACK_HALF / 2,
    LINE_BYTES = (BACK_POSITIONS + 2) * 16,
    BACK_WARP_BYTES = ROWS_IN_RING * ROW_BYTES + PAIRS_IN_RING * 2 * LINE_BYTES,
    BACK_SHARED = BACK_WARPS * BACK_WARP_BYTES,
    BACK_SUMS = 2 * BACK_TAPS * 4, /* of a lane */
    BACK_ELEMENTS = BACK_TAPS * 8  /* of a channel */
};
static_assert((int)BACK_SHARED >= BACK_WARPS / 2 * BACK_SUMS * 32 * 4, "add_splits has room");

struct stem_back_arguments {
    tensor_view<bf16> x; /* (n, 2 oh, 2 ow, 8) */
    const bf16 *g;       /* (n, oh, ow, cp) */
    const unsigned *taps;
    stem_cut cut;
    int oh, ow, cp, strips;
    float *sums; /* (blocks, taps, cp, 8) */
};

/* Where a warp works: `rows` rows of windows from `row` on. column: the first of the image. */
struct back_piece {
    int image, row, column, rows;
};

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Eight channels of a window. Four windows later is the same place, 256 bytes further on. */
__device__ inline unsigned place_of_window(int window, int vector)
{
    return (unsigned)(window * (BACK_HALF * 2) + (vector ^ (window & 2)) * 16);
}

/* Lane l copies vector l % 4 of window l / 4, and lanes 0 to 3 those of the last window. The taps of a window are a
 * vector of lanes 4 to 12. */
template <bool FINISHED> struct back_copier {
    const stem_back_arguments &a;
    const back_piece &piece;
    char *lines;              /* the ring, from this lane's pixel on */
    unsigned to, more_to;     /* the same of its vectors, and */
    unsigned from, pixel;     /* what is copied next, in vectors: of the gradient and of the image */
    const char *more;         /* likewise */
    int more_step;            /* from row to row */
    int bytes, more_bytes;    /* 16; where there is no such window: 0 */
    bool copies_more, inside; /* inside: is the pixel a column of the image? */

    /* channel: the first of the warp's. */
    __device__ back_copier(const stem_back_arguments &all, const back_piece &of, char *shared, int channel)
        : a(all), piece(of)
    {
        int lane = threadIdx.x % 32, first = piece.column / 2, column = piece.column - 1 + lane;
        bool taps = lane >= 4;
        int second = taps ? lane - 4 : ROW_WINDOWS - 1; /* window */
        unsigned row = (unsigned)((piece.image * a.oh + piece.row) * a.ow + first), vectors = (unsigned)a.cp / 8;
        unsigned ring = shared_address(shared);
        bytes = first + lane / 4 < a.ow ? 16 : 0;
        from = (row + (unsigned)lane / 4) * vectors + (unsigned)(channel / 8 + lane % 4);
        to = ring + place_of_window(lane / 4, lane % 4);
        copies_more = lane < 4 + ROW_WINDOWS;
        more_bytes = first + second < a.ow ? 16 : 0;
        size_t at = (size_t)(row + (unsigned)second) * vectors + (size_t)channel / 8;
        more = taps ? (const char *)(a.taps + at) : (const char *)(a.g + (at + (size_t)lane) * 8);
        more_step = a.ow * a.cp * 2 / (taps ? 4 : 1);
        more_to = ring + (taps ? (unsigned)(ROW_GRADIENTS + second * 16) : place_of_window(second, lane));
        lines = shared + ROWS_IN_RING * ROW_BYTES + lane * 16;
        inside = lane < BACK_POSITIONS + 2 && (unsigned)column < (unsigned)a.x.w;
        pixel = (unsigned)((piece.image * a.x.h + 2 * piece.row - 1) * a.x.w + column);
    }

    /* Row `row` of the piece, which is the next; below the map there is nothing. */
    __device__ void copy_windows(unsigned row)
    {
        bool exists = piece.row + (int)row < a.oh;
        unsigned slot = row % ROWS_IN_RING * ROW_BYTES;
        copy16_async_part(to + slot, (const uint4 *)a.g + from, exists ? bytes : 0);
        if (copies_more)
            copy16_async_part(more_to + slot, more, exists ? more_bytes : 0);
        from += (unsigned)(a.ow * a.cp / 8);
        more += more_step;
    }

    /* Lines 2 `pair` and the one after, which are the next. Line 0 is the one above the first of the piece. */
    __device__ void copy_lines(unsigned pair)
    {
        char *at = lines + pair % PAIRS_IN_RING * (2 * LINE_BYTES);
#pragma unroll
        for (int i = 0; i < 2; i++, at += LINE_BYTES, pixel += (unsigned)a.x.w) {
            int row = 2 * (piece.row + (int)pair) - 1 + i;
            bool exists = inside && (unsigned)row < (unsigned)a.x.h;
            if (threadIdx.x % 32 >= BACK_POSITIONS + 2)
                continue;
            if (FINISHED) {
                copy16_async_part(shared_address(at), (const uint4 *)a.x.raw + pixel, exists ? 16 : 0);
                continue;
            }
            place of = place_at(a.x, piece.image, row, piece.column - 1 + (int)threadIdx.x % 32);
            *(uint4 *)at = exists ? pack8(load_value8(a.x, of, 0)) : make_uint4(0, 0, 0, 0);
        }
    }

    /* What row `row` takes beside those before it. */
    __device__ void copy(unsigned row)
    {
        if ((int)row < piece.rows) {
            copy_windows(row + 1);
            copy_lines(row + 1);
        }
        close_copies();
    }
};

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Two bf16 in a word. */
__device__ inline __nv_bfloat162 halves(unsigned word)
{
    return *(const __nv_bfloat162 *)&word;
}

__device__ inline unsigned word_of(__nv_bfloat162 pair)
{
    return *(const unsigned *)&pair;
}

/* Four channels of a window: gradients, and the taps of two channels each. Those are bits 0 to 3 or 4 to 7 of a half;
 * with other bits around them they are numbers that bf16 can compare. */
struct window_lane {
    __nv_bfloat162 g[2], tap[2];

    static constexpr unsigned AROUND = 0x43004300u;

    /* at: this lane's gradients; taps: its eight taps, of which `bytes` are the two that count. */
    __device__ window_lane(const char *at, const char *taps, unsigned bytes)
    {
        uint2 two = *(const uint2 *)at;
        unsigned mine = __byte_perm(*(const unsigned *)taps, 0, bytes);
        g[0] = halves(two.x);
        g[1] = halves(two.y);
        tap[0] = halves((mine & 0x000f000fu) | AROUND);
        tap[1] = halves((mine & 0x00f000f0u) | AROUND);
    }

    /* Adds what tap (y, x) of the window receives, in channels 2 m and 2 m + 1. */
    __device__ __nv_bfloat162 given(int m, int y, int x) const
    {
        return __hmul2(__heq2(tap[m], code(m, y, x)), g[m]);
    }

    __device__ __nv_bfloat162 add(int m, int y, int x, __nv_bfloat162 sum) const
    {
        return __hfma2(__heq2(tap[m], code(m, y, x)), g[m], sum);
    }

  private:
    __device__ static __nv_bfloat162 code(int m, int y, int x)
    {
        return halves(AROUND | (unsigned)(y * 4 + x) * (m == 0 ? 0x00010001u : 0x00100010u));
    }
};

/* Where a lane reads in a row of windows, and in a pair of lines. */
struct back_reader {
    unsigned here, right, taps, bytes;
    unsigned first, second; /* the rows of products of taps that lie side by side, and of the last of a line */

    __device__ back_reader()
    {
        int lane = threadIdx.x % 32, t = lane % 4, g = lane / 4;
        here = place_of_window(t, g / 2) + g % 2 * 8;
        right = place_of_window(t + 1, g / 2) + g % 2 * 8;
        taps = (unsigned)(ROW_GRADIENTS + t * 16 + g / 2 * 4);
        bytes = g % 2 ? 0x4341 : 0x4240; /* the upper or the lower of each half; 4: zeros */
        first = (unsigned)(lane % 16 * 16 + (lane >= 16 ? 16 : 0));
        second = (unsigned)(lane % 16 * 16 + (lane >= 16 ? LINE_BYTES : 32));
    }

    /* Operands of the two lines of a row of windows: dz of a lane's positions, side by side. */
    __device__ void make_operands(const char *row, const char *below, unsigned (&upper)[2][4],
                                  unsigned (&lower)[2][4]) const
    {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int further = half * 4 * BACK_HALF * 2, tap = half * 4 * 16;
            const window_lane one(row + here + further, row + taps + tap, bytes);
            const window_lane next(row + right + further, row + taps + tap + 16, bytes);
            const window_lane under(below + here + further, below + taps + tap, bytes);
            const window_lane last(below + right + further, below + taps + tap + 16, bytes);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                unsigned left = word_of(one.given(m, 1, 1)), beside = word_of(next.add(m, 1, 0, one.given(m, 1, 2)));
                upper[m][half * 2] = __byte_perm(left, beside, 0x5410);
                upper[m][half * 2 + 1] = __byte_perm(left, beside, 0x7632);
                left = word_of(under.add(m, 0, 1, one.given(m, 2, 1)));
                beside = word_of(last.add(m, 0, 0, under.add(m, 0, 2, next.add(m, 2, 0, one.given(m, 2, 2)))));
                lower[m][half * 2] = __byte_perm(left, beside, 0x5410);
                lower[m][half * 2 + 1] = __byte_perm(left, beside, 0x7632);
            }
        }
    }
};

/* address: of two taps at once, of which lanes 16 to 31 have the second, in their order; the last is alone. */
__device__ inline void multiply_line(const unsigned (&address)[5], const unsigned (&operand)[2][4],
                                     float (&sum)[2][BACK_TAPS][4])
{
    const unsigned ones[2] = {0x3f803f80u, 0x3f803f80u};
#pragma unroll
    for (int tap = 0; tap < GRAM_TAPS; tap += 2) {
        unsigned b[4];
        load_matrices_transposed(b, address[tap / 2]);
#pragma unroll
        for (int m = 0; m < 2; m++) {
            multiply_add(sum[m][tap], operand[m], b);
            multiply_add(sum[m][tap + 1], operand[m], tap + 1 < GRAM_TAPS ? b + 2 : ones);
        }
    }
}

/* pair: the line above the two lines of results, and the first of these; next: the second, and the one below. */
__device__ inline void multiply_lines(const back_reader &reader, unsigned pair, unsigned next,
                                      const unsigned (&upper)[2][4], const unsigned (&lower)[2][4],
                                      float (&sum)[2][BACK_TAPS][4])
{
    int lane = threadIdx.x % 32;
    unsigned above = pair + reader.first, below = next + reader.first, last = next + lane % 16 * 16 + 32;
    const unsigned of_upper[5] = {above, pair + reader.second, above + LINE_BYTES + 16, below, last};
    multiply_line(of_upper, upper, sum);
    unsigned corner = lane < 16 ? pair + reader.second + LINE_BYTES : below - 16;
    const unsigned of_lower[5] = {above + LINE_BYTES, corner, below + 16, below + LINE_BYTES, last + LINE_BYTES};
    multiply_line(of_lower, lower, sum);
}

template <bool FINISHED>
__device__ inline void add_piece(const stem_back_arguments &a, const back_piece &piece, char *shared, int channel,
                                 const back_reader &reader, float (&sum)[2][BACK_TAPS][4])
{
    back_copier<FINISHED> copier(a, piece, shared, channel);
    unsigned lines = shared_address(shared) + ROWS_IN_RING * ROW_BYTES;
    __syncwarp(); /* nobody reads the piece before any more */
    copier.copy_windows(0);
    copier.copy_lines(0);
#pragma unroll
    for (unsigned row = 0; row < ROWS_AHEAD; row++)
        copier.copy(row);
#pragma unroll 1
    for (unsigned row = 0; (int)row < piece.rows; row++) {
        unsigned upper[2][4], lower[2][4];
        wait_for_older_copies<ROWS_AHEAD - 1>();
        __syncwarp(); /* the row is there, of all lanes, and nobody reads the row before */
        copier.copy(row + ROWS_AHEAD);
        reader.make_operands(shared + row % ROWS_IN_RING * ROW_BYTES, shared + (row + 1) % ROWS_IN_RING * ROW_BYTES,
                             upper, lower);
        multiply_lines(reader, lines + row % PAIRS_IN_RING * (2 * LINE_BYTES),
                       lines + (row + 1) % PAIRS_IN_RING * (2 * LINE_BYTES), upper, lower, sum);
    }
}

/* Grid: (blocks, tiles of channels). FINISHED: nothing is pending of x. */
template <bool FINISHED>
__global__ static void __launch_bounds__(BACK_THREADS, 1)
    stem_back_kernel(const __grid_constant__ stem_back_arguments a)
{
    char *shared = dynamic_shared();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp / BACK_HALVES, half = warp % BACK_HALVES;
    int channel = blockIdx.y * STEM_CHANNELS + half * BACK_HALF;
    stem_share share = share_of_stem(a.cut, blockIdx.x);
    int first = group_begin(a.cut.groups, share.group);
    long long rows = (long long)(a.cut.groups.end[share.group] - first) * a.strips * a.oh;
    int all = share.blocks * BACK_SHARES, number = share.number * BACK_SHARES + part;
    int next = (int)(rows * number / all), end = (int)(rows * (number + 1) / all);
    float sum[2][BACK_TAPS][4] = {};
    back_reader reader;
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    while (next < end) {
        int strip = next / a.oh, row = next - strip * a.oh, left = a.oh - row < end - next ? a.oh - row : end - next;
        back_piece piece = {first + strip / a.strips, row, strip % a.strips * BACK_POSITIONS, left};
        add_piece<FINISHED>(a, piece, shared + warp * BACK_WARP_BYTES, channel, reader, sum);
        next += left;
    }
    wait_for_copies();
    add_splits<BACK_SHARES, BACK_SUMS>(&sum[0][0][0], part, half, BACK_HALVES, (float *)shared);
    if (part > 0)
        return;
    channel += lane / 4 * 4;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int tap = 0; tap < BACK_TAPS; tap++) {
            const float *from = sum[m][tap];
            float *to = a.sums + ((size_t)(blockIdx.x * BACK_TAPS + tap) * a.cp + channel + 2 * m) * 8 + lane % 4 * 2;
            *(float2 *)to = make_float2(from[0], from[1]);
            *(float2 *)(to + 8) = make_float2(from[2], from[3]);
        }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

enum { FINISH_LANES = 12, FINISH_THREADS = FINISH_LANES * BACK_ELEMENTS };

struct stem_finish_arguments {
    stem_cut cut;
    backward_norm norm;
    const float *sums;
    const void *partial; /* G and p */
    const float *weight; /* (c, c_in, 3, 3), as its gradient */
    float *dweight;
    int c_in;
};

/* S of a group and channel, BACK_ELEMENTS numbers, in the order of blocks. */
__device__ inline void add_blocks(const stem_finish_arguments &a, int group, int channel, double *space, double *to)
{
    int lane = threadIdx.x / BACK_ELEMENTS, e = threadIdx.x % BACK_ELEMENTS, cp = a.norm.shape.cp;
    int begin = group > 0 ? a.cut.end[group - 1] : 0;
    double sum = 0;
#pragma unroll 4
    for (int block = begin + lane; block < a.cut.end[group]; block += FINISH_LANES)
        sum += (double)a.sums[((size_t)(block * BACK_TAPS + e / 8) * cp + channel) * 8 + e % 8];
    __syncthreads();
    space[threadIdx.x] = sum;
    __syncthreads();
    if (lane > 0)
        return;
    sum = 0;
    for (int i = 0; i < FINISH_LANES; i++)
        sum += space[i * BACK_ELEMENTS + e];
    to[e] = sum;
}

/* Grid: channels. */
__global__ static void __launch_bounds__(FINISH_THREADS)
    stem_finish_kernel(const __grid_constant__ stem_finish_arguments a)
{
    __shared__ double space[FINISH_THREADS], s[RC_MAX_GROUPS][BACK_ELEMENTS], w[GRAM_SIDE];
    __shared__ double sums[RC_MAX_GROUPS][2], by[RC_MAX_GROUPS][3];
    int channel = blockIdx.x, taken = GRAM_TAPS * a.c_in, groups = a.cut.groups.count;
    const float *weight = a.weight + (size_t)channel * taken;
    backward_norm::known known = a.norm.know(channel);
    if (threadIdx.x < GRAM_SIDE)
        w[threadIdx.x] = stem_weight(weight, a.c_in, threadIdx.x);
    begin_after_kernel_before();
    for (int group = 0; group < groups; group++)
        add_blocks(a, group, channel, space, s[group]);
    __syncthreads();
    if ((int)threadIdx.x < groups) {
        int group = threadIdx.x, i = group * a.norm.shape.cp + channel;
        double first = s[group][GRAM_SIDE], second = 0, scale = (double)a.norm.scale[i];
        double mean = (double)a.norm.mean[i];
        for (int k = 0; k < GRAM_SIDE; k++)
            second += w[k] * s[group][k];
        sums[group][0] = first;
        sums[group][1] = second - mean * first;
        by[group][0] = scale;
        batch_coefficients(first, sums[group][1], samples_of(a.norm.shape, group), scale, mean, (double)a.norm.istd[i],
                           &by[group][1], &by[group][2]);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        a.norm.finish(channel, known, &sums[0][0], 2, 1);
    int tap = threadIdx.x / 8, c = threadIdx.x % 8;
    if (threadIdx.x >= GRAM_SIDE || c >= a.c_in)
        return;
    double sum = 0;
    for (int group = 0; group < groups; group++) {
        const double *gram = gram_of(a.partial, group);
        double product = 0; /* of w and G */
#pragma unroll 9
        for (int e = 0; e < taken; e++) {
            int k = e / a.c_in * 8 + e % a.c_in;
            product += w[k] * gram[k * GRAM_SIDE + threadIdx.x];
        }
        sum += by[group][0] * s[group][threadIdx.x] + by[group][1] * product +
               by[group][2] * gram[GRAM_SIDE * GRAM_SIDE + threadIdx.x];
    }
    a.dweight[(size_t)channel * taken + c * GRAM_TAPS + tap] = (float)sum;
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static int blocks_of(const rc_cuda *cuda, const rc_conv *conv)
{
    int blocks = cuda->multiprocessors / (conv->c_out / STEM_CHANNELS);
    return blocks > RC_MAX_GROUPS ? blocks : RC_MAX_GROUPS;
}

size_t rc_cuda_stem_back_workspace(const rc_cuda *cuda, const rc_conv *conv)
{
    if (!rc_cuda_is_first_layer(conv) || rc_cuda_shared(cuda, CONV_SHARED_MOST) < BACK_SHARED)
        return 0;
    return (size_t)blocks_of(cuda, conv) * BACK_ELEMENTS * (size_t)conv->c_out * sizeof(float);
}

void rc_cuda_stem_train_back(rc_backend *be, const rc_fused_train_back *layers, const rc_tensor *x)
{
    static const char operation[] = "conv_and_max_pool_backward";
    rc_cuda *cuda = rc_cuda_of(be);
    const rc_conv *conv = layers[0].layer.conv;
    const rc_tensor *between = layers[0].layer.dy->y, *y = layers[1].layer.dy->y;
    const rc_bn_backward *back = &layers[0].norm;
    value_source source;
    view_source(x, &source);
    float *sums = (float *)rc_cuda_workspace(cuda, rc_cuda_stem_back_workspace(cuda, conv), operation);
    if (!sums)
        return;
    int blocks = blocks_of(cuda, conv);
    stem_cut cut = cut_stem(y, &blocks);
    stem_back_arguments a = {source.x,
                             (const bf16 *)layers[1].layer.dy->g,
                             (const unsigned *)y->taps,
                             cut,
                             y->h,
                             y->w,
                             rc_cuda_padded(y->c),
                             (conv->w + BACK_POSITIONS - 1) / BACK_POSITIONS,
                             sums};
    void (*kernel)(stem_back_arguments) = source.what == PENDING_NOTHING ? stem_back_kernel<true>
                                                                         : stem_back_kernel<false>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, dim3((unsigned)blocks, (unsigned)(conv->c_out / STEM_CHANNELS)),
                         BACK_THREADS, BACK_SHARED, a);
    stem_finish_arguments finish = {};
    finish.cut = cut;
    finish.norm = {shape_of(between),
                   true,
                   (const float *)between->scale,
                   (const float *)between->mean,
                   (const float *)between->istd,
                   NULL,
                   NULL,
                   NULL,
                   (float *)back->dgamma,
                   (float *)back->dbeta,
                   (float *)back->a,
                   (float *)back->b,
                   (float *)back->c,
                   (double)between->n * between->h * between->w};
    finish.sums = sums;
    finish.partial = back->partial;
    finish.weight = (const float *)layers[0].layer.weight;
    finish.dweight = (float *)layers[0].dweight;
    finish.c_in = conv->c_in;
    rc_cuda_launch_early(cuda, operation, stem_finish_kernel, dim3((unsigned)y->c), FINISH_THREADS, 0, finish);
}
