/* Weight gradient of narrow layers: nine taps at stride 1 or 2, up to 64 channels on both sides (with_narrow_shape has
 * the list), of one layer or of several of one shape. Their products are few, so the kernel is to read their maps at
 * the speed of memory.
 *
 * There are as many blocks as the card holds at once. A block walks through its tiles of one layer: COLUMNS x ROWS
 * positions of dL/draw, and their source pixels with a border of one. While it multiplies one tile, the next is on its
 * way to shared memory (cp.async). A thread finishes what it has copied itself, in its place, so a tile takes one
 * barrier.
 *
 * A warp has 16 x 16 channels of all taps (or 8, where a map has no more), and walks down a band of rows. 16 positions
 * of a row (of two images, where they have no more than 8) are the inner dimension of its products. Below a source
 * pixel of a tap lies that of the tap below: what has been loaded of a source row serves all rows of dL/draw that it
 * touches, whose operands stay in registers.
 *
 * Every block writes its sums to the workspace, and a second kernel adds them in a fixed order (conv_reduce.h). */
#include "backend/cuda/convolution/conv_narrow_weight.h"

#include "backend/cuda/convolution/conv_reduce.h"
#include "backend/cuda/convolution/conv_splits.cuh"

enum { NARROW_TAPS = 9, NARROW_STAGES = 2 };

/* Channels, columns and rows of a tile, and the stride. */
template <int CO_, int CI_, int COLUMNS_, int ROWS_, int STEP_ = 1> struct narrow_shape {
    static constexpr int CO = CO_, CI = CI_, COLUMNS = COLUMNS_, ROWS = ROWS_, STEP = STEP_;
    static constexpr int X_COLUMNS = STEP * (COLUMNS - 1) + 3, X_ROWS = STEP * (ROWS - 1) + 3;
    static constexpr int IMAGES = COLUMNS == 8 ? 2 : 1, STRIPS = COLUMNS == 8 ? 1 : COLUMNS / 16;
    static constexpr int WARPS_I = CI < 16 ? 1 : CI / 16, OWNERS = (CO < 16 ? 1 : CO / 16) * WARPS_I;
    static constexpr int TILES = CO < 16 || CI < 16 ? 1 : 2; /* products of a warp, of 16 x 8 channels */
    static constexpr int SPLIT = CONV_WARPS / OWNERS, BANDS = SPLIT / STRIPS; /* warps that share a tile's positions */
    static constexpr int BAND = ROWS / BANDS;
    static constexpr int DY_LINE = COLUMNS * pixel_pitch(CO), X_LINE = X_COLUMNS * pixel_pitch(CI);
    static constexpr int DY_BYTES = IMAGES * ROWS * DY_LINE, X_BYTES = IMAGES * X_ROWS * X_LINE;
    static constexpr int MORE_BYTES = IMAGES * ROWS * COLUMNS * CO * 2; /* of each map more that dL/draw is made of */
    static constexpr int COUNT = NARROW_TAPS * TILES * 4;
    static constexpr int SPLIT_BYTES = SPLIT / 2 * OWNERS * COUNT * 32 * (int)sizeof(float);
    typedef float sums[NARROW_TAPS][TILES][4];
    static_assert(BANDS * STRIPS == SPLIT && BAND * BANDS == ROWS && (CO > 8 || (STEP == 1 && BAND % 2 == 0)),
                  "no such tile");

    /* Bytes of shared memory: tiles, and a table of the coefficients of all channels. */
    static int bytes(int co, int ci, int more)
    {
        int tiles = NARROW_STAGES * (DY_BYTES + X_BYTES + more * MORE_BYTES);
        int used = tiles + (gradient_source::ROWS * co + value_source::ROWS * ci) * (int)sizeof(float);
        return used > SPLIT_BYTES ? used : SPLIT_BYTES;
    }
};

struct narrow_cut {
    int h, w, source_h, source_w, tiles_y, tiles_x;
    unsigned by_tiles_y, by_tiles_x;
    group_view groups;
    int blocks[RC_MAX_GROUPS], group_tiles[RC_MAX_GROUPS];
};

struct narrow_source {
    value_source x;
    gradient_source dy;
};

struct narrow_weight_arguments {
    narrow_cut cut;
    float *sums; /* (layers, blocks, taps, c_out, c_in) */
    int more;    /* maps beside the gradient that dL/draw is made of, at most: raw, value */
    narrow_source layer[RC_MAX_FUSED];
};

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

struct narrow_place {
    int image, images; /* the first, and how many there are from it on */
    int y, x;          /* first position */
};

template <typename Shape> __device__ inline narrow_place place_of_tile(const narrow_cut &cut, int group, int tile)
{
    int row = quotient(tile, cut.by_tiles_x), pack = quotient(row, cut.by_tiles_y);
    int image = group_begin(cut.groups, group) + pack * Shape::IMAGES;
    narrow_place place = {image, cut.groups.end[group] - image, (row - pack * cut.tiles_y) * Shape::ROWS,
                          (tile - row * cut.tiles_x) * Shape::COLUMNS};
    return place;
}

/* each(number, bytes into the tile, whether there is such a pixel, its number in the map) for every vector of eight
 * channels that a thread has of a tile, ROWS x COLUMNS pixels from (first_y, first_x) on of maps h x w. */
template <typename Shape, int C, int ROWS, int COLUMNS, int UNROLL, typename Each>
__device__ inline void for_vectors(const narrow_place &at, int first_y, int first_x, int h, int w, Each each)
{
    constexpr int VECTORS = C / 8, ALL = Shape::IMAGES * ROWS * COLUMNS * VECTORS;
    constexpr int TIMES = (ALL + CONV_THREADS - 1) / CONV_THREADS;
    int vector = threadIdx.x % VECTORS;
#pragma unroll UNROLL
    for (int i = 0; i < TIMES; i++) {
        int pixel = i * (CONV_THREADS / VECTORS) + threadIdx.x / VECTORS;
        if (ALL % CONV_THREADS != 0 && pixel >= ALL / VECTORS)
            break;
        int line = pixel / COLUMNS, image = Shape::IMAGES == 1 ? 0 : line / ROWS;
        int y = first_y + line - image * ROWS, x = first_x + pixel - line * COLUMNS;
        bool inside = (unsigned)y < (unsigned)h && (unsigned)x < (unsigned)w && image < at.images;
        each(i, pixel * pixel_pitch(C) + vector * 16, inside, ((at.image + image) * h + y) * w + x);
    }
}

/* The tile of one stage in shared memory: the gradient, which becomes dL/draw, what else that is made of, and source
 * pixels. Of what else a thread has vectors of its own: it alone reads them. FINISHED: the gradient is dL/draw. */
template <typename Shape, bool FINISHED> struct narrow_tile {
    const narrow_weight_arguments &a;
    const narrow_source &layer;
    char *dy, *more, *x;
    int first_o; /* channel of dL/draw */

    __device__ narrow_tile(const narrow_weight_arguments &all, const narrow_source &of, char *shared, int stage,
                           int channel)
        : a(all), layer(of), first_o(channel)
    {
        dy = shared + stage * (Shape::DY_BYTES + Shape::X_BYTES + all.more * Shape::MORE_BYTES);
        x = dy + Shape::DY_BYTES;
        more = x + Shape::X_BYTES + threadIdx.x * 16;
    }

    template <int UNROLL, typename Each> __device__ void for_positions(const narrow_place &at, Each each) const
    {
        for_vectors<Shape, Shape::CO, Shape::ROWS, Shape::COLUMNS, UNROLL>(at, at.y, at.x, a.cut.h, a.cut.w, each);
    }

    template <int UNROLL, typename Each> __device__ void for_sources(const narrow_place &at, Each each) const
    {
        for_vectors<Shape, Shape::CI, Shape::X_ROWS, Shape::X_COLUMNS, UNROLL>(at, at.y * Shape::STEP - 1,
                                                                               at.x * Shape::STEP - 1, a.cut.source_h,
                                                                               a.cut.source_w, each);
    }

    /* Of what else dL/draw is made. */
    __device__ char *raw_of(int number) const
    {
        return more + number * (CONV_THREADS * 16);
    }

    __device__ char *value_of(int number) const
    {
        return raw_of(number) + Shape::MORE_BYTES;
    }

    __device__ bool takes_value() const
    {
        return layer.dy.what == PENDING_ANY && layer.dy.dy.y.stored;
    }

    /* What does not exist is 0, and not read. */
    __device__ void copy(const narrow_place &at) const
    {
        const tensor_view<bf16> &y = layer.dy.dy.y;
        int channel_o = first_o + threadIdx.x % (Shape::CO / 8) * 8, channel_i = threadIdx.x % (Shape::CI / 8) * 8;
        for_positions<4>(at, [&](int number, int place, bool inside, int pixel) {
            int from = pixel * y.cp + channel_o, bytes = inside ? 16 : 0;
            copy16_async_part(shared_address(dy + place), layer.dy.dy.g + from, bytes);
            if (!FINISHED && layer.dy.what != PENDING_NOTHING)
                copy16_async_part(shared_address(raw_of(number)), y.raw + from, bytes);
            if (!FINISHED && takes_value())
                copy16_async_part(shared_address(value_of(number)), y.stored + from, bytes);
        });
        for_sources<4>(at, [&](int, int place, bool inside, int pixel) {
            copy16_async_part(shared_address(x + place), layer.x.x.raw + (pixel * layer.x.x.cp + channel_i),
                              inside ? 16 : 0);
        });
        close_copies();
    }

    template <pending WHAT> __device__ void finish_gradient(const narrow_place &at, const float *table) const
    {
        int channel = first_o + threadIdx.x % (Shape::CO / 8) * 8;
        gradient_source source = layer.dy;
        source.dy.y.act = RC_ACT_LEAKY_RELU; /* two lines, whose slope `below` tells: no others are compiled */
        for_positions<1>(at, [&](int number, int place, bool inside, int) {
            gradient_source::fetched f = {};
            if (!inside) /* stays 0 */
                return;
            f.g = *(const uint4 *)(dy + place);
            f.raw = *(const uint4 *)raw_of(number);
            if (WHAT == PENDING_ANY && layer.dy.dy.y.stored)
                f.stored = *(const uint4 *)value_of(number);
            *(uint4 *)(dy + place) = source.template finish<WHAT>(f, coefficients_at(layer.dy, table + channel));
        });
    }

    /* Applies what is pending to what this thread has copied. */
    __device__ void finish(const narrow_place &at, const float *dy_table, const float *x_table) const
    {
        if (!FINISHED && layer.dy.what == PENDING_USUAL)
            finish_gradient<PENDING_USUAL>(at, dy_table);
        if (!FINISHED && layer.dy.what == PENDING_ANY)
            finish_gradient<PENDING_ANY>(at, dy_table);
        if (layer.x.what == PENDING_NOTHING)
            return;
        value_source::coefficients by = coefficients_at(layer.x, x_table + threadIdx.x % (Shape::CI / 8) * 8);
        for_sources<1>(at, [&](int, int place, bool inside, int) {
            value_source::fetched f = {};
            if (!inside)
                return;
            f.raw = *(const uint4 *)(x + place);
            *(uint4 *)(x + place) = layer.x.template finish<PENDING_USUAL>(f, by);
        });
    }
};

/* ---- products -------------------------------------------------------------------------------------------------- */

/* Calls add(row of taps, row of dL/draw) for the rows of a band that a line of source pixels touches. */
template <typename Shape, typename Add> __device__ inline void for_rows(int line, Add add)
{
#pragma unroll
    for (int row = 0; row < 3; row++)
        if (line >= row && (line - row) % Shape::STEP == 0 && (line - row) / Shape::STEP < Shape::BAND)
            add(row, (line - row) / Shape::STEP);
}

/* Adds the products of a band: `dy` and `x` are where this lane's rows of its operands begin. Rows of a product are 16
 * channels of dL/draw, columns 8 of the source. */
template <typename Shape> __device__ inline void add_band(typename Shape::sums &sum, unsigned dy, unsigned x)
{
    constexpr int PIXEL = pixel_pitch(Shape::CI), LINES = Shape::STEP * (Shape::BAND - 1) + 3;
    unsigned a[3][4];
#pragma unroll
    for (int line = 0; line < LINES; line++) { /* of source pixels */
        if (line % Shape::STEP == 0 && line / Shape::STEP < Shape::BAND)
            load_matrices_transposed(a[line / Shape::STEP % 3], dy + line / Shape::STEP * Shape::DY_LINE);
#pragma unroll
        for (int column = 0; column < 3; column += Shape::TILES == 1 ? 2 : 1) { /* of eight channels two at once */
            unsigned b[4];
            load_matrices_transposed(b, x + line * Shape::X_LINE + column * PIXEL);
            for_rows<Shape>(line, [&](int row, int of) {
                multiply_add(sum[row * 3 + column][0], a[of % 3], b);
                if (Shape::TILES == 2)
                    multiply_add(sum[row * 3 + column][Shape::TILES - 1], a[of % 3], b + 2);
                else if (column == 0)
                    multiply_add(sum[row * 3 + 1][0], a[of % 3], b + 2);
            });
        }
    }
}

/* The same where dL/draw has eight channels: they are the columns, and rows are 16 of the source. */
template <typename Shape> __device__ inline void add_slim_band(typename Shape::sums &sum, unsigned dy, unsigned x)
{
    unsigned b[4][2];
#pragma unroll
    for (int line = 0; line < Shape::BAND + 2; line++) {
        if (line % 2 == 0 && line < Shape::BAND) { /* two rows at once */
            unsigned both[4];
            load_matrices_transposed(both, dy + line * Shape::DY_LINE);
            b[line % 4][0] = both[0];
            b[line % 4][1] = both[1];
            b[line % 4 + 1][0] = both[2];
            b[line % 4 + 1][1] = both[3];
        }
#pragma unroll
        for (int column = 0; column < 3; column++) {
            unsigned a[4];
            load_matrices_transposed(a, x + line * Shape::X_LINE + column * pixel_pitch(Shape::CI));
            for_rows<Shape>(line, [&](int row, int of) { multiply_add(sum[row * 3 + column][0], a, b[of % 4]); });
        }
    }
}

/* Where in a tile this lane's rows of its operands begin. They are transposed, so these rows are positions: of the left
 * operand the second matrix has the other eight channels, of the right one the third. */
template <typename Shape> struct narrow_operands {
    unsigned dy, x;

    __device__ narrow_operands(int warp_o, int warp_i, int strip, int band)
    {
        constexpr bool SLIM = Shape::CO == 8;
        constexpr int DY_PIXEL = pixel_pitch(Shape::CO), X_PIXEL = Shape::STEP * pixel_pitch(Shape::CI);
        int lane = threadIdx.x % 32, left = lane % 8 + lane / 16 * 8, right = lane % 16;
        int dy_position = SLIM ? right : left, x_position = SLIM ? left : right;
        int next_row = lane / 16 * Shape::DY_LINE, next_column = lane / 16 * pixel_pitch(Shape::CI);
        int left_channel = lane / 8 % 2 * 16, right_channel = lane / 16 * 16;
        dy = warp_o * 2 + band * Shape::DY_LINE + (strip + dy_position) * DY_PIXEL + (SLIM ? next_row : left_channel);
        x = warp_i * 2 + band * Shape::STEP * Shape::X_LINE + (strip + x_position) * X_PIXEL +
            (SLIM             ? left_channel
             : Shape::CI == 8 ? next_column
                              : right_channel);
        if (Shape::IMAGES == 2) { /* the other eight positions are those of the second image */
            dy += dy_position / 8 * (Shape::ROWS * Shape::DY_LINE - 8 * DY_PIXEL);
            x += x_position / 8 * (Shape::X_ROWS * Shape::X_LINE - 8 * X_PIXEL);
        }
    }
};

/* Writes a warp's sums to (taps, co, ci). */
template <typename Shape>
__device__ inline void store_sums(const typename Shape::sums &sum, int first_o, int first_i, int co, int ci,
                                  float *sums)
{
    int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int tap = 0; tap < NARROW_TAPS; tap++) {
        if (Shape::CO == 8) {
            float *to = sums + ((size_t)tap * co + first_o + column) * ci + first_i + row;
            to[0] = sum[tap][0][0];
            to[ci] = sum[tap][0][1];
            to[8] = sum[tap][0][2];
            to[ci + 8] = sum[tap][0][3];
            continue;
        }
        float *to = sums + ((size_t)tap * co + first_o + row) * ci + first_i + column;
#pragma unroll
        for (int j = 0; j < Shape::TILES; j++) {
            *(float2 *)(to + j * 8) = make_float2(sum[tap][j][0], sum[tap][j][1]);
            *(float2 *)(to + (size_t)8 * ci + j * 8) = make_float2(sum[tap][j][2], sum[tap][j][3]);
        }
    }
}

/* Grid: (blocks of all groups, tiles of c_out, layers). */
template <typename Shape, bool FINISHED>
__global__ void __launch_bounds__(CONV_THREADS, 2)
    narrow_weight_kernel(const __grid_constant__ narrow_weight_arguments a)
{
    char *shared = dynamic_shared();
    int warp = threadIdx.x / 32, first_o = blockIdx.y * Shape::CO;
    const narrow_source &layer = a.layer[blockIdx.z];
    int owner = warp % Shape::OWNERS, split = warp / Shape::OWNERS;
    int warp_o = owner / Shape::WARPS_I * 16, warp_i = owner % Shape::WARPS_I * 16;
    narrow_operands<Shape> operands(warp_o, warp_i, split % Shape::STRIPS * 16, split / Shape::STRIPS * Shape::BAND);

    tile_share share = share_of_block(a.cut, blockIdx.x);
    narrow_tile<Shape, FINISHED> tile(a, layer, shared, 0, first_o), next(a, layer, shared, 1, first_o);
    float *dy_table = (float *)(shared + NARROW_STAGES * (next.dy - tile.dy));
    float *x_table = dy_table + gradient_source::ROWS * layer.dy.channels();
    narrow_place at = place_of_tile<Shape>(a.cut, share.group, share.row);
    wait_for_kernel_before(); /* and lets nobody begin early: blocks that wait to add the sums would keep others out */
    tile.copy(at);
    make_table(layer.dy, share.group, 0, layer.dy.channels(), dy_table);
    make_table(layer.x, share.group, 0, layer.x.channels(), x_table);
    __syncthreads();
    typename Shape::sums sum = {};
#pragma unroll 1
    for (int t = share.row;;) {
        wait_for_copies();
        tile.finish(at, dy_table, x_table);
        __syncthreads(); /* the tile is there, and nobody reads the one before */
        t += a.cut.blocks[share.group];
        if (t < share.tiles) {
            at = place_of_tile<Shape>(a.cut, share.group, t);
            next.copy(at);
        }
        if constexpr (Shape::CO == 8)
            add_slim_band<Shape>(sum, shared_address(tile.dy) + operands.dy, shared_address(tile.x) + operands.x);
        else
            add_band<Shape>(sum, shared_address(tile.dy) + operands.dy, shared_address(tile.x) + operands.x);
        if (t >= share.tiles)
            break;
        char *free_dy = tile.dy, *free_x = tile.x, *free_more = tile.more;
        tile.dy = next.dy, tile.x = next.x, tile.more = next.more;
        next.dy = free_dy, next.x = free_x, next.more = free_more;
    }
    add_splits<Shape::SPLIT, Shape::COUNT>(&sum[0][0][0], split, owner, Shape::OWNERS, (float *)shared);
    if (split > 0)
        return;
    int co = layer.dy.channels(), ci = layer.x.channels(), block = blockIdx.z * gridDim.x + blockIdx.x;
    store_sums<Shape>(sum, first_o + warp_o, warp_i, co, ci, a.sums + (size_t)block * NARROW_TAPS * co * ci);
}

/* ---- plan ------------------------------------------------------------------------------------------------------ */

/* Calls `take` with the shape of the tiles; false: there is none. Tiles are large if there is room for two blocks on a
 * multiprocessor. more: as in narrow_weight_arguments. */
template <typename Take> static bool with_narrow_shape(const rc_cuda *cuda, const rc_conv *conv, int more, Take take)
{
    int co = rc_cuda_padded(conv->c_out), ci = rc_cuda_padded(conv->c_in), stride = conv->stride;
    if (conv->k != 3 || conv->pad != 1 || conv->up != 1 || conv->transposed)
        return false;
    auto take_fitting = [&](auto shape) {
        return decltype(shape)::bytes(co, ci, more) <= rc_cuda_shared(cuda, CONV_SHARED_HALF) && take(shape);
    };
    auto take_larger = [&](auto large, auto small) {
        bool larger = conv->oh > decltype(small)::ROWS || conv->ow > decltype(small)::COLUMNS;
        return (larger && take_fitting(large)) || take_fitting(small);
    };
    if (stride == 1 && co == 16 && ci == 16)
        return take_larger(narrow_shape<16, 16, 32, 16>(), narrow_shape<16, 16, 32, 8>());
    if (stride == 1 && co == 32 && ci == 32)
        return take_larger(narrow_shape<32, 32, 16, 16>(), narrow_shape<32, 32, 16, 8>());
    if (stride == 1 && co == 64 && ci == 64)
        return conv->ow > 8 ? take_fitting(narrow_shape<32, 64, 16, 8>()) : take_fitting(narrow_shape<32, 64, 8, 8>());
    if (stride == 1 && co == 8 && ci == 64) /* the last layer of a generator */
        return take_larger(narrow_shape<8, 64, 32, 8>(), narrow_shape<8, 64, 16, 8>());
    if (stride == 1 && co == 16 && ci == 8) /* the first layer of a small net */
        return take_larger(narrow_shape<16, 8, 32, 16>(), narrow_shape<16, 8, 32, 8>());
    if (stride == 2 && co == 32 && ci == 16)
        return take_fitting(narrow_shape<32, 16, 16, 8, 2>());
    if (stride == 2 && co == 64 && ci == 32)
        return conv->ow > 8 ? take_fitting(narrow_shape<32, 32, 16, 4, 2>())
                            : take_fitting(narrow_shape<32, 32, 8, 4, 2>());
    return false;
}

/* Blocks of one of so many layers: all are on the card at once, two on a multiprocessor. */
static int layer_blocks(const rc_cuda *cuda, int layers, int tiles)
{
    int blocks = 2 * cuda->multiprocessors / (layers * tiles);
    return blocks > 1 ? blocks : 1;
}

/* Every group has a share of them, and at least one. */
static int deal_blocks(narrow_cut *cut, int blocks)
{
    int tiles = 0, all = 0;
    for (int g = 0; g < cut->groups.count; g++)
        tiles += cut->group_tiles[g];
    for (int g = 0; g < cut->groups.count; g++) {
        int share = (int)((long long)blocks * cut->group_tiles[g] / tiles), most = cut->group_tiles[g];
        cut->blocks[g] = share < 1 ? 1 : share < most ? share : most;
        all += cut->blocks[g];
    }
    return all;
}

static size_t sum_bytes(const rc_conv *conv, int layers, int blocks)
{
    size_t pairs = (size_t)rc_cuda_padded(conv->c_in) * (size_t)rc_cuda_padded(conv->c_out);
    return (size_t)layers * (size_t)blocks * NARROW_TAPS * pairs * sizeof(float);
}

size_t rc_cuda_narrow_weight_workspace(const rc_cuda *cuda, const rc_conv *conv)
{
    size_t bytes = 0;
    with_narrow_shape(cuda, conv, 0, [&](auto shape) {
        for (int layers = 1; layers <= RC_MAX_FUSED; layers++) {
            int blocks = layer_blocks(cuda, layers, rc_cuda_padded(conv->c_out) / decltype(shape)::CO) + RC_MAX_GROUPS;
            size_t used = sum_bytes(conv, layers, blocks);
            bytes = used > bytes ? used : bytes;
        }
        return true;
    });
    return bytes;
}

/* ---- launch ---------------------------------------------------------------------------------------------------- */

/* Maps beside the gradient that dL/draw is made of; -1: not taken. */
static int maps_beside(const gradient_source &dy)
{
    bool curved = is_curved(dy.dy.y.act);
    return dy.what == PENDING_NOTHING ? 0 : dy.what == PENDING_USUAL ? 1 : curved ? -1 : dy.dy.y.stored ? 2 : 1;
}

template <typename Shape>
static bool launch(rc_cuda *cuda, const rc_conv *conv, const narrow_weight_arguments &prepared, int layers,
                   reduce_arguments *reduce)
{
    static const char operation[] = "conv_backward_weight";
    narrow_weight_arguments a = prepared;
    narrow_cut *cut = &a.cut;
    int tiles = reduce->co_padded / Shape::CO;
    cut->tiles_y = (conv->oh + Shape::ROWS - 1) / Shape::ROWS;
    cut->tiles_x = (conv->ow + Shape::COLUMNS - 1) / Shape::COLUMNS;
    cut->by_tiles_y = reciprocal(cut->tiles_y);
    cut->by_tiles_x = reciprocal(cut->tiles_x);
    for (int g = 0; g < cut->groups.count; g++) {
        int images = cut->groups.end[g] - group_begin(cut->groups, g);
        cut->group_tiles[g] = (images + Shape::IMAGES - 1) / Shape::IMAGES * cut->tiles_y * cut->tiles_x;
    }
    reduce->blocks = deal_blocks(cut, layer_blocks(cuda, layers, tiles));
    a.sums = (float *)rc_cuda_workspace(cuda, sum_bytes(conv, layers, reduce->blocks), operation);
    if (!a.sums)
        return true;
    void (*kernel)(narrow_weight_arguments) = a.more == 0 ? narrow_weight_kernel<Shape, true>
                                                          : narrow_weight_kernel<Shape, false>;
    rc_cuda_allow_shared(cuda, kernel, operation);
    rc_cuda_launch_early(cuda, operation, kernel, dim3((unsigned)reduce->blocks, (unsigned)tiles, (unsigned)layers),
                         CONV_THREADS, (size_t)Shape::bytes(reduce->co_padded, reduce->ci_padded, a.more), a);
    reduce->sums = a.sums;
    rc_cuda_reduce_weight(cuda, reduce);
    return true;
}

bool rc_cuda_begin_reduce(const rc_conv *conv, const weight_layer *layers, int count, reduce_arguments *reduce)
{
    axis_taps taps;
    *reduce = {};
    for (int i = 0; i < count; i++)
        reduce->dweight[i] = layers[i].dweight;
    reduce->k = conv->k;
    reduce->co = conv->c_out;
    reduce->ci = conv->c_in;
    reduce->co_padded = rc_cuda_padded(conv->c_out);
    reduce->ci_padded = rc_cuda_padded(conv->c_in);
    reduce->further = count - 1;
    return rc_cuda_forward_taps(conv, &taps) && rc_cuda_list_terms(&taps, reduce) && reduce->taps == NARROW_TAPS;
}

bool rc_cuda_narrow_backward_weight(rc_cuda *cuda, const rc_conv *conv, const weight_layer *layers, int count)
{
    narrow_weight_arguments a = {};
    reduce_arguments reduce;
    for (int i = 0; i < count; i++) {
        const weight_layer *from = &layers[i];
        int more = maps_beside(from->dy);
        if (more < 0 || (from->x.what != PENDING_NOTHING && from->x.what != PENDING_USUAL))
            return false;
        a.more = more > a.more ? more : a.more;
        a.layer[i] = narrow_source{from->x, from->dy};
    }
    a.cut.h = conv->oh;
    a.cut.w = conv->ow;
    a.cut.source_h = conv->h;
    a.cut.source_w = conv->w;
    a.cut.groups = layers[0].dy.dy.y.groups;
    if (!rc_cuda_begin_reduce(conv, layers, count, &reduce))
        return false;
    return with_narrow_shape(cuda, conv, a.more,
                             [&](auto shape) { return launch<decltype(shape)>(cuda, conv, a, count, &reduce); });
}
