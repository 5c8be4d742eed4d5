/* The sources that there are. The structures, where rc_source is not enough, are for their files and for tests. */
#ifndef RC_CIL_SOURCES_H
#define RC_CIL_SOURCES_H

#include "cil/pixels.h"
#include "cil/source.h"
#include "cil/step_training.h"
#include "cil/vae.h"

extern const rc_source_kind rc_source_none;
extern const rc_source_kind rc_source_dreams;     /* of a generator inverted from the old model */
extern const rc_source_kind rc_source_pixels;     /* images inverted from the old model, pixel by pixel */
extern const rc_source_kind rc_source_buffer;     /* some real old images */
extern const rc_source_kind rc_source_generative; /* of a generative model, trained beside the classifier and kept */
extern const rc_source_kind rc_source_real;       /* all real old images, for analysis: the perfect source */
extern const rc_source_kind rc_source_all;        /* none: real old images are trained on as if new. An upper bound */

typedef struct rc_dream_source {
    rc_source source;
    rc_net net;                             /* of the generators, by the settings */
    rc_model generator[RC_GENERATORS_MOST]; /* of the task at hand: as many as the settings say */
} rc_dream_source;

typedef struct rc_pixel_source {
    rc_source source;
    rc_pixels pixels; /* of the task at hand */
} rc_pixel_source;

typedef struct rc_generative_source {
    rc_source source;
    rc_vae vae;
    rc_model old_decoder; /* of the task at hand: the autoencoder's, as the last task left it */
} rc_generative_source;

/* The net of the generator that the settings name, for images of this size. */
rc_status rc_generator_net(const rc_settings *settings, const rc_augment *image, rc_net *net);

/* Dreams: images that generators in eval mode make of fresh noise. Each makes an equal part of the batch that all
 * processes share, one behind the other. The generators must outlive the replay. */
rc_status rc_replay_dreams_create(rc_backend *backend, const rc_model *generator, int generators, int batch,
                                  uint32_t stream, rc_replay **replay);

/* A generative model (DGR): `old_decoder`, as the last task left it, makes images of noise, and `vae` learns from
 * every batch. Without an old decoder, in the first task, nothing is drawn. All must outlive the replay. */
typedef struct rc_generative_settings {
    int batch;       /* new images a step; as many are drawn */
    float old_share; /* n_old / K */
    float momentum;  /* of SGD; no decay */
} rc_generative_settings;
rc_status rc_replay_generative_create(rc_backend *backend, rc_vae *vae, const rc_model *old_decoder,
                                      const rc_generative_settings *settings, rc_replay **replay);

/* For sources of stored images. begin: source->images goes along with the steps of the task at hand; offer: and takes
 * from them. open: an entry of their tables; source->images, whose task has begun, says which images are replayed. */
rc_status rc_stored_begin(rc_source *source, const struct rc_learner *learner, bool offer);
rc_status rc_stored_open(rc_source *source, const struct rc_learner *learner, uint32_t stream, rc_replay **replay);

/* Names the tensors of a model "prefix.param" and "prefix.running" for checkpoints. */
rc_status rc_state_add_model(rc_state *state, const char *prefix, const rc_model *model);

#endif
