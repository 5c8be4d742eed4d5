/* Arithmetic on sizes that the convolution's files share. */
#ifndef RC_BACKEND_CPU_FAST_INTS_H
#define RC_BACKEND_CPU_FAST_INTS_H

#include <stddef.h>

static inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

static inline int larger(int a, int b)
{
    return a > b ? a : b;
}

static inline int round_up(int a, int multiple)
{
    return (a + multiple - 1) / multiple * multiple;
}

/* Floats rounded up so that what follows begins on a cache line. */
static inline size_t line_floats(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

#endif
