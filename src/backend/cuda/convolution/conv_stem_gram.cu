/* Sums over the patches of images, and what a normalisation makes of them (conv_stem_train.h).
 *
 * Two taps of a patch are two pixels some way apart, so nearly all pairs of taps that lie alike to one another have the
 * same sum: that of X[r][v] X[r + dy][v + dx] over the whole image, where dy is 0 to 2 and dx -2 to 2. There are 13 of
 * these, and a channel of ones beside them gives p. Only patches at the edges differ: an upper tap never meets the last
 * line, a lower one not the first, and left and right likewise, which matters where both taps do the same.
 *
 * Every warp works for itself and walks down a strip of 16 columns. The 16 positions of a line are the inner dimension
 * of its products: the pixels themselves are the columns, the rows are pixels of the same line or of one of the two
 * above it, at two distances at once. The operands of a line stay in registers while the next two need them.
 *
 *     product of the line itself    0        1        of a line above   0        1        2
 *     columns to the right          0, -1    -2, 1                      0, -1    -2, 1    2, ones
 */
#include "backend/cuda/convolution/conv_splits.cuh"
#include "backend/cuda/convolution/conv_stem.h"
#include "backend/cuda/convolution/conv_stem_train.h"

enum {
    GRAM_WARPS = 8,
    GRAM_THREADS = GRAM_WARPS * 32,
    GRAM_BLOCKS = 2, /* of a multiprocessor */
    GRAM_POSITIONS = 16,
    GRAM_EDGE = 2, /* columns more on each side */
    GRAM_LINE = (GRAM_POSITIONS + 2 * GRAM_EDGE) * 16,
    GRAM_AHEAD = 7, /* lines that are on their way */
    GRAM_LINES = GRAM_AHEAD + 1,
    GRAM_WARP_BYTES = GRAM_LINES * GRAM_LINE,
    GRAM_SHARED = GRAM_WARPS * GRAM_WARP_BYTES,
    GRAM_MOST = GRAM_SHARED / 16, /* pixels of a side: the edge of an image has room in shared memory */
    GRAM_PRODUCTS = 8,
    GRAM_SUMS = GRAM_PRODUCTS * 4, /* of a lane */
    GRAM_TOGETHER = 15,            /* lines, a multiple of three, whose sums are added to the others' at once */
    GRAM_ELEMENTS = GRAM_PRODUCTS * 16 * 8
};
static_assert(GRAM_SHARED >= GRAM_WARPS / 2 * GRAM_SUMS * 32 * 4, "add_splits has room");

/* Sums of an edge: X[v] X[v + d] along it, (3, 8, 8); X, (8); and the same of its first and last pixel alone. */
enum {
    EDGE_PAIRS,
    EDGE_P = 3 * 64,
    EDGE_CORNERS = EDGE_P + 8,
    EDGE_CORNER = 64 + 8,
    EDGE_SIZE = EDGE_CORNERS + 2 * EDGE_CORNER
};
enum { EDGE_TOP, EDGE_BOTTOM, EDGE_LEFT, EDGE_RIGHT, EDGES };
enum { GRAM_ROW = GRAM_ELEMENTS + EDGES * EDGE_SIZE /* floats that a block writes */ };

struct gram_arguments {
    tensor_view<bf16> x; /* (n, h, w, 8) */
    stem_cut cut;
    int strips;
    float *sums; /* (blocks, GRAM_ROW) */
};

/* Where a warp works: `lines` lines from `row` on. */
struct gram_piece {
    int image, row, column, lines;
};

/* A pixel of the image; of none, zeros. */
template <bool FINISHED>
__device__ inline void copy_pixel(const tensor_view<bf16> &x, char *to, int image, int row, int column)
{
    bool exists = (unsigned)row < (unsigned)x.h && (unsigned)column < (unsigned)x.w;
    place at = place_at(x, image, exists ? row : 0, exists ? column : 0);
    if (FINISHED)
        copy16_async_part(shared_address(to), x.raw + offset8(x, at.pixel, 0), exists ? 16 : 0);
    else
        *(uint4 *)to = exists ? pack8(load_value8(x, at, 0)) : make_uint4(0, 0, 0, 0);
}

/* ---- sums over all pairs of pixels ------------------------------------------------------------------------------- */

struct gram_line {
    unsigned first[4], second[4], third[4]; /* operands of the products with a line below */
};

/* lane: the address of this lane's row of the first operand. The second: two columns to the left of it and one to the
 * right; the third: two to the right. */
__device__ inline void load_line(unsigned line, gram_line &to)
{
    const unsigned ones = 0x3f803f80u;
    int lane = threadIdx.x % 32, second = lane / 8 % 2, position = lane / 16 * 8 + lane % 8 + GRAM_EDGE;
    load_matrices_transposed(to.first, line + (position - second) * 16);
    load_matrices_transposed(to.second, line + (position - 2 + 3 * second) * 16);
    load_matrices_transposed(to.third, line + (position + 2) * 16);
    to.third[1] = to.third[3] = ones;
}

__device__ inline void multiply_lines(const gram_line &now, const gram_line &above, const gram_line &top,
                                      float (&sum)[GRAM_PRODUCTS][4])
{
    unsigned pixels[2] = {now.first[0], now.first[2]};
    multiply_add(sum[0], now.first, pixels);
    multiply_add(sum[1], now.second, pixels);
    multiply_add(sum[2], above.first, pixels);
    multiply_add(sum[3], above.second, pixels);
    multiply_add(sum[4], above.third, pixels);
    multiply_add(sum[5], top.first, pixels);
    multiply_add(sum[6], top.second, pixels);
    multiply_add(sum[7], top.third, pixels);
}

/* Adds the sums of a few lines to those before: so that no sum has many terms, each of which could be cut off. */
__device__ inline void add_lines(float (&sum)[GRAM_PRODUCTS][4], float (&total)[GRAM_PRODUCTS][4])
{
#pragma unroll
    for (int i = 0; i < GRAM_PRODUCTS; i++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            total[i][k] += sum[i][k];
            sum[i][k] = 0;
        }
}

template <bool FINISHED>
__device__ inline void add_piece(const tensor_view<bf16> &x, const gram_piece &piece, char *ring,
                                 float (&total)[GRAM_PRODUCTS][4])
{
    int lane = threadIdx.x % 32;
    unsigned from = shared_address(ring);
    /* Line 0 is the second above the piece. */
    auto copy = [&](int line) {
        if (line < piece.lines + 2 && lane < GRAM_POSITIONS + 2 * GRAM_EDGE)
            copy_pixel<FINISHED>(x, ring + line % GRAM_LINES * GRAM_LINE + lane * 16, piece.image, piece.row - 2 + line,
                                 piece.column - GRAM_EDGE + lane);
        close_copies();
    };
    auto arrive = [&](int line, gram_line &to) {
        wait_for_older_copies<GRAM_AHEAD - 1>();
        __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
        copy(line + GRAM_AHEAD);
        load_line(from + line % GRAM_LINES * GRAM_LINE, to);
    };
    gram_line a, b, c;
    unsigned triples = (unsigned)piece.lines / 3 * 3;
    float sum[GRAM_PRODUCTS][4] = {};
    __syncwarp(); /* nobody reads the piece before any more */
#pragma unroll
    for (unsigned line = 0; line < GRAM_AHEAD; line++)
        copy(line);
    arrive(0, a);
    arrive(1, b);
#pragma unroll 1
    for (unsigned line = 0; line < triples; line += 3) {
        arrive(line + 2, c);
        multiply_lines(c, b, a, sum);
        arrive(line + 3, a);
        multiply_lines(a, c, b, sum);
        arrive(line + 4, b);
        multiply_lines(b, a, c, sum);
        if (line % GRAM_TOGETHER == GRAM_TOGETHER - 3)
            add_lines(sum, total);
    }
    if ((int)triples < piece.lines) {
        arrive(triples + 2, c);
        multiply_lines(c, b, a, sum);
    }
    if ((int)triples + 1 < piece.lines) {
        arrive(triples + 3, a);
        multiply_lines(a, c, b, sum);
    }
    add_lines(sum, total);
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

__device__ inline float element_of(const char *pixels, int at, int channel)
{
    return to_float(((const bf16 *)pixels)[at * 8 + channel]);
}

/* An edge of an image, in shared memory: thread i has element i of its sums, and some 256 later. */
__device__ inline void add_edge(const char *pixels, int length, float *sums)
{
    for (int i = threadIdx.x; i < EDGE_SIZE; i += GRAM_THREADS) {
        float sum = 0;
        if (i < EDGE_P) {
            int d = i / 64, upper = i / 8 % 8, lower = i % 8;
#pragma unroll 4
            for (int v = 0; v + d < length; v++)
                sum += element_of(pixels, v, upper) * element_of(pixels, v + d, lower);
        } else if (i < EDGE_CORNERS) {
#pragma unroll 4
            for (int v = 0; v < length; v++)
                sum += element_of(pixels, v, i - EDGE_P);
        } else {
            int corner = (i - EDGE_CORNERS) / EDGE_CORNER, e = (i - EDGE_CORNERS) % EDGE_CORNER;
            int v = corner ? length - 1 : 0;
            sum = e < 64 ? element_of(pixels, v, e / 8) * element_of(pixels, v, e % 8) : element_of(pixels, v, e - 64);
        }
        sums[i] += sum;
    }
}

/* Every edge of every image of the group is one block's. */
template <bool FINISHED>
__device__ inline void add_edges(const gram_arguments &a, const stem_share &share, char *pixels, float *sums)
{
    const tensor_view<bf16> &x = a.x;
    int first = group_begin(a.cut.groups, share.group), count = (a.cut.groups.end[share.group] - first) * EDGES;
    for (int i = threadIdx.x; i < EDGES * EDGE_SIZE; i += GRAM_THREADS)
        sums[i] = 0;
    for (int item = share.number; item < count; item += share.blocks) {
        int edge = item % EDGES, image = first + item / EDGES;
        bool along = edge == EDGE_TOP || edge == EDGE_BOTTOM;
        int length = along ? x.w : x.h, fixed = edge == EDGE_BOTTOM ? x.h - 1 : edge == EDGE_RIGHT ? x.w - 1 : 0;
        __syncthreads();
        for (int v = threadIdx.x; v < length; v += GRAM_THREADS)
            copy_pixel<FINISHED>(x, pixels + v * 16, image, along ? fixed : v, along ? v : fixed);
        wait_for_copies();
        __syncthreads();
        add_edge(pixels, length, sums + edge * EDGE_SIZE);
    }
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */

template <bool FINISHED>
__global__ static void __launch_bounds__(GRAM_THREADS, GRAM_BLOCKS)
    gram_kernel(const __grid_constant__ gram_arguments a)
{
    char *shared = dynamic_shared();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, h = a.x.h;
    stem_share share = share_of_stem(a.cut, blockIdx.x);
    int first = group_begin(a.cut.groups, share.group);
    long long lines = (long long)(a.cut.groups.end[share.group] - first) * a.strips * h;
    int all = share.blocks * GRAM_WARPS, number = share.number * GRAM_WARPS + warp;
    int next = (int)(lines * number / all), end = (int)(lines * (number + 1) / all);
    float *to = a.sums + (size_t)blockIdx.x * GRAM_ROW, total[GRAM_PRODUCTS][4] = {};
    begin_after_kernel_before();
    while (next < end) {
        int strip = next / h, row = next - strip * h, left = h - row < end - next ? h - row : end - next;
        gram_piece piece = {first + strip / a.strips, row, strip % a.strips * GRAM_POSITIONS, left};
        add_piece<FINISHED>(a.x, piece, shared + warp * GRAM_WARP_BYTES, total);
        next += left;
    }
    wait_for_copies();
    add_splits<GRAM_WARPS, GRAM_SUMS>(&total[0][0], warp, 0, 1, (float *)shared);
    if (warp == 0) {
        float *mine = to + lane / 4 * 8 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < GRAM_PRODUCTS; i++) {
            *(float2 *)(mine + i * 128) = make_float2(total[i][0], total[i][1]);
            *(float2 *)(mine + i * 128 + 64) = make_float2(total[i][2], total[i][3]);
        }
    }
    add_edges<FINISHED>(a, share, shared, to + GRAM_ELEMENTS);
}

/* ---- G and p ----------------------------------------------------------------------------------------------------- */

enum { PAIR_LANES = 16, PAIR_THREADS = 64 * PAIR_LANES, PAIR_OFFSETS = 13 };

struct pair_arguments {
    stem_cut cut;
    const float *sums;
    void *partial;
};

/* What a pair of taps takes: the sum over the whole image, those of the four edges, and of the first and last pixel of
 * top and bottom. */
enum { PART_ALL, PART_EDGE, PART_CORNER = PART_EDGE + EDGES, PARTS = PART_CORNER + 4 };

/* Sums over the group's blocks of some of the numbers that they wrote: all lanes of an element take part. at: which; a
 * negative one is none, and 0. */
__device__ inline void sum_blocks(const pair_arguments &a, int begin, int end, const int (&at)[PARTS],
                                  double (&sum)[PARTS], double *space)
{
    int lane = threadIdx.x / 64, e = threadIdx.x % 64;
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        sum[i] = 0;
#pragma unroll 2
    for (int block = begin + lane; block < end; block += PAIR_LANES)
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            if (at[i] >= 0)
                sum[i] += (double)a.sums[(size_t)block * GRAM_ROW + at[i]];
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        if (at[i] < 0)
            continue;
        __syncthreads();
        space[threadIdx.x] = sum[i];
        __syncthreads();
        sum[i] = 0;
        for (int k = 0; k < PAIR_LANES; k++)
            sum[i] += space[k * 64 + e];
    }
}

/* Which taps do not meet an edge: the upper ones not the bottom, and so on. */
__device__ inline int edge_of_row(int tap_y)
{
    return tap_y == 0 ? EDGE_BOTTOM : EDGE_TOP;
}

__device__ inline int edge_of_column(int tap_x)
{
    return tap_x == 0 ? EDGE_RIGHT : EDGE_LEFT;
}

/* Of a patch that has all of them, what taps at (ty, tx) leave out. rows, columns: do both taps lie in the same one? */
__device__ inline double without_edges(const double (&sum)[PARTS], int ty, int tx, bool rows, bool columns)
{
    bool by_row = rows && ty != 1, by_column = columns && tx != 1;
    double left = sum[PART_ALL];
    if (by_row)
        left -= sum[PART_EDGE + edge_of_row(ty)];
    if (by_column)
        left -= sum[PART_EDGE + edge_of_column(tx)];
    if (by_row && by_column)
        left += sum[PART_CORNER + 2 * edge_of_row(ty) + (tx == 0)];
    return left;
}

/* Grid: (offsets, and p, groups). Thread: elements c, c' of the pixel above or to the left and of the other. */
__global__ static void __launch_bounds__(PAIR_THREADS) pair_kernel(const __grid_constant__ pair_arguments a)
{
    __shared__ double space[PAIR_THREADS];
    int group = blockIdx.y, offset = blockIdx.x, e = threadIdx.x % 64, at[PARTS];
    double *gram = gram_of(a.partial, group), sum[PARTS];
    bool ones = offset == PAIR_OFFSETS; /* p, of which channel e % 8 counts */
    int dy = offset < 3 || ones ? 0 : 1 + (offset - 3) / 5, dx = ones ? 0 : dy == 0 ? offset : 2 - (offset - 3) % 5;
    /* The product, and its upper or lower rows. */
    int slot = dx >= 0 ? dx : 2 - dx, product = dy == 0 ? slot / 2 : 3 * dy - 1 + slot / 2;
    at[PART_ALL] = ones ? 4 * 128 + 64 + e % 8 : product * 128 + slot % 2 * 64 + e;
#pragma unroll
    for (int i = 0; i < EDGES; i++) {
        bool along = i == EDGE_TOP || i == EDGE_BOTTOM;
        int from = GRAM_ELEMENTS + i * EDGE_SIZE, pair = ones ? EDGE_P + e % 8 : (along ? dx : dy) * 64 + e;
        at[PART_EDGE + i] = (along ? dy : dx) == 0 ? from + pair : -1;
        for (int side = 0; along && side < 2; side++)
            at[PART_CORNER + 2 * i + side] = dy == 0 && dx == 0
                                                 ? from + EDGE_CORNERS + side * EDGE_CORNER + (ones ? 64 + e % 8 : e)
                                                 : -1;
    }
    begin_after_kernel_before();
    sum_blocks(a, group > 0 ? a.cut.end[group - 1] : 0, a.cut.end[group], at, sum, space);
    if (threadIdx.x >= (ones ? 8 : 64))
        return;
#pragma unroll
    for (int t = 0; t < GRAM_TAPS; t++) {
        int ty = t / 3, tx = t % 3, other = (ty + dy) * 3 + tx + dx;
        if (ty + dy > 2 || tx + dx > 2 || tx + dx < 0)
            continue;
        double value = without_edges(sum, ty, tx, dy == 0, dx == 0);
        int i = t * 8 + e / 8, j = other * 8 + e % 8;
        if (ones) {
            gram[GRAM_SIDE * GRAM_SIDE + j] = value;
            continue;
        }
        gram[i * GRAM_SIDE + j] = value;
        if (offset > 0)
            gram[j * GRAM_SIDE + i] = value;
    }
}

/* ---- normalisation ----------------------------------------------------------------------------------------------- */

struct gram_norm_arguments {
    train_norm norm;
    const void *partial;
    const float *weight; /* (c, c_in, 3, 3) */
    int c_in;
};

/* Grid: channels. */
__global__ static void __launch_bounds__(GRAM_THREADS) gram_norm_kernel(const __grid_constant__ gram_norm_arguments a)
{
    __shared__ double w[GRAM_SIDE], space[2][GRAM_WARPS], sums[RC_MAX_GROUPS][2];
    int channel = blockIdx.x, taken = GRAM_TAPS * a.c_in; /* elements of a patch that exist */
    const float *weight = a.weight + (size_t)channel * taken;
    train_norm::known known = a.norm.know(channel);
    if (threadIdx.x < GRAM_SIDE)
        w[threadIdx.x] = stem_weight(weight, a.c_in, threadIdx.x);
    begin_after_kernel_before();
    for (int group = 0; group < a.norm.shape.groups.count; group++) {
        const double *gram = gram_of(a.partial, group);
        double first = 0, second = 0;
        __syncthreads();
        for (int e = threadIdx.x; e < taken * taken; e += GRAM_THREADS) {
            int i = e / taken, j = e % taken;
            i = i / a.c_in * 8 + i % a.c_in;
            j = j / a.c_in * 8 + j % a.c_in;
            second += w[i] * w[j] * gram[i * GRAM_SIDE + j];
        }
        for (int i = threadIdx.x; i < GRAM_SIDE; i += GRAM_THREADS)
            first += w[i] * gram[GRAM_SIDE * GRAM_SIDE + i];
        for (int distance = 16; distance > 0; distance /= 2) {
            first += __shfl_xor_sync(0xffffffffu, first, distance);
            second += __shfl_xor_sync(0xffffffffu, second, distance);
        }
        if (threadIdx.x % 32 == 0) {
            space[0][threadIdx.x / 32] = first;
            space[1][threadIdx.x / 32] = second;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double center = (double)known.center, samples = samples_of(a.norm.shape, group);
            first = second = 0;
            for (int i = 0; i < GRAM_WARPS; i++) {
                first += space[0][i];
                second += space[1][i];
            }
            sums[group][0] = first - samples * center; /* of raw - center, and its square */
            sums[group][1] = second - 2 * center * first + samples * center * center;
        }
    }
    if (threadIdx.x == 0)
        a.norm.finish(channel, known, &sums[0][0], 2, 1);
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

bool rc_cuda_trains_stem(const rc_cuda *cuda, const rc_conv *conv, rc_act act, const rc_pool2d *pool, int n)
{
    size_t partial = (size_t)rc_cuda_partial_rows(n * conv->oh * conv->ow) * 2 * (size_t)conv->c_out * sizeof(float);
    return rc_cuda_takes_stem_pool(cuda, conv, act, pool) && conv->oh == conv->h && conv->ow == conv->w &&
           conv->h <= GRAM_MOST && conv->w <= GRAM_MOST && partial >= GRAM_SIZE * sizeof(double) &&
           rc_cuda_stem_back_workspace(cuda, conv) > 0;
}

size_t rc_cuda_stem_gram_workspace(const rc_cuda *cuda)
{
    int blocks = GRAM_BLOCKS * cuda->multiprocessors;
    return (size_t)(blocks > RC_MAX_GROUPS ? blocks : RC_MAX_GROUPS) * GRAM_ROW * sizeof(float);
}

void rc_cuda_stem_gram(rc_cuda *cuda, const tensor_view<bf16> &x, bool finished, const rc_fused_train *conv)
{
    static const char operation[] = "gram";
    const rc_tensor *y = conv->layer.y;
    const rc_bn_forward *f = &conv->norm;
    void *partial = const_cast<void *>(f->partial);
    float *sums = (float *)rc_cuda_workspace(cuda, rc_cuda_stem_gram_workspace(cuda), operation);
    if (!sums)
        return;
    int blocks = GRAM_BLOCKS * cuda->multiprocessors;
    stem_cut cut = cut_stem(y, &blocks);
    gram_arguments gram = {x, cut, (x.w + GRAM_POSITIONS - 1) / GRAM_POSITIONS, sums};
    rc_cuda_launch_early(cuda, operation, finished ? gram_kernel<true> : gram_kernel<false>, dim3((unsigned)blocks),
                         GRAM_THREADS, GRAM_SHARED, gram);
    pair_arguments pairs = {cut, sums, partial};
    rc_cuda_launch_early(cuda, operation, pair_kernel, dim3(PAIR_OFFSETS + 1, (unsigned)y->groups), PAIR_THREADS, 0,
                         pairs);
    normalisation to = {(float *)f->scale, (float *)f->shift, (float *)f->mean, (float *)f->istd};
    affine by = {(const float *)f->gamma, (const float *)f->beta};
    train_norm norm = {
        *conv->bn, shape_of(y), (const float *)f->center, by, (float *)f->running_mean, (float *)f->running_var, to};
    gram_norm_arguments arguments = {norm, partial, (const float *)conv->layer.weight, conv->layer.conv->c_in};
    rc_cuda_launch_early(cuda, "bn_train", gram_norm_kernel, dim3((unsigned)y->c), GRAM_THREADS, 0, arguments);
}
