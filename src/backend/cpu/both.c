#include "backend/cpu/both.h"

rc_conv_both *rc_conv_both_of(const rc_backend *be)
{
    rc_conv_both *both = NULL;
#if defined(__aarch64__)
    both = rc_fast_conv_both_neon(be);
#elif defined(__x86_64__)
    both = rc_fast_conv_both_sse2(be);
    if (!both)
        both = rc_fast_conv_both_avx2(be);
    if (!both)
        both = rc_fast_conv_both_avx512(be);
#else
    (void)be;
#endif
    return both;
}
