/* Both gradients of a 3 x 3 convolution at once, on the tensor cores.
 *
 * The data gradient and the weight gradient read the same dL/draw, and the value of the layer below is needed for the
 * weights as well as for the sums of that layer's normalisation: at these sizes reading is most of the work. So a block
 * loads a tile of dL/draw with its halo and the value at the tile's positions; half of its warps then gather the data
 * gradient as conv_gather.cuh does, the other half add up the weight gradient
 *     dW[tap] (c_out, c_in) = sum over positions p of dL/draw (c_out) at p + offset of the tap x value (c_in) at p,
 * which they keep in registers until the block has done all its tiles. conv_reduce.cu adds the sums of all blocks, on
 * the lane of the weight gradients.
 *
 * C = c_in = c_out: 16, 32 or 64. A block makes N result channels and Q x Q channels of the weight gradient. */
#include "backend/cuda/conv_gather.cuh"
#include "backend/cuda/conv_mma.h"
#include "backend/cuda/conv_plan.h"
#include "backend/cuda/conv_reduce.h"

enum { DATA_WARPS = CONV_BOTH_DATA_WARPS, WEIGHT_WARPS = CONV_WARPS - DATA_WARPS, TAPS = 9 };

typedef gather_arguments<gradient_source, gradient_sink> data_arguments;

struct both_arguments {
    data_arguments data;
    value_source x;
    float *sums; /* (blocks, taps, C, C) */
    int x_bytes; /* of shared memory: the value at the positions of a tile */
};

template <int C> struct both_shape {
    static constexpr int Q = both_channels(C), PARTS = (C / Q) * (C / Q), N = C / PARTS;
    static constexpr int OWNERS = (Q / 16) * (Q / 16); /* warps that have 16 x 16 channels each */
    static constexpr int SPLIT = WEIGHT_WARPS / OWNERS; /* warps that share a tile's positions */
    using warps = warp_shape<N, false>;
};

/* Shared memory of a block: weights, dL/draw, value, then tables. */
template <int C> struct both_space {
    char *dy, *x;
    float *sink_table, *dy_table, *x_table, *turning;

    __device__ both_space(const both_arguments &b)
    {
        dy = dynamic_shared() + b.data.weight_bytes;
        x = dy + b.data.tile_bytes;
        sink_table = (float *)(x + b.x_bytes);
        dy_table = sink_table + SINK_ROWS * both_shape<C>::N;
        x_table = dy_table + gradient_source::ROWS * C;
        turning = x_table + value_source::ROWS * C;
    }
};

/* Every thread of the block takes part, whatever its warp does with the tile: MOST vectors on their way at once. */
template <int C, int MOST>
__device__ inline void load_both(const both_arguments &b, const both_space<C> &space, tile_place at, bool first,
                                 int first_i)
{
    constexpr int Q = both_shape<C>::Q;
    const tile_cut &cut = b.data.cut;
    rectangle positions = positions_of(cut, at, 0);
    if (!first) {
        barrier_of_roles();
        clear_tile(space.dy, b.data.tile_bytes); /* tiles at the border have other zeros */
        barrier_of_roles();
    }
    load_window<C, MOST>(b.data.source, space.dy_table, source_window(cut, at, false), 0, space.dy);
    load_window<Q, MOST>(b.x, space.x_table, positions_window(cut, positions, at, 0), first_i, space.x);
    clear_rest<Q>(positions.count, space.x);
    wait_for_copies();
    barrier_of_roles();
}

/* ---- the data gradient ------------------------------------------------------------------------------------------ */

template <int C>
__device__ inline void gather_data(const both_arguments &b, const both_space<C> &space, tile_share share, int first_i,
                                   sink_sums &sums)
{
    using both = both_shape<C>;
    using warps = typename both::warps;
    constexpr int N = both::N;
    const data_arguments &a = b.data;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block_channel = blockIdx.y * N;
    int lane_channel = lane % (warps::CHANNELS / 8) * 8, channel = block_channel + lane_channel;
    const float *bias = space.sink_table + ROW_BIAS * N + lane % 4 * warps::VECTOR;
    float *turning = space.turning + warp * (warps::POSITIONS / 2 * warps::CHANNELS);
    unsigned weights = shared_address(dynamic_shared()) + lane * 16, tile = shared_address(space.dy);
    warp_positions<N, false, gradient_sink> mine;
    for (int t = share.row; t < share.tiles; t += a.cut.blocks[share.group]) {
        tile_place at = place_of_tile(a.cut, share.group, t);
        load_both<C, 8>(b, space, at, t == share.row, first_i);
        rectangle positions = positions_of(a.cut, at, 0);
        line results = line_of_results(a.cut, positions, at, 0);
        for (int first = warp * warps::POSITIONS; first < positions.count; first += DATA_WARPS * warps::POSITIONS) {
            mine.template locate<C>(a.cut, positions, results, tile, first);
            mine.fetch(a.sink, channel);
            mine.begin(bias);
            add_taps<C, N, false>(mine.sum, mine.row_address, a.offset, TAPS, weights);
            mine.take(a.sink, space.sink_table + lane_channel, channel, turning, sums);
        }
    }
    if (both::SPLIT > 1) { /* add_weights has these, too */
        barrier_of_roles();
        barrier_of_roles();
    }
}

/* ---- the weight gradient ---------------------------------------------------------------------------------------- */

/* Adds the products of 16 positions. */
__device__ inline void add_products(float (&sum)[TAPS][2][4], unsigned dy, unsigned x, const int *offset)
{
    unsigned value[4];
    load_matrices_transposed(value, x);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        unsigned gradient[4];
        load_matrices_transposed(gradient, dy + offset[tap]);
        multiply_add(sum[tap][0], gradient, value);
        multiply_add(sum[tap][1], gradient, value + 2);
    }
}

/* The warps that split the positions leave their sums to the first of them. */
template <int SPLIT> __device__ inline void join_splits(float (&sum)[TAPS][2][4], int split, float *space)
{
    constexpr int COUNT = TAPS * 2 * 4;
    float *flat = &sum[0][0][0];
    int lane = threadIdx.x % 32;
    barrier_of_roles(); /* the space was the tile */
    if (split > 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            space[((split - 1) * COUNT + i) * 32 + lane] = flat[i];
    }
    barrier_of_roles();
    if (split == 0) {
        for (int other = 0; other < SPLIT - 1; other++)
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                flat[i] += space[(other * COUNT + i) * 32 + lane];
    }
}

template <int C>
__device__ inline void add_weights(const both_arguments &b, const both_space<C> &space, tile_share share, int first_o,
                                   int first_i)
{
    using both = both_shape<C>;
    constexpr int SIDE = both::Q / 16;
    const tile_cut &cut = b.data.cut;
    int warp = threadIdx.x / 32 - DATA_WARPS, lane = threadIdx.x % 32;
    int owner = warp % both::OWNERS, split = warp / both::OWNERS;
    int warp_o = owner / SIDE * 16, warp_i = owner % SIDE * 16;
    /* Rows of the transposed operands: positions; of dL/draw the second matrix has the other eight channels. */
    int dy_position = (lane % 8) + (lane / 16) * 8, x_position = lane % 16;
    unsigned dy_base = shared_address(space.dy) + (first_o + warp_o) * 2 + lane / 8 % 2 * 16;
    unsigned x_base = shared_address(space.x) + warp_i * 2 + lane / 16 * 16;
    int t = share.row;
    tile_place at = place_of_tile(cut, share.group, t);
    load_both<C, 8>(b, space, at, true, first_i);
    float sum[TAPS][2][4] = {};
    for (;;) {
        rectangle positions = positions_of(cut, at, 0);
        line sources = scaled(line_of_sources(cut, positions), pixel_pitch(C), 0);
        for (int first = split * 16; first < positions.count; first += both::SPLIT * 16) {
            int index = first + dy_position; /* past the last the value is 0 */
            element e = element_of(positions, index < positions.count ? index : 0);
            add_products(sum, dy_base + place_on(sources, e), x_base + (first + x_position) * pixel_pitch(both::Q),
                         b.data.offset);
        }
        t += cut.blocks[share.group];
        if (t >= share.tiles)
            break;
        at = place_of_tile(cut, share.group, t);
        load_both<C, 2>(b, space, at, false, first_i); /* beside the sums in registers */
    }
    if (both::SPLIT > 1)
        join_splits<both::SPLIT>(sum, split, (float *)space.dy);
    if (split > 0)
        return;
    int row = first_o + warp_o + lane / 4, column = first_i + warp_i + lane % 4 * 2;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        float *to = b.sums + ((size_t)(blockIdx.x * TAPS + tap) * C + row) * C + column;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            *(float2 *)(to + j * 8) = make_float2(sum[tap][j][0], sum[tap][j][1]);
            *(float2 *)(to + (size_t)8 * C + j * 8) = make_float2(sum[tap][j][2], sum[tap][j][3]);
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

/* Grid: (blocks of all groups, parts of the channels). */
template <int C>
__global__ void __launch_bounds__(CONV_THREADS, 2) both_kernel(const __grid_constant__ both_arguments b)
{
    using both = both_shape<C>;
    constexpr int N = both::N, STEP = N * 32 * (C / 16);
    const data_arguments &a = b.data;
    both_space<C> space(b);
    int part = blockIdx.y, side = C / both::Q, first_o = part / side * both::Q, first_i = part % side * both::Q;
    tile_share share = share_of_block(a.cut, blockIdx.x);
    /* Weights are older than the kernel before: they travel while that one ends. */
    copy_weights(shared_address(dynamic_shared()), a.weights + (size_t)part * TAPS * STEP, TAPS * STEP);
    clear_tile(space.dy, a.tile_bytes);
    wait_for_kernel_before();
    make_table(a.source, share.group, 0, C, space.dy_table);
    make_table(b.x, share.group, 0, C, space.x_table);
    make_table(a.sink, share.group, part * N, N, space.sink_table);
    __syncthreads(); /* also: the tile is clear */
    sink_sums sums = {};
    if (threadIdx.x / 32 < DATA_WARPS)
        gather_data<C>(b, space, share, first_i, sums);
    else
        add_weights<C>(b, space, share, first_o, first_i);
    if (a.sink.partial)
        write_sums<N, false>(a.sink.partial, a.cut, share, 0, C, part * N, sums, (float *)space.dy);
    if (a.tickets)
        finish_norm<N>(a.norm, a.tickets + part, a.sink.partial, a.cut.most_blocks, C, part * N, (double *)space.dy);
}

/* ---- launch ----------------------------------------------------------------------------------------------------- */

/* What waits for the normalisation below to join it. */
struct held_both {
    both_arguments kernel;
    reduce_arguments reduction;
};

static void launch_held_both(rc_cuda *cuda)
{
    const rc_cuda_held *held = &cuda->held;
    const held_both *both = (const held_both *)held->arguments;
    rc_cuda_launch_as(cuda, held->early, held->operation, (void (*)(const both_arguments))held->kernel, held->grid,
                      CONV_THREADS, held->shared_bytes, both->kernel);
    cuda->table.fork(&cuda->table, RC_WEIGHT_LANE);
    rc_cuda_reduce_weight(cuda, &both->reduction);
    cuda->table.fork(&cuda->table, RC_MAIN_LANE);
}

/* Slots are used in turn, so that the sums of one convolution are added while the next ones write theirs. */
static float *next_slot(rc_cuda *cuda)
{
    int slot = cuda->next_slot++ % RC_CUDA_SLOTS;
    if (slot == 0)
        cuda->table.join(&cuda->table, RC_WEIGHT_LANE);
    return (float *)((char *)cuda->slots + (size_t)slot * CONV_BOTH_SLOT_BYTES);
}

static void set_reduction(const rc_conv *conv, const gather_plan &plan, float *sums, float *dweight,
                          reduce_arguments *reduction)
{
    *reduction = reduce_arguments();
    reduction->sums = sums;
    reduction->dweight = dweight;
    reduction->blocks = (int)plan.grid.x;
    reduction->taps = TAPS;
    reduction->co_padded = reduction->co = conv->c_out;
    reduction->ci_padded = reduction->ci = conv->c_in;
    reduction->k = conv->k;
    reduction->terms = 1;
    for (int tap = 0; tap < TAPS; tap++) { /* a tap has one position of the kernel along each axis */
        int y = 0, x = 0;
        while (!(plan.form.kernel[0][tap / 3] >> y & 1))
            y++;
        while (!(plan.form.kernel[0][tap % 3] >> x & 1))
            x++;
        reduction->term[y * 3 + x][0] = (signed char)tap;
    }
}

bool rc_cuda_mma_backward_both(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                               const float *weight, void *dx, const rc_back_epilogue *epilogue, float *dweight)
{
    static_assert(sizeof(held_both) <= sizeof cuda->held.arguments, "no room for the arguments");
    static const char operation[] = "conv_backward";
    both_plan plan;
    held_both both;
    bool slopes = epilogue->partial && x->act != RC_ACT_NONE, fresh;
    const void *addend = !epilogue->add ? NULL : epilogue->addend ? epilogue->addend : dx;
    data_arguments *a = &both.kernel.data;
    a->sink = gradient_sink{view_tensor<bf16>(x), (bf16 *)dx, (const bf16 *)addend, epilogue->partial,
                            (const float *)x->mean, slope_below(x->act), slopes};
    bool finishes = !slopes || (piecewise_linear(x->act) && (!x->skip.value || x->stored));
    if (!finishes || !view_source(dy, &a->source) || !view_source(x, &both.kernel.x) ||
        !rc_cuda_plan_both(cuda, conv, x, &plan) || !cuda->slots)
        return false;
    rc_cuda_enqueue_deferred(cuda);
    a->weights = (const char *)rc_cuda_packed_weights(cuda, &plan.gather.form, weight, &fresh);
    rc_cuda_set_gather(plan.gather, a);
    both.kernel.sums = next_slot(cuda);
    both.kernel.x_bytes = plan.x_bytes;
    set_reduction(conv, plan.gather, both.kernel.sums, dweight, &both.reduction);
    void (*kernel)(const both_arguments) = conv->c_in == 16   ? both_kernel<16>
                                           : conv->c_in == 32 ? both_kernel<32>
                                                              : both_kernel<64>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_held *held = &cuda->held;
    *(held_both *)held->arguments = both;
    a = &((held_both *)held->arguments)->kernel.data;
    held->partial = epilogue->partial;
    held->norm = &a->norm;
    held->tickets = &a->tickets;
    held->backward = true;
    held->operation = operation;
    held->kernel = (void (*)(void))kernel;
    held->grid = plan.gather.grid;
    held->shared_bytes = (size_t)plan.gather.shared_bytes;
    held->early = !fresh;
    cuda->deferred = launch_held_both;
    if (!held->partial)
        rc_cuda_enqueue_deferred(cuda);
    return true;
}
