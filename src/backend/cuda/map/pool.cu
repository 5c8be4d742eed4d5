/* Pooling. */
#include "backend/cuda/map/map.cuh"
#include "backend/cuda/product/mma.cuh"

/* ---- maximum ---------------------------------------------------------------------------------------------------- */

/* The windows of a pool. Along an axis, `reach` windows from `first` on reach a pixel, which is tap(pixel, r) of the
 * window first + r.
 * STEM, here and below, is the pool of a ResNet's stem, of which the compiler knows it all: 3 x 3 pixels at stride 2 in
 * a border of 1, over max(0, raw * scale + shift), or in forward over what is finished. */
template <bool STEM> struct pool_window {
    int k, stride, pad;

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
    enum { k = 3, stride = 2, pad = 1 };

    explicit pool_window(rc_pool2d)
    {
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

/* The taps of a stem's window that won, four bits for each of eight channels, in the order of channels 0, 2, 4, 6, 1,
 * 3, 5, 7: beside each other lie the lower halves of words, then the upper ones. */
__device__ static inline int tap_shift(int c)
{
    return c % 2 * 16 + c / 2 * 4;
}

static const unsigned NO_TAPS = 0xffffffffu;

enum {
    STEM_BLOCKS = 2, /* of a multiprocessor, and */
    STEM_SLOTS = 264 /* as many as 132 of them have: rounds of blocks end together */
};

template <bool RECTIFIED, typename Act, bool STEM>
__global__ static void __launch_bounds__(MAP_THREADS, STEM ? 4 : 2)
    max_forward_kernel(pool_window<STEM> pool, tensor_view<Act> x, tensor_view<Act> y, Act *raw, unsigned *taps,
                       map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    value_reader<Act, STEM> reader(x, walk.group, walk.channel);
    for (place at = place_of(y, walk.first); at.pixel < walk.end; at = place_after(y, at, walk.step)) {
        maximum8 best = maximum_of<RECTIFIED>(pool, reader, at.image, at.y, at.x);
        size_t to = offset8(y, at.pixel, walk.channel);
        store8(raw + to, best.value);
        if (!taps)
            continue;
        unsigned found = 0;
#pragma unroll
        for (int c = 0; c < 8; c++)
            found |= (unsigned)best.tap[c] << tap_shift(c);
        taps[to / 8] = found;
    }
}

/* Two bf16 in a word. */
__device__ static inline __nv_bfloat162 pair_of(unsigned word)
{
    return *(const __nv_bfloat162 *)&word;
}

__device__ static inline unsigned word_of(__nv_bfloat162 pair)
{
    return *(const unsigned *)&pair;
}

/* A stem's windows in bf16, two channels at a time. raw * scale + shift grows with raw, or falls, where scale is below
 * 0: the greatest raw, times the sign of scale, is searched, and only that is scaled. Among taps that rounding makes
 * equal after that the greatest wins, not the first. */
struct stem_search {
    unsigned sign[4];
    float8 scale, shift; /* of raw times sign */

    __device__ explicit stem_search(const value_reader<__nv_bfloat16, true> &x) : scale(x.scale), shift(x.shift)
    {
        float8 by;
#pragma unroll
        for (int c = 0; c < 8; c++) {
            by.v[c] = scale.v[c] > 0 ? 1 : scale.v[c] < 0 ? -1 : 0;
            scale.v[c] = fabsf(scale.v[c]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            sign[i] = pack_bf16(by.v[2 * i], by.v[2 * i + 1]);
    }
};

/* RECTIFIED: as maximum_of; otherwise over what is finished, and no taps. */
template <bool RECTIFIED>
__device__ static inline void search_stem(const stem_search &by, const tensor_view<__nv_bfloat16> &x,
                                          const __nv_bfloat16 *from, const place &at, __nv_bfloat16 *to, unsigned *tap)
{
    typedef pool_window<true> window;
    int top = at.y * window::stride - window::pad, left = at.x * window::stride - window::pad;
    unsigned best[4], found[4], first = 0;
#pragma unroll
    for (int y = 0; y < window::k; y++) {
        int row = within(top + y, x.h);
        const __nv_bfloat16 *line = from + (size_t)((at.image * x.h + row) * x.w) * (size_t)x.cp;
#pragma unroll
        for (int i = 0; i < window::k; i++) {
            int column = within(left + i, x.w);
            unsigned number = (unsigned)((row - top) * window::k + column - left) * 0x10001u;
            uint4 bits = *(const uint4 *)(line + column * x.cp);
            unsigned word[4] = {bits.x, bits.y, bits.z, bits.w};
            first = y + i == 0 ? number : first;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                __nv_bfloat162 last = pair_of(y + i == 0 ? 0xff80ff80u : best[k]); /* -infinity */
                if (RECTIFIED) {
                    __nv_bfloat162 next = __hmul2(pair_of(word[k]), pair_of(by.sign[k]));
                    unsigned better = __hgt2_mask(next, last);
                    best[k] = word_of(__hmax2(next, last));
                    found[k] = y + i == 0 ? number : (found[k] & ~better) | (number & better);
                } else {
                    best[k] = word_of(__hmax2_nan(pair_of(word[k]), last));
                }
            }
        }
    }
    if (!RECTIFIED) {
        *(uint4 *)to = make_uint4(best[0], best[1], best[2], best[3]);
        return;
    }
    float8 value;
    unsigned taps = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float low = __uint_as_float(best[k] << 16) * by.scale.v[2 * k] + by.shift.v[2 * k];
        float high = __uint_as_float(best[k] & 0xffff0000u) * by.scale.v[2 * k + 1] + by.shift.v[2 * k + 1];
        unsigned positive = (low > 0 ? 0xffffu : 0) | (high > 0 ? 0xffff0000u : 0);
        value.v[2 * k] = fmaxf(low, 0);
        value.v[2 * k + 1] = fmaxf(high, 0);
        taps |= ((found[k] & positive) | (first & ~positive)) << k * 4; /* all are 0: the first has it */
    }
    store8(to, value);
    if (tap)
        *tap = taps;
}

template <bool RECTIFIED>
__global__ static void __launch_bounds__(MAP_THREADS, 3)
    stem_forward_kernel(tensor_view<__nv_bfloat16> x, tensor_view<__nv_bfloat16> y, __nv_bfloat16 *raw, unsigned *taps,
                        map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    stem_search by(value_reader<__nv_bfloat16, true>(x, walk.group, walk.channel));
    const __nv_bfloat16 *from = (x.stored ? x.stored : x.raw) + walk.channel;
    for (place at = place_of(y, walk.first); at.pixel < walk.end; at = place_after(y, at, walk.step)) {
        size_t to = offset8(y, at.pixel, walk.channel);
        search_stem<RECTIFIED>(by, x, from, at, raw + to, taps ? taps + to / 8 : NULL);
    }
}

template <bool STEM, typename Act>
static void launch_max_forward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_tensor *y)
{
    map_cut cut = cut_map(y);
    bool kept = is_stem(pool, x);
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_forward", max_forward_kernel<STEM, Act, STEM>, map_grid(cut),
                         MAP_THREADS, 0, pool_window<STEM>(*pool), view_tensor<Act>(x), view_tensor<Act>(y),
                         (Act *)y->raw, kept ? (unsigned *)y->taps : NULL, cut);
}

static void launch_stem_forward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_tensor *y)
{
    map_cut cut = cut_map(y);
    bool rectified = is_stem(pool, x);
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_forward",
                         rectified ? stem_forward_kernel<true> : stem_forward_kernel<false>, map_grid(cut), MAP_THREADS,
                         0, view_tensor<__nv_bfloat16>(x), view_tensor<__nv_bfloat16>(y), (__nv_bfloat16 *)y->raw,
                         rectified ? (unsigned *)y->taps : NULL, cut);
}

template <typename Act> static void max_pool_forward(rc_backend *be, const rc_pool2d *pool, rc_tensor *x, rc_tensor *y)
{
    if (x->value && !x->stored) /* windows overlap: one thread per value must store it */
        be->materialise(be, x);
    bool rectified = is_stem(pool, x);
    if (rc_cuda_of(be)->bf16 && has_stem_windows(pool) && (rectified || is_finished(x)))
        launch_stem_forward(be, pool, x, y);
    else if (rectified)
        launch_max_forward<true, Act>(be, pool, x, y);
    else
        launch_max_forward<false, Act>(be, pool, x, y);
}

/* Backward: a tile of the input at a time. First every window that reaches into it is searched once, for the tap that
 * receives its gradient; then a pixel takes the gradient of those windows whose tap it is. So nobody writes to the same
 * place, and the order of the sum is fixed. */
struct pool_tiles {
    int h, w;                    /* pixels of a tile */
    int windows_h, windows_w;    /* windows that reach into it, at most */
    int tiles_y, tiles_x;        /* of an image */
    unsigned by_w, by_windows_w; /* reciprocals */
};

template <typename Act> struct pool_backward {
    pool_window<false> pool;
    grad_view<Act> dy;
    backward_epilogue<Act> e;
    pool_tiles tiles;
};

/* Where a tile lies: its first pixel, and the first window that reaches into it. */
struct pool_place {
    int image, y, x, first_y, first_x;
};

template <typename Act>
__device__ static inline pool_place find_tile(const pool_backward<Act> &a, int first_image, int t)
{
    int row = t / a.tiles.tiles_x, image = row / a.tiles.tiles_y;
    int y = row % a.tiles.tiles_y * a.tiles.h, x = t % a.tiles.tiles_x * a.tiles.w;
    pool_place at = {first_image + image, y, x, a.pool.first(y), a.pool.first(x)};
    return at;
}

/* The taps of eight channels of a window. */
struct window_taps {
    enum { NONE = 0xffff };
    unsigned short tap[8];
};

/* Windows lane, lane + lanes, ... of a tile; `taps` is (windows_h, windows_w, width) from this thread's vector on. */
template <typename Act>
__device__ static inline void search_windows(const pool_backward<Act> &a, const value_reader<Act, false> &x,
                                             const pool_place &at, int lane, int lanes, window_taps *taps)
{
    for (int i = lane; i < a.tiles.windows_h * a.tiles.windows_w; i += lanes) {
        int row = quotient(i, a.tiles.by_windows_w), column = at.first_x + i - row * a.tiles.windows_w;
        row += at.first_y;
        maximum8 best = {};
        bool exists = row < a.dy.y.h && column < a.dy.y.w;
        if (exists)
            best = maximum_of<false>(a.pool, x, at.image, row, column);
        for (int c = 0; c < 8; c++)
            taps[i * a.e.cut.width].tap[c] = (unsigned short)(exists ? best.tap[c] : window_taps::NONE);
    }
}

/* What the windows of a tile give to a pixel: from the bottom to the top, from right to left. */
template <typename Act>
__device__ static inline float8 take_gradient(const pool_backward<Act> &a, const pool_place &at, int y, int x,
                                              int channel, const window_taps *taps)
{
    const pool_window<false> &pool = a.pool;
    const tensor_view<Act> &from = a.dy.y;
    float8 total = zero8();
    for (int r = pool.reach(y) - 1; r >= 0; r--)
        for (int s = pool.reach(x) - 1; s >= 0; s--) {
            int row = pool.first(y) + r, column = pool.first(x) + s, tap = pool.tap(y, r) * pool.k + pool.tap(x, s);
            int window = (row - at.first_y) * a.tiles.windows_w + column - at.first_x;
            window_taps found = taps[window * a.e.cut.width];
            /* Outside: none is found. */
            float8 draw = load_draw8(a.dy, place_at(from, at.image, within(row, from.h), within(column, from.w)),
                                     channel);
#pragma unroll
            for (int c = 0; c < 8; c++)
                if (found.tap[c] == tap)
                    total.v[c] += draw.v[c];
        }
    return total;
}

template <typename Act>
__global__ static void __launch_bounds__(MAP_THREADS, 2) max_backward_kernel(pool_backward<Act> a)
{
    begin_after_kernel_before();
    const tensor_view<Act> &x = a.e.x;
    const pool_tiles &tiles = a.tiles;
    map_walk walk = walk_map(a.e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    value_reader<Act, false> reader(x, walk.group, walk.channel);
    int width = a.e.cut.width, lanes = blockDim.x / width, lane = threadIdx.x / width;
    bool idle = lane >= lanes || walk.channel >= x.cp;
    window_taps *taps = (window_taps *)dynamic_shared() + threadIdx.x % width;
    int first_image = group_begin(a.e.cut.groups, walk.group);
    int all = (a.e.cut.groups.end[walk.group] - first_image) * tiles.tiles_y * tiles.tiles_x;
    for (int t = blockIdx.x; t < all; t += a.e.cut.slots) {
        pool_place at = find_tile(a, first_image, t);
        __syncthreads();
        if (!idle)
            search_windows(a, reader, at, lane, lanes, taps);
        __syncthreads();
        for (int i = idle ? tiles.h * tiles.w : lane; i < tiles.h * tiles.w; i += lanes) {
            int row = quotient(i, tiles.by_w), pixel_x = at.x + i - row * tiles.w, pixel_y = at.y + row;
            if (pixel_y < x.h && pixel_x < x.w)
                finish_backward8(a.e, walk, place_at(x, at.image, pixel_y, pixel_x),
                                 take_gradient(a, at, pixel_y, pixel_x, walk.channel, taps), &sums);
        }
    }
    finish_sums(a.e.partial, a.e.cut, sums);
}

enum { POOL_TILE_H = 16, POOL_TILE_W = 32 }; /* pixels */

static int windows_along(const rc_pool2d *pool, int pixels)
{
    return (pixels + pool->k - 2) / pool->stride + 1;
}

static size_t tap_bytes(const pool_tiles &tiles, int width)
{
    return (size_t)(tiles.windows_h * tiles.windows_w * width) * sizeof(window_taps);
}

/* As many pixels as their windows have room in `most` bytes; false: not even one. */
static bool cut_pool(const rc_pool2d *pool, const rc_tensor *x, int width, size_t most, pool_tiles *tiles)
{
    *tiles = pool_tiles{POOL_TILE_H, POOL_TILE_W, 0, 0, 0, 0, 0, 0};
    for (;;) {
        tiles->windows_h = windows_along(pool, tiles->h);
        tiles->windows_w = windows_along(pool, tiles->w);
        if (tap_bytes(*tiles, width) <= most)
            break;
        if (tiles->w == 1 && tiles->h == 1)
            return false;
        if (tiles->w > tiles->h)
            tiles->w /= 2;
        else
            tiles->h /= 2;
    }
    tiles->tiles_y = (x->h + tiles->h - 1) / tiles->h;
    tiles->tiles_x = (x->w + tiles->w - 1) / tiles->w;
    tiles->by_w = reciprocal(tiles->w);
    tiles->by_windows_w = reciprocal(tiles->windows_w);
    return true;
}

template <typename Act>
static void launch_max_backward(rc_backend *be, const rc_pool2d *pool, const rc_grad *dy, void *dx,
                                const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    pool_tiles tiles;
    /* What a kernel has without asking, beside the space of its sums. */
    size_t most = 48 * 1024 - MAP_THREADS * 16 * sizeof(typename sum_of<Act>::type);
    while (!cut_pool(pool, epilogue->x, cut.width, most, &tiles) && cut.width > 1) {
        cut.width /= 2; /* fewer channels at a time */
        cut.tiles = (cut.cp / 8 + cut.width - 1) / cut.width;
    }
    pool_backward<Act> arguments = {pool_window<false>(*pool), view_grad<Act>(dy),
                                    view_back_epilogue<Act>(dx, epilogue, cut), tiles};
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_backward", max_backward_kernel<Act>, map_grid(cut), MAP_THREADS,
                         tap_bytes(tiles, cut.width), arguments);
}

/* ---- a stem's maximum, backward ---------------------------------------------------------------------------------
 * Where forward has kept the taps, nothing is searched. A thread walks over windows: the one at (y, x) belongs to the
 * pixels (2 y, 2 x) to (2 y + 1, 2 x + 1), which that window and the next ones below and to the right reach. */
template <typename Act> struct stem_backward {
    tensor_view<Act> y; /* dL/draw of it is g */
    const Act *g;
    const unsigned *taps;
    backward_epilogue<Act> e; /* its cut is that of y */
};

/* Eight channels as they lie in memory, and as numbers. */
__device__ static inline float8 fetch8(const float *from)
{
    return load8(from);
}

__device__ static inline uint4 fetch8(const __nv_bfloat16 *from)
{
    return *(const uint4 *)from;
}

__device__ static inline float8 floats_of(const float8 &fetched)
{
    return fetched;
}

__device__ static inline float8 floats_of(const uint4 &fetched)
{
    return load8((const __nv_bfloat16 *)&fetched);
}

/* Stores dL/dvalue of a pixel and adds dz and dz * (raw - mean), where the value was above 0. */
template <typename Act, typename Sum>
__device__ static inline void finish_stem8(const backward_epilogue<Act> &e, const value_reader<Act, true> &x,
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

/* The four pixels of a window: everything is loaded before the first is stored. Sums go from the bottom to the top,
 * from right to left. */
template <typename Act, typename Sum>
__device__ static inline void finish_stem_window(const stem_backward<Act> &a, const value_reader<Act, true> &x,
                                                 const float8 &mean, const place &at, channel_sums<Sum> *sums)
{
    typedef pool_window<true> window;
    const tensor_view<Act> &to = a.e.x;
    decltype(fetch8(a.g)) g[4], raw[4];
    unsigned found[4];
    int row = at.y * 2, column = at.x * 2;
    bool below = at.y + 1 < a.y.h, right = at.x + 1 < a.y.w;
    bool more_rows = row + 1 < to.h, more_columns = column + 1 < to.w;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int from = at.pixel + (i / 2 && below ? a.y.w : 0) + (i % 2 && right ? 1 : 0);
        size_t place = offset8(a.y, from, x.channel);
        g[i] = fetch8(a.g + place);
        found[i] = (i / 2 && !below) || (i % 2 && !right) ? NO_TAPS : a.taps[place / 8];
    }
    size_t first = offset8(to, (at.image * to.h + row) * to.w + column, x.channel);
    int next_row = more_rows ? to.w * to.cp : 0, next_column = more_columns ? to.cp : 0;
#pragma unroll
    for (int p = 0; p < 4; p++)
        raw[p] = fetch8(to.raw + first + p / 2 * next_row + p % 2 * next_column);
#pragma unroll
    for (int p = 0; p < 4; p++) {
        float8 total = zero8();
#pragma unroll
        for (int i = 3; i >= 0; i--) {
            int tap_y = window::pad + p / 2 - i / 2 * window::stride;
            int tap_x = window::pad + p % 2 - i % 2 * window::stride;
            if (tap_y < 0 || tap_x < 0)
                continue;
            float8 draw = floats_of(g[i]);
#pragma unroll
            for (int c = 0; c < 8; c++)
                if (((found[i] >> tap_shift(c)) & 15) == (unsigned)(tap_y * window::k + tap_x))
                    total.v[c] += draw.v[c];
        }
        if ((p / 2 && !more_rows) || (p % 2 && !more_columns))
            continue;
        size_t offset = first + p / 2 * next_row + p % 2 * next_column;
        if (a.e.addend) {
            float8 before = load8(a.e.addend + offset);
#pragma unroll
            for (int c = 0; c < 8; c++)
                total.v[c] += before.v[c];
        }
        finish_stem8(a.e, x, mean, offset, floats_of(raw[p]), total, sums);
    }
}

template <typename Act>
__global__ static void __launch_bounds__(MAP_THREADS, sizeof(Act) == 2 ? STEM_BLOCKS : 1)
    stem_backward_kernel(stem_backward<Act> a)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(a.e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    value_reader<Act, true> reader(a.e.x, walk.group, walk.channel);
    bool centred = a.e.mean && walk.channel < a.e.x.cp;
    float8 mean = centred ? load8(a.e.mean + walk.group * a.e.x.cp + walk.channel) : zero8();
    for (place at = place_of(a.y, walk.first); at.pixel < walk.end; at = place_after(a.y, at, walk.step))
        finish_stem_window(a, reader, mean, at, &sums);
    finish_sums(a.e.partial, a.e.cut, sums);
}

template <typename Act>
static void launch_stem_backward(rc_backend *be, const rc_grad *dy, void *dx, const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(dy->y);
    cut.slots = cut.slots < STEM_SLOTS ? cut.slots : STEM_SLOTS;
    stem_backward<Act> arguments = {view_tensor<Act>(dy->y), (const Act *)dy->g, (const unsigned *)dy->y->taps,
                                    view_back_epilogue<Act>(dx, epilogue, cut)};
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_backward", stem_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         arguments);
}

template <typename Act>
static void max_pool_backward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *epilogue)
{
    if (dy->y->taps && is_stem(pool, x) && !x->stored && dy->y->act == RC_ACT_NONE && !dy->a)
        launch_stem_backward<Act>(be, dy, dx, epilogue);
    else
        launch_max_backward<Act>(be, pool, dy, dx, epilogue);
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
