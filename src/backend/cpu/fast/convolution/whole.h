/* Convolutions as large as their map: one output for each image, a linear layer over all of its pixels.
 *
 * Pixel by pixel such a layer would read all of its weights for every image, and nearly every tap of its data gradient
 * would fall beside the map. It is a product of matrices instead, over the maps in the order of the weights,
 * (n, c_in * h * w). */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_WHOLE_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_WHOLE_H

#include "backend/cpu/fast/convolution/conv.h"

bool RC_FAST(whole_fits)(const rc_conv *conv);

workspace RC_FAST(whole_workspace)(const rc_conv *conv, int n);
void RC_FAST(whole_forward)(rc_cpu *cpu, const rc_conv *conv, rc_tensor *x, const float *weight, const float *bias,
                            rc_tensor *y, const rc_epilogue *epilogue);
void RC_FAST(whole_backward_data)(rc_cpu *cpu, const rc_conv *conv, const rc_grad *dy, const float *weight, float *dx,
                                  const rc_back_epilogue *epilogue);
void RC_FAST(whole_backward_weight)(rc_cpu *cpu, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                    float *dweight, float *dbias);

#endif
