/* Offers the layers of a net to the backend, which may run several of them as one operation (fuse in backend.h). */
#include "nn/pass_build.h"

static rc_fusible offer(const rc_layer *layer)
{
    rc_fusible offered = {.act = layer->act,
                          .in = layer->in,
                          .skip = layer->skip,
                          .skip_stride = layer->skip_stride,
                          .skip_offset = layer->skip_offset,
                          .output = layer->output};
    offered.plain = layer->kind == RC_LAYER_CONV && !layer->bias && layer->bn.on;
    if (offered.plain)
        offered.conv = rc_layer_conv(layer);
    return offered;
}

int rc_pass_last_fused(const rc_pass_build *b, int first)
{
    rc_backend *be = b->backend;
    rc_fusible layers[RC_MAX_LAYERS];
    if (b->train || be->fuse == NULL)
        return first;
    for (int i = 0; i < b->net->layers; i++)
        layers[i] = offer(&b->net->layer[i]);
    int count = be->fuse(be, layers, b->net->layers, first, b->pass->settings.n, !b->eval);
    return count > 1 ? first + count - 1 : first;
}
