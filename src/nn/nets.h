/* Builders of the nets of the published experiments, as the published code has them, and of some small ones. All
 * check their arguments and return a status. */
#ifndef RC_NN_NETS_H
#define RC_NN_NETS_H

#include "nn/net.h"

/* Backbones end in average pooling; the head is apart (model.h). c: input channels (1 or 3). */
/* R-DFCIL's and CwD's for CIFAR-100 and Tiny-ImageNet: no ReLU after additions, shortcuts padded behind. */
rc_status rc_net_resnet32(rc_net *net, int c, int h, int w);
/* The same authors' for ImageNet-100: a stem of 3x3, stride 1, and no ReLU after the last addition of a stage. */
rc_status rc_net_resnet18(rc_net *net, int c, int h, int w);
/* ABD's: ReLU after every addition, shortcuts padded on both sides. */
rc_status rc_net_resnet32_abd(rc_net *net, int c, int h, int w);
/* Mammoth's, for ER and LODE: no pooling after the stem, ReLU after every addition. */
rc_status rc_net_resnet18_mammoth(rc_net *net, int c, int h, int w);
/* Narrow: three stages of `blocks` blocks, widths width, 2 width, 4 width; built as rc_net_resnet32. */
rc_status rc_net_resnet_small(rc_net *net, int c, int h, int w, int width, int blocks);

/* Nets whose trained weights are published, with the names of their state_dict (published.h has what goes with them).
 * torchvision's: a stem of 7x7 that halves; 50: bottlenecks with the stride on the 3x3. */
rc_status rc_net_torchvision_resnet18(rc_net *net, int c, int h, int w);
rc_status rc_net_torchvision_resnet34(rc_net *net, int c, int h, int w);
rc_status rc_net_torchvision_resnet50(rc_net *net, int c, int h, int w);
/* akamaster's pytorch_resnet_cifar10: ReLU after every addition, shortcuts padded on both sides. */
rc_status rc_net_cifar_resnet20(rc_net *net, int c, int h, int w);
rc_status rc_net_cifar_resnet32(rc_net *net, int c, int h, int w);
rc_status rc_net_cifar_resnet44(rc_net *net, int c, int h, int w);
rc_status rc_net_cifar_resnet56(rc_net *net, int c, int h, int w);
/* TensorFlow's, as the package efficientnet_lite_pytorch names it; for square images of any size. */
rc_status rc_net_efficientnet_lite0(rc_net *net, int c, int h, int w);
rc_status rc_net_efficientnet_lite1(rc_net *net, int c, int h, int w);
rc_status rc_net_efficientnet_lite2(rc_net *net, int c, int h, int w);
rc_status rc_net_efficientnet_lite3(rc_net *net, int c, int h, int w);
rc_status rc_net_efficientnet_lite4(rc_net *net, int c, int h, int w);
/* torchvision's, of width 1. */
rc_status rc_net_mobilenet_v2(rc_net *net, int c, int h, int w);

/* Inversion generators: noise (1, 1, 1000) -> (size, size, c). The rule: `doublings` from size / 2^doublings
 * (32 px: 2 from 8, 64 px: 3 from 8, 224 px: 5 from 7; 28 px: 2 from 7; 84 px: 2 from 21), widths as published for
 * 32, 64 and 224. */
rc_status rc_net_generator(rc_net *net, int c, int size);
/* For demos: fewer channels (`width` at the smallest map) and `noise` inputs. */
rc_status rc_net_generator_small(rc_net *net, int c, int size, int noise, int width);

/* DGR's VAE, for a size that is a multiple of 8. The encoder has two outputs, layers named "mean" and "log_variance".
 * width: channels of the smallest map, 512 as published, a multiple of 8; all other widths are proportional to it. */
enum { RC_VAE_WIDTH = 512 };
rc_status rc_net_vae_encoder(rc_net *net, int c, int size, int width);
rc_status rc_net_vae_decoder(rc_net *net, int c, int size, int width);

/* n images as weights: row b of the identity (n, 1, 1, n) -> image b. */
rc_status rc_net_pixels(rc_net *net, int n, int c, int h, int w);

/* By name: backbones, which end in average pooling; generators, which make images of noise; "vae-encoder" and
 * "vae-decoder". An unknown name is an error that lists these. */
#define RC_BACKBONES \
    "resnet32|resnet18|resnet32-abd|resnet18-mammoth|resnet-small|" \
    "torchvision-resnet18|torchvision-resnet34|torchvision-resnet50|" \
    "cifar-resnet20|cifar-resnet32|cifar-resnet44|cifar-resnet56|" \
    "efficientnet-lite0|efficientnet-lite1|efficientnet-lite2|efficientnet-lite3|efficientnet-lite4|mobilenet-v2"
#define RC_GENERATORS "generator|generator-small"
rc_status rc_net_by_name(rc_net *net, const char *name, int c, int h, int w);
const char *rc_net_known_name(int index); /* NULL: there are no more */

#endif
