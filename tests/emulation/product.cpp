/* In place of backend/cuda/product_mma.cu: what the tensor cores compute. */
#include <cuda_bf16.h>

#include "backend/cuda/product.h"

static float rounded_at(rc_cuda_matrix m, int i, int k)
{
    return __bfloat162float(__float2bfloat16_rn(m.data[(size_t)i * m.row + (size_t)k * m.column]));
}

void rc_cuda_product_mma(rc_cuda *, const char *, int m, int n, int depth, rc_cuda_matrix a, rc_cuda_matrix b, float *c)
{
    rc_emulated_enqueue([=]() {
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float sum = 0;
                for (int k = 0; k < depth; k++)
                    sum += rounded_at(a, i, k) * rounded_at(b, j, k);
                c[(size_t)i * n + j] = sum;
            }
    });
}
