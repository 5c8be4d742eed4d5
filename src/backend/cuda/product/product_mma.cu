/* Matrix products on the tensor cores: float matrices are rounded to bf16 on their way into shared memory, sums are
 * float. A block of four warps makes a tile of 64 x 64, a warp 32 x 32 of it; while a slice of the depth is multiplied,
 * the next one is on its way into registers. */
#include "backend/cuda/product/product.h"
#include "backend/cuda/product/product_slice.cuh"

enum {
    TILE = 64,
    DEPTH = 32, /* of a slice */
    THREADS = 128,
    EACH = TILE * DEPTH / THREADS,
    STRIDE = DEPTH + 8 /* of a row in shared memory: the eight rows of a fragment lie in different banks */
};

struct slice {
    float v[EACH];
};

/* This thread's part of rows [first, first + TILE) and depths [first_k, first_k + DEPTH); neighbouring threads read
 * neighbouring addresses. */
template <bool K_FAST> struct layout {
    __device__ static int row(int e)
    {
        int index = (int)threadIdx.x + e * THREADS;
        return K_FAST ? index / DEPTH : index % TILE;
    }
    __device__ static int k(int e)
    {
        int index = (int)threadIdx.x + e * THREADS;
        return K_FAST ? index % DEPTH : index / TILE;
    }
};

template <bool K_FAST> __device__ static slice load_slice(rc_cuda_matrix m, int first, int rows, int first_k, int depth)
{
    slice s;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int row = first + layout<K_FAST>::row(e), k = first_k + layout<K_FAST>::k(e);
        s.v[e] = row < rows && k < depth ? m.data[(size_t)row * m.row + (size_t)k * m.column] : 0;
    }
    return s;
}

template <bool K_FAST> __device__ static void keep_slice(__nv_bfloat16 tile[TILE][STRIDE], const slice &s)
{
#pragma unroll
    for (int e = 0; e < EACH; e++)
        tile[layout<K_FAST>::row(e)][layout<K_FAST>::k(e)] = __float2bfloat16_rn(s.v[e]);
}

struct rounded_tile {
    const __nv_bfloat16 (*tile)[STRIDE];

    __device__ unsigned pair(int row, int k) const
    {
        return *(const unsigned *)&tile[row][k];
    }
};

template <bool A_K_FAST, bool B_K_FAST>
__global__ static void product_mma_kernel(int m, int n, int depth, rc_cuda_matrix a, rc_cuda_matrix b, float *c)
{
    begin_after_kernel_before();
    __shared__ __align__(16) __nv_bfloat16 tile_a[TILE][STRIDE], tile_b[TILE][STRIDE];
    int first_i = (int)blockIdx.y * TILE, first_j = (int)blockIdx.x * TILE, warp = (int)threadIdx.x / 32;
    int row = warp / 2 * 32, column = warp % 2 * 32;
    float sum[2][4][4] = {};
    slice next_a = load_slice<A_K_FAST>(a, first_i, m, 0, depth);
    slice next_b = load_slice<B_K_FAST>(b, first_j, n, 0, depth);
    for (int k = 0; k < depth; k += DEPTH) {
        __syncthreads();
        keep_slice<A_K_FAST>(tile_a, next_a);
        keep_slice<B_K_FAST>(tile_b, next_b);
        __syncthreads();
        next_a = load_slice<A_K_FAST>(a, first_i, m, k + DEPTH, depth);
        next_b = load_slice<B_K_FAST>(b, first_j, n, k + DEPTH, depth);
        multiply_slice<DEPTH>(sum, rounded_tile{tile_a}, rounded_tile{tile_b}, row, column);
    }
    store_slice(sum, first_i + row, first_j + column, [=](int y, int x, float first, float second) {
        if (y < m && x < n)
            c[(size_t)y * n + x] = first;
        if (y < m && x + 1 < n)
            c[(size_t)y * n + x + 1] = second;
    });
}

void rc_cuda_product_mma(rc_cuda *cuda, const char *operation, int m, int n, int depth, rc_cuda_matrix a,
                         rc_cuda_matrix b, float *c)
{
    void (*kernel)(int, int, int, rc_cuda_matrix, rc_cuda_matrix, float *);
    if (a.column == 1)
        kernel = b.column == 1 ? product_mma_kernel<true, true> : product_mma_kernel<true, false>;
    else
        kernel = b.column == 1 ? product_mma_kernel<false, true> : product_mma_kernel<false, false>;
    rc_cuda_launch_early(cuda, operation, kernel,
                         dim3((unsigned)(n + TILE - 1) / TILE, (unsigned)(m + TILE - 1) / TILE), THREADS, 0, m, n,
                         depth, a, b, c);
}
