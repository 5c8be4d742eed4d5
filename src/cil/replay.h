/* Where the second half of a training batch comes from: one small interface for every source. The training step, the
 * refinement and the estimation draw from it and know nothing else of it; rc_learner_replay() in learner.h opens the
 * one that the method's row names.
 *
 * A source embeds rc_replay as its first member and fills the table. What it keeps from task to task belongs to the
 * learner; what it holds for drawing (passes, noise, indices) comes and goes with it. draw and learn are part of a
 * step: they enqueue operations, read nothing back and allocate nothing, so that a step can be captured. */
#ifndef RC_CIL_REPLAY_H
#define RC_CIL_REPLAY_H

#include "cil/buffer.h"
#include "cil/state.h"
#include "cil/vae.h"
#include "nn/model.h"

struct rc_resident_data; /* step_training.h */

typedef struct rc_replay rc_replay;

typedef struct rc_replay_table {
    /* Fills `images` (batch, h, w, c), a plain tensor, and `labels` (batch) if the source is labelled. */
    void (*draw)(rc_replay *, const rc_step *, rc_tensor *images, int32_t *labels);
    /* On the host, before the first step of an epoch or of its rest. NULL: nothing to prepare. */
    rc_status (*prepare_epoch)(rc_replay *, int epoch);
    /* At the end of a step of main training: the whole batch that it has seen, real samples first, with their labels.
     * For what learns or stores as training goes. NULL: nothing. */
    void (*learn)(rc_replay *, const rc_step *, rc_tensor *input, const int32_t *labels);
    /* Names all that draw and learn change, for checkpoints. NULL: nothing. */
    rc_status (*register_state)(rc_replay *, rc_state *);
    void (*destroy)(rc_replay *);
} rc_replay_table;

struct rc_replay {
    const rc_replay_table *table;
    int batch;     /* samples a draw */
    bool labelled; /* draw tells the labels; else the old model does, by argmax of its logits */
    size_t bytes;  /* backend memory held for drawing */
    void *loss;    /* (RC_LOSS_COUNT) real: where learn leaves the values of its losses; set by the training */
};

void rc_replay_destroy(rc_replay *replay); /* NULL is fine */

/* Dreams: images that a generator in eval mode makes of fresh noise. The generator must outlive the source. */
rc_status rc_replay_dreams_create(rc_backend *backend, const rc_model *generator, int batch, uint32_t stream,
                                  rc_replay **replay);

/* Stored images: the buffer, whose task has begun, says which, and the pool has them. Both outlive the source. */
rc_status rc_replay_stored_create(rc_backend *backend, rc_image_buffer *buffer, const struct rc_resident_data *pool,
                                  rc_replay **replay);

/* A generative model (DGR): `old_decoder`, as the last task left it, makes images of noise, and `vae` learns from every
 * batch. Without an old decoder, in the first task, nothing is drawn. All must outlive the source. */
typedef struct rc_generative_settings {
    int batch;       /* new images a step; as many are drawn */
    float old_share; /* n_old / K */
    float momentum;  /* of SGD; no decay */
} rc_generative_settings;
rc_status rc_replay_generative_create(rc_backend *backend, rc_vae *vae, const rc_model *old_decoder,
                                      const rc_generative_settings *settings, rc_replay **replay);

#endif
