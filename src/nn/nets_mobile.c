/* Nets of inverted residual blocks, for small machines: a 1x1 that widens, a depthwise window, a 1x1 without
 * activation that narrows, and a shortcut between narrow maps. Layer names are the published implementations'. */
#include <math.h>

#include "nn/nets_parts.h"

/* Blocks one after another; the first of them has the stride and changes the width. */
typedef struct stage {
    int blocks, k, stride, widening, c_out;
} stage;

/* What two families do differently. */
typedef struct family {
    bool same; /* TensorFlow's padding, else PyTorch's */
    float eps, momentum;
} family;

static rc_layer layer_of(const family *f, rc_layer_kind kind, int in, int c_out, int k, int stride, rc_act act)
{
    rc_layer layer = rc_part_conv(in, c_out, k, stride, RC_INIT_KAIMING_OUT);
    layer.kind = kind;
    layer.same = f->same;
    layer.pad = f->same ? 0 : layer.pad;
    rc_part_normalise(&layer, f->eps, true);
    layer.bn.momentum = f->momentum;
    layer.act = act;
    return layer;
}

/* Names of a block's three convolutions and of their normalisations, behind its prefix. */
typedef struct block_names {
    const char *widen[2], *window[2], *narrow[2];
} block_names;

static int add_named(rc_net_builder *builder, rc_layer *layer, const char *prefix, const char *const names[2])
{
    rc_part_name(layer->name, "%s.%s", prefix, names[0]);
    rc_part_name(layer->bn_name, "%s.%s", prefix, names[1]);
    return rc_net_add(builder, layer);
}

static int add_block(rc_net_builder *builder, const family *f, const block_names *names, const char *prefix, int in,
                     int c_in, const stage *s, int stride)
{
    int wide = c_in * s->widening, last = in;
    if (s->widening > 1) {
        rc_layer widen = layer_of(f, RC_LAYER_CONV, last, wide, 1, 1, RC_ACT_RELU6);
        last = add_named(builder, &widen, prefix, names->widen);
    }
    rc_layer window = layer_of(f, RC_LAYER_DEPTHWISE, last, wide, s->k, stride, RC_ACT_RELU6);
    last = add_named(builder, &window, prefix, names->window);
    rc_layer narrow = layer_of(f, RC_LAYER_CONV, last, s->c_out, 1, 1, RC_ACT_NONE);
    narrow.shortcut = stride == 1 && c_in == s->c_out ? RC_SHORTCUT_IDENTITY : RC_SHORTCUT_NONE;
    narrow.skip = in;
    return add_named(builder, &narrow, prefix, names->narrow);
}

static int add_plain(rc_net_builder *builder, const family *f, int in, int c_out, int k, int stride, const char *name,
                     const char *bn_name)
{
    rc_layer layer = layer_of(f, RC_LAYER_CONV, in, c_out, k, stride, RC_ACT_RELU6);
    rc_part_name(layer.name, "%s", name);
    rc_part_name(layer.bn_name, "%s", bn_name);
    return rc_net_add(builder, &layer);
}

static rc_status finish(rc_net_builder *builder, int last)
{
    rc_layer pool = rc_part_pool(last);
    rc_net_add(builder, &pool);
    return rc_net_finish(builder);
}

enum { STEM = 32, FEATURES = 1280, STAGES = 7 };

/* ---- EfficientNet-Lite ------------------------------------------------------------------------------------------ */

/* A multiple of 8 near width * factor, and no less than nine tenths of it. */
static int scaled_width(int width, double factor)
{
    double wanted = width * factor;
    int rounded = (int)(wanted + 4) / 8 * 8;
    rounded = rounded < 8 ? 8 : rounded;
    return rounded < 0.9 * wanted ? rounded + 8 : rounded;
}

/* Stem and head are not scaled, and neither are the blocks of the first and of the last stage. */
static rc_status efficientnet_lite(rc_net *net, int c, int h, int w, int number, double width, double depth)
{
    static const stage base[STAGES] = {{1, 3, 1, 1, 16},  {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40}, {3, 3, 2, 6, 80},
                                       {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320}};
    static const block_names names = {{"_expand_conv", "_bn0"}, {"_depthwise_conv", "_bn1"}, {"_project_conv", "_bn2"}};
    const family lite = {.same = true, .eps = 1e-3f, .momentum = 0.01f};
    char name[RC_NAME_MAX + 1] = "";
    rc_part_name(name, "efficientnet-lite%d", number);
    rc_net_builder builder = rc_net_start(net, name, c, h, w);
    int last = add_plain(&builder, &lite, RC_NET_INPUT, STEM, 3, 2, "_conv_stem", "_bn0");
    int c_in = STEM, block = 0;
    for (int i = 0; i < STAGES; i++) {
        stage s = base[i];
        s.c_out = scaled_width(s.c_out, width);
        if (i > 0 && i < STAGES - 1)
            s.blocks = (int)ceil(s.blocks * depth);
        for (int k = 0; k < s.blocks; k++, block++) {
            char prefix[RC_NAME_MAX + 1] = "";
            rc_part_name(prefix, "_blocks.%d", block);
            last = add_block(&builder, &lite, &names, prefix, last, c_in, &s, k == 0 ? s.stride : 1);
            c_in = s.c_out;
        }
    }
    return finish(&builder, add_plain(&builder, &lite, last, FEATURES, 1, 1, "_conv_head", "_bn1"));
}

rc_status rc_net_efficientnet_lite0(rc_net *net, int c, int h, int w)
{
    return efficientnet_lite(net, c, h, w, 0, 1.0, 1.0);
}

rc_status rc_net_efficientnet_lite1(rc_net *net, int c, int h, int w)
{
    return efficientnet_lite(net, c, h, w, 1, 1.0, 1.1);
}

rc_status rc_net_efficientnet_lite2(rc_net *net, int c, int h, int w)
{
    return efficientnet_lite(net, c, h, w, 2, 1.1, 1.2);
}

rc_status rc_net_efficientnet_lite3(rc_net *net, int c, int h, int w)
{
    return efficientnet_lite(net, c, h, w, 3, 1.2, 1.4);
}

rc_status rc_net_efficientnet_lite4(rc_net *net, int c, int h, int w)
{
    return efficientnet_lite(net, c, h, w, 4, 1.4, 1.8);
}

/* ---- MobileNetV2 ------------------------------------------------------------------------------------------------ */

rc_status rc_net_mobilenet_v2(rc_net *net, int c, int h, int w)
{
    static const stage stages[STAGES] = {{1, 3, 1, 1, 16}, {2, 3, 2, 6, 24},  {3, 3, 2, 6, 32}, {4, 3, 2, 6, 64},
                                         {3, 3, 1, 6, 96}, {3, 3, 2, 6, 160}, {1, 3, 1, 6, 320}};
    static const block_names first = {{NULL, NULL}, {"conv.0.0", "conv.0.1"}, {"conv.1", "conv.2"}},
                             others = {{"conv.0.0", "conv.0.1"}, {"conv.1.0", "conv.1.1"}, {"conv.2", "conv.3"}};
    const family torchvision = {.eps = RC_BN_EPS, .momentum = RC_BN_MOMENTUM};
    rc_net_builder builder = rc_net_start(net, "mobilenet-v2", c, h, w);
    int last = add_plain(&builder, &torchvision, RC_NET_INPUT, STEM, 3, 2, "features.0.0", "features.0.1");
    int c_in = STEM, block = 1;
    for (int i = 0; i < STAGES; i++) {
        const stage *s = &stages[i];
        for (int k = 0; k < s->blocks; k++, block++) {
            char prefix[RC_NAME_MAX + 1] = "";
            rc_part_name(prefix, "features.%d", block);
            last = add_block(&builder, &torchvision, s->widening > 1 ? &others : &first, prefix, last, c_in, s,
                             k == 0 ? s->stride : 1);
            c_in = s->c_out;
        }
    }
    return finish(&builder, add_plain(&builder, &torchvision, last, FEATURES, 1, 1, "features.18.0", "features.18.1"));
}
