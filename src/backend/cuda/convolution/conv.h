/* Convolutions: which kernels there are, and who takes a shape.
 *
 * conv.cu asks the kinds in order; the first that takes the call does it. A kind decides by shape, precision and card
 * alone, never by time, so that the same call always goes the same way. The last one, `direct`, takes everything. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_H

#include "backend/cuda/cuda.h"

/* Each function enqueues the whole operation and returns true, or returns false and has enqueued nothing. Meaning and
 * arguments are those of the table (backend/backend.h). x of forward may have memory for its value that is not filled
 * yet (x->value && !x->stored): forward fills it as it reads (tensor_view::fill), or calls materialise before. */
typedef struct rc_cuda_conv_kind {
    const char *name;
    /* Bytes of workspace (per lane) for the three operations on n images; 0 if the shape is not taken. */
    size_t (*workspace)(const rc_cuda *cuda, const rc_conv *conv, int n);
    bool (*forward)(rc_cuda *cuda, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                    rc_tensor *y, const rc_epilogue *epilogue);
    bool (*backward_data)(rc_cuda *cuda, const rc_conv *conv, const rc_grad *dy, const float *weight, void *dx,
                          const rc_back_epilogue *epilogue);
    bool (*backward_weight)(rc_cuda *cuda, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy, float *dweight,
                            float *dbias);
} rc_cuda_conv_kind;

extern const rc_cuda_conv_kind rc_cuda_conv_whole;  /* kernels as large as the map */
extern const rc_cuda_conv_kind rc_cuda_conv_mma;    /* bf16 on the tensor cores, the shapes that nets are made of */
extern const rc_cuda_conv_kind rc_cuda_conv_tiled;  /* fp32 products in tiles, kernels and strides that nets have */
extern const rc_cuda_conv_kind rc_cuda_conv_direct; /* any shape, one thread per pixel and eight channels */

/* Sums of dL/draw over all pixels: the gradient of the bias, for any kind (conv_direct.cu). */
size_t rc_cuda_bias_bytes(int channels); /* of workspace that it needs */
void rc_cuda_bias_gradient(rc_cuda *cuda, const rc_grad *dy, float *dbias);

#endif
