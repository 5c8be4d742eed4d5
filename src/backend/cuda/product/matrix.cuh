/* Maps as plain matrices in the workspace, for layers that join every pixel with every channel: a product finds them
 * side by side there. A row is an image in PyTorch's order, channel by channel:
 *     matrix (n, c * h * w), column = (channel * h + y) * w + x */
#ifndef RC_BACKEND_CUDA_PRODUCT_MATRIX_CUH
#define RC_BACKEND_CUDA_PRODUCT_MATRIX_CUH

#include "backend/cuda/map/map.cuh"

/* ---- matrices from tensors -------------------------------------------------------------------------------------- */

/* The value of a tensor, stored where it has memory for it. */
template <typename Act> struct matrix_value {
    tensor_view<Act> x;

    __host__ __device__ const tensor_view<Act> &tensor() const
    {
        return x;
    }

    __device__ float8 take(place at, int channel) const
    {
        return take_value8(x, at, channel);
    }
};

/* dL/draw. */
template <typename Act> struct matrix_draw {
    grad_view<Act> dy;

    __host__ __device__ const tensor_view<Act> &tensor() const
    {
        return dy.y;
    }

    __device__ float8 take(place at, int channel) const
    {
        return load_draw8(dy, at, channel);
    }
};

enum { TURN_PIXELS = 32, TURN_VECTORS = 4, TURN_THREADS = TURN_PIXELS * TURN_VECTORS };

/* Of maps of one pixel: the channels of an image lie side by side as they are. */
template <typename Source> __global__ static void write_rows_kernel(Source source, float *matrix)
{
    begin_after_kernel_before();
    int cp = source.tensor().cp, c = source.tensor().c;
    int at = (int)(blockIdx.x * blockDim.x + threadIdx.x), vectors = cp / 8, image = at / vectors;
    int channel = at % vectors * 8;
    if (image >= source.tensor().n)
        return;
    float8 value = source.take(place_at(source.tensor(), image, 0, 0), channel);
    for (int i = 0; i < 8; i++)
        if (channel + i < c)
            matrix[(size_t)image * c + channel + i] = value.v[i];
}

/* Tiles of an image, by pixels and then by channels. */
__host__ __device__ inline int turn_rows(int pixels)
{
    return (pixels + TURN_PIXELS - 1) / TURN_PIXELS;
}

__host__ __device__ inline int turn_columns(int cp)
{
    return (cp / 8 + TURN_VECTORS - 1) / TURN_VECTORS;
}

/* A block turns a tile of 32 pixels by 32 channels of an image around in shared memory: it is read channel by channel
 * and written pixel by pixel. There may be more images than a grid can be high. */
template <typename Source> __global__ static void write_turned_kernel(Source source, float *matrix)
{
    begin_after_kernel_before();
    __shared__ float tile[TURN_VECTORS * 8][TURN_PIXELS + 1];
    int c = source.tensor().c, pixels = source.tensor().h * source.tensor().w;
    int rows = turn_rows(pixels), columns = turn_columns(source.tensor().cp), strip = (int)blockIdx.x / rows;
    int image = strip / columns, first_channel = strip % columns * TURN_VECTORS * 8;
    int first_pixel = (int)blockIdx.x % rows * TURN_PIXELS;
    int vector = (int)threadIdx.x % TURN_VECTORS, from = first_pixel + (int)threadIdx.x / TURN_VECTORS;
    int channel = first_channel + vector * 8;
    if (from < pixels && channel < source.tensor().cp) {
        float8 taken = source.take(place_of(source.tensor(), image * pixels + from), channel);
        for (int i = 0; i < 8; i++)
            tile[vector * 8 + i][threadIdx.x / TURN_VECTORS] = taken.v[i];
    }
    __syncthreads();
    int pixel = first_pixel + (int)threadIdx.x % TURN_PIXELS;
    for (int i = (int)threadIdx.x / TURN_PIXELS; i < TURN_VECTORS * 8; i += TURN_VECTORS)
        if (pixel < pixels && first_channel + i < c)
            matrix[((size_t)image * c + first_channel + i) * pixels + pixel] = tile[i][threadIdx.x % TURN_PIXELS];
}

template <typename Source>
static void write_matrix(rc_cuda *cuda, const char *operation, const Source &source, float *matrix)
{
    int vectors = source.tensor().cp / 8, pixels = source.tensor().h * source.tensor().w;
    if (pixels == 1) {
        unsigned threads = (unsigned)(source.tensor().n * vectors);
        rc_cuda_launch_early(cuda, operation, write_rows_kernel<Source>, dim3((threads + 127) / 128), 128, 0, source,
                             matrix);
        return;
    }
    dim3 grid((unsigned)turn_rows(pixels) * (unsigned)turn_columns(source.tensor().cp) * (unsigned)source.tensor().n);
    rc_cuda_launch_early(cuda, operation, write_turned_kernel<Source>, grid, TURN_THREADS, 0, source, matrix);
}

template <typename Act>
static void write_values(rc_cuda *cuda, const rc_tensor *x, float *matrix, const char *operation)
{
    matrix_value<Act> source = {view_tensor<Act>(x)};
    write_matrix(cuda, operation, source, matrix);
}

template <typename Act> static void write_draws(rc_cuda *cuda, const rc_grad *dy, float *matrix, const char *operation)
{
    matrix_draw<Act> source = {view_grad<Act>(dy)};
    write_matrix(cuda, operation, source, matrix);
}

/* ---- tensors from matrices -------------------------------------------------------------------------------------- */

template <typename Act> __device__ inline int channels_of(const forward_epilogue<Act> &e)
{
    return e.y.c;
}

template <typename Act> __device__ inline int channels_of(const backward_epilogue<Act> &e)
{
    return e.x.c;
}

template <typename Act, typename Sum>
__device__ inline void finish_map8(const forward_epilogue<Act> &e, const map_walk &walk, int pixel, float8 v,
                                   channel_sums<Sum> *sums)
{
    finish_forward8(e, walk, place_of(e.y, pixel), v, load_center8(e, walk.channel), sums);
}

template <typename Act, typename Sum>
__device__ inline void finish_map8(const backward_epilogue<Act> &e, const map_walk &walk, int pixel, float8 v,
                                   channel_sums<Sum> *sums)
{
    finish_backward8(e, walk, place_of(e.x, pixel), v, sums);
}

/* The matrix, with something added to each column unless `bias` is NULL, becomes what the epilogue asks for. */
template <typename Act, typename Epilogue>
__global__ static void read_matrix_kernel(const float *matrix, const float *bias, Epilogue e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int pixels = e.cut.image_pixels, c = channels_of(e);
    for (int pixel = walk.first; pixel < walk.end; pixel += walk.step) {
        float8 result = zero8();
        for (int i = 0; i < 8; i++) {
            int column = (walk.channel + i) * pixels + pixel % pixels;
            if (walk.channel + i < c)
                result.v[i] = matrix[(size_t)(pixel / pixels) * c * pixels + column] + (bias ? bias[column] : 0);
        }
        finish_map8(e, walk, pixel, result, &sums);
    }
    finish_sums(e.partial, e.cut, sums);
}

/* The same for slots of whole quads of pixels: they lie beside each other in the matrix, channels do not, so a thread
 * reads four pixels of each of its channels at once. */
template <typename Act, typename Epilogue>
__global__ static void read_matrix_quads_kernel(const float *matrix, const float *bias, Epilogue e)
{
    begin_after_kernel_before();
    map_walk walk = walk_map(e.cut);
    channel_sums<typename sum_of<Act>::type> sums = {};
    int pixels = e.cut.image_pixels, c = channels_of(e), lane = (int)threadIdx.x / e.cut.width;
    for (int pixel = walk.first + 3 * lane; pixel < walk.end; pixel += 4 * walk.step) {
        const float *from = matrix + (size_t)(pixel / pixels) * c * pixels;
        float4 quads[8], shifts[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int column = (walk.channel + i) * pixels + pixel % pixels;
            bool inside = walk.channel + i < c;
            quads[i] = inside ? *(const float4 *)(from + column) : make_float4(0, 0, 0, 0);
            shifts[i] = inside && bias ? *(const float4 *)(bias + column) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float8 result;
#pragma unroll
            for (int i = 0; i < 8; i++)
                result.v[i] = (&quads[i].x)[q] + (&shifts[i].x)[q];
            finish_map8(e, walk, pixel + q, result, &sums);
        }
    }
    finish_sums(e.partial, e.cut, sums);
}

static inline bool whole_quads(const map_cut &cut, const float *matrix, const float *bias)
{
    bool whole = cut.image_pixels % 4 == 0 && ((uintptr_t)matrix | (uintptr_t)bias) % 16 == 0;
    for (int g = 0; g < cut.groups.count; g++) {
        int group = (cut.groups.end[g] - group_begin(cut.groups, g)) * cut.image_pixels;
        whole = whole && (group + cut.slots - 1) / cut.slots % 4 == 0;
    }
    return whole;
}

template <typename Act, typename Epilogue>
static void read_matrix(rc_cuda *cuda, const char *operation, const float *matrix, const float *bias, const Epilogue &e)
{
    bool quads = whole_quads(e.cut, matrix, bias);
    rc_cuda_launch_early(cuda, operation,
                         quads ? read_matrix_quads_kernel<Act, Epilogue> : read_matrix_kernel<Act, Epilogue>,
                         map_grid(e.cut), MAP_THREADS, 0, matrix, bias, e);
}

template <typename Act>
static void read_result(rc_cuda *cuda, const char *operation, const float *matrix, const float *bias,
                        const rc_tensor *y, const rc_epilogue *epilogue)
{
    read_matrix<Act>(cuda, operation, matrix, bias, view_epilogue<Act>(y, epilogue, cut_map(y)));
}

template <typename Act>
static void read_derivative(rc_cuda *cuda, const char *operation, const float *matrix, void *dx,
                            const rc_back_epilogue *epilogue)
{
    read_matrix<Act>(cuda, operation, matrix, NULL, view_back_epilogue<Act>(dx, epilogue, cut_map(epilogue->x)));
}

#endif
