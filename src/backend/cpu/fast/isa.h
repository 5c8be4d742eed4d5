/* Kernel files are compiled once per instruction set with GCC's vector extensions, no intrinsics: RC_ISA names the
 * set, and every function is static but the ones that fill the table, whose names carry it. */
#ifndef RC_BACKEND_CPU_FAST_ISA_H
#define RC_BACKEND_CPU_FAST_ISA_H

#include "backend/cpu/cpu.h"

#ifndef RC_ISA
#error "compiled once per instruction set with RC_ISA=neon, sse2, avx2 or avx512"
#endif

#define RC_PASTE_(a, b) a##b
#define RC_PASTE(a, b)  RC_PASTE_(a, b)
#define RC_FAST(name)   RC_PASTE(rc_fast_##name##_, RC_ISA)

#if defined(__AVX512F__)
#define RC_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define RC_VECTOR_BYTES 32
#else
#define RC_VECTOR_BYTES 16
#endif
enum { RC_LANES = RC_VECTOR_BYTES / 4 };

typedef float vec __attribute__((vector_size(RC_VECTOR_BYTES)));
typedef int32_t veci __attribute__((vector_size(RC_VECTOR_BYTES)));
/* The same, for loads and stores at any address. */
typedef float vec_unaligned __attribute__((vector_size(RC_VECTOR_BYTES), aligned(4), may_alias));

#define RC_INLINE static inline __attribute__((always_inline))

RC_INLINE vec vec_load(const float *p)
{
    return *(const vec_unaligned *)p;
}

RC_INLINE void vec_store(float *p, vec v)
{
    *(vec_unaligned *)p = v;
}

RC_INLINE vec vec_set(float x)
{
    return x - (vec){0};
}

void RC_FAST(fill_conv)(rc_backend *table); /* convolution, linear layers */
void RC_FAST(fill_depthwise)(rc_backend *table);
void RC_FAST(fill_norm)(rc_backend *table); /* normalisation, skips */
void RC_FAST(fill_statistics)(rc_backend *table);
void RC_FAST(fill_pool)(rc_backend *table);
void RC_FAST(fill_dense)(rc_backend *table);  /* heads and projections */
void RC_FAST(fill_losses)(rc_backend *table); /* those that take time: RKD, DCE, image priors */
void RC_FAST(fill_data)(rc_backend *table);   /* augmentation, random numbers */
void RC_FAST(fill_optimiser)(rc_backend *table);
void RC_FAST(fill_peak)(rc_backend *table); /* not a table entry: what the machine can do at best */

#endif
