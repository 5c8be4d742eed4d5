/* Finds what one kernel runs among the layers of a net: chains, which are convolutions of one shape (chain.cuh), and a
 * first layer with the pooling behind it (conv_stem_pool.cu, conv_stem_train.h). */
#include "backend/cuda/convolution/chain.h"
#include "backend/cuda/convolution/conv_stem.h"
#include "backend/cuda/convolution/conv_stem_train.h"

static bool piecewise_linear(rc_act act)
{
    return act == RC_ACT_NONE || act == RC_ACT_RELU || act == RC_ACT_LEAKY_RELU;
}

static bool same_shape(const rc_conv *a, const rc_conv *b)
{
    return a->c_in == b->c_in && a->c_out == b->c_out && a->k == b->k && a->stride == b->stride && a->pad == b->pad &&
           a->up == b->up && a->transposed == b->transposed && a->h == b->h && a->w == b->w && a->oh == b->oh &&
           a->ow == b->ow;
}

/* Can layer `index` be a link of the chain that begins with `first`, if the layers between are? The first may add what
 * any earlier layer made, but not what it reads itself. A later one may add what the link before it reads, unless that
 * adds something, too. */
static bool is_link(const rc_fusible *layers, int first, int index)
{
    const rc_fusible *layer = &layers[index];
    if (!layer->plain || !piecewise_linear(layer->act) || !same_shape(&layer->conv, &layers[first].conv))
        return false;
    if (index == first)
        return layer->in >= 0 &&
               (layer->skip < 0 || (layer->skip != layer->in && layer->skip_offset % RC_CUDA_CHANNELS == 0));
    const rc_fusible *before = &layers[index - 1];
    if (layer->in != index - 1)
        return false;
    return layer->skip < 0 || (layer->skip_stride == 1 && layer->skip == before->in && before->skip < 0);
}

/* Does anybody but the links themselves read a link before the last? */
static bool is_read_elsewhere(const rc_fusible *layers, int count, int first, int last)
{
    for (int i = first; i < last; i++) {
        if (layers[i].output)
            return true;
    }
    for (int i = last + 1; i < count; i++) {
        const rc_fusible *layer = &layers[i];
        if ((layer->in >= first && layer->in < last) || (layer->skip >= first && layer->skip < last))
            return true;
    }
    return false;
}

static bool begins(const rc_fusible *layers, int first)
{
    return is_link(layers, first, first) && piecewise_linear(layers[layers[first].in].act);
}

static int links_from(const rc_fusible *layers, int count, int first)
{
    int last = first;
    while (last + 1 < count && last + 1 - first < RC_MAX_FUSED && is_link(layers, first, last + 1))
        last++;
    while (last > first && is_read_elsewhere(layers, count, first, last))
        last--;
    return last - first + 1;
}

/* A convolution and the pooling of its value alone? */
static bool is_pooled(const rc_fusible *layers, int count, int first)
{
    const rc_fusible *conv = &layers[first];
    return conv->plain && conv->skip < 0 && first + 1 < count && conv[1].in == first && conv[1].pool.k > 0 &&
           !is_read_elsewhere(layers, count, first, first + 1);
}

int rc_cuda_fuse(rc_backend *be, const rc_fusible *layers, int count, int first, int n, bool gradients)
{
    const rc_fusible *conv = &layers[first];
    if (!gradients && is_pooled(layers, count, first) &&
        rc_cuda_takes_stem_pool(rc_cuda_of(be), &conv->conv, conv->act, &conv[1].pool))
        return 2;
    bool taken = begins(layers, first) && rc_cuda_takes_links(rc_cuda_of(be), &layers[first].conv, n, gradients);
    return taken ? links_from(layers, count, first) : 0;
}

int rc_cuda_find_train_chain(rc_backend *be, const rc_fusible *layers, int count, int first, int n, int groups)
{
    const rc_fusible *conv = &layers[first];
    if (conv->in < 0 && is_pooled(layers, count, first) &&
        rc_cuda_trains_stem(rc_cuda_of(be), &conv->conv, conv->act, &conv[1].pool, n))
        return 2;
    bool taken = begins(layers, first) && rc_cuda_trains_links(rc_cuda_of(be), &layers[first].conv, n, groups);
    return taken ? links_from(layers, count, first) : 0;
}
