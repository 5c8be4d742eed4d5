/* The last part of a weight gradient: adds what the blocks of the first part have summed. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_REDUCE_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_REDUCE_H

#include "backend/cuda/convolution/conv_taps.h"

enum { RC_REDUCE_TERMS = 4 };

typedef struct reduce_arguments {
    const float *sums;            /* (layers, blocks, taps, co_padded, ci_padded) */
    float *dweight[RC_MAX_FUSED]; /* of each layer: (co, ci, k, k), or (ci, co, k, k) if transposed */
    int further;                  /* layers after the first, of the same shape; none where taps share positions */
    int blocks, taps, co_padded, ci_padded, co, ci, k;
    bool transposed;
    int terms;                                                        /* taps that share a position of the kernel */
    signed char term[RC_KERNEL_MAX * RC_KERNEL_MAX][RC_REDUCE_TERMS]; /* which */
} reduce_arguments;

/* Lists which taps, numbered through the phases of the result, share each position of the kernel; k has been set.
 * False: not of this form. */
bool rc_cuda_list_terms(const axis_taps *taps, reduce_arguments *arguments);

void rc_cuda_reduce_weight(rc_cuda *cuda, const reduce_arguments *arguments);

#endif
