/* Weight gradient of wide layers on large maps: what conv_weight.cu computes, from plain maps (conv_plain.h).
 *
 * A block has 64 x 64 channels, a warp all 64 of dL/draw by eight of the source at nine taps, or sixteen at four:
 * 4.6 kB of operands from shared memory for 74 thousand products, two thirds of what it delivers in the time of those.
 * While a tile of positions is multiplied, the next one travels (cp.async) to a second buffer, a few vectors for every
 * 16 positions.
 * A source that is read at every second pixel lies in shared memory phase by phase, as far as phases have taps: so the
 * pixels of neighbouring positions are neighbours, whose rows fall on different banks. */
#include <limits.h>

#include "backend/cuda/convolution/conv_plain.h"
#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/convolution/conv_strip_weight.h"

enum { SIDE = 64 /* channels of a block along each side */, PITCH = pixel_pitch(SIDE), VECTORS = SIDE / 8 };

struct wide_weight_arguments {
    tile_cut cut;       /* source pixels are those of a part; all images are one group */
    const bf16 *x, *dy; /* (n, source_h, source_w, ci), (n, out_h, out_w, co) */
    float *sums;        /* (blocks, taps, co, ci) */
    int co, ci, source_h, source_w, source_step;
    int positions, tile_pixels;          /* in shared memory, of a tile: dL/draw, and with the source */
    int parts, part_y[4], part_x[4];     /* phases of the source that have taps */
    int taps[4], first_tap[4], all_taps; /* of each phase of the result */
    int offset[CONV_TAPS];               /* of each tap among the source pixels, in bytes */
};

/* Nine taps, or up to four. */
template <int TAPS> struct wide_weight_shape {
    static constexpr int THREADS = TAPS == 9 ? 256 : 128, BLOCKS = 256 / THREADS /* of a multiprocessor */;
    static constexpr int WARP_I = SIDE / (THREADS / 32), HALVES = WARP_I / 8, UNITS = TAPS * HALVES;
    static constexpr int PAIRS = (UNITS + 1) / 2, STEP = THREADS / VECTORS;
};

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* A pixel of a tile, seen from the first one: its row and column, which decide whether the map has it, and elements. */
struct alignas(8) tile_pixel {
    short y, x;
    int elements;
};

/* What is the same for all tiles, in shared memory behind the buffers: where the pixels come from, dL/draw at the base
 * positions, then the source; and where the source pixels of each position begin. */
struct tile_tables {
    tile_pixel *pixels; /* (tile_pixels) */
    int *places;        /* (positions), in bytes */

    __device__ tile_tables(const wide_weight_arguments &a, char *space)
        : pixels((tile_pixel *)space), places((int *)(pixels + a.tile_pixels))
    {
    }

    __device__ void fill(const wide_weight_arguments &a) const
    {
        const tile_cut &cut = a.cut;
        for (int i = threadIdx.x; i < a.tile_pixels; i += blockDim.x) {
            tile_pixel pixel;
            if (i < a.positions) {
                int row = i / cut.tile_w, column = i % cut.tile_w;
                bool exists = row < cut.tile_h;
                pixel = {(short)(exists ? row : SHRT_MAX), (short)column,
                         (row * cut.out_w + column) * cut.out_step * a.co};
                places[i] = exists ? (row * cut.columns + column) * PITCH : 0;
            } else {
                int rows = (i - a.positions) / cut.columns, part = rows / cut.rows; /* rows of all parts */
                int y = (rows - part * cut.rows) * a.source_step + a.part_y[part];
                int x = (i - a.positions - rows * cut.columns) * a.source_step + a.part_x[part];
                pixel = {(short)y, (short)x, (y * a.source_w + x) * a.ci};
            }
            pixels[i] = pixel;
        }
    }
};

/* One of the two maps of a tile on its way to shared memory, zeros for what it does not have. A thread copies eight
 * channels of pixels index, index + STEP, .. */
template <int STEP> struct map_copier {
    const bf16 *from;        /* the first pixel, if there is one, */
    int y, x, height, width; /* its place, and the map's size */
    int index, end;
    unsigned to;

    /* map: from the thread's channels on; first, past: pixels of the tile. */
    __device__ void begin(const bf16 *map, long elements, int first, int past, unsigned buffer)
    {
        from = map + elements;
        index = first + threadIdx.x / VECTORS;
        end = past;
        to = buffer + index * PITCH + threadIdx.x % VECTORS * 16;
    }

    __device__ bool left() const
    {
        return index < end;
    }

    template <int COUNT> __device__ void copy(const tile_pixel *pixels)
    {
        tile_pixel pixel[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (index + i * STEP < end)
                pixel[i] = pixels[index + i * STEP];
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (index + i * STEP < end) {
                bool exists = (unsigned)(y + pixel[i].y) < (unsigned)height &&
                              (unsigned)(x + pixel[i].x) < (unsigned)width;
                copy16_async_part(to + i * STEP * PITCH, from + pixel[i].elements, exists ? 16 : 0);
            }
        index += COUNT * STEP;
        to += COUNT * STEP * PITCH;
    }
};

template <int STEP> struct tile_copier {
    const bf16 *dy_map, *x_map; /* from the thread's channels on */
    map_copier<STEP> dy, x;

    __device__ tile_copier(const wide_weight_arguments &a, int first_o, int first_i)
        : dy_map(a.dy + first_o + threadIdx.x % VECTORS * 8), x_map(a.x + first_i + threadIdx.x % VECTORS * 8)
    {
    }

    __device__ void begin(const wide_weight_arguments &a, int tile, int phase, unsigned buffer)
    {
        const tile_cut &cut = a.cut;
        tile_place at = place_of_tile(cut, 0, tile);
        int row = at.base_y * cut.out_step + phase / 2, column = at.base_x * cut.out_step + phase % 2;
        dy.y = at.base_y;
        dy.x = at.base_x;
        dy.height = cut.out_step == 2 ? (cut.out_h - phase / 2 + 1) >> 1 : cut.out_h;
        dy.width = cut.out_step == 2 ? (cut.out_w - phase % 2 + 1) >> 1 : cut.out_w;
        dy.begin(dy_map, (long)((at.image * cut.out_h + row) * cut.out_w + column) * a.co, 0, a.positions, buffer);
        x.y = (at.base_y + cut.low) * a.source_step;
        x.x = (at.base_x + cut.low) * a.source_step;
        x.height = a.source_h;
        x.width = a.source_w;
        x.begin(x_map, (long)((at.image * a.source_h + x.y) * a.source_w + x.x) * a.ci, a.positions, a.tile_pixels,
                buffer);
    }

    /* A few pixels of both, */
    __device__ void copy_some(const tile_pixel *pixels)
    {
        if (dy.left())
            dy.template copy<2>(pixels);
        if (x.left())
            x.template copy<3>(pixels);
    }

    /* and all that are left. */
    __device__ void copy_rest(const tile_pixel *pixels)
    {
        while (dy.left() || x.left())
            copy_some(pixels);
    }
};

/* ---- products -------------------------------------------------------------------------------------------------- */

/* The sums of a warp: units of eight source channels at one tap, which ldmatrix loads in pairs. */
template <int TAPS> struct wide_weight_warp {
    using shape = wide_weight_shape<TAPS>;
    float sum[shape::UNITS][SIDE / 16][4];
    unsigned dy_place, pair_place[shape::PAIRS]; /* of the lane's row: dy in the tile, x from a position on */

    /* Rows of the transposed operands are positions. Of dL/draw the second matrix has the other eight channels, of the
     * source the third and fourth have the other unit. */
    __device__ void begin(const int *offset, int taps)
    {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        dy_place = (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
#pragma unroll
        for (int pair = 0; pair < shape::PAIRS; pair++) {
            int unit = 2 * pair + lane / 16, tap = unit / shape::HALVES;
            pair_place[pair] = offset[tap < taps ? tap : taps - 1] +
                               (warp * shape::WARP_I + unit % shape::HALVES * 8) * 2;
        }
    }

    /* Adds the products of 16 positions. */
    __device__ void add(unsigned dy, unsigned x, int taps)
    {
        unsigned operand[SIDE / 16][4];
#pragma unroll
        for (int o = 0; o < SIDE / 16; o++)
            load_matrices_transposed(operand[o], dy + dy_place + o * 32);
#pragma unroll
        for (int pair = 0; pair < shape::PAIRS; pair++) {
            if (TAPS != 9 && 2 * pair >= taps * shape::HALVES)
                break;
            unsigned source[4];
            load_matrices_transposed(source, x + pair_place[pair]);
#pragma unroll
            for (int o = 0; o < SIDE / 16; o++)
                multiply_add(sum[2 * pair][o], operand[o], source);
#pragma unroll
            for (int o = 0; o < SIDE / 16 && 2 * pair + 1 < shape::UNITS; o++)
                multiply_add(sum[2 * pair + 1][o], operand[o], source + 2);
        }
    }

    /* to: the first tap, (taps, co, ci) from the block's channels on. */
    __device__ void store(float *to, int co, int ci, int taps) const
    {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        to += (size_t)lane / 4 * ci + warp * shape::WARP_I + lane % 4 * 2;
#pragma unroll
        for (int unit = 0; unit < shape::UNITS; unit++) {
            if (unit / shape::HALVES >= taps)
                break;
            float *tap = to + (size_t)(unit / shape::HALVES) * co * ci + unit % shape::HALVES * 8;
#pragma unroll
            for (int i = 0; i < SIDE / 8; i++) /* rows 0, 8, .. */
                *(float2 *)(tap + (size_t)i * 8 * ci) = make_float2(sum[unit][i / 2][i % 2 * 2],
                                                                    sum[unit][i / 2][i % 2 * 2 + 1]);
        }
    }
};

/* Grid: (blocks, tiles of c_out x tiles of c_in, phases of the result). */
template <int TAPS>
__global__ void __launch_bounds__(wide_weight_shape<TAPS>::THREADS, wide_weight_shape<TAPS>::BLOCKS)
    wide_weight_kernel(const __grid_constant__ wide_weight_arguments a)
{
    int phase = blockIdx.z, first_tap = a.first_tap[phase], taps = a.taps[phase], tiles = a.cut.group_tiles[0];
    int tiles_i = a.ci / SIDE, first_o = blockIdx.y / tiles_i * SIDE, first_i = blockIdx.y % tiles_i * SIDE;
    int buffer = 0, buffer_bytes = a.tile_pixels * PITCH, count = a.cut.tile_h * a.cut.tile_w;
    unsigned shared = shared_address(dynamic_shared());
    tile_tables tables(a, dynamic_shared() + 2 * buffer_bytes);
    tables.fill(a);
    __syncthreads();
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    tile_copier<wide_weight_shape<TAPS>::STEP> copier(a, first_o, first_i);
    copier.begin(a, blockIdx.x, phase, shared);
    copier.copy_rest(tables.pixels);

    wide_weight_warp<TAPS> mine = {};
    mine.begin(a.offset + first_tap, taps);
    for (int t = blockIdx.x, next; t < tiles; t = next, buffer ^= 1) {
        unsigned dy = shared + buffer * buffer_bytes, x = dy + a.positions * PITCH;
        wait_for_copies();
        __syncthreads(); /* the tile is there, and the one before has been used */
        next = t + gridDim.x;
        if (next < tiles)
            copier.begin(a, next, phase, shared + (buffer ^ 1) * buffer_bytes);
#pragma unroll 1
        for (int first = 0; first < count; first += 16) {
            int place = tables.places[first + threadIdx.x % 16];
            copier.copy_some(tables.pixels);
            mine.add(dy + first * PITCH, x + place, taps);
        }
        copier.copy_rest(tables.pixels);
    }
    mine.store(a.sums + ((size_t)(blockIdx.x * a.all_taps + first_tap) * a.co + first_o) * a.ci + first_i, a.co, a.ci,
               taps);
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

/* WIDEST: nearly square tiles have less halo. Positions of a tile: at most, with nine taps, nine in four parts, and
 * four. Bytes of shared memory: two buffers and the tables. */
enum { WIDEST = 32, TILE_POSITIONS = 224, PARTS_POSITIONS = 112, FEW_POSITIONS = 128 };
enum { PIXEL_BYTES = 2 * PITCH + sizeof(tile_pixel), PLACE_BYTES = sizeof(int) };

struct wide_weight_plan {
    wide_weight_arguments arguments;
    reduce_arguments reduce;
    bool strip; /* takes the other kernel, */
    strip_weight_plan by_strip;
    int tiles, phases; /* tiles: of channels */
    bool nine;
    int shared_bytes;
    size_t sum_bytes, x_bytes, dy_bytes; /* of the workspace */
};

/* Lists the taps, as rc_cuda_list_terms numbers them, and the phases of the source in the order in which taps need
 * them. */
static void list_taps(wide_weight_arguments *a, const axis_taps *taps)
{
    enum { FAR = 16 }; /* makes offsets positive, and is even */
    int step = taps->source_step, part_of[4] = {-1, -1, -1, -1};
    for (int phase = 0; phase < taps->out_step * taps->out_step; phase++) {
        int phase_y = taps->out_step == 1 ? 0 : phase / 2, phase_x = taps->out_step == 1 ? 0 : phase % 2;
        a->first_tap[phase] = a->all_taps;
        a->taps[phase] = taps->count[phase_y] * taps->count[phase_x];
        for (int i = 0; i < a->taps[phase]; i++, a->all_taps++) {
            int y = FAR + taps->offset[phase_y][i / taps->count[phase_x]];
            int x = FAR + taps->offset[phase_x][i % taps->count[phase_x]];
            int *part = &part_of[y % step * 2 + x % step];
            if (*part < 0) {
                *part = a->parts++;
                a->part_y[*part] = y % step;
                a->part_x[*part] = x % step;
            }
            int row = *part * a->cut.rows + y / step - FAR / step - a->cut.low;
            a->offset[a->all_taps] = (row * a->cut.columns + x / step - FAR / step - a->cut.low) * PITCH;
        }
    }
}

/* Whether plain maps and large tiles pay is a matter of how many positions there are, not of how these tiles look; of
 * none where a map would be finished again for many tiles of channels, and for every phase of the result. */
static bool pays(const rc_cuda *cuda, const rc_conv *conv, tile_cut cut, const axis_taps *axis, int copies)
{
    if (axis->out_step == 2 || conv->c_in * conv->c_out > SIDE * SIDE)
        return true;
    bool fits = rc_cuda_cut_tiles(&cut, axis, TILE_POSITIONS, TILE_POSITIONS, PITCH, CONV_SHARED_MOST);
    rc_cuda_deal_tiles(&cut, 1);
    return fits && rc_cuda_large_tiles_pay(cuda, &cut, TILE_POSITIONS, copies);
}

/* Cuts the maps into tiles. False: they do not fit. */
static bool plan_tiles(const rc_cuda *cuda, const rc_conv *conv, const axis_taps *taps, wide_weight_plan *plan)
{
    wide_weight_arguments *a = &plan->arguments;
    tile_cut *cut = &a->cut;
    plan->phases = taps->out_step * taps->out_step;
    plan->nine = taps->count[0] == 3;
    int most_parts = taps->source_step == 2 && conv->k > 1 ? 4 : 1;
    a->positions = !plan->nine ? FEW_POSITIONS : most_parts == 1 ? TILE_POSITIONS : PARTS_POSITIONS;
    int space = (plan->nine ? CONV_SHARED_MOST : CONV_SHARED_HALF) - a->positions * (PIXEL_BYTES + PLACE_BYTES);
    axis_taps axis = rc_cuda_part_axis(taps);
    if (!rc_cuda_cut_tiles(cut, &axis, a->positions, a->positions, PIXEL_BYTES, space / most_parts, WIDEST))
        return false;
    cut->images = 1; /* tiles of small maps are small */
    a->positions = (cut->tile_h * cut->tile_w + 15) / 16 * 16;
    list_taps(a, taps);
    for (int phase = 0; phase < plan->phases; phase++)
        if (a->taps[phase] < 1 || (plan->nine ? a->taps[phase] != 9 : a->taps[phase] > 4))
            return false;
    a->tile_pixels = a->positions + a->parts * cut->rows * cut->columns;
    plan->shared_bytes = a->tile_pixels * PIXEL_BYTES + a->positions * PLACE_BYTES;
    int blocks = cuda->multiprocessors * (plan->nine ? 1 : 2) / (plan->tiles * plan->phases);
    plan->reduce.blocks = rc_cuda_deal_tiles(cut, blocks > 1 ? blocks : 1);
    return plan->shared_bytes <= cuda->shared_bytes;
}

/* False: other kernels are better at it. */
static bool plan_weight(const rc_cuda *cuda, const rc_conv *conv, int n, wide_weight_plan *plan)
{
    axis_taps taps;
    *plan = {};
    wide_weight_arguments *a = &plan->arguments;
    reduce_arguments *reduce = &plan->reduce;
    if (conv->c_out % SIDE != 0 || conv->c_in % SIDE != 0 || !rc_cuda_forward_taps(conv, &taps))
        return false;
    reduce->k = conv->k;
    reduce->co = reduce->co_padded = a->co = conv->c_out;
    reduce->ci = reduce->ci_padded = a->ci = conv->c_in;
    reduce->transposed = conv->transposed;
    if (!rc_cuda_list_terms(&taps, reduce) || reduce->taps > CONV_TAPS)
        return false;

    tile_cut *cut = &a->cut;
    group_view all = {1, {n, n, n, n}};
    a->source_step = taps.source_step;
    a->source_h = conv->h;
    a->source_w = conv->w;
    cut->groups = all;
    rc_cuda_set_maps(cut, conv, true, &taps, taps.source_step);
    plan->tiles = conv->c_out / SIDE * (conv->c_in / SIDE);
    axis_taps axis = rc_cuda_part_axis(&taps);
    if (!pays(cuda, conv, *cut, &axis, plan->tiles * taps.out_step * taps.out_step))
        return false;
    plan->strip = rc_cuda_plan_strip_weight(cuda, conv, &taps, n, &plan->by_strip);
    if (plan->strip)
        reduce->blocks = (int)plan->by_strip.grid.x;
    else if (!plan_tiles(cuda, conv, &taps, plan))
        return false;
    plan->sum_bytes = (size_t)reduce->blocks * reduce->taps * reduce->co * reduce->ci * sizeof(float);
    plan->x_bytes = rc_cuda_plain_bytes(n, conv->h, conv->w, conv->c_in);
    plan->dy_bytes = rc_cuda_plain_bytes(n, conv->oh, conv->ow, conv->c_out);
    return true;
}

size_t rc_cuda_wide_weight_workspace(const rc_cuda *cuda, const rc_conv *conv, int n)
{
    wide_weight_plan plan;
    return plan_weight(cuda, conv, n, &plan) ? plan.sum_bytes + plan.x_bytes + plan.dy_bytes : 0;
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

static void launch_tiles(rc_cuda *cuda, const char *operation, const wide_weight_plan *plan)
{
    dim3 grid((unsigned)plan->reduce.blocks, (unsigned)plan->tiles, (unsigned)plan->phases);
    void (*kernel)(wide_weight_arguments) = plan->nine ? wide_weight_kernel<9> : wide_weight_kernel<4>;
    int threads = plan->nine ? wide_weight_shape<9>::THREADS : wide_weight_shape<4>::THREADS;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, grid, threads, (size_t)plan->shared_bytes, plan->arguments);
}

bool rc_cuda_wide_backward_weight(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const value_source &value,
                                  const rc_grad *dy, const gradient_source &gradient, float *dweight)
{
    static const char operation[] = "conv_backward_weight";
    wide_weight_plan plan;
    if (!plan_weight(cuda, conv, x->n, &plan))
        return false;
    char *space = (char *)rc_cuda_workspace(cuda, plan.sum_bytes + plan.x_bytes + plan.dy_bytes, operation);
    if (!space)
        return true;
    value_source source = value;
    source.x.fill = NULL; /* x is not this operation's to fill */
    bf16 *x_space = (bf16 *)(space + plan.sum_bytes), *dy_space = (bf16 *)(space + plan.sum_bytes + plan.x_bytes);
    plan.reduce.sums = plan.arguments.sums = plan.by_strip.arguments.sums = (float *)space;
    plan.arguments.x = plan.by_strip.arguments.x = rc_cuda_plain(cuda, operation, source, x, x_space);
    plan.arguments.dy = plan.by_strip.arguments.dy = rc_cuda_plain(cuda, operation, gradient, dy->y, dy_space);
    if (plan.strip)
        rc_cuda_launch_strip_weight(cuda, operation, &plan.by_strip);
    else
        launch_tiles(cuda, operation, &plan);
    plan.reduce.dweight[0] = dweight;
    rc_cuda_reduce_weight(cuda, &plan.reduce);
    return true;
}
