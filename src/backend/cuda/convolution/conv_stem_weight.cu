/* Weight gradient of a first layer (conv_stem.h) whose image is finished. Its products are few and its maps are large,
 * so it is to read them at the speed of memory.
 *
 * Every warp works for itself. It walks down a strip of 16 columns, a line at a time: 16 positions are the inner
 * dimension of its products, 32 channels of dL/draw by eight of the image at each tap. Two warps share a strip, half of
 * the channels each: so there is room for the sums of 16 warps in registers, and what one waits for the others fill.
 * What a warp reads travels to rings of its own (cp.async), LINES_AHEAD lines before it is used. A lane reads four
 * channels of four positions, of the gradient and of the raw result, which are whole operands once their positions have
 * been put side by side, as rows of a product may be any channels:
 *
 *     row g of product m: channel 4 g + 2 m     row g + 8: channel 4 g + 2 m + 1     lane = 4 g + t
 *     positions of lane 4 g + t: 2 t, 2 t + 1, 2 t + 8, 2 t + 9
 *
 * The i-th positions of all lanes lie together in the ring, 64 bytes each, so that no two lanes read the same bank:
 * vectors of eight channels change places where t is 2 or 3.
 *
 * The lines of the image lie in a ring of the warp, with a column more on each side; ldmatrix transposes them. Each
 * block writes the sums of its warps to the workspace, and a second kernel adds those (conv_reduce.h). */
#include "backend/cuda/convolution/conv_stem_weight.h"

#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/convolution/conv_splits.cuh"
#include "backend/cuda/convolution/conv_stem.h"

enum {
    LINE_SHARES = 8, /* of the lines, for a block */
    LINE_HALVES = 2, /* of the channels */
    LINE_WARPS = LINE_SHARES * LINE_HALVES,
    LINE_THREADS = LINE_WARPS * 32,
    LINE_POSITIONS = 16,
    LINE_CHANNELS = STEM_CHANNELS,
    LINE_HALF = LINE_CHANNELS / LINE_HALVES,
    LINE_TAPS = 9,
    LINES_AHEAD = 3,
    DRAW_LINES = LINES_AHEAD + 1,
    DRAW_MAP = LINE_POSITIONS * LINE_HALF * 2, /* bytes of a line: of the gradient, and then of the raw result */
    DRAW_LINE = 2 * DRAW_MAP,
    IMAGE_LINES = LINES_AHEAD + 3, /* three in use and those on their way */
    IMAGE_LINE = (LINE_POSITIONS + 2) * 16,
    WARP_BYTES = DRAW_LINES * DRAW_LINE + IMAGE_LINES * IMAGE_LINE,
    LINE_SUMS = 2 * LINE_TAPS * 4 /* of a lane */
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
    int row, lines;
    unsigned to, image_to;     /* of this lane's first vectors, in the rings of the warp */
    unsigned from[2], image;   /* in the first line of the maps; of other columns where there are none */
    int bytes[2], image_bytes; /* 16; none: 0 */

    /* channel: the first of the warp's. */
    __device__ line_copier(const stem_weight_arguments &all, const strip_piece &piece, unsigned shared, int channel)
        : a(all), row(piece.row), lines(piece.lines)
    {
        const tensor_view<bf16> &y = a.dy.dy.y;
        int lane = threadIdx.x % 32, position = lane / 4, vector = lane % 4, line = piece.image * y.h + row;
        to = shared + place(position % 2, position / 2, vector);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int column = piece.column + position + i * 8;
            bytes[i] = column < y.w ? 16 : 0;
            from[i] = (unsigned)((line * y.w + (column < y.w ? column : 0)) * y.cp + channel + vector * 8);
        }
        int x = piece.column - 1 + lane;
        bool inside = (unsigned)x < (unsigned)a.w;
        image_to = shared + DRAW_LINES * DRAW_LINE + lane * 16;
        image_bytes = inside ? 16 : 0;
        image = (unsigned)((line - 1) * a.w + (inside ? x : 0)) * 8;
    }

    /* Eight channels of the i-th position of lanes 4 g + t. */
    __device__ static int place(int i, int t, int vector)
    {
        return (i * 4 + t) * (LINE_HALF * 2) + (vector ^ (t & 2)) * 16;
    }

    /* Line `line` of the image, which is the one above the first of the piece if it is 0. slot: of the ring, in
     * bytes. */
    __device__ void copy_image(int line, unsigned slot) const
    {
        if (threadIdx.x % 32 >= LINE_POSITIONS + 2)
            return;
        bool inside = (unsigned)(row - 1 + line) < (unsigned)a.h;
        const bf16 *at = a.x + (inside ? image + (unsigned)(line * a.w * 8) : 0);
        copy16_async_part(image_to + slot, at, inside ? image_bytes : 0);
    }

    template <pending WHAT> __device__ void copy_draw(int line) const
    {
        const tensor_view<bf16> &y = a.dy.dy.y;
        unsigned ring = to + line % DRAW_LINES * DRAW_LINE, below = (unsigned)(line * y.w * y.cp);
#pragma unroll
        for (int i = 0; i < 2; i++) { /* eight positions later: two later among those of a lane */
            copy16_async_part(ring + place(i * 2, 0, 0), a.dy.dy.g + (from[i] + below), bytes[i]);
            if (WHAT != PENDING_NOTHING)
                copy16_async_part(ring + place(i * 2, 0, 0) + DRAW_MAP, y.raw + (from[i] + below), bytes[i]);
        }
    }

    /* What a line adds to those before it. */
    template <pending WHAT> __device__ void copy_line(int line, unsigned slot) const
    {
        if (line < lines) {
            copy_image(line + 2, slot);
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

/* Of the four channels of a lane, twice: for two positions at once. */
__device__ inline gradient_source::coefficients coefficients_twice(const gradient_source &source, int group,
                                                                   int channel)
{
    gradient_source::coefficients by;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        float row[gradient_source::ROWS];
        source.read(row, group, channel + c);
#pragma unroll
        for (int i = 0; i < gradient_source::ROWS; i++)
            by.row[i].v[c] = by.row[i].v[c + 4] = row[i];
    }
    return by;
}

/* Where a lane reads: of the rings, and which of its positions there are, two and two. */
struct line_reader {
    unsigned draws, images;
    bool exists[4];

    __device__ line_reader(int w, const strip_piece &piece, unsigned shared)
    {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        draws = shared + line_copier::place(0, t, g / 2) + g % 2 * 8;
        images = shared + DRAW_LINES * DRAW_LINE + lane % 16 * 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            exists[i] = piece.column + t * 2 + i / 2 * 8 + i % 2 < w;
    }

    /* The operands of a line: dL/draw, positions side by side. */
    template <pending WHAT>
    __device__ void read_draw(const gradient_source &source, int line, const gradient_source::coefficients &by,
                              unsigned (&operand)[2][4]) const
    {
        unsigned from = draws + line % DRAW_LINES * DRAW_LINE;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            gradient_source::fetched f = {};
#pragma unroll
            for (int i = 0; i < 2; i++) {
                unsigned at = from + line_copier::place(half * 2 + i, 0, 0);
                load_shared8((unsigned *)&f.g + i * 2, at);
                if (WHAT != PENDING_NOTHING)
                    load_shared8((unsigned *)&f.raw + i * 2, at + DRAW_MAP);
            }
            uint4 draw = source.finish<WHAT>(f, by);
            if (!exists[half * 2]) /* what is pending may have made something of it */
                draw.x = draw.y = 0;
            if (!exists[half * 2 + 1])
                draw.z = draw.w = 0;
            operand[0][half * 2] = lower_halves(draw.x, draw.z);
            operand[0][half * 2 + 1] = upper_halves(draw.x, draw.z);
            operand[1][half * 2] = lower_halves(draw.y, draw.w);
            operand[1][half * 2 + 1] = upper_halves(draw.y, draw.w);
        }
    }

    /* slot: of the upper of three lines of the image. Lanes 16 to 31 have the second of two taps. */
    __device__ void multiply(unsigned slot, const unsigned (&operand)[2][4], float (&sum)[2][LINE_TAPS][4]) const
    {
        bool second = threadIdx.x % 32 >= 16;
        unsigned upper = images + slot, middle = images + slot_after(slot),
                 lower = images + slot_after(slot_after(slot));
        unsigned next = second ? 16 : 0;
        unsigned at[5] = {upper + next, second ? middle : upper + 32, middle + 16 + next, lower + next, lower + 32};
#pragma unroll
        for (int tap = 0; tap < LINE_TAPS; tap += 2) {
            unsigned b[4];
            load_matrices_transposed(b, at[tap / 2]);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                multiply_add(sum[m][tap], operand[m], b);
                if (tap + 1 < LINE_TAPS)
                    multiply_add(sum[m][tap + 1], operand[m], b + 2);
            }
        }
    }

    __device__ static unsigned slot_after(unsigned slot)
    {
        return slot == (IMAGE_LINES - 1) * IMAGE_LINE ? 0 : slot + IMAGE_LINE;
    }

    __device__ static unsigned slot_before(unsigned slot)
    {
        return slot == 0 ? (IMAGE_LINES - 1) * IMAGE_LINE : slot - IMAGE_LINE;
    }
};

template <pending WHAT>
__device__ inline void add_piece(const stem_weight_arguments &a, const strip_piece &piece, unsigned shared, int channel,
                                 float (&sum)[2][LINE_TAPS][4])
{
    line_copier copier(a, piece, shared, channel);
    line_reader reader(a.w, piece, shared);
    gradient_source::coefficients by = coefficients_twice(a.dy, group_of(a.dy.dy.y.groups, piece.image),
                                                          channel + threadIdx.x % 32 / 4 * 4);
    unsigned slot = 0;
    __syncwarp(); /* nobody reads the piece before any more */
    copier.copy_image(0, 0);
    copier.copy_image(1, IMAGE_LINE);
#pragma unroll
    for (int line = 0; line < LINES_AHEAD; line++)
        copier.copy_line<WHAT>(line, (line + 2) * IMAGE_LINE);
#pragma unroll 1
    for (int line = 0; line < piece.lines; line++) {
        unsigned operand[2][4];
        wait_for_older_copies<LINES_AHEAD - 1>();
        __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
        copier.copy_line<WHAT>(line + LINES_AHEAD, line_reader::slot_before(slot));
        reader.read_draw<WHAT>(a.dy, line, by, operand);
        reader.multiply(slot, operand, sum);
        slot = line_reader::slot_after(slot);
    }
}

/* Grid: (blocks, tiles of c_out). */
template <pending WHAT>
__global__ void __launch_bounds__(LINE_THREADS, 1) stem_weight_kernel(const __grid_constant__ stem_weight_arguments a)
{
    char *shared = dynamic_shared();
    const tensor_view<bf16> &y = a.dy.dy.y;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, share = warp / LINE_HALVES, half = warp % LINE_HALVES;
    int channel = blockIdx.y * LINE_CHANNELS + half * LINE_HALF;
    int all = gridDim.x * LINE_SHARES, number = blockIdx.x * LINE_SHARES + share;
    int next = (int)((long long)a.lines * number / all), end = (int)((long long)a.lines * (number + 1) / all);
    float sum[2][LINE_TAPS][4] = {};
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    while (next < end) {
        int strip = next / y.h, row = next - strip * y.h, left = y.h - row < end - next ? y.h - row : end - next;
        strip_piece piece = {strip / a.strips, row, strip % a.strips * LINE_POSITIONS, left};
        add_piece<WHAT>(a, piece, shared_address(shared) + warp * WARP_BYTES, channel, sum);
        next += left;
    }
    add_splits<LINE_SHARES, LINE_SUMS>(&sum[0][0][0], share, half, LINE_HALVES, (float *)shared);
    if (share > 0)
        return;
    channel += lane / 4 * 4;
#pragma unroll
    for (int m = 0; m < 2; m++)
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
