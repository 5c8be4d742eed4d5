#include "nn/published.h"

#include <stddef.h>
#include <string.h>

/* akamaster trained on CIFAR-10 with the numbers of ImageNet. */
#define IMAGENET_MEAN "0.485 0.456 0.406"
#define IMAGENET_STD  "0.229 0.224 0.225"
/* TensorFlow trained EfficientNet-Lite on (x - 127) / 128, x from 0 to 255, and on a crop of size / (size + 32). */
#define LITE_MEAN "0.49803921568627452 0.49803921568627452 0.49803921568627452"
#define LITE_STD  "0.50196078431372548 0.50196078431372548 0.50196078431372548"

static const rc_published published[] = {
    {"torchvision-resnet18", "fc", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"torchvision-resnet34", "fc", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"torchvision-resnet50", "fc", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet20", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet32", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet44", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"cifar-resnet56", "linear", 32, 0, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
    {"efficientnet-lite0", "_fc", 224, 256, LITE_MEAN, LITE_STD, "bicubic"},
    {"efficientnet-lite1", "_fc", 240, 272, LITE_MEAN, LITE_STD, "bicubic"},
    {"efficientnet-lite2", "_fc", 260, 292, LITE_MEAN, LITE_STD, "bicubic"},
    {"efficientnet-lite3", "_fc", 280, 312, LITE_MEAN, LITE_STD, "bicubic"},
    {"efficientnet-lite4", "_fc", 300, 332, LITE_MEAN, LITE_STD, "bicubic"},
    {"mobilenet-v2", "classifier.1", 224, 256, IMAGENET_MEAN, IMAGENET_STD, "bilinear"},
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
