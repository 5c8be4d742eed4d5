/* The reference: plain C, one loop per index, meant to be read beside the formula. Compiled for float and double;
 * every function is static but the ones that fill the table, whose names carry the type. */
#ifndef RC_BACKEND_CPU_REFERENCE_H
#define RC_BACKEND_CPU_REFERENCE_H

#include "backend/cpu/cpu.h"

#ifndef RC_REAL
#error "compiled once with RC_REAL=float and once with RC_REAL=double"
#endif

typedef RC_REAL real;

#if RC_REAL_IS_DOUBLE
#define RC_REFERENCE(name) rc_reference_##name##_double
#else
#define RC_REFERENCE(name) rc_reference_##name##_float
#endif

void RC_REFERENCE(fill_memory)(rc_backend *table);
void RC_REFERENCE(fill_conv)(rc_backend *table);
void RC_REFERENCE(fill_depthwise)(rc_backend *table);
void RC_REFERENCE(fill_norm)(rc_backend *table);
void RC_REFERENCE(fill_pool)(rc_backend *table);
void RC_REFERENCE(fill_dense)(rc_backend *table);
void RC_REFERENCE(fill_logit_losses)(rc_backend *table);
void RC_REFERENCE(fill_feature_losses)(rc_backend *table);
void RC_REFERENCE(fill_image_losses)(rc_backend *table);
void RC_REFERENCE(fill_statistics)(rc_backend *table);
void RC_REFERENCE(fill_data)(rc_backend *table);
void RC_REFERENCE(fill_optimiser)(rc_backend *table);

#endif
