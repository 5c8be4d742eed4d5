#include "support/nn_nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "nn/nets_parts.h"

static rc_layer conv(int in, int c_out, int k, int stride, bool normalise, rc_act act)
{
    rc_layer layer = rc_part_conv(in, c_out, k, stride, RC_INIT_DEFAULT);
    if (normalise)
        rc_part_normalise(&layer, 1e-3f, true);
    layer.act = act;
    return layer;
}

static int add(rc_net_builder *builder, rc_layer layer, const char *name)
{
    rc_part_name(layer.name, "%s", name);
    if (layer.bn.on)
        rc_part_name(layer.bn_name, "%s_bn", name);
    return rc_net_add(builder, &layer);
}

static int add_sum(rc_net_builder *builder, rc_layer layer, int skip, rc_shortcut shortcut, const char *name)
{
    layer.skip = skip;
    layer.shortcut = shortcut;
    return add(builder, layer, name);
}

/* Sums without activation (gradients are shared), widening at the end, odd sizes. */
static rc_status sums_pad_end(rc_net *net)
{
    return rc_net_resnet_small(net, 2, 7, 5, 3, 2);
}

/* Sums with activation, widening on both sides. */
static rc_status sums_pad_both(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "sums-pad-both", 3, 6, 7);
    int x = add(&b, conv(RC_NET_INPUT, 3, 3, 1, true, RC_ACT_RELU), "stem");
    int y = add(&b, conv(x, 3, 3, 1, true, RC_ACT_RELU), "a");
    x = add_sum(&b, conv(y, 3, 3, 1, true, RC_ACT_RELU), x, RC_SHORTCUT_IDENTITY, "b");
    y = add(&b, conv(x, 7, 3, 2, true, RC_ACT_LEAKY_RELU), "c");
    x = add_sum(&b, conv(y, 7, 3, 1, true, RC_ACT_RELU), x, RC_SHORTCUT_PAD_BOTH, "d");
    rc_layer pool = rc_part_pool(x);
    rc_net_add(&b, &pool);
    return rc_net_finish(&b);
}

/* Max pool, projection, sum over it with and without activation. */
static rc_status projections(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "projections", 2, 9, 9);
    int x = add(&b, conv(RC_NET_INPUT, 3, 3, 1, true, RC_ACT_RELU), "stem");
    rc_layer max = {.kind = RC_LAYER_MAX_POOL, .in = x, .k = 3, .stride = 2, .pad = 1};
    x = add(&b, max, "maxpool");
    for (int block = 0; block < 2; block++) {
        rc_act act = block == 0 ? RC_ACT_RELU : RC_ACT_NONE;
        int skip = add(&b, conv(x, 5, 1, block == 0 ? 2 : 1, true, RC_ACT_NONE), block == 0 ? "p0" : "p1");
        int y = add(&b, conv(x, 5, 3, block == 0 ? 2 : 1, true, RC_ACT_RELU), block == 0 ? "a0" : "a1");
        x = add_sum(&b, conv(y, 5, 3, 1, true, act), skip, RC_SHORTCUT_IDENTITY, block == 0 ? "b0" : "b1");
    }
    rc_layer pool = rc_part_pool(x);
    rc_net_add(&b, &pool);
    return rc_net_finish(&b);
}

/* Linear map, enlarging convolutions, tanh, normalisation alone without parameters as the output. */
static rc_status generator(rc_net *net)
{
    return rc_net_generator_small(net, 3, 14, 5, 6);
}

/* Convolutions without normalisation, biases, two outputs, a linear layer, transposed convolution, sigmoid. */
static rc_status autoencoder(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "autoencoder", 2, 8, 8);
    rc_layer half = {.kind = RC_LAYER_CONV,
                     .k = 4,
                     .stride = 2,
                     .pad = 1,
                     .in = RC_NET_INPUT,
                     .c_out = 3,
                     .bias = true,
                     .act = RC_ACT_RELU};
    half.in = add(&b, half, "conv_1");
    int x = add(&b, half, "conv_2");
    rc_layer linear = {.kind = RC_LAYER_CONV, .k = 2, .stride = 1, .in = x, .c_out = 6, .bias = true, .output = true};
    add(&b, linear, "mean");
    int code = add(&b, linear, "log_variance");
    rc_layer map = {.kind = RC_LAYER_LINEAR, .in = code, .c_out = 3, .map_h = 2, .map_w = 3, .bias = true};
    rc_layer twice = {.kind = RC_LAYER_CONV,
                      .k = 4,
                      .stride = 2,
                      .pad = 1,
                      .c_out = 5,
                      .transposed = true,
                      .bias = true,
                      .act = RC_ACT_LEAKY_RELU};
    twice.in = add(&b, map, "linear");
    twice.in = add(&b, twice, "deconv_1");
    twice.act = RC_ACT_SIGMOID;
    twice.c_out = 2;
    rc_part_normalise(&twice, 1e-3f, true); /* a bias before a normalisation */
    add(&b, twice, "deconv_2");
    return rc_net_finish(&b);
}

/* What no published net does: a layer whose input is its skip, one source for two skips, sums read by a later layer,
 * outputs in the middle, normalisation alone with skip and activation, a sum without normalisation. */
static rc_status tangle(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "tangle", 3, 6, 6);
    int a = add(&b, conv(RC_NET_INPUT, 4, 3, 1, true, RC_ACT_TANH), "a");
    int s = add_sum(&b, conv(a, 4, 3, 1, true, RC_ACT_NONE), a, RC_SHORTCUT_IDENTITY, "itself");
    rc_layer bn = {.kind = RC_LAYER_BN, .in = s};
    rc_part_normalise(&bn, 1e-3f, true);
    bn.act = RC_ACT_RELU;
    int n = add_sum(&b, bn, a, RC_SHORTCUT_IDENTITY, "norm");
    rc_layer plain = conv(n, 4, 1, 1, false, RC_ACT_NONE);
    plain.output = true;
    plain.bias = true;
    int p = add_sum(&b, plain, s, RC_SHORTCUT_IDENTITY, "plain");
    int q = add_sum(&b, conv(p, 4, 3, 1, true, RC_ACT_NONE), n, RC_SHORTCUT_IDENTITY, "q");
    int r = add_sum(&b, conv(q, 8, 3, 2, false, RC_ACT_NONE), s, RC_SHORTCUT_PAD_END, "r");
    int late = add_sum(&b, conv(q, 4, 5, 1, true, RC_ACT_NONE), q, RC_SHORTCUT_IDENTITY, "late");
    rc_layer pool = {.kind = RC_LAYER_AVERAGE_POOL, .in = late};
    add(&b, pool, "pool");
    rc_layer last = conv(r, 3, 3, 1, true, RC_ACT_SIGMOID);
    last.up = 2;
    last.bias = true;
    add(&b, last, "last");
    return rc_net_finish(&b);
}

/* Sums without activation that are outputs: gradients come in from outside, so none may be shared. */
static rc_status open_sums(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "open-sums", 3, 5, 5);
    rc_layer stem = conv(RC_NET_INPUT, 4, 3, 1, true, RC_ACT_RELU);
    stem.output = true;
    int x = add(&b, stem, "stem");
    int y = add(&b, conv(x, 4, 3, 1, true, RC_ACT_RELU), "a");
    x = add_sum(&b, conv(y, 4, 3, 1, true, RC_ACT_NONE), x, RC_SHORTCUT_IDENTITY, "b");
    y = add(&b, conv(x, 4, 3, 1, true, RC_ACT_RELU), "c");
    add_sum(&b, conv(y, 4, 3, 1, true, RC_ACT_NONE), x, RC_SHORTCUT_IDENTITY, "d");
    return rc_net_finish(&b);
}

/* The first layers have no parameters. */
static rc_status late_parameters(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "late-parameters", 3, 8, 8);
    rc_layer max = {.kind = RC_LAYER_MAX_POOL, .in = RC_NET_INPUT, .k = 2, .stride = 2};
    rc_layer bn = {.kind = RC_LAYER_BN, .in = add(&b, max, "max")};
    rc_part_normalise(&bn, 1e-3f, false);
    int x = add(&b, bn, "bn");
    x = add_sum(&b, conv(x, 3, 3, 1, true, RC_ACT_NONE), x, RC_SHORTCUT_IDENTITY, "a");
    add_sum(&b, conv(x, 3, 3, 1, true, RC_ACT_NONE), x, RC_SHORTCUT_IDENTITY, "b");
    return rc_net_finish(&b);
}

static rc_layer depthwise(int in, int k, int stride, rc_act act)
{
    rc_layer layer = conv(in, 0, k, stride, true, act);
    layer.kind = RC_LAYER_DEPTHWISE;
    layer.same = true;
    layer.pad = 0;
    return layer;
}

/* Depthwise layers, padding that differs before and behind, ReLU6; SiLU read lazily, stored, added, and of a sum. */
static rc_status mobile(rc_net *net)
{
    rc_net_builder b = rc_net_start(net, "mobile", 3, 8, 8);
    rc_layer stem = conv(RC_NET_INPUT, 4, 3, 2, true, RC_ACT_RELU6);
    stem.same = true;
    stem.pad = 0;
    int x = add(&b, stem, "stem");
    int y = add(&b, conv(x, 6, 1, 1, true, RC_ACT_SILU), "expand");
    y = add(&b, depthwise(y, 5, 1, RC_ACT_RELU6), "depth");
    x = add_sum(&b, conv(y, 4, 1, 1, true, RC_ACT_NONE), x, RC_SHORTCUT_IDENTITY, "project");
    y = add(&b, conv(x, 5, 1, 1, true, RC_ACT_SILU), "expand_2");
    y = add_sum(&b, depthwise(y, 3, 1, RC_ACT_SILU), y, RC_SHORTCUT_IDENTITY, "depth_2");
    rc_layer last = depthwise(y, 3, 2, RC_ACT_RELU6);
    last.bn.on = false;
    last.bias = true;
    rc_layer pool = rc_part_pool(add(&b, last, "depth_3"));
    rc_net_add(&b, &pool);
    return rc_net_finish(&b);
}

const char *nn_test_net(rc_net *net, int index)
{
    static rc_status (*const nets[])(rc_net *) = {sums_pad_end, sums_pad_both,   projections, generator, autoencoder,
                                                  tangle,       late_parameters, open_sums,   mobile};
    if (index < 0 || (size_t)index >= sizeof nets / sizeof nets[0])
        return NULL;
    if (nets[index](net) != RC_OK)
        fail_msg("%s", rc_message());
    return net->name;
}

/* ---- random nets ------------------------------------------------------------------------------------------------ */

typedef struct dice_rolls {
    rc_rng rng;
    uint64_t next;
} dice_rolls;

static int roll(dice_rolls *dice, int sides)
{
    return (int)rc_rng_below(dice->rng, dice->next++, (uint32_t)sides);
}

static rc_layer random_layer(dice_rolls *dice, const rc_net *net)
{
    rc_layer layer = {.in = net->layers == 0 ? RC_NET_INPUT : roll(dice, net->layers + 1) - 1};
    if (net->layers > 0 && roll(dice, 2))
        layer.in = net->layers - 1;
    static const rc_layer_kind kinds[] = {RC_LAYER_CONV, RC_LAYER_CONV,   RC_LAYER_CONV,     RC_LAYER_CONV,
                                          RC_LAYER_BN,   RC_LAYER_LINEAR, RC_LAYER_MAX_POOL, RC_LAYER_AVERAGE_POOL};
    layer.kind = kinds[roll(dice, 8)];
    for (int i = 0; i < net->layers; i++) {
        if (layer.kind == RC_LAYER_AVERAGE_POOL && net->layer[i].kind == RC_LAYER_AVERAGE_POOL)
            layer.kind = RC_LAYER_BN;
    }
    layer.output = roll(dice, 6) == 0;
    bool pool = layer.kind == RC_LAYER_MAX_POOL || layer.kind == RC_LAYER_AVERAGE_POOL;
    if (!pool && (layer.kind == RC_LAYER_BN || roll(dice, 3) > 0))
        rc_part_normalise(&layer, 1e-2f, roll(dice, 3) > 0);
    if (!pool)
        layer.act = (rc_act)roll(dice, 5);
    if (pool || layer.kind == RC_LAYER_CONV) {
        layer.k = 1 + roll(dice, 3);
        layer.stride = 1 + (roll(dice, 3) == 0);
        layer.pad = pool ? roll(dice, layer.k / 2 + 1) : roll(dice, layer.k);
    }
    if (layer.kind == RC_LAYER_CONV || layer.kind == RC_LAYER_LINEAR) {
        layer.c_out = 1 + roll(dice, 6);
        layer.bias = roll(dice, 2);
        layer.map_h = 1 + roll(dice, 4);
        layer.map_w = 1 + roll(dice, 4);
    }
    if (layer.kind == RC_LAYER_CONV) {
        layer.transposed = roll(dice, 5) == 0;
        layer.up = !layer.transposed && layer.stride == 1 && roll(dice, 5) == 0 ? 2 : 1;
    }
    if (!pool && net->layers > 0 && roll(dice, 2)) {
        layer.shortcut = (rc_shortcut)(1 + roll(dice, 3));
        layer.skip = roll(dice, net->layers);
        if (layer.kind != RC_LAYER_BN && roll(dice, 4) > 0) { /* a convolution that fits the sum */
            const rc_layer *from = &net->layer[layer.skip];
            layer.shortcut = RC_SHORTCUT_IDENTITY;
            layer.kind = RC_LAYER_CONV;
            layer.k = 3;
            layer.pad = layer.stride = layer.up = 1;
            layer.transposed = false;
            layer.c_out = from->c_out;
            layer.in = roll(dice, net->layers);
        }
    }
    return layer;
}

void nn_random_net(rc_net *net, uint64_t seed)
{
    dice_rolls dice = {.rng = {seed, 77}};
    rc_net_builder builder = rc_net_start(net, "random", 1 + roll(&dice, 4), 3 + roll(&dice, 5), 3 + roll(&dice, 5));
    int wanted = 3 + roll(&dice, 8);
    for (int tries = 0; tries < 400 && net->layers < wanted; tries++) {
        rc_layer layer = random_layer(&dice, net);
        rc_part_name(layer.name, "layer_%d", net->layers);
        if (layer.bn.on)
            rc_part_name(layer.bn_name, "bn_%d", net->layers);
        rc_net_builder attempt = builder; /* most random layers do not fit; such a layer is dropped */
        size_t params = net->params, running = net->running;
        int bn_layers = net->bn_layers, index = rc_net_add(&attempt, &layer);
        const rc_layer *added = index >= 0 ? &net->layer[index] : NULL;
        if (added != NULL && (double)added->h * added->w * added->c_out > 600) {
            net->layers--;
            net->params = params;
            net->running = running;
            net->bn_layers = bn_layers;
        }
    }
    bool read[RC_MAX_LAYERS] = {false};
    for (int i = 0; i < net->layers; i++) {
        if (net->layer[i].in >= 0)
            read[net->layer[i].in] = true;
        if (net->layer[i].skip >= 0)
            read[net->layer[i].skip] = true;
    }
    for (int i = 0; i < net->layers; i++)
        net->layer[i].output = net->layer[i].output || !read[i];
    if (rc_net_finish(&builder) != RC_OK)
        fail_msg("%s", rc_message());
}

/* ---- chains ----------------------------------------------------------------------------------------------------- */

void nn_chain_net(rc_net *net, uint64_t seed)
{
    enum { STEM, DOWN, CHANNELS = 4, CHAIN_LAYERS = 12 };
    dice_rolls dice = {{seed, 7}, 0};
    static const rc_act acts[] = {RC_ACT_NONE, RC_ACT_RELU, RC_ACT_LEAKY_RELU};
    int layers = 6 + roll(&dice, CHAIN_LAYERS - 6 + 1);
    rc_layer layer[CHAIN_LAYERS];
    bool read[CHAIN_LAYERS] = {[STEM] = true};
    layer[STEM] = conv(RC_NET_INPUT, CHANNELS / 2, 3, 1, true, acts[roll(&dice, 3)]);
    layer[DOWN] = conv(STEM, CHANNELS, 3, 2, true, acts[roll(&dice, 3)]);
    for (int i = DOWN + 1; i < layers; i++) {
        int in = roll(&dice, 8) > 0 ? i - 1 : DOWN + roll(&dice, i - DOWN), kind = roll(&dice, 12);
        bool normalise = roll(&dice, 12) > 0; /* a statement each: calls in one have no order */
        layer[i] = conv(in, CHANNELS, 3, 1, normalise, acts[roll(&dice, 3)]);
        if (kind < 5) {
            layer[i].shortcut = RC_SHORTCUT_IDENTITY;
            layer[i].skip = kind < 3 && layer[in].in >= DOWN ? layer[in].in : DOWN + roll(&dice, i - DOWN);
            read[layer[i].skip] = true;
        } else if (kind == 5) {
            layer[i].shortcut = roll(&dice, 2) ? RC_SHORTCUT_PAD_END : RC_SHORTCUT_PAD_BOTH;
            layer[i].skip = STEM;
        }
        layer[i].output = roll(&dice, 10) == 0;
        layer[i].bias = roll(&dice, 12) == 0;
        read[in] = true;
    }
    rc_net_builder b = rc_net_start(net, "chain", 3, 6, 5);
    for (int i = 0; i < layers; i++) {
        layer[i].output = layer[i].output || !read[i];
        char name[32];
        snprintf(name, sizeof name, "link_%d", i);
        add(&b, layer[i], name);
    }
    rc_layer pool = rc_part_pool(layers - 1);
    if (roll(&dice, 2))
        rc_net_add(&b, &pool);
    if (rc_net_finish(&b) != RC_OK)
        fail_msg("%s", rc_message());
}
