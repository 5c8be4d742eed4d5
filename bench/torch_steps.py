#!/usr/bin/env python3
"""The three whole steps in PyTorch, one step kind in one configuration per process. Started by torch_peer.py.

32 and 64 px take ResNet-32, 224 px takes ResNet-18. On a GPU a step may be captured as one CUDA graph.

Written the way someone who wants PyTorch fast would write it, not as the published code does: one pass of
the old model serves labels and HKD targets, BN is folded into the frozen nets' convolutions where nothing
needs the unfolded values, optimisers are the fused ones, DCE has no data-dependent shapes, and where
formulations of a loss compete (RKD, BN statistics) each process times them and keeps the fastest.
"""
import contextlib
import json
import math
import os
import platform
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

OLD_CLASSES, NEW_CLASSES, NOISE = 20, 20, 1000


# --- nets

def normalise(bn, x, watch):
    """watch, where given, sees every BN's input: inversion takes its statistics there."""
    if watch is not None:
        watch(bn, x)
    return bn(x)


class Block(nn.Module):
    """No ReLU after the addition. The shortcut of a widening block takes every second pixel, and appends zeros
    or, projected, goes through a 1x1 convolution."""

    def __init__(self, c_in, c_out, projected):
        super().__init__()
        self.widen = c_out - c_in
        stride = 2 if self.widen else 1
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.conv3 = nn.Conv2d(c_in, c_out, 1, stride, bias=False) if self.widen and projected else None
        self.bn3 = nn.BatchNorm2d(c_out) if self.conv3 is not None else None

    def forward(self, x, watch=None):
        y = F.relu(normalise(self.bn1, self.conv1(x), watch), inplace=True)
        y = normalise(self.bn2, self.conv2(y), watch)
        if self.conv3 is not None:
            x = normalise(self.bn3, self.conv3(x), watch)
        elif self.widen:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.widen))
        return y + x


class ResNet(nn.Module):
    """Images (n, 3, size, size) to features (n, last width). ResNet-18 is projected, and pools after the stem."""

    def __init__(self, widths, projected):
        super().__init__()
        self.features, self.pooled = widths[-1], projected
        self.conv = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(widths[0])
        self.blocks = nn.ModuleList([Block(a, b, projected) for a, b in zip(widths, widths[1:])])
        initialise(self)

    def forward(self, x, watch=None):
        x = F.relu(normalise(self.bn, self.conv(x), watch), inplace=True)
        if self.pooled:
            x = F.max_pool2d(x, 3, 2, 1)
        for block in self.blocks:
            x = block(x, watch)
        return x.mean((2, 3))


def initialise(net):
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(m, nn.BatchNorm2d):   # as after some training, not with the zeros it starts from
            nn.init.uniform_(m.weight, 0.3, 0.7)


def backbone(size):
    if size == 224:
        return ResNet([64, 64, 64, 128, 128, 256, 256, 512, 512], projected=True)
    return ResNet([16] * 6 + [32] * 5 + [64] * 5, projected=False)


def settled_resnet(size):
    """A frozen net whose running statistics belong to its weights, as training would have left it."""
    net = backbone(size)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = None
    with torch.no_grad():
        net(torch.randn(16, 3, size, size))
    return net.eval().requires_grad_(False)


def fold_bn(net):
    """Folds every BN of a frozen net into the convolution before it."""
    def pair(owner, conv, bn):
        setattr(owner, conv, nn.utils.fuse_conv_bn_eval(getattr(owner, conv), getattr(owner, bn)))
        setattr(owner, bn, nn.Identity())
    pair(net, "conv", "bn")
    for block in net.blocks:
        pair(block, "conv1", "bn1")
        pair(block, "conv2", "bn2")
        if block.conv3 is not None:
            pair(block, "conv3", "bn3")
    return net


def generator(size, folded):
    """Noise (n, 1000) to images. Folded: for sampling from the finished generator, BN is in the weights."""
    first, widths = {32: (128, [128, 64]), 64: (128, [128, 128, 64]), 224: (64, [64] * 5)}[size]
    side = size >> len(widths)
    layers = [nn.Linear(NOISE, first * side * side), nn.Unflatten(1, (first, side, side)), nn.BatchNorm2d(first)]
    for c_in, c_out in zip([first] + widths, widths):
        bn = [] if folded else [nn.BatchNorm2d(c_out, 0.8)]
        layers += [nn.Upsample(scale_factor=2), nn.Conv2d(c_in, c_out, 3, 1, 1), *bn,
                   nn.LeakyReLU(0.2, inplace=True)]
    layers += [nn.Conv2d(64, 3, 3, 1, 1), nn.Tanh(), nn.BatchNorm2d(3, affine=False)]
    return nn.Sequential(*layers)


def head(rows, features):
    return nn.Parameter(0.1 * torch.randn(rows, features))


# --- formulations that compete

def angles_cube(e):
    """a_ijk = <u_ij, u_ik>, u_ij = normalise(e_j - e_i), as published: B^3 * D multiplications."""
    u = F.normalize(e[None] - e[:, None], dim=2)
    return torch.bmm(u, u.transpose(1, 2))


def angles_gram(e):
    """The same from the centred Gram matrix: (g_jk - g_ij - g_ik + g_ii) / (n_ij n_ik), 0 at i=j, i=k."""
    e = e - e.mean(0)
    g = e @ e.t()
    half = 0.5 * g.diagonal()[:, None]
    c = g - half
    off = ~torch.eye(len(e), dtype=torch.bool, device=e.device)
    r = torch.where(off, torch.where(off, 2 * (half.t() - c), 1.0).clamp(min=1e-24).rsqrt(), 0.0)
    return (g[None] - (c[:, :, None] + c[:, None])) * (r[:, :, None] * r[:, None])


def moments_var_mean(x):
    """Biased variance and mean of (n, c, h, w) per channel."""
    return torch.var_mean(x, (0, 2, 3), correction=0)


def moments_sums(x):
    m = x.mean((0, 2, 3))
    return (x * x).mean((0, 2, 3)) - m * m, m


def moments_transposed(x):
    return x.transpose(0, 1).flatten(1).var(1, correction=0), x.mean((0, 2, 3))


def fastest(functions, compiled, run):
    """The function for which run(compiled(function)) takes least, by the minimum of several runs."""
    def seconds(function):
        function = compiled(function)
        run(function)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            run(function)
            times.append(time.perf_counter() - start)
        return min(times)
    return min(functions, key=seconds)


# --- the steps: each holds its nets and says what its loss is

class TrainFirst:
    """Task 1: cross-entropy over a head of 20 rows, SGD."""

    def __init__(self, job, layout, _compiled):
        self.note = ""
        self.net = backbone(job["size"]).to(memory_format=layout)
        self.head = head(NEW_CLASSES, self.net.features)
        self.inputs = (torch.randn(job["batch"], 3, job["size"], job["size"]).to(memory_format=layout),
                       torch.randint(NEW_CLASSES, (job["batch"],)))
        self.optimiser = sgd(*self.net.parameters(), self.head)

    def loss(self, x, y):
        return F.cross_entropy(self.net(x).float() @ self.head.t(), y)


class TrainNext:
    """Task >= 2 of CwD: LCE on real images, HKD on dreams, RKD with trained projections, WAR on the head."""

    def __init__(self, job, layout, compiled):
        size, self.batch = job["size"], job["batch"]
        self.student = backbone(size).to(memory_format=layout)
        features = self.features = self.student.features
        self.head = head(OLD_CLASSES + NEW_CLASSES, features)
        self.teacher = fold_bn(settled_resnet(size)).to(memory_format=layout)
        self.teacher_head = head(OLD_CLASSES, features).requires_grad_(False)
        self.dreamer = generator(size, folded=True).eval().requires_grad_(False).to(memory_format=layout)
        self.project_s, self.project_t = nn.Linear(features, 2 * features), nn.Linear(features, 2 * features)
        self.label_count = torch.zeros(OLD_CLASSES + NEW_CLASSES, dtype=torch.long)
        alpha, beta = math.log2(NEW_CLASSES / 2 + 1), math.sqrt(OLD_CLASSES / NEW_CLASSES)
        self.weights = 0.5 * (1 + 1 / alpha) / beta, 0.15 * alpha * beta, 0.5 * alpha * beta, 0.1
        self.angles = self.choose_angles(compiled)
        self.note = self.angles.__name__
        self.inputs = (torch.randn(self.batch, 3, size, size).to(memory_format=layout),
                       torch.randint(OLD_CLASSES, OLD_CLASSES + NEW_CLASSES, (self.batch,)))
        self.optimiser = sgd(*self.student.parameters(), self.head, *self.project_s.parameters(),
                             *self.project_t.parameters())

    def choose_angles(self, compiled):
        a, b = (torch.randn(self.batch, 2 * self.features, requires_grad=True) for _ in range(2))
        if not torch.allclose(angles_cube(a), angles_gram(a), atol=1e-4):
            raise SystemExit("the two forms of RKD's angles disagree")
        return fastest((angles_cube, angles_gram), compiled, lambda f: F.l1_loss(f(a), f(b)).backward())

    def loss(self, x, y):
        with torch.no_grad():
            dreams = self.dreamer(torch.randn(self.batch, NOISE, device=self.head.device))
            target = self.teacher(dreams).float() @ self.teacher_head.t()
            labels = torch.cat((y, target.argmax(1)))
            self.label_count.index_add_(0, labels, torch.ones_like(labels))
            teacher_features = self.teacher(x).float()
        features = self.student(x).float()
        lce = F.cross_entropy(features @ self.head[OLD_CLASSES:].t(), y - OLD_CLASSES)
        hkd = F.l1_loss(self.student(dreams).float() @ self.head[:OLD_CLASSES].t(), target)
        rkd = F.l1_loss(self.angles(self.project_s(features)), self.angles(self.project_t(teacher_features)))
        norm = self.head.norm(dim=1)
        old, new = norm[:OLD_CLASSES], norm[OLD_CLASSES:]
        war = (old - new.mean()).abs().sum() + (new - old.mean()).abs().sum()
        return sum(weight * term for weight, term in zip(self.weights, (lce, hkd, rkd, war)))


class Inversion:
    """Generator training against a frozen classifier: cross-entropy, diversity, BN statistics, DCE; Adam."""

    def __init__(self, job, layout, compiled):
        size, self.batch = job["size"], job["batch"]
        self.dreamer = generator(size, folded=False).train().to(memory_format=layout)
        self.classifier = settled_resnet(size).to(memory_format=layout)
        features = self.classifier.features
        self.head = head(OLD_CLASSES, features).requires_grad_(False)
        self.target_mean, self.target_cov = torch.randn(OLD_CLASSES, features), torch.eye(features)
        self.run_mean, self.run_cov = torch.zeros(OLD_CLASSES, features), torch.zeros(features, features)
        self.seen = torch.zeros(OLD_CLASSES, dtype=torch.bool)
        probe = torch.randn(self.batch, 16, size, size).to(memory_format=layout).requires_grad_()
        self.moments = fastest((moments_var_mean, moments_sums, moments_transposed), compiled,
                               lambda f: sum(t.sum() for t in f(probe)).backward())
        self.note = self.moments.__name__
        self.inputs = ()
        self.optimiser = torch.optim.Adam(self.dreamer.parameters(), 1e-3, fused=True, capturable=job["graph"])

    def dce(self, h, labels):
        """Moving averages start once every old class has been dreamt at least once."""
        average = self.seen.all()
        one_hot = F.one_hot(labels, OLD_CLASSES).to(h.dtype)
        count = one_hot.sum(0)
        present = count > 0
        mean = one_hot.t() @ h / count.clamp(min=1)[:, None]
        residual = h - mean[labels]
        residual = residual - residual.mean(0)
        cov = residual.t() @ residual / (self.batch - 1)
        mean = torch.where(average, 0.9 * self.run_mean + 0.1 * mean, mean)
        mean = torch.where(present[:, None], mean, self.run_mean)
        cov = torch.where(average, 0.9 * self.run_cov + 0.1 * cov, cov)
        loss = ((self.target_mean - mean) * present[:, None]).norm() + (self.target_cov - cov).norm()
        self.run_mean.copy_(mean.detach())
        self.run_cov.copy_(cov.detach())
        self.seen |= present
        return loss

    def loss(self):
        terms = []

        def watch(bn, x):
            v, m = self.moments(x.float())
            v = v + 1e-8
            terms.append((torch.log(v / (bn.running_var + 1e-8)) - 1 +
                          (bn.running_var + (bn.running_mean - m) ** 2 + 1e-8) / v).mean())

        dreams = self.dreamer(torch.randn(self.batch, NOISE, device=self.head.device))
        features = self.classifier(dreams, watch).float()
        logits = features @ self.head.t()
        labels = logits.detach().argmax(1)
        p = logits.softmax(1).mean(0)
        diversity = 1 + (p * (p + 1e-6).log()).sum() / math.log(OLD_CLASSES)
        statistics = 0.5 * sum(terms) / len(terms)
        return (F.cross_entropy(logits / 1000, labels) + diversity + 50 * statistics +
                0.05 * self.dce(features, labels))


STEPS = {"train_first": TrainFirst, "train_next": TrainNext, "inversion": Inversion}


def sgd(*parameters):
    return torch.optim.SGD(parameters, 0.01, momentum=0.9, weight_decay=5e-4, fused=True)


def build_step(job):
    """Returns (step, note): step() does one whole step and returns the loss; note names the formulation."""
    layout = torch.channels_last if job["channels_last"] else torch.contiguous_format

    def compiled(function):
        return torch.compile(function, dynamic=False) if job["compile"] else function

    def precision():
        return torch.autocast(job["device"], torch.bfloat16) if job["bf16"] else contextlib.nullcontext()

    kind = STEPS[job["step"]](job, layout, compiled)
    loss_function = compiled(kind.loss)

    def step():
        kind.optimiser.zero_grad(set_to_none=True)
        with precision():
            loss = loss_function(*kind.inputs)
        with torch.backends.mkldnn.flags(job["onednn_backward"]):
            loss.backward()
        kind.optimiser.step()
        return loss.detach()
    return (captured(step) if job["graph"] else step), kind.note


def captured(step):
    """The step as one CUDA graph; its loss lies where the capture put it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss
    return replay


# --- the process

def peak_bytes(job, before):
    """Of the device's memory where the step runs on one, of the process otherwise."""
    return torch.cuda.max_memory_allocated() if job["device"] == "cuda" else peak_rss_bytes() - before


def peak_rss_bytes():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def fp32_error():
    """Relative error of a convolution against double: near 1e-7 in fp32, 1e-3 where bf16 slips in."""
    x, w = torch.randn(4, 16, 16, 16, requires_grad=True), torch.randn(16, 16, 3, 3, requires_grad=True)
    fast = F.conv2d(x, w, padding=1).double()
    exact = F.conv2d(x.double(), w.double(), padding=1)
    error = (fast - exact).norm() / exact.norm()
    error.backward()   # also loads the libraries' backward code, before memory is counted
    return error.item()


def profile_table(step):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as record:
        for _ in range(3):
            step()
    return record.key_averages().table(sort_by="self_cpu_time_total", row_limit=16, max_name_column_width=48)


def steps_together(job, step):
    """A step of the GPU is too short for a clock around it: as many as fill a quarter of a second."""
    if job["device"] != "cuda":
        return 1
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    return max(1, round(0.25 / ((time.perf_counter() - start) / 5)))


def measure(job, step, count, inner):
    milliseconds, loss, cpu = [], None, time.process_time()
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(inner):
            loss = step()
        if job["device"] == "cuda":
            torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - start) / inner)
    cpu = 1e3 * (time.process_time() - cpu) / count / inner
    if not math.isfinite(float(loss)):
        raise SystemExit("the loss is %s: expected a finite number" % float(loss))
    return {"ms": milliseconds, "cpu_ms": cpu}


def main():
    """Builds the step when told to and says so, then answers each line "N" on stdin with one JSON line about N steps;
    with "profile", sends the profile."""
    protocol = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)   # compilers and libraries may write to stdout; the protocol has a descriptor of its own
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.set_default_device(job["device"])
    if job["device"] == "cuda":
        torch.backends.cudnn.benchmark = True
    else:
        torch.set_float32_matmul_precision("highest")
    torch.backends.mkldnn.set_flags(job["onednn"])
    torch.manual_seed(0)
    error = fp32_error()
    before = peak_rss_bytes()
    if error > 1e-5 and job["device"] == "cpu":
        raise SystemExit("convolution is not in fp32: relative error %.1e" % error)
    sys.stdin.readline()   # "prepare"
    step, note = build_step(job)
    for _ in range(3):
        step()
    together = steps_together(job, step)
    protocol.write(json.dumps({"version": torch.__version__, "note": note, "fp32_error": error}) + "\n")
    if job["profile"]:
        protocol.write(json.dumps({"table": profile_table(step)}) + "\n")
    for line in sys.stdin:
        figures = measure(job, step, int(line), together)
        protocol.write(json.dumps(dict(figures, peak_bytes=peak_bytes(job, before))) + "\n")


if __name__ == "__main__":
    main()
