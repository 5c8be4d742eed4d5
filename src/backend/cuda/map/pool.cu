/* Pooling. */
#include "backend/cuda/map/map.cuh"
#include "backend/cuda/product/mma.cuh"

/* ---- maximum ---------------------------------------------------------------------------------------------------- */

/* The windows of a pool, and how backward goes over its pixels: in blocks of block x block. Along an axis, `reach`
 * windows from `first` on reach into a block, whose first pixel is tap(block, r) of the window first + r.
 * STEM, here and below, is the pool of a ResNet's stem, of which the compiler knows it all: 3 x 3 pixels at stride 2 in
 * a border of 1, over max(0, raw * scale + shift), or in forward over what is finished; in backward, dL/draw of the
 * result is g. */
template <bool STEM> struct pool_window {
    int k, stride, pad;
    enum { block = 1, tap_bits = 16 /* to number a tap; all set: none */ };

    explicit pool_window(rc_pool2d pool) : k(pool.k), stride(pool.stride), pad(pool.pad)
    {
    }
    __device__ int first(int pixel) const
    {
        return pixel + pad < k ? 0 : (pixel + pad - k) / stride + 1;
    }
    __device__ int reach(int pixel) const
    {
        return (pixel + pad) / stride + 1 - first(pixel);
    }
    __device__ int tap(int pixel, int r) const
    {
        return pixel + pad - (first(pixel) + r) * stride;
    }
};

template <> struct pool_window<true> {
    enum { k = 3, stride = 2, pad = 1, block = 2, tap_bits = 4 };

    explicit pool_window(rc_pool2d)
    {
    }
    __device__ int first(int at) const
    {
        return at;
    }
    __device__ int reach(int) const
    {
        return 2;
    }
    __device__ int tap(int, int r) const
    {
        return pad - r * stride;
    }
};

static bool has_stem_windows(const rc_pool2d *pool)
{
    typedef pool_window<true> stem;
    return pool->k == stem::k && pool->stride == stem::stride && pool->pad == stem::pad;
}

static bool is_stem(const rc_pool2d *pool, const rc_tensor *x)
{
    return has_stem_windows(pool) && x->act == RC_ACT_RELU && (x->stored || !x->skip.value);
}

static bool is_finished(const rc_tensor *x)
{
    return x->stored || (!x->scale && !x->skip.value && x->act == RC_ACT_NONE);
}

/* Reads the value of a lazy map, eight channels that stay the same; a stem's what is pending for them is read once, and
 * the value is that before the activation. */
template <typename Act, bool STEM> struct value_reader {
    tensor_view<Act> x;
    int channel;
    float8 scale, shift;

    __device__ value_reader(const tensor_view<Act> &view, int group, int first_channel)
        : x(view), channel(first_channel), scale(), shift()
    {
        if (!STEM || channel >= x.cp)
            return;
        bool normalised = x.scale && !x.stored;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            scale.v[i] = normalised ? x.scale[group * x.cp + channel + i] : 1;
            shift.v[i] = normalised ? x.shift[group * x.cp + channel + i] : 0;
        }
    }

    __device__ float8 read(int image, int row, int column) const
    {
        place at = place_at(x, image, row, column);
        if (!STEM)
            return load_value8(x, at, channel);
        const Act *pixels = (x.stored ? x.stored : x.raw) + offset8(x, at.pixel - column, channel);
        float8 z = load8(pixels + column * x.cp); /* so that the taps of a row have one address */
#pragma unroll
        for (int i = 0; i < 8; i++)
            z.v[i] = z.v[i] * scale.v[i] + shift.v[i];
        return z;
    }
};

/* A window's maximum in eight channels, and which tap was the first to have it. */
struct maximum8 {
    float8 value;
    int tap[8];
};

/* The nearest of [0, size). */
__device__ static inline int within(int at, int size)
{
    return at < 0 ? 0 : at < size ? at : size - 1;
}

/* A tap outside the map counts as the one at the edge, which is in the window, too: coming twice changes nothing.
 * NaN counts as a maximum, so that it is not lost; a rectified one is 0. */
template <bool RECTIFIED, typename Act, bool STEM>
__device__ static inline maximum8 maximum_of(pool_window<STEM> pool, const value_reader<Act, STEM> &x, int image,
                                             int oy, int ox)
{
    int top = oy * pool.stride - pool.pad, left = ox * pool.stride - pool.pad;
    maximum8 best;
#pragma unroll
    for (int c = 0; c < 8; c++) {
        best.value.v[c] = RECTIFIED ? 0 : -INFINITY;
        best.tap[c] = (within(top, x.x.h) - top) * pool.k + within(left, x.x.w) - left;
    }
#pragma unroll 3
    for (int y = 0; y < pool.k; y++) {
        int row = within(top + y, x.x.h);
#pragma unroll 3
        for (int i = 0; i < pool.k; i++) {
            int column = within(left + i, x.x.w), tap = (row - top) * pool.k + column - left;
            float8 value = x.read(image, row, column);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float last = best.value.v[c];
                bool better = RECTIFIED ? value.v[c] > last : !(value.v[c] <= last) && !isnan(last);
                best.value.v[c] = RECTIFIED ? fmaxf(value.v[c], last) : better ? value.v[c] : last;
                best.tap[c] = better ? tap : best.tap[c];
            }
        }
    }
    return best;
}

template <bool RECTIFIED, typename Act, bool STEM>
__global__ static void __launch_bounds__(MAP_THREADS, STEM ? 4 : 2)
    max_forward_kernel(pool_window<STEM> pool, tensor_view<Act> x, tensor_view<Act> y, Act *raw, map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    value_reader<Act, STEM> reader(x, walk.group, walk.channel);
    for (place at = place_of(y, walk.first); at.pixel < walk.end; at = place_after(y, at, walk.step))
        store8(raw + offset8(y, at.pixel, walk.channel),
               maximum_of<RECTIFIED>(pool, reader, at.image, at.y, at.x).value);
}

template <bool RECTIFIED, bool STEM, typename Act>
static void launch_max_forward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_tensor *y)
{
    map_cut cut = cut_map(y);
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_forward", max_forward_kernel<RECTIFIED, Act, STEM>, map_grid(cut),
                         MAP_THREADS, 0, pool_window<STEM>(*pool), view_tensor<Act>(x), view_tensor<Act>(y),
                         (Act *)y->raw, cut);
}

template <typename Act> static void max_pool_forward(rc_backend *be, const rc_pool2d *pool, rc_tensor *x, rc_tensor *y)
{
    if (x->value && !x->stored) /* windows overlap: one thread per value must store it */
        be->materialise(be, x);
    if (is_stem(pool, x))
        launch_max_forward<true, true, Act>(be, pool, x, y);
    else if (has_stem_windows(pool) && is_finished(x))
        launch_max_forward<false, true, Act>(be, pool, x, y);
    else
        launch_max_forward<false, false, Act>(be, pool, x, y);
}

/* Backward: a tile of the input at a time. First every window that reaches into it is searched once, for the tap that
 * receives its gradient; then a pixel takes the gradient of those windows whose tap it is. So nobody writes to the same
 * place, and the order of the sum is fixed. */
struct pool_tiles {
    int h, w;                    /* blocks of pixels of a tile */
    int windows_h, windows_w;    /* windows that reach into it, at most */
    int tiles_y, tiles_x;        /* of an image */
    unsigned by_w, by_windows_w; /* reciprocals */
};

template <typename Act, bool STEM> struct pool_backward {
    pool_window<STEM> pool;
    grad_view<Act> dy;
    backward_epilogue<Act> e;
    pool_tiles tiles;
};

/* Where a tile lies: its first block of pixels, and the first window that reaches into it. */
struct pool_place {
    int image, block_y, block_x, first_y, first_x;
};

template <typename Act, bool STEM>
__device__ static inline pool_place find_tile(const pool_backward<Act, STEM> &a, int first_image, int t)
{
    int row = t / a.tiles.tiles_x, image = row / a.tiles.tiles_y;
    int block_y = row % a.tiles.tiles_y * a.tiles.h, block_x = t % a.tiles.tiles_x * a.tiles.w;
    pool_place at = {first_image + image, block_y, block_x, a.pool.first(block_y), a.pool.first(block_x)};
    return at;
}

/* The taps of eight channels of a window, in as few bits as number one. */
template <bool STEM> struct window_taps {
    enum { bits = pool_window<STEM>::tap_bits, each = 32 / bits };
    unsigned word[8 / each];

    __device__ static unsigned mask(int c)
    {
        return 0xffffffffu >> (32 - bits) << c % each * bits;
    }

    __device__ void set(const int tap[8])
    {
#pragma unroll
        for (int c = 0; c < 8; c++)
            word[c / each] = (c % each ? word[c / each] : 0) | (unsigned)tap[c] << c % each * bits;
    }

    __device__ void set_none()
    {
        for (int i = 0; i < 8 / each; i++)
            word[i] = 0xffffffffu;
    }

    __device__ bool is(int c, int tap) const
    {
        return ((word[c / each] ^ (unsigned)tap * (0xffffffffu / mask(0))) & mask(c)) == 0;
    }
};

/* Windows lane, lane + lanes, ... of a tile; `taps` is (windows_h, windows_w, width) from this thread's vector on. */
template <typename Act, bool STEM>
__device__ static inline void search_windows(const pool_backward<Act, STEM> &a, const value_reader<Act, STEM> &x,
                                             const pool_place &at, int lane, int lanes, window_taps<STEM> *taps)
{
    for (int i = lane; i < a.tiles.windows_h * a.tiles.windows_w; i += lanes) {
        int row = quotient(i, a.tiles.by_windows_w), column = at.first_x + i - row * a.tiles.windows_w;
        row += at.first_y;
        window_taps<STEM> found;
        if (row < a.dy.y.h && column < a.dy.y.w)
            found.set(maximum_of<STEM>(a.pool, x, at.image, row, column).tap);
        else
            found.set_none();
        taps[i * a.e.cut.width] = found;
    }
}

/* What the windows of a tile give to the pixels of a block: from the bottom to the top, from right to left. */
template <typename Act, bool STEM>
__device__ static inline void take_gradient(const pool_backward<Act, STEM> &a, const pool_place &at, int block_y,
                                            int block_x, int channel, const window_taps<STEM> *taps, float8 *total)
{
    const pool_window<STEM> &pool = a.pool;
    const tensor_view<Act> &y = a.dy.y;
    for (int p = 0; p < pool.block * pool.block; p++)
        total[p] = zero8();
#pragma unroll 2
    for (int r = pool.reach(block_y) - 1; r >= 0; r--)
#pragma unroll 2
        for (int s = pool.reach(block_x) - 1; s >= 0; s--) {
            int row = pool.first(block_y) + r, column = pool.first(block_x) + s;
            int window = (row - at.first_y) * a.tiles.windows_w + column - at.first_x;
            window_taps<STEM> found = taps[window * a.e.cut.width];
            place from = place_at(y, at.image, within(row, y.h), within(column, y.w)); /* outside: none is found */
            float8 draw = STEM ? load8(a.dy.g + offset8(y, from.pixel, channel)) : load_draw8(a.dy, from, channel);
#pragma unroll
            for (int p = 0; p < pool.block * pool.block; p++) {
                int tap_y = pool.tap(block_y, r) + p / pool.block, tap_x = pool.tap(block_x, s) + p % pool.block;
                if (tap_y < 0 || tap_y >= pool.k || tap_x < 0 || tap_x >= pool.k)
                    continue;
#pragma unroll
                for (int c = 0; c < 8; c++)
                    if (found.is(c, tap_y * pool.k + tap_x))
                        total[p].v[c] += draw.v[c];
            }
        }
}

/* finish_backward8 for a stem: given raw, and when what was there before has been added. */
template <typename Act, bool STEM, typename Sum>
__device__ static inline void finish_stem8(const backward_epilogue<Act> &e, const value_reader<Act, STEM> &x,
                                           const float8 &mean, size_t at, const float8 &raw, float8 result,
                                           channel_sums<Sum> *sums)
{
    result = store_rounded8(e.dx + at, result);
    if (!e.partial)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (raw.v[i] * x.scale.v[i] + x.shift.v[i] > 0) {
            sums->first[i] += (Sum)result.v[i];
            sums->second[i] += (Sum)result.v[i] * ((Sum)raw.v[i] - (Sum)mean.v[i]);
        }
}

/* A block of pixels of a stem: everything is loaded before the first is stored. */
template <typename Act, bool STEM, typename Sum>
__device__ static inline void finish_stem_block(const pool_backward<Act, STEM> &a, const value_reader<Act, STEM> &x,
                                                const float8 &mean, const pool_place &at, int block_y, int block_x,
                                                const window_taps<STEM> *taps, channel_sums<Sum> *sums)
{
    const int block = pool_window<STEM>::block;
    const tensor_view<Act> &to = a.e.x;
    float8 total[block * block], raw[block * block];
    size_t offset[block * block];
#pragma unroll
    for (int p = 0; p < block * block; p++) {
        int row = within(block_y * block + p / block, to.h), column = within(block_x * block + p % block, to.w);
        offset[p] = offset8(to, (at.image * to.h + row) * to.w + column, x.channel);
        raw[p] = load8(to.raw + offset[p]);
    }
    take_gradient(a, at, block_y, block_x, x.channel, taps, total);
    if (a.e.addend)
#pragma unroll
        for (int p = 0; p < block * block; p++) {
            float8 before = load8(a.e.addend + offset[p]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                total[p].v[i] += before.v[i];
        }
#pragma unroll
    for (int p = 0; p < block * block; p++)
        if (block_y * block + p / block < to.h && block_x * block + p % block < to.w)
            finish_stem8(a.e, x, mean, offset[p], raw[p], total[p], sums);
}

template <typename Act, bool STEM>
__global__ static void __launch_bounds__(MAP_THREADS, 2) max_backward_kernel(pool_backward<Act, STEM> a)
{
    begin_after_kernel_before();
    const tensor_view<Act> &x = a.e.x;
    const pool_tiles &tiles = a.tiles;
    map_walk walk = walk_map(a.e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    value_reader<Act, STEM> reader(x, walk.group, walk.channel);
    bool centred = a.e.mean && walk.channel < x.cp;
    float8 mean = centred ? load8(a.e.mean + walk.group * x.cp + walk.channel) : zero8();
    int width = a.e.cut.width, lanes = blockDim.x / width, lane = threadIdx.x / width;
    bool idle = lane >= lanes || walk.channel >= x.cp;
    window_taps<STEM> *taps = (window_taps<STEM> *)dynamic_shared() + threadIdx.x % width;
    int first_image = group_begin(a.e.cut.groups, walk.group);
    int all = (a.e.cut.groups.end[walk.group] - first_image) * tiles.tiles_y * tiles.tiles_x;
    for (int t = blockIdx.x; t < all; t += a.e.cut.slots) {
        pool_place at = find_tile(a, first_image, t);
        __syncthreads();
        if (!idle)
            search_windows(a, reader, at, lane, lanes, taps);
        __syncthreads();
        for (int i = idle ? tiles.h * tiles.w : lane; i < tiles.h * tiles.w; i += lanes) {
            int block_y = quotient(i, tiles.by_w), block_x = at.block_x + i - block_y * tiles.w;
            block_y += at.block_y;
            if (STEM) {
                finish_stem_block(a, reader, mean, at, block_y, block_x, taps, &sums);
            } else if (block_y < x.h && block_x < x.w) {
                float8 total;
                take_gradient(a, at, block_y, block_x, walk.channel, taps, &total);
                finish_backward8(a.e, walk, place_at(x, at.image, block_y, block_x), total, &sums);
            }
        }
    }
    finish_sums(a.e.partial, a.e.cut, sums);
}

enum { POOL_TILE_H = 16, POOL_TILE_W = 32 }; /* pixels */

static int windows_along(const rc_pool2d *pool, int pixels)
{
    return (pixels + pool->k - 2) / pool->stride + 1;
}

template <bool STEM> static size_t tap_bytes(const pool_tiles &tiles, int width)
{
    return (size_t)(tiles.windows_h * tiles.windows_w * width) * sizeof(window_taps<STEM>);
}

/* As many pixels as their windows have room in `most` bytes; false: not even one block. */
template <bool STEM>
static bool cut_pool(const rc_pool2d *pool, const rc_tensor *x, int width, size_t most, pool_tiles *tiles)
{
    const int block = pool_window<STEM>::block;
    *tiles = pool_tiles{POOL_TILE_H / block, POOL_TILE_W / block, 0, 0, 0, 0, 0, 0};
    for (;;) {
        tiles->windows_h = windows_along(pool, tiles->h * block);
        tiles->windows_w = windows_along(pool, tiles->w * block);
        if (tap_bytes<STEM>(*tiles, width) <= most)
            break;
        if (tiles->w == 1 && tiles->h == 1)
            return false;
        if (tiles->w > tiles->h)
            tiles->w /= 2;
        else
            tiles->h /= 2;
    }
    tiles->tiles_y = (x->h + tiles->h * block - 1) / (tiles->h * block);
    tiles->tiles_x = (x->w + tiles->w * block - 1) / (tiles->w * block);
    tiles->by_w = reciprocal(tiles->w);
    tiles->by_windows_w = reciprocal(tiles->windows_w);
    return true;
}

template <typename Act, bool STEM>
static void launch_max_backward(rc_backend *be, const rc_pool2d *pool, const rc_grad *dy, void *dx,
                                const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    pool_tiles tiles;
    /* What a kernel has without asking, beside the space of its sums. */
    size_t most = 48 * 1024 - MAP_THREADS * 16 * sizeof(typename sum_of<Act>::type);
    while (!cut_pool<STEM>(pool, epilogue->x, cut.width, most, &tiles) && cut.width > 1) {
        cut.width /= 2; /* fewer channels at a time */
        cut.tiles = (cut.cp / 8 + cut.width - 1) / cut.width;
    }
    pool_backward<Act, STEM> arguments = {pool_window<STEM>(*pool), view_grad<Act>(dy),
                                          view_back_epilogue<Act>(dx, epilogue, cut), tiles};
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_backward", max_backward_kernel<Act, STEM>, map_grid(cut),
                         MAP_THREADS, tap_bytes<STEM>(tiles, cut.width), arguments);
}

template <typename Act>
static void max_pool_backward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *epilogue)
{
    if (is_stem(pool, x) && !x->stored && dy->y->act == RC_ACT_NONE && !dy->a)
        launch_max_backward<Act, true>(be, pool, dy, dx, epilogue);
    else
        launch_max_backward<Act, false>(be, pool, dy, dx, epilogue);
}

/* ---- average ---------------------------------------------------------------------------------------------------- */

/* Block (image, tile of at most MAP_TILE vectors): features (n, c) = mean over (h, w) of value. */
template <typename Act> __global__ static void average_forward_kernel(tensor_view<Act> x, int width, float *features)
{
    begin_after_kernel_before();
    __shared__ float space[8][MAP_THREADS];
    int image = (int)blockIdx.x, lanes = MAP_THREADS / width, lane = (int)threadIdx.x / width;
    int channel = ((int)blockIdx.y * width + (int)threadIdx.x % width) * 8, pixels = x.h * x.w;
    float8 sum = zero8();
    for (int p = lane; p < pixels && lane < lanes && channel < x.cp; p += lanes) {
        float8 value = take_value8(x, place_of(x, image * pixels + p), channel);
        for (int i = 0; i < 8; i++)
            sum.v[i] += value.v[i];
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        space[i][threadIdx.x] = sum.v[i];
    for (int left = lanes; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        __syncthreads();
        if (lane + half < left)
#pragma unroll
            for (int i = 0; i < 8; i++)
                space[i][threadIdx.x] += space[i][threadIdx.x + half * width];
    }
    for (int i = 0; i < 8 && lane == 0; i++)
        if (channel + i < x.c)
            features[(size_t)image * x.c + channel + i] = space[i][threadIdx.x] / (float)pixels;
}

template <typename Act> static void average_pool_forward(rc_backend *be, rc_tensor *x, void *features)
{
    int vectors = rc_cuda_padded(x->c) / 8, width = vectors < MAP_TILE ? vectors : MAP_TILE;
    rc_cuda_launch_early(rc_cuda_of(be), "average_pool_forward", average_forward_kernel<Act>,
                         dim3((unsigned)x->n, (unsigned)((vectors + width - 1) / width)), MAP_THREADS, 0,
                         view_tensor<Act>(x), width, (float *)features);
    x->stored = x->stored || x->value;
}

template <typename Act>
__global__ static void average_backward_kernel(const float *dfeatures, float share, backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        const float *from = dfeatures + (size_t)(pixel / e.cut.image_pixels) * e.x.c + walk.channel;
        float8 d = zero8();
        for (int i = 0; i < 8; i++)
            if (walk.channel + i < e.x.c)
                d.v[i] = share * from[i];
        finish_backward8(e, walk, place_of(e.x, pixel), d, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void average_pool_backward(rc_backend *be, const void *dfeatures, void *dx, const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    float share = (float)(1 / ((double)epilogue->x->h * epilogue->x->w));
    rc_cuda_launch_early(rc_cuda_of(be), "average_pool_backward", average_backward_kernel<Act>, map_grid(cut),
                         MAP_THREADS, 0, (const float *)dfeatures, share, view_back_epilogue<Act>(dx, epilogue, cut));
}

template <typename Act> static void fill(rc_backend *table)
{
    table->max_pool_forward = max_pool_forward<Act>;
    table->max_pool_backward = max_pool_backward<Act>;
    table->average_pool_forward = average_pool_forward<Act>;
    table->average_pool_backward = average_pool_backward<Act>;
}

void rc_cuda_fill_pool(rc_cuda *cuda)
{
    if (cuda->bf16)
        fill<__nv_bfloat16>(&cuda->table);
    else
        fill<float>(&cuda->table);
}
