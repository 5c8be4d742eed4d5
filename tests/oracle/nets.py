"""Whole nets: output, loss, the gradient of every parameter and of the input, running statistics, then some steps of
the optimiser with the loss of each and how far every parameter has moved.

Classifiers run in groups of images with batch statistics of their own: PyTorch runs them one after another.
"""
import torch
import torch.nn.functional as F

import architectures
from architectures import Net
from fixture import Case, File

CLASSES = 10


def train(case, net, optimiser, run):
    """`run` returns the loss of a step. The gradients of the first step are stored."""
    begin = {}
    for step in range(case.steps):
        loss = run(step)
        if step == 0:
            begin = {name: p.detach().clone() for name, p in net.parameters.items()}
            optimiser = optimiser(list(net.parameters.values()))
            for name, value in net.running.items():
                case.store("running/" + name, value)
        optimiser.zero_grad()
        loss.backward()
        net.settle_gradients()
        if step == 0:
            largest = max(p.grad.norm() for p in net.parameters.values())
            for name, p in net.parameters.items():
                # A bias that a normalisation takes away again, behind a 1 x 1 convolution, has no gradient.
                nothing = hasattr(case, "brief") and p.grad.norm() < 1e-13 * largest
                case.store("gradient/" + name, torch.zeros_like(p) if nothing else p.grad)
        case.store(f"loss-{step}", loss)
        optimiser.step()
    if not hasattr(case, "brief"):
        for name, p in net.parameters.items():
            case.store("moved/" + name, p.detach() - begin[name])


def sgd(case):
    return lambda p: torch.optim.SGD(p, lr=case.lr, momentum=case.momentum, weight_decay=case.weight_decay)


def adam(case):
    return lambda p: torch.optim.Adam(p, lr=case.lr, betas=(case.beta1, case.beta2), eps=case.eps)


def images_of(case, n, h, w, c):
    return case.fill_map("x", n, h, w, c, 1.75)


def classifier(file, name, forward, h, w, groups, c=3, width=0, blocks=0, updates=1, steps=10, seed=1, **more):
    """Cross entropy of a head without bias. `groups` are the sizes; `updates` is how often the running statistics take
    each group in (ABD: twice)."""
    n = sum(groups)
    case = Case(file, "classifier/" + name, seed, c=c, h=h, w=w, n=n, first_group=groups[0], width=width,
                blocks=blocks, updates=updates, steps=steps, lr=0.01, momentum=0.9, weight_decay=5e-4, **more)
    x, labels = images_of(case, n, h, w, c).requires_grad_(), case.integers("labels", n, CLASSES)
    Net(case, forward).avoid_kinks(x, groups)
    net = Net(case, forward)

    def run(step):
        features = torch.cat([net(part) for part in x.split(groups)])
        for _ in range(updates - 1):
            with torch.no_grad():
                net(x)
        if step == 0:
            case.store("features", features)
            net.parameter("head.weight", (CLASSES, features.shape[1]))
        return F.cross_entropy(F.linear(features, net.parameters["head.weight"]), labels)

    case.store("eval", Net(case, forward, training=False)(x))
    train(case, net, sgd(case), run)
    # the gradient of the input, of the first step again
    first = Net(case, forward)
    features = torch.cat([first(part) for part in x.split(groups)])
    head = first.parameter("head.weight", (CLASSES, features.shape[1]))
    gradient, = torch.autograd.grad(F.cross_entropy(F.linear(features, head), labels), x)
    case.store_map("dinput", gradient)


def generator(file, name, size, n, c=3, noise=1000, width=0, steps=10, lr=1e-3, eps=1e-8):
    """L = mean over images of the squared distance to a fixed one, / 200: any gradient of the image will do."""
    plan = architectures.GENERATORS[size] if width == 0 else (2, width, width // 2)
    forward = architectures.generator(c, size, *plan)
    case = Case(file, "generator/" + name, c=c, size=size, n=n, noise=noise, width=width, steps=steps, lr=lr,
                beta1=0.9, beta2=0.999, eps=eps)
    z, target = case.fill("x", (n, noise), 1.75).requires_grad_(), case.fill_map("target", n, size, size, c)
    Net(case, forward).avoid_kinks(z)
    net = Net(case, forward)

    def run(step):
        image = net(z)
        if step == 0:
            case.store_map("image", image)
        return (image - target).square().sum() / (200 * n)

    case.store_map("eval", Net(case, forward, training=False)(z))
    train(case, net, adam(case), run)


def encoder(file, name, size, n, steps):
    """Squared distances of the two outputs to fixed ones."""
    case = Case(file, "encoder/" + name, c=3, size=size, n=n, steps=steps, lr=0.01, momentum=0.9, weight_decay=0.0)
    x = images_of(case, n, size, size, 3)
    targets = [case.fill("target_" + key, (n, 1024)) for key in ("mean", "log_variance")]
    Net(case, architectures.vae_encoder).avoid_kinks(x)
    net = Net(case, architectures.vae_encoder)

    def run(step):
        mean, log_variance = net(x)
        if step == 0:
            case.store("mean", mean)
            case.store("log_variance", log_variance)
        return ((mean - targets[0]).square().sum() + (log_variance - targets[1]).square().sum()) / (200 * n)

    train(case, net, sgd(case), run)


def decoder(file, name, size, n, steps):
    """Binary cross entropy with fixed images."""
    forward = architectures.vae_decoder(3, size)
    case = Case(file, "decoder/" + name, c=3, size=size, n=n, steps=steps, lr=0.1, momentum=0.9, weight_decay=0.0)
    z, target = case.fill("x", (n, 1024), 1.75), case.fill_map("target", n, size, size, 3, 0.5, 0.5)
    Net(case, forward).avoid_kinks(z)
    net = Net(case, forward)

    def run(step):
        image = net(z)
        if step == 0:
            case.store_map("image", image)
        return F.binary_cross_entropy(image, target)

    train(case, net, sgd(case), run)


def make():
    """Small nets, for every backend; large.py has the others."""
    file = File()
    classifier(file, "resnet-small", architectures.resnet_small(8, 1), 12, 10, (4, 2), c=1, width=8, blocks=1)
    classifier(file, "resnet-small-deep", architectures.resnet_small(12, 2), 12, 12, (3,), width=12, blocks=2, steps=4)
    generator(file, "generator-small", 28, 6, c=1, noise=20, width=8)
    encoder(file, "vae-encoder-small", 8, 3, steps=2)
    decoder(file, "vae-decoder-small", 8, 3, steps=2)
    return file
