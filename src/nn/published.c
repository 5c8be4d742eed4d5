#include "nn/published.h"

#include <stddef.h>
#include <string.h>

/* akamaster trained on CIFAR-10 with the numbers of ImageNet. */
#define IMAGENET_MEAN "0.485 0.456 0.406"
#define IMAGENET_STD  "0.229 0.224 0.225"

static const rc_published published[] = {
    {"torchvision-resnet18", "fc", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"torchvision-resnet34", "fc", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"torchvision-resnet50", "fc", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet20", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet32", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet44", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet56", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
};

const rc_published *rc_published_at(int index)
{
    return index >= 0 && index < (int)(sizeof published / sizeof *published) ? &published[index] : NULL;
}

const rc_published *rc_published_find(const char *net)
{
    const rc_published *found;
    for (int i = 0; (found = rc_published_at(i)) != NULL; i++)
        if (strcmp(found->net, net) == 0)
            return found;
    return NULL;
}
