/* Weight gradient of layers from 16 to 16 channels (conv_walk.h), of one or of several of one shape, with the
 * normalisation of dL/dy pending. Like the other gradients of these layers it is to run at the speed of memory.
 *
 * Every warp works for itself, with 16 x 16 channels of all nine taps in its registers. It walks down a strip of 32
 * columns. At each step comes a line of dL/dy, with raw beside it, and the line of the source above it, AHEAD steps
 * before they are used (cp.async). A lane finishes in place what it has copied itself. Then the line of the source
 * meets three lines of dL/draw, its own and those of the two steps before, which are still there: 32 positions are the
 * inner dimension of 36 products.
 *
 * Lines of all strips and images of a layer are dealt evenly. The two steps after a share bring zeros for dL/draw: so
 * what meets the last lines of the source is nothing, and neither is what the next piece finds before its first.
 *
 * Every block writes its sums to the workspace, and a second kernel adds them in a fixed order (conv_reduce.h). */
#include "backend/cuda/convolution/conv_narrow_weight.h"
#include "backend/cuda/convolution/conv_splits.cuh"
#include "backend/cuda/convolution/conv_walk.cuh"

enum {
    WEIGHT_AHEAD = 2,
    SOURCE_SLOT = SOURCE_LINE + SINK_LINE, /* a line of the source, and raw of dL/dy */
    SOURCE_RING = (WEIGHT_AHEAD + 1) * SOURCE_SLOT,
    GRADIENT_RING = (WEIGHT_AHEAD + 3) * SINK_LINE, /* two more that are still in use */
    WEIGHT_BYTES = SOURCE_RING + GRADIENT_RING,     /* of a warp */
    WEIGHT_TABLES = ((int)gradient_source::ROWS + (int)value_source::ROWS) * WALK_CHANNELS * 4,
    WEIGHT_TAPS = 9
};

typedef float walk_weight_sums[WEIGHT_TAPS][2][4];

struct walk_weight_arguments {
    tile_cut cut; /* tiles are lines of a strip */
    float *sums;  /* (layers, blocks, taps, 16, 16) */
    weight_layer layer[RC_MAX_FUSED];
};

/* The slot after one of a ring of so many bytes. */
template <int SLOT, int RING> __device__ inline unsigned slot_after(unsigned slot)
{
    return slot == RING - SLOT ? 0 : slot + SLOT;
}

/* Where this lane's vectors of a line lie in the rings, in slot 0. */
struct weight_places {
    unsigned source, side, raw, gradient;

    __device__ explicit weight_places(unsigned space)
    {
        int lane = threadIdx.x % 32, pixel = lane / WALK_VECTORS, vector = lane % WALK_VECTORS;
        source = space + place_of(1 + pixel, vector);
        side = space + place_of(lane < WALK_VECTORS ? 0 : WALK_POSITIONS + 1, vector);
        raw = space + SOURCE_LINE + place_of(pixel, vector);
        gradient = space + SOURCE_RING + place_of(pixel, vector);
        settle(source);
        settle(side);
        settle(raw);
        settle(gradient);
    }
};

/* Copies the lines of a share, one after the other. */
struct weight_reader {
    const bf16 *x, *g, *raw;
    walk_share walk;
    unsigned source_slot, gradient_slot;
    int line, lines, row; /* the next step of the piece, how many there are, and the row of dL/dy */
    int at;               /* this lane's first vector of it in a map */
    bool beside;

    __device__ weight_reader(const weight_layer &layer, const walk_share &share)
        : x(layer.x.x.raw), g(layer.dy.dy.g), raw(layer.dy.dy.y.raw), walk(share), source_slot(0), gradient_slot(0),
          line(0), lines(0), row(0), at(0), beside(false)
    {
    }

    __device__ void copy(const tile_cut &cut, const weight_places &to)
    {
        int lane = threadIdx.x % 32, line_step = cut.source_w * WALK_CHANNELS;
        walk_piece piece;
        if (line == lines && walk.take(cut, piece)) {
            line = 0;
            lines = piece.lines + 2;
            row = piece.row;
            at = ((piece.image * cut.source_h + row) * cut.source_w + piece.column) * WALK_CHANNELS + lane * 8;
            beside = has_beside(cut, piece.column);
        }
        if (line < lines) {
            bool above = (unsigned)(row - 1) < (unsigned)cut.source_h, own = line < lines - 2;
            int to_side = lane < WALK_VECTORS ? -WALK_CHANNELS : (WALK_POSITIONS - 1) * WALK_CHANNELS;
            const bf16 *from = x + (at - line_step);
#pragma unroll
            for (int i = 0; i < WALK_VECTORS; i++)
                copy16_async_part(to.source + source_slot + i * WALK_STRETCH, from + i * WALK_STRETCH / 2,
                                  above ? 16 : 0);
            if (lane < 2 * WALK_VECTORS)
                copy16_async_part(to.side + source_slot, from + to_side, above && beside ? 16 : 0);
#pragma unroll
            for (int i = 0; i < WALK_VECTORS; i++) {
                copy16_async_part(to.gradient + gradient_slot + i * WALK_STRETCH, g + at + i * WALK_STRETCH / 2,
                                  own ? 16 : 0);
                copy16_async_part(to.raw + source_slot + i * WALK_STRETCH, raw + at + i * WALK_STRETCH / 2,
                                  own ? 16 : 0);
            }
            at += line_step;
            row++;
            line++;
        }
        source_slot = slot_after<SOURCE_SLOT, SOURCE_RING>(source_slot);
        gradient_slot = slot_after<SINK_LINE, GRADIENT_RING>(gradient_slot);
        close_copies();
    }
};

/* Adds what a line of the source gives with the three of dL/draw that it meets, the one below it first. Rows of a
 * product are 16 channels of dL/draw, columns 8 of the source. */
__device__ inline void add_line(walk_weight_sums &sum, const unsigned (&gradient)[3], const unsigned (&source)[3])
{
#pragma unroll
    for (int i = 0; i < 2; i++) { /* 16 positions each */
        unsigned a[3][4], b[4];
#pragma unroll
        for (int row = 0; row < 3; row++)
            load_matrices_transposed(a[row], gradient[row] + i * WALK_TILE);
#pragma unroll
        for (int column = 0; column < 3; column++) {
            load_matrices_transposed(b, source[column] + i * WALK_TILE);
#pragma unroll
            for (int row = 0; row < 3; row++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    multiply_add(sum[row * 3 + column][j], a[row], b + 2 * j);
        }
    }
}

__device__ inline void run_weight_share(const tile_cut &cut, const weight_layer &layer, walk_share walk,
                                        unsigned tables, unsigned space, walk_weight_sums &sum)
{
    constexpr unsigned LAST = GRADIENT_RING - SINK_LINE;
    int lane = threadIdx.x % 32;
    weight_places mine(space);
    unsigned dy_table = tables + lane % WALK_VECTORS * 32,
             x_table = dy_table + (int)gradient_source::ROWS * WALK_CHANNELS * 4;
    /* They are transposed, so rows of the operands are positions: of the left one the second matrix has the other eight
     * channels, of the right one the third. */
    unsigned left = space + SOURCE_RING + place_of(lane % 8 + lane / 16 * 8, lane / 8 % 2), right[3];
    settle(left);
#pragma unroll
    for (int x = 0; x < 3; x++) {
        right[x] = space + place_of(lane % 16 + x, lane / 16);
        settle(right[x]);
    }
    bool pending_x = layer.x.what != PENDING_NOTHING;
    unsigned source_slot = 0, slot = 0, before = LAST, two_before = LAST - SINK_LINE; /* of dL/draw */
    const unsigned zeros[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 2 * WALK_VECTORS; i++)
        store_shared16(mine.gradient + two_before + i * WALK_STRETCH, zeros);
    weight_reader reader(layer, walk);
    walk_piece piece;
#pragma unroll 1
    for (int line = 0; line < WEIGHT_AHEAD; line++)
        reader.copy(cut, mine);
#pragma unroll 1
    while (walk.take(cut, piece)) {
        bool beside = has_beside(cut, piece.column);
#pragma unroll 1
        for (int line = 0; line < piece.lines + 2; line++) {
            wait_for_older_copies<WEIGHT_AHEAD - 1>();
            if (line < piece.lines)
                finish_line<PENDING_USUAL, 2, WALK_VECTORS>(layer.dy, dy_table, mine.gradient + slot, 0, false,
                                                            mine.raw + source_slot - (mine.gradient + slot), NULL);
            if (pending_x && (unsigned)(piece.row + line - 1) < (unsigned)cut.source_h)
                finish_line<PENDING_USUAL, 1, WALK_VECTORS + 1>(layer.x, x_table, mine.source + source_slot,
                                                                mine.side + source_slot, beside, 0, NULL);
            __syncwarp(); /* the line is there, of all lanes, and nobody reads the line before */
            reader.copy(cut, mine);
            const unsigned gradient[3] = {left + slot, left + before, left + two_before};
            const unsigned source[3] = {right[0] + source_slot, right[1] + source_slot, right[2] + source_slot};
            add_line(sum, gradient, source);
            two_before = before;
            before = slot;
            slot = slot_after<SINK_LINE, GRADIENT_RING>(slot);
            source_slot = slot_after<SOURCE_SLOT, SOURCE_RING>(source_slot);
        }
    }
}

/* Grid: (blocks of all groups, 1, layers). */
__global__ static void __launch_bounds__(WALK_THREADS, WALK_BLOCKS)
    walk_weight_kernel(const __grid_constant__ walk_weight_arguments a)
{
    static_assert((int)(CONV_WARPS * WEIGHT_BYTES) >= CONV_WARPS / 2 * WEIGHT_TAPS * 8 * 32 * 4, "add_splits has room");
    char *shared = dynamic_shared(), *rings = shared + WEIGHT_TABLES;
    float *table = (float *)shared;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const weight_layer &layer = a.layer[blockIdx.z];
    tile_share share = share_of_block(a.cut, blockIdx.x);
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    make_table<WALK_THREADS>(layer.dy, share.group, 0, WALK_CHANNELS, table);
    make_table<WALK_THREADS>(layer.x, share.group, 0, WALK_CHANNELS,
                             table + (int)gradient_source::ROWS * WALK_CHANNELS);
    __syncthreads();
    walk_weight_sums sum = {};
    run_weight_share(a.cut, layer, share_of_warp(a.cut, share, 1), shared_address(shared),
                     shared_address(rings) + warp * WEIGHT_BYTES, sum);
    add_splits<CONV_WARPS, WEIGHT_TAPS * 8>(&sum[0][0][0], warp, 0, 1, (float *)rings);
    if (warp > 0)
        return;
    constexpr int PAIRS = WALK_CHANNELS * WALK_CHANNELS;
    float *to = a.sums + (size_t)(blockIdx.z * gridDim.x + blockIdx.x) * WEIGHT_TAPS * PAIRS +
                lane / 4 * WALK_CHANNELS + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * WEIGHT_TAPS; i++) {
        const float(&four)[4] = sum[i / 2][i % 2];
        float *of_tap = to + i / 2 * PAIRS + i % 2 * 8;
        *(float2 *)of_tap = make_float2(four[0], four[1]);
        *(float2 *)(of_tap + 8 * WALK_CHANNELS) = make_float2(four[2], four[3]);
    }
}

/* ---- plan and launch --------------------------------------------------------------------------------------------- */

static bool takes_layer(const weight_layer &layer)
{
    bool rectified = layer.x.what == PENDING_USUAL && layer.x.x.act == RC_ACT_RELU;
    return layer.dy.what == PENDING_USUAL && (layer.x.what == PENDING_NOTHING || rectified);
}

bool rc_cuda_walk_backward_weight(rc_cuda *cuda, const rc_conv *conv, const weight_layer *layers, int count)
{
    static const char operation[] = "conv_backward_weight";
    int shared_bytes = WEIGHT_TABLES + CONV_WARPS * WEIGHT_BYTES, most = WALK_BLOCKS * cuda->multiprocessors / count;
    walk_weight_arguments a = {};
    reduce_arguments reduce;
    axis_taps taps;
    bool taken = is_walked(conv) && shared_bytes <= cuda->shared_bytes;
    for (int i = 0; taken && i < count; i++) {
        taken = takes_layer(layers[i]);
        a.layer[i] = layers[i];
    }
    if (!taken || !rc_cuda_forward_taps(conv, &taps) || !rc_cuda_begin_reduce(conv, layers, count, &reduce))
        return false;
    const group_view &groups = layers[0].dy.dy.y.groups;
    rc_tensor batch = {};
    batch.n = groups.end[groups.count - 1];
    batch.groups = groups.count;
    for (int g = 0; g < groups.count; g++)
        batch.group_end[g] = groups.end[g];
    reduce.blocks = rc_cuda_cut_lines(&a.cut, conv, true, &taps, &batch, WALK_POSITIONS, most);
    size_t rows = (size_t)count * (size_t)reduce.blocks;
    a.sums = (float *)rc_cuda_workspace(cuda, rows * WEIGHT_TAPS * WALK_CHANNELS * WALK_CHANNELS * sizeof(float),
                                        operation);
    if (!a.sums)
        return true;
    rc_cuda_allow_shared(cuda, walk_weight_kernel, operation);
    rc_cuda_launch_early(cuda, operation, walk_weight_kernel, dim3((unsigned)reduce.blocks, 1, (unsigned)count),
                         WALK_THREADS, (size_t)shared_bytes, a);
    reduce.sums = a.sums;
    rc_cuda_reduce_weight(cuda, &reduce);
    return true;
}
