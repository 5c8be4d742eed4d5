/* What the operations that go over a tensor row by row share: one task per image, buffers in the worker's scratch, and
 * the epilogues. Sums are taken over a fixed number of rows in float and added up in double. */
#ifndef RC_BACKEND_CPU_FAST_ROWS_H
#define RC_BACKEND_CPU_FAST_ROWS_H

#include "backend/cpu/fast/load.h"

/* Rows are taken together up to SUM_PIXELS pixels, few enough for sums in float, and up to SUM_FLOATS floats, few
 * enough for the memory to read them in order. */
enum { SUM_PIXELS = 256, SUM_FLOATS = 2048 };

/* Do `floats` of scratch fit? If not, the failure is kept for sync(). */
bool RC_FAST(scratch_fits)(rc_backend *be, size_t floats, const char *operation);

/* What an image needs of scratch for its epilogue: a row of y's skip, and the padded centre. */
size_t RC_FAST(finish_forward_floats)(const rc_tensor *y, int cp);
/* The epilogue of one image whose y->raw is complete. `scratch` has finish_forward_floats() floats. */
void RC_FAST(finish_forward)(const rc_tensor *y, int cp, int image, const rc_epilogue *epilogue, float *scratch);
/* The epilogue of one image of dx (n, h, w, cp), complete. `scratch` has skip_row_floats() of epilogue->x. */
void RC_FAST(finish_backward)(const rc_back_epilogue *epilogue, int cp, int image, const float *dx, float *scratch);

/* to[i] += from[i]; `count` is a multiple of 4. */
void RC_FAST(add_floats)(float *to, const float *from, int count);

#endif
