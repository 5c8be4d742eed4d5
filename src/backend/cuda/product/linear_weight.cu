/* dweight (c * h * w, c_in) = dL/draw (n, h * w * c)^T times the values (n, c_in): the generator's first layer writes
 * 32 MB of it and reads next to nothing, if blocks are large. dL/draw is a plain map (conv_plain.h) whose channels are
 * the fast index, where dweight has pixels: so rows trade places on their way out.
 *
 * A block has 128 x 128 elements, a warp 64 x 32 of them. Both operands lie in shared memory as (images, elements), in
 * slices of 64 images; the next one travels while one is multiplied.
 *
 * Adam moves seven times as much memory as this writes, so the launch is held back until it is known whether Adam is
 * next. Then a block updates the weights of its elements, which go through shared memory so that a warp has 512 bytes
 * of a row. */
#include "backend/cuda/product/linear_weight.h"

#include "backend/cuda/convolution/conv_plain.h"
#include "backend/cuda/optimiser.cuh"

enum {
    SIDE = 128,            /* rows, and columns, of a block */
    DEPTH = 64,            /* images of a slice */
    PITCH = SIDE * 2 + 16, /* bytes of an image of a slice */
    SLICE = DEPTH * PITCH, /* bytes of one operand */
    THREADS = 256,
    WARP_ROWS = 64,
    WARP_COLUMNS = 32,
    SHARED_BYTES = 2 * 2 * SLICE,
    TILE_PITCH = SIDE + 8, /* floats of a row of elements that are updated */
    ROWS_AT_ONCE = 4       /* that a warp updates */
};
static_assert(SIDE * TILE_PITCH * (int)sizeof(float) <= SHARED_BYTES, "the elements lie where the operands did");
static_assert(SIDE == 32 * 4, "a row is a vector for each lane");

struct linear_weight_arguments {
    const bf16 *draws, *values; /* (n, rows), (n, stride) */
    float *dweight, *dbias;
    int n, rows, columns, stride;
    int c, pixels;    /* rows = pixels x c */
    linear_adam adam; /* from dweight on; not in every kernel */
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

/* What Adam will read of a block's elements comes to L2 while they are computed: every second row, for L2 has no room
 * for all blocks' rows. */
__device__ static void prefetch_state(const linear_weight_arguments &a, int first_row, int first_column)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    int row = first_row + 2 * (int)threadIdx.x, columns = a.columns - first_column;
    if (threadIdx.x >= SIDE / 2 || row >= a.rows)
        return;
    size_t at = (size_t)place_of_row(a, row) * a.columns + first_column;
    unsigned bytes = (unsigned)(columns < SIDE ? columns : SIDE) * (unsigned)sizeof(float);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(a.adam.param + at), "r"(bytes));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(a.adam.first + at), "r"(bytes));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(a.adam.second + at), "r"(bytes));
#else
    (void)a, (void)first_row, (void)first_column;
#endif
}

/* A warp takes a row at a time, `tile` having the gradient. */
__device__ static void update_tile(const linear_weight_arguments &a, const adam_rule &rule, const float *tile,
                                   int first_row, int first_column)
{
    int warp = threadIdx.x / 32, column = threadIdx.x % 32 * 4;
    if (first_column + column >= a.columns)
        return;
#pragma unroll 1
    for (int first = warp; first < SIDE; first += ROWS_AT_ONCE * (THREADS / 32)) {
        float4 p[ROWS_AT_ONCE], m[ROWS_AT_ONCE], v[ROWS_AT_ONCE];
        size_t at[ROWS_AT_ONCE];
#pragma unroll
        for (int u = 0; u < ROWS_AT_ONCE; u++) {
            int row = first_row + first + u * (THREADS / 32);
            at[u] = (size_t)place_of_row(a, row < a.rows ? row : a.rows - 1) * a.columns + first_column + column;
            p[u] = *(const float4 *)(a.adam.param + at[u]);
            m[u] = *(const float4 *)(a.adam.first + at[u]);
            v[u] = *(const float4 *)(a.adam.second + at[u]);
        }
#pragma unroll
        for (int u = 0; u < ROWS_AT_ONCE; u++) {
            int row = first + u * (THREADS / 32);
            float4 g = *(const float4 *)(tile + row * TILE_PITCH + column);
            rule(g.x, &p[u].x, &m[u].x, &v[u].x);
            rule(g.y, &p[u].y, &m[u].y, &v[u].y);
            rule(g.z, &p[u].z, &m[u].z, &v[u].z);
            rule(g.w, &p[u].w, &m[u].w, &v[u].w);
            if (first_row + row >= a.rows)
                return;
            *(float4 *)(a.dweight + at[u]) = g;
            *(float4 *)(a.adam.first + at[u]) = m[u];
            *(float4 *)(a.adam.second + at[u]) = v[u];
            *(float4 *)(a.adam.param + at[u]) = p[u];
        }
    }
}

/* Grid: (tiles of columns, tiles of rows). */
template <bool ADAM>
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
    if (ADAM)
        prefetch_state(a, first_row, first_column);
    begin_after_kernel_before();
    copy_slice(address, a.draws, a.n, a.rows, 0, first_row);
    copy_slice(address + SLICE, a.values, a.n, a.stride, 0, first_column);
    close_copies();
    adam_rule rule = {};
    if (ADAM)
        rule = rule_of_step(a.adam.adam, a.adam.step);
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
    for (int i = 0; i < 2 * (WARP_ROWS / 16) && ADAM; i++) {
        float *to = (float *)shared + (row + i * 8 + lane / 4) * TILE_PITCH + column + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; j++)
            *(float2 *)(to + j * 8) = make_float2(sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]);
    }
    if (ADAM) {
        __syncthreads(); /* all elements are there */
        update_tile(a, rule, (const float *)shared, first_row, first_column);
        return;
    }
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

template <bool ADAM> static void launch(rc_cuda *cuda)
{
    static const char operation[] = "linear_backward_weight";
    static_assert(sizeof(linear_weight_arguments) <= sizeof cuda->held.arguments, "no room for the arguments");
    const linear_weight_arguments a = *(const linear_weight_arguments *)cuda->held.arguments;
    dim3 grid((unsigned)(a.columns + SIDE - 1) / SIDE, (unsigned)(a.rows + SIDE - 1) / SIDE);
    rc_cuda_check(cuda,
                  cudaFuncSetAttribute(linear_weight_kernel<ADAM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       SHARED_BYTES),
                  operation);
    rc_cuda_launch_early(cuda, operation, linear_weight_kernel<ADAM>, grid, THREADS, SHARED_BYTES, a);
}

static void launch_held(rc_cuda *cuda)
{
    launch<false>(cuda);
    rc_cuda_join_late(cuda);
}

size_t rc_cuda_linear_adam(rc_cuda *cuda, const linear_adam &all, size_t count, size_t *begin)
{
    linear_weight_arguments *a = (linear_weight_arguments *)cuda->held.arguments;
    if (cuda->deferred != launch_held || a->columns % 4 != 0)
        return 0;
    size_t reals = (size_t)a->rows * a->columns, at = (size_t)(a->dweight - all.grad);
    bool inside = a->dweight >= all.grad && at <= count && reals <= count - at;
    a->adam = {all.adam, all.step, all.param + at, a->dweight, all.first + at, all.second + at};
    uintptr_t places = (uintptr_t)a->dweight | (uintptr_t)a->adam.param | (uintptr_t)a->adam.first |
                       (uintptr_t)a->adam.second;
    if (!inside || places % 16 != 0)
        return 0;
    cuda->deferred = NULL;
    launch<true>(cuda);
    rc_cuda_join_late(cuda);
    *begin = at;
    return at + reals;
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
                                 pixels,
                                 linear_adam()};
    rc_cuda_enqueue_deferred(cuda);
    *(linear_weight_arguments *)cuda->held.arguments = a;
    cuda->held.partial = NULL;
    if (cuda->lane != 0) {
        launch<false>(cuda);
        return true;
    }
    cuda->deferred = launch_held;
    cuda->joins_late = true;
    return true;
}
