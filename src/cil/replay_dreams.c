/* Dreams as a source: noise, one pass of the generator in eval mode, fresh in every step; nothing is stored. */
#include "base/memory.h"
#include "cil/replay.h"
#include "nn/pass.h"

typedef struct dreams {
    rc_replay replay;
    rc_backend *backend;
    const rc_model *generator;
    uint32_t stream;
    rc_pass *pass;
    rc_tensor noise; /* (batch, 1, 1, noise) */
} dreams;

static void draw(rc_replay *replay, const rc_step *step, rc_tensor *images, int32_t *labels)
{
    dreams *d = (dreams *)replay;
    rc_backend *be = d->backend;
    (void)labels;
    be->random_normal(be, d->stream, step, &d->noise);
    rc_pass_forward(d->pass, d->generator, &d->noise);
    be->copy(be, images->raw, rc_pass_output(d->pass, RC_NO_LAYER)->raw,
             rc_act_count(be, images->n, images->h, images->w, images->c) * be->act_bytes);
}

static void destroy(rc_replay *replay)
{
    dreams *d = (dreams *)replay;
    rc_pass_destroy(d->pass);
    rc_tensor_destroy(d->backend, &d->noise);
    rc_free(NULL, d);
}

rc_status rc_replay_dreams_create(rc_backend *backend, const rc_model *generator, int batch, uint32_t stream,
                                  rc_replay **replay)
{
    static const rc_replay_table table = {.draw = draw, .destroy = destroy};
    const rc_net *net = generator->net;
    rc_pass_settings eval = {.mode = RC_PASS_EVAL, .n = batch, .constant_model = true};
    *replay = NULL;
    dreams *d = rc_alloc_zeroed(NULL, 1, sizeof *d);
    if (d == NULL)
        return RC_OUT_OF_MEMORY;
    d->replay = (rc_replay){.table = &table, .batch = batch};
    d->backend = backend;
    d->generator = generator;
    d->stream = stream;
    rc_status status = rc_pass_create(backend, net, &eval, &d->pass);
    if (status == RC_OK)
        status = rc_tensor_create(backend, batch, net->h, net->w, net->c, &d->noise);
    if (status != RC_OK) {
        destroy(&d->replay);
        return status;
    }
    rc_pass_prepare(d->pass, generator);
    d->replay.bytes = rc_pass_bytes(d->pass);
    *replay = &d->replay;
    return RC_OK;
}
