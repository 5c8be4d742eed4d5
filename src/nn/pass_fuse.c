/* Offers the layers of a net to the backend, which may run several of them as one operation (fuse in backend.h). */
#include "nn/pass_build.h"

static rc_fusible offer(const rc_layer *layer)
{
    rc_fusible offered = {.act = layer->act,
                          .in = layer->in,
                          .skip = layer->skip,
                          .skip_stride = layer->skip_stride,
                          .skip_offset = layer->skip_offset,
                          .output = layer->output,
                          .pool = rc_layer_pool(layer)};
    offered.plain = layer->kind == RC_LAYER_CONV && !layer->bias && layer->bn.on;
    if (offered.plain)
        offered.conv = rc_layer_conv(layer);
    return offered;
}

int rc_pass_last_fused(const rc_pass_build *b, int first)
{
    rc_backend *be = b->backend;
    rc_fusible layers[RC_MAX_LAYERS];
    int n = b->pass->settings.n, groups = b->pass->settings.groups, count = 0;
    if (b->train ? be->fuse_train == NULL || first < b->pass->settings.frozen : be->fuse == NULL)
        return first;
    for (int i = 0; i < b->net->layers; i++)
        layers[i] = offer(&b->net->layer[i]);
    if (b->train)
        count = be->fuse_train(be, layers, b->net->layers, first, n, groups > 1 ? groups : 1);
    else
        count = be->fuse(be, layers, b->net->layers, first, n, !b->eval);
    /* Back through a maximum and the layer before it, the gradient ends. */
    if (b->train && count > 1 && layers[first + count - 1].pool.k > 0 &&
        (b->pass->settings.input_gradient || be->fused_train_backward == NULL))
        return first;
    return count > 1 ? first + count - 1 : first;
}
