/* dweight (c * h * w, c_in) = dL/draw (n, h * w * c)^T times the values (n, c_in): the generator's first layer writes
 * 32 MB of it and reads next to nothing, if blocks are large. dL/draw is a plain map (conv_plain.h) whose channels are
 * the fast index, where dweight has pixels: so rows trade places on their way out.
 *
 * A block has 128 x 128 elements, a warp 64 x 32 of them. Both operands lie in shared memory as (images, elements), in
 * slices of 64 images; the next one travels while one is multiplied. */
#include "backend/cuda/product/linear_weight.h"

#include "backend/cuda/convolution/conv_plain.h"

enum {
    SIDE = 128,            /* rows, and columns, of a block */
    DEPTH = 64,            /* images of a slice */
    PITCH = SIDE * 2 + 16, /* bytes of an image of a slice */
    SLICE = DEPTH * PITCH, /* bytes of one operand */
    THREADS = 256,
    WARP_ROWS = 64,
    WARP_COLUMNS = 32,
    SHARED_BYTES = 2 * 2 * SLICE
};

struct linear_weight_arguments {
    const bf16 *draws, *values; /* (n, rows), (n, stride) */
    float *dweight, *dbias;
    int n, rows, columns, stride;
    int c, pixels; /* rows = pixels x c */
};

/* Starts to copy a slice of a matrix (n, width), from element `first` on, with zeros for what it does not have. */
__device__ static void copy_slice(unsigned to, const bf16 *matrix, int n, int width, int first_image, int first)
{
    constexpr int VECTORS = SIDE / 8;
#pragma unroll
    for (int i = threadIdx.x; i < DEPTH * VECTORS; i += THREADS) {
        int image = first_image + i / VECTORS, element = first + i % VECTORS * 8;
        bool exists = image < n && element < width;
        copy16_async_part(to + i / VECTORS * PITCH + i % VECTORS * 16,
                          exists ? matrix + (size_t)image * width + element : matrix, exists ? 16 : 0);
    }
}

/* The place in dweight of a row of the product. */
__device__ static int place_of_row(const linear_weight_arguments &a, int row)
{
    int pixel = row / a.c;
    return (row - pixel * a.c) * a.pixels + pixel;
}

/* Grid: (tiles of columns, tiles of rows). */
__global__ static void __launch_bounds__(THREADS, 2)
    linear_weight_kernel(const __grid_constant__ linear_weight_arguments a)
{
    char *shared = dynamic_shared();
    unsigned address = shared_address(shared);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, slices = (a.n + DEPTH - 1) / DEPTH;
    int row = warp / (SIDE / WARP_COLUMNS) * WARP_ROWS, column = warp % (SIDE / WARP_COLUMNS) * WARP_COLUMNS;
    int first_row = blockIdx.y * SIDE, first_column = blockIdx.x * SIDE;
    bool sums_bias = a.dbias && blockIdx.x == 0 && threadIdx.x < SIDE;
    /* Rows of the transposed operands are images; of the left one the second matrix has the other eight rows. */
    unsigned left_place = (lane % 8 + lane / 16 * 8) * PITCH + row * 2 + lane / 8 % 2 * 16;
    unsigned right_place = SLICE + lane % 16 * PITCH + column * 2 + lane / 16 * 16;
    float sum[WARP_ROWS / 16][WARP_COLUMNS / 8][4] = {}, bias = 0;
    begin_after_kernel_before();
    copy_slice(address, a.draws, a.n, a.rows, 0, first_row);
    copy_slice(address + SLICE, a.values, a.n, a.stride, 0, first_column);
    close_copies();
    for (int slice = 0; slice < slices; slice++) {
        unsigned now = address + slice % 2 * 2 * SLICE, next = address + (slice + 1) % 2 * 2 * SLICE;
        if (slice + 1 < slices) {
            copy_slice(next, a.draws, a.n, a.rows, (slice + 1) * DEPTH, first_row);
            copy_slice(next + SLICE, a.values, a.n, a.stride, (slice + 1) * DEPTH, first_column);
        }
        close_copies();
        wait_for_older_copies<1>();
        __syncthreads();
#pragma unroll
        for (int first = 0; first < DEPTH; first += 16) {
            unsigned left[WARP_ROWS / 16][4], right[WARP_COLUMNS / 16][4];
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; i++)
                load_matrices_transposed(left[i], now + left_place + first * PITCH + i * 32);
#pragma unroll
            for (int j = 0; j < WARP_COLUMNS / 16; j++)
                load_matrices_transposed(right[j], now + right_place + first * PITCH + j * 32);
#pragma unroll
            for (int i = 0; i < WARP_ROWS / 16; i++)
#pragma unroll
                for (int j = 0; j < WARP_COLUMNS / 8; j++)
                    multiply_add(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
        }
        if (sums_bias) {
            const char *mine = shared + slice % 2 * 2 * SLICE + threadIdx.x * 2;
#pragma unroll 8
            for (int image = 0; image < DEPTH; image++)
                bias += to_float(*(const bf16 *)(mine + image * PITCH));
        }
        __syncthreads(); /* the slice has been used */
    }
    if (sums_bias && first_row + (int)threadIdx.x < a.rows)
        a.dbias[place_of_row(a, first_row + threadIdx.x)] = bias;
#pragma unroll
    for (int i = 0; i < 2 * (WARP_ROWS / 16); i++) {
        int from = first_row + row + i * 8 + lane / 4, to_column = first_column + column + lane % 4 * 2;
        if (from >= a.rows)
            break;
        float *to = a.dweight + (size_t)place_of_row(a, from) * a.columns + to_column;
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; j++)
            if (to_column + j * 8 < a.columns) /* which are even in number */
                *(float2 *)(to + j * 8) = make_float2(sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]);
    }
}

size_t rc_cuda_linear_weight_bytes(const rc_linear *linear, int n)
{
    return rc_cuda_plain_bytes(n, linear->h, linear->w, linear->c);
}

bool rc_cuda_linear_weight(rc_cuda *cuda, const rc_linear *linear, const bf16 *values, const rc_grad *dy,
                           float *dweight, float *dbias)
{
    static const char operation[] = "linear_backward_weight";
    gradient_source draws;
    int n = dy->y->n, pixels = linear->h * linear->w, rows = linear->c * pixels;
    bool whole = linear->c % 8 == 0 && linear->c_in % 2 == 0 && (uintptr_t)dweight % 8 == 0;
    if (!whole || SHARED_BYTES > cuda->shared_bytes || !view_source(dy, &draws))
        return false;
    bf16 *space = (bf16 *)rc_cuda_workspace(cuda, rc_cuda_linear_weight_bytes(linear, n), operation);
    if (!space)
        return true;
    linear_weight_arguments a = {rc_cuda_plain(cuda, operation, draws, dy->y, space),
                                 values,
                                 dweight,
                                 dbias,
                                 n,
                                 rows,
                                 linear->c_in,
                                 rc_cuda_padded(linear->c_in),
                                 linear->c,
                                 pixels};
    dim3 grid((unsigned)(linear->c_in + SIDE - 1) / SIDE, (unsigned)(rows + SIDE - 1) / SIDE);
    rc_cuda_check(cuda,
                  cudaFuncSetAttribute(linear_weight_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
                  operation);
    rc_cuda_launch_early(cuda, operation, linear_weight_kernel, grid, THREADS, SHARED_BYTES, a);
    return true;
}
