/* Nets as data: sizes of the published ones, shapes, names, and what the builder refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/model.h"
#include "nn/nets.h"
#include "support/nn_nets.h"

static rc_net net;

static void must(rc_status status)
{
    if (status != RC_OK)
        fail_msg("%s", rc_message());
}

/* ---- the published nets ----------------------------------------------------------------------------------------- */

static void parameters_of_published_nets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int size;
        size_t params;
        int bn_layers;
        double macs; /* millions */
    } published[] = {
        {"resnet32", 32, 463504, 31, 69},
        {"resnet32", 64, 463504, 31, 275},
        {"resnet18", 224, 11168832, 20, 6869},
        {"resnet32-abd", 32, 463504, 31, 69},
        {"resnet18-mammoth", 32, 11168832, 20, 555},
        {"torchvision-resnet18", 224, 11176512, 20, 1814},
        {"torchvision-resnet34", 224, 21284672, 36, 3663},
        {"torchvision-resnet50", 224, 23508032, 53, 4087},
        {"cifar-resnet20", 32, 269072, 19, 41},
        {"cifar-resnet32", 32, 463504, 31, 69},
        {"cifar-resnet44", 32, 657936, 43, 97},
        {"cifar-resnet56", 32, 852368, 55, 125},
        {"efficientnet-lite0", 224, 3371008, 49, 384},
        {"efficientnet-lite1", 240, 4135680, 64, 599},
        {"efficientnet-lite2", 260, 4811072, 64, 858},
        {"efficientnet-lite3", 280, 6916096, 73, 1382},
        {"efficientnet-lite4", 300, 11725568, 91, 2552},
        {"mobilenet-v2", 224, 2223872, 52, 299},
        {"generator", 32, 8423939, 4, 123},
        {"generator", 64, 8571779, 5, 506},
        {"generator", 224, 3326275, 7, 2554},
        {"vae-encoder", 32, 17962688, 0, 43},
        {"vae-decoder", 32, 10759491, 0, 60},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        must(rc_net_by_name(&net, published[i].name, 3, published[i].size, published[i].size));
        assert_int_equal(net.params, published[i].params);
        assert_int_equal(net.bn_layers, published[i].bn_layers);
        double macs = rc_net_macs(&net) / 1e6;
        if (macs < published[i].macs - 0.5 || macs > published[i].macs + 0.5)
            fail_msg("%s at %d pixels: %.1f MMAC, expected %.0f", published[i].name, published[i].size, macs,
                     published[i].macs);
    }
}

static void shapes_of_generators(void **state)
{
    (void)state;
    static const struct {
        int size, map, doublings;
    } rule[] = {{28, 7, 2}, {32, 8, 2}, {64, 8, 3}, {84, 21, 2}, {224, 7, 5}, {300, 75, 2}, {16, 8, 1}};
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++) {
        must(rc_net_generator(&net, 1, rule[i].size));
        assert_int_equal(net.c, 1000);
        assert_int_equal(net.layers, rule[i].doublings + 3);
        assert_int_equal(net.layer[0].h, rule[i].map);
        const rc_layer *last = &net.layer[net.layers - 1];
        assert_int_equal(last->h, rule[i].size);
        assert_int_equal(last->w, rule[i].size);
        assert_int_equal(last->c_out, 1);
        assert_true(last->output && !last->bn.affine && last->bn.on);
        assert_true(net.layer[1].bn.eps == 0.8f && net.layer[0].bn.eps == 1e-5f && last->bn.eps == 1e-5f);
    }
}

static void odd_sizes(void **state)
{
    (void)state;
    must(rc_net_resnet32(&net, 3, 33, 30));
    assert_int_equal(net.layer[11].h, 17);
    assert_int_equal(net.layer[11].w, 15);
    assert_int_equal(net.layer[21].h, 9);
    assert_int_equal(net.layer[21].w, 8);
    must(rc_net_resnet18(&net, 3, 35, 1));
    assert_int_equal(net.layer[1].h, 18);
    assert_int_equal(net.layer[20].w, 1);
    must(rc_net_resnet32(&net, 1, 1, 1));
}

static void residual_rules_of_each_net(void **state)
{
    (void)state;
    must(rc_net_resnet32(&net, 3, 32, 32));
    for (int i = 0; i < net.layers; i++) {
        const rc_layer *layer = &net.layer[i];
        if (layer->shortcut == RC_SHORTCUT_NONE)
            continue;
        assert_int_equal(layer->act, RC_ACT_NONE);
        assert_true(layer->bn.zero_gamma);
        assert_int_equal(layer->skip_offset, 0);
    }
    must(rc_net_resnet32_abd(&net, 3, 32, 32));
    assert_int_equal(net.layer[12].shortcut, RC_SHORTCUT_PAD_BOTH);
    assert_int_equal(net.layer[12].skip_offset, 8);
    assert_int_equal(net.layer[22].skip_offset, 16);
    assert_int_equal(net.layer[12].act, RC_ACT_RELU);
    assert_false(net.layer[12].bn.zero_gamma);
    must(rc_net_resnet18(&net, 3, 64, 64));
    assert_int_equal(net.layer[8].skip, 6);
    assert_int_equal(net.layer[8].act, RC_ACT_RELU);
    assert_int_equal(net.layer[10].act, RC_ACT_NONE);
    assert_int_equal(net.layer[6].act, RC_ACT_NONE);
    assert_false(net.layer[6].bn.zero_gamma);
    assert_true(net.layer[6].keep_value && net.layer[8].keep_value && !net.layer[7].keep_value);
}

static bool has_slice(const char *name, int dims, const int *shape)
{
    rc_slice slice;
    for (int i = 0; rc_net_slice(&net, i, &slice); i++) {
        if (strcmp(slice.name, name) == 0)
            return slice.dims == dims && memcmp(slice.shape, shape, (size_t)dims * sizeof *shape) == 0;
    }
    return false;
}

static void names_are_the_published_ones(void **state)
{
    (void)state;
    must(rc_net_resnet32(&net, 3, 32, 32));
    assert_true(has_slice("conv_1_3x3.weight", 4, (int[]){16, 3, 3, 3}));
    assert_true(has_slice("bn_1.running_var", 1, (int[]){16}));
    assert_true(has_slice("stage_2.blocks.0.conv_a.weight", 4, (int[]){32, 16, 3, 3}));
    assert_true(has_slice("stage_3.blocks.3.bn_b.bias", 1, (int[]){64}));
    assert_true(has_slice("stage_4.conv_b.weight", 4, (int[]){64, 64, 3, 3}));
    assert_false(has_slice("stage_4.blocks.0.conv_b.weight", 4, (int[]){64, 64, 3, 3}));
    must(rc_net_resnet18(&net, 3, 32, 32));
    assert_true(has_slice("layer3.0.downsample.0.weight", 4, (int[]){256, 128, 1, 1}));
    assert_true(has_slice("layer3.0.downsample.1.running_mean", 1, (int[]){256}));
    assert_true(has_slice("layer4.1.bn2.weight", 1, (int[]){512}));
    must(rc_net_by_name(&net, "torchvision-resnet50", 3, 64, 64));
    assert_true(has_slice("conv1.weight", 4, (int[]){64, 3, 7, 7}));
    assert_true(has_slice("layer1.0.downsample.0.weight", 4, (int[]){256, 64, 1, 1}));
    assert_true(has_slice("layer2.0.conv2.weight", 4, (int[]){128, 128, 3, 3}));
    assert_true(has_slice("layer4.2.bn3.running_var", 1, (int[]){2048}));
    must(rc_net_by_name(&net, "cifar-resnet56", 3, 32, 32));
    assert_true(has_slice("layer3.8.conv2.weight", 4, (int[]){64, 64, 3, 3}));
    must(rc_net_by_name(&net, "efficientnet-lite4", 3, 64, 64));
    assert_true(has_slice("_conv_stem.weight", 4, (int[]){32, 3, 3, 3}));
    assert_true(has_slice("_blocks.0._depthwise_conv.weight", 4, (int[]){32, 1, 3, 3}));
    assert_true(has_slice("_blocks.29._project_conv.weight", 4, (int[]){448, 1632, 1, 1}));
    assert_false(has_slice("_blocks.0._expand_conv.weight", 4, (int[]){32, 32, 1, 1}));
    assert_true(has_slice("_bn1.running_var", 1, (int[]){1280}));
    must(rc_net_by_name(&net, "mobilenet-v2", 3, 64, 64));
    assert_true(has_slice("features.1.conv.1.weight", 4, (int[]){16, 32, 1, 1}));
    assert_true(has_slice("features.17.conv.3.running_mean", 1, (int[]){320}));
    must(rc_net_generator(&net, 3, 32));
    assert_true(has_slice("linear.weight", 2, (int[]){8192, 1000}));
    assert_true(has_slice("linear.bias", 1, (int[]){8192}));
    assert_true(has_slice("bn_3.running_mean", 1, (int[]){3}));
    assert_false(has_slice("bn_3.weight", 1, (int[]){3}));
    must(rc_net_vae_decoder(&net, 3, 32, RC_VAE_WIDTH));
    assert_true(has_slice("deconv_1.weight", 4, (int[]){512, 256, 4, 4}));
}

/* Slices follow one another without gap, cover everything, and no two have one name. */
static void slices_cover_everything(void **state)
{
    (void)state;
    for (int n = 0; rc_net_known_name(n) != NULL; n++) {
        must(rc_net_by_name(&net, rc_net_known_name(n), 3, 32, 32));
        size_t params = 0, running = 0;
        rc_slice slice, other;
        for (int i = 0; rc_net_slice(&net, i, &slice); i++) {
            size_t *used = slice.running ? &running : &params, product = 1;
            assert_int_equal(slice.offset, *used);
            *used += slice.count;
            for (int d = 0; d < slice.dims; d++)
                product *= (size_t)slice.shape[d];
            assert_int_equal(product, slice.count);
            for (int j = 0; j < i && rc_net_slice(&net, j, &other); j++)
                assert_string_not_equal(slice.name, other.name);
        }
        assert_int_equal(params, net.params);
        assert_int_equal(running, net.running);
        assert_false(rc_net_slice(&net, -1, &slice));
    }
}

/* What the settings net and generator offer: every net that ends in average pooling; nets that make images. */
static void nets_are_offered_for_what_they_are(void **state)
{
    (void)state;
    char backbones[512] = "", name[64];
    for (int n = 0; rc_net_known_name(n) != NULL; n++) {
        must(rc_net_by_name(&net, rc_net_known_name(n), 3, 32, 32));
        size_t used = strlen(backbones);
        if (net.layer[net.layers - 1].kind == RC_LAYER_AVERAGE_POOL)
            snprintf(backbones + used, sizeof backbones - used, "%s%s", used > 0 ? "|" : "", rc_net_known_name(n));
    }
    assert_string_equal(backbones, RC_BACKBONES);
    for (const char *p = RC_GENERATORS; *p != '\0'; p += strcspn(p, "|") + (p[strcspn(p, "|")] == '|')) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "|"), p);
        must(rc_net_by_name(&net, name, 3, 32, 32));
        const rc_layer *image = &net.layer[net.layers - 1];
        assert_true(net.h == 1 && net.w == 1 && image->h == 32 && image->w == 32 && image->c_out == 3);
    }
}

/* ---- what the builder refuses ----------------------------------------------------------------------------------- */

static const rc_layer good = {
    .name = "good", .kind = RC_LAYER_CONV, .in = RC_NET_INPUT, .k = 3, .stride = 1, .pad = 1, .c_out = 4};

/* Builds input -> "first" (4 channels, 8 x 8) -> layer, and expects it to be refused in these words. */
static void refused(rc_layer layer, const char *words)
{
    rc_net_builder builder = rc_net_start(&net, "test", 3, 8, 8);
    rc_layer first = good;
    strcpy(first.name, "first");
    rc_net_add(&builder, &first);
    assert_int_equal(rc_net_add(&builder, &layer), RC_NO_LAYER);
    assert_int_equal(rc_net_finish(&builder), RC_INVALID_ARGUMENT);
    if (strstr(rc_message(), words) == NULL)
        fail_msg("message is \"%s\", expected \"%s\"", rc_message(), words);
    if (layer.name[0] != 0 && memchr(layer.name, 0, RC_NAME_MAX) && strstr(rc_message(), layer.name) == NULL)
        fail_msg("message is \"%s\", which does not name the layer %s", rc_message(), layer.name);
    assert_int_equal(net.layers, 0);
}

#define REFUSED(words, ...) \
    do { \
        rc_layer layer = good; \
        __VA_ARGS__; \
        refused(layer, words); \
    } while (0)

static void bad_layers(void **state)
{
    (void)state;
    REFUSED("name is empty", layer.name[0] = 0);
    REFUSED("name has no end", memset(layer.name, 'x', sizeof layer.name));
    REFUSED("kind is 9", layer.kind = (rc_layer_kind)9);
    REFUSED("kind is -1", layer.kind = (rc_layer_kind)-1);
    REFUSED("activation is 77", layer.act = (rc_act)77);
    REFUSED("shortcut is 4", layer.shortcut = (rc_shortcut)4);
    REFUSED("init is 3", layer.init = (rc_init)3);
    REFUSED("input is 1", layer.in = 1);
    REFUSED("input is -2", layer.in = RC_NO_LAYER);
    REFUSED("input is 1000000", layer.in = 1000000);
    REFUSED("c_out is 0", layer.c_out = 0);
    REFUSED("c_out is -3", layer.c_out = -3);
    REFUSED("k is 0", layer.k = 0);
    REFUSED("stride is 0", layer.stride = 0);
    REFUSED("stride is -1", layer.stride = -1);
    REFUSED("pad is -1", layer.pad = -1);
    REFUSED("pad is 3", layer.pad = 3);
    REFUSED("up is 3", layer.up = 3);
    REFUSED("up is -1", layer.up = -1);
    REFUSED("up is 2", layer.up = 2, layer.stride = 2);
    REFUSED("up is 2", layer.up = 2, layer.transposed = true);
    REFUSED("k is 11, which does not fit", layer.k = 11);
    REFUSED("does not fit", layer.k = 9, layer.pad = 0);
    REFUSED("does not fit", layer.transposed = true, layer.in = 0, layer.stride = 1, layer.k = 9, layer.pad = 8);
    REFUSED("c_out is 2147483647, expected 1 to 1073741823", layer.c_out = INT32_MAX);
    REFUSED("more than 2147483647 elements", layer.c_out = 1 << 25);
    REFUSED("more than 2147483647 weights", layer.c_out = 1 << 20, layer.in = 0, layer.k = 30, layer.pad = 11);
    REFUSED("more than 2147483647 elements", layer.transposed = true, layer.stride = 30000);
    REFUSED("bn_name is 'good', which is the layer's name", layer.bn.on = true, layer.bn.eps = 1,
            strcpy(layer.bn_name, "good"));
    REFUSED("bn_name is empty", layer.bn.on = true, layer.bn.eps = 1e-5f);
    REFUSED("bn.eps is 0", layer.bn.on = true, strcpy(layer.bn_name, "bn"));
    REFUSED("bn.eps is nan", layer.bn.on = true, layer.bn.eps = strtof("nan", NULL), strcpy(layer.bn_name, "bn"));
    REFUSED("bn.momentum is 2", layer.bn.on = true, layer.bn.eps = 1, layer.bn.momentum = 2,
            strcpy(layer.bn_name, "bn"));
}

static void bad_layers_of_other_kinds(void **state)
{
    (void)state;
    REFUSED("pooling takes no", layer.kind = RC_LAYER_MAX_POOL, layer.act = RC_ACT_RELU, layer.c_out = 0);
    REFUSED("pooling takes no", layer.kind = RC_LAYER_AVERAGE_POOL, layer.bias = true, layer.c_out = 0);
    REFUSED("c_out is 4, expected 0 or the 3", layer.kind = RC_LAYER_MAX_POOL);
    REFUSED("pad is 2", layer.kind = RC_LAYER_MAX_POOL, layer.c_out = 0, layer.pad = 2);
    REFUSED("stride is 0", layer.kind = RC_LAYER_MAX_POOL, layer.c_out = 0, layer.stride = 0);
    REFUSED("does not fit", layer.kind = RC_LAYER_MAX_POOL, layer.c_out = 0, layer.k = 12);
    REFUSED("needs bn.on", layer.kind = RC_LAYER_BN, layer.c_out = 0);
    REFUSED("its input is 8 x 8 pixels, expected 1 x 1", layer.kind = RC_LAYER_LINEAR);
    REFUSED("c_out is 4, expected 0 or the 3", layer.kind = RC_LAYER_DEPTHWISE);
    REFUSED("k is 0", layer.kind = RC_LAYER_DEPTHWISE, layer.c_out = 0, layer.k = 0);
    REFUSED("neither transposed nor enlarges its input: up is 2", layer.kind = RC_LAYER_DEPTHWISE, layer.c_out = 0,
            layer.up = 2);
    REFUSED("neither transposed nor enlarges", layer.kind = RC_LAYER_DEPTHWISE, layer.c_out = 0,
            layer.transposed = true);
    REFUSED("same, which only a convolution", layer.kind = RC_LAYER_MAX_POOL, layer.c_out = 0, layer.same = true);
    REFUSED("pad is 1, expected 0", layer.same = true);
    REFUSED("goes with neither a transposed", layer.same = true, layer.pad = 0, layer.transposed = true);
    REFUSED("goes with neither a transposed", layer.same = true, layer.pad = 0, layer.up = 2);
}

/* The padding before the first pixel and the size of the result, by hand. */
static void same_padding(void **state)
{
    (void)state;
    static const struct {
        int size, k, stride, pad, result;
    } cases[] = {{224, 3, 2, 0, 112}, {112, 5, 2, 1, 56}, {7, 3, 2, 1, 4},  {13, 5, 2, 2, 7},
                 {14, 5, 1, 2, 14},   {9, 4, 1, 1, 9},    {5, 1, 2, 0, 3},  {6, 2, 3, 0, 2},
                 {224, 7, 2, 2, 112}, {1, 5, 2, 2, 1},    {10, 1, 3, 0, 4}, {8, 3, 1, 1, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rc_net_builder builder = rc_net_start(&net, "same", 5, cases[i].size, cases[i].size);
        rc_layer layer = good;
        layer.kind = i % 2 ? RC_LAYER_DEPTHWISE : RC_LAYER_CONV;
        layer.c_out = i % 2 ? 0 : 4;
        layer.k = cases[i].k;
        layer.stride = cases[i].stride;
        layer.pad = 0;
        layer.same = true;
        rc_net_add(&builder, &layer);
        assert_int_equal(rc_net_finish(&builder), RC_OK);
        rc_conv conv = rc_layer_conv(&net.layer[0]);
        assert_int_equal(conv.pad, cases[i].pad);
        assert_int_equal(conv.oh, cases[i].result);
        assert_int_equal(conv.ow, cases[i].result);
        int c_out = i % 2 ? 5 : 4, each = i % 2 ? 1 : 5, k = cases[i].k;
        assert_int_equal(net.params, c_out * each * k * k);
        assert_true(rc_net_macs(&net) == (double)c_out * each * k * k * conv.oh * conv.ow);
    }
    rc_net_builder builder = rc_net_start(&net, "same", 3, 8, 9);
    rc_layer layer = good;
    layer.stride = 2;
    layer.pad = 0;
    layer.same = true;
    rc_net_add(&builder, &layer);
    assert_int_equal(rc_net_finish(&builder), RC_INVALID_ARGUMENT);
    assert_non_null(strstr(rc_message(), "8 x 9 pixels would need 0 rows and 1 columns before it"));
}

static void bad_shortcuts(void **state)
{
    (void)state;
    REFUSED("skip is -1", layer.in = 0, layer.shortcut = RC_SHORTCUT_IDENTITY, layer.skip = RC_NET_INPUT);
    REFUSED("skip is 1", layer.in = 0, layer.shortcut = RC_SHORTCUT_IDENTITY, layer.skip = 1);
    REFUSED("brings 4 channels to a sum of 5", layer.in = 0, layer.c_out = 5, layer.shortcut = RC_SHORTCUT_IDENTITY);
    REFUSED("brings 8 x 8 pixels to a sum of 4 x 4", layer.in = 0, layer.stride = 2,
            layer.shortcut = RC_SHORTCUT_IDENTITY);
    REFUSED("brings 4 x 4 pixels to a sum of 8 x 8", layer.in = 0, layer.shortcut = RC_SHORTCUT_PAD_END);
    REFUSED("brings 4 channels to a sum of 2", layer.in = 0, layer.stride = 2, layer.c_out = 2,
            layer.shortcut = RC_SHORTCUT_PAD_END);
    REFUSED("cannot put its 4 channels in the middle of 7", layer.in = 0, layer.stride = 2, layer.c_out = 7,
            layer.shortcut = RC_SHORTCUT_PAD_BOTH);
}

static void refused_net(rc_status status, const char *words)
{
    assert_int_equal(status, RC_INVALID_ARGUMENT);
    if (strstr(rc_message(), words) == NULL)
        fail_msg("message is \"%s\", expected \"%s\"", rc_message(), words);
}

static void bad_nets(void **state)
{
    (void)state;
    char long_name[RC_NAME_MAX + 1];
    memset(long_name, 'n', RC_NAME_MAX);
    long_name[RC_NAME_MAX] = 0;
    rc_net_builder builder = rc_net_start(&net, "empty", 3, 8, 8);
    refused_net(rc_net_finish(&builder), "has no layers");
    builder = rc_net_start(&net, long_name, 3, 8, 8);
    refused_net(rc_net_finish(&builder), "64 characters");
    builder = rc_net_start(&net, "huge", 65536, 65536, 2);
    refused_net(rc_net_finish(&builder), "65536 x 2 pixels of 65536 channels");
    builder = rc_net_start(&net, "wide", INT32_MAX, 1, 1); /* no room to round channels up */
    refused_net(rc_net_finish(&builder), "1 x 1 pixels of 2147483647 channels");
    builder = rc_net_start(&net, "negative", 3, -8, 8);
    refused_net(rc_net_finish(&builder), "-8 x 8");

    builder = rc_net_start(&net, "twice", 3, 8, 8);
    rc_layer layer = good;
    layer.in = rc_net_add(&builder, &layer);
    rc_net_add(&builder, &layer);
    refused_net(rc_net_finish(&builder), "share a name");
    builder = rc_net_start(&net, "lost", 3, 8, 8);
    layer = good;
    rc_net_add(&builder, &layer);
    strcpy(layer.name, "other");
    rc_net_add(&builder, &layer);
    refused_net(rc_net_finish(&builder), "layer 0 'good' is read by no other layer");
    builder = rc_net_start(&net, "pools", 3, 8, 8);
    rc_layer pool = {.name = "pool_1", .kind = RC_LAYER_AVERAGE_POOL, .in = RC_NET_INPUT};
    rc_net_add(&builder, &pool);
    strcpy(pool.name, "pool_2");
    rc_net_add(&builder, &pool);
    refused_net(rc_net_finish(&builder), "second average pool");
    builder = rc_net_start(&net, "pooled", 3, 8, 8);
    layer = good;
    layer.in = rc_net_add(&builder, &pool);
    rc_net_add(&builder, &layer);
    refused_net(rc_net_finish(&builder), "features are not a map");
}

static void too_many_layers_and_first_error_stays(void **state)
{
    (void)state;
    rc_net_builder builder = rc_net_start(&net, "deep", 3, 8, 8);
    rc_layer layer = good;
    layer.in = RC_NET_INPUT;
    for (int i = 0; i < RC_MAX_LAYERS; i++) {
        snprintf(layer.name, sizeof layer.name, "layer_%d", i);
        layer.in = rc_net_add(&builder, &layer);
        assert_int_equal(layer.in, i);
    }
    strcpy(layer.name, "one_more");
    rc_net_add(&builder, &layer);
    layer.stride = 0;
    rc_net_add(&builder, &layer);
    refused_net(rc_net_finish(&builder), "layer 256 'one_more': a net has at most 256 layers");
}

static void bad_arguments_of_builders(void **state)
{
    (void)state;
    refused_net(rc_net_by_name(&net, "resnet33", 3, 32, 32), "resnet18-mammoth");
    refused_net(rc_net_by_name(&net, "generator", 3, 32, 28), "not 32 x 28");
    refused_net(rc_net_generator(&net, 3, 33), "33 pixels");
    refused_net(rc_net_generator(&net, 3, 0), "0 pixels");
    refused_net(rc_net_generator(&net, 3, -32), "-32 pixels");
    refused_net(rc_net_generator(&net, 3, 8192), "8192 pixels");
    refused_net(rc_net_generator(&net, 3, 154), "154 pixels");
    refused_net(rc_net_generator(&net, 0, 32), "c_out is 0");
    refused_net(rc_net_generator_small(&net, 3, 28, 0, 16), "0 channels");
    refused_net(rc_net_generator_small(&net, 3, 28, 16, 1), "width 1");
    refused_net(rc_net_resnet32(&net, 3, 0, 32), "0 x 32");
    refused_net(rc_net_resnet32(&net, -1, 32, 32), "-1 channels");
    refused_net(rc_net_resnet18(&net, 3, 1 << 20, 1 << 20), "1048576 x 1048576");
    refused_net(rc_net_resnet_small(&net, 3, 32, 32, 0, 1), "width 0");
    refused_net(rc_net_resnet_small(&net, 3, 32, 32, 16, 40), "40 blocks");
    refused_net(rc_net_vae_encoder(&net, 3, 28, RC_VAE_WIDTH), "28 pixels");
    refused_net(rc_net_vae_decoder(&net, 3, 4, RC_VAE_WIDTH), "4 pixels");
    refused_net(rc_net_vae_encoder(&net, 3, 32, 20), "width 20");
}

/* ---- the printout ----------------------------------------------------------------------------------------------- */

typedef struct printout {
    int lines;
    char line[RC_MAX_LAYERS][200];
} printout;

static void collect(void *user, const char *text)
{
    printout *to = user;
    snprintf(to->line[to->lines++], sizeof to->line[0], "%s", text);
}

static void printout_is_a_table(void **state)
{
    (void)state;
    static printout out;
    for (int n = 0; rc_net_known_name(n) != NULL; n++) {
        memset(&out, 0, sizeof out);
        must(rc_net_by_name(&net, rc_net_known_name(n), 3, 32, 32));
        rc_net_print(&net, collect, &out);
        assert_int_equal(out.lines, net.layers + 3);
        size_t width = strlen(out.line[1]);
        for (int i = 2; i < out.lines; i++) {
            char *marked = strstr(out.line[i], "  output");
            if (marked != NULL)
                *marked = 0;
            assert_int_equal(strlen(out.line[i]), width);
        }
        char total[32];
        snprintf(total, sizeof total, " %zu ", net.params);
        assert_non_null(strstr(out.line[out.lines - 1], total));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_published_nets),
        cmocka_unit_test(shapes_of_generators),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(residual_rules_of_each_net),
        cmocka_unit_test(names_are_the_published_ones),
        cmocka_unit_test(slices_cover_everything),
        cmocka_unit_test(nets_are_offered_for_what_they_are),
        cmocka_unit_test(bad_layers),
        cmocka_unit_test(bad_layers_of_other_kinds),
        cmocka_unit_test(same_padding),
        cmocka_unit_test(bad_shortcuts),
        cmocka_unit_test(bad_nets),
        cmocka_unit_test(too_many_layers_and_first_error_stays),
        cmocka_unit_test(bad_arguments_of_builders),
        cmocka_unit_test(printout_is_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
