/* Finished maps for the convolutions of wide layers.
 *
 * Those read a map many times over, once for every 64 channels of the result and again where tiles overlap, so what is
 * pending is applied once before. */
#ifndef RC_BACKEND_CUDA_CONVOLUTION_CONV_PLAIN_H
#define RC_BACKEND_CUDA_CONVOLUTION_CONV_PLAIN_H

#include "backend/cuda/convolution/conv_tile.cuh"

size_t rc_cuda_plain_bytes(int n, int h, int w, int c);

/* The value of a lazy map, or dL/draw of a lazy gradient, as a plain map (n, h, w, cp) of the same shape as `shape`:
 * the memory that has it already, or that is to be filled, or `space`, which has rc_cuda_plain_bytes(). Enqueues the
 * kernel that writes it, if need be. */
const bf16 *rc_cuda_plain(rc_cuda *cuda, const char *operation, const value_source &source, const rc_tensor *shape,
                          bf16 *space);
const bf16 *rc_cuda_plain(rc_cuda *cuda, const char *operation, const gradient_source &source, const rc_tensor *shape,
                          bf16 *space);

/* Is the convolution held back whose raw x is, and can it write the value of x to a map as well? Then it does. What is
 * pending on x has been enqueued before, because nothing else has been since. */
bool rc_cuda_join_value(rc_cuda *cuda, const tensor_view<bf16> &x, bf16 *to);

/* Writes dL/draw to a map, which may be that of the gradient itself. */
void rc_cuda_write_draw(rc_cuda *cuda, const char *operation, const gradient_source &source, const rc_tensor *shape,
                        bf16 *to);

#endif
