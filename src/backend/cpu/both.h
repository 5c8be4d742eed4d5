/* Both gradients of a convolution at once, for each instruction set: NULL if the entries are not its own. */
#ifndef RC_BACKEND_CPU_BOTH_H
#define RC_BACKEND_CPU_BOTH_H

#include "backend/conv_both.h"

#if defined(__aarch64__)
rc_conv_both *rc_fast_conv_both_neon(const rc_backend *be);
#elif defined(__x86_64__)
rc_conv_both *rc_fast_conv_both_sse2(const rc_backend *be);
rc_conv_both *rc_fast_conv_both_avx2(const rc_backend *be);
rc_conv_both *rc_fast_conv_both_avx512(const rc_backend *be);
#endif

#endif
