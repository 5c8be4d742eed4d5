/* Finds the chains of a net: runs of convolutions that a backend can do at once (takes_chain in backend.h). */
#include "nn/pass_build.h"

static bool piecewise_linear(rc_act act)
{
    return act == RC_ACT_NONE || act == RC_ACT_RELU || act == RC_ACT_LEAKY_RELU;
}

/* Can layer `index` be a link of the chain that begins with `first`, if the layers between are? */
static bool is_link(const rc_pass_build *b, int first, int index)
{
    const rc_net *net = b->net;
    const rc_layer *layer = &net->layer[index], *begin = &net->layer[first];
    bool plain = layer->kind == RC_LAYER_CONV && layer->k == 3 && layer->stride == 1 && layer->pad == 1 &&
                 layer->up <= 1 && !layer->transposed && !layer->bias && layer->bn.on &&
                 piecewise_linear(layer->act);
    bool same = layer->c_in == layer->c_out && layer->c_out == begin->c_out && layer->h == begin->h &&
                layer->w == begin->w;
    if (!plain || !same || layer->in < 0 || (index > first && layer->in != index - 1))
        return false;
    if (layer->shortcut == RC_SHORTCUT_NONE)
        return true;
    if (index == first)
        return layer->skip != layer->in && layer->skip_offset % b->backend->channel_multiple == 0;
    return layer->shortcut == RC_SHORTCUT_IDENTITY && layer->skip == net->layer[index - 1].in &&
           net->layer[index - 1].shortcut == RC_SHORTCUT_NONE;
}

/* Does any layer outside the chain read a link before the last? */
static bool is_read_elsewhere(const rc_net *net, int first, int last)
{
    for (int i = first; i < last; i++) {
        if (net->layer[i].output)
            return true;
    }
    for (int i = last + 1; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        if ((layer->in >= first && layer->in < last) || (layer->skip >= first && layer->skip < last))
            return true;
    }
    return false;
}

int rc_pass_last_link(const rc_pass_build *b, int first)
{
    const rc_net *net = b->net;
    if (b->train || b->backend->takes_chain == NULL || !is_link(b, first, first) ||
        !piecewise_linear(net->layer[net->layer[first].in].act))
        return RC_NO_LAYER;
    const rc_conv conv = rc_layer_conv(&net->layer[first]);
    if (!b->backend->takes_chain(b->backend, &conv, b->pass->settings.n, !b->eval))
        return RC_NO_LAYER;
    int last = first;
    while (last + 1 < net->layers && last + 1 - first < RC_CHAIN_LINKS && is_link(b, first, last + 1))
        last++;
    while (last > first && is_read_elsewhere(net, first, last))
        last--;
    return last > first ? last : RC_NO_LAYER;
}
