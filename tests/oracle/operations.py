"""Operations of the backend's table: a chain of two layers with every combination of operation, normalisation, skip and
activation that the nets are made of, dense layers, optimisers and the making of batches."""
import math

import numpy as np
import torch
import torch.nn.functional as F

import philox
from fixture import Case, File

ACTIVATIONS = {
    "none": lambda z: z,
    "relu": torch.relu,
    "leaky": lambda z: F.leaky_relu(z, 0.2),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu6": F.relu6,
    "silu": F.silu,
}


class Normalisation:
    """Batch normalisation of a chain: "none", "train" (batch statistics per group) or "eval"."""

    def __init__(self, case, name, mode, c):
        self.mode, self.eps, self.momentum = mode, case.eps, case.momentum
        self.gamma = case.fill(name + ".weight", (c,), 0.5, 1.0).requires_grad_()
        self.beta = case.fill(name + ".bias", (c,), 0.25).requires_grad_()
        self.mean = case.fill(name + ".running_mean", (c,), 0.25)
        self.var = case.fill(name + ".running_var", (c,), 0.5, 1.0)

    def __call__(self, x, ends):
        if self.mode == "none":
            return x
        parts, begin = [], 0
        for end in ends:
            parts.append(F.batch_norm(x[begin:end], self.mean, self.var, self.gamma, self.beta,
                                      self.mode == "train", self.momentum, self.eps))
            begin = end
        return torch.cat(parts)

    def store(self, case, name):
        if self.mode == "none":
            return
        case.store(f"d{name}.weight", self.gamma.grad)
        case.store(f"d{name}.bias", self.beta.grad)
        case.store(name + ".running_mean", self.mean)
        case.store(name + ".running_var", self.var)


def widen(skip, case):
    """The shortcut of a residual sum: strided, its channels at an offset."""
    after = case.c_out - case.skip_c - case.skip_offset
    return F.pad(skip[:, :, ::case.skip_stride, ::case.skip_stride], (0, 0, 0, 0, case.skip_offset, after))


def padded(case, x):
    """`pad` pixels before the first, `behind` after the last."""
    return F.pad(x, (case.pad, case.behind, case.pad, case.behind))


def operate(case, x):
    """The operation in the middle of the chain: its result, and the parameters whose gradients are wanted."""
    c_in, c_out, k = case.c_in, case.c_out, case.k
    bias = case.fill("bias", (c_out * case.map * case.map,), 0.25).requires_grad_() if case.bias else None
    if case.op == "conv":
        if case.up > 1:
            x = F.interpolate(x, scale_factor=case.up, mode="nearest")
        shape = (c_in, c_out, k, k) if case.transposed else (c_out, c_in, k, k)
        weight = case.fill("weight", shape, (3.0 / (c_in * k * k)) ** 0.5).requires_grad_()
        if case.transposed:
            y = F.conv_transpose2d(x, weight, bias, stride=case.stride, padding=case.pad)
        else:
            y = F.conv2d(padded(case, x), weight, bias, stride=case.stride)
    elif case.op == "depthwise":
        weight = case.fill("weight", (c_out, 1, k, k), (3.0 / (k * k)) ** 0.5).requires_grad_()
        y = F.conv2d(padded(case, x), weight, bias, stride=case.stride, groups=c_in)
    elif case.op == "linear":
        weight = case.fill("weight", (c_out * case.map * case.map, c_in), (3.0 / c_in) ** 0.5).requires_grad_()
        y = F.linear(x.flatten(1), weight, bias).reshape(case.n, c_out, case.map, case.map)
    elif case.op == "max":
        return F.max_pool2d(x, k, case.stride, case.pad), []
    else:
        return x, []
    return y, [("dweight", weight)] + ([("dbias", bias)] if case.bias else [])


def chain(file, name, op="conv", n=2, h=5, w=6, c_in=5, c_out=7, k=3, stride=1, pad=1, behind=None, up=1,
          transposed=False, bias=False, map=1, bn_x="none", act_x="none", bn_y="none", act_y="none", skip=False,
          skip_stride=1, skip_c=0, skip_offset=0, groups=1, statistics=False, keep_x=False, eps=1e-5, momentum=0.1):
    """value = act_y(bn_y(op(act_x(bn_x(x)))) + skip), L = sum value * g (+ sums of the batch statistics of bn_y's
    input, each times a vector), and the gradients of everything."""
    behind = pad if behind is None else behind
    case = Case(file, "chain/" + name, **{key: value for key, value in locals().items() if key not in ("file", "name")})
    ends = [n] if groups == 1 else [n // 3 + 1, n]
    first, second = Normalisation(case, "bn_x", bn_x, c_in), Normalisation(case, "bn_y", bn_y, c_out)
    x = case.fill_map("x", n, h, w, c_in).requires_grad_()
    raw, parameters = operate(case, ACTIVATIONS[act_x](first(x, ends)))
    oh, ow = raw.shape[2:]
    z = second(raw, ends)
    if skip:
        earlier = case.fill_map("skip", n, oh * skip_stride, ow * skip_stride, skip_c).requires_grad_()
        parameters.append(("dskip", earlier))
        z = z + widen(earlier, case)
    value = ACTIVATIONS[act_y](z)
    loss = (value * case.fill_map("g", n, oh, ow, c_out)).sum()
    if statistics:
        mean, var = raw.mean((0, 2, 3)), raw.var((0, 2, 3), unbiased=False)
        loss = loss + (mean * case.fill("dmean", (c_out,), 8.0)).sum() + (var * case.fill("dvar", (c_out,), 8.0)).sum()
        case.store("mean", mean)
        case.store("var", var)
    loss.backward()
    case.store_map("value", value)
    case.store_map("dx", x.grad)
    for key, tensor in parameters:
        if key == "dbias" and bn_y == "train":
            continue
        if key == "dskip":
            case.store_map(key, tensor.grad)
        else:
            case.store(key, tensor.grad)
    first.store(case, "bn_x")
    second.store(case, "bn_y")


def chains(file):
    # convolutions alone: kernel, stride, padding, bias, odd and even maps, channels that need padding or do not
    chain(file, "3x3")
    chain(file, "3x3-image", c_in=3, c_out=16, h=9, w=8)
    chain(file, "3x3-bias", c_in=8, c_out=3, bias=True)
    chain(file, "3x3-wide", n=3, h=8, w=8, c_in=32, c_out=32)
    chain(file, "3x3-widest", n=2, h=4, w=4, c_in=64, c_out=64)
    chain(file, "3x3-tall", n=1, h=19, w=5, c_in=16, c_out=16)
    chain(file, "3x3-one-pixel", n=3, h=1, w=1, c_in=9, c_out=4)
    chain(file, "3x3-stride-2-even", stride=2, h=8, w=8, c_in=16, c_out=32)
    chain(file, "3x3-stride-2-odd", stride=2, h=7, w=9, c_in=6, c_out=10)
    chain(file, "3x3-valid", pad=0, h=6, w=5)
    chain(file, "1x1", k=1, pad=0, c_in=8, c_out=12)
    chain(file, "1x1-stride-2", k=1, stride=2, pad=0, h=7, w=8, c_in=16, c_out=32)
    chain(file, "5x5", k=5, pad=2, h=7, w=7, bias=True)
    chain(file, "4x4-stride-2", k=4, stride=2, pad=1, h=8, w=6, c_in=3, c_out=16, bias=True)
    chain(file, "4x4-stride-2-odd", k=4, stride=2, pad=1, h=9, w=7, bias=True)
    chain(file, "4x4-whole-map", k=4, pad=0, h=4, w=4, c_in=12, c_out=20, bias=True)
    chain(file, "3x3-up", up=2, h=4, w=5, c_in=6, c_out=9, bias=True)
    chain(file, "3x3-up-wide", up=2, n=2, h=4, w=4, c_in=32, c_out=16)
    chain(file, "3x3-up-one-pixel", up=2, n=2, h=1, w=1, c_in=8, c_out=8)
    chain(file, "transposed-4x4", k=4, stride=2, transposed=True, h=3, w=4, c_in=6, c_out=5, bias=True)
    chain(file, "transposed-4x4-wide", k=4, stride=2, transposed=True, h=4, w=4, c_in=32, c_out=16, bias=True)
    chain(file, "transposed-3x3", k=3, transposed=True, h=4, w=4, c_in=4, c_out=8)
    # what surrounds a convolution in the nets
    chain(file, "resnet-first", n=4, h=6, w=6, c_in=16, c_out=16, act_x="relu", bn_x="train", bn_y="train",
          act_y="relu", keep_x=True)
    chain(file, "resnet-second", n=4, h=6, w=6, c_in=16, c_out=16, bn_x="train", act_x="relu", bn_y="train",
          skip=True, skip_c=16)
    chain(file, "resnet-second-groups", n=5, h=6, w=6, c_in=16, c_out=16, bn_x="train", act_x="relu", bn_y="train",
          skip=True, skip_c=16, groups=2)
    chain(file, "resnet-second-relu", n=4, h=5, w=5, c_in=8, c_out=8, bn_x="train", act_x="relu", bn_y="train",
          act_y="relu", skip=True, skip_c=8, groups=2)
    chain(file, "widening-first", n=4, stride=2, h=8, w=8, c_in=16, c_out=32, bn_x="train", bn_y="train",
          act_y="relu", groups=2)
    chain(file, "widening-second", n=4, h=4, w=4, c_in=32, c_out=32, bn_x="train", act_x="relu", bn_y="train",
          skip=True, skip_stride=2, skip_c=16, groups=2)
    chain(file, "widening-both", n=4, h=4, w=4, c_in=32, c_out=32, bn_x="train", act_x="relu", bn_y="train",
          act_y="relu", skip=True, skip_stride=2, skip_c=16, skip_offset=8)
    chain(file, "widening-odd", n=3, h=4, w=4, c_in=10, c_out=10, bn_y="train", skip=True, skip_stride=2, skip_c=5,
          skip_offset=2)
    chain(file, "generator", n=4, up=2, h=4, w=4, c_in=16, c_out=8, bias=True, bn_x="train", act_x="leaky",
          bn_y="train", act_y="leaky", eps=0.8)
    chain(file, "generator-image", n=4, h=8, w=8, c_in=8, c_out=3, bias=True, bn_x="train", act_x="leaky",
          act_y="tanh", eps=0.8)
    chain(file, "decoder", n=3, k=4, stride=2, transposed=True, h=4, w=4, c_in=8, c_out=3, bias=True, act_x="relu",
          act_y="sigmoid")
    # eval mode: with gradients, finished by the epilogue, with gradients of the statistics
    chain(file, "eval", n=4, c_in=16, c_out=16, bn_x="eval", act_x="relu", bn_y="eval", act_y="relu", skip=True,
          skip_c=16)
    chain(file, "eval-bias", n=3, c_in=6, c_out=9, bias=True, bn_x="eval", act_x="leaky", bn_y="eval", act_y="tanh",
          eps=0.8)
    chain(file, "frozen", n=4, c_in=16, c_out=16, bn_x="eval", act_x="relu", bn_y="eval", act_y="relu",
          statistics=True)
    chain(file, "frozen-skip", n=4, stride=2, h=8, w=8, c_in=8, c_out=16, bn_x="eval", bn_y="eval", skip=True,
          skip_stride=2, skip_c=8, statistics=True)
    # paddings that differ before and behind: TensorFlow's, and others
    chain(file, "3x3-stride-2-same", stride=2, pad=0, behind=1, h=8, w=8, c_in=3, c_out=16, bn_y="train", act_y="relu6")
    chain(file, "7x7-stride-2-stem", k=7, stride=2, pad=3, n=2, h=14, w=14, c_in=3, c_out=20, bn_y="train",
          act_y="relu")
    chain(file, "7x7-stride-2-same", k=7, stride=2, pad=2, behind=3, h=12, w=12, c_in=3, c_out=8, act_y="silu")
    chain(file, "3x3-more-behind", pad=0, behind=2, h=6, w=7, c_in=16, c_out=16, bn_x="train", act_x="relu6")
    chain(file, "3x3-more-before", pad=2, behind=0, h=6, w=7, c_in=16, c_out=20, act_x="silu", keep_x=True)
    # depthwise: 3 x 3 and 5 x 5, stride 1 and 2, channels that need padding or do not, and what surrounds it
    chain(file, "depthwise-3x3", op="depthwise", c_in=7, c_out=7, bias=True)
    chain(file, "depthwise-3x3-wide", op="depthwise", n=2, h=9, w=12, c_in=32, c_out=32)
    chain(file, "depthwise-3x3-one-pixel", op="depthwise", n=3, h=1, w=1, c_in=8, c_out=8)
    chain(file, "depthwise-5x5", op="depthwise", k=5, pad=2, h=7, w=8, c_in=20, c_out=20)
    chain(file, "depthwise-3x3-stride-2-same", op="depthwise", stride=2, pad=0, behind=1, h=8, w=8, c_in=24, c_out=24)
    chain(file, "depthwise-5x5-stride-2-same", op="depthwise", k=5, stride=2, pad=1, behind=2, h=8, w=8, c_in=12,
          c_out=12)
    chain(file, "depthwise-3x3-stride-2-odd", op="depthwise", stride=2, h=7, w=9, c_in=5, c_out=5)
    # one normalisation each: behind the second, hardly anything is left of the gradient of the first one's gamma
    chain(file, "mobile-expanded", op="depthwise", n=4, h=6, w=6, c_in=36, c_out=36, bn_x="train", act_x="relu6",
          act_y="relu6", groups=2, eps=1e-3, momentum=0.01)
    chain(file, "mobile-filtered", op="depthwise", n=4, h=6, w=6, c_in=36, c_out=36, act_x="relu6", bn_y="train",
          act_y="relu6", groups=2, eps=1e-3, momentum=0.01)
    chain(file, "mobile-expanded-stride-2", op="depthwise", n=4, k=5, stride=2, pad=1, behind=2, h=8, w=8, c_in=16,
          c_out=16, bn_x="train", act_x="silu", bn_y="train", act_y="silu")
    chain(file, "mobile-project", n=4, k=1, pad=0, h=6, w=6, c_in=36, c_out=12, bn_x="train", act_x="relu6",
          bn_y="train", skip=True, skip_c=12)
    chain(file, "mobile-expand-eval", n=3, k=1, pad=0, h=5, w=7, c_in=20, c_out=36, bn_x="eval", bn_y="eval",
          act_y="relu6")
    chain(file, "mobile-stem-eval", n=2, stride=2, pad=0, behind=1, h=10, w=10, c_in=3, c_out=32, bn_y="eval",
          act_y="relu6")
    chain(file, "mobile-eval", op="depthwise", n=3, h=6, w=5, c_in=18, c_out=18, bn_x="eval", act_x="relu6",
          bn_y="eval", act_y="relu6")
    chain(file, "mobile-frozen", op="depthwise", n=4, h=6, w=6, c_in=16, c_out=16, bn_x="eval", act_x="silu",
          bn_y="eval", act_y="silu", statistics=True)
    chain(file, "depthwise-sum", op="depthwise", n=4, h=5, w=5, c_in=8, c_out=8, bn_x="train", act_x="silu",
          bn_y="train", act_y="silu", skip=True, skip_c=8)
    # normalisation alone, linear layers, maximum pooling
    chain(file, "normalise", op="copy", n=4, c_in=6, c_out=6, act_x="tanh", bn_y="train")
    # tanh: through a leaky ReLU the second normalisation would cancel nearly all of the first one's gamma
    chain(file, "normalise-groups", op="copy", n=7, c_in=5, c_out=5, bn_x="train", act_x="tanh", bn_y="train",
          groups=2, momentum=0.25)
    chain(file, "normalise-eval", op="copy", n=3, c_in=5, c_out=5, act_x="sigmoid", bn_y="eval")
    chain(file, "linear", op="linear", n=5, h=1, w=1, c_in=30, c_out=9, bias=True)
    chain(file, "linear-map", op="linear", n=5, h=1, w=1, c_in=20, c_out=6, map=4, bias=True, bn_y="train",
          act_y="relu")
    chain(file, "linear-wide", op="linear", n=4, h=1, w=1, c_in=100, c_out=32, map=4, bias=True, bn_y="eval")
    chain(file, "max-pool", op="max", n=3, h=8, w=8, c_in=6, c_out=6, stride=2, bn_x="train", act_x="relu")
    chain(file, "max-pool-odd", op="max", n=3, h=7, w=9, c_in=16, c_out=16, stride=2)
    chain(file, "max-pool-tiles", op="max", n=2, h=6, w=6, c_in=4, c_out=4, k=2, stride=2, pad=0, bn_x="train")
    for act in ACTIVATIONS:
        chain(file, "act-" + act, op="copy", n=2, h=3, w=3, c_in=5, c_out=5, act_x=act, act_y=act)


def average_pool(file, name, **shape):
    case = Case(file, "average/" + name, **shape)
    x = case.fill_map("x", case.n, case.h, case.w, case.c).requires_grad_()
    features = torch.relu(x).mean((2, 3))
    (features * case.fill("g", (case.n, case.c))).sum().backward()
    case.store("features", features)
    case.store_map("dx", x.grad)


def dense(file, name, **shape):
    case = Case(file, "dense/" + name, **shape)
    x = case.fill("x", (case.n, case.inputs)).requires_grad_()
    weight = case.fill("weight", (case.outputs, case.inputs)).requires_grad_()
    bias = case.fill("bias", (case.outputs,)).requires_grad_()
    y = F.linear(x, weight, bias)
    (y * case.fill("g", (case.n, case.outputs))).sum().backward()
    for key, tensor in ("y", y), ("dx", x.grad), ("dweight", weight.grad), ("dbias", bias.grad):
        case.store(key, tensor)


def sgd(parameters, case):
    return torch.optim.SGD(parameters, lr=case.lr, momentum=case.momentum, weight_decay=case.weight_decay)


def adam(parameters, case):
    return torch.optim.Adam(parameters, lr=case.lr, betas=(case.beta1, case.beta2), eps=case.eps)


def optimise(file, name, make, **settings):
    """Several steps with gradients that have nothing to do with the parameters."""
    case = Case(file, "optimise/" + name, count=150, steps=6, **settings)
    parameter = case.fill("parameter", (case.count,)).requires_grad_()
    optimiser = make([parameter], case)
    for step in range(case.steps):
        parameter.grad = case.fill(f"gradient-{step}", (case.count,), 0.1 + 0.2 * step)
        optimiser.step()
        case.store(f"parameter-{step}", parameter)


STRONG = 0x10000  # the stream of zoom and colour, beside that of crop and flip


def coloured(image, colour, draws):
    """Brightness, contrast about the middle of the range, saturation about the grey of a pixel; clipped at the end."""
    brightness, contrast, saturation = (1 + colour * (2 * (int(bits) >> 8) / 2 ** 24 - 1) for bits in draws)
    image = image * brightness
    image = (image - 127.5) * contrast + 127.5
    if image.shape[2] == 3:
        grey = image @ np.array([[0.299], [0.587], [0.114]])
        image = grey + saturation * (image - grey)
    return np.clip(image, 0, 255)


def resampling(length, start, cut):
    """(length, length): row i has the weights of the pixels of a side, for pixel i of the window that begins at `start`
    and is by `cut` shorter than the side, both in 2^-32 of it."""
    centre = np.arange(length) * (2 ** 32 - cut) + length * start - cut // 2
    centre = np.clip(centre / 2 ** 32, 0, length - 1)
    return np.maximum(0, 1 - np.abs(centre[:, None] - np.arange(length)))


def zoomed(image, zoom, draws):
    """The window, linearly resampled to the size of the image."""
    cut = int(draws[0]) * (int(zoom * 2 ** 32) + 1) >> 32
    top, left = (int(bits) * (cut + 1) >> 32 for bits in draws[1:3])
    h, w = image.shape[:2]
    return np.einsum("yr,xs,rsc->yxc", resampling(h, top, cut), resampling(w, left, cut), image)


def augmented(case, images, mean, std, pad, flip, stream, step, indices, zoom=0.0, colour=0.0):
    """A batch (n, h, w, c) from the definition: colour, normalise, pad with zeros, crop, zoom, flip."""
    h, w = images.shape[1:3]
    batch = []
    for b, index in enumerate(indices):
        draws = philox.bits(case.seed, (case.task << 32) + stream, 3, (step << 32) + 4 * b).astype(np.uint64)
        strong = philox.bits(case.seed, (case.task << 32) + (stream | STRONG), 7, (step << 32) + 8 * b)
        row, column = (int(draws[i] * np.uint64(2 * pad + 1) >> np.uint64(32)) for i in (0, 1))
        image = (coloured(images[index], colour, strong[4:7]) if colour else images[index]) / 255.0
        image = np.pad((image - mean) / std, ((pad, pad), (pad, pad), (0, 0)))[row:row + h, column:column + w]
        image = zoomed(image, zoom, strong[0:3]) if zoom else image
        batch.append(image[:, ::-1] if flip and draws[2] >> np.uint64(31) else image)
    return torch.from_numpy(np.stack(batch).copy())


def random_images(case, count, h, w, c):
    """Bytes, as float64 (count, h, w, c), and what they are normalised with."""
    images = (case.bits("images", count * h * w * c) >> np.uint32(24)).astype(np.float64).reshape(count, h, w, c)
    return images, case.fill("mean", (c,), 0.25, 0.5).numpy(), case.fill("std", (c,), 0.125, 0.25).numpy()


def normals(case, stream, step, n, c):
    """The draws of random_normal."""
    return torch.from_numpy(philox.normal(case.seed, (case.task << 32) + stream, n * c, step << 32).reshape(n, c))


def augment(file, name, **settings):
    case = Case(file, "augment/" + name, **settings)
    images, mean, std = random_images(case, case.count, case.h, case.w, case.c)
    order = philox.permutation(case.seed, case.order, case.count)[case.batch * case.n:][:case.n]
    case.store("batch", augmented(case, images, mean, std, case.pad, case.flip, case.stream, case.step, order,
                                  case.zoom, case.colour))


KINDS = ["identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate", "brightness", "colour", "contrast",
         "sharpness", "posterize", "solarize", "autocontrast", "equalize"]


def blended(byte, other, factor):
    """factor (in 1 / 3000) of one image and the rest of another, as bytes."""
    return (np.maximum(factor * byte + (3000 - factor) * other, 0) // 3000).clip(0, 255)


def moved_from(image, row, side):
    """Pixel (y, x) comes from the place that two rows of an affine map name, of centres of pixels; 0 from outside."""
    h, w = image.shape[:2]
    y, x = np.mgrid[0:h, 0:w] + 0.5
    down, across = (np.floor(r[0] * y + r[1] * x + r[2]).astype(int) for r in (row, side))
    inside = (down >= 0) & (down < h) & (across >= 0) & (across < w)
    return np.where(inside[..., None], image[down.clip(0, h - 1), across.clip(0, w - 1)], 0)


def operated(image, kind, strength, sign):
    """One operation of TrivialAugment on whole numbers (h, w, c)."""
    h, w, c = image.shape
    factor = 3000 + sign * 99 * strength
    grey = (image @ [299, 587, 114] // 1000 if c == 3 else image[..., 0])[..., None]
    if kind.startswith("shear"):
        shear = sign * 0.99 * strength / 30
        return moved_from(image, (1, shear * (kind == "shear-y"), 0), (shear * (kind == "shear-x"), 1, 0))
    if kind.startswith("translate"):
        down, across = (-sign * (min(side, 32) * strength // 30) for side in (h, w))
        return moved_from(image, (1, 0, down * (kind == "translate-y")), (0, 1, across * (kind == "translate-x")))
    if kind == "rotate":
        a = math.radians(4.5 * strength * sign)
        row, side = (math.cos(a), math.sin(a)), (-math.sin(a), math.cos(a))
        return moved_from(image, (*row, h / 2 - row[0] * h / 2 - row[1] * w / 2),
                          (*side, w / 2 - side[0] * h / 2 - side[1] * w / 2))
    if kind in ("brightness", "colour", "contrast"):
        other = {"brightness": 0 * grey, "colour": grey, "contrast": np.floor(grey.mean() + 0.5).astype(int)}[kind]
        return blended(image, other, factor)
    if kind == "sharpness":
        blur = image.copy()
        around = sum(image[1 + i:h - 1 + i, 1 + j:w - 1 + j] for i in (-1, 0, 1) for j in (-1, 0, 1))
        blur[1:-1, 1:-1] = (2 * (around + 4 * image[1:-1, 1:-1]) + 13) // 26
        return blended(image, blur, factor)
    if kind == "posterize":
        drop = round(strength / 5)
        return image >> drop << drop
    if kind == "solarize":
        return np.where(image >= 255 * (30 - strength) / 30, 255 - image, image)
    if kind == "autocontrast":
        low, high = image.min((0, 1)), image.max((0, 1))
        return np.where(high > low, 255 * (image - low) // np.maximum(high - low, 1), image)
    if kind == "equalize":
        result = image.copy()
        for k in range(c):
            count = np.bincount(image[..., k].ravel(), minlength=256)
            step = (h * w - count[image[..., k].max()]) // 255
            if step:
                result[..., k] = ((np.cumsum(count) - count + step // 2) // step).clip(0, 255)[image[..., k]]
        return result
    return image


def varied(case, image, stream, step, b, trivial, turns):
    """What sample b of a step becomes: the image, and its quarter turns."""
    d = [int(x) for x in philox.bits(case.seed, (case.task << 32) + stream, 4, (step << 32) + 4 * b)]
    kind, strength, sign = KINDS[d[0] * 14 >> 32], d[1] * 31 >> 32, -1 if d[2] >> 31 else 1
    turned = 1 + ((d[3] << 1 & 0xffffffff) * 3 >> 32) if turns and d[3] >> 31 else 0
    return np.rot90(operated(image, kind, strength, sign) if trivial else image, turned), turned


def turned_label(classes, n_old, label, turned):
    return label if turned == 0 else classes + (turned - 1) * (classes - n_old) + label - n_old


def vary(file, name, **settings):
    case = Case(file, "vary/" + name, **settings)
    images, _, _ = random_images(case, case.count, case.h, case.w, case.c)
    images = (images.astype(int) // case.dull + 20) % 256
    order = philox.permutation(case.seed, case.order, case.count)[case.batch * case.n:][:case.n]
    batch, labels = [], []
    for b, index in enumerate(order):
        image, turned = varied(case, images[index], case.stream, case.step, b, case.trivial, case.turns)
        label = case.n_old + int(index) % (case.classes - case.n_old)
        batch.append(image)
        labels.append(turned_label(case.classes, case.n_old, label, turned) if case.turns else 0)
    case.store("varied", torch.from_numpy(np.stack(batch).astype(np.float64)))
    case.store("turned", torch.tensor(labels).double())


def symmetric_beta(a, first, second):
    u, v = (float(first) + 0.5) / 2 ** 32, (float(second) + 0.5) / 2 ** 32
    spread = (u ** (-1 / a) - 1) * math.cos(2 * math.pi * v) ** 2
    return 0.5 + (0.5 if int(second) & 1 else -0.5) / math.sqrt(1 + 1 / spread)


def around(row, column, height, width, h, w):
    """A mask (h, w) of the box around a pixel."""
    y, x = torch.arange(h)[:, None] - (row - height // 2), torch.arange(w)[None, :] - (column - width // 2)
    return (y >= 0) & (y < height) & (x >= 0) & (x < width)


def mixed(case, images, stream, step, in_pairs):
    """Holes, then pairs, as their papers have it; and what the own label of each counts."""
    n, h, w = images.shape[:3]
    below = lambda bits, bound: int(bits) * bound >> 32
    result, share = images.clone(), torch.ones(n).double()
    draws = [philox.bits(case.seed, (case.task << 32) + stream, 8, (step << 32) + 8 * b) for b in range(n)]
    for b in range(n if case.cutout else 0):
        result[b][around(below(draws[b][0], h), below(draws[b][1], w), case.cutout, case.cutout, h, w)] = 0
    for b in range(0, n - 1 if in_pairs else 0, 2):
        d, one, two = draws[b], result[b].clone(), result[b + 1].clone()
        boxed = case.cutmix > 0 and (case.mixup == 0 or int(d[2]) >> 31 == 1)
        lam = symmetric_beta(case.cutmix if boxed else case.mixup, d[3], d[4])
        keep = torch.full((h, w, 1), lam, dtype=torch.float64)
        if boxed:
            side = math.sqrt(1 - lam)
            box = around(below(d[5], h), below(d[6], w), int(h * side), int(w * side), h, w)
            keep, lam = (~box)[:, :, None].double(), 1 - box.double().mean().item()
        result[b], result[b + 1] = keep * one + (1 - keep) * two, keep * two + (1 - keep) * one
        share[b] = share[b + 1] = lam
    return result, share


def mix(file, name, **settings):
    case = Case(file, "mix/" + name, **settings)
    images = case.fill("images", (case.n, case.h, case.w, case.c), 1, 0)
    result, share = mixed(case, images, case.stream, case.step, case.mixup or case.cutmix)
    case.store("mixed", result)
    case.store("share", share)


def noise(file, name, **settings):
    case = Case(file, "noise/" + name, **settings)
    case.store("noise", normals(case, case.stream, case.step, case.n, case.c))


def roll(file, name, **settings):
    """torch.roll by the two draws of the step, and its gradient by autograd."""
    case = Case(file, "roll/" + name, **settings)
    x = case.fill("x", (case.n, case.h, case.w, case.c), 1, 0).requires_grad_()
    draws = philox.bits(case.seed, (case.task << 32) + case.stream, 2, case.step << 32).astype(np.uint64)
    shift = [int(d * np.uint64(2 * case.range + 1) >> np.uint64(32)) - case.range for d in draws]
    moved = torch.roll(x, shift, dims=(1, 2))
    moved.backward(case.fill("dmoved", tuple(moved.shape), 1, 0))
    case.store("moved", moved)
    case.store("dx", x.grad)


def make():
    file = File()
    chains(file)
    average_pool(file, "small", n=3, h=4, w=5, c=6)
    average_pool(file, "large", n=2, h=14, w=14, c=32)
    dense(file, "head", n=9, inputs=64, outputs=21)
    dense(file, "small", n=3, inputs=5, outputs=2)
    optimise(file, "sgd", sgd, lr=0.1, momentum=0.9, weight_decay=5e-4)
    optimise(file, "sgd-plain", sgd, lr=0.25, momentum=0.0, weight_decay=0.0)
    optimise(file, "adam", adam, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8)
    plain = dict(zoom=0.0, colour=0.0)
    augment(file, "crop-and-flip", count=40, h=9, w=7, c=3, n=8, pad=4, flip=True, stream=5, task=2, step=3, batch=2,
            order=77, **plain)
    augment(file, "plain", count=12, h=5, w=5, c=1, n=4, pad=0, flip=False, stream=1, task=1, step=0, batch=1, order=3,
            **plain)
    augment(file, "flip", count=20, h=6, w=6, c=3, n=10, pad=0, flip=True, stream=1, task=7, step=70000, batch=0,
            order=4, **plain)
    augment(file, "zoom", count=20, h=9, w=7, c=3, n=10, pad=0, flip=False, stream=1, task=2, step=8, batch=1, order=5,
            zoom=0.75, colour=0.0)
    augment(file, "zoom-crop-and-flip", count=20, h=8, w=11, c=1, n=10, pad=3, flip=True, stream=6, task=4, step=9,
            batch=0, order=6, zoom=0.3125, colour=0.0)
    augment(file, "colour", count=20, h=5, w=6, c=3, n=10, pad=0, flip=False, stream=1, task=2, step=70001, batch=1,
            order=7, zoom=0.0, colour=0.625)
    augment(file, "colour-of-grey", count=20, h=5, w=6, c=1, n=10, pad=2, flip=True, stream=1, task=3, step=1, batch=1,
            order=8, zoom=0.0, colour=1.0)
    augment(file, "all", count=40, h=10, w=10, c=3, n=16, pad=2, flip=True, stream=1, task=1, step=3, batch=1, order=9,
            zoom=0.5, colour=0.375)
    vary(file, "trivial", count=200, h=9, w=7, c=3, n=90, dull=1, trivial=True, turns=False, n_old=0, classes=4, stream=11,
         task=2, step=8, batch=1, order=5)
    vary(file, "grey", count=100, h=21, w=23, c=1, n=60, dull=2, trivial=True, turns=False, n_old=0, classes=4, stream=11,
         task=3, step=70000, batch=0, order=6)
    vary(file, "turns", count=40, h=5, w=5, c=3, n=20, dull=3, trivial=False, turns=True, n_old=3, classes=8, stream=9,
         task=1, step=4, batch=1, order=7)
    vary(file, "both", count=40, h=19, w=19, c=3, n=40, dull=2, trivial=True, turns=True, n_old=5, classes=7, stream=11,
         task=5, step=2, batch=0, order=8)
    mix(file, "cutout", n=5, h=9, w=7, c=3, cutout=4, mixup=0.0, cutmix=0.0, stream=10, task=2, step=8)
    mix(file, "mixup", n=9, h=4, w=5, c=3, cutout=0, mixup=0.25, cutmix=0.0, stream=10, task=1, step=70000)
    mix(file, "cutmix", n=12, h=8, w=11, c=1, cutout=0, mixup=0.0, cutmix=1.0, stream=3, task=4, step=9)
    mix(file, "all", n=15, h=8, w=8, c=3, cutout=3, mixup=1.0, cutmix=0.5, stream=10, task=7, step=3)
    noise(file, "odd", n=3, c=37, stream=2, task=3, step=5)
    noise(file, "wide", n=4, c=1000, stream=3, task=1, step=4999)
    roll(file, "square", n=2, h=6, w=6, c=3, range=2, stream=3, task=1, step=17)
    roll(file, "oblong", n=3, h=4, w=7, c=1, range=9, stream=8, task=5, step=2)
    return file
