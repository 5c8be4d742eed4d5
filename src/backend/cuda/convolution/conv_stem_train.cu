/* Forward of a first layer in training and of the pooling behind it (conv_stem_train.h), where the normalisation is
 * known: the value of the pooling, and the taps that its gradient goes to (conv_stem_pool.cuh).
 *
 * raw * scale + shift grows with raw, or falls, where gamma is below 0. So weights are multiplied by the sign of gamma,
 * the greatest raw of a window is searched, as bf16, two channels a word, and only that is scaled. Where gamma is 0 all
 * of a window are equal. The first of the greatest wins: in a line, from left to right, and then from line to line. */
#include "backend/cuda/convolution/conv_stem_pool.cuh"
#include "backend/cuda/convolution/conv_stem_train.h"

struct stem_train_arguments {
    tensor_view<bf16> x;
    const float *gamma;         /* (c); NULL: 1 */
    const float *scale, *shift; /* (groups, cp) */
    const char *weights;
    bf16 *y;        /* (n, oh, ow, cp) */
    unsigned *taps; /* the same, half bytes; see tap_code */
    group_view groups;
    int n, oh, ow, cp, strips;
    bool hurries;
};

/* Tap (y, x) of a window, and none: its value is 0. The halves of word k are channels 2 k and 2 k + 1; in memory lie
 * the lower halves of four words side by side, four bits each, and then the upper ones. */
__device__ constexpr unsigned tap_code(int y, int x)
{
    return (unsigned)(y * 4 + x) * 0x10001u;
}

static const unsigned NO_TAP = 0x000f000fu, LEAST = 0xff80ff80u; /* -infinity */

__device__ inline unsigned choose(unsigned mask, unsigned yes, unsigned no)
{
    return (yes & mask) | (no & ~mask);
}

__device__ inline __nv_bfloat162 halves(unsigned word)
{
    return *(const __nv_bfloat162 *)&word;
}

/* The greater of two pairs, and whose tap: the first's, unless the second is greater. */
__device__ inline void find_greater(unsigned first, unsigned first_tap, unsigned second, unsigned second_tap,
                                    unsigned &key, unsigned &tap)
{
    unsigned better = __hgt2_mask(halves(second), halves(first));
    __nv_bfloat162 greater = __hmax2(halves(first), halves(second));
    key = *(const unsigned *)&greater;
    tap = choose(better, second_tap, first_tap);
}

/* The greatest of a part of a window, and its tap. */
struct window_best {
    unsigned key[POOL_WORDS], tap[POOL_WORDS];
};

/* What a lane has: two windows, eight channels. */
struct train_lane {
    window_best best[2]; /* of the line above the next row of windows */
    bool inside;         /* is position 0 a column of the map? */
    bool stores[2];      /* the windows */
    int scales;          /* of the lane's channels in the group of the image */
    size_t to;           /* the first window, in the next row */

    __device__ void begin(const stem_train_arguments &a, const pool_piece &piece, int channel)
    {
        int group = threadIdx.x % 32 / 4, window = POOL_WINDOWS * piece.strip + 2 * group;
        inside = window > 0;
        stores[0] = window < a.ow;
        stores[1] = 2 * group + 1 < POOL_WINDOWS && window + 1 < a.ow;
        scales = group_of(a.groups, piece.image) * a.cp + channel;
        to = ((size_t)(piece.image * a.oh + piece.row) * a.ow + window) * a.cp + channel;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int k = 0; k < POOL_WORDS; k++) {
                best[i].key[k] = LEAST;
                best[i].tap[k] = tap_code(0, 0);
            }
    }

    /* The values of a row of windows and their taps. */
    __device__ void store(const stem_train_arguments &a, const window_best (&of)[2])
    {
        float8 scale = load8(a.scale + scales), shift = load8(a.shift + scales);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned value[POOL_WORDS], taps = 0;
#pragma unroll
            for (int k = 0; k < POOL_WORDS; k++) {
                float low = __uint_as_float(of[i].key[k] << 16), high = __uint_as_float(of[i].key[k] & 0xffff0000u);
                value[k] = pack_rectified(low * fabsf(scale.v[2 * k]) + shift.v[2 * k],
                                          high * fabsf(scale.v[2 * k + 1]) + shift.v[2 * k + 1]);
                taps |= choose(positive_halves(value[k]), of[i].tap[k], NO_TAP) << 4 * k;
            }
            if (stores[i]) {
                *(uint4 *)(a.y + to + i * a.cp) = make_uint4(value[0], value[1], value[2], value[3]);
                a.taps[(to + i * a.cp) / 8] = taps;
            }
        }
        to += (size_t)(a.ow * a.cp);
    }
};

/* A line of results: the greatest of the three that each window has of it. TAP_Y: the line's place in the windows. */
template <int TAP_Y, typename Reader>
__device__ inline void search_line(const Reader &reader, const stem_weights &weights, int line, bool inside,
                                   window_best (&found)[2])
{
    unsigned raw[4][POOL_WORDS];
#pragma unroll
    for (int tile = 0; tile < stem_shape::TILES_M; tile++) {
        float sum[stem_shape::TILES_N][4] = {};
        reader.multiply(line, tile, weights, sum);
#pragma unroll
        for (int low = 0; low < 2; low++)
#pragma unroll
            for (int k = 0; k < POOL_WORDS; k++)
                raw[tile * 2 + low][k] = pack_bf16(sum[k][low * 2], sum[k][low * 2 + 1]);
    }
#pragma unroll
    for (int k = 0; k < POOL_WORDS; k++) {
        unsigned next = __shfl_sync(0xffffffffu, raw[0][k], (threadIdx.x + 4) % 32);
        const unsigned three[2][3] = {{inside ? raw[0][k] : LEAST, raw[1][k], raw[2][k]}, {raw[2][k], raw[3][k], next}};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned key, tap;
            find_greater(three[i][0], tap_code(TAP_Y, 0), three[i][1], tap_code(TAP_Y, 1), key, tap);
            find_greater(key, tap, three[i][2], tap_code(TAP_Y, 2), found[i].key[k], found[i].tap[k]);
        }
    }
}

/* Of two parts of the windows, of which `first` is above `second`. */
__device__ inline void find_greater(const window_best (&first)[2], const window_best (&second)[2],
                                    window_best (&best)[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < POOL_WORDS; k++)
            find_greater(first[i].key[k], first[i].tap[k], second[i].key[k], second[i].tap[k], best[i].key[k],
                         best[i].tap[k]);
}

template <bool FINISHED>
__device__ inline void run_piece(const stem_train_arguments &a, const pool_piece &piece, char *shared, int channel,
                                 const stem_weights &weights)
{
    pool_reader<FINISHED> reader(a.x, piece, shared);
    train_lane lane;
    lane.begin(a, piece, channel);
    reader.begin();
    reader.arrive(0, piece.rows);
    if (piece.row > 0)
        search_line<0>(reader, weights, 0, lane.inside, lane.best);
#pragma unroll 1
    for (int line = 1; line < 2 * piece.rows; line += 2) {
        window_best found[2];
        reader.arrive(line, piece.rows);
        search_line<1>(reader, weights, line, lane.inside, found);
        find_greater(lane.best, found, found);
        reader.arrive(line + 1, piece.rows);
        search_line<2>(reader, weights, line + 1, lane.inside, lane.best);
        find_greater(found, lane.best, found);
        lane.store(a, found);
#pragma unroll
        for (int i = 0; i < 2; i++) /* it is the upper line of the next windows */
#pragma unroll
            for (int k = 0; k < POOL_WORDS; k++)
                lane.best[i].tap[k] &= tap_code(0, 3);
    }
}

/* Products with these weights are raw times the sign of gamma. channel: the first of the warp's 32; column g of tile j
 * is channel 8 (g / 2) + 2 j + g % 2 of them. */
__device__ inline void turn_weights(const float *gamma, int channel, stem_weights &weights)
{
    int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int j = 0; j < stem_shape::TILES_N; j++) {
        float by = gamma ? gamma[channel + g / 2 * 8 + 2 * j + g % 2] : 1;
        unsigned flip = by < 0 ? 0x80008000u : 0, keep = by != 0 ? 0xffffffffu : 0;
#pragma unroll
        for (int product = 0; product < STEM_PRODUCTS; product++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                weights[product][j][k] = (weights[product][j][k] ^ flip) & keep;
    }
}

/* Grid: (blocks, tiles of channels). FINISHED: nothing is pending of x. */
template <bool FINISHED>
__global__ static void __launch_bounds__(CONV_THREADS, 2)
    stem_train_kernel(const __grid_constant__ stem_train_arguments a)
{
    int warp = threadIdx.x / 32, half = warp % stem_shape::WARPS_N;
    int channel = blockIdx.y * STEM_CHANNELS + half * stem_shape::CHANNELS;
    char *mine = dynamic_shared() + warp * POOL_WARP_BYTES;
    stem_weights weights; /* and gamma: both are older than the kernel before */
    load_weights(a.weights, blockIdx.y, half, weights);
    turn_weights(a.gamma, channel, weights);
    wait_for_kernel_before();
    if (a.hurries)
        start_kernel_after();
    for_pieces(a, [&](const pool_piece &piece) {
        run_piece<FINISHED>(a, piece, mine, channel + threadIdx.x % 4 * 8, weights);
    });
}

size_t rc_cuda_stem_train_workspace(const rc_cuda *cuda, const rc_conv *conv)
{
    size_t back = rc_cuda_stem_back_workspace(cuda, conv), gram = rc_cuda_stem_gram_workspace(cuda);
    return back == 0 ? 0 : back > gram ? back : gram;
}

void rc_cuda_stem_train(rc_backend *be, rc_tensor *x, const rc_fused_train *layers)
{
    static const char operation[] = "conv_and_max_pool";
    rc_cuda *cuda = rc_cuda_of(be);
    const rc_fused_train *conv = &layers[0];
    const rc_tensor *y = layers[1].layer.y;
    axis_taps taps;
    value_source source;
    bool fresh;
    rc_cuda_forward_taps(conv->layer.conv, &taps);
    if (x->value && !x->stored)
        be->materialise(be, x);
    view_source(x, &source);
    conv_form form = stem_form(conv->layer.conv, true, &taps);
    stem_train_arguments a = {};
    a.x = source.x;
    a.gamma = (const float *)conv->norm.gamma;
    a.scale = (const float *)conv->norm.scale;
    a.shift = (const float *)conv->norm.shift;
    a.y = (bf16 *)y->raw;
    a.taps = (unsigned *)y->taps;
    a.groups = view_groups(y);
    a.n = y->n;
    a.oh = y->h;
    a.ow = y->w;
    a.cp = rc_cuda_padded(y->c);
    a.strips = (a.ow + POOL_WINDOWS - 1) / POOL_WINDOWS;
    a.hurries = cuda->lane == RC_MAIN_LANE;
    a.weights = (const char *)rc_cuda_packed_weights(cuda, &form, (const float *)conv->layer.weight, &fresh);
    bool finished = source.what == PENDING_NOTHING;
    rc_cuda_stem_gram(cuda, source.x, finished, conv);
    int most = (a.n * a.strips * a.oh + stem_shape::WARPS_M - 1) / stem_shape::WARPS_M;
    int blocks = most < 2 * cuda->multiprocessors ? most : 2 * cuda->multiprocessors;
    rc_cuda_launch_early(cuda, operation, finished ? stem_train_kernel<true> : stem_train_kernel<false>,
                         dim3((unsigned)blocks, (unsigned)form.tiles), CONV_THREADS,
                         (size_t)(CONV_WARPS * POOL_WARP_BYTES), a);
}
