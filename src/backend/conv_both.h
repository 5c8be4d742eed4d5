/* Both gradients of a convolution at once: conv_backward_weight and conv_backward_data of the table. It is no entry of
 * its own, because it must not run where somebody has put another operation in the place of one of the two. */
#ifndef RC_BACKEND_CONV_BOTH_H
#define RC_BACKEND_CONV_BOTH_H

#include "backend/backend.h"

/* dx shares no memory with x and dy. */
typedef void rc_conv_both(rc_backend *, const rc_conv *, const rc_tensor *x, const rc_grad *dy, const void *weight,
                          void *dweight, void *dbias, void *dx, const rc_back_epilogue *);

/* For the two entries that the table has now. NULL: there is none, they run one after the other. */
rc_conv_both *rc_conv_both_of(const rc_backend *be);

#endif
