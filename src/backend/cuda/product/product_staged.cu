/* Large matrix products on the tensor cores: a generator's first layer multiplies (128, 1000) with (8192, 1000), which
 * is 32 MB of weights and little else. So slices of the depth travel to shared memory several ahead of the products, as
 * they are (float); threads round them to bf16 on the way to the operands. A team of eight warps makes a tile of
 * 128 x 64, a warp 32 x 32 of it. A block that is alone on its multiprocessor has two teams, which take turns with the
 * slices and add what they have in the end: so there is somebody to multiply while others wait. */
#include "backend/cuda/product/product.h"
#include "backend/cuda/product/product_slice.cuh"

enum {
    ROWS_A = 128,
    ROWS_B = 64,
    DEPTH = 32,   /* of a slice */
    THREADS = 256 /* of a team */
};

/* rc_cuda_matrix of any type. */
template <typename T> struct staged_matrix {
    const T *data;
    int row, column;
};

__device__ static unsigned load_pair(const float *at)
{
    float2 both = *(const float2 *)at;
    return pack_bf16(both.x, both.y);
}

__device__ static unsigned load_pair(const __nv_bfloat16 *at)
{
    return *(const unsigned *)at;
}

/* A slice of one matrix in shared memory: as (rows, depth) if the depth is the fast index in memory, otherwise as
 * (depth, rows). Either way a row is padded so that the threads of a warp find their operands in different banks; those
 * of bf16 are K_FAST. */
template <int ROWS, bool K_FAST, typename T> struct staged {
    typedef staged_matrix<T> matrix;
    static constexpr int STRIDE = K_FAST ? DEPTH + 8 : ROWS + 4;
    static constexpr int BYTES = (K_FAST ? ROWS : DEPTH) * STRIDE * (int)sizeof(T);
    static constexpr int VECTOR = 16 / (int)sizeof(T);
    static constexpr int VECTORS = (K_FAST ? DEPTH : ROWS) / VECTOR; /* of a row */

    __device__ static void copy(unsigned to, matrix m, int first, int rows, int first_k, int depth)
    {
#pragma unroll
        for (int i = (int)threadIdx.x % THREADS; i < ROWS * DEPTH / VECTOR; i += THREADS) {
            int slow = i / VECTORS, fast = i % VECTORS * VECTOR;
            int row = first + (K_FAST ? slow : fast), k = first_k + (K_FAST ? fast : slow);
            int left = K_FAST ? depth - k : rows - row; /* elements along the fast index */
            bool inside = K_FAST ? row < rows : k < depth;
            int elements = !inside || left < 0 ? 0 : left < VECTOR ? left : VECTOR;
            const T *from = elements ? m.data + (size_t)row * m.row + (size_t)k * m.column : m.data;
            copy16_async_part(to + (unsigned)((slow * STRIDE + fast) * (int)sizeof(T)), from,
                              elements * (int)sizeof(T));
        }
    }

    const T *tile;

    __device__ unsigned pair(int row, int k) const
    {
        if (K_FAST)
            return load_pair(tile + row * STRIDE + k);
        return pack_bf16(to_float(tile[k * STRIDE + row]), to_float(tile[(k + 1) * STRIDE + row]));
    }
};

/* The second team's sums to the first. */
__device__ static void add_teams(float sum[2][4][4], int team, float *space)
{
    float *mine = space + (int)threadIdx.x % THREADS;
    wait_for_copies();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32 && team == 1; i++)
        mine[i * THREADS] = sum[i / 16][i / 4 % 4][i % 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32 && team == 0; i++)
        sum[i / 16][i / 4 % 4][i % 4] += mine[i * THREADS];
}

/* STAGES slices of each team are on their way or in use at once: fewer if two blocks share a multiprocessor. */
template <int STAGES, int TEAMS, typename left_tile, typename right_tile>
__global__ static void __launch_bounds__(THREADS *TEAMS, 2 / TEAMS)
    staged_kernel(int m, int n, int depth, typename left_tile::matrix a, typename right_tile::matrix b, float *c)
{
    constexpr int STAGE = left_tile::BYTES + right_tile::BYTES;
    int team = TEAMS == 1 ? 0 : (int)threadIdx.x / THREADS, warp = (int)threadIdx.x % THREADS / 32;
    char *shared = dynamic_shared() + team * STAGES * STAGE;
    unsigned address = shared_address(shared);
    int first_i = (int)blockIdx.y * ROWS_A, first_j = (int)blockIdx.x * ROWS_B;
    int row = warp / 2 * 32, column = warp % 2 * 32, slices = (depth + DEPTH * TEAMS - 1) / (DEPTH * TEAMS);
    float sum[2][4][4] = {};
    begin_after_kernel_before();
    for (int slice = 0; slice < slices + STAGES - 1; slice++) { /* of a team */
        /* Slice `slice` sets out while slice - (STAGES - 1) is multiplied; the latter has arrived when at most
         * STAGES - 2 younger ones are still on their way. */
        int now = slice - (STAGES - 1);
        wait_for_older_copies<STAGES - 2>();
        __syncthreads();
        if (slice < slices) {
            unsigned to = address + (unsigned)(slice % STAGES * STAGE);
            int first_k = (slice * TEAMS + team) * DEPTH;
            left_tile::copy(to, a, first_i, m, first_k, depth);
            right_tile::copy(to + left_tile::BYTES, b, first_j, n, first_k, depth);
        }
        close_copies();
        if (now < 0)
            continue;
        const char *stage = shared + now % STAGES * STAGE;
        left_tile left = {(decltype(a.data))stage};
        right_tile right = {(decltype(b.data))(stage + left_tile::BYTES)};
        multiply_slice<DEPTH>(sum, left, right, row, column);
    }
    if (TEAMS == 2)
        add_teams(sum, team, (float *)dynamic_shared());
    if (team > 0)
        return;
    store_slice(sum, first_i + row, first_j + column, [=](int y, int x, float first, float second) {
        if (y < m && x < n) /* n is a multiple of 4 */
            *(float2 *)(c + (size_t)y * n + x) = make_float2(first, second);
    });
}

template <typename T> static bool aligned(staged_matrix<T> m)
{
    int stride = m.column == 1 ? m.row : m.column;
    return stride % (16 / (int)sizeof(T)) == 0 && (uintptr_t)m.data % 16 == 0;
}

template <int STAGES, int TEAMS, typename left_tile, typename right_tile>
static void launch_staged(rc_cuda *cuda, const char *operation, dim3 grid, int m, int n, int depth,
                          typename left_tile::matrix a, typename right_tile::matrix b, float *c)
{
    constexpr int BYTES = TEAMS * STAGES * (left_tile::BYTES + right_tile::BYTES);
    void (*kernel)(int, int, int, typename left_tile::matrix, typename right_tile::matrix,
                   float *) = staged_kernel<STAGES, TEAMS, left_tile, right_tile>;
    rc_cuda_check(cuda, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES), operation);
    rc_cuda_launch_early(cuda, operation, kernel, grid, THREADS * TEAMS, BYTES, m, n, depth, a, b, c);
}

/* All the shared memory where a multiprocessor has one block, half where it has two. False: nothing is enqueued. */
template <typename left_tile, typename right_tile>
static bool product(rc_cuda *cuda, const char *operation, int m, int n, int depth, typename left_tile::matrix a,
                    typename right_tile::matrix b, float *c)
{
    enum { STAGE_BYTES = left_tile::BYTES + right_tile::BYTES, FEW = 3, MANY = 200 * 1024 / (2 * STAGE_BYTES) };
    if (!aligned(a) || !aligned(b) || n % 4 != 0 || (uintptr_t)c % 16 != 0 || FEW * STAGE_BYTES > cuda->shared_bytes)
        return false;
    dim3 grid((unsigned)(n + ROWS_B - 1) / ROWS_B, (unsigned)(m + ROWS_A - 1) / ROWS_A);
    bool alone = (int)(grid.x * grid.y) <= cuda->multiprocessors && 2 * MANY * STAGE_BYTES <= cuda->shared_bytes;
    if (alone)
        launch_staged<MANY, 2, left_tile, right_tile>(cuda, operation, grid, m, n, depth, a, b, c);
    else
        launch_staged<FEW, 1, left_tile, right_tile>(cuda, operation, grid, m, n, depth, a, b, c);
    return true;
}

template <typename left_tile>
static bool product_with(rc_cuda *cuda, const char *operation, int m, int n, int depth, typename left_tile::matrix a,
                         rc_cuda_matrix b, float *c)
{
    staged_matrix<float> right = {b.data, b.row, b.column};
    if (b.column == 1)
        return product<left_tile, staged<ROWS_B, true, float>>(cuda, operation, m, n, depth, a, right, c);
    return product<left_tile, staged<ROWS_B, false, float>>(cuda, operation, m, n, depth, a, right, c);
}

bool rc_cuda_product_staged(rc_cuda *cuda, const char *operation, int m, int n, int depth, rc_cuda_matrix a,
                            rc_cuda_matrix b, float *c)
{
    staged_matrix<float> left = {a.data, a.row, a.column};
    if (a.column == 1)
        return product_with<staged<ROWS_A, true, float>>(cuda, operation, m, n, depth, left, b, c);
    return product_with<staged<ROWS_A, false, float>>(cuda, operation, m, n, depth, left, b, c);
}

bool rc_cuda_product_rounded(rc_cuda *cuda, const char *operation, int m, int n, int depth, const void *a, int a_stride,
                             rc_cuda_matrix b, float *c)
{
    staged_matrix<__nv_bfloat16> left = {(const __nv_bfloat16 *)a, a_stride, 1};
    return product_with<staged<ROWS_A, true, __nv_bfloat16>>(cuda, operation, m, n, depth, left, b, c);
}
