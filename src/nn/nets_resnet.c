/* Residual nets. Layer names are the published implementations'. */
#include "nn/nets_parts.h"

/* A residual block: two 3x3 convolutions, the second of which adds the shortcut. */
typedef struct residual_block {
    const char *names[4];      /* formats of convolution, normalisation, convolution, normalisation, with the prefix */
    const char *projection[2]; /* formats of the 1x1 shortcut; NULL: none, the shortcut pads */
    rc_shortcut widening;      /* shortcut where the block halves the map; IDENTITY: over the projection */
    rc_init init;
    bool zero_gamma, last_relu;
} residual_block;

static rc_layer normalised(rc_layer layer)
{
    rc_part_normalise(&layer, RC_BN_EPS, true);
    return layer;
}

/* Adds the block named `prefix` after layer `in`; stride 2 widens and halves. Returns the last layer. */
static int add_block(rc_net_builder *builder, const residual_block *block, const char *prefix, int in, int c_out,
                     int stride)
{
    int skip = in;
    if (stride == 2 && block->projection[0] != NULL) {
        rc_layer shortcut = normalised(rc_part_conv(in, c_out, 1, 2, block->init));
        rc_part_name(shortcut.name, "%s.%s", prefix, block->projection[0]);
        rc_part_name(shortcut.bn_name, "%s.%s", prefix, block->projection[1]);
        skip = rc_net_add(builder, &shortcut);
    }
    rc_layer first = normalised(rc_part_conv(in, c_out, 3, stride, block->init));
    rc_part_name(first.name, "%s.%s", prefix, block->names[0]);
    rc_part_name(first.bn_name, "%s.%s", prefix, block->names[1]);
    first.act = RC_ACT_RELU;
    rc_layer second = normalised(rc_part_conv(rc_net_add(builder, &first), c_out, 3, 1, block->init));
    rc_part_name(second.name, "%s.%s", prefix, block->names[2]);
    rc_part_name(second.bn_name, "%s.%s", prefix, block->names[3]);
    second.shortcut = stride == 2 ? block->widening : RC_SHORTCUT_IDENTITY;
    second.skip = skip;
    second.act = block->last_relu ? RC_ACT_RELU : RC_ACT_NONE;
    second.bn.zero_gamma = block->zero_gamma;
    return rc_net_add(builder, &second);
}

/* The same with three convolutions, as torchvision has it: 1x1 to c_out / 4, 3x3 with the stride, 1x1 to c_out. */
static int add_bottleneck(rc_net_builder *builder, const char *prefix, int in, int c_out, int stride, bool project)
{
    static const struct {
        int k, narrowing;
    } part[3] = {{1, 4}, {3, 4}, {1, 1}};
    int skip = in, last = in;
    if (project) {
        rc_layer shortcut = normalised(rc_part_conv(in, c_out, 1, stride, RC_INIT_KAIMING_OUT));
        rc_part_name(shortcut.name, "%s.downsample.0", prefix);
        rc_part_name(shortcut.bn_name, "%s.downsample.1", prefix);
        skip = rc_net_add(builder, &shortcut);
    }
    for (int i = 0; i < 3; i++) {
        rc_layer layer = normalised(rc_part_conv(last, c_out / part[i].narrowing, part[i].k, i == 1 ? stride : 1,
                                                 RC_INIT_KAIMING_OUT));
        rc_part_name(layer.name, "%s.conv%d", prefix, i + 1);
        rc_part_name(layer.bn_name, "%s.bn%d", prefix, i + 1);
        layer.act = RC_ACT_RELU;
        layer.shortcut = i == 2 ? RC_SHORTCUT_IDENTITY : RC_SHORTCUT_NONE;
        layer.skip = skip;
        last = rc_net_add(builder, &layer);
    }
    return last;
}

static int add_wide_stem(rc_net_builder *builder, const char *name, const char *bn_name, int c_out, int k, int stride,
                         rc_init init)
{
    rc_layer stem = normalised(rc_part_conv(RC_NET_INPUT, c_out, k, stride, init));
    rc_part_name(stem.name, "%s", name);
    rc_part_name(stem.bn_name, "%s", bn_name);
    stem.act = RC_ACT_RELU;
    return rc_net_add(builder, &stem);
}

static int add_stem(rc_net_builder *builder, const char *name, const char *bn_name, int c_out, rc_init init)
{
    return add_wide_stem(builder, name, bn_name, c_out, 3, 1, init);
}

static int add_max_pool(rc_net_builder *builder, int last)
{
    rc_layer pool = {.name = "maxpool", .kind = RC_LAYER_MAX_POOL, .in = last, .k = 3, .stride = 2, .pad = 1};
    return rc_net_add(builder, &pool);
}

static rc_status finish(rc_net_builder *builder, int last)
{
    rc_layer pool = rc_part_pool(last);
    rc_net_add(builder, &pool);
    return rc_net_finish(builder);
}

/* ---- CIFAR style ----------------------------------------------------------------------------------------------- */

static const residual_block cifar_block = {
    .names = {"conv_a", "bn_a", "conv_b", "bn_b"},
    .widening = RC_SHORTCUT_PAD_END,
    .init = RC_INIT_KAIMING_OUT,
    .zero_gamma = true,
};

/* Stage s (from 1) has width << (s - 1) channels. Every stage but the first begins with a widening block. Blocks are
 * named `before` s `behind` . number. */
static int add_cifar_stage(rc_net_builder *builder, const residual_block *block, const char *before, const char *behind,
                           int stage, int blocks, int width, int last)
{
    for (int i = 0; i < blocks; i++) {
        char prefix[RC_NAME_MAX + 1] = "";
        rc_part_name(prefix, "%s%d%s.%d", before, stage, behind, i);
        last = add_block(builder, block, prefix, last, width << (stage - 1), i == 0 && stage > 1 ? 2 : 1);
    }
    return last;
}

rc_status rc_net_resnet32(rc_net *net, int c, int h, int w)
{
    rc_net_builder builder = rc_net_start(net, "resnet32", c, h, w);
    int last = add_stem(&builder, "conv_1_3x3", "bn_1", 16, RC_INIT_KAIMING_OUT);
    last = add_cifar_stage(&builder, &cifar_block, "stage_", ".blocks", 1, 5, 16, last);
    last = add_cifar_stage(&builder, &cifar_block, "stage_", ".blocks", 2, 5, 16, last);
    last = add_cifar_stage(&builder, &cifar_block, "stage_", ".blocks", 3, 4, 16, last);
    last = add_block(&builder, &cifar_block, "stage_4", last, 64, 1);
    return finish(&builder, last);
}

rc_status rc_net_resnet_small(rc_net *net, int c, int h, int w, int width, int blocks)
{
    if (width < 1 || width > 4096 || blocks < 1 || blocks > 32)
        return rc_fail(RC_INVALID_ARGUMENT, "resnet-small has width %d and %d blocks, expected 1 to 4096 and 1 to 32",
                       width, blocks);
    rc_net_builder builder = rc_net_start(net, "resnet-small", c, h, w);
    int last = add_stem(&builder, "conv_1_3x3", "bn_1", width, RC_INIT_KAIMING_OUT);
    for (int stage = 1; stage <= 3; stage++)
        last = add_cifar_stage(&builder, &cifar_block, "stage_", ".blocks", stage, blocks, width, last);
    return finish(&builder, last);
}

rc_status rc_net_resnet32_abd(rc_net *net, int c, int h, int w)
{
    residual_block block = cifar_block;
    block.widening = RC_SHORTCUT_PAD_BOTH;
    block.init = RC_INIT_KAIMING_IN;
    block.zero_gamma = false;
    block.last_relu = true;
    rc_net_builder builder = rc_net_start(net, "resnet32-abd", c, h, w);
    int last = add_stem(&builder, "conv_1_3x3", "bn_1", 16, block.init);
    for (int stage = 1; stage <= 3; stage++)
        last = add_cifar_stage(&builder, &block, "stage_", "", stage, 5, 16, last);
    return finish(&builder, last);
}

/* akamaster's: ReLU after every addition, shortcuts padded on both sides ("option A"). `depth` is 6 blocks + 2. */
static rc_status cifar_resnet(rc_net *net, int c, int h, int w, int depth)
{
    const residual_block block = {
        .names = {"conv1", "bn1", "conv2", "bn2"},
        .widening = RC_SHORTCUT_PAD_BOTH,
        .init = RC_INIT_KAIMING_IN,
        .last_relu = true,
    };
    char name[RC_NAME_MAX + 1] = "";
    rc_part_name(name, "cifar-resnet%d", depth);
    rc_net_builder builder = rc_net_start(net, name, c, h, w);
    int last = add_stem(&builder, "conv1", "bn1", 16, block.init);
    for (int stage = 1; stage <= 3; stage++)
        last = add_cifar_stage(&builder, &block, "layer", "", stage, (depth - 2) / 6, 16, last);
    return finish(&builder, last);
}

rc_status rc_net_cifar_resnet20(rc_net *net, int c, int h, int w)
{
    return cifar_resnet(net, c, h, w, 20);
}

rc_status rc_net_cifar_resnet32(rc_net *net, int c, int h, int w)
{
    return cifar_resnet(net, c, h, w, 32);
}

rc_status rc_net_cifar_resnet44(rc_net *net, int c, int h, int w)
{
    return cifar_resnet(net, c, h, w, 44);
}

rc_status rc_net_cifar_resnet56(rc_net *net, int c, int h, int w)
{
    return cifar_resnet(net, c, h, w, 56);
}

/* ---- ImageNet style -------------------------------------------------------------------------------------------- */

/* Four stages of two blocks, widths 64 to 512; `last_relu`: after the second block of a stage too. */
static int add_imagenet_stages(rc_net_builder *builder, residual_block block, bool last_relu, int last)
{
    for (int stage = 1; stage <= 4; stage++) {
        for (int i = 0; i < 2; i++) {
            char prefix[RC_NAME_MAX + 1] = "";
            rc_part_name(prefix, "layer%d.%d", stage, i);
            block.last_relu = i == 0 || last_relu;
            last = add_block(builder, &block, prefix, last, 64 << (stage - 1), i == 0 && stage > 1 ? 2 : 1);
        }
    }
    return last;
}

rc_status rc_net_resnet18(rc_net *net, int c, int h, int w)
{
    const residual_block block = {
        .names = {"conv1", "bn1", "conv2", "bn2"},
        .projection = {"downsample.0", "downsample.1"},
        .widening = RC_SHORTCUT_IDENTITY,
        .init = RC_INIT_KAIMING_OUT,
        .zero_gamma = true,
    };
    rc_net_builder builder = rc_net_start(net, "resnet18", c, h, w);
    int last = add_stem(&builder, "conv1", "bn1", 64, RC_INIT_KAIMING_OUT);
    last = add_max_pool(&builder, last);
    last = add_imagenet_stages(&builder, block, false, last);
    return finish(&builder, last);
}

rc_status rc_net_resnet18_mammoth(rc_net *net, int c, int h, int w)
{
    const residual_block block = {
        .names = {"conv1", "bn1", "conv2", "bn2"},
        .projection = {"shortcut.0", "shortcut.1"},
        .widening = RC_SHORTCUT_IDENTITY,
        .init = RC_INIT_DEFAULT,
    };
    rc_net_builder builder = rc_net_start(net, "resnet18-mammoth", c, h, w);
    int last = add_stem(&builder, "conv1", "bn1", 64, RC_INIT_DEFAULT);
    last = add_imagenet_stages(&builder, block, true, last);
    return finish(&builder, last);
}

/* torchvision's: a stem of 7x7 that halves, and a pooling that halves again; ReLU after every addition. */
static rc_status torchvision_resnet(rc_net *net, int c, int h, int w, const char *name, const int blocks[4],
                                    bool bottleneck)
{
    const residual_block block = {
        .names = {"conv1", "bn1", "conv2", "bn2"},
        .projection = {"downsample.0", "downsample.1"},
        .widening = RC_SHORTCUT_IDENTITY,
        .init = RC_INIT_KAIMING_OUT,
        .last_relu = true,
    };
    rc_net_builder builder = rc_net_start(net, name, c, h, w);
    int last = add_max_pool(&builder, add_wide_stem(&builder, "conv1", "bn1", 64, 7, 2, RC_INIT_KAIMING_OUT));
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < blocks[stage]; i++) {
            char prefix[RC_NAME_MAX + 1] = "";
            int stride = i == 0 && stage > 0 ? 2 : 1;
            rc_part_name(prefix, "layer%d.%d", stage + 1, i);
            last = bottleneck ? add_bottleneck(&builder, prefix, last, 256 << stage, stride, i == 0)
                              : add_block(&builder, &block, prefix, last, 64 << stage, stride);
        }
    }
    return finish(&builder, last);
}

rc_status rc_net_torchvision_resnet18(rc_net *net, int c, int h, int w)
{
    return torchvision_resnet(net, c, h, w, "torchvision-resnet18", (const int[4]){2, 2, 2, 2}, false);
}

rc_status rc_net_torchvision_resnet34(rc_net *net, int c, int h, int w)
{
    return torchvision_resnet(net, c, h, w, "torchvision-resnet34", (const int[4]){3, 4, 6, 3}, false);
}

rc_status rc_net_torchvision_resnet50(rc_net *net, int c, int h, int w)
{
    return torchvision_resnet(net, c, h, w, "torchvision-resnet50", (const int[4]){3, 4, 6, 3}, true);
}
