"""The nets whose trained weights are published, whole: for the fast backends alone, as large.py."""
import architectures
from fixture import File
from nets import classifier


def make():
    file = File()
    classifier(file, "cifar-resnet20", architectures.cifar_resnet(20), 32, 32, (3,), steps=4)
    classifier(file, "torchvision-resnet18", architectures.torchvision_resnet18, 48, 48, (3,), steps=1)
    return file
