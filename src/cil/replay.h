/* What a stage draws the second half of its batches from: a source (source.h) that is open. The training step, the
 * refinement and the estimation draw from it and know nothing else of it; rc_learner_replay() in learner.h opens the
 * learner's.
 *
 * A source embeds rc_replay as the first member of a structure and fills the table. What it keeps from task to task is
 * in rc_source; what it holds for drawing (passes, noise, indices) comes and goes with rc_replay. draw and learn are
 * part of a step: they enqueue operations, read nothing back and allocate nothing, so that a step can be captured. */
#ifndef RC_CIL_REPLAY_H
#define RC_CIL_REPLAY_H

#include "cil/buffer.h"
#include "cil/state.h"
#include "nn/model.h"

typedef struct rc_replay rc_replay;

typedef struct rc_replay_table {
    /* Fills `images` (batch, h, w, c), a plain tensor, and `labels` (batch) if the source is labelled. */
    void (*draw)(rc_replay *, const rc_step *, rc_tensor *images, int32_t *labels);
    /* On the host, before the first step of an epoch or of its rest. NULL: nothing to prepare. */
    rc_status (*prepare_epoch)(rc_replay *, int epoch);
    /* At the end of a step of main training, with the whole batch that it has seen, real samples first, and their
     * labels. For sources that learn or store as training goes. NULL: nothing to do. */
    void (*learn)(rc_replay *, const rc_step *, rc_tensor *input, const int32_t *labels);
    /* Names all that draw and learn change, for checkpoints. NULL: nothing. */
    rc_status (*register_state)(rc_replay *, rc_state *);
    void (*destroy)(rc_replay *);
} rc_replay_table;

struct rc_replay {
    const rc_replay_table *table;
    int batch;     /* samples a draw */
    bool labelled; /* draw also writes the labels; otherwise the old model gives them, by argmax of its logits */
    size_t bytes;  /* backend memory held for drawing */
    void *loss;    /* (RC_LOSS_COUNT) real: where learn writes the values of its losses; the training sets it */
};

void rc_replay_destroy(rc_replay *replay); /* NULL is fine */

#endif
