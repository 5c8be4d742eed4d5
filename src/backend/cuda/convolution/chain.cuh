/* Chains: a run of convolutions of one shape, 3 x 3 with stride 1, in one kernel.
 *
 * Without statistics of the batch an image needs no other: a block takes one image (two small ones) through all links
 * of a chain, its maps in shared memory. Link l reads map l % 2 and writes the other, which holds the value that it may
 * add; the weights of the link after travel meanwhile.
 *
 * Weights are the left operand of the products and pixels the right one: D (16 channels, 8 pixels of a row). Below a
 * pixel of a row lies the same pixel of the next: what has been loaded of a row serves three rows of results. A warp
 * has ROWS rows of two tiles of 8 pixels, side by side or of two images, or of one tile.
 *
 * A map in shared memory is (h + 2, W + 2) pixels, its border zeros. The 16-byte vectors of a pixel change places by
 * its column (vector_of), so that neither the 8 rows of a matrix that ldmatrix reads nor the 32 words that a warp
 * stores meet in a bank: column j of a tile is pixel j / 2 + 4 (j % 2), hence a thread has pixels t and t + 4. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CHAIN_CUH
#define RC_BACKEND_CUDA_CONVOLUTION_CHAIN_CUH

#include "backend/cuda/convolution/conv_tile.cuh"
#include "backend/cuda/convolution/pack.h"

enum { CHAIN_ROWS = 4 /* mostly */, CHAIN_THREADS = 512 /* at most */ };

template <int CHANNELS, int WIDTH, int TILES_, int ROWS_ = CHAIN_ROWS, int IMAGES_ = WIDTH == 8 ? TILES_ : 1>
struct chain_shape {
    static constexpr int C = CHANNELS, W = WIDTH, TILES = TILES_, ROWS = ROWS_;
    static constexpr int IMAGES = IMAGES_;                       /* of a block */
    static constexpr bool TILE_IMAGES = W == 8 && TILES == 2;    /* two tiles are of two images */
    static constexpr int TASK_IMAGES = TILE_IMAGES ? 1 : IMAGES; /* otherwise each image has tasks of its own */
    static constexpr int STRIPS = W == 8 ? 1 : W / 8 / TILES;    /* of a row */
    static constexpr int STEPS = C / 16, TILES_M = C / 16;       /* of 16 source channels, of 16 result channels */
    static constexpr int PIXEL = C * 2, PITCH = (W + 2) * PIXEL; /* bytes of a pixel, of a row of a map */
    static constexpr int WEIGHTS = 9 * C * C * 2;                /* bytes of a link */
    static constexpr int STEP_WEIGHTS = WEIGHTS / STEPS;         /* of 16 source channels */
    static constexpr bool LARGE = W * C > 512;                   /* maps that leave no room: see chain_bytes */
    static constexpr int THREADS = C == 16 || LARGE ? CHAIN_THREADS : CHAIN_THREADS / 2; /* at most */
    static constexpr int SUM_BUFFERS = LARGE ? 1 : 2;
    typedef float sums[TILES][ROWS][4];

    /* Bytes of a map of one image. */
    static __host__ __device__ constexpr int map_bytes(int h)
    {
        return ((h + 2) * PITCH + 127) / 128 * 128;
    }

    /* A task: 16 channels of ROWS rows of a strip. */
    static __host__ __device__ constexpr int tasks(int h)
    {
        return TILES_M * TASK_IMAGES * STRIPS * (h / ROWS);
    }

    /* Where vector `vector` of the pixels of column x (of the map with its border) lies in them. */
    static __device__ int vector_of(int x, int vector)
    {
        int high = C == 64 ? (x & 3) * 2 : C == 32 ? x & 2 : 0;
        return vector ^ (high | (x >> 2 & 1));
    }

    /* Bytes from the begin of a map to vector `vector` of pixel (y, x). */
    static __device__ int in_map(int y, int x, int vector)
    {
        return (y + 1) * PITCH + (x + 1) * PIXEL + vector_of(x + 1, vector) * 16;
    }
};

/* What a warp works on at once. */
struct chain_task {
    int tile_m, image, strip, row; /* row: the first */
};

template <typename Shape> __device__ inline chain_task task_of(int number)
{
    int strips = number / (Shape::TILES_M * Shape::TASK_IMAGES);
    chain_task task = {number % Shape::TILES_M, number / Shape::TILES_M % Shape::TASK_IMAGES, strips % Shape::STRIPS,
                       strips / Shape::STRIPS * Shape::ROWS};
    return task;
}

/* The first column of a task. */
template <typename Shape> __device__ inline int task_column(const chain_task &task)
{
    return task.strip * 8 * Shape::TILES;
}

/* Bytes from the begin of the maps of a block's images to what the first result of a task is made of, which is one row
 * above and one column left of it, and to that result. */
template <typename Shape> __device__ inline int source_in_maps(const chain_task &task, int map_bytes)
{
    return task.image * map_bytes + task.row * Shape::PITCH + task_column<Shape>(task) * Shape::PIXEL;
}

template <typename Shape> __device__ inline int result_in_maps(const chain_task &task, int map_bytes)
{
    return task.image * map_bytes + (task.row + 1) * Shape::PITCH + (task_column<Shape>(task) + 1) * Shape::PIXEL;
}

/* ---- products -------------------------------------------------------------------------------------------------- */

/* Offsets into a map at which a lane's rows of matrices begin, for the three columns of taps. */
template <typename Shape> __device__ inline void locate_operands(unsigned offset[3], int map_bytes)
{
    int lane = threadIdx.x % 32, row = lane % 8, half = lane / 8 % 2, second = lane / 16;
    int pixel = row / 2 + row % 2 * 4;
    int extra = Shape::TILES == 1 ? Shape::PITCH : Shape::TILE_IMAGES ? map_bytes : 8 * Shape::PIXEL;
#pragma unroll
    for (int i = 0; i < 3; i++)
        offset[i] = (unsigned)((pixel + i) * Shape::PIXEL + Shape::vector_of(pixel + i, half) * 16 + second * extra);
}

/* Adds what a row of pixels, loaded for all three columns of taps, gives to the rows of results that it touches. */
template <typename Shape>
__device__ inline void add_row(typename Shape::sums &sum, const unsigned (&weight)[9][4],
                               const unsigned (&pixels)[3][4], int row, int tile, int operand)
{
#pragma unroll
    for (int x = 0; x < 3; x++)
#pragma unroll
        for (int y = 0; y < 3; y++)
            if (row - y >= 0 && row - y < Shape::ROWS)
                multiply_add(sum[tile][row - y], weight[y * 3 + x], pixels[x] + operand * 2);
}

/* each(tile, row, i) for every pair of channels that a thread has of a task's results; i: of its two pixels. */
template <typename Shape, typename Each> __device__ inline void for_results(Each each)
{
#pragma unroll
    for (int row = 0; row < Shape::ROWS; row++)
#pragma unroll
        for (int tile = 0; tile < Shape::TILES; tile++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                each(tile, row, i);
}

template <typename Shape> __device__ inline void clear_sums(typename Shape::sums &sum)
{
#pragma unroll
    for (int i = 0; i < Shape::TILES; i++)
#pragma unroll
        for (int row = 0; row < Shape::ROWS; row++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[i][row][k] = 0;
}

/* The sums of a task: `map` is where its pixels begin, one row above and one column left of its results. */
template <typename Shape>
__device__ inline void multiply_task(typename Shape::sums &sum, const unsigned (&offset)[3], unsigned map,
                                     unsigned weights)
{
    constexpr int LOADED = Shape::TILES == 1 ? 2 : 1; /* rows at once */
    clear_sums<Shape>(sum);
#pragma unroll 1
    for (int step = 0; step < Shape::STEPS; step++) {
        unsigned weight[9][4];
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            load_shared16(weight[tap], weights + (tap * Shape::STEPS + step) * (Shape::TILES_M * 512));
#pragma unroll
        for (int row = 0; row < Shape::ROWS + 2; row += LOADED) {
            unsigned pixels[3][4];
#pragma unroll
            for (int x = 0; x < 3; x++)
                load_matrices(pixels[x], map + (offset[x] ^ (unsigned)(step * 32)) + row * Shape::PITCH);
            add_row<Shape>(sum, weight, pixels, row, 0, 0);
            if (Shape::TILES == 2)
                add_row<Shape>(sum, weight, pixels, row, Shape::TILES - 1, 1);
            else
                add_row<Shape>(sum, weight, pixels, row + 1, 0, 1);
        }
    }
}

/* Adds one step of the sums of a task: `weights` are those of the step. Column by column of taps, so
 * that few weights are in registers and many rows of results are. */
template <typename Shape>
__device__ inline void multiply_step(typename Shape::sums &sum, const unsigned (&offset)[3], unsigned map,
                                     unsigned weights, int step)
{
#pragma unroll
    for (int x = 0; x < 3; x++) {
        unsigned weight[3][4];
#pragma unroll
        for (int y = 0; y < 3; y++)
            load_shared16(weight[y], weights + (y * 3 + x) * (Shape::TILES_M * 512));
#pragma unroll
        for (int row = 0; row < Shape::ROWS + 2; row++) {
            unsigned pixels[4];
            load_matrices(pixels, map + (offset[x] ^ (unsigned)(step * 32)) + row * Shape::PITCH);
#pragma unroll
            for (int y = 0; y < 3; y++)
#pragma unroll
                for (int tile = 0; tile < Shape::TILES; tile++)
                    if (row - y >= 0 && row - y < Shape::ROWS)
                        multiply_add(sum[tile][row - y], weight[y], pixels + tile * 2);
        }
    }
}

/* ---- results --------------------------------------------------------------------------------------------------- */

/* Where a thread's two channels of pixel t, and of pixel t + 4, lie in the tile of a map. */
template <typename Shape> struct chain_place {
    int in_map[2]; /* bytes, from the tile's first result on */
    int in_tensor; /* elements, from the tile's first result on; pixel t + 4 is 4 C further */

    __device__ void locate(int tile_m)
    {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int x = t + 4 * i;
            in_map[i] = x * Shape::PIXEL + Shape::vector_of(x + 1, tile_m * 2 + g / 4) * 16 + g % 4 * 4;
        }
        in_tensor = t * Shape::C + tile_m * 16 + g * 2;
    }
};

/* Bytes from the first result of a task to that of tile `tile`, row `row`. */
template <typename Shape> __device__ inline int tile_in_map(int tile, int row, int map_bytes)
{
    return row * Shape::PITCH + tile * (Shape::TILE_IMAGES ? map_bytes : 8 * Shape::PIXEL);
}

template <typename Shape> __device__ inline int tile_in_tensor(int tile, int row, int image_elements)
{
    return row * Shape::W * Shape::C + tile * (Shape::TILE_IMAGES ? image_elements : 8 * Shape::C);
}

/* Where the results of a warp's tasks go: what forward and back have in common. */
template <typename Shape> struct chain_results {
    chain_place<Shape> place;
    int map_bytes, image_elements, images; /* images: how many there are from the first of the warp's tasks on */

    __device__ void begin(int h, int images_left)
    {
        map_bytes = Shape::map_bytes(h);
        image_elements = h * Shape::W * Shape::C;
        images = images_left - (int)threadIdx.x / 32 / Shape::TILES_M % Shape::TASK_IMAGES;
        place.locate(threadIdx.x / 32 % Shape::TILES_M);
    }

    /* From the task's first result to two channels of a pixel: i = 0: t, 1: t + 4. */
    __device__ int in_map(int tile, int row, int i) const
    {
        return tile_in_map<Shape>(tile, row, map_bytes) + place.in_map[i];
    }

    __device__ int in_tensor(int tile, int row, int i) const
    {
        return tile_in_tensor<Shape>(tile, row, image_elements) + place.in_tensor + i * 4 * Shape::C;
    }

    __device__ bool inside(int tile) const
    {
        return Shape::IMAGES == 1 || (Shape::TILE_IMAGES ? tile : 0) < images;
    }
};

/* Two neighbouring channels. */
__device__ inline float2 unpack2(unsigned bits)
{
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}

/* act of two values, as bf16. */
template <rc_act ACT> __device__ inline unsigned pack_activated(float2 z)
{
    if (ACT == RC_ACT_RELU)
        return pack_rectified(z.x, z.y);
    if (ACT == RC_ACT_LEAKY_RELU)
        return pack_bf16(fmaxf(z.x, 0.2f * z.x), fmaxf(z.y, 0.2f * z.y));
    return pack_bf16(z.x, z.y);
}

__device__ inline float2 load2(const float *from)
{
    return *(const float2 *)from;
}

/* ---- sums for normalisation -------------------------------------------------------------------------------------- */

/* The sums of a task, (2, 16): of the four threads that have the same two channels. */
__device__ inline void store_task_sums(float2 first, float2 second, float *to)
{
    float four[4] = {first.x, first.y, second.x, second.y};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int step = 1; step < 4; step *= 2)
            four[i] += __shfl_xor_sync(0xffffffffu, four[i], step);
    if (threadIdx.x % 4 == 0) {
        to += threadIdx.x % 32 / 4 * 2;
        *(float2 *)to = make_float2(four[0], four[1]);
        *(float2 *)(to + 16) = make_float2(four[2], four[3]);
    }
}

/* Adds the sums of all tasks, in order, to a row, (2, C). */
template <typename Shape> __device__ inline void add_task_sums(float *row, const float *sums, int tasks)
{
    int i = threadIdx.x, channel = i % Shape::C;
    if (i >= 2 * Shape::C)
        return;
    float sum = 0;
    for (int task = channel / 16; task < tasks; task += Shape::TILES_M)
        sum += sums[task * 32 + i / Shape::C * 16 + channel % 16];
    row[i] = sum;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Calls `take` with the shape of a convolution's chain and returns what it returns; false: there is none. Two small
 * images share the weights of a block if there are more of them than multiprocessors. */
template <typename Take> static bool with_chain_shape(const rc_cuda *cuda, const rc_conv *conv, int n, Take take)
{
    if (conv->h % CHAIN_ROWS != 0)
        return false;
    if (conv->c_in == 16 && conv->w == 32)
        return take(chain_shape<16, 32, 2>());
    if (conv->c_in == 32 && conv->w == 16)
        return take(chain_shape<32, 16, 2>());
    if (conv->c_in == 64 && conv->w == 8)
        return n > cuda->multiprocessors ? take(chain_shape<64, 8, 2>()) : take(chain_shape<64, 8, 1>());
    if (conv->c_in == 32 && conv->w == 32)
        return take(chain_shape<32, 32, 2>());
    if (conv->c_in == 64 && conv->w == 16)
        return take(chain_shape<64, 16, 2>());
    return false;
}

enum chain_use { CHAIN_EVAL, CHAIN_FROZEN, CHAIN_BACK };

/* Bytes of shared memory: two maps, the weights of two links, frozen the sums of all tasks (if there is room twice, so
 * that the next ones need not wait until they have been added), back a map for sums of gradients, if there is room. */
template <typename Shape> static int chain_bytes(int h, chain_use use)
{
    int maps = use == CHAIN_BACK && !Shape::LARGE ? 3 : 2;
    int sums = use == CHAIN_FROZEN ? Shape::SUM_BUFFERS * Shape::tasks(h) * 32 * (int)sizeof(float) : 0;
    return maps * Shape::IMAGES * Shape::map_bytes(h) + 2 * Shape::WEIGHTS + sums;
}

/* A block has so many warps: more where it has a multiprocessor for itself. */
template <typename Shape> static int chain_threads(const rc_cuda *cuda, int h, int blocks)
{
    bool alone = Shape::LARGE || blocks <= cuda->multiprocessors;
    return Shape::tasks(h) >= CHAIN_THREADS / 32 && alone ? Shape::THREADS : CHAIN_THREADS / 2;
}

/* ---- the skip of link 0 ------------------------------------------------------------------------------------------ */

struct chain_skip {
    const bf16 *value; /* (n, h, w, cp); NULL: none */
    int h, w, cp, stride, offset;
};

static inline chain_skip view_skip(const rc_skip *skip)
{
    chain_skip view = {(const bf16 *)skip->value, skip->h,      skip->w,
                       rc_cuda_padded(skip->c),   skip->stride, skip->channel_offset};
    return view;
}

/* What it adds to `image`, (h, W, C), to a map. */
template <typename Shape> __device__ inline void load_skip(const chain_skip &skip, int image, int h, char *map)
{
    constexpr int VECTORS = Shape::C / 8;
    int vector = threadIdx.x % VECTORS, step = blockDim.x / VECTORS, from = vector * 8 - skip.offset;
    if (from < 0 || from >= skip.cp)
        return; /* zeros, which the map holds */
#pragma unroll 4
    for (int i = threadIdx.x / VECTORS; i < h * Shape::W; i += step) {
        int y = i / Shape::W, x = i % Shape::W;
        int pixel = (image * skip.h + y * skip.stride) * skip.w + x * skip.stride;
        *(uint4 *)(map + Shape::in_map(y, x, vector)) = load16(skip.value + (unsigned)(pixel * skip.cp + from));
    }
}

/* dz of `image` to the gradient of the skip; dz_of(y, x, vector) gives eight channels. */
template <typename Source>
__device__ inline void store_skip(const chain_skip &skip, bf16 *gradient, bool add, int image, Source dz_of)
{
    int vectors = skip.cp / 8, by_row = skip.w * vectors;
#pragma unroll 4
    for (int i = threadIdx.x; i < skip.h * by_row; i += blockDim.x) {
        int y = i / by_row, x = (i - y * by_row) / vectors;
        uint4 *to = (uint4 *)(gradient + ((size_t)image * skip.h * by_row + i) * 8);
        bool between = skip.stride == 2 && ((y | x) & 1);
        if (between) {
            if (!add)
                *to = make_uint4(0, 0, 0, 0);
            continue;
        }
        uint4 dz = dz_of(y / skip.stride, x / skip.stride, i % vectors + skip.offset / 8);
        if (add) {
            float8 sum = unpack8(dz), old = unpack8(*to);
#pragma unroll
            for (int k = 0; k < 8; k++)
                sum.v[k] += old.v[k];
            dz = pack8(sum);
        }
        *to = dz;
    }
}

/* ---- what comes in, and weights ---------------------------------------------------------------------------------- */

__device__ inline void clear_maps(char *maps, int bytes)
{
    for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
        *(uint4 *)(maps + i) = make_uint4(0, 0, 0, 0);
}

__device__ inline void copy_link_weights(unsigned to, const char *from, int bytes)
{
    for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
        copy16_async(to + i, from + i);
}

/* Those of a step, (9 taps, TILES_M) x 512 bytes; `from`: the link's. */
template <typename Shape> __device__ inline void copy_step_weights(unsigned to, const char *from, int step)
{
    constexpr int TAP = Shape::TILES_M * 512;
    unsigned at = threadIdx.x * 16 % TAP;
    for (unsigned tap = threadIdx.x * 16 / TAP; tap < 9; tap += blockDim.x * 16 / TAP)
        copy16_async(to + tap * TAP + at, from + (tap * Shape::STEPS + step) * TAP + at);
}

/* The value of `image` of the source, (h, W, C), to a map. group: that of the image. */
template <typename Shape, pending WHAT, typename Source>
__device__ inline void load_image_pending(const Source &source, int group, int image, int h, char *map)
{
    constexpr int VECTORS = Shape::C / 8, UNROLL = WHAT == PENDING_ANY ? 2 : 4;
    int vector = threadIdx.x % VECTORS, channel = vector * 8, step = blockDim.x / VECTORS;
    rectangle all = {h * Shape::W, Shape::W, h, 0, 0, false};
    typename Source::lines lines = source.walk(all, image, 0, 0, 1, channel);
    typename Source::coefficients by = coefficients_of(source, group, channel);
#pragma unroll 1
    for (int first = threadIdx.x / VECTORS; first < all.count; first += UNROLL * step) {
        typename Source::fetched fetched[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            element e = {first + u * step, (first + u * step) / Shape::W, 0};
            fetched[u] = {};
            if (e.index < all.count)
                fetched[u] = source.template fetch<WHAT>(lines, e, channel);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            element e = {first + u * step, (first + u * step) / Shape::W, 0};
            if (e.index >= all.count)
                break;
            uint4 value = source.template finish<WHAT>(fetched[u], by);
            *(uint4 *)(map + Shape::in_map(e.row, e.index % Shape::W, vector)) = value;
            if (source.fills())
                source.fill(value, lines, e);
        }
    }
}

template <typename Shape, typename Source>
__device__ inline void load_image(const Source &source, int group, int image, int h, char *map)
{
    if (source.what == PENDING_NOTHING)
        load_image_pending<Shape, PENDING_NOTHING>(source, group, image, h, map);
    else if (source.what == PENDING_USUAL)
        load_image_pending<Shape, PENDING_USUAL>(source, group, image, h, map);
    else
        load_image_pending<Shape, PENDING_ANY>(source, group, image, h, map);
}

#endif
