/* The reference with answers that no backend of a CPU gives: it runs several layers at once, layer by layer, reads
 * gradients from maps, and has a second lane, which runs as late as it may. A pass over it must make the bits of a pass
 * over the reference. */
#ifndef TESTS_SUPPORT_FUSED_BACKEND_H
#define TESTS_SUPPORT_FUSED_BACKEND_H

#include "backend/backend.h"

typedef struct fused_kind {
    int most;      /* layers at once; 0: it runs every layer alone */
    bool back;     /* back, too, with statistics of the batch */
    bool finishes; /* gradients of convolutions read dL/draw from a map, and convolutions their input */
    bool lanes;    /* two; weight gradients run when the main lane waits for them */
    bool waits;    /* with lanes: every map keeps it busy */
} fused_kind;

/* How often operations ran since the backend was opened. */
typedef struct fused_counts {
    int forward, backward, train, train_backward, weight, joins, pooled, pooled_train;
    size_t summed; /* gradients of parameters, over processes */
} fused_counts;

/* The caller closes it before the next is opened. */
rc_backend *fused_backend_open(const fused_kind *kind);
fused_counts fused_backend_counts(void);

#endif
