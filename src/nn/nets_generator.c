/* Nets that make images: the inversion generators and DGR's autoencoder. */
#include "nn/nets_parts.h"

/* "BN(0.8)": the published code passes 0.8 where the epsilon goes. */
static const float inner_eps = 0.8f;

enum { SMALLEST_MAP = 7, LARGEST_MAP = 75, LARGEST_SIZE = 4096 };

/* Halves the image while the result is even and not below 7 pixels: 32 -> 8, 64 -> 8, 224 -> 7, 28 -> 7, 84 -> 21;
 * 300 -> 75, the largest map that a published net needs. */
static rc_status smallest_map(const char *name, int size, int *map, int *doublings)
{
    *map = size;
    *doublings = 0;
    while (*map % 2 == 0 && *map / 2 >= SMALLEST_MAP) {
        *map /= 2;
        ++*doublings;
    }
    if (size < 1 || size > LARGEST_SIZE || *doublings == 0 || *map > LARGEST_MAP)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "net '%s' cannot make images of %d pixels: the size must be %d to %d "
                       "pixels doubled once or more, at most %d",
                       name, size, SMALLEST_MAP, LARGEST_MAP, LARGEST_SIZE);
    return RC_OK;
}

/* linear, BN; [up 2, convolution, BN(0.8), leaky ReLU] for each doubling, the last one to `last_width` channels;
 * convolution to c channels, tanh; BN without parameters, which brings the pixels to mean 0 and variance 1. */
static rc_status build_generator(rc_net *net, const char *name, int c, int size, int noise, int width, int last_width)
{
    int map, doublings;
    RC_TRY(smallest_map(name, size, &map, &doublings));
    rc_net_builder builder = rc_net_start(net, name, noise, 1, 1);
    rc_layer linear = {.name = "linear",
                       .bn_name = "bn_0",
                       .kind = RC_LAYER_LINEAR,
                       .in = RC_NET_INPUT,
                       .c_out = width,
                       .map_h = map,
                       .map_w = map,
                       .bias = true};
    rc_part_normalise(&linear, RC_BN_EPS, true);
    int last = rc_net_add(&builder, &linear);
    for (int i = 1; i <= doublings; i++) {
        rc_layer conv = rc_part_conv(last, i < doublings ? width : last_width, 3, 1, RC_INIT_DEFAULT);
        rc_part_name(conv.name, "conv_%d", i);
        rc_part_name(conv.bn_name, "bn_%d", i);
        conv.up = 2;
        conv.bias = true;
        conv.act = RC_ACT_LEAKY_RELU;
        rc_part_normalise(&conv, inner_eps, true);
        last = rc_net_add(&builder, &conv);
    }
    rc_layer image = rc_part_conv(last, c, 3, 1, RC_INIT_DEFAULT);
    rc_part_name(image.name, "conv_%d", doublings + 1);
    image.bias = true;
    image.act = RC_ACT_TANH;
    rc_layer standardise = {.kind = RC_LAYER_BN, .in = rc_net_add(&builder, &image)};
    rc_part_name(standardise.name, "bn_%d", doublings + 1);
    rc_part_normalise(&standardise, RC_BN_EPS, false);
    rc_net_add(&builder, &standardise);
    return rc_net_finish(&builder);
}

rc_status rc_net_generator(rc_net *net, int c, int size)
{
    return build_generator(net, "generator", c, size, 1000, size > 128 ? 64 : 128, 64);
}

rc_status rc_net_generator_small(rc_net *net, int c, int size, int noise, int width)
{
    if (width < 2 || width > 4096)
        return rc_fail(RC_INVALID_ARGUMENT, "generator-small has width %d, expected 2 to 4096", width);
    return build_generator(net, "generator-small", c, size, noise, width, width / 2);
}

rc_status rc_net_pixels(rc_net *net, int n, int c, int h, int w)
{
    rc_net_builder builder = rc_net_start(net, "pixels", n, 1, 1);
    rc_layer images = {
        .name = "images", .kind = RC_LAYER_LINEAR, .in = RC_NET_INPUT, .c_out = c, .map_h = h, .map_w = w};
    rc_net_add(&builder, &images);
    return rc_net_finish(&builder);
}

/* ---- DGR's autoencoder ----------------------------------------------------------------------------------------- */

enum { VAE_DEPTH = 3, LARGEST_VAE_WIDTH = 4096 };

static rc_status vae_map(const char *name, int size, int width, int *map)
{
    *map = size >> VAE_DEPTH;
    if (width < 8 || width > LARGEST_VAE_WIDTH || width % 8 != 0)
        return rc_fail(RC_INVALID_ARGUMENT, "net '%s' has width %d, expected a multiple of 8, at most %d", name, width,
                       LARGEST_VAE_WIDTH);
    if (size < 1 << VAE_DEPTH || size > LARGEST_SIZE || size % (1 << VAE_DEPTH) != 0)
        return rc_fail(RC_INVALID_ARGUMENT,
                       "net '%s' cannot take images of %d pixels: expected a multiple of %d, at "
                       "most %d",
                       name, size, 1 << VAE_DEPTH, LARGEST_SIZE);
    return RC_OK;
}

/* Convolution 4x4 that halves the map, or transposed, that doubles it. */
static rc_layer vae_conv(int in, int c_out, bool transposed, rc_act act)
{
    return (rc_layer){.kind = RC_LAYER_CONV,
                      .in = in,
                      .k = 4,
                      .stride = 2,
                      .pad = 1,
                      .c_out = c_out,
                      .transposed = transposed,
                      .bias = true,
                      .act = act};
}

rc_status rc_net_vae_encoder(rc_net *net, int c, int size, int width)
{
    const int channels[VAE_DEPTH] = {width / 8, width / 4, width};
    static const char *const output[2] = {"mean", "log_variance"};
    int map, last = RC_NET_INPUT;
    RC_TRY(vae_map("vae-encoder", size, width, &map));
    rc_net_builder builder = rc_net_start(net, "vae-encoder", c, size, size);
    for (int i = 0; i < VAE_DEPTH; i++) {
        rc_layer conv = vae_conv(last, channels[i], false, RC_ACT_RELU);
        rc_part_name(conv.name, "conv_%d", i + 1);
        last = rc_net_add(&builder, &conv);
    }
    for (int i = 0; i < 2; i++) {
        /* A linear layer over a flattened map is a convolution as large as the map, weights in the same order. */
        rc_layer linear = {
            .kind = RC_LAYER_CONV, .in = last, .k = map, .stride = 1, .c_out = 2 * width, .bias = true, .output = true};
        rc_part_name(linear.name, "%s", output[i]);
        rc_net_add(&builder, &linear);
    }
    return rc_net_finish(&builder);
}

rc_status rc_net_vae_decoder(rc_net *net, int c, int size, int width)
{
    int map;
    RC_TRY(vae_map("vae-decoder", size, width, &map));
    const int channels[VAE_DEPTH] = {width / 2, width / 8, c};
    rc_net_builder builder = rc_net_start(net, "vae-decoder", 2 * width, 1, 1);
    rc_layer linear = {.name = "linear",
                       .kind = RC_LAYER_LINEAR,
                       .in = RC_NET_INPUT,
                       .c_out = width,
                       .map_h = map,
                       .map_w = map,
                       .bias = true};
    int last = rc_net_add(&builder, &linear);
    for (int i = 0; i < VAE_DEPTH; i++) {
        rc_layer conv = vae_conv(last, channels[i], true, i < VAE_DEPTH - 1 ? RC_ACT_RELU : RC_ACT_SIGMOID);
        rc_part_name(conv.name, "deconv_%d", i + 1);
        last = rc_net_add(&builder, &conv);
    }
    return rc_net_finish(&builder);
}
