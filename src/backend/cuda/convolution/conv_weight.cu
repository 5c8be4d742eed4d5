/* Weight gradient of a convolution on the tensor cores.
 *
 * dW[tap] (c_out, c_in) = sum over positions of dL/draw (c_out) x value of x (c_in) at the tap: a product whose inner
 * dimension is the positions of all images. A block keeps a tile of dL/draw and its source pixels in shared memory,
 * both with the channels of a pixel together; ldmatrix transposes them on the way to the operands. A warp owns 16 x 16
 * channels (or 8, where a map has no more) of up to TAPS taps; warps that are left over split the positions.
 * Every block writes the sums of its tiles to the workspace, and a second kernel adds them in a fixed order, together
 * with the taps that share a position of the kernel (conv_taps.h). */
#include "backend/cuda/convolution/conv_mma.h"
#include "backend/cuda/convolution/conv_narrow_weight.h"
#include "backend/cuda/convolution/conv_plan.h"
#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/convolution/conv_splits.cuh"
#include "backend/cuda/convolution/conv_stem_weight.h"
#include "backend/cuda/convolution/conv_wide.h"

/* ---- products -------------------------------------------------------------------------------------------------- */

struct weight_arguments {
    tile_cut cut;
    float *sums;              /* (blocks, taps, c_out, c_in), padded channels */
    int taps, parts;          /* all taps; each part has at most TAPS of them, of one phase */
    int dy_bytes, tile_bytes; /* of shared memory: positions, source pixels; the tables follow */
    int phase[16], first_tap[16], part_taps[16];
    int offset[CONV_TAPS]; /* of each tap in the tile, in bytes */
    value_source x;
    gradient_source dy;
};

template <int CO, int CI> struct weight_shape {
    static constexpr int WARPS_O = CO < 16 ? 1 : CO / 16, WARPS_I = CI < 16 ? 1 : CI / 16;
    static constexpr int SPLIT = CONV_WARPS / (WARPS_O * WARPS_I); /* warps that share a tile's positions */
    static constexpr int TILES_I = CI < 16 ? 1 : 2;                /* operands of 8 channels */
    typedef float sums[TILES_I][4];                                /* of one tap */
};

/* Loads a tile: the first of a block with many vectors on their way, the others beside the sums in registers. */
template <int CO, int CI, int MOST>
__device__ inline void load_both(const weight_arguments &a, const float *dy_table, const float *x_table, tile_place at,
                                 int phase, int first_o, int first_i, char *dy, char *tile)
{
    rectangle positions = positions_of(a.cut, at, phase);
    load_window<CO, MOST>(a.dy, dy_table, positions_window(a.cut, positions, at, phase), first_o, dy);
    clear_rest<CO>(positions.count, dy);
    load_window<CI, MOST>(a.x, x_table, source_window(a.cut, at, false), first_i, tile);
}

/* Adds the products of 16 positions. */
template <int CO, int CI, int TAPS>
__device__ inline void add_positions(typename weight_shape<CO, CI>::sums *sum, unsigned dy, unsigned x,
                                     const int *offset)
{
    unsigned a[4];
    load_matrices_transposed(a, dy);
    if (CO == 8)
        a[1] = a[3] = 0;
    if (CI == 8) {
        int odd = threadIdx.x % 32 / 16; /* two taps at once */
#pragma unroll
        for (int tap = 0; tap < TAPS; tap += 2) {
            unsigned b[4];
            load_matrices_transposed(b, x + offset[tap + odd]);
            multiply_add(sum[tap][0], a, b);
            if (tap + 1 < TAPS)
                multiply_add(sum[tap + 1][0], a, b + 2);
        }
    } else {
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            unsigned b[4];
            load_matrices_transposed(b, x + offset[tap]);
            multiply_add(sum[tap][0], a, b);
            multiply_add(sum[tap][weight_shape<CO, CI>::TILES_I - 1], a, b + 2);
        }
    }
}

/* Grid: (blocks of all groups, tiles of c_out x tiles of c_in, parts). */
template <int CO, int CI, int TAPS>
__global__ void __launch_bounds__(CONV_THREADS, 2) weight_kernel(const __grid_constant__ weight_arguments a)
{
    using shape = weight_shape<CO, CI>;
    constexpr int OWNERS = shape::WARPS_O * shape::WARPS_I, COUNT = TAPS * shape::TILES_I * 4;
    char *shared = dynamic_shared();
    char *tile = shared + a.dy_bytes;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int part = blockIdx.z, owner = warp % OWNERS, split = warp / OWNERS;
    int warp_o = owner / shape::WARPS_I * 16, warp_i = owner % shape::WARPS_I * 16;
    int tiles_i = a.x.x.cp / CI, first_o = blockIdx.y / tiles_i * CO, first_i = blockIdx.y % tiles_i * CI;
    /* Rows of the transposed operands: positions; of dL/draw the second matrix has the other eight channels. */
    int dy_position = (lane % 8) + (lane / 16) * 8, x_position = lane % 16;
    unsigned dy_base = shared_address(shared) + (CO == 8 ? 0 : warp_o * 2 + lane / 8 % 2 * 16);
    unsigned x_base = shared_address(tile) + (CI == 8 ? 0 : warp_i * 2 + lane / 16 * 16);

    tile_share share = share_of_block(a.cut, blockIdx.x);
    float *dy_table = (float *)(tile + a.tile_bytes), *x_table = dy_table + gradient_source::ROWS * a.dy.channels();
    clear_tile(tile, a.tile_bytes);
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    make_table(a.dy, share.group, 0, a.dy.channels(), dy_table);
    make_table(a.x, share.group, 0, a.x.channels(), x_table);
    __syncthreads(); /* also: the tile is clear */
    int t = share.row;
    tile_place at = place_of_tile(a.cut, share.group, t);
    load_both<CO, CI, 8>(a, dy_table, x_table, at, a.phase[part], first_o, first_i, shared, tile);
    __syncthreads();
    float sum[TAPS][shape::TILES_I][4] = {};
    for (;;) {
        rectangle positions = positions_of(a.cut, at, a.phase[part]);
        line sources = scaled(line_of_sources(a.cut, positions), pixel_pitch(CI), 0);
        for (int first = split * 16; first < positions.count; first += shape::SPLIT * 16) {
            element e = element_of(positions, first + x_position < positions.count ? first + x_position : 0);
            add_positions<CO, CI, TAPS>(sum, dy_base + (first + dy_position) * pixel_pitch(CO),
                                        x_base + place_on(sources, e), a.offset + a.first_tap[part]);
        }
        t += a.cut.blocks[share.group];
        if (t >= share.tiles)
            break;
        at = place_of_tile(a.cut, share.group, t);
        __syncthreads();
        clear_tile(tile, a.tile_bytes);
        __syncthreads();
        load_both<CO, CI, TAPS == 9 ? 2 : 4>(a, dy_table, x_table, at, a.phase[part], first_o, first_i, shared, tile);
        __syncthreads();
    }
    add_splits<shape::SPLIT, COUNT>(&sum[0][0][0], split, owner, OWNERS, (float *)shared);
    if (split > 0)
        return;
    int co = a.dy.dy.y.cp, ci = a.x.x.cp;
    int row = first_o + warp_o + lane / 4, column = first_i + warp_i + lane % 4 * 2;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        if (tap >= a.part_taps[part])
            continue;
        float *to = a.sums + ((size_t)(blockIdx.x * a.taps + a.first_tap[part] + tap) * co + row) * ci + column;
#pragma unroll
        for (int j = 0; j < shape::TILES_I; j++) {
            *(float2 *)(to + j * 8) = make_float2(sum[tap][j][0], sum[tap][j][1]);
            if (CO > 8)
                *(float2 *)(to + (size_t)8 * ci + j * 8) = make_float2(sum[tap][j][2], sum[tap][j][3]);
        }
    }
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

/* Channels of a block, and taps of a warp. */
struct weight_plan {
    int co, ci, taps;
    int tiles; /* of channels */
    weight_arguments arguments;
    reduce_arguments reduce;
    int blocks, most_blocks; /* for these images, and for however many in whatever groups */
    int shared_bytes;
};

static int channel_tile(int c)
{
    int padded = rc_cuda_padded(c);
    return padded == 8 || padded == 16 ? padded : padded % 32 == 0 ? 32 : 0;
}

/* Taps of one phase go to as many parts as they need. False: too many. */
static bool list_parts(weight_plan *plan, const axis_taps *taps)
{
    weight_arguments *a = &plan->arguments;
    int phases = taps->out_step, pitch = pixel_pitch(plan->ci);
    for (int phase = 0; phase < phases * phases; phase++) {
        int y = phases == 1 ? 0 : phase / 2, x = phases == 1 ? 0 : phase % 2;
        for (int i = 0; i < taps->count[y] * taps->count[x]; i++) {
            int tap_y = i / taps->count[x], tap_x = i % taps->count[x];
            if (i % plan->taps == 0) {
                if (a->parts == 16)
                    return false;
                a->phase[a->parts] = phase;
                a->first_tap[a->parts++] = a->taps;
            }
            /* An odd part of eight channels reads one offset past its end. */
            if (a->taps >= CONV_TAPS - 1)
                return false;
            a->part_taps[a->parts - 1]++;
            a->offset[a->taps] = ((taps->offset[y][tap_y] - taps->low) * a->cut.columns + taps->offset[x][tap_x] -
                                  taps->low) *
                                 pitch;
            a->taps++;
        }
    }
    return rc_cuda_list_terms(taps, &plan->reduce);
}

enum { WEIGHT_BLOCKS = 256, WEIGHT_POSITIONS = 1024 };

static bool plan_weight(const rc_cuda *cuda, const rc_conv *conv, const group_view &groups, int n, weight_plan *plan)
{
    axis_taps taps;
    *plan = {};
    plan->co = channel_tile(conv->c_out);
    plan->ci = channel_tile(conv->c_in);
    if (!plan->co || !plan->ci || !rc_cuda_forward_taps(conv, &taps))
        return false;
    int count = taps.count[0] * taps.count[0];
    plan->taps = count == 1 ? 1 : count == 4 || count == 16 ? 4 : 9;
    weight_arguments *a = &plan->arguments;
    tile_cut *cut = &a->cut;
    reduce_arguments *reduce = &plan->reduce;
    reduce->k = conv->k;
    reduce->co = conv->c_out;
    reduce->ci = conv->c_in;
    reduce->co_padded = rc_cuda_padded(conv->c_out);
    reduce->ci_padded = rc_cuda_padded(conv->c_in);
    reduce->transposed = conv->transposed;
    plan->tiles = reduce->co_padded / plan->co * (reduce->ci_padded / plan->ci);

    cut->groups = groups;
    rc_cuda_set_maps(cut, conv, true, &taps, 1);
    int dy_pitch = pixel_pitch(plan->co), phases = taps.out_step * taps.out_step;
    int table_bytes = (gradient_source::ROWS * reduce->co_padded + value_source::ROWS * reduce->ci_padded) * 4;
    int pitch = pixel_pitch(plan->ci);
    int share = WEIGHT_BLOCKS / (plan->tiles * phases) > 1 ? WEIGHT_BLOCKS / (plan->tiles * phases) : 1;
    int positions = (n * cut->base_h * cut->base_w + share - 1) / share;
    positions = positions < 64 ? 64 : positions;
    int most = WEIGHT_POSITIONS; /* as many as leave room for their source pixels */
    int space = rc_cuda_shared(cuda, CONV_SHARED_HALF) - table_bytes;
    while (most > 64 && !rc_cuda_cut_tiles(cut, &taps, positions, most, pitch, space - (most + 16) * dy_pitch))
        most /= 2;
    if (most <= 64 || !list_parts(plan, &taps))
        return false;
    plan->blocks = rc_cuda_deal_tiles(cut, share > groups.count ? share : groups.count);
    plan->most_blocks = share > RC_MAX_GROUPS ? share : RC_MAX_GROUPS;
    reduce->blocks = plan->blocks;
    int tile_positions = (cut->images * cut->tile_h * cut->tile_w + 15) / 16 * 16;
    a->dy_bytes = tile_positions * dy_pitch;
    a->tile_bytes = cut->images * cut->rows * cut->columns * pitch;
    plan->shared_bytes = a->dy_bytes + a->tile_bytes + table_bytes;
    int splits = CONV_WARPS / 2 * plan->taps * 2 * 4 * 32 * 4; /* add_splits at its largest */
    plan->shared_bytes = plan->shared_bytes > splits ? plan->shared_bytes : splits;
    return true;
}

static size_t sum_bytes(const weight_plan *plan, int blocks)
{
    size_t pairs = (size_t)plan->reduce.co_padded * plan->reduce.ci_padded;
    return (size_t)blocks * plan->arguments.taps * pairs * sizeof(float);
}

size_t rc_cuda_mma_workspace(const rc_cuda *cuda, const rc_conv *conv, int n)
{
    weight_plan plan;
    group_view groups = {1, {n, n, n, n}};
    if (!cuda->bf16)
        return 0;
    size_t wide = rc_cuda_wide_weight_workspace(cuda, conv, n), maps = rc_cuda_wide_workspace(cuda, conv, n), other = 0;
    if (plan_weight(cuda, conv, groups, n, &plan))
        other = sum_bytes(&plan, plan.most_blocks);
    size_t stem = rc_cuda_stem_weight_workspace(cuda, conv), narrow = rc_cuda_narrow_weight_workspace(cuda, conv);
    other = other > maps ? other : maps;
    other = other > stem ? other : stem;
    other = other > narrow ? other : narrow;
    return wide > other ? wide : other;
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

typedef void (*weight_function)(const weight_arguments);

template <int CO, int CI> static weight_function with_taps(int taps)
{
    return taps == 9 ? weight_kernel<CO, CI, 9> : taps == 4 ? weight_kernel<CO, CI, 4> : weight_kernel<CO, CI, 1>;
}

template <int CO> static weight_function with_channels(int ci, int taps)
{
    return ci == 8 ? with_taps<CO, 8>(taps) : ci == 16 ? with_taps<CO, 16>(taps) : with_taps<CO, 32>(taps);
}

bool rc_cuda_mma_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                 float *dweight, float *dbias)
{
    static const char operation[] = "conv_backward_weight";
    weight_plan plan;
    value_source value;
    gradient_source gradient;
    if (!cuda->bf16 || !view_source(x, &value) || !view_source(dy, &gradient))
        return false;
    const weight_layer alone = {value, gradient, dweight};
    if (rc_cuda_wide_backward_weight(cuda, conv, x, value, dy, gradient, dweight) ||
        rc_cuda_stem_backward_weight(cuda, conv, value, gradient, dweight) ||
        rc_cuda_walk_backward_weight(cuda, conv, &alone, 1) || rc_cuda_narrow_backward_weight(cuda, conv, &alone, 1)) {
        if (dbias)
            rc_cuda_bias_gradient(cuda, dy, dbias);
        return true;
    }
    if (!plan_weight(cuda, conv, view_groups(dy->y), dy->y->n, &plan) || plan.shared_bytes > cuda->shared_bytes)
        return false;
    weight_arguments *a = &plan.arguments;
    a->x = value;
    a->dy = gradient;
    a->sums = (float *)rc_cuda_workspace(cuda, sum_bytes(&plan, plan.blocks), operation);
    if (!a->sums)
        return true;
    weight_function kernel = plan.co == 8    ? with_channels<8>(plan.ci, plan.taps)
                             : plan.co == 16 ? with_channels<16>(plan.ci, plan.taps)
                                             : with_channels<32>(plan.ci, plan.taps);
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, dim3((unsigned)plan.blocks, (unsigned)plan.tiles, (unsigned)a->parts),
                         CONV_THREADS, (size_t)plan.shared_bytes, *a);
    plan.reduce.sums = a->sums;
    plan.reduce.dweight[0] = dweight;
    rc_cuda_reduce_weight(cuda, &plan.reduce);
    if (dbias)
        rc_cuda_bias_gradient(cuda, dy, dbias);
    return true;
}

/* ---- several layers -------------------------------------------------------------------------------------------- */

void rc_cuda_fused_weight(rc_backend *be, const rc_fused_weight *layers, int count)
{
    weight_layer from[RC_MAX_FUSED];
    bool taken = rc_cuda_of(be)->bf16;
    for (int i = 0; taken && i < count; i++) {
        taken = view_source(layers[i].x, &from[i].x) && view_source(layers[i].dy, &from[i].dy);
        from[i].dweight = (float *)layers[i].dweight;
    }
    taken = taken && (rc_cuda_walk_backward_weight(rc_cuda_of(be), layers[0].conv, from, count) ||
                      rc_cuda_narrow_backward_weight(rc_cuda_of(be), layers[0].conv, from, count));
    for (int i = 0; !taken && i < count; i++)
        be->conv_backward_weight(be, layers[i].conv, layers[i].x, layers[i].dy, layers[i].dweight, NULL);
}
