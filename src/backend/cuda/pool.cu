/* Pooling. */
#include "backend/cuda/map.cuh"
#include "backend/cuda/mma.cuh"

/* ---- maximum ---------------------------------------------------------------------------------------------------- */

/* Reads the value of a lazy map, eight channels that stay the same: what is pending for them is read once. */
template <typename Act> struct value_reader {
    tensor_view<Act> x;
    int channel;
    bool plain; /* nothing is pending but scale, shift and a piecewise linear activation */
    float8 scale, shift;
    float below;

    __device__ value_reader(const tensor_view<Act> &view, int group, int first_channel)
        : x(view), channel(first_channel), plain(false), scale(), shift(), below(1)
    {
        if (channel >= x.cp)
            return;
        bool linear = x.act == RC_ACT_NONE || slope_by_sign(x.act);
        plain = x.stored || (!x.skip && linear);
        below = x.stored || x.act == RC_ACT_NONE ? 1.0f : x.act == RC_ACT_RELU ? 0.0f : 0.2f;
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
        if (!plain)
            return load_value8(x, at, channel);
        float8 z = load8((x.stored ? x.stored : x.raw) + offset8(x, at.pixel, channel));
#pragma unroll
        for (int i = 0; i < 8; i++) {
            z.v[i] = z.v[i] * scale.v[i] + shift.v[i];
            z.v[i] = z.v[i] > 0 ? z.v[i] : below == 0 ? 0 : below * z.v[i];
        }
        return z;
    }
};

/* A window's maximum in eight channels, and which tap was the first to have it. */
struct maximum8 {
    float value[8];
    short tap[8];
};

/* NaN counts as a maximum, so that it is not lost. */
template <typename Act>
__device__ static maximum8 maximum_of(rc_pool2d pool, const value_reader<Act> &x, int image, int oy, int ox)
{
    maximum8 best;
    for (int i = 0; i < 8; i++) {
        best.value[i] = 0;
        best.tap[i] = -1;
    }
    for (int y = 0; y < pool.k; y++) {
        int row = oy * pool.stride - pool.pad + y;
        if (row < 0 || row >= x.x.h)
            continue;
#pragma unroll 3
        for (int i = 0; i < pool.k; i++) {
            int column = ox * pool.stride - pool.pad + i, tap = y * pool.k + i;
            if (column < 0 || column >= x.x.w)
                continue;
            float8 value = x.read(image, row, column);
#pragma unroll
            for (int c = 0; c < 8; c++) {
                bool better = best.tap[c] < 0 || !(value.v[c] <= best.value[c]);
                better = better && !isnan(best.value[c]);
                best.value[c] = better ? value.v[c] : best.value[c];
                best.tap[c] = better ? (short)tap : best.tap[c];
            }
        }
    }
    return best;
}

template <typename Act>
__global__ static void __launch_bounds__(MAP_THREADS, 3)
    max_forward_kernel(rc_pool2d pool, tensor_view<Act> x, tensor_view<Act> y, Act *raw, map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    value_reader<Act> reader(x, walk.group, walk.channel);
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place at = place_of(y, pixel);
        maximum8 best = maximum_of(pool, reader, at.image, at.y, at.x);
        float8 value;
        for (int i = 0; i < 8; i++)
            value.v[i] = walk.channel + i < y.c ? best.value[i] : 0;
        store8(raw + offset8(y, pixel, walk.channel), value);
    }
}

template <typename Act> static void max_pool_forward(rc_backend *be, const rc_pool2d *pool, rc_tensor *x, rc_tensor *y)
{
    if (x->value && !x->stored) /* windows overlap: one thread per value must store it */
        be->materialise(be, x);
    map_cut cut = cut_map(y);
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_forward", max_forward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         *pool, view_tensor<Act>(x), view_tensor<Act>(y), (Act *)y->raw, cut);
}

/* Backward: a tile of the input at a time. First every window that reaches into it is searched once, for its gradient
 * and for the tap that receives it; then a pixel takes the gradient of those windows whose tap it is. So nobody writes
 * to the same place, and the order of the sum is fixed. */
struct window_gradient {
    float8 draw;
    short tap[8];
};

struct pool_tiles {
    int h, w;                  /* pixels of a tile */
    int windows_h, windows_w;  /* windows that reach into it, at most */
    int tiles_y, tiles_x;      /* of an image */
};

/* The first window that reaches to pixel `at` along an axis. */
__device__ static inline int first_window(rc_pool2d pool, int at)
{
    int last_before = at + pool.pad - pool.k;
    return last_before < 0 ? 0 : last_before / pool.stride + 1;
}

template <typename Act>
__device__ static void search_windows(rc_pool2d pool, const value_reader<Act> &x, const grad_view<Act> &dy,
                                      const pool_tiles &tiles, int image, int first_y, int first_x, int width,
                                      window_gradient *windows)
{
    int lanes = blockDim.x / width, lane = threadIdx.x / width;
    for (int i = lane; i < tiles.windows_h * tiles.windows_w && lane < lanes && x.channel < x.x.cp; i += lanes) {
        int row = first_y + i / tiles.windows_w, column = first_x + i % tiles.windows_w;
        if (row >= dy.y.h || column >= dy.y.w)
            continue;
        maximum8 best = maximum_of(pool, x, image, row, column);
        window_gradient *to = &windows[i * width + threadIdx.x % width];
        to->draw = load_draw8(dy, place_at(dy.y, image, row, column), x.channel);
        for (int c = 0; c < 8; c++)
            to->tap[c] = best.tap[c];
    }
}

/* What the windows of a tile give to one pixel. */
__device__ static inline float8 take_gradient(rc_pool2d pool, const pool_tiles &tiles, int out_h, int out_w, int y,
                                              int x, int first_y, int first_x, const window_gradient *windows,
                                              int width)
{
    float8 total = zero8();
    int end_y = (y + pool.pad) / pool.stride, end_x = (x + pool.pad) / pool.stride;
    end_y = end_y < out_h ? end_y : out_h - 1;
    end_x = end_x < out_w ? end_x : out_w - 1;
    for (int row = end_y; row >= first_window(pool, y); row--)
        for (int column = end_x; column >= first_window(pool, x); column--) {
            int tap = (y + pool.pad - row * pool.stride) * pool.k + x + pool.pad - column * pool.stride;
            const window_gradient &from =
                windows[((row - first_y) * tiles.windows_w + column - first_x) * width + threadIdx.x % width];
#pragma unroll
            for (int c = 0; c < 8; c++)
                total.v[c] += from.tap[c] == tap ? from.draw.v[c] : 0;
        }
    return total;
}

/* finish_backward8 for a reader that has read what is pending. */
template <typename Act, typename Sum>
__device__ static inline void finish_pooled8(const backward_epilogue<Act> &e, const map_walk &walk,
                                             const value_reader<Act> &x, const float8 &mean, int pixel, float8 result,
                                             channel_sums<Sum> *sums)
{
    if (!x.plain || x.x.stored) {
        finish_backward8(e, walk, pixel, result, sums);
        return;
    }
    size_t at = offset8(e.x, pixel, walk.channel);
    float8 raw = e.partial ? load8(e.x.raw + at) : zero8(), before = e.addend ? load8(e.addend + at) : zero8();
#pragma unroll
    for (int i = 0; i < 8; i++)
        result.v[i] = walk.channel + i < e.x.c ? rounded(e.dx, result.v[i] + before.v[i]) : 0;
    store8(e.dx + at, result);
    if (!e.partial)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        Sum dz = raw.v[i] * x.scale.v[i] + x.shift.v[i] > 0 ? result.v[i] : x.below * result.v[i];
        sums->first[i] += dz;
        sums->second[i] += dz * ((Sum)raw.v[i] - (Sum)mean.v[i]);
    }
}

template <typename Act>
__global__ static void __launch_bounds__(MAP_THREADS, 2)
    max_backward_kernel(rc_pool2d pool, tensor_view<Act> x, grad_view<Act> dy, backward_epilogue<Act> e,
                        pool_tiles tiles)
{
    window_gradient *windows = (window_gradient *)dynamic_shared();
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    value_reader<Act> reader(x, walk.group, walk.channel);
    bool centred = e.mean && walk.channel < e.cut.cp;
    float8 mean = centred ? load8(e.mean + walk.group * e.x.cp + walk.channel) : zero8();
    int width = e.cut.width, lanes = blockDim.x / width, lane = threadIdx.x / width;
    int first_image = group_begin(e.cut.groups, walk.group), image_tiles = tiles.tiles_y * tiles.tiles_x;
    int all = (e.cut.groups.end[walk.group] - first_image) * image_tiles;
    for (int t = blockIdx.x; t < all; t += e.cut.slots) {
        int image = first_image + t / image_tiles, tile = t % image_tiles;
        int top = tile / tiles.tiles_x * tiles.h, left = tile % tiles.tiles_x * tiles.w;
        int first_y = first_window(pool, top), first_x = first_window(pool, left);
        __syncthreads();
        search_windows(pool, reader, dy, tiles, image, first_y, first_x, width, windows);
        __syncthreads();
        for (int i = lane; i < tiles.h * tiles.w && lane < lanes && walk.channel < e.cut.cp; i += lanes) {
            int row = top + i / tiles.w, column = left + i % tiles.w;
            if (row >= x.h || column >= x.w)
                continue;
            float8 total = take_gradient(pool, tiles, dy.y.h, dy.y.w, row, column, first_y, first_x, windows, width);
            finish_pooled8(e, walk, reader, mean, (image * x.h + row) * x.w + column, total, &sums);
        }
    }
    finish_sums(e.partial, e.cut, sums);
}

enum { POOL_TILE_H = 8, POOL_TILE_W = 32 };

static int windows_along(const rc_pool2d *pool, int pixels)
{
    return (pixels + pool->k - 2) / pool->stride + 1;
}

/* As many pixels as their windows have room in `most` bytes; false: not even one. */
static bool cut_pool(const rc_pool2d *pool, const rc_tensor *x, int width, size_t most, pool_tiles *tiles)
{
    *tiles = pool_tiles{POOL_TILE_H, POOL_TILE_W, 0, 0, 0, 0};
    for (;;) {
        tiles->windows_h = windows_along(pool, tiles->h);
        tiles->windows_w = windows_along(pool, tiles->w);
        if ((size_t)(tiles->windows_h * tiles->windows_w * width) * sizeof(window_gradient) <= most)
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
    return true;
}

template <typename Act>
static void max_pool_backward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    pool_tiles tiles;
    /* What a kernel has without asking, beside the space of its sums. */
    size_t most = 48 * 1024 - MAP_THREADS * 16 * sizeof(typename sum_of<Act>::type);
    while (!cut_pool(pool, x, cut.width, most, &tiles) && cut.width > 1) { /* of fewer channels at a time */
        cut.width /= 2;
        cut.tiles = (cut.cp / 8 + cut.width - 1) / cut.width;
    }
    size_t shared = (size_t)(tiles.windows_h * tiles.windows_w * cut.width) * sizeof(window_gradient);
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_backward", max_backward_kernel<Act>, map_grid(cut), MAP_THREADS,
                         shared, *pool, view_tensor<Act>(x), view_grad<Act>(dy),
                         view_back_epilogue<Act>(dx, epilogue, cut), tiles);
}

/* ---- average ---------------------------------------------------------------------------------------------------- */

/* Block (image, tile of at most MAP_TILE vectors): features (n, c) = mean over (h, w) of value. */
template <typename Act>
__global__ static void average_forward_kernel(tensor_view<Act> x, int width, float *features)
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
        finish_backward8(e, walk, pixel, d, &sums);
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
