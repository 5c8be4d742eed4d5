/* The table of nets by name. */
#include "nn/nets.h"

#include <stdio.h>
#include <string.h>

static rc_status small_resnet(rc_net *net, int c, int h, int w)
{
    return rc_net_resnet_small(net, c, h, w, 16, 1);
}

static rc_status square(const char *name, int h, int w)
{
    if (h != w)
        return rc_fail(RC_INVALID_ARGUMENT, "net '%s' makes square images, not %d x %d", name, h, w);
    return RC_OK;
}

static rc_status generator(rc_net *net, int c, int h, int w)
{
    RC_TRY(square("generator", h, w));
    return rc_net_generator(net, c, h);
}

static rc_status small_generator(rc_net *net, int c, int h, int w)
{
    RC_TRY(square("generator-small", h, w));
    return rc_net_generator_small(net, c, h, 128, 64);
}

static rc_status vae_encoder(rc_net *net, int c, int h, int w)
{
    RC_TRY(square("vae-encoder", h, w));
    return rc_net_vae_encoder(net, c, h, RC_VAE_WIDTH);
}

static rc_status vae_decoder(rc_net *net, int c, int h, int w)
{
    RC_TRY(square("vae-decoder", h, w));
    return rc_net_vae_decoder(net, c, h, RC_VAE_WIDTH);
}

static const struct {
    const char *name;
    rc_status (*build)(rc_net *net, int c, int h, int w);
} nets[] = {
    {"resnet32", rc_net_resnet32},
    {"resnet18", rc_net_resnet18},
    {"resnet32-abd", rc_net_resnet32_abd},
    {"resnet18-mammoth", rc_net_resnet18_mammoth},
    {"resnet-small", small_resnet},
    {"torchvision-resnet18", rc_net_torchvision_resnet18},
    {"torchvision-resnet34", rc_net_torchvision_resnet34},
    {"torchvision-resnet50", rc_net_torchvision_resnet50},
    {"cifar-resnet20", rc_net_cifar_resnet20},
    {"cifar-resnet32", rc_net_cifar_resnet32},
    {"cifar-resnet44", rc_net_cifar_resnet44},
    {"cifar-resnet56", rc_net_cifar_resnet56},
    {"efficientnet-lite0", rc_net_efficientnet_lite0},
    {"efficientnet-lite1", rc_net_efficientnet_lite1},
    {"efficientnet-lite2", rc_net_efficientnet_lite2},
    {"efficientnet-lite3", rc_net_efficientnet_lite3},
    {"efficientnet-lite4", rc_net_efficientnet_lite4},
    {"mobilenet-v2", rc_net_mobilenet_v2},
    {"generator", generator},
    {"generator-small", small_generator},
    {"vae-encoder", vae_encoder},
    {"vae-decoder", vae_decoder},
};
enum { NETS = sizeof nets / sizeof nets[0] };

const char *rc_net_known_name(int index)
{
    return index >= 0 && index < NETS ? nets[index].name : NULL;
}

rc_status rc_net_by_name(rc_net *net, const char *name, int c, int h, int w)
{
    char known[640] = "";
    size_t used = 0;
    for (int i = 0; i < NETS; i++) {
        if (strcmp(name, nets[i].name) == 0)
            return nets[i].build(net, c, h, w);
        int length = snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", nets[i].name);
        used += length > 0 && (size_t)length < sizeof known - used ? (size_t)length : 0;
    }
    return rc_fail(RC_INVALID_ARGUMENT, "there is no net '%.64s', expected one of %s", name, known);
}
