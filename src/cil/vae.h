/* DGR's generative model (docs/methods/dgr.md): an autoencoder of images in [0, 1], stored from task to task. An
 * empty one has no parameters. */
#ifndef RC_CIL_VAE_H
#define RC_CIL_VAE_H

#include "nn/model.h"

typedef struct rc_vae {
    rc_net *net; /* (2): the encoder's and the decoder's; apart, because few learners have them */
    rc_model encoder, decoder;
} rc_vae;

/* For square images, initialised from streams of the seed. */
rc_status rc_vae_create(rc_vae *vae, rc_backend *backend, int c, int size, int width, uint64_t seed);
void rc_vae_destroy(rc_vae *vae); /* a zeroed or destroyed one is fine */
/* A copy of its own. */
rc_status rc_vae_clone(rc_vae *copy, const rc_vae *vae);

size_t rc_vae_bytes(const rc_vae *vae); /* of the parameters, as files have them */

#endif
