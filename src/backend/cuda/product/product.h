/* Products of plain matrices in device memory, in the precision of the backend: bf16 on the tensor cores with sums in
 * float, or float throughout. */
#ifndef RC_BACKEND_CUDA_PRODUCT_PRODUCT_H
#define RC_BACKEND_CUDA_PRODUCT_PRODUCT_H

#include "backend/cuda/cuda.h"

/* Element (i, k) is data[i * row + k * column]; one of the two strides is 1. */
typedef struct rc_cuda_matrix {
    const float *data;
    int row, column;
} rc_cuda_matrix;

/* c (m, n) = a (m, depth) b (n, depth)^T */
void rc_cuda_product(rc_cuda *cuda, const char *operation, int m, int n, int depth, rc_cuda_matrix a, rc_cuda_matrix b,
                     float *c);

/* The same on the tensor cores, for matrices whose rows begin at multiples of 16 bytes (product_staged.cu); false:
 * these do not. */
bool rc_cuda_product_staged(rc_cuda *cuda, const char *operation, int m, int n, int depth, rc_cuda_matrix a,
                            rc_cuda_matrix b, float *c);

/* The same with a (m, depth) in bf16, rows a_stride elements apart. */
bool rc_cuda_product_rounded(rc_cuda *cuda, const char *operation, int m, int n, int depth, const void *a, int a_stride,
                             rc_cuda_matrix b, float *c);

/* For all others (product_mma.cu). */
void rc_cuda_product_mma(rc_cuda *cuda, const char *operation, int m, int n, int depth, rc_cuda_matrix a,
                         rc_cuda_matrix b, float *c);

#endif
