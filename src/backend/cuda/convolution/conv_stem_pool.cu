/* A first layer without gradients and the maximum pooling behind it (3 x 3, stride 2, a border of 1): the map between
 * them, four times what is left of it, never goes to memory (conv_stem_pool.cuh).
 *
 * Results become bf16 after ReLU, two channels a word, before maxima are taken. Window y ends with line 2 y + 1, and
 * the maximum of the lines before it waits in registers. The line above the map and the column left of it count as 0,
 * as ReLU leaves nothing below; below and to the right no window reaches out of a map of even size. */
#include "backend/cuda/convolution/conv_stem_pool.cuh"

struct stem_pool_arguments {
    tensor_view<bf16> x;
    const float *scale, *shift; /* (cp) */
    const char *weights;
    bf16 *y; /* (n, oh, ow, cp) */
    int n, oh, ow, cp, strips;
    bool hurries;
};

typedef unsigned pool_pixel[POOL_WORDS];

/* Of two pairs of bf16; NaN is the greatest. */
__device__ inline unsigned greater_halves(unsigned a, unsigned b)
{
    __nv_bfloat162 greater = __hmax2_nan(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const unsigned *)&greater;
}

__device__ inline void take_greater(pool_pixel &best, const pool_pixel &other)
{
#pragma unroll
    for (int k = 0; k < POOL_WORDS; k++)
        best[k] = greater_halves(best[k], other[k]);
}

/* What a lane has of a line: four positions, eight channels. */
struct pool_lane {
    float8 scale, shift;
    pool_pixel best[4]; /* of the lines of the window so far */
    bool inside;        /* is position 0 a column of the map? */
    bool stores[2];     /* the windows */
    bf16 *to;           /* the first of them, in the next row */

    __device__ pool_lane(const stem_pool_arguments &a, int channel)
        : scale(load8(a.scale + channel)), shift(load8(a.shift + channel))
    {
    }

    __device__ void begin(const stem_pool_arguments &a, const pool_piece &piece, int channel)
    {
        int group = threadIdx.x % 32 / 4, window = POOL_WINDOWS * piece.strip + 2 * group;
        inside = window > 0;
        stores[0] = window < a.ow;
        stores[1] = 2 * group + 1 < POOL_WINDOWS && window + 1 < a.ow;
        to = a.y + ((size_t)(piece.image * a.oh + piece.row) * a.ow + window) * a.cp + channel;
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int k = 0; k < POOL_WORDS; k++)
                best[p][k] = 0;
    }

    __device__ void finish(const float (&sum)[stem_shape::TILES_N][4], int low, pool_pixel &pixel) const
    {
#pragma unroll
        for (int k = 0; k < POOL_WORDS; k++)
            pixel[k] = pack_rectified(sum[k][low * 2] * scale.v[2 * k] + shift.v[2 * k],
                                      sum[k][low * 2 + 1] * scale.v[2 * k + 1] + shift.v[2 * k + 1]);
    }

    /* The row of windows whose lines have the maxima `row`. */
    __device__ void store(const stem_pool_arguments &a, pool_pixel (&row)[4])
    {
        pool_pixel next;
#pragma unroll
        for (int k = 0; k < POOL_WORDS; k++) {
            row[0][k] = inside ? row[0][k] : 0;
            next[k] = __shfl_sync(0xffffffffu, row[0][k], (threadIdx.x + 4) % 32);
        }
        take_greater(row[1], row[0]);
        take_greater(row[1], row[2]);
        take_greater(row[3], row[2]);
        take_greater(row[3], next);
        if (stores[0])
            *(uint4 *)to = make_uint4(row[1][0], row[1][1], row[1][2], row[1][3]);
        if (stores[1])
            *(uint4 *)(to + a.cp) = make_uint4(row[3][0], row[3][1], row[3][2], row[3][3]);
        to += a.ow * a.cp;
    }
};

/* take(position, pixel) for the four positions of a line of results. */
template <typename Reader, typename Take>
__device__ inline void make_line(const Reader &reader, const stem_weights &weights, const pool_lane &lane, int line,
                                 Take take)
{
#pragma unroll
    for (int tile = 0; tile < stem_shape::TILES_M; tile++) {
        float sum[stem_shape::TILES_N][4] = {};
        reader.multiply(line, tile, weights, sum);
#pragma unroll
        for (int low = 0; low < 2; low++) {
            pool_pixel pixel;
            lane.finish(sum, low, pixel);
            take(tile * 2 + low, pixel);
        }
    }
}

template <bool FINISHED>
__device__ inline void run_piece(const stem_pool_arguments &a, const pool_piece &piece, char *shared, int channel,
                                 const stem_weights &weights, pool_lane &lane)
{
    pool_reader<FINISHED> reader(a.x, piece, shared);
    lane.begin(a, piece, channel);
    reader.begin();
    auto keep = [&](int p, const pool_pixel &pixel) { take_greater(lane.best[p], pixel); };
    reader.arrive(0, piece.rows);
    if (piece.row > 0)
        make_line(reader, weights, lane, 0, keep);
#pragma unroll 1
    for (int line = 1; line < 2 * piece.rows; line += 2) {
        pool_pixel all[4];
        reader.arrive(line, piece.rows);
        make_line(reader, weights, lane, line, keep);
        reader.arrive(line + 1, piece.rows);
        make_line(reader, weights, lane, line + 1, [&](int p, const pool_pixel &pixel) {
#pragma unroll
            for (int k = 0; k < POOL_WORDS; k++) {
                all[p][k] = greater_halves(lane.best[p][k], pixel[k]);
                lane.best[p][k] = pixel[k];
            }
        });
        lane.store(a, all);
    }
}

/* Grid: (blocks, tiles of channels). FINISHED: nothing is pending of x. */
template <bool FINISHED>
__global__ static void __launch_bounds__(CONV_THREADS, 2)
    stem_pool_kernel(const __grid_constant__ stem_pool_arguments a)
{
    int warp = threadIdx.x / 32, half = warp % stem_shape::WARPS_N;
    int channel = blockIdx.y * STEM_CHANNELS + half * stem_shape::CHANNELS + threadIdx.x % 4 * 8;
    char *mine = dynamic_shared() + warp * POOL_WARP_BYTES;
    stem_weights weights; /* are older than the kernel before */
    load_weights(a.weights, blockIdx.y, half, weights);
    wait_for_kernel_before();
    if (a.hurries)
        start_kernel_after();
    pool_lane lane(a, channel);
    for_pieces(a, [&](const pool_piece &piece) { run_piece<FINISHED>(a, piece, mine, channel, weights, lane); });
}

bool rc_cuda_takes_stem_pool(const rc_cuda *cuda, const rc_conv *conv, rc_act act, const rc_pool2d *pool)
{
    return cuda->bf16 && rc_cuda_is_first_layer(conv) && act == RC_ACT_RELU && pool->k == 3 && pool->stride == 2 &&
           pool->pad == 1 && conv->oh % 2 == 0 && conv->ow % 2 == 0;
}

void rc_cuda_stem_pool(rc_backend *be, rc_tensor *x, const rc_fused *conv, const rc_tensor *y)
{
    static const char operation[] = "conv_and_max_pool";
    rc_cuda *cuda = rc_cuda_of(be);
    axis_taps taps;
    value_source source;
    bool fresh;
    rc_cuda_forward_taps(conv->conv, &taps);
    if (x->value && !x->stored)
        be->materialise(be, x);
    view_source(x, &source);
    conv_form form = stem_form(conv->conv, true, &taps);
    stem_pool_arguments a = {};
    a.x = source.x;
    a.scale = (const float *)conv->y->scale;
    a.shift = (const float *)conv->y->shift;
    a.y = (bf16 *)y->raw;
    a.n = y->n;
    a.oh = y->h;
    a.ow = y->w;
    a.cp = rc_cuda_padded(y->c);
    a.strips = (a.ow + POOL_WINDOWS - 1) / POOL_WINDOWS;
    a.hurries = cuda->lane == RC_MAIN_LANE;
    a.weights = (const char *)rc_cuda_packed_weights(cuda, &form, (const float *)conv->weight, &fresh);
    int most = (a.n * a.strips * a.oh + stem_shape::WARPS_M - 1) / stem_shape::WARPS_M;
    int blocks = most < 2 * cuda->multiprocessors ? most : 2 * cuda->multiprocessors;
    auto kernel = source.what == PENDING_NOTHING ? stem_pool_kernel<true> : stem_pool_kernel<false>;
    rc_cuda_launch_as(cuda, !fresh, operation, kernel, dim3((unsigned)blocks, (unsigned)form.tiles), CONV_THREADS,
                      (size_t)(CONV_WARPS * POOL_WARP_BYTES), a);
}
