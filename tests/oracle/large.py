"""The published nets, whole, and whole steps with them: for the fast backends alone."""
import architectures
from fixture import File
from nets import classifier, decoder, encoder, generator
from steps import invert, training


def make():
    file = File()
    # In a float pass over a million ReLUs one or another turns, so most nets take few steps. Adam's first steps are the
    # signs of gradients, however small these are, unless eps is as large as they are: then rounding is not divided by
    # rounding. Small nets take ten full steps, in double too.
    classifier(file, "resnet32", architectures.resnet32, 32, 32, (2, 1))
    classifier(file, "resnet32-abd", architectures.resnet32_abd, 32, 32, (3,), updates=2, steps=4)
    classifier(file, "resnet18", architectures.resnet18, 40, 40, (2, 1), steps=4, seed=2)
    classifier(file, "resnet18-mammoth", architectures.resnet18_mammoth, 32, 32, (2,), steps=4)
    smooth = dict(lr=1e-4, eps=1e-3)
    generator(file, "generator-28", 28, 4, c=1, **smooth)
    generator(file, "generator-32", 32, 4, **smooth)
    generator(file, "generator-64", 64, 3, steps=4, **smooth)
    generator(file, "generator-84", 84, 2, steps=4, **smooth)
    generator(file, "generator-224", 224, 1, steps=1, **smooth)
    encoder(file, "vae-encoder", 32, 2, steps=10)
    decoder(file, "vae-decoder", 32, 2, steps=10)
    published = dict(size=32, c=3, width=0, blocks=0, generator_width=0, noise=1000)
    training(file, "resnet32", 20, 20, batch=6, steps=1, refine_steps=0, **published)
    invert(file, "resnet32", 20, batch=4, steps=1, prior=0.0, **published)
    return file
