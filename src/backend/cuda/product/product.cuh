/* Matrix products in float of small and middling size: C (m, n) = sum over k of A (m, k) B (n, k).
 *
 * What A and B are, and what becomes of an element of C, is said by three small functions, so that one kernel serves
 * dense layers, linear layers and losses, forward and backward:
 *     float a(int i, int k), float b(int j, int k), void store(int i, int j, float sum)
 * A source with `by_row` set lies in memory with its rows side by side (k is the slow index), which decides who loads
 * what. A block makes a tile of (16 R, 16 R), a thread R x R of it, in slices of the depth: while one is multiplied,
 * the next is on its way into registers. Sums run over k in order. */
#ifndef RC_BACKEND_CUDA_PRODUCT_PRODUCT_CUH
#define RC_BACKEND_CUDA_PRODUCT_PRODUCT_CUH

#include "backend/cuda/device.cuh"

enum { PRODUCT_THREADS = 256 };

/* Where thread `threadIdx.x` has its e-th element of a slice: neighbours in memory belong to neighbouring threads. */
template <int R, typename Source> struct product_slice {
    static constexpr int ROWS = 16 * R;
    static constexpr int DEPTH = R == 1 ? 64 : 16; /* few threads wait for memory less often if slices are deep */
    static constexpr int EACH = ROWS * DEPTH / PRODUCT_THREADS;
    typedef float tile[DEPTH][ROWS + 1];

    float v[EACH];

    __device__ static int k_of(int e)
    {
        int index = (int)threadIdx.x + e * PRODUCT_THREADS;
        return Source::by_row ? index / ROWS : index % DEPTH;
    }

    __device__ static int row_of(int e)
    {
        int index = (int)threadIdx.x + e * PRODUCT_THREADS;
        return Source::by_row ? index % ROWS : index / DEPTH;
    }

    __device__ void load(const Source &source, int first, int rows, int first_k, int depth)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int row = first + row_of(e), k = first_k + k_of(e);
            v[e] = row < rows && k < depth ? source(row, k) : 0;
        }
    }

    __device__ void keep(tile to) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            to[k_of(e)][row_of(e)] = v[e];
    }
};

template <int R, typename A, typename B, typename Store>
__global__ static void product_kernel(int m, int n, int depth, A a, B b, Store store)
{
    typedef product_slice<R, A> slice_a;
    typedef product_slice<R, B> slice_b;
    enum { DEPTH = slice_a::DEPTH };
    begin_after_kernel_before();
    __shared__ typename slice_a::tile tile_a;
    __shared__ typename slice_b::tile tile_b;
    int first_i = (int)blockIdx.y * 16 * R, first_j = (int)blockIdx.x * 16 * R;
    int y = (int)threadIdx.x / 16, x = (int)threadIdx.x % 16;
    float sum[R][R] = {};
    slice_a next_a;
    slice_b next_b;
    next_a.load(a, first_i, m, 0, depth);
    next_b.load(b, first_j, n, 0, depth);
    for (int first_k = 0; first_k < depth; first_k += DEPTH) {
        __syncthreads();
        next_a.keep(tile_a);
        next_b.keep(tile_b);
        __syncthreads();
        if (first_k + DEPTH < depth) {
            next_a.load(a, first_i, m, first_k + DEPTH, depth);
            next_b.load(b, first_j, n, first_k + DEPTH, depth);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++)
                    sum[i][j] += tile_a[k][y + 16 * i] * tile_b[k][x + 16 * j];
    }
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++)
            if (first_i + y + 16 * i < m && first_j + x + 16 * j < n)
                store(first_i + y + 16 * i, first_j + x + 16 * j, sum[i][j]);
}

template <typename A, typename B, typename Store>
static void launch_product(rc_cuda *cuda, const char *operation, int m, int n, int depth, A a, B b, Store store)
{
    long tiles = (long)((m + 63) / 64) * ((n + 63) / 64);
    if (tiles >= 64) /* enough for most of a card: larger tiles read less */
        rc_cuda_launch_early(cuda, operation, product_kernel<4, A, B, Store>,
                             dim3((unsigned)(n + 63) / 64, (unsigned)(m + 63) / 64), PRODUCT_THREADS, 0, m, n, depth, a,
                             b, store);
    else
        rc_cuda_launch_early(cuda, operation, product_kernel<1, A, B, Store>,
                             dim3((unsigned)(n + 15) / 16, (unsigned)(m + 15) / 16), PRODUCT_THREADS, 0, m, n, depth, a,
                             b, store);
}

/* ---- sources and stores over plain reals ------------------------------------------------------------------------ */

/* A(i, k) = data[i * stride + k]. */
struct row_source {
    static const bool by_row = false;
    const float *data;
    int stride;
    __device__ float operator()(int i, int k) const
    {
        return data[(size_t)i * stride + k];
    }
};

/* A(i, k) = data[k * stride + i]. */
struct column_source {
    static const bool by_row = true;
    const float *data;
    int stride;
    __device__ float operator()(int i, int k) const
    {
        return data[(size_t)k * stride + i];
    }
};

/* C[i * stride + j] = scale * sum + bias[j], or added. */
struct real_store {
    float *to;
    int stride;
    const float *bias; /* NULL: 0 */
    bool add;
    __device__ void operator()(int i, int j, float sum) const
    {
        float *at = to + (size_t)i * stride + j;
        sum += bias ? bias[j] : 0;
        *at = add ? *at + sum : sum;
    }
};

#endif
