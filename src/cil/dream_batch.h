/* Batches of dreams of an inverted model, with what the model itself says of them. */
#ifndef RC_CIL_DREAM_BATCH_H
#define RC_CIL_DREAM_BATCH_H

#include "cil/learner.h"
#include "nn/pass.h"

typedef struct rc_dream_batch {
    rc_learner *learner;
    int n, d, classes; /* dreams of a batch, features, classes of the model */
    rc_replay *replay;
    rc_pass *pass; /* of the model, which is the teacher */
    void *memory;  /* backend: step, labels, logits */
    rc_step *step;

    /* What a draw leaves, in backend memory; features are those of the pass. */
    rc_tensor dreams;
    int32_t *labels; /* (n) classes that the model takes them for */
    void *logits;    /* (n, classes) */
} rc_dream_batch;

/* The learner has begun to dream (rc_learner_begin_dreams), or is a shadow of one that has, which counts memory. After
 * a failure there is something to destroy, too. */
rc_status rc_dream_batch_create(rc_learner *learner, rc_dream_batch *batch);
void rc_dream_batch_destroy(rc_dream_batch *batch);

/* Batch number `index` of the model's dreams. */
void rc_dream_batch_draw(rc_dream_batch *batch, uint32_t index);

#endif
