/* Pooling. */
#include "backend/cuda/map.cuh"

/* ---- maximum ---------------------------------------------------------------------------------------------------- */

/* A window's maximum in eight channels, and which tap was the first to have it. */
struct maximum8 {
    float value[8];
    int tap[8];
};

/* NaN counts as a maximum, so that it is not lost. */
template <typename Act>
__device__ static maximum8 maximum_of(rc_pool2d pool, const tensor_view<Act> &x, int image, int oy, int ox, int channel)
{
    maximum8 best;
    for (int i = 0; i < 8; i++) {
        best.value[i] = 0;
        best.tap[i] = -1;
    }
    for (int tap = 0; tap < pool.k * pool.k; tap++) {
        int row = oy * pool.stride - pool.pad + tap / pool.k, column = ox * pool.stride - pool.pad + tap % pool.k;
        if (row < 0 || row >= x.h || column < 0 || column >= x.w)
            continue;
        float8 value = load_value8(x, place_at(x, image, row, column), channel);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            bool better = best.tap[i] < 0 || value.v[i] > best.value[i] ||
                          (isnan(value.v[i]) && !isnan(best.value[i]));
            best.value[i] = better ? value.v[i] : best.value[i];
            best.tap[i] = better ? tap : best.tap[i];
        }
    }
    return best;
}

template <typename Act>
__global__ static void max_forward_kernel(rc_pool2d pool, tensor_view<Act> x, tensor_view<Act> y, Act *raw, map_cut cut)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(cut);
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place at = place_of(y, pixel);
        maximum8 best = maximum_of(pool, x, at.image, at.y, at.x, walk.channel);
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

/* Over the input: a pixel looks at every window that it is in, and takes the gradient of those whose first maximum it
 * is. So nobody writes to the same place, and the order of the sum is fixed. */
template <typename Act>
__global__ static void max_backward_kernel(rc_pool2d pool, tensor_view<Act> x, grad_view<Act> dy,
                                           backward_epilogue<Act> e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        place at = place_of(x, pixel);
        float8 total = zero8();
        for (int tap = 0; tap < pool.k * pool.k; tap++) {
            int row = at.y + pool.pad - tap / pool.k, column = at.x + pool.pad - tap % pool.k;
            if (row < 0 || column < 0 || row % pool.stride != 0 || column % pool.stride != 0)
                continue;
            row /= pool.stride;
            column /= pool.stride;
            if (row >= dy.y.h || column >= dy.y.w)
                continue;
            maximum8 best = maximum_of(pool, x, at.image, row, column, walk.channel);
            float8 draw = load_draw8(dy, place_at(dy.y, at.image, row, column), walk.channel);
#pragma unroll
            for (int i = 0; i < 8; i++)
                total.v[i] += best.tap[i] == tap ? draw.v[i] : 0;
        }
        finish_backward8(e, walk, pixel, total, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

template <typename Act>
static void max_pool_backward(rc_backend *be, const rc_pool2d *pool, const rc_tensor *x, const rc_grad *dy, void *dx,
                              const rc_back_epilogue *epilogue)
{
    map_cut cut = cut_map(epilogue->x);
    rc_cuda_launch_early(rc_cuda_of(be), "max_pool_backward", max_backward_kernel<Act>, map_grid(cut), MAP_THREADS, 0,
                         *pool, view_tensor<Act>(x), view_grad<Act>(dy), view_back_epilogue<Act>(dx, epilogue, cut));
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
