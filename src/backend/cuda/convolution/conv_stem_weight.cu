/* Weight gradient of a first layer (conv_stem.h) whose image is finished. Its products are few and its maps are large,
 * so it is to read them at the speed of memory.
 *
 * Every warp works for itself. It walks down a strip of 16 columns, a line at a time: 16 positions are the inner
 * dimension of its products, 64 channels of dL/draw by eight of the image at each tap. What it reads travels to rings
 * of its own (cp.async), LINES_AHEAD lines before it is used. Of dL/draw a lane copies what it will read itself: eight
 * channels of four positions, of the gradient and of the raw result, which are whole operands once their positions have
 * been put side by side, as rows of a product may be any channels:
 *
 *     row g of product m: channel 8 g + 2 m     row g + 8: channel 8 g + 2 m + 1     lane = 4 g + t
 *     positions of lane 4 g + t: 2 t, 2 t + 1, 2 t + 8, 2 t + 9
 *
 * The lines of the image lie in a ring of the warp, with a column more on each side; ldmatrix transposes them. Each
 * block writes the sums of its warps to the workspace, and a second kernel adds those (conv_reduce.h).
 *
 * By the clocks of a multiprocessor of an H200: 16 positions are 4 kB of memory, 200 clocks; 36 products, 72 clocks;
 * and some 350 instructions of a warp, 90 clocks. Three lines of eight warps on their way are 96 kB. */
#include "backend/cuda/convolution/conv_stem_weight.h"

#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/convolution/conv_splits.cuh"
#include "backend/cuda/convolution/conv_stem.h"

enum {
    LINE_WARPS = 8,
    LINE_THREADS = LINE_WARPS * 32,
    LINE_POSITIONS = 16,
    LINE_CHANNELS = STEM_CHANNELS,
    LINE_TAPS = 9,
    LINES_AHEAD = 3,
    DRAW_LINES = LINES_AHEAD + 1,
    DRAW_LINE = 2 * 4 * 32 * 16, /* bytes: gradient and raw result, four vectors a lane */
    IMAGE_LINES = 8,             /* three in use and those on their way, a power of two */
    IMAGE_LINE = (LINE_POSITIONS + 2) * 16,
    WARP_BYTES = DRAW_LINES * DRAW_LINE + IMAGE_LINES * IMAGE_LINE,
    LINE_SUMS = 4 * LINE_TAPS * 4 /* of a lane */
};

struct stem_weight_arguments {
    const bf16 *x; /* (n, h, w, 8) */
    gradient_source dy;
    float *sums; /* (blocks, taps, co, 8) */
    int h, w, strips, lines;
};

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* A piece of a strip: `lines` lines from `row` on. */
struct strip_piece {
    int image, row, column, lines;
};

struct line_copier {
    const stem_weight_arguments &a;
    strip_piece piece;
    unsigned draws, images; /* the rings of this warp in shared memory; of dL/draw from this lane's vectors on */
    unsigned first;         /* of this lane's vectors in the first line of the map, */
    bool exists[4];         /* and which there are */

    __device__ line_copier(const stem_weight_arguments &all, const strip_piece &at, unsigned shared, int channel)
        : a(all), piece(at), draws(shared + threadIdx.x % 32 * 16), images(shared + DRAW_LINES * DRAW_LINE)
    {
        const tensor_view<bf16> &y = a.dy.dy.y;
        int column = piece.column + threadIdx.x % 4 * 2;
        first = (unsigned)(((piece.image * y.h + piece.row) * y.w + column) * y.cp + channel);
#pragma unroll
        for (int i = 0; i < 4; i++)
            exists[i] = column + place(i) < y.w;
    }

    /* Of this lane's positions, from its first. */
    __device__ static int place(int i)
    {
        return i / 2 * 8 + i % 2;
    }

    /* Line `line` of the image, which is the one above the first of the piece if it is 0. */
    __device__ void copy_image(int line) const
    {
        int lane = threadIdx.x % 32, y = piece.row - 1 + line, x = piece.column - 1 + lane;
        if (lane >= LINE_POSITIONS + 2)
            return;
        bool inside = (unsigned)y < (unsigned)a.h && (unsigned)x < (unsigned)a.w;
        const bf16 *from = inside ? a.x + (unsigned)((piece.image * a.h + y) * a.w + x) * 8 : a.x;
        copy16_async_part(images + line % IMAGE_LINES * IMAGE_LINE + lane * 16, from, inside ? 16 : 0);
    }

    template <pending WHAT> __device__ void copy_draw(int line) const
    {
        const tensor_view<bf16> &y = a.dy.dy.y;
        unsigned to = draws + line % DRAW_LINES * DRAW_LINE, from = first + (unsigned)(line * y.w * y.cp);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned at = exists[i] ? from + (unsigned)(place(i) * y.cp) : 0;
            copy16_async_part(to + i * 512, a.dy.dy.g + at, exists[i] ? 16 : 0);
            if (WHAT != PENDING_NOTHING)
                copy16_async_part(to + (4 + i) * 512, y.raw + at, exists[i] ? 16 : 0);
        }
    }

    /* What a line adds to those before it. */
    template <pending WHAT> __device__ void copy_line(int line) const
    {
        if (line < piece.lines) {
            copy_image(line + 2);
            copy_draw<WHAT>(line);
        }
        close_copies();
    }
};

/* ---- products -------------------------------------------------------------------------------------------------- */

__device__ inline unsigned lower_halves(unsigned a, unsigned b)
{
    return (a & 0xffffu) | b << 16;
}

__device__ inline unsigned upper_halves(unsigned a, unsigned b)
{
    return a >> 16 | (b & 0xffff0000u);
}

/* The operands of a line: dL/draw of this lane's positions, two and two side by side. */
template <pending WHAT>
__device__ inline void read_draw(const line_copier &copier, int line, const gradient_source::coefficients &by,
                                 unsigned (&operand)[4][4])
{
    unsigned from = copier.draws + line % DRAW_LINES * DRAW_LINE;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint4 draw[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            gradient_source::fetched f = {};
            load_shared16((unsigned *)&f.g, from + (half * 2 + i) * 512);
            if (WHAT != PENDING_NOTHING)
                load_shared16((unsigned *)&f.raw, from + (4 + half * 2 + i) * 512);
            draw[i] = copier.a.dy.finish<WHAT>(f, by);
            if (!copier.exists[half * 2 + i]) /* what is pending may have made something of it */
                draw[i] = make_uint4(0, 0, 0, 0);
        }
        unsigned first[4] = {draw[0].x, draw[0].y, draw[0].z, draw[0].w};
        unsigned second[4] = {draw[1].x, draw[1].y, draw[1].z, draw[1].w};
#pragma unroll
        for (int m = 0; m < 4; m++) {
            operand[m][half * 2] = lower_halves(first[m], second[m]);
            operand[m][half * 2 + 1] = upper_halves(first[m], second[m]);
        }
    }
}

__device__ inline void multiply_line(const line_copier &copier, int line, const unsigned (&operand)[4][4],
                                     float (&sum)[4][LINE_TAPS][4])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int tap = 0; tap < LINE_TAPS; tap += 2) {
        unsigned b[4];
        int mine = tap + lane / 16 < LINE_TAPS ? tap + lane / 16 : tap; /* two taps at once */
        load_matrices_transposed(b, copier.images + (line + mine / 3) % IMAGE_LINES * IMAGE_LINE +
                                        (lane % 16 + mine % 3) * 16);
#pragma unroll
        for (int m = 0; m < 4; m++) {
            multiply_add(sum[m][tap], operand[m], b);
            if (tap + 1 < LINE_TAPS)
                multiply_add(sum[m][tap + 1], operand[m], b + 2);
        }
    }
}

template <pending WHAT>
__device__ inline void add_piece(const stem_weight_arguments &a, const strip_piece &piece, unsigned shared, int channel,
                                 float (&sum)[4][LINE_TAPS][4])
{
    line_copier copier(a, piece, shared, channel);
    gradient_source::coefficients by = coefficients_of(a.dy, group_of(a.dy.dy.y.groups, piece.image), channel);
    __syncwarp(); /* nobody reads the piece before any more */
    copier.copy_image(0);
    copier.copy_image(1);
#pragma unroll
    for (int line = 0; line < LINES_AHEAD; line++)
        copier.copy_line<WHAT>(line);
#pragma unroll 1
    for (int line = 0; line < piece.lines; line++) {
        unsigned operand[4][4];
        wait_for_older_copies<LINES_AHEAD - 1>();
        __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
        copier.copy_line<WHAT>(line + LINES_AHEAD);
        read_draw<WHAT>(copier, line, by, operand);
        multiply_line(copier, line, operand, sum);
    }
}

/* Grid: (blocks, tiles of c_out). */
template <pending WHAT>
__global__ void __launch_bounds__(LINE_THREADS, 1) stem_weight_kernel(const __grid_constant__ stem_weight_arguments a)
{
    char *shared = dynamic_shared();
    const tensor_view<bf16> &y = a.dy.dy.y;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int channel = blockIdx.y * LINE_CHANNELS + lane / 4 * 8;
    int all = gridDim.x * LINE_WARPS, number = blockIdx.x * LINE_WARPS + warp;
    int next = (int)((long long)a.lines * number / all), end = (int)((long long)a.lines * (number + 1) / all);
    float sum[4][LINE_TAPS][4] = {};
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    while (next < end) {
        int strip = next / y.h, row = next - strip * y.h, left = y.h - row < end - next ? y.h - row : end - next;
        strip_piece piece = {strip / a.strips, row, strip % a.strips * LINE_POSITIONS, left};
        add_piece<WHAT>(a, piece, shared_address(shared) + warp * WARP_BYTES, channel, sum);
        next += left;
    }
    add_splits<LINE_WARPS, LINE_SUMS>(&sum[0][0][0], warp, 0, 1, (float *)shared);
    if (warp > 0)
        return;
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int tap = 0; tap < LINE_TAPS; tap++) {
            const float *from = sum[m][tap];
            float *to = a.sums + ((size_t)(blockIdx.x * LINE_TAPS + tap) * y.cp + channel + 2 * m) * 8 + lane % 4 * 2;
            *(float2 *)to = make_float2(from[0], from[1]);
            *(float2 *)(to + 8) = make_float2(from[2], from[3]);
        }
}

/* ---- plan and launch -------------------------------------------------------------------------------------------- */

static const size_t SHARED_BYTES = (size_t)LINE_WARPS * WARP_BYTES;
static_assert(LINE_WARPS * WARP_BYTES >= LINE_WARPS / 2 * LINE_SUMS * 32 * 4, "add_splits has room");

static bool is_first_layer(const rc_cuda *cuda, const rc_conv *conv, axis_taps *taps)
{
    return rc_cuda_is_first_layer(conv) && (size_t)rc_cuda_shared(cuda, CONV_SHARED_MOST) >= SHARED_BYTES &&
           rc_cuda_forward_taps(conv, taps);
}

static int blocks_of(const rc_cuda *cuda, const rc_conv *conv)
{
    int tiles = conv->c_out / LINE_CHANNELS, blocks = cuda->multiprocessors / tiles;
    return blocks > 1 ? blocks : 1;
}

size_t rc_cuda_stem_weight_workspace(const rc_cuda *cuda, const rc_conv *conv)
{
    axis_taps taps;
    if (!is_first_layer(cuda, conv, &taps))
        return 0;
    return (size_t)blocks_of(cuda, conv) * LINE_TAPS * (size_t)conv->c_out * 8 * sizeof(float);
}

bool rc_cuda_stem_backward_weight(rc_cuda *cuda, const rc_conv *conv, const value_source &value,
                                  const gradient_source &gradient, float *dweight)
{
    static const char operation[] = "conv_backward_weight";
    axis_taps taps;
    bool takes = gradient.what == PENDING_NOTHING || gradient.what == PENDING_USUAL;
    if (!takes || value.what != PENDING_NOTHING || !is_first_layer(cuda, conv, &taps))
        return false;
    reduce_arguments reduce = {};
    reduce.blocks = blocks_of(cuda, conv);
    reduce.k = conv->k;
    reduce.co = reduce.co_padded = conv->c_out;
    reduce.ci = conv->c_in;
    reduce.ci_padded = 8;
    if (!rc_cuda_list_terms(&taps, &reduce) || reduce.taps != LINE_TAPS)
        return false;
    int strips = (conv->ow + LINE_POSITIONS - 1) / LINE_POSITIONS;
    float *sums = (float *)rc_cuda_workspace(cuda, rc_cuda_stem_weight_workspace(cuda, conv), operation);
    if (!sums)
        return true;
    stem_weight_arguments a = {
        value.x.raw, gradient, sums, conv->h, conv->w, strips, gradient.dy.y.n * strips * conv->oh};
    void (*kernel)(stem_weight_arguments) = gradient.what == PENDING_NOTHING ? stem_weight_kernel<PENDING_NOTHING>
                                                                             : stem_weight_kernel<PENDING_USUAL>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel,
                         dim3((unsigned)reduce.blocks, (unsigned)(conv->c_out / LINE_CHANNELS)), LINE_THREADS,
                         SHARED_BYTES, a);
    reduce.sums = sums;
    reduce.dweight[0] = dweight;
    rc_cuda_reduce_weight(cuda, &reduce);
    return true;
}
