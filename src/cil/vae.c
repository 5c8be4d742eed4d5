#include "cil/vae.h"

#include <string.h>

#include "base/memory.h"
#include "cil/step_training.h"
#include "nn/nets.h"

static rc_status create(rc_vae *vae, rc_backend *backend, int c, int size, int width)
{
    vae->net = rc_alloc_zeroed(NULL, 2, sizeof *vae->net);
    if (vae->net == NULL)
        return RC_OUT_OF_MEMORY;
    RC_TRY(rc_net_vae_encoder(&vae->net[0], c, size, width));
    RC_TRY(rc_net_vae_decoder(&vae->net[1], c, size, width));
    RC_TRY(rc_model_create(&vae->encoder, &vae->net[0], backend));
    return rc_model_create(&vae->decoder, &vae->net[1], backend);
}

rc_status rc_vae_create(rc_vae *vae, rc_backend *backend, int c, int size, int width, uint64_t seed)
{
    memset(vae, 0, sizeof *vae);
    rc_status status = create(vae, backend, c, size, width);
    if (status == RC_OK)
        status = rc_model_init(&vae->encoder, (rc_rng){seed, RC_STREAM_ENCODER});
    if (status == RC_OK)
        status = rc_model_init(&vae->decoder, (rc_rng){seed, RC_STREAM_DECODER});
    if (status != RC_OK)
        rc_vae_destroy(vae);
    return status;
}

void rc_vae_destroy(rc_vae *vae)
{
    rc_model_destroy(&vae->encoder);
    rc_model_destroy(&vae->decoder);
    rc_free(NULL, vae->net);
    memset(vae, 0, sizeof *vae);
}

rc_status rc_vae_clone(rc_vae *copy, const rc_vae *vae)
{
    const rc_net *net = vae->encoder.net;
    memset(copy, 0, sizeof *copy);
    rc_status status = create(copy, vae->encoder.backend, net->c, net->h, vae->decoder.net->c / 2);
    if (status != RC_OK) {
        rc_vae_destroy(copy);
        return status;
    }
    rc_model_copy(&copy->encoder, &vae->encoder);
    rc_model_copy(&copy->decoder, &vae->decoder);
    return RC_OK;
}

size_t rc_vae_bytes(const rc_vae *vae)
{
    return (vae->encoder.net->params + vae->decoder.net->params) * sizeof(float);
}
