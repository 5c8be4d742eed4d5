/* Weight gradient of wide layers on large maps: what conv_weight.cu computes, in the way of conv_wide.cuh.
 *
 * A block has 64 x 64 channels of all taps, a warp 32 (c_out) x 16 (c_in) of them: 5.6 kB of operands from shared
 * memory for 74 thousand products, with nine taps. While a tile of positions is multiplied, the next one is loaded,
 * dL/draw and source pixels in turn, a few vectors for every 32 positions.
 * Parts (conv_wide.h) have blocks of their own. */
#include "backend/cuda/conv_ahead.cuh"
#include "backend/cuda/conv_reduce.h"
#include "backend/cuda/conv_wide.h"

enum { SIDE = 64 /* channels of a block along each side */, WARP_O = 32, WARP_I = 16, TILE_POSITIONS = 224 };

struct wide_weight_arguments {
    tile_cut cut; /* source pixels are those of a part */
    value_source x;
    gradient_source dy;
    float *sums;  /* (blocks, taps, c_out, c_in) */
    int source_h, source_w, source_step;
    int dy_bytes, tile_bytes; /* of shared memory, twice */
    wide_parts parts;
};

template <int TAPS> struct wide_weight_warp {
    float sum[TAPS][2][2][4];

    /* Adds the products of 16 positions; taps: those that there are. */
    __device__ void add_positions(unsigned dy, unsigned x, const int *offset, int taps)
    {
        unsigned a[2][4];
        load_matrices_transposed(a[0], dy);
        load_matrices_transposed(a[1], dy + 32);
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            if (TAPS != 9 && tap >= taps)
                break;
            unsigned b[4];
            load_matrices_transposed(b, x + offset[tap]);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    multiply_add(sum[tap][i][j], a[i], b + 2 * j);
        }
    }
};

/* Grid: (blocks of all groups, tiles of c_out x tiles of c_in, parts). */
template <int TAPS, pending WHAT>
__global__ void __launch_bounds__(CONV_THREADS, 1)
    wide_weight_kernel(const __grid_constant__ wide_weight_arguments a)
{
    constexpr int PITCH = pixel_pitch(SIDE);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = blockIdx.z, phase = a.source_step == 2 ? 0 : part;
    int ci = a.x.channels(), co = a.dy.channels(), tiles_i = ci / SIDE;
    int first_o = blockIdx.y / tiles_i * SIDE, first_i = blockIdx.y % tiles_i * SIDE;
    int warp_o = warp / (SIDE / WARP_I) * WARP_O, warp_i = warp % (SIDE / WARP_I) * WARP_I;
    char *shared = dynamic_shared();
    int buffer_bytes = a.dy_bytes + a.tile_bytes;
    float *dy_table = (float *)(shared + 2 * buffer_bytes), *x_table = dy_table + gradient_source::ROWS * co;
    tile_share share = share_of_block(a.cut, blockIdx.x);
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    make_halved_table(a.dy, share.group, dy_table);
    make_halved_table(a.x, share.group, x_table);
    __syncthreads();

    ahead_loader<CONV_THREADS, SIDE, WHAT == PENDING_ANY ? 1 : 2, WHAT, gradient_source> dy_loader;
    ahead_loader<CONV_THREADS, SIDE, WHAT == PENDING_ANY ? 2 : 4, WHAT, value_source> x_loader;
    auto load = [&](int tile, int buffer) {
        tile_place at = place_of_tile(a.cut, share.group, tile);
        char *to = shared + buffer * buffer_bytes;
        dy_loader.begin(a.dy, positions_ahead(a.cut, positions_of(a.cut, at, phase), at, phase), 16, first_o, to);
        x_loader.begin(a.x, window_ahead(a.cut, at, a.source_step, a.parts.y[part], a.parts.x[part], a.source_h,
                                         a.source_w, false), 1, first_i, to + a.dy_bytes);
    };
    auto load_rest = [&]() {
        while (dy_loader.left()) {
            dy_loader.fetch(a.dy);
            dy_loader.finish(a.dy, halved_coefficients(a.dy, dy_table, dy_loader.channel));
        }
        while (x_loader.left()) {
            x_loader.fetch(a.x);
            x_loader.finish(a.x, halved_coefficients(a.x, x_table, x_loader.channel));
        }
    };
    int buffer = 0, taps = a.parts.steps[part];
    const int *offset = a.parts.offset + a.parts.first_step[part];
    load(share.row, buffer);
    load_rest();

    /* Rows of the transposed operands: positions; of dL/draw the second matrix has the other eight channels. */
    int dy_place = (lane % 8 + lane / 16 * 8) * PITCH + warp_o * 2 + lane / 8 % 2 * 16;
    int x_place = warp_i * 2 + lane / 16 * 16;
    wide_weight_warp<TAPS> mine = {};
    for (int t = share.row; t < share.tiles; t += a.cut.blocks[share.group], buffer ^= 1) {
        int next = t + a.cut.blocks[share.group];
        bool more = next < share.tiles;
        if (more)
            load(next, buffer ^ 1);
        rectangle positions = positions_of(a.cut, place_of_tile(a.cut, share.group, t), phase);
        line sources = scaled(line_of_sources(a.cut, positions), PITCH, x_place);
        unsigned dy = shared_address(shared) + buffer * buffer_bytes + dy_place;
        unsigned x = shared_address(shared) + buffer * buffer_bytes + a.dy_bytes;
        __syncthreads(); /* the tile is there, and the one before has been used */
        for (int first = 0; first < positions.count; first += 32) {
            bool turn = first / 32 % 2 == 0, loads_dy = more && turn && dy_loader.left();
            bool loads_x = more && !turn && x_loader.left();
            if (loads_dy)
                dy_loader.fetch(a.dy);
            if (loads_x)
                x_loader.fetch(a.x);
#pragma unroll 1
            for (int i = first; i < first + 32 && i < positions.count; i += 16) {
                int index = i + lane % 16;
                element e = element_of(positions, index < positions.count ? index : 0);
                mine.add_positions(dy + i * PITCH, x + place_on(sources, e), offset, taps);
            }
            if (loads_dy)
                dy_loader.finish(a.dy, halved_coefficients(a.dy, dy_table, dy_loader.channel));
            if (loads_x)
                x_loader.finish(a.x, halved_coefficients(a.x, x_table, x_loader.channel));
        }
        if (more)
            load_rest();
    }

    int row = first_o + warp_o + lane / 4, column = first_i + warp_i + lane % 4 * 2;
    int first_tap = a.source_step == 2 ? 0 : a.parts.first_step[part]; /* of the phase */
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        if (tap >= taps)
            break;
        int number = first_tap + a.parts.order[a.parts.first_step[part] + tap];
        float *to = a.sums + ((size_t)(blockIdx.x * a.parts.all_steps + number) * co + row) * ci + column;
#pragma unroll
        for (int i = 0; i < 4; i++) /* rows 0, 8, 16, 24 */
#pragma unroll
            for (int j = 0; j < 2; j++)
                *(float2 *)(to + (size_t)i * 8 * ci + j * 8) =
                    make_float2(mine.sum[tap][i / 2][j][i % 2 * 2], mine.sum[tap][i / 2][j][i % 2 * 2 + 1]);
    }
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

/* One block for each of some 132 multiprocessors. */
enum { WEIGHT_BLOCKS = 132 };

struct wide_weight_plan {
    axis_taps taps;
    int tiles, parts, blocks; /* blocks: of a tile and part, at most, or one for each group */
    reduce_arguments reduce;
};

static bool plan_channels(const rc_conv *conv, wide_weight_plan *plan)
{
    *plan = {};
    if (conv->c_out % SIDE != 0 || conv->c_in % SIDE != 0 || !rc_cuda_forward_taps(conv, &plan->taps))
        return false;
    reduce_arguments *reduce = &plan->reduce;
    reduce->k = conv->k;
    reduce->co = reduce->co_padded = conv->c_out;
    reduce->ci = reduce->ci_padded = conv->c_in;
    reduce->transposed = conv->transposed;
    plan->tiles = conv->c_out / SIDE * (conv->c_in / SIDE);
    plan->parts = plan->taps.source_step == 2 ? 4 : plan->taps.out_step * plan->taps.out_step;
    plan->blocks = WEIGHT_BLOCKS / (plan->tiles * plan->parts);
    plan->blocks = plan->blocks > 1 ? plan->blocks : 1;
    return rc_cuda_list_terms(&plan->taps, reduce) && reduce->taps <= CONV_TAPS;
}

static size_t block_bytes(const reduce_arguments *reduce)
{
    return (size_t)reduce->taps * reduce->co * reduce->ci * sizeof(float);
}

size_t rc_cuda_wide_weight_workspace(const rc_conv *conv)
{
    wide_weight_plan plan;
    if (!plan_channels(conv, &plan))
        return 0;
    return block_bytes(&plan.reduce) * (size_t)(plan.blocks > RC_MAX_GROUPS ? plan.blocks : RC_MAX_GROUPS);
}

/* The cut of the maps. False: other kernels are better at it. */
static bool plan_maps(const rc_cuda *cuda, const rc_conv *conv, const rc_tensor *batch, const wide_weight_plan *plan,
                      wide_weight_arguments *a, int *shared_bytes)
{
    const axis_taps *taps = &plan->taps;
    tile_cut *cut = &a->cut;
    a->source_step = taps->source_step;
    a->source_h = conv->h;
    a->source_w = conv->w;
    cut->groups = view_groups(batch);
    cut->source_h = (conv->h + taps->source_step - 1) / taps->source_step;
    cut->source_w = (conv->w + taps->source_step - 1) / taps->source_step;
    cut->out_h = conv->oh;
    cut->out_w = conv->ow;
    cut->base_h = (conv->oh + taps->out_step - 1) / taps->out_step;
    cut->base_w = (conv->ow + taps->out_step - 1) / taps->out_step;
    int pitch = pixel_pitch(SIDE);
    int table_bytes = (gradient_source::ROWS * conv->c_out + value_source::ROWS * conv->c_in) * 4;
    a->dy_bytes = TILE_POSITIONS * pitch;
    axis_taps axis = rc_cuda_part_axis(taps);
    if (!rc_cuda_cut_tiles(cut, &axis, TILE_POSITIONS, TILE_POSITIONS, pitch,
                           (CONV_SHARED_MOST - table_bytes) / 2 - a->dy_bytes))
        return false;
    rc_cuda_list_parts(&a->parts, taps, cut);
    a->tile_bytes = cut->images * cut->rows * cut->columns * pitch;
    *shared_bytes = 2 * (a->dy_bytes + a->tile_bytes) + table_bytes;
    rc_cuda_deal_tiles(cut, plan->blocks > cut->groups.count ? plan->blocks : cut->groups.count);
    bool few_taps = true;
    for (int part = 0; part < a->parts.count; part++)
        few_taps = few_taps && (a->parts.steps[part] <= 4 || a->parts.steps[part] == 9);
    return few_taps && rc_cuda_large_tiles_pay(cuda, cut, TILE_POSITIONS, plan->tiles * plan->parts) &&
           *shared_bytes <= cuda->shared_bytes;
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

typedef void (*weight_function)(const wide_weight_arguments);

template <pending WHAT> static weight_function with_taps(const wide_parts &parts)
{
    int most = 0;
    for (int part = 0; part < parts.count; part++)
        most = parts.steps[part] > most ? parts.steps[part] : most;
    return most == 9   ? wide_weight_kernel<9, WHAT>
           : most == 1 ? wide_weight_kernel<1, WHAT>
                       : wide_weight_kernel<4, WHAT>;
}

bool rc_cuda_wide_backward_weight(rc_cuda *cuda, const rc_conv *conv, const value_source &x, const gradient_source &dy,
                                  const rc_tensor *batch, float *dweight)
{
    wide_weight_plan plan;
    wide_weight_arguments a = {};
    int shared_bytes;
    if (!plan_channels(conv, &plan) || !plan_maps(cuda, conv, batch, &plan, &a, &shared_bytes))
        return false;
    a.x = x;
    a.dy = dy;
    for (int g = 0; g < a.cut.groups.count; g++)
        plan.reduce.blocks += a.cut.blocks[g];
    a.sums = (float *)rc_cuda_workspace(cuda, block_bytes(&plan.reduce) * plan.reduce.blocks, "conv_backward_weight");
    if (!a.sums)
        return true;
    bool usual = (x.what == PENDING_NOTHING || x.what == PENDING_USUAL) &&
                 (dy.what == PENDING_NOTHING || dy.what == PENDING_USUAL);
    weight_function kernel = usual ? with_taps<PENDING_USUAL>(a.parts) : with_taps<PENDING_ANY>(a.parts);
    rc_cuda_allow_shared(cuda, kernel, "conv_backward_weight");
    rc_cuda_launch_early(cuda, "conv_backward_weight", kernel,
                         dim3((unsigned)plan.reduce.blocks, (unsigned)plan.tiles, (unsigned)a.parts.count),
                         CONV_THREADS, (size_t)shared_bytes, a);
    plan.reduce.sums = a.sums;
    plan.reduce.dweight = dweight;
    rc_cuda_reduce_weight(cuda, &plan.reduce);
    return true;
}
