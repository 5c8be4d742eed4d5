"""The published nets in PyTorch, with the names that the C builders give to parameters.

A net is a function of a Net, which makes each parameter when it is first used, and of its input.
"""
import torch
import torch.nn.functional as F

from fixture import f32

BN_EPS, BN_MOMENTUM = f32(1e-5), f32(0.1)
KINK_DISTANCE = 1e-5  # of the root mean square of a layer's arguments; floats are off by 1e-6 at the end of a deep net


class Net:
    """Parameters and running statistics of one net. `statistics`, if it is a list, collects the batch statistics and
    the running ones of what goes into every normalisation."""

    def __init__(self, case, forward, prefix="", training=True):
        self.case, self.forward, self.prefix, self.training = case, forward, prefix, training
        self.parameters, self.running = {}, {}
        self.without_gradient = set()
        self.statistics, self.nudging, self.groups = None, False, None

    def __call__(self, x):
        return self.forward(self, x)

    def freeze(self):
        """Eval mode, no gradients of parameters from here on."""
        self.training = False
        for parameter in self.parameters.values():
            parameter.requires_grad_(False)
        return self

    def avoid_kinks(self, x, groups=None):
        """Runs once over x, moving biases so that no ReLU has an argument near 0; see fixture.py. The nudges belong to
        the case: nets that are made of it afterwards have them. `groups`: sizes of what is normalised apart."""
        self.nudging, self.groups = True, groups
        with torch.no_grad():
            return self(x)

    def nudge(self, name, z, kinks=(0.0,)):
        """The least multiple of 2^-10 that keeps a channel's arguments away from the kinks."""
        least = KINK_DISTANCE * z.square().mean().sqrt()
        channels = z.transpose(0, 1).flatten(1)

        def distance(values):
            return torch.stack([(values - kink).abs() for kink in kinks]).amin(0)

        for channel in (distance(channels).min(1).values < least).nonzero().flatten().tolist():
            before = float(self.parameters[name][channel])
            for step in range(2, 1000):
                delta = (step // 2) * (-1) ** step * 2.0 ** -10
                moved = f32(before + delta) - before
                if distance(channels[channel] + moved).min() >= least:
                    break
            self.case.nudge(self.prefix + name, channel, delta)
            self.parameters[name].data[channel] += moved
            z[:, channel] += moved

    def settle_gradients(self):
        """A bias per channel that goes into a normalisation with batch statistics has no gradient. Autograd leaves
        noise, which Adam would blow up to whole steps: exactly zero is what C has."""
        for name in self.without_gradient:
            gradient, of_weight = (self.parameters[key].grad for key in (name, name.replace(".bias", ".weight")))
            assert gradient.abs().max() < 1e-10 * of_weight.abs().max(), name
            gradient.zero_()

    def parameter(self, name, shape):
        if name not in self.parameters:
            value = self.case.parameter(self.prefix + name, shape)
            self.parameters[name] = value.requires_grad_(self.training)
        return self.parameters[name]

    def statistic(self, name, c):
        if name not in self.running:
            self.running[name] = self.case.parameter(self.prefix + name, (c,))
        return self.running[name]

    # ---- layers ----------------------------------------------------------------------------------------------------

    def conv(self, name, x, c_out, k, stride=1, pad=None, bias=False, up=1, transposed=False):
        c_in = x.shape[1]
        weight = self.parameter(name + ".weight", (c_in, c_out, k, k) if transposed else (c_out, c_in, k, k))
        shift = self.parameter(name + ".bias", (c_out,)) if bias else None
        if up > 1:
            x = F.interpolate(x, scale_factor=up, mode="nearest")
        convolve = F.conv_transpose2d if transposed else F.conv2d
        return convolve(x, weight, shift, stride=stride, padding=(k - 1) // 2 if pad is None else pad)

    def linear(self, name, x, out):
        return F.linear(x, self.parameter(name + ".weight", (out, x.shape[1])), self.parameter(name + ".bias", (out,)))

    def depthwise(self, name, x, k, stride, pad=None):
        weight = self.parameter(name + ".weight", (x.shape[1], 1, k, k))
        return F.conv2d(x, weight, stride=stride, padding=(k - 1) // 2 if pad is None else pad, groups=x.shape[1])

    def bn(self, name, x, eps=BN_EPS, affine=True, after=None, momentum=BN_MOMENTUM):
        """`after` names the convolution in front, if that has a bias."""
        c = x.shape[1]
        if after and self.training:
            self.without_gradient.add(after + ".bias")
        gamma = self.parameter(name + ".weight", (c,)) if affine else None
        beta = self.parameter(name + ".bias", (c,)) if affine else None
        mean, var = self.statistic(name + ".running_mean", c), self.statistic(name + ".running_var", c)
        if self.statistics is not None:
            self.statistics.append((x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False), mean, var))
        parts = x.split(self.groups) if self.groups else [x]
        return torch.cat([F.batch_norm(part, mean, var, gamma, beta, self.training, momentum, eps)
                          for part in parts])

    def relu(self, z, bias):
        """`bias` names the parameter that moves a channel of z as a whole."""
        if self.nudging:
            self.nudge(bias, z)
        return torch.relu(z)

    def relu6(self, z, bias):
        if self.nudging:
            self.nudge(bias, z, (0.0, 6.0))
        return F.relu6(z)

    def leaky_relu(self, z, bias):
        if self.nudging:
            self.nudge(bias, z)
        return F.leaky_relu(z, 0.2)

    def max_pool(self, x, k, stride, pad):
        if self.nudging:
            windows = F.unfold(F.pad(x, (pad,) * 4, value=-1e30), k, stride=stride)
            best = windows.reshape(x.shape[0], x.shape[1], k * k, -1).topk(2, dim=2).values
            gaps = (best[:, :, 0] - best[:, :, 1])[best[:, :, 0] > 0]  # equal zeros after a ReLU have no slope
            assert gaps.min() > KINK_DISTANCE / 4, "two pixels of a window are nearly equal: take another seed"
        return F.max_pool2d(x, k, stride, pad)


# ---- residual nets -------------------------------------------------------------------------------------------------

def shortcut(x, c_out, stride, before):
    """Every second pixel; `before` zero channels in front, the rest behind."""
    if stride == 1:
        return x
    return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, before, c_out - x.shape[1] - before))


def cifar_block(net, name, x, c_out, stride, last_relu, pad_both):
    y = net.relu(net.bn(f"{name}.bn_a", net.conv(f"{name}.conv_a", x, c_out, 3, stride)), f"{name}.bn_a.bias")
    y = net.bn(f"{name}.bn_b", net.conv(f"{name}.conv_b", y, c_out, 3))
    y = y + shortcut(x, c_out, stride, c_out // 4 if pad_both else 0)
    return net.relu(y, f"{name}.bn_b.bias") if last_relu else y


def cifar_net(net, x, width, stages, blocks_name, last_relu=False, pad_both=False, extra_block=False):
    x = net.relu(net.bn("bn_1", net.conv("conv_1_3x3", x, width, 3)), "bn_1.bias")
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            x = cifar_block(net, f"stage_{stage + 1}{blocks_name}.{i}", x, width << stage, 2 if stage and i == 0 else 1,
                            last_relu, pad_both)
    if extra_block:
        x = cifar_block(net, "stage_4", x, width << (len(stages) - 1), 1, last_relu, pad_both)
    return x.mean((2, 3))


def resnet32(net, x):
    """2.1: no ReLU after additions; fifteen blocks, the last one a stage of its own."""
    return cifar_net(net, x, 16, (5, 5, 4), ".blocks", extra_block=True)


def resnet32_abd(net, x):
    """2.4: ReLU after every addition, zero channels on both sides."""
    return cifar_net(net, x, 16, (5, 5, 5), "", last_relu=True, pad_both=True)


def resnet_small(width, blocks):
    return lambda net, x: cifar_net(net, x, width, (blocks,) * 3, ".blocks")


def imagenet_block(net, name, x, c_out, stride, last_relu, projection):
    y = net.relu(net.bn(f"{name}.bn1", net.conv(f"{name}.conv1", x, c_out, 3, stride)), f"{name}.bn1.bias")
    y = net.bn(f"{name}.bn2", net.conv(f"{name}.conv2", y, c_out, 3))
    if stride > 1:
        x = net.bn(f"{name}.{projection}.1", net.conv(f"{name}.{projection}.0", x, c_out, 1, stride))
    y = y + x
    return net.relu(y, f"{name}.bn2.bias") if last_relu else y


def imagenet_net(net, x, max_pool, last_relu, projection):
    x = net.relu(net.bn("bn1", net.conv("conv1", x, 64, 3)), "bn1.bias")
    if max_pool:
        x = net.max_pool(x, 3, 2, 1)
    for stage in range(4):
        for i in range(2):
            x = imagenet_block(net, f"layer{stage + 1}.{i}", x, 64 << stage, 2 if stage and i == 0 else 1,
                               last_relu or i == 0, projection)
    return x.mean((2, 3))


def resnet18(net, x):
    """2.2: stride-1 stem with pooling; no ReLU after the second block of a stage."""
    return imagenet_net(net, x, True, False, "downsample")


def resnet18_mammoth(net, x):
    """2.5: no pooling, ReLU after every addition."""
    return imagenet_net(net, x, False, True, "shortcut")


# ---- published nets, as their modules are written ------------------------------------------------------------------

def cifar_resnet(depth):
    """akamaster's: (depth - 2) / 6 blocks a stage, zero channels on both sides, ReLU after every addition."""
    def forward(net, x):
        x = net.relu(net.bn("bn1", net.conv("conv1", x, 16, 3)), "bn1.bias")
        for stage in range(3):
            for i in range((depth - 2) // 6):
                name, c_out, stride = f"layer{stage + 1}.{i}", 16 << stage, 2 if stage and i == 0 else 1
                y = net.bn(f"{name}.bn1", net.conv(f"{name}.conv1", x, c_out, 3, stride))
                y = net.bn(f"{name}.bn2", net.conv(f"{name}.conv2", net.relu(y, f"{name}.bn1.bias"), c_out, 3))
                x = net.relu(y + shortcut(x, c_out, stride, c_out // 4), f"{name}.bn2.bias")
        return x.mean((2, 3))
    return forward


def torchvision_resnet18(net, x):
    x = net.max_pool(net.relu(net.bn("bn1", net.conv("conv1", x, 64, 7, 2)), "bn1.bias"), 3, 2, 1)
    for stage in range(4):
        for i in range(2):
            x = imagenet_block(net, f"layer{stage + 1}.{i}", x, 64 << stage, 2 if stage and i == 0 else 1, True,
                               "downsample")
    return x.mean((2, 3))


def mobilenet_v2(net, x):
    """torchvision's."""
    def layer(name, x, convolution, *arguments, active=True, bn=None):
        z = net.bn(bn or f"{name}.1", convolution(name if bn else f"{name}.0", x, *arguments))
        return net.relu6(z, f"{bn or name + '.1'}.bias") if active else z

    x = layer("features.0", x, net.conv, 32, 3, 2)
    number = 1
    for widening, c_out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            name, step, y = f"features.{number}.conv", stride if i == 0 else 1, x
            place = 0
            if widening > 1:
                y = layer(f"{name}.0", y, net.conv, widening * x.shape[1], 1)
                place = 1
            y = layer(f"{name}.{place}", y, net.depthwise, 3, step)
            y = layer(f"{name}.{place + 1}", y, net.conv, c_out, 1, bn=f"{name}.{place + 2}", active=False)
            x = x + y if step == 1 and x.shape[1] == c_out else y
            number += 1
    return layer("features.18", x, net.conv, 1280, 1).mean((2, 3))


def pad_same(x, k, stride):
    """TensorFlow's padding: ceil(size / stride) pixels come out, and the odd pixel of the border is behind."""
    def border(size):
        whole = max((-(-size // stride) - 1) * stride + k - size, 0)
        return whole // 2, whole - whole // 2
    return F.pad(x, (*border(x.shape[3]), *border(x.shape[2])))


def efficientnet_lite0(net, x):
    def bn(name, z):
        return net.bn(name, z, f32(1e-3), momentum=f32(0.01))

    def conv(name, x, c_out, k, stride):
        return net.conv(name, pad_same(x, k, stride), c_out, k, stride, 0)

    def window(name, x, k, stride):
        return net.depthwise(name, pad_same(x, k, stride), k, stride, 0)

    x = net.relu6(bn("_bn0", conv("_conv_stem", x, 32, 3, 2)), "_bn0.bias")
    number = 0
    for blocks, k, stride, widening, c_out in ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80),
                                               (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)):
        for i in range(blocks):
            name, step, y = f"_blocks.{number}", stride if i == 0 else 1, x
            if widening > 1:
                y = net.relu6(bn(f"{name}._bn0", conv(f"{name}._expand_conv", y, widening * x.shape[1], 1, 1)),
                              f"{name}._bn0.bias")
            y = net.relu6(bn(f"{name}._bn1", window(f"{name}._depthwise_conv", y, k, step)), f"{name}._bn1.bias")
            y = bn(f"{name}._bn2", conv(f"{name}._project_conv", y, c_out, 1, 1))
            x = x + y if step == 1 and x.shape[1] == c_out else y
            number += 1
    return net.relu6(bn("_bn1", conv("_conv_head", x, 1280, 1, 1)), "_bn1.bias").mean((2, 3))


# ---- nets that make images -----------------------------------------------------------------------------------------

def generator(c, size, doublings, width, last_width):
    """2.6. The inner normalisations have eps 0.8."""
    def forward(net, z):
        start = size >> doublings
        x = net.linear("linear", z, width * start * start).reshape(-1, width, start, start)
        x = net.bn("bn_0", x)
        for i in range(1, doublings + 1):
            x = net.conv(f"conv_{i}", x, width if i < doublings else last_width, 3, bias=True, up=2)
            x = net.leaky_relu(net.bn(f"bn_{i}", x, f32(0.8), after=f"conv_{i}"), f"bn_{i}.bias")
        x = torch.tanh(net.conv(f"conv_{doublings + 1}", x, c, 3, bias=True))
        return net.bn(f"bn_{doublings + 1}", x, affine=False)
    return forward


GENERATORS = {28: (2, 128, 64), 32: (2, 128, 64), 64: (3, 128, 64), 84: (2, 128, 64), 224: (5, 64, 64)}


def vae_encoder_of(width):
    """2.7: mean and log-variance. The published width is 512."""
    def forward(net, x):
        for i, c_out in enumerate((width // 8, width // 4, width)):
            x = net.relu(net.conv(f"conv_{i + 1}", x, c_out, 4, 2, 1, bias=True), f"conv_{i + 1}.bias")
        # a linear layer over the flattened map; its weights are kept as a convolution as large as the map
        return tuple(net.conv(name, x, 2 * width, x.shape[2], pad=0, bias=True).flatten(1)
                     for name in ("mean", "log_variance"))
    return forward


def vae_decoder_of(c, size, width):
    def forward(net, z):
        x = net.linear("linear", z, width * (size // 8) ** 2).reshape(-1, width, size // 8, size // 8)
        x = net.relu(net.conv("deconv_1", x, width // 2, 4, 2, 1, bias=True, transposed=True), "deconv_1.bias")
        x = net.relu(net.conv("deconv_2", x, width // 8, 4, 2, 1, bias=True, transposed=True), "deconv_2.bias")
        return torch.sigmoid(net.conv("deconv_3", x, c, 4, 2, 1, bias=True, transposed=True))
    return forward


def vae_encoder(net, x):
    return vae_encoder_of(512)(net, x)


def vae_decoder(c, size):
    return vae_decoder_of(c, size, 512)
