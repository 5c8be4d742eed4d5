/* Building and checking nets. A net that rc_net_finish() accepted is sound: every index, shape and size that the
 * passes and the backends take from it has been checked here, once. */
#include "nn/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Kernels index one tensor with 32 bits, so no tensor, of one image or of parameters, may have more elements. */
static const int64_t most_elements = INT32_MAX;
/* Backends round channels up to a multiple, which must be an int, too. */
enum { MOST_CHANNELS = INT32_MAX / 2 };

bool rc_layer_convolves(const rc_layer *layer)
{
    return layer->kind == RC_LAYER_CONV || layer->kind == RC_LAYER_DEPTHWISE;
}

bool rc_layer_pending(const rc_layer *layer)
{
    return layer->bn.on || layer->shortcut != RC_SHORTCUT_NONE || layer->act != RC_ACT_NONE;
}

/* ---- errors ---------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void fail(rc_net_builder *builder, const char *format, ...)
{
    if (builder->status != RC_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(builder->message, sizeof builder->message, format, arguments);
    va_end(arguments);
    builder->status = RC_INVALID_ARGUMENT;
}

/* Puts "net 'x': layer 3 'conv_1': " before the message. Always false, so that a check is one line. */
__attribute__((format(printf, 3, 4))) static bool refuse(rc_net_builder *builder, const rc_layer *layer,
                                                         const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail(builder, "net '%.*s': layer %d '%.*s': %s", RC_NAME_MAX, builder->net->name, builder->net->layers, RC_NAME_MAX,
         layer->name, text);
    return false;
}

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

/* a * b * c * d, or -1 when that is more than a tensor may have. */
static int64_t elements(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t factor[4] = {a, b, c, d};
    int64_t product = 1;
    for (int i = 0; i < 4; i++) {
        if (factor[i] > 0 && product > most_elements / factor[i])
            return -1;
        product *= factor[i];
    }
    return product;
}

/* Length of the result of a window of k that moves by `stride` over `length` pixels padded on both sides; below 1:
 * the window does not fit. */
static int64_t window_count(int64_t length, int k, int stride, int pad)
{
    int64_t room = length + 2 * (int64_t)pad - k;
    return room < 0 ? 0 : room / stride + 1;
}

/* ---- checks of one layer, in the order in which they run ------------------------------------------------------- */

static bool check_name(rc_net_builder *builder, const rc_layer *layer, const char *what, const char *name)
{
    const char *end = memchr(name, 0, RC_NAME_MAX);
    if (end == NULL)
        return refuse(builder, layer, "%s has no end within %d characters", what, RC_NAME_MAX);
    if (end == name)
        return refuse(builder, layer, "%s is empty", what);
    return true;
}

static bool check_range(rc_net_builder *builder, const rc_layer *layer, const char *what, int value, int low, int high)
{
    if (value >= low && value <= high)
        return true;
    return refuse(builder, layer, "%s is %d, expected %d to %d", what, value, low, high);
}

/* Reads `index`, which must be an earlier layer with a map. */
static bool check_source(rc_net_builder *builder, const rc_layer *layer, const char *what, int index, int lowest)
{
    const rc_net *net = builder->net;
    if (index < lowest || index >= net->layers)
        return refuse(builder, layer, "%s is %d, expected the index of an earlier layer, %d to %d", what, index, lowest,
                      net->layers - 1);
    if (index >= 0 && net->layer[index].kind == RC_LAYER_AVERAGE_POOL)
        return refuse(builder, layer, "%s is layer %d '%s', an average pool: features are not a map", what, index,
                      net->layer[index].name);
    return true;
}

static bool check_input(rc_net_builder *builder, rc_layer *layer)
{
    const rc_net *net = builder->net;
    if (!check_source(builder, layer, "input", layer->in, RC_NET_INPUT))
        return false;
    const rc_layer *in = layer->in == RC_NET_INPUT ? NULL : &net->layer[layer->in];
    layer->c_in = in ? in->c_out : net->c;
    layer->h_in = in ? in->h : net->h;
    layer->w_in = in ? in->w : net->w;
    return true;
}

static bool check_settings(rc_net_builder *builder, rc_layer *layer)
{
    if ((unsigned)layer->kind > RC_LAYER_AVERAGE_POOL)
        return refuse(builder, layer, "kind is %d, expected 0 to %d", (int)layer->kind, RC_LAYER_AVERAGE_POOL);
    if ((unsigned)layer->act > RC_ACT_SILU)
        return refuse(builder, layer, "activation is %d, expected 0 to %d", (int)layer->act, RC_ACT_SILU);
    if ((unsigned)layer->shortcut > RC_SHORTCUT_PAD_BOTH)
        return refuse(builder, layer, "shortcut is %d, expected 0 to %d", (int)layer->shortcut, RC_SHORTCUT_PAD_BOTH);
    if ((unsigned)layer->init > RC_INIT_KAIMING_IN)
        return refuse(builder, layer, "init is %d, expected 0 to %d", (int)layer->init, RC_INIT_KAIMING_IN);
    bool pool = layer->kind == RC_LAYER_MAX_POOL || layer->kind == RC_LAYER_AVERAGE_POOL;
    if (pool && (rc_layer_pending(layer) || layer->bias))
        return refuse(builder, layer, "pooling takes no bias, normalisation, shortcut or activation");
    if (layer->kind == RC_LAYER_BN && (!layer->bn.on || layer->bias))
        return refuse(builder, layer, "normalisation alone needs bn.on and takes no bias");
    if (layer->bn.on) {
        if (layer->kind == RC_LAYER_BN && layer->bn_name[0] == 0)
            memcpy(layer->bn_name, layer->name, sizeof layer->bn_name);
        if (!check_name(builder, layer, "bn_name", layer->bn_name))
            return false;
        if (layer->kind != RC_LAYER_BN && strcmp(layer->bn_name, layer->name) == 0)
            return refuse(builder, layer, "bn_name is '%s', which is the layer's name: its tensors would share theirs",
                          layer->bn_name);
        if (!(layer->bn.eps > 0) || !isfinite(layer->bn.eps))
            return refuse(builder, layer, "bn.eps is %g, expected more than 0", (double)layer->bn.eps);
        if (!(layer->bn.momentum >= 0 && layer->bn.momentum <= 1))
            return refuse(builder, layer, "bn.momentum is %g, expected 0 to 1", (double)layer->bn.momentum);
    }
    return true;
}

/* Padding such that the result has ceil(length / stride) pixels: how much of it lies before the first. */
static int same_pad(int length, int k, int stride)
{
    int64_t count = ((int64_t)length + stride - 1) / stride, total = (count - 1) * stride + k - length;
    return total > 0 ? (int)(total / 2) : 0;
}

static bool shape_same(rc_net_builder *builder, rc_layer *layer, int64_t *h, int64_t *w)
{
    if (layer->transposed || layer->up > 1 || layer->pad != 0)
        return refuse(builder, layer,
                      "same, which goes with neither a transposed nor an enlarging convolution and sets pad "
                      "itself: pad is %d, expected 0",
                      layer->pad);
    int down = same_pad(layer->h_in, layer->k, layer->stride), across = same_pad(layer->w_in, layer->k, layer->stride);
    if (down != across)
        return refuse(builder, layer, "same: its input of %d x %d pixels would need %d rows and %d columns before it",
                      layer->h_in, layer->w_in, down, across);
    layer->pad = down;
    *h = ((int64_t)layer->h_in + layer->stride - 1) / layer->stride;
    *w = ((int64_t)layer->w_in + layer->stride - 1) / layer->stride;
    return true;
}

static bool shape_conv(rc_net_builder *builder, rc_layer *layer, int64_t *h, int64_t *w)
{
    if (layer->up == 0)
        layer->up = 1;
    if (!check_range(builder, layer, "c_out", layer->c_out, 1, MOST_CHANNELS) ||
        !check_range(builder, layer, "k", layer->k, 1, INT16_MAX) ||
        !check_range(builder, layer, "stride", layer->stride, 1, INT16_MAX) ||
        !check_range(builder, layer, "pad", layer->pad, 0, layer->k - 1) ||
        !check_range(builder, layer, "up", layer->up, 1, 2))
        return false;
    if (layer->up > 1 && (layer->transposed || layer->stride > 1))
        return refuse(builder, layer, "up is %d, which goes with neither a transposed nor a strided convolution",
                      layer->up);
    if (layer->kind == RC_LAYER_DEPTHWISE && (layer->transposed || layer->up > 1))
        return refuse(builder, layer, "a depthwise convolution is neither transposed nor enlarges its input: up is %d",
                      layer->up);
    if (layer->same)
        return shape_same(builder, layer, h, w);
    if (layer->transposed) {
        *h = (int64_t)(layer->h_in - 1) * layer->stride - 2 * (int64_t)layer->pad + layer->k;
        *w = (int64_t)(layer->w_in - 1) * layer->stride - 2 * (int64_t)layer->pad + layer->k;
    } else {
        *h = window_count((int64_t)layer->h_in * layer->up, layer->k, layer->stride, layer->pad);
        *w = window_count((int64_t)layer->w_in * layer->up, layer->k, layer->stride, layer->pad);
    }
    return true;
}

static bool shape_linear(rc_net_builder *builder, rc_layer *layer, int64_t *h, int64_t *w)
{
    if (layer->h_in != 1 || layer->w_in != 1)
        return refuse(builder, layer,
                      "its input is %d x %d pixels, expected 1 x 1 (over a map, use a convolution as "
                      "large as the map)",
                      layer->h_in, layer->w_in);
    if (layer->map_h == 0)
        layer->map_h = 1;
    if (layer->map_w == 0)
        layer->map_w = 1;
    *h = layer->map_h;
    *w = layer->map_w;
    return check_range(builder, layer, "c_out", layer->c_out, 1, MOST_CHANNELS) &&
           check_range(builder, layer, "map_h", layer->map_h, 1, INT16_MAX) &&
           check_range(builder, layer, "map_w", layer->map_w, 1, INT16_MAX);
}

static bool shape_max_pool(rc_net_builder *builder, rc_layer *layer, int64_t *h, int64_t *w)
{
    if (!check_range(builder, layer, "k", layer->k, 1, INT16_MAX) ||
        !check_range(builder, layer, "stride", layer->stride, 1, INT16_MAX) ||
        !check_range(builder, layer, "pad", layer->pad, 0, layer->k / 2))
        return false;
    *h = window_count(layer->h_in, layer->k, layer->stride, layer->pad);
    *w = window_count(layer->w_in, layer->k, layer->stride, layer->pad);
    return true;
}

static bool check_shape(rc_net_builder *builder, rc_layer *layer)
{
    int64_t h = layer->h_in, w = layer->w_in;
    bool same_channels = layer->kind != RC_LAYER_CONV && layer->kind != RC_LAYER_LINEAR;
    if (same_channels && layer->c_out != 0 && layer->c_out != layer->c_in)
        return refuse(builder, layer, "c_out is %d, expected 0 or the %d channels of its input", layer->c_out,
                      layer->c_in);
    if (same_channels)
        layer->c_out = layer->c_in;
    if (layer->same && !rc_layer_convolves(layer))
        return refuse(builder, layer, "same, which only a convolution can be");
    if (!rc_layer_convolves(layer) && layer->kind != RC_LAYER_MAX_POOL) /* these have no window */
        layer->k = layer->stride = layer->pad = layer->up = 0;
    if (rc_layer_convolves(layer) && !shape_conv(builder, layer, &h, &w))
        return false;
    if (layer->kind == RC_LAYER_LINEAR && !shape_linear(builder, layer, &h, &w))
        return false;
    if (layer->kind == RC_LAYER_MAX_POOL && !shape_max_pool(builder, layer, &h, &w))
        return false;
    if (layer->kind == RC_LAYER_AVERAGE_POOL)
        h = w = 1;
    if (h < 1 || w < 1)
        return refuse(builder, layer, "k is %d, which does not fit into its input of %d x %d pixels, up %d, pad %d",
                      layer->k, layer->h_in, layer->w_in, layer->up, layer->pad);
    if (h > INT32_MAX || w > INT32_MAX || elements(h, w, layer->c_out, 1) < 0)
        return refuse(builder, layer, "its result of %" PRId64 " x %" PRId64 " x %d has more than %" PRId64 " elements",
                      h, w, layer->c_out, most_elements);
    layer->h = (int)h;
    layer->w = (int)w;
    return true;
}

static bool check_shortcut(rc_net_builder *builder, rc_layer *layer)
{
    if (layer->shortcut == RC_SHORTCUT_NONE) {
        layer->skip = RC_NO_LAYER;
        return true;
    }
    if (!check_source(builder, layer, "skip", layer->skip, 0))
        return false;
    const rc_layer *from = &builder->net->layer[layer->skip];
    bool identity = layer->shortcut == RC_SHORTCUT_IDENTITY;
    layer->skip_stride = identity ? 1 : 2;
    int h = identity ? from->h : (from->h + 1) / 2, w = identity ? from->w : (from->w + 1) / 2;
    if (h != layer->h || w != layer->w)
        return refuse(builder, layer, "the skip from layer %d '%s' brings %d x %d pixels to a sum of %d x %d",
                      layer->skip, from->name, h, w, layer->h, layer->w);
    int widening = layer->c_out - from->c_out;
    if (identity ? widening != 0 : widening < 0)
        return refuse(builder, layer, "the skip from layer %d '%s' brings %d channels to a sum of %d", layer->skip,
                      from->name, from->c_out, layer->c_out);
    if (layer->shortcut == RC_SHORTCUT_PAD_BOTH && widening % 2 != 0)
        return refuse(builder, layer, "the skip from layer %d '%s' cannot put its %d channels in the middle of %d",
                      layer->skip, from->name, from->c_out, layer->c_out);
    layer->skip_offset = layer->shortcut == RC_SHORTCUT_PAD_BOTH ? widening / 2 : 0;
    return true;
}

/* ---- offsets --------------------------------------------------------------------------------------------------- */

static size_t take(size_t *used, size_t count)
{
    size_t at = *used;
    *used += count;
    return at;
}

/* Order in memory: weight, bias, gamma, beta; running mean, running variance. */
static bool place_parameters(rc_net_builder *builder, rc_layer *layer)
{
    rc_net *net = builder->net;
    layer->weight = layer->bias_at = layer->gamma = layer->beta = SIZE_MAX;
    layer->running_mean = layer->running_var = SIZE_MAX;
    int64_t weights = 0, outputs = layer->c_out;
    if (layer->kind == RC_LAYER_CONV)
        weights = elements(layer->c_out, layer->c_in, layer->k, layer->k);
    if (layer->kind == RC_LAYER_DEPTHWISE)
        weights = elements(layer->c_out, 1, layer->k, layer->k);
    if (layer->kind == RC_LAYER_LINEAR) {
        outputs = elements(layer->c_out, layer->h, layer->w, 1);
        weights = elements(outputs, layer->c_in, 1, 1);
    }
    if (weights < 0)
        return refuse(builder, layer, "it has more than %" PRId64 " weights: c_in %d, c_out %d, k %d, map %d x %d",
                      most_elements, layer->c_in, layer->c_out, layer->k, layer->h, layer->w);
    size_t before = net->params, channels = (size_t)layer->c_out;
    layer->weights = (size_t)weights;
    if (weights > 0)
        layer->weight = take(&net->params, layer->weights);
    if (layer->bias)
        layer->bias_at = take(&net->params, (size_t)outputs);
    if (layer->bn.on && layer->bn.affine) {
        layer->gamma = take(&net->params, channels);
        layer->beta = take(&net->params, channels);
    }
    if (layer->bn.on) {
        layer->running_mean = take(&net->running, channels);
        layer->running_var = take(&net->running, channels);
        net->bn_layers++;
    }
    layer->params = net->params - before;
    return true;
}

/* ---- the builder ----------------------------------------------------------------------------------------------- */

rc_net_builder rc_net_start(rc_net *net, const char *name, int c, int h, int w)
{
    rc_net_builder builder = {.net = net, .status = RC_OK};
    memset(net, 0, sizeof *net);
    size_t length = strlen(name);
    if (length == 0 || length >= RC_NAME_MAX)
        fail(&builder, "the name of a net has %zu characters, expected 1 to %d", length, RC_NAME_MAX - 1);
    else
        memcpy(net->name, name, length + 1);
    if (c < 1 || h < 1 || w < 1 || c > MOST_CHANNELS || elements(c, h, w, 1) < 0)
        fail(&builder,
             "net '%s': its input is %d x %d pixels of %d channels, expected 1 or more each, at most "
             "%d channels and %" PRId64 " elements",
             net->name, h, w, c, MOST_CHANNELS, most_elements);
    net->c = c;
    net->h = h;
    net->w = w;
    return builder;
}

int rc_net_add(rc_net_builder *builder, const rc_layer *layer)
{
    rc_net *net = builder->net;
    if (builder->status != RC_OK)
        return RC_NO_LAYER;
    rc_layer added = *layer;
    if (net->layers == RC_MAX_LAYERS) {
        refuse(builder, &added, "a net has at most %d layers", RC_MAX_LAYERS);
        return RC_NO_LAYER;
    }
    if (!check_name(builder, &added, "name", added.name) || !check_settings(builder, &added) ||
        !check_input(builder, &added) || !check_shape(builder, &added) || !check_shortcut(builder, &added) ||
        !place_parameters(builder, &added))
        return RC_NO_LAYER;
    added.keep_value = added.shortcut != RC_SHORTCUT_NONE;
    net->layer[net->layers] = added;
    return net->layers++;
}

/* Tensors of a file are found by name, so no two layers and no two normalisations may share one. */
static void check_names_differ(rc_net_builder *builder)
{
    const rc_net *net = builder->net;
    for (int i = 0; i < net->layers; i++) {
        for (int j = 0; j < i; j++) {
            const rc_layer *a = &net->layer[i], *b = &net->layer[j];
            if (strcmp(a->name, b->name) == 0 || (a->bn.on && strcmp(a->bn_name, b->bn_name) == 0) ||
                (a->bn.on && strcmp(a->bn_name, b->name) == 0) || (b->bn.on && strcmp(b->bn_name, a->name) == 0))
                fail(builder, "net '%s': layers %d '%s' and %d '%s' share a name", net->name, j, b->name, i, a->name);
        }
    }
}

rc_status rc_net_finish(rc_net_builder *builder)
{
    rc_net *net = builder->net;
    if (net->layers == 0)
        fail(builder, "net '%s' has no layers", net->name);
    bool used[RC_MAX_LAYERS] = {false};
    for (int i = 0; i < net->layers; i++) {
        const rc_layer *layer = &net->layer[i];
        if (layer->in >= 0)
            used[layer->in] = true;
        if (layer->skip >= 0) {
            used[layer->skip] = true;
            net->layer[layer->skip].keep_value = true;
        }
    }
    if (net->layers > 0)
        net->layer[net->layers - 1].output = true;
    int pools = 0;
    for (int i = 0; i < net->layers; i++) {
        rc_layer *layer = &net->layer[i];
        if (layer->kind == RC_LAYER_AVERAGE_POOL) {
            layer->output = true;
            pools++;
        }
        if (pools > 1)
            fail(builder, "net '%s': layer %d '%s' is a second average pool, a net has one kind of features", net->name,
                 i, layer->name);
        if (!used[i] && !layer->output)
            fail(builder, "net '%s': layer %d '%s' is read by no other layer and is no output", net->name, i,
                 layer->name);
    }
    check_names_differ(builder);
    if (builder->status != RC_OK) {
        net->layers = 0;
        return rc_fail(builder->status, "%s", builder->message);
    }
    return RC_OK;
}

/* ---- geometry and cost ----------------------------------------------------------------------------------------- */

rc_conv rc_layer_conv(const rc_layer *layer)
{
    return (rc_conv){.c_in = layer->c_in,
                     .c_out = layer->c_out,
                     .k = layer->k,
                     .stride = layer->stride,
                     .pad = layer->pad,
                     .up = layer->up,
                     .transposed = layer->transposed,
                     .h = layer->h_in,
                     .w = layer->w_in,
                     .oh = layer->h,
                     .ow = layer->w};
}

rc_pool2d rc_layer_pool(const rc_layer *layer)
{
    bool pools = layer->kind == RC_LAYER_MAX_POOL;
    return pools ? (rc_pool2d){layer->k, layer->stride, layer->pad} : (rc_pool2d){0};
}

rc_linear rc_layer_linear(const rc_layer *layer)
{
    return (rc_linear){.c_in = layer->c_in, .c = layer->c_out, .h = layer->h, .w = layer->w};
}

int rc_net_layers_before(const rc_net *net, int stages)
{
    int found = 0, h = 0;
    for (int i = net->layers - 1; i >= 0 && stages > 0; i--) {
        const rc_layer *layer = &net->layer[i];
        if (layer->kind == RC_LAYER_AVERAGE_POOL || layer->h == h)
            continue;
        h = layer->h;
        if (++found > stages)
            return i + 1;
    }
    return 0;
}

size_t rc_net_params_before(const rc_net *net, int layers)
{
    size_t params = 0;
    for (int i = 0; i < layers; i++)
        params += net->layer[i].params;
    return params;
}

size_t rc_layer_biases(const rc_layer *layer)
{
    size_t pixels = layer->kind == RC_LAYER_LINEAR ? (size_t)layer->h * (size_t)layer->w : 1;
    return (size_t)layer->c_out * pixels;
}

bool rc_layer_bias_cancels(const rc_layer *layer)
{
    return layer->bias && layer->bn.on && rc_layer_biases(layer) == (size_t)layer->c_out;
}

double rc_layer_macs(const rc_layer *layer)
{
    if (layer->kind == RC_LAYER_LINEAR)
        return (double)layer->weights;
    if (rc_layer_convolves(layer)) /* every weight once for each pixel of the result, or of the input */
        return (double)layer->weights *
               (layer->transposed ? (double)layer->h_in * layer->w_in : (double)layer->h * layer->w);
    return 0;
}

double rc_net_macs(const rc_net *net)
{
    double macs = 0;
    for (int i = 0; i < net->layers; i++)
        macs += rc_layer_macs(&net->layer[i]);
    return macs;
}
