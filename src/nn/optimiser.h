/* Optimisers over ranges of parameters. A frozen range is left out entirely: no decay, no momentum motion. State
 * (momentum, or Adam's two moments) starts at zero and belongs to the range. */
#ifndef RC_NN_OPTIMISER_H
#define RC_NN_OPTIMISER_H

#include "backend/backend.h"

typedef struct rc_optimiser rc_optimiser;

rc_status rc_optimiser_create_sgd(rc_backend *backend, const rc_sgd *settings, rc_optimiser **optimiser);
rc_status rc_optimiser_create_adam(rc_backend *backend, const rc_adam *settings, rc_optimiser **optimiser);
void rc_optimiser_destroy(rc_optimiser *optimiser); /* NULL is fine */

/* Adam as its paper has it, and every method here: 0.9, 0.999, 1e-8. */
extern const rc_adam rc_adam_default;

/* `count` reals of parameters and of their gradient, both in backend memory. Ranges are numbered from 0 in order. */
rc_status rc_optimiser_add(rc_optimiser *optimiser, void *param, const void *gradient, size_t count);
void rc_optimiser_freeze(rc_optimiser *optimiser, int range, bool frozen); /* a range that is not there is ignored */

/* Enqueues one operation per range that is not frozen. */
void rc_optimiser_step(rc_optimiser *optimiser, const rc_step *step);

/* State of a range, for checkpoints: `count` reals. index: SGD has 0 (momentum), Adam 0 and 1 (the moments). NULL:
 * there is no such state. */
void *rc_optimiser_state(rc_optimiser *optimiser, int range, int index, size_t *count);

size_t rc_optimiser_bytes(const rc_optimiser *optimiser); /* of backend memory */

#endif
