"""Published nets of inverted residuals, whole, for float64 alone: formulas and wiring are what is compared here. The
fast kernels have the selftest."""
import architectures
from fixture import File
from nets import classifier


def make():
    file = File()
    classifier(file, "mobilenet-v2", architectures.mobilenet_v2, 33, 33, (3,), steps=1, brief=1)
    classifier(file, "efficientnet-lite0", architectures.efficientnet_lite0, 33, 33, (3,), steps=1, brief=1)
    return file
