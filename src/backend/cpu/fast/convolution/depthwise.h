/* Depthwise convolution: what forward, data gradient and weight gradient share.
 *
 * Channels lie in the lanes of a vector and never meet. Along each axis the pixels meet as in any convolution
 * (conv_plan.h), so forward and data gradient are one loop: the outputs of a residue read adjacent inputs. A tile holds
 * a few pixels of a row times one vector of channels in registers; it reads each input once for all taps of its row. */
#ifndef RC_BACKEND_CPU_FAST_CONVOLUTION_DEPTHWISE_H
#define RC_BACKEND_CPU_FAST_CONVOLUTION_DEPTHWISE_H

#include "backend/cpu/fast/convolution/conv_plan.h"
#include "backend/cpu/fast/load.h"

enum { DEPTH_TAPS = 9 /* the largest kernel that these kernels take */ };

/* Finished rows of one image in a worker's scratch: row r lies in slot r mod `slots`. */
typedef struct row_ring {
    const value_source *values; /* one of them is what it loads from */
    const gradient_source *gradients;
    const float *direct; /* (h, w, cp): nothing is pending, the rows are read where they are; NULL: from the slots */
    float *memory;       /* (slots, w, channels) */
    int h, w, cp, slots;
    int first, channels; /* of the tensor's channels it holds these; direct: all */
    int next;            /* the first row that is not loaded yet */
} row_ring;

/* Loads what is missing of the rows [.., last). Rows go up, and no row is wanted that is `slots` above `last`. */
void RC_FAST(ring_load)(row_ring *ring, int first, int last);

RC_INLINE const float *ring_row(const row_ring *ring, int row)
{
    if (ring->direct)
        return ring->direct + (size_t)row * (size_t)ring->w * (size_t)ring->cp;
    return ring->memory + (size_t)(row % ring->slots) * (size_t)ring->w * (size_t)ring->channels;
}

/* Nothing pending: the rows of the tensor itself. NULL: they have to be loaded. */
const float *RC_FAST(plain_values)(const value_source *x);
const float *RC_FAST(plain_gradients)(const gradient_source *dy);

void RC_FAST(depthwise_backward_weight)(rc_backend *table, const rc_conv *conv, const rc_tensor *x, const rc_grad *dy,
                                        void *dweight, void *dbias);
/* What it needs: doubles of shared memory, floats of scratch. */
size_t RC_FAST(depthwise_weight_doubles)(const rc_conv *conv, int n);
size_t RC_FAST(depthwise_weight_floats)(const rc_conv *conv);

#endif
